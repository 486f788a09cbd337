"""`reexecute`: run a recorded program again against its log, and its children against theirs.

Nothing is executed but the program: no tool, no model, no runner (CONTRACT.md §12).  Compared are
every request and the end of every run; nothing may remain unconsumed.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from refold.engine.errors import LogMissing, ProgramNotFound
from refold.engine.events.events import RunStarted
from refold.engine.events.outcome import ChildRef
from refold.engine.kernel.kernel import Kernel
from refold.engine.log.names import child_path
from refold.engine.log.reader import Scan, scan
from refold.engine.ports.effects import RunChild
from refold.engine.ports.executed import counted
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.ports.programs import (
    UNRULY,
    load_program,
    names_shipped,
    program_name,
)
from refold.engine.recording.nested import check_may_start
from refold.engine.runners.recording import in_thread
from refold.engine.secrets.vault import checked_volatile
from refold.replay.explain.causes import likely_cause
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.apart import reexecute_apart
from refold.replay.reexecute.comparison import Comparison, damaged
from refold.replay.reexecute.report import ReplayReport, Watch
from refold.replay.reexecute.world import Replayed, first_event


def reexecute(
    log: str | os.PathLike[str],
    program: Program | Reference | str | None = None,
    *,
    tools: Sequence[Tool] = (),
    session: SessionPort | None = None,
    volatile: Iterable[str] = (),
) -> ReplayReport:
    """Run the program of `log` again with recorded outcomes, and compare.

    Args:
        log: The log of a root run, or of a child.
        program: The program as it is now; not needed for those that Refold ships.
        tools: Needed where the program calls by name a delegation tool, or a tool whose result
            has a type of its own.  None is executed.
        session: Needed where the run had one: a fresh session with the same reducers.
        volatile: Paths that are not compared, besides those that the log lists (§12.7).

    Raises:
        LogError: there is no such log.
        ProgramNotFound: no program was given and the log's is none that Refold ships.
        ToolNeeded: a tool has to be passed.
    """
    check_may_start("reexecute")
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - None instead of an error
        again: ReplayReport = in_thread(
            lambda: reexecute(log, program, tools=tools, session=session, volatile=volatile)
        )
        return again
    known = {tool.name: tool for tool in tools}
    paths = checked_volatile(volatile)
    return replay_tree(Path(log), program, known, (), session=session, volatile=paths)


def replay_tree(
    log: Path,
    program: Program | Reference | str | None,
    tools: Mapping[str, Tool],
    names: tuple[str, ...],
    watch: Watch | None = None,
    *,
    session: SessionPort | None = None,
    volatile: tuple[str, ...] = (),
) -> ReplayReport:
    """Re-execute the run of `log` and all below it; `names` lead from the root to it.

    With a `watch`, the run is re-executed in this thread even if its record is unfinished.
    """
    tree = _Tree(log, watch, volatile)
    with counted() as executed:
        tree.replay(log, program, names, session, tools)
    tools_executed = executed.tools + tree.report.tools_executed
    return attrs.evolve(
        tree.report, tools_executed=tools_executed, children=tree.report.children - 1
    )


class _Tree:
    """One re-execution of a tree of runs."""

    def __init__(self, log: Path, watch: Watch | None, volatile: tuple[str, ...]) -> None:
        self._watch = watch
        self._volatile = volatile
        self.report = ReplayReport(log=log)
        """So far; its root counts as a child.  Of tools, only those of runs that were re-executed
        apart are in it: what this process executes is counted as it is."""

    def _add(self, **found: Any) -> None:
        self.report = self.report.plus(ReplayReport(log=self.report.log, **found))

    def replay(
        self,
        log: Path,
        program: Program | Reference | str | None,
        above: tuple[str, ...],
        session: SessionPort | None,
        tools: Mapping[str, Tool],
        found: Scan | None = None,
    ) -> None:
        """Replay one run, then its children; `found` says what its chain is, where it is known."""
        found = found or scan(log)
        self._add(children=1)
        if found.damage is not None or found.entries == 0:
            damage = found.damage or found.torn
            error = damage.as_error() if damage else None
            self._add(divergences=(damaged(log, above, error),))
            return
        watch, self._watch = self._watch, None
        if watch is None and (not found.sealed or (program is None and _is_unruly(log))):
            self._replay_unfinished(log, program, above, tools, session)
            return
        on_end = watch.on_end if watch else None
        replayed = Replayed(
            log,
            tools=tools,
            session=session,
            on_end=on_end,
            verified=found.sealed,  # then it need not be verified again, line by line
            volatile=self._volatile,
        )
        code = program_of(program, replayed.started)
        names = above or (replayed.started.program,)
        run = Comparison(log, replayed, code, names)
        if watch is not None:
            replayed.on_mismatch = lambda mismatch: watch.on_difference(
                run.at_first_sight(mismatch)
            )
        divergence = run.compare()
        self._add(
            divergences=(divergence,) if divergence is not None else (),
            entries=replayed.cursor.taken,
            ends_early=(log.name,) if divergence is None and replayed.has_ended else (),
            ignored=tuple(replayed.excuses.ignored),
            ignored_count=replayed.excuses.count,
            timers=replayed.timers,
            behind=(log.name,) if found.ended and found.torn else (),
        )
        for child in replayed.children:
            session = _session_of(child, replayed.kernel)
            self._replay_child(log, child, names, tools, session, replayed.logged)

    def _replay_unfinished(
        self,
        log: Path,
        program: Program | Reference | str | None,
        above: tuple[str, ...],
        tools: Mapping[str, Tool],
        session: SessionPort | None,
    ) -> None:
        """Replay a run whose record stops: it may crash or stand still again, out of harm's way."""
        started = first_event(log)
        code = program if program is not None else program_of(None, started)
        names = above or (started.program,)
        volatile = self._volatile

        def here(watch: Watch) -> ReplayReport:
            return replay_tree(log, code, tools, names, watch, session=session, volatile=volatile)

        has_session = session is not None
        answer = reexecute_apart(
            log, code, tools, names, here, may_leave=not has_session, volatile=volatile
        )
        if answer.report is not None:
            self.report = self.report.plus(answer.report)
        elif answer.reached_end:
            self._add(ends_early=(log.name,), entries=scan(log).entries)
        else:
            self._add(divergences=(_died(log, names, answer.how),))

    def _replay_child(
        self,
        log: Path,
        child: RunChild,
        names: tuple[str, ...],
        tools: Mapping[str, Tool],
        session: SessionPort | None,
        logged: Mapping[str, ChildRef],
    ) -> None:
        path = child_path(log, child.number)
        name = child.delegation.agent or program_name(child.delegation.program)
        place = (*names, f"{name}[{child.number}]")
        try:
            found = scan(path)
        except LogMissing as error:
            if os.path.lexists(path):
                self._add(divergences=(damaged(path, place, error),))
                return
            found = None
        if found is None or (found.entries == 0 and child.call not in logged):
            if child.call in logged:
                self._add(divergences=(_missing(path, place),))
            else:  # it was killed before it wrote a whole line
                self._add(unread=(" > ".join(place),))
            return
        ended = logged.get(child.call)
        is_bound = ended is None or (found.head, found.entries) == (ended.head, ended.events)
        if ended is not None and found.damage is None and not is_bound:
            self._add(divergences=(_other(path, place, ended, found),))
            return
        given = child.delegation
        own = {tool.name: tool for tool in given.own_tools}
        self.replay(path, given.program, place, session, {**tools, **own}, found)


def _is_unruly(log: Path) -> bool:
    """Return whether a log names a program of ours that would take this process with it."""
    return first_event(log).program in UNRULY


def _session_of(child: RunChild, kernel: Kernel) -> SessionPort | None:
    """Return the session that the child's re-execution starts with."""
    if not child.delegation.shared or kernel.session is None:
        return child.delegation.session  # type: ignore[no-any-return]  # a `SessionPort`
    from refold.engine.session.shared import share  # noqa: PLC0415 - few runs share one

    return share(kernel.session, kernel.child_path(child.call), None)


def program_of(program: Program | Reference | str | None, started: RunStarted) -> Program:
    """Return the program that was given, or the shipped one whose log begins with `started`.

    Raises:
        ProgramNotFound: it is neither.
    """
    if program is not None:
        return load_program(program)
    if names_shipped(started):
        return load_program(started.program)
    raise ProgramNotFound(
        started.program,
        "the log names its program but never says what code to import; "
        "pass it (--program module:name or file.py:name)",
    )


def _died(log: Path, names: tuple[str, ...], how: str) -> Divergence:
    return Divergence(
        category="environment",
        where=" > ".join(names),
        log=str(log),
        now={"kind": "process", "name": how},
        cause="the program ended its process, or stood still, before the record does",
    )


def _other(log: Path, names: tuple[str, ...], ended: ChildRef, found: Scan) -> Divergence:
    return Divergence(
        category="log_damaged",
        where=" > ".join(names),
        log=str(log),
        recorded=f"its parent's log names {ended.events} entries, head {ended.head[:16]}",
        now=f"the file has {found.entries} entries, head {found.head[:16]}",
        cause=likely_cause("log_damaged", (), {}),
    )


def _missing(log: Path, names: tuple[str, ...]) -> Divergence:
    return Divergence(
        category="log_damaged",
        where=" > ".join(names),
        log=str(log),
        recorded=f"{log.name}: its parent's log names its head, and the file is missing",
        cause=likely_cause("log_damaged", (), {}),
    )
