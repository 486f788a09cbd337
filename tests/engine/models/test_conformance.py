"""Each model reads each provider's recorded answer alike, wherever the server is."""

import asyncio
from pathlib import Path
from typing import Any, Final

import pytest

from refold.engine.errors import ModelError
from refold.engine.models import model_from
from refold.engine.ports.ports import ModelRequest
from tests.support.model_server import ANTHROPIC_PATH, OPENAI_PATH, ModelServer, answers_in

FIXTURES: Final = Path(__file__).resolve().parents[3] / "fixtures" / "models"
MODELS: Final = {
    "openai": ("openai:m", "pydantic:openai-chat:m"),
    "anthropic": ("anthropic:m", "pydantic:anthropic:m"),
}
"""Ours first, then those of frameworks."""
LOST: Final = {
    "openai/local_server": "the framework refuses the answer",
    "openai/own_word": "the framework has one word for a filter and a refusal",
    "openai/refusal": "the framework drops the text of a refusal",
    "anthropic/bad_arguments": "the framework refuses a whole number of 21 digits",
    "anthropic/own_word": "the framework has no word for a pause",
}
"""What Pydantic AI does not give on."""


def read(spec: str, path: Path) -> Any:
    """Return what a model makes of a recorded answer, or the kind of its error."""
    at = OPENAI_PATH if path.parent.name == "openai" else ANTHROPIC_PATH
    with ModelServer({at: answers_in(path) * 3}) as server:
        url = server.openai_url if at == OPENAI_PATH else server.url
        try:
            found: Any = model_from(spec, url).complete(ASKED)
            reply = asyncio.run(found) if asyncio.iscoroutine(found) else found
        except ModelError as error:
            return str(error.code)
    return reply.message, reply.stop_reason


ASKED: Final = ModelRequest(messages=({"role": "user", "content": "Tides?"},))


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


def neutral(found: Any) -> Any:
    """Return an answer without what only its own model reads."""
    if isinstance(found, str):
        return "an error"
    message, reason = found
    return {name: value for name, value in message.items() if name != "provider"}, reason


@pytest.mark.parametrize(
    "name",
    [
        "openai/one_call",
        *(
            pytest.param(f"{path.parent.name}/{path.stem}", marks=pytest.mark.long)
            for path in sorted(FIXTURES.glob("*/*.json"))
            if path.stem not in ("busy_then_text", "http_500", "one_call")  # they wait
        ),
        "anthropic/one_call",
    ],
)
def test_an_answer_is_read_alike(name: str) -> None:
    path = FIXTURES / f"{name}.json"
    both = {spec: (read(spec, path), read(spec, path)) for spec in MODELS[path.parent.name]}
    differ = {spec: two for spec, two in both.items() if two[0] != two[1]}
    ours, *others = (neutral(one) for one, _ in both.values())

    assert differ == {}, "the address of the server is in the answer"
    assert [each == ours for each in others] == [name not in LOST], both
