"""What a model is told of a child, for each tool and each end: read as prompt text."""

import asyncio
import inspect
import itertools
import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

import refold
from refold.engine.events.outcome import Artifact, Outcome, failed
from refold.engine.log.names import children as children_of
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.models import model_from
from refold.engine.ports.ports import ModelRequest, ToolDefinition
from refold.tools.contract.policy import POLICIES
from refold.tools.delegation.words import error_of, handed_back
from tests.support.loops import for_each, some
from tests.support.model_server import ModelServer
from tests.support.tool_ends import ENDS, TOOLS, recorded, told, tools

SHA = re.compile(r"sha256=[0-9a-f]{64}")


def readable(text: str) -> str:
    """Return a text without what differs in each run, its long repetition shortened."""
    text = re.sub(r'(duration_ms\\*":)\d+', r"\g<1>0", text)
    return SHA.sub("sha256=…", re.sub(r"(long ){10,}", "long long … ", text))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", TOOLS)
def test_what_a_model_is_told(
    name: str, end: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """60 texts: each says what happened, and what to do next if it failed."""
    log = recorded(name, end, tmp_path / "run.jsonl").log

    text, is_error = told(log)

    assert (readable(text), is_error) == snapshot
    assert refold.reexecute(log, tools=tools()).identical


@pytest.mark.parametrize(
    ("name", "end"),
    some(1, sorted(itertools.product(TOOLS, ENDS), key=lambda case: case[1] != "done")),
)
def test_models_read_the_same_on_both_runners(name: str, end: str, tmp_path: Path) -> None:
    """§10.4.4: the caller's and the child's messages and tools, but for durations."""
    more = {"join_seconds": 5} if end == "time" else {}  # a process takes a while to begin
    here, there = (
        [*read_by_models(recorded(name, end, tmp_path / f"{runner}.jsonl", runner, more=more).log)]
        for runner in ("in-process", "subprocess")
    )

    assert there == here
    assert len(here) == (1 if end in ("depth", "arguments") else 2)


def read_by_models(log: Path) -> Iterator[list[str]]:
    """Yield what the models of a run and of its children were given, in the order of requests."""
    for each in tree(log):
        yield [
            readable(json.dumps([entry.data["added"], entry.data["tools"]], ensure_ascii=False))
            for entry in read_entries(each, resolve=True)
            if entry.kind == "model.asked"
        ]


@for_each(
    "code, advice",
    [
        ("http_503", "Try again once, or"),
        ("http_429", "Try again once, or"),
        ("connection", "Try again once, or"),
        ("http_401", "Change the task, or"),
        ("no_progress", "Change the task, or"),
        ("raised", "Change the task, or"),
        ("artifacts", "Ask for fewer"),
        ("output", "Ask for a plain text"),
    ],
)
def test_the_next_step_follows_from_the_cause(code: str, advice: str) -> None:
    said = error_of(failed("failed", code, "why"), run=None)

    assert said is not None
    assert said.startswith(f"{code}: why. {advice}")


@for_each("code", ["no_model", "outside_loop", "spinning", "stuck", "unending"])
def test_advice_for_a_programmer_does_not_reach_a_model(code: str) -> None:
    """It is in the log of the child."""
    said = error_of(failed("failed", code, "pass record(…, model=…)"), run=None)

    assert said == f"{code}: the child cannot run as it is set up. Do the work yourself."


@for_each("value", ["{", "[]", '{"steps":[]}'])
def test_an_artifact_that_is_no_plan_but_is_called_so_is_handed_back(value: str) -> None:
    outcome = Outcome(
        status="completed",
        summary="Done.",
        artifacts=(Artifact(kind="json", name="plan", value=value),),
    )

    assert handed_back(outcome) == f"Done.\n[artifact 1 of 1: json plan]\n{value}"


WIRES = {
    "chat": "openai:m",
    "messages": "anthropic:m",
    "responses": "pydantic:openai-responses:m",
    "generate": "pydantic:google:gemini-m",
}
"""A client for each wire format (§16.9)."""


def complete(model: Any, request: ModelRequest) -> None:
    """Ask a client, asynchronous or not."""
    said = model.complete(request)
    if inspect.isawaitable(said):
        asyncio.run(said)  # type: ignore[arg-type]  # a coroutine


@pytest.mark.parametrize("name", TOOLS)
def test_what_stands_on_the_wire(
    name: str, tmp_path: Path, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool's definition, a call that a cap ended, and its result, as each provider has them.

    One as a whole; the others have the same texts.
    """
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(variable, "none")
    log = recorded(name, "turns", tmp_path / "run.jsonl").log
    asked = [one for one in read_entries(log, resolve=True) if one.kind == "model.asked"]
    messages = tuple(message for one in asked for message in one.data["added"])
    answers = [one.data["message"] for one in read_entries(log) if one.kind == "model.answered"]
    names = (name, *POLICIES[name])
    offered = tuple(ToolDefinition.of(tool) for tool in tools() if tool.name in names)
    request = ModelRequest(
        messages=(messages[0], answers[-2], messages[-1]), tools=offered, parameters={}
    )
    texts = {messages[-1]["content"], *(text for each in offered for text in described(each))}

    whole = sent("chat", request)
    others = {wire: sent(wire, request) for wire in WIRES if wire != "chat" and has_client(wire)}

    assert readable(json.dumps(whole, indent=1, ensure_ascii=False)) == snapshot
    for wire, body in others.items():
        found = [*leaves(body)]
        for text in texts:
            as_json = json.dumps(text, ensure_ascii=False)[1:-1]
            assert any(text in each or as_json in each for each in found), (wire, text)


def has_client(wire: str) -> bool:
    """Return whether the client of a wire format is installed."""
    return wire != "generate" or find_spec("google.genai") is not None


def sent(wire: str, request: ModelRequest) -> dict[str, Any]:
    """Return what the client of a wire format sends; the rest is the client's."""
    with ModelServer({}) as server:
        url = server.url if wire in ("messages", "generate") else server.openai_url
        with pytest.raises(refold.ModelError):
            complete(model_from(WIRES[wire], url), request)
        body = server.received[0].body
    kept = ("messages", "input", "contents", "tools")
    return {each: body[each] for each in kept if each in body}


def described(tool: ToolDefinition) -> Iterator[str]:
    """Yield the descriptions of a tool and of its parameters."""
    yield tool.description
    yield from (text for text in leaves(tool.parameters) if " " in text)


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    match value:
        case str():
            yield value
        case dict() | list():
            for each in value.values() if isinstance(value, dict) else value:
                yield from leaves(each)


@for_each("name", TOOLS)
def test_a_child_inherits_the_parameters_with_the_model(name: str, tmp_path: Path) -> None:
    """But for those of one request; a tool's own settings come first."""
    given = {"max_tokens": 8000, "temperature": 0, "tool_choice": "auto"}
    log = recorded(name, "done", tmp_path / "run.jsonl", parameters=given).log

    own = recorded(
        name, "done", tmp_path / "own.jsonl", parameters=given, own={"max_tokens": 9}
    ).log

    assert asked_with(log) == given
    for made, most in ((log, 8000), (own, 9)):
        (child,) = children_of(made).values()
        assert asked_with(child) == {"max_tokens": most, "temperature": 0}


def asked_with(log: Path) -> dict[str, Any]:
    """Return the parameters of the first request."""
    asked = next(entry.data for entry in read_entries(log) if entry.kind == "model.asked")
    return {key: value for key, value in asked["parameters"].items() if key != "agent"}
