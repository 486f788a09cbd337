"""Only events change a session, through pure reducers in order; the log has them first."""

import gc
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import (
    NotCanonical,
    SnapshotRestoreError,
    SnapshotSerializationError,
    UsageError,
)
from refold.engine.events.events import SessionChanged, SessionRestored, SessionSeeded
from refold.engine.session import (
    EventBus,
    ReducerFailure,
    Session,
    ToolInvoked,
    append_all,
)


@attrs.frozen
class Finding:
    text: str


@attrs.frozen
class Tally:
    count: int


@attrs.frozen
class Loose:
    value: Any


def counted(items: tuple[Tally, ...], _event: Finding) -> tuple[Tally, ...]:
    return (Tally(items[-1].count + 1 if items else 1),)


def fresh() -> Session:
    session = Session()
    session.register(Finding)
    session.register(Finding, Tally, counted)
    return session


def test_an_event_goes_to_every_reducer_of_its_class_in_order() -> None:
    session = fresh()

    session.dispatch(Finding("a"))
    session.dispatch(Finding("a"))
    session.dispatch(Tally(9))

    assert session.select_all(Finding) == (Finding("a"),)
    assert session.select_all(Tally) == (Tally(2),)
    assert session.slice_types == (Finding, Tally)


def test_selectors() -> None:
    session = fresh()
    for text in "abc":
        session.dispatch(Finding(text))

    assert session.latest(Finding) == Finding("c")
    assert session.where(Finding, lambda item: item.text != "b") == (Finding("a"), Finding("c"))
    assert session.select_all(Loose) == ()
    assert session.latest(Loose) is None


def test_registering_again_changes_nothing() -> None:
    session = Session()

    assert session.register(Finding, name="mine")
    assert not session.register(Finding, Finding, append_all, name="mine")
    assert session.register(Finding, Finding, append_all, name="another")
    session.dispatch(Finding("a"))

    assert session.select_all(Finding) == (Finding("a"), Finding("a"))


def test_a_reducer_that_fails_leaves_its_slice_and_is_reported() -> None:
    told = list[ReducerFailure]()
    session = fresh()
    session.bus.subscribe(ReducerFailure, told.append)
    session.register(Finding, Tally, lambda _items, _event: 1 / 0, name="raises")  # type: ignore[arg-type, return-value]  # which is the point
    session.register(Finding, Tally, lambda _items, _event: [Tally(1)], name="a list")  # type: ignore[arg-type, return-value]  # which is the point
    session.register(Finding, Tally, lambda _items, event: (event,), name="another class")

    failed = session.dispatch(Finding("a"))

    assert session.select_all(Tally) == (Tally(1),)
    assert [one.reducer for one in failed] == ["raises", "a list", "another class"]
    assert failed[0] == ReducerFailure(
        "Finding", "Tally", "raises", "ZeroDivisionError: division by zero"
    )
    assert session.failures == failed == tuple(told)


def test_a_reducer_that_makes_an_item_that_is_not_read_back_has_failed() -> None:
    session = Session()
    session.register(Finding, Loose, lambda items, event: (*items, Loose((event.text,))), name="it")

    (failure,) = session.dispatch(Finding("a"))

    assert "would be read back as Loose(value=['a'])" in failure.message
    assert session.select_all(Loose) == ()


def test_in_a_run_the_log_has_an_event_before_the_slices_do() -> None:
    session, seen = fresh(), list[tuple[Any, int]]()
    session.bind(lambda line: seen.append((line, len(session.select_all(Finding)))))

    session.dispatch(Finding("a"))
    snapshot = session.snapshot()
    session.dispatch(Finding("b"))
    session.rollback(snapshot)
    session.unbind()
    session.dispatch(Finding("c"))

    assert seen == [
        (SessionChanged("Finding", {"text": "a"}), 0),
        (SessionChanged("Finding", {"text": "b"}), 1),
        (SessionRestored(snapshot.as_json()), 2),
    ]
    assert session.select_all(Finding) == (Finding("a"), Finding("c"))


def test_a_session_has_one_run_at_a_time() -> None:
    session = fresh()
    session.bind(lambda _line: None)

    with pytest.raises(UsageError, match="pass a clone"):
        session.bind(lambda _line: None)
    with pytest.raises(UsageError, match="pass a clone"):
        session.check()


def test_a_session_that_no_log_can_hold_is_refused_before_its_run() -> None:
    session = Session()
    session.register(Loose)
    loose = Loose("")
    session.dispatch(loose)
    object.__setattr__(loose, "value", float("inf"))

    with pytest.raises(SnapshotSerializationError):
        session.check()


def test_an_event_that_no_log_can_hold_changes_nothing_in_a_run() -> None:
    session = Session()
    session.register(Loose)
    session.bind(lambda _line: None)

    with pytest.raises(NotCanonical):
        session.dispatch(Loose(float("inf")))

    assert session.select_all(Loose) == ()


def test_what_a_tool_returned_is_reduced_without_a_line_of_its_own() -> None:
    session, lines, told = Session(), list[Any](), list[ToolInvoked]()
    session.register(ToolInvoked)
    session.bus.subscribe(ToolInvoked, told.append)
    session.bind(lines.append)
    error = {"code": "raised", "message": "no", "type": "OSError"}

    session.observe("read", {"path": "a"}, "text", None)
    session.observe("read", {"path": "b"}, None, error)

    expected = (
        ToolInvoked("read", {"path": "a"}, "text", success=True),
        ToolInvoked("read", {"path": "b"}, error, success=False),
    )
    assert session.select_all(ToolInvoked) == tuple(told) == expected
    assert lines == []
    assert session.clone().select_all(ToolInvoked) == expected


def test_a_subscriber_that_fails_on_a_tool_is_reported_and_harms_nobody() -> None:
    session = Session()
    session.register(ToolInvoked)
    session.bus.subscribe(ToolInvoked, lambda _event: 1 / 0)

    session.observe("read", {}, "text", None)

    assert len(session.select_all(ToolInvoked)) == 1
    (failure,) = session.failures
    assert (failure.reducer, failure.message) == (
        "a subscriber",
        "ZeroDivisionError: division by zero",
    )


def test_the_bus_reaches_the_session_and_the_session_the_bus() -> None:
    bus, told = EventBus(), list[Any]()
    session = Session(bus=bus)
    session.register(Finding)
    bus.subscribe(Finding, told.append)

    bus.publish(Finding("published"))
    session.dispatch(Finding("dispatched"))

    assert (
        session.select_all(Finding) == (Finding("published"), Finding("dispatched")) == tuple(told)
    )


def test_what_nobody_reduces_is_no_line_when_published() -> None:
    session, lines = fresh(), list[Any]()
    session.bind(lines.append)

    session.bus.publish(Tally(1))
    session.bus.publish(Finding("a"))

    assert lines == [SessionChanged("Finding", {"text": "a"})]


def test_rollback_empties_what_the_snapshot_has_not_and_tells_nobody() -> None:
    session, told = fresh(), list[Any]()
    empty = session.snapshot()
    session.dispatch(Finding("a"))
    session.bus.subscribe(object, told.append)

    session.rollback(empty)

    assert (session.select_all(Finding), session.select_all(Tally)) == ((), ())
    assert told == []


def test_rollback_that_fails_half_way_changes_nothing_and_writes_nothing() -> None:
    source, session, lines = fresh(), Session(), list[Any]()
    source.dispatch(Finding("a"))
    session.register(Finding)
    session.dispatch(Finding("z"))
    session.bind(lines.append)

    with pytest.raises(SnapshotRestoreError, match="Slice types not registered: Tally"):
        session.rollback(source.snapshot())

    assert session.select_all(Finding) == (Finding("z"),)
    assert lines == []


def test_a_clone_is_equal_and_apart() -> None:
    session = fresh()
    session.dispatch(Finding("a"))

    clone = session.clone(parent=session)
    clone.dispatch(Finding("b"))

    assert session.select_all(Finding) == (Finding("a"),)
    assert clone.select_all(Tally) == (Tally(2),)
    assert (clone.id, clone.parent, session.children) == ("session.1", session, (clone,))
    assert clone.bus is not session.bus
    assert session.empty().id == "session.2"


def test_a_parent_does_not_keep_its_clones() -> None:
    session, bus = fresh(), EventBus()
    clone = session.clone(bus)
    bus.close()
    clone.bus.close()

    del clone

    gc.collect()
    assert session.children == ()


def test_the_lines_of_a_log_make_the_session_again() -> None:
    lines = list[Any]()
    session = fresh()
    session.dispatch(Finding("before"))
    lines.append(SessionSeeded(session.snapshot().as_json()))
    session.bind(lines.append)
    session.dispatch(Finding("a"))
    session.rollback(session.snapshot())
    session.dispatch(Finding("b"))

    again = fresh()
    for line in lines:
        again.fold(line)

    assert again.digest() == session.digest()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("dispatch"), st.sampled_from("abc")),
        st.tuples(st.just("snapshot"), st.none()),
        st.tuples(st.just("rollback"), st.integers(0, 3)),
        st.tuples(st.just("observe"), st.sampled_from("xy")),
    ),
    max_size=12,
)


@given(STEPS)
def test_whatever_happens_the_log_makes_the_session_again(steps: list[tuple[str, Any]]) -> None:
    """And a clone is equal at the end, and a rollback to the last snapshot changes nothing."""
    session, again, lines = fresh(), fresh(), list[Any]()
    for one in (session, again):
        one.register(ToolInvoked)
    snapshots = [session.snapshot()]
    session.bind(lines.append)
    for word, value in steps:
        match word:
            case "dispatch":
                session.dispatch(Finding(value))
            case "snapshot":
                snapshots.append(session.snapshot())
            case "rollback":
                session.rollback(snapshots[value % len(snapshots)])
            case _:
                session.observe(value, {}, None, None)
                lines.append(value)

    for line in lines:
        if isinstance(line, str):
            again.observe(line, {}, None, None)
        else:
            again.fold(line)

    assert again.snapshot() == session.clone().snapshot() == session.snapshot()
    digest = session.digest()
    session.rollback(session.snapshot())
    assert session.digest() == digest
