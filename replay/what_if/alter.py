"""Changed values of the same type, which replace recorded outcomes.

Every leaf is replaced by a different value of its type: a text by a different text, a number by the
next, a flag by its opposite. A second variant shortens lists by one item. Texts with a recognisable
form (JSON, a number, a date) keep that form, so that a program can still parse them. Pure. Used by
`replay.what_if.sensitivity`.
"""

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.errors import RefoldError
from refold.engine.events import events
from refold.engine.events.outcome import Outcome
from refold.engine.ports.effects import RunChild
from refold.engine.ports.ports import Tool
from refold.replay.difference.pointer_diff import same
from refold.replay.index.by_call import blank

_MARK: Final = " (altered)"
_NEVER_RECORDED: Final = "(never recorded)"
_INTEGER_MAX: Final = 2**63 - 1
_LAST_DIGIT: Final = re.compile(r"\d(?=\D*\Z)")
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?\Z")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
_LEAVES_MAX: Final = 200
"""Leaves of one value that are altered one by one."""


def altered(value: Json) -> Iterator[Json]:
    """Yield other values of the type of `value`: every leaf another, then every list shorter."""
    for variant in (_other(value), _shorter(value)):
        if not same(variant, value):
            yield variant


def altered_within(value: Json, fits: Callable[[Json], bool]) -> Json:
    """Return `value` with as many changed leaves as `fits` allows; unchanged if none."""
    found = value
    for path in itertools.islice(_leaves(value, ()), _LEAVES_MAX):
        variant = _with_leaf(found, path)
        if fits(variant):
            found = variant
    return found


def altered_event(event: events.Event) -> Iterator[events.Event]:
    """Yield events that can replace an outcome, with the same status."""
    match event:
        case events.ToolReturned(status="ok"):
            yield from (attrs.evolve(event, result=value) for value in altered(event.result))
        case events.ToolReturned() | events.ModelAnswered(status="error"):
            error = event.error or {}
            said = f"{error.get('message', '')}{_MARK}"
            yield attrs.evolve(event, error={**error, "message": said})
        case events.ModelAnswered():
            yield attrs.evolve(event, message=_other_message(event.message or {}))
        case events.ChildFinished():
            yield attrs.evolve(event, outcome=_other_outcome(event.outcome))
        case events.InputGiven():
            yield from (attrs.evolve(event, answer=value) for value in altered(event.answer))


def is_failure(event: events.Event) -> bool:
    """Return whether an outcome of a call is no success."""
    if isinstance(event, events.ChildFinished):
        return event.outcome.status != "completed"
    return getattr(event, "status", "ok") != "ok"


def stand_in(kind: str, alike: events.ToolReturned | None) -> events.Event | None:
    """Return an outcome for a request of this kind without one; `None` if impossible.

    `alike` is a result of the same tool elsewhere. A different value of its type is returned, so
    that code that reads it shows up.
    """
    if kind == "tool" and alike is not None:
        return next(altered_event(alike), alike)
    is_told = kind in ("tool", "model")
    return blank(kind, _NEVER_RECORDED, _NEVER_RECORDED) if is_told else None


def fits(asked: Tool | RunChild | None, event: events.Event) -> bool:
    """Return whether the type of the tool or child, if it has one, can be read from an outcome."""
    try:
        if isinstance(asked, RunChild):
            if isinstance(event, events.ChildFinished) and event.outcome.ok:
                asked.types.read_output(event.outcome.output)
        elif asked and asked.typed:
            match event:
                case events.ToolReturned(status="ok"):
                    asked.load(event.result)
    except RefoldError:
        return False
    return True


def altered_draw(drawn: events.ValueDrawn) -> Json:
    """Return a different value that could have been drawn; an unset one becomes set."""
    return "altered" if drawn.value is None else next(altered(drawn.value), drawn.value)


def _leaves(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _leaves(item, (*path, name))
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _leaves(item, (*path, at))
    elif value is not None:
        yield path


def _with_leaf(value: Any, path: tuple[str | int, ...]) -> Json:
    if not path:
        return _other(value)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _with_leaf(value[path[0]], path[1:])
    return copy


def _other(value: Json) -> Json:
    if value is None:
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1 if value < _INTEGER_MAX else value - 1
    if isinstance(value, float):
        return value + 1.0 if value + 1.0 != value else value / 2
    if isinstance(value, str):
        return _other_text(value)
    if isinstance(value, dict):
        return {name: _other(item) for name, item in value.items()}
    return [_other(item) for item in value]


def _other_text(text: str) -> str:
    if text[:1] in ("{", "["):
        try:
            return encode(_other(loads(text))).decode()
        except (RefoldError, ValueError):
            return text + _MARK
    if _UUID.match(text):
        return text[:-1] + ("0" if text[-1] != "0" else "1")
    if _STAMP.match(text):
        return f"{int(text[:4]) % 9998 + 1:04d}{text[4:]}".replace("-02-29", "-02-28")
    if text.lstrip("-").isdecimal():
        return _LAST_DIGIT.sub(lambda digit: "1" if digit[0] != "1" else "2", text)
    return text + _MARK


def _shorter(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _shorter(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shorter(item) for item in value[:-1]]
    return value


def _other_message(message: dict[str, Any]) -> dict[str, Any]:
    """Return another answer of a model: other words, and other arguments of its tool calls."""
    other = dict(message)
    if message.get("content") or not message.get("tool_calls"):
        other["content"] = _other(message.get("content") or "")
    if message.get("tool_calls"):
        other["tool_calls"] = [_other_call(call) for call in message["tool_calls"]]
    return other


def _other_call(call: Any) -> Any:
    return {**call, "arguments": _other(call.get("arguments"))} if isinstance(call, dict) else call


def _other_outcome(outcome: Outcome) -> Outcome:
    error = outcome.error
    return attrs.evolve(
        outcome,
        summary=_other_text(outcome.summary),
        output=_other(outcome.output),
        artifacts=tuple(
            attrs.evolve(each, value=_other_text(each.value)) for each in outcome.artifacts
        ),
        error=attrs.evolve(error, message=error.message + _MARK) if error else None,
    )
