"""Recorded runs of other systems, in whatever format: what was said, called and given back.

No format is known here.  A file is walked in its order for what all of them have: texts, calls (a
name with arguments), and results that name their call.  So a run of a system that nobody has seen
can be re-enacted, too: `program` asks a model that says what was said then, and calls tools that
give what was given then.  None of the corpus' text is kept here.
"""

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import yaml

import refold
from refold.engine.errors import ModelError, NotCanonical
from refold.engine.models.scripted import FunctionModel, Reply
from refold.engine.ports.ports import ModelRequest
from refold.tools.contract.tool_types import NAME, FunctionTool

SUFFIXES: Final = (".jsonl", ".json", ".yaml", ".traj", ".responses")
_ARGUMENTS: Final = ("arguments", "input", "args", "params")
_OF_CALL: Final = ("tool_use_id", "tool_call_id", "call_id", "toolCallId", "callId")
_GIVEN: Final = ("content", "output", "result", "observation", "response")


@attrs.define
class Call:
    """One tool call of a recorded run."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: Any = None


@attrs.define
class Turn:
    """What was said until tools were called, and their calls, which began together."""

    said: list[str] = attrs.field(factory=list)
    calls: list[Call] = attrs.field(factory=list)
    is_over: bool = False


def recorded_run(path: Path) -> list[Turn]:
    """Return the turns of the run in a file; none where it holds nothing of the kind."""
    turns = [Turn()]
    calls: dict[str, Call] = {}
    for kind, found in _tokens(_documents(path)):
        turn = turns[-1]
        if kind == "text":
            turn.said.append(found)
        elif kind == "call" and found.id not in calls:
            if turn.is_over:
                turns.append(turn := Turn())
            turn.calls.append(found)
            calls[found.id] = found
        elif kind == "result" and found[0] in calls:
            calls[found[0]].result = found[1]
            turn.is_over = bool(turn.calls)
    return [turn for turn in turns if turn.said or turn.calls]


def _documents(path: Path) -> Iterator[Any]:
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    if path.suffix == ".yaml":
        yield yaml.load(text, Loader=yaml.CSafeLoader)
        return
    for document in text.splitlines() if path.suffix in (".jsonl", ".responses") else [text]:
        try:
            yield json.loads(document)
        except ValueError:
            continue  # a torn line, or two on one: others have such files


def _tokens(value: Any, number: Iterator[int] | None = None) -> Iterator[tuple[str, Any]]:
    number = number or iter(range(1_000_000))
    if isinstance(value, dict):
        yield from _of_object(value, number)
    elif isinstance(value, list | Iterator):
        for item in value:
            yield from _tokens(item, number)


def _of_object(value: dict[str, Any], number: Iterator[int]) -> Iterator[tuple[str, Any]]:
    of = next((value[name] for name in _OF_CALL if isinstance(value.get(name), str)), None)
    given = next((value[name] for name in _GIVEN if name in value), None)
    arguments = next((_object(value[name]) for name in _ARGUMENTS if name in value), None)
    name = value.get("name")
    if isinstance(name, str) and arguments is not None:
        yield "call", Call(str(value.get("id") or of or next(number)), name, arguments)
        return
    if of is not None and given is not None:
        yield "result", (of, given)
        return
    for member, item in value.items():
        if member in ("text", "content") and isinstance(item, str) and item:
            yield "text", item
        else:
            yield from _tokens(_parsed(item) if member in ("body", "string") else item, number)


def _object(value: Any) -> dict[str, Any] | None:
    found = _parsed(value)
    return found if isinstance(found, dict) else None


def _parsed(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


# --- on Refold -----------------------------------------------------------------------------


Edit = Callable[[int, list[Call]], list[Call]]
"""Of a turn's number and its calls: those that the program makes."""


def program_of(turns: list[Turn], edit: Edit = lambda _number, calls: calls) -> Any:
    """Return the program that does what the turns say; `edit` is what changed in it since."""

    async def reenacted(run: refold.Run, _: Any) -> Any:
        messages: list[dict[str, Any]] = []
        for number, turn in enumerate(turns):
            messages.append({"role": "user", "content": "\n".join(turn.said)})
            try:
                messages.append((await run.model(messages, tools=run.tools)).message)
            except (ModelError, NotCanonical) as error:  # a half character, an integer of 80 bits
                messages[-1]["content"] = ascii(str(error))
            made = edit(number, turn.calls)
            messages += await asyncio.gather(*(_called(run, call) for call in made))
        return {"messages": len(messages)}

    return reenacted


async def _called(run: refold.Run, call: Call) -> dict[str, Any]:
    try:
        content = await run.tool(_named(call.name), call=call.id, arguments=call.arguments)
    except (refold.ToolError, NotCanonical) as error:
        content = ascii(str(error))
    told = content if isinstance(content, str) else json.dumps(content)
    return {"role": "tool", "tool_call_id": call.id, "name": _named(call.name), "content": told}


def model_of(turns: list[Turn]) -> FunctionModel:
    """Return the model that answers each turn with its calls."""

    def reply(request: ModelRequest) -> Reply:
        number = sum(message["role"] == "user" for message in request.messages) - 1
        calls = [
            {"id": call.id, "name": _named(call.name), "arguments": call.arguments}
            for call in turns[number].calls
        ]
        return {"text": f"turn {number}", "tool_calls": calls} if calls else f"turn {number}"

    return FunctionModel(reply, "recorded")


def tools_of(turns: list[Turn]) -> list[FunctionTool[..., Any]]:
    """Return a tool for each name; what a call gave is found by its id."""
    given = {call.id: call.result for turn in turns for call in turn.calls}
    names = {_named(call.name) for turn in turns for call in turn.calls}

    def give(call: str, arguments: dict[str, Any]) -> Any:
        del arguments
        return given[call]

    return [FunctionTool(give, name=name, effect="reads") for name in sorted(names)]


def _named(name: str) -> str:
    """Return a name as tools have it: others have blanks in theirs."""
    known = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64]
    return known if NAME.fullmatch(known) else f"t{known}"[:64]
