"""Models and adapters read each provider's recorded answer alike, wherever the server is."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

import attrs
import pytest

import refold
from refold.engine.errors import ModelError
from refold.engine.log.reader import read_entries
from refold.engine.models import model_from
from refold.engine.ports import ports
from tests.support.api_answers import chat_events, messages_events, sse
from tests.support.model_server import (
    ANTHROPIC_PATH,
    OPENAI_PATH,
    Answer,
    ModelServer,
    answers_in,
)

FIXTURES: Final = Path(__file__).resolve().parents[3] / "fixtures" / "models"
ASKED: Final = ports.ModelRequest(messages=({"role": "user", "content": "Tides?"},))

# --- ways to read an answer: each gives the message, the reason for its end and the tokens -----


def of_model(spec: str, url: str, _log: Path) -> Any:
    """Return what a model of Refold's makes of an answer, or the code of its error."""
    try:
        found: Any = model_from(spec, url).complete(ASKED)
        reply = asyncio.run(found) if asyncio.iscoroutine(found) else found
    except ModelError as error:
        return str(error.code)
    return reply.message, reply.stop_reason, reply.usage.as_json()


def of_agent(asks: Callable[..., Any], url: str, log: Path) -> Any:
    """Return what the log of a framework's agent has of an answer."""

    async def program(run: refold.Run, _given: Any) -> None:
        await asks(run, url)

    refold.record(program, None, log=log)
    entries = {entry.kind: entry.data for entry in read_entries(log)}
    told = entries["model.answered"]
    if told["status"] == "error":
        return told["error"]["code"]
    return told["message"], told["stop_reason"], told["usage"]


async def pydantic_agent(run: refold.Run, url: str, *, streamed: bool = False) -> None:
    from pydantic_ai.messages import ModelRequest, UserPromptPart  # noqa: PLC0415 - 5 s of CPU time
    from pydantic_ai.models import ModelRequestParameters  # noqa: PLC0415
    from pydantic_ai.models.anthropic import AnthropicModel  # noqa: PLC0415
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415
    from pydantic_ai.providers.anthropic import AnthropicProvider  # noqa: PLC0415
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415

    from refold.adapters.pydantic_ai import Refold  # noqa: PLC0415

    model: Any = (
        OpenAIChatModel("m", provider=OpenAIProvider(base_url=url))
        if url.endswith("/v1")
        else AnthropicModel("m", provider=AnthropicProvider(base_url=url))
    )
    recorded = Refold(run).get_wrapper_model(model)
    assert recorded is not None
    asked: Any = ([ModelRequest([UserPromptPart("Tides?")])], None, ModelRequestParameters())
    if not streamed:
        await recorded.request(*asked)
        return
    async with recorded.request_stream(*asked) as events:
        async for _ in events:
            pass


async def openai_agent(_run: refold.Run, url: str, *, streamed: bool = False) -> None:
    from agents import ModelSettings, ModelTracing, OpenAIChatCompletionsModel  # noqa: PLC0415
    from openai import AsyncOpenAI  # noqa: PLC0415

    from refold.adapters.openai_agents import RecordedModel  # noqa: PLC0415

    def model() -> OpenAIChatCompletionsModel:
        return OpenAIChatCompletionsModel("m", AsyncOpenAI(base_url=url))

    recorded = RecordedModel(model, name="m")
    asked: Any = (None, "Tides?", ModelSettings(), [], None, [], ModelTracing.DISABLED)
    more: Any = dict.fromkeys(("previous_response_id", "conversation_id", "prompt"))
    if not streamed:
        await recorded.get_response(*asked, **more)
        return
    async for _ in recorded.stream_response(*asked, **more):
        pass


STREAMED: Final = ", streamed"
pydantic_streams: Final = functools.partial(pydantic_agent, streamed=True)
openai_streams: Final = functools.partial(openai_agent, streamed=True)
Way = Callable[[str, Path], Any]
WAYS: Final[dict[str, dict[str, Way]]] = {
    "openai": {
        "openai": functools.partial(of_model, "openai:m"),
        "pydantic": functools.partial(of_model, "pydantic:openai-chat:m"),
        "pydantic agent": functools.partial(of_agent, pydantic_agent),
        "pydantic agent" + STREAMED: functools.partial(of_agent, pydantic_streams),
        "openai agent": functools.partial(of_agent, openai_agent),
        "openai agent" + STREAMED: functools.partial(of_agent, openai_streams),
    },
    "anthropic": {
        "anthropic": functools.partial(of_model, "anthropic:m"),
        "pydantic": functools.partial(of_model, "pydantic:anthropic:m"),
        "pydantic agent": functools.partial(of_agent, pydantic_agent),
        "pydantic agent" + STREAMED: functools.partial(of_agent, pydantic_streams),
    },
}
"""Refold's own client first."""

LOST: Final = {
    ("openai agent", "length"): "stop_reason: the framework does not say why an answer ended",
    ("openai agent", "own_word"): "the framework makes a refusal of it, in its own words",
    ("openai agent", "local_server"): "the framework refuses it, without Refold too",
    ("pydantic agent", "local_server"): "the framework refuses it, without Refold too",
    ("pydantic agent, streamed", "nameless_call"): "the framework leaves the call out",
    ("openai agent, streamed", "error_in_200"): "the framework takes it for an empty answer",
    ("openai agent, streamed", "malformed"): "the framework takes it for an empty answer",
}
"""What an adapter is not given, so that it cannot give it on: whole, and then streamed too."""


class InOrder(Random):
    """Parts of a stream in their order."""

    def choice(self, seq: Any) -> Any:
        return seq[0]


def streamed(answer: Answer) -> Answer:
    """Return an answer as the stream that the same server would send."""
    if answer.status != 200 or not isinstance(answer.body, dict) or "id" not in answer.body:
        return answer
    events = chat_events if "choices" in answer.body else messages_events
    headers = {**answer.headers, "content-type": "text/event-stream"}
    return attrs.evolve(answer, headers=headers, body=sse(tuple(events(answer.body, InOrder(1)))))


def read(name: str, way: Way, path: Path, log: Path) -> Any:
    at = OPENAI_PATH if path.parent.name == "openai" else ANTHROPIC_PATH
    answers = answers_in(path) * 3
    sent = [*map(streamed, answers)] if name.endswith(STREAMED) else answers
    with ModelServer({at: sent}) as server:
        return way(server.openai_url if at == OPENAI_PATH else server.url, log)


def neutral(found: Any, name: str) -> Any:
    """Return an answer without what only its own model reads, and without a reason not given."""
    name = name.removesuffix(STREAMED)
    if found == "raised" and name.endswith("agent"):
        return "malformed"  # the framework's own exception, which its agent gets
    if isinstance(found, str):
        return found
    message, reason, usage = found
    plain = {name: value for name, value in message.items() if name != "provider"}
    if name == "openai agent":  # an unknown count is 0 for the framework
        usage = {count: tokens for count, tokens in usage.items() if tokens}
    return plain, reason or "stop", usage


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


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
def test_an_answer_is_read_alike(name: str, tmp_path: Path) -> None:
    path = FIXTURES / f"{name}.json"
    found = {
        way: [read(way, reads, path, tmp_path / f"{way}{turn}.jsonl") for turn in (1, 2)]
        for way, reads in WAYS[path.parent.name].items()
    }
    moved = {way: two for way, two in found.items() if two[0] != two[1]}
    ours, *others = ((way, neutral(two[0], way)) for way, two in found.items())

    assert moved == {}, "the address of the server is in the answer"
    assert {way: read for way, read in others if read != ours[1]}.keys() == {
        way
        for way, _ in others
        if {(way, path.stem), (way.removesuffix(STREAMED), path.stem)} & LOST.keys()
    }, found
