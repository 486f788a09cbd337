"""Programs get values of the types that they are annotated with (CONTRACT.md §9.12)."""

import dataclasses
import datetime as dt
import enum
import functools
import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict, TypeVar
from uuid import UUID

import attrs
import pydantic
import pytest

import refold
from refold.engine.encoding.plain import to_json
from refold.engine.log.reader import read_entries
from refold.engine.ports.program_types import PLAIN, types_of
from refold.engine.ports.programs import load
from refold.engine.secrets.redaction import Redaction
from refold.errors import LogExists, TypeRefused, ValueRefused
from refold.tools import Reference
from tests.support.loops import for_each


class Colour(enum.Enum):
    """An enum."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Ticket:
    """A dataclass, with a date and a default."""

    id: int
    due: dt.date
    tags: tuple[str, ...] = ()


@attrs.frozen
class Order:
    """An attrs class, with a class of another kind inside."""

    ticket: Ticket
    total: Decimal


class Job(TypedDict):
    """A TypedDict."""

    topic: str
    when: NotRequired[dt.datetime]


class Point(NamedTuple):
    """A named tuple."""

    x: int
    y: float


TICKET = Ticket(1, dt.date(2026, 1, 2), ("a",))
VALUES: list[tuple[Any, Any]] = [
    (Ticket, TICKET),
    (Order, Order(TICKET, Decimal("1.50"))),
    (Job, {"topic": "tea", "when": dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)}),
    (Point, Point(1, 2.0)),
    (Colour, Colour.BLUE),
    (Literal["a", 1], 1),
    (dt.datetime, dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC)),
    (dt.timedelta, dt.timedelta(seconds=1.5)),
    (UUID, UUID(int=7)),
    (Path, Path("a/b")),
    (set[int], {3, 1}),
    (float, 2.0),
    (Ticket | None, None),
    (Ticket | list[Point], [Point(1, 2.0)]),
    (dict[str, list[dt.time]], {"a": [dt.time(1, 2)]}),
]


def annotated(given: Any, returned: Any, does: Callable[[Any], Any] = lambda value: value) -> Any:
    """Return a program of these types that returns what `does` makes of its input."""

    async def program(_run: refold.Run, value: given) -> returned:
        return does(value)

    return program


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=lambda each: getattr(each, "__name__", ""))
def test_a_program_gets_and_gives_values_of_its_types(
    kind: Any, value: Any, tmp_path: Path
) -> None:
    """Its input has the annotated type, and so has the output of its recording."""
    seen = []

    def does(given: Any) -> Any:
        seen.append(given)
        return given

    recording = refold.record(annotated(kind, kind, does), value, log=tmp_path / "a.jsonl")
    report = refold.reexecute(recording, annotated(kind, kind, does))

    assert recording.ok, recording
    assert report.identical, report
    assert seen == [value, value]
    assert [type(each) for each in seen] == [type(value)] * 2
    assert (recording.output, type(recording.output)) == (value, type(value))
    assert recording.result() == value
    assert recording.as_json()["output"] == recording.output_json == to_json(value)


_Given = TypeVar("_Given")


def test_a_program_without_annotations_has_plain_values(tmp_path: Path) -> None:
    """So does one of Any, of object, of a type variable, and one that returns a report."""

    async def bare(_run, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - it is meant
        return value

    async def gives(_run: refold.Run, value: _Given) -> _Given | None:
        return value

    async def reports(_run: refold.Run, value: Any) -> refold.Report | None:
        return refold.Report(summary="done", output=value)

    for number, program in enumerate(
        [bare, annotated(Any, object), annotated(object, Any), gives, reports]
    ):
        recording = refold.record(program, TICKET, log=tmp_path / f"{number}.jsonl")
        assert recording.result() == to_json(TICKET)


@for_each(
    "value, pointer, expected, found",
    [
        ({"id": "1", "due": "2026-01-02"}, "/id", "an integer", "string '1'"),
        ({"id": 1, "due": "soon"}, "/due", "an ISO 8601 date", "string 'soon'"),
        ({"id": 1}, "/due", "a value, which is required", "none"),
        (
            {"id": 1, "dew": 2},
            "/dew",
            "one of id, due, tags",
            "the unknown name 'dew', did you mean 'due'?",
        ),
        ([], "", "an object", "array of 0"),
    ],
)
def test_an_input_that_does_not_fit_is_refused_before_anything_is_written(
    value: Any, pointer: str, expected: str, found: str, tmp_path: Path
) -> None:
    """With the program, the place, what was expected and found, and what to do."""
    log = tmp_path / "a.jsonl"

    with pytest.raises(ValueRefused) as refused:
        refold.record(annotated(Ticket, None), value, log=log)

    error = refused.value
    assert (error.program, error.part) == ("program", "input")
    assert (error.pointer, error.expected, error.found) == (pointer, expected, found)
    assert str(error).endswith("; pass a value that fits its annotation, or change the annotation")
    assert pickle.loads(pickle.dumps(error)).as_json() == error.as_json()
    assert not log.exists()


def test_what_is_wrong_with_the_call_is_said_before_what_is_wrong_with_the_log(
    tmp_path: Path,
) -> None:
    """The program first, then its input, then the log that is there already."""
    log = refold.record(annotated(int, int), 1, log=tmp_path / "a.jsonl").log

    with pytest.raises(TypeRefused):
        refold.record(annotated(bytes, int), "x", log=log)
    with pytest.raises(ValueRefused):
        refold.record(annotated(int, int), "x", log=log)
    with pytest.raises(LogExists):
        refold.record(annotated(int, int), 1, log=log)


def test_an_output_that_does_not_fit_fails_the_run(tmp_path: Path) -> None:
    """As one that a log cannot hold; a replay says the same."""
    program = annotated(Any, Ticket)
    recording = refold.record(program, {"id": 1, "due": 2}, log=tmp_path / "a.jsonl")

    assert (recording.status, recording.reason) == ("failed", "error")
    assert recording.error is not None
    assert recording.error.code == "output"
    assert recording.error.message == (
        "the output of program 'program', at /due: expected a string, found integer 2; return a "
        "value that fits its annotation, or change the annotation"
    )
    with pytest.raises(refold.RunFailed) as failed:
        recording.result()
    assert isinstance(failed.value.__cause__, ValueRefused)
    assert refold.reexecute(recording, program).identical


def test_a_replay_by_another_annotation_says_what_does_not_fit(tmp_path: Path) -> None:
    """As the likely cause."""
    recording = refold.record(annotated(Any, Any), "x", log=tmp_path / "a.jsonl")

    for program, part in ((annotated(int, Any), "input"), (annotated(Any, int), "output")):
        (divergence,) = refold.reexecute(recording, program).divergences
        said = f"the {part} of program 'program': expected an integer, found string 'x'"
        assert divergence.category == "output_changed"
        assert said in divergence.cause


def test_a_float_is_written_as_one(tmp_path: Path) -> None:
    """Of an output, as of a tool's result; an input stays as it was passed."""
    recording = refold.record(annotated(float, float), 1, log=tmp_path / "a.jsonl")
    inside = refold.record(annotated(Any, Point), [1, 2], log=tmp_path / "b.jsonl")
    first, *_, last = read_entries(recording.log)

    assert (repr(first.data["input"]), repr(last.data["output"])) == ("1", "1.0")
    assert repr(recording.output) == "1.0"
    assert (repr(inside.output), repr(inside.output_json)) == ("Point(x=1, y=2.0)", "[1, 2.0]")


def test_what_redaction_leaves_has_to_fit(tmp_path: Path) -> None:
    """An input that does not fit any more fails the run; an output stays as it is in the log."""
    hidden = Redaction(paths={"run": ("/input/due", "/output/due")})
    program = annotated(Ticket, Any)
    refused = refold.record(program, TICKET, log=tmp_path / "a.jsonl", redaction=hidden)
    given = refold.record(
        annotated(Any, Ticket, lambda _: TICKET), log=tmp_path / "b.jsonl", redaction=hidden
    )

    assert refused.error is not None
    assert refused.error.code == "input"
    assert "found string '[redacted]'" in refused.error.message
    assert refold.reexecute(refused, program).identical
    assert given.result() == to_json(TICKET) | {"due": "[redacted]"}


class Model(pydantic.BaseModel):
    """What cannot be read back without coercion."""

    id: int


class Tree(TypedDict):
    """What contains itself."""

    below: "list[Tree]"


class TypeAliasType:
    """What `type Endless = list[Endless]` makes, from Python 3.12 on."""

    @property
    def __value__(self) -> Any:
        return list[self]  # type: ignore[valid-type]  # made at run time


@for_each(
    "kind, why",
    [
        (Model, "Model: it cannot be read back"),
        (bytes, "bytes: it cannot be read back"),
        (dict[int, str], "keys of a JSON object must be strings"),
        (Tree, "Tree contains itself"),
        (TypeAliasType(), "contains itself: use Any"),
        (int | bool | float | dt.date | Path, "look the same in JSON"),
        ("Missing", "the annotation cannot be resolved (name 'Missing' is not defined)"),
    ],
)
def test_a_type_that_cannot_be_read_is_refused(kind: Any, why: str, tmp_path: Path) -> None:
    """Before anything is recorded; in the place of the input, or of the output."""
    log = tmp_path / "a.jsonl"

    with pytest.raises(TypeRefused) as given:
        refold.record(annotated(kind, Any), log=log)
    with pytest.raises(TypeRefused) as returned:
        refold.record(annotated(Any, kind), log=log)

    assert why in given.value.why
    assert why in returned.value.why
    assert str(given.value).startswith("program 'program', parameter 'value'")
    assert str(returned.value).startswith("program 'program', return")
    assert not log.exists()


_LATE = """
from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import dataclasses

if TYPE_CHECKING:
    from refold import Run
    from elsewhere import Nowhere

async def early(run: Run, given: Late) -> Late:
    return given

async def unknown(run: Run, given: Nowhere) -> Late:
    return given

def inner():
    @dataclasses.dataclass
    class Local:
        id: int

    async def program(run: Run, given: Local) -> Local:
        return Local(given.id)

    return program

@dataclasses.dataclass
class Late:
    id: int
"""


def test_annotations_are_read_late(tmp_path: Path) -> None:
    """A class below the program, or of the function around it; the type of `run` is not asked."""
    source = tmp_path / "late.py"
    source.write_text(_LATE)
    names = ("early", "inner", "unknown", "Late")
    early, inner, unknown, late = (load(Reference(str(source), name)) for name in names)

    outer = refold.record(early, {"id": 1}, log=tmp_path / "a.jsonl")
    local = refold.record(inner(), {"id": 2}, log=tmp_path / "b.jsonl")

    assert outer.result() == late(1)
    assert (type(local.result()).__name__, local.result().id) == ("Local", 2)
    with pytest.raises(TypeRefused, match=r"parameter 'given': .*'Nowhere' is not defined"):
        refold.record(unknown, {"id": 1})


def test_a_run_in_the_place_of_the_input_is_said() -> None:
    """Its type cannot be read from a log, which is not what has to be mended."""

    async def swapped(ticket: Ticket, run: refold.Run) -> None: ...

    with pytest.raises(TypeRefused, match=r"'run': define it as swapped\(run, input\)"):
        refold.record(swapped, None)


def plain_program(_run: refold.PlainRun, ticket: Ticket) -> Ticket:
    """A program that is no coroutine."""
    return ticket


class Program:
    """A callable object, and a method."""

    async def __call__(self, _run: refold.Run, ticket: Ticket) -> Ticket:
        return ticket

    async def method(self, _run: refold.Run, ticket: Ticket) -> Ticket:
        return ticket


async def _third(_name: str, _run: refold.Run, ticket: Ticket) -> Ticket:
    return ticket


@functools.wraps(plain_program)
def _wrapped(*given: Any) -> Any:
    return plain_program(*given)


@pytest.mark.parametrize(
    "program",
    [
        plain_program,
        Program(),
        Program().method,
        functools.partial(_third, "x"),
        _wrapped,
        f"{__name__}:plain_program",
        Reference(__name__, "plain_program"),
    ],
    ids=["plain", "object", "method", "partial", "wrapped", "name", "reference"],
)
def test_every_kind_of_program_has_its_types(program: Any, tmp_path: Path) -> None:
    """However it is given."""
    recording = refold.record(program, TICKET, log=tmp_path / "a.jsonl")

    assert recording.result() == TICKET


def test_types_are_read_once() -> None:
    """For each function; what has no Python function has none."""
    program = annotated(Ticket, Ticket)

    assert types_of(program) is types_of(program)
    assert types_of(functools.partial(program)) is types_of(functools.partial(program))
    assert types_of(print) is types_of(Ticket) is PLAIN


async def _loose(*given: Any, **_named: int) -> Any:
    return given[1]


async def _named(run: refold.Run, given: Any = None, *, tag: bytes = b"") -> Any:  # noqa: ARG001
    return given


@pytest.mark.parametrize("program", [_loose, _named])
def test_only_the_parameter_of_the_input_has_a_type_of_it(program: Any, tmp_path: Path) -> None:
    """Not one that is given by name."""
    assert refold.record(program, "x", log=tmp_path / "a.jsonl").result() == "x"
