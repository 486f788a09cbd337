"""A session is a fold of its run's log: the lines alone make it again, and its digest says so."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import SnapshotRestoreError, UsageError
from refold.engine.ports.ports import Delegation, Tool
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.engine.session import Session, ToolInvoked, append_all
from refold.replay import refold_session
from refold.replay.audit.session_fold import beyond
from refold.tools.agents.plans import planning_tools
from refold.tools.configuration.prepared_run import planned
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each


@attrs.frozen
class Finding:
    text: str


@attrs.frozen
class Seen:
    tool: str
    success: bool


@tool(effect="reads")
def look(path: str) -> str:
    """Look at a file."""
    if path == "absent":
        raise FileNotFoundError(path)
    return f"seen {path}"


def fresh() -> Session:
    def seen(items: tuple[Seen, ...], event: ToolInvoked) -> tuple[Seen, ...]:
        return (*items, Seen(event.name, event.success))

    session = Session()
    session.register(Finding, Finding, append_all)
    session.register(ToolInvoked, Seen, seen)
    return session


async def shares(run: Run, _given: Any) -> None:
    run.session.dispatch(Finding("of a child"))


async def program(run: Run, _input: Any) -> None:
    session = run.session
    session.dispatch(Finding("a"))
    before = session.snapshot()
    await run.tool(look, path="x")
    session.rollback(before)
    session.bus.publish(Finding("published"))
    await run.delegate(Delegation(program=shares, session=session, shared=True))
    for path in ("y", "absent"):
        try:
            await run.tool(look, path=path)
        except Exception as error:  # noqa: BLE001 - which it is, the log says
            session.dispatch(Finding(str(error)))


def recorded(log: Path) -> Session:
    session = fresh()
    session.dispatch(Finding("from before"))
    assert record(program, log=log, session=session).status == "completed"
    return session


def test_the_log_alone_makes_the_session_again(tmp_path: Path) -> None:
    session, again = recorded(tmp_path / "run.jsonl"), fresh()

    assert refold_session(tmp_path / "run.jsonl", again) is True

    assert again.snapshot() == session.snapshot()
    assert [item.text for item in again.select_all(Finding)][:4] == [
        "from before",
        "a",
        "published",
        "of a child",
    ]
    assert again.select_all(Seen) == (Seen("look", success=True), Seen("look", success=False))


def test_another_reducer_is_found_by_the_digest(tmp_path: Path) -> None:
    recorded(tmp_path / "run.jsonl")
    other = Session()
    other.register(Finding, Finding, lambda items, _event: items, name="forgets")
    other.register(Seen)

    assert refold_session(tmp_path / "run.jsonl", other) is False


def test_an_unsealed_log_is_not_comparable(tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    recorded(log)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    assert refold_session(log, fresh()) is None


def test_a_session_without_the_slices_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "run.jsonl")

    with pytest.raises(SnapshotRestoreError, match="Slice types not registered: Finding"):
        refold_session(tmp_path / "run.jsonl", Session())


@pytest.mark.parametrize("name", ["bare.jsonl", "run.1.jsonl"])
def test_a_run_without_a_session_of_its_own_has_none_to_refold(tmp_path: Path, name: str) -> None:
    async def bare(_run: Run, _input: Any) -> None:
        pass

    record(bare, log=tmp_path / "bare.jsonl")
    recorded(tmp_path / "run.jsonl")

    with pytest.raises(UsageError, match="does not have a session of its own"):
        refold_session(tmp_path / name, fresh())


async def looks(run: Run, _input: Any) -> None:
    await run.tool(look, path="x")


async def has_a_child_that_finds(run: Run, _input: Any) -> None:
    own = run.session.clone()
    await run.delegate(Delegation(program=shares, session=own, shared=False))


async def plans(run: Run, _input: Any) -> None:
    await run.tool("planning_setup_plan", objective="look around")


async def idle(_run: Run, _input: Any) -> None:
    pass


@for_each(
    "program, held",
    [
        (idle, ""),
        (plans, ""),
        (program, "Finding"),
        (looks, "what its reducers made of tools' results"),
        (has_a_child_that_finds, "Finding"),
    ],
)
def test_what_an_empty_session_cannot_take_is_named(
    tmp_path: Path, program: Any, held: str
) -> None:
    """§6.3: of the run, of its children, and what no line of its own says."""
    session = planned() if program is plans else fresh()
    tools: list[Tool] = [look, *planning_tools()]
    log = record(program, log=tmp_path / "run.jsonl", session=session, tools=tools).log

    assert beyond(log, planned) == held
    assert beyond(log, planned if program is plans else fresh) == ""
