"""An agent asks a real client, is recorded, and is re-executed with the server switched off."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.models import AnthropicModel, OpenAICompatibleModel
from tests.support.model_server import ANTHROPIC_PATH, OPENAI_PATH, ModelServer, answers_in

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "models"


@refold.tool(effect="reads")
def search(query: str) -> str:
    """Search for a word."""
    return f"{query} come twice a day"


def _served(provider: str, path: str) -> ModelServer:
    turns = [FIXTURES / provider / f"{name}.json" for name in ("one_call", "text")]
    return ModelServer({path: [answer for turn in turns for answer in answers_in(turn)]})


def _openai(server: ModelServer) -> Any:
    return OpenAICompatibleModel("any-model", base_url=server.openai_url)


def _anthropic(server: ModelServer) -> Any:
    return AnthropicModel("any-model", base_url=server.url)


@pytest.mark.parametrize(
    ("provider", "path", "make"),
    [("openai", OPENAI_PATH, _openai), ("anthropic", ANTHROPIC_PATH, _anthropic)],
)
def test_an_agent_is_replayed_with_the_server_off(
    provider: str, path: str, make: Any, tmp_path: Path
) -> None:
    """Case 10: two requests, one tool call between them; the replay asks and runs nothing."""
    with _served(provider, path) as server:
        recording = refold.record(
            "agent",
            {"agent": {"name": "reporter"}, "task": "When are the tides?"},
            log=tmp_path / "agent.jsonl",
            tools=[search],
            model=make(server),
        )
        asked = len(server.received)

    report = refold.reexecute(recording.log)

    assert (recording.status, asked) == ("completed", 2), recording
    assert refold.state(recording.log).tools_used == ("search",)
    assert report.identical, report
    assert refold.verify(recording.log).complete
