"""Children that share a session change it through its owner's log; what they read is in theirs."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import NotCanonical, UsageError
from refold.engine.events.events import SessionChanged
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.session import EventBus, Session, ToolInvoked
from refold.engine.session.shared import SharedSession, share
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each
from tests.support.sessions import Finding, findings


def bound(session: Session, sent: list[Any] | None = None) -> tuple[SharedSession, list[Any]]:
    """Return a face in a run, and the lines of that run: changes, and reads as (name, value)."""
    lines: list[Any] = []

    def draw(_source: str, name: str, produce: Any) -> Any:
        lines.append((name, produce()))
        return lines[-1][1]

    def send(name: str, data: Any, by: str) -> None:
        session.take(SessionChanged(name, data, by))
        if sent is not None:
            sent.append((name, data, by))

    face = share(session, "0#1", send)
    face.bind(lines.append, draw)
    return face, lines


def test_a_change_is_in_the_childs_log_and_is_made_by_the_owner() -> None:
    session, sent = findings(), list[Any]()
    face, lines = bound(session, sent)

    face.dispatch(Finding("a"))

    assert lines == [SessionChanged("Finding", {"text": "a"}), ("failures", [])]
    assert sent == [("Finding", {"text": "a"}, "0#1")]
    assert session.select_all(Finding) == (Finding("a"),)


def test_what_no_log_can_hold_is_not_sent() -> None:
    session, sent = findings(), list[Any]()
    face, lines = bound(session, sent)

    with pytest.raises(NotCanonical):
        face.dispatch(Finding(float("inf")))

    assert (sent, lines) == ([], [])


def test_each_read_is_a_line() -> None:
    session = findings()
    session.dispatch(Finding("a"))
    session.dispatch(Finding("b"))
    face, lines = bound(session)

    assert face.select_all(Finding) == (Finding("a"), Finding("b"))
    assert face.latest(Finding) == Finding("b")
    assert face.where(Finding, lambda item: item.text == "a") == (Finding("a"),)
    assert face.snapshot() == session.snapshot()
    assert [name for name, _ in lines] == ["Finding", "Finding", "Finding", ""]


def test_a_copy_is_a_session_of_ones_own() -> None:
    session = findings()
    session.dispatch(Finding("a"))
    face, lines = bound(session)
    bus = EventBus()

    copy = face.clone(bus, session)
    copy.dispatch(Finding("b"))

    assert type(copy) is Session
    assert (copy.bus, copy.parent) == (bus, session)
    assert copy.select_all(Finding) == (Finding("a"), Finding("b"))
    assert session.select_all(Finding) == (Finding("a"),)
    assert [name for name, _ in lines] == [""], "the picture that it was made of"
    assert face.empty().select_all(Finding) == ()


def test_a_face_has_the_names_of_a_session() -> None:
    session = findings()
    face, _ = bound(session)

    names = {name for name in (*dir(Session), *vars(session)) if not name.startswith("_")}
    assert names <= {*dir(SharedSession), *vars(face)}
    assert (face.id, face.slice_types, face.event_types) == ("session", (Finding,), (Finding,))


@for_each(
    "use",
    [
        lambda face: face.children,
        lambda face: face.failures,
        lambda face: face.rollback(findings().snapshot()),
        lambda face: face.fold(SessionChanged("Finding", {"text": "a"})),
    ],
)
def test_what_is_for_the_owner_is_refused_with_what_to_do(use: Any) -> None:
    face, _ = bound(findings())

    with pytest.raises(UsageError, match=r"for the run that owns the session.*clone\(\)"):
        use(face)


def test_outside_of_its_run_a_face_is_refused() -> None:
    face, _ = bound(findings())
    face.unbind()

    with pytest.raises(UsageError, match="only be used while its child runs"):
        face.dispatch(Finding("a"))
    with pytest.raises(UsageError, match="only be used while its child runs"):
        face.select_all(Finding)


def test_a_face_is_shared_on_as_the_session_that_it_shows() -> None:
    session = findings()
    face, _ = bound(session)

    below = share(face, "0#1 > 0#1", None)

    assert below.session is session
    assert below.bus is session.bus
    assert (below.is_own, session.is_own) == (False, True)
    assert below.digest() == ""


async def grandchild(run: Run, _given: Any) -> None:
    run.session.dispatch(Finding("grandchild"))


async def child(run: Run, _given: Any) -> list[Any]:
    run.session.dispatch(Finding("child"))
    await run.delegate(Delegation(program=grandchild, session=run.session, shared=True))
    return [finding.text for finding in run.session.select_all(Finding)]


async def parent(run: Run, _input: Any) -> Any:
    run.session.dispatch(Finding("parent"))
    outcome = await run.delegate(Delegation(program=child, session=run.session, shared=True))
    return [outcome.output, len(run.session.select_all(Finding))]


def test_the_owners_log_has_all_changes_tagged_with_who_made_them(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    session = findings()

    recording = record(parent, log=log, session=session)

    assert recording.output == [["parent", "child", "grandchild"], 3]
    changes = [entry.data for entry in read_entries(log) if entry.kind == "session.changed"]
    assert [change["data"]["text"] for change in changes] == ["parent", "child", "grandchild"]
    path = next(
        entry.data["path"]
        for entry in read_entries(log.with_name("run.1.jsonl"))
        if entry.kind == "run.started"
    )
    assert changes[0].get("by", "") == ""
    assert changes[1]["by"] == path
    assert changes[2]["by"].startswith(path)
    report = reexecute(log, parent, session=findings())
    assert report.identical, str(report)


@attrs.frozen
class Heard:
    tool: str
    by: str


def fails(_items: tuple[Finding, ...], event: Finding) -> tuple[Finding, ...]:
    raise LookupError(event.text)


def hearing() -> Session:
    """Return a session that hears of tools by a reducer."""
    session = Session()
    session.register(ToolInvoked, Heard, lambda items, told: (*items, Heard(told.name, told.by)))
    session.register(Finding, Finding, fails)
    return session


@tool(effect="reads")
def look(widths: list[int]) -> list[int]:
    """Look."""
    return widths


async def looks_below(run: Run, _given: Any) -> list[Any]:
    await run.tool(look, widths=[2])
    failed = run.session.dispatch(Finding("below"))
    return [[each.reducer, each.message] for each in failed]


async def looks(run: Run, _given: Any) -> Any:
    await run.tool(look, widths=[1])
    below = Delegation(program=looks_below, session=run.session, shared=True)
    return (await run.delegate(below)).output


async def hears(run: Run, _input: Any) -> list[Any]:
    heard: list[list[Any]] = []

    def subscriber(told: ToolInvoked) -> None:
        heard.append([told.result, told.success, told.by])
        if told.by:
            raise ValueError(told.by)

    run.session.bus.subscribe(ToolInvoked, subscriber)
    await run.tool(look, widths=[0])
    outcome = await run.delegate(Delegation(program=looks, session=run.session, shared=True))
    items = [[item.tool, item.by] for item in run.session.select_all(Heard)]
    failures = [[each.event, each.reducer, each.message] for each in run.session.failures]
    return [outcome.output, heard, items, failures]


def test_the_owner_hears_of_the_tools_of_children_and_tells_them_what_failed(
    tmp_path: Path,
) -> None:
    """Reducers and subscribers are told, tagged; a replay needs no child for that."""
    log = tmp_path / "run.jsonl"
    below = "0#2 > 0#2"

    recording = record(hears, log=log, session=hearing(), tools=[look])

    failed = [["fails", "LookupError: below"]]
    assert recording.output == [
        failed,
        [[[0], True, ""], [[1], True, "0#2"], [[2], True, below]],
        [["look", ""], ["look", "0#2"], ["look", below]],
        [
            ["ToolInvoked", "a subscriber", "ValueError: 0#2"],
            ["ToolInvoked", "a subscriber", f"ValueError: {below}"],
            ["Finding", *failed[0]],
        ],
    ]
    report = reexecute(log, hears, session=hearing(), tools=[look])
    assert report.identical, str(report)


def test_of_what_is_too_long_for_a_line_the_owner_hears_that_it_was(tmp_path: Path) -> None:
    """Each of them has a line in the child's log; both do not fit in one of the owner's."""

    async def wide(run: Run, _given: Any) -> int:
        return len(await run.tool(look, widths=[9_999_999] * 70_000))

    async def owner(run: Run, _given: Any) -> list[Any]:
        outcome = await run.delegate(Delegation(program=wide, session=run.session, shared=True))
        return [outcome.output, [item.tool for item in run.session.select_all(Heard)]]

    log = tmp_path / "run.jsonl"
    assert record(owner, log=log, session=hearing(), tools=[look]).output == [70_000, ["look"]]
    (told,) = [each.data for each in read_entries(log) if each.kind == "session.changed"]
    assert told["data"]["arguments"] == {}
    assert told["data"]["result"]["type"] == "NotCanonical"
