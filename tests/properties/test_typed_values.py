"""Values have the types that programs are annotated with, wherever they come from (§9.12).

Laws on random values of all kinds of types: what is recorded, replayed, resumed, forked, and run in
other processes is equal, and so are the bytes of the logs.
"""

import datetime as dt
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.engine.encoding.plain import to_json
from refold.testing import FixedClock
from tests.support.typed_programs import (
    SEEN,
    Colour,
    Everything,
    Note,
    Point,
    Price,
    lead,
    plain_lead,
)
from tests.support.unfinished import cut

CLOCK = FixedClock()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
MOMENTS = st.datetimes(timezones=st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=-3.5))]))
PRICES = st.builds(
    Price,
    amount=st.decimals(allow_nan=False, allow_infinity=False, places=2),
    per=st.integers(0, 10**9).map(lambda seconds: dt.timedelta(seconds=seconds)),
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
VALUES = st.builds(
    Everything,
    id=st.uuids(),
    path=st.sampled_from(["a", "a/b c", "/é"]).map(Path),
    due=st.none() | st.dates(),
    colour=st.sampled_from(Colour),
    kind=st.sampled_from(["a", 1]),
    note=st.fixed_dictionaries({"text": TEXTS}, optional={"at": MOMENTS}),
    prices=st.lists(PRICES, max_size=2),
    points=st.dictionaries(TEXTS, st.builds(Point, st.integers(0, 9), NUMBERS), max_size=2),
    names=st.frozensets(TEXTS, max_size=3),
    many=st.lists(NUMBERS | st.integers(0, 9), max_size=3).map(tuple),
    any=PLAIN,
    either=PRICES | st.lists(st.integers(0, 9), max_size=2) | TEXTS,
)
ONE = Everything(
    id=UUID(int=1),
    path=Path("a"),
    due=dt.date(2026, 1, 2),
    colour=Colour.RED,
    kind=1,
    note=Note(text="x"),
    prices=[Price(Decimal("1.5"), dt.timedelta(seconds=2))],
    points={"a": Point(1, 2.0)},
    names=frozenset({"b", "a"}),
    many=(1.0,),
    any=[None],
)


@pytest.fixture(autouse=True)
def _nothing_seen() -> Iterator[None]:
    SEEN.clear()
    yield
    SEEN.clear()


def recorded(program: Any, value: Any, log: Path, **options: Any) -> refold.Recording:
    """Record under a fixed clock and seed, to be compared."""
    return refold.record(program, value, log=log, clock=CLOCK, seed=1, durability="fast", **options)


def taken() -> list[Any]:
    """Return what programs saw, and forget it."""
    found = list(SEEN)
    SEEN.clear()
    return found


@given(value=VALUES, program=st.sampled_from([lead, plain_lead]))
def test_values_are_equal_in_a_record_and_its_replay(value: Everything, program: Any) -> None:
    """In the program, in its children, and for who records it."""
    taken()
    with tempfile.TemporaryDirectory() as folder:
        recording = recorded(program, value, Path(folder) / "a.jsonl")
        then = taken()
        report = refold.reexecute(recording, program)
        now = taken()

        assert recording.result() == [value, value], recording
        assert report.identical, report
        assert recording.output_json == [to_json(value), to_json(value)]
        assert then == [value] * len(then)
        assert sorted(map(repr, now)) == sorted(map(repr, then))


@given(value=VALUES, entries=st.integers(1, 6))
@settings(max_examples=8)
def test_values_are_equal_in_a_run_that_is_resumed(value: Everything, entries: int) -> None:
    """From any entry on, and the data of the log is the same."""
    taken()
    with tempfile.TemporaryDirectory() as folder:
        whole = recorded(lead, value, Path(folder) / "a.jsonl")
        log = cut(whole.log, Path(folder) / "b.jsonl", min(entries, whole.entries - 1))

        again = refold.resume(log, lead, clock=CLOCK)

        assert again.output == whole.output == [value, value]
        assert again.tree_digest == whole.tree_digest != ""
        assert all(each == value for each in taken())


@pytest.mark.long
@given(value=VALUES)
@settings(max_examples=2)
def test_values_are_equal_under_both_runners(value: Everything) -> None:
    """And so is the data in the logs of parent and children."""
    with tempfile.TemporaryDirectory() as folder:
        here = recorded(lead, value, Path(folder) / "a.jsonl")
        apart = recorded(lead, value, Path(folder) / "b.jsonl", runner="subprocess")

        assert apart.result() == here.result() == [value, value]
        assert apart.tree_digest == here.tree_digest != ""
        assert refold.reexecute(apart, lead).identical


@given(value=PLAIN)
def test_a_program_without_annotations_logs_what_one_of_any_logs(value: Any) -> None:
    """Its lines are the ones of plain JSON values."""

    def made(annotations: dict[str, Any]) -> Any:
        async def program(_run, value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - it is meant
            return value

        program.__annotations__ = annotations
        return program

    with tempfile.TemporaryDirectory() as folder:
        one = recorded(made({}), value, Path(folder) / "a.jsonl")
        other = recorded(made({"value": Any, "return": object}), value, Path(folder) / "b.jsonl")

        assert one.output == other.output == value
        assert one.data_digest == other.data_digest


def test_a_fork_has_values_of_the_same_types(tmp_path: Path) -> None:
    """An outcome that is given in a child's place is read as the child's; it has to fit."""
    whole = recorded(lead, ONE, tmp_path / "a.jsonl")
    other = to_json(ONE) | {"kind": "a"}
    outcome = {"status": "completed", "output": other}

    forked = refold.fork(whole.log, None, lead, edits={"0#1": outcome}, into=tmp_path / "b.jsonl")

    assert forked.recording is not None
    assert [each.kind for each in forked.recording.result()] == ["a", 1]
    for call, at in (("0#1", None), ("0#2", 1)):  # in the copy, and after it
        into = tmp_path / f"{call}.jsonl"
        edits = {call: outcome | {"output": other | {"due": "soon"}}}
        with pytest.raises(refold.UsageError, match=r"edited .* of program 'echo', at /due"):
            refold.fork(whole.log, at, lead, edits=edits, into=into)
        assert not into.exists()
