"""An event of every kind, and logs that hold one: a new kind is looked at by all of them."""

import types
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import attrs

from refold.engine.events.events import (
    KINDS,
    ChildStarted,
    ModelAsked,
    RunStarted,
    TimerFired,
    ToolCalled,
)
from refold.engine.events.outcome import Fault, Outcome, Usage
from refold.engine.log.writer import LogWriter

BEFORE: Final[list[tuple[Any, str]]] = [
    (ToolCalled("t", {}, "pure"), "0#1"),
    (ChildStarted({}, 1, "c"), "0#2"),
    (ModelAsked("m", "", 0, [], {}), "0#3"),
    (TimerFired(1, nth=1), "0@1"),
]
"""What stands in a log before the entry that is looked at: a call of each sort is open."""
ABOUT_CHILD: Final = {"effect.late": {"kind": "child"}, "tokens.granted": {"to": "0#2"}}
"""What makes an example be about the child there, where its key does not."""


def log_with(path: Path, kind: str) -> Path:
    """Write a log whose last entry is of that kind, with the key of a call that it may be about."""
    started = RunStarted("p", None, 0, {}, "", [], {"format": 1}, {}, {}, "", "r", "r", nonce="0")
    keys = {"child": "0#2", "model": "0#3"}
    call = "0#2" if kind == "effect.late" else keys.get(kind.partition(".")[0], "0#1")
    given = attrs.evolve(example(kind, is_full=True), **ABOUT_CHILD.get(kind, {}))
    with LogWriter.create(path, started, durability="fast") as log:
        for event, key in [*BEFORE, (given, call)]:
            log.append(event, key)
    return path


def example(kind: str, *, is_full: bool) -> Any:
    """Return an event of a kind, with values that are no defaults; or only with what it needs."""
    fields = attrs.fields(KINDS[kind])
    values = {
        field.name: _value(field.type) for field in fields if is_full or field.default is not None
    }
    return KINDS[kind](**values)


def _value(kind: Any) -> Any:
    """Return a value of a field's type that is no default."""
    if get_origin(kind) in (types.UnionType, Union):
        return _value(next(each for each in get_args(kind) if each is not types.NoneType))
    if get_origin(kind) is Literal:
        return get_args(kind)[-1]
    return _EXAMPLES[get_origin(kind) or kind]


_EXAMPLES: Final[dict[Any, Any]] = {
    str: "é\x1b",
    int: 7,
    float: 1.5,
    bool: True,
    dict: {"a": "b"},
    list: [],
    Any: {"x": [None, 1.5]},
    Outcome: Outcome(status="limit", output=[1], usage=Usage(requests=2)),
    Usage: Usage(input_tokens=1, output_tokens=2, requests=3),
    Fault: Fault(code="raised", message="m"),
}
