"""`reexecute`: run a recorded program again against its log, and its children against theirs.

Nothing is executed but the program: no tool, no model, no runner (CONTRACT.md §12).  Compared are
every request and the end of every run; nothing may remain unconsumed.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import Diverged, ProgramNotFound
from refold.engine.events.events import RunStarted
from refold.engine.events.outcome import ChildRef
from refold.engine.kernel.kernel import Kernel
from refold.engine.log import Scan, scan
from refold.engine.log.names import child_path
from refold.engine.ports.effects import RunChild
from refold.engine.ports.executed import counted
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.ports.programs import UNRULY, load_program, names_shipped, program_name
from refold.engine.recording.nested import check_may_start
from refold.engine.runners.recording import in_thread
from refold.engine.secrets.vault import checked_volatile
from refold.replay.difference.excuses import IGNORED_SHOWN, Ignored
from refold.replay.explain.causes import likely_cause
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.apart import reexecute_apart
from refold.replay.reexecute.comparison import Comparison, damaged
from refold.replay.reexecute.world import Replayed, first_event


@attrs.frozen(kw_only=True)
class ReplayReport(Document):
    """What a re-execution proved."""

    computed = ("identical", "not_compared")

    log: Path
    divergences: tuple[Divergence, ...]
    """The first of each run that differs, the root's before its children's."""
    entries: int
    """Entries compared, over all logs."""
    children: int
    """Child runs that were re-executed, at every depth."""
    tools_executed: int = 0
    """Calls of leaf tools that programs and delegation tools made past `run`; else 0, for outcomes
    come from the record."""
    ends_early: tuple[str, ...] = ()
    """Logs whose record ends before its run did, and that match up to there."""
    ignored: tuple[Ignored, ...] = ()
    """What was not as recorded and is volatile, or was taken out; at most 1,000 of each run."""
    ignored_count: int = 0
    """How many these are in all."""
    timers: int = 0
    """Timers that the programs armed: where they fired is compared, how long they are is not."""
    unread: tuple[str, ...] = ()
    """Child runs that left no log: they were killed before they wrote a line."""

    @property
    def not_compared(self) -> tuple[str, ...]:
        """What could have changed unseen, a line each."""
        timers = f"the length of {self.timers:,} timer{'s' * (self.timers != 1)}"
        unread = [f"{child}, which left no log" for child in self.unread]
        return (timers, *unread) if self.timers else tuple(unread)

    @property
    def identical(self) -> bool:
        """Whether every run did what its log says."""
        return not self.divergences

    def check(self) -> None:
        """Raise the first divergence, if there is one.

        Raises:
            Diverged: with the divergence as its data.
        """
        if self.divergences:
            raise Diverged(self.divergences[0])

    def __str__(self) -> str:
        if self.divergences:
            return "\n\n".join(str(divergence) for divergence in self.divergences)
        runs = f"{self.children} child run{'s' * (self.children != 1)}"
        text = f"identical: {self.entries} entries, {runs}; "
        text += f"tool calls executed: {self.tools_executed}"
        if self.ends_early:
            text += f"; the record of {', '.join(self.ends_early)} ends before its run did"
        if self.not_compared:
            text += f"; not compared: {', '.join(self.not_compared)}"
        if self.ignored_count:
            text += f"; ignored: {self.ignored_count} value{'s' * (self.ignored_count != 1)}"
            text += "".join(f"\n  {one}" for one in self.ignored[:IGNORED_SHOWN])
        return text


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


@attrs.frozen
class Watch:
    """Is told of what happens in a re-execution that may not come to its end."""

    on_end: Callable[[], None]
    """The last line of an unfinished record has matched."""
    on_difference: Callable[[Divergence], None]
    """A line differed; what it is called is not settled yet."""


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
    tree = _Tree(watch, volatile)
    with counted() as executed:
        tree.replay(log, program, names, session, tools)
    return ReplayReport(
        log=log,
        divergences=tuple(tree.divergences),
        entries=tree.entries,
        children=tree.runs - 1,
        tools_executed=executed.tools + tree.tools_executed,
        ends_early=tuple(tree.ends_early),
        ignored=tuple(tree.ignored),
        ignored_count=tree.ignored_count,
        timers=tree.timers,
        unread=tuple(tree.unread),
    )


class _Tree:
    """One re-execution of a tree of runs."""

    def __init__(self, watch: Watch | None, volatile: tuple[str, ...]) -> None:
        self._watch = watch
        self._volatile = volatile
        self.ignored: list[Ignored] = []
        self.ignored_count = 0
        self.timers = 0
        self.unread: list[str] = []
        self.divergences: list[Divergence] = []
        self.ends_early: list[str] = []
        self.entries = 0
        self.runs = 0
        self.tools_executed = 0
        """In runs that were re-executed apart: what this process executes is counted as it is."""

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
        self.runs += 1
        if found.damage is not None or found.entries == 0:
            damage = found.damage or found.torn
            self.divergences.append(damaged(log, above, damage.as_error() if damage else None))
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
        self.entries += replayed.cursor.taken
        self.ignored += replayed.excuses.ignored
        self.ignored_count += replayed.excuses.count
        self.timers += replayed.timers
        if divergence is not None:
            self.divergences.append(divergence)
        elif replayed.has_ended:
            self.ends_early.append(log.name)
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
        answer = reexecute_apart(log, code, tools, names, session, volatile=self._volatile)
        if answer.report is not None:
            self.divergences += answer.report.divergences
            self.ends_early += answer.report.ends_early
            self.entries += answer.report.entries
            self.runs += answer.report.children
            self.tools_executed += answer.report.tools_executed
            self.ignored += answer.report.ignored
            self.ignored_count += answer.report.ignored_count
            self.timers += answer.report.timers
            self.unread += answer.report.unread
        elif answer.reached_end:
            self.ends_early.append(log.name)
            self.entries += scan(log).entries
        else:
            self.divergences.append(_died(log, names, answer.how))

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
        found = scan(path) if path.exists() else None
        if found is None or (found.entries == 0 and child.call not in logged):
            if child.call in logged:
                self.divergences.append(_missing(path, place))
            else:  # it was killed before it wrote a whole line
                self.unread.append(" > ".join(place))
            return
        ended = logged.get(child.call)
        is_bound = ended is None or (found.head, found.entries) == (ended.head, ended.events)
        if ended is not None and found.damage is None and not is_bound:
            self.divergences.append(_other(path, place, ended, found))
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
