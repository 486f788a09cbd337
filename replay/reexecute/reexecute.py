"""`reexecute`: run a recorded program again against its log, and its children against theirs.

Nothing is executed but the program: no tool, no model, no runner (CONTRACT.md §12).  Compared are
every request and the end of every run; nothing may remain unconsumed.
"""

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

from refold.engine.errors import LogError, LogMissing
from refold.engine.kernel.kernel import Kernel
from refold.engine.log.descriptors import holding
from refold.engine.log.names import child_path
from refold.engine.log.reader import Scan, read_entries, scan
from refold.engine.ports.effects import RunChild
from refold.engine.ports.executed import counted
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.ports.programs import UNRULY, program_name
from refold.engine.recording.nested import check_may_start
from refold.engine.recording.run_request import offered
from refold.engine.recording.workers import beside_loop
from refold.engine.secrets.vault import checked_volatile
from refold.replay.difference.excuses import unmatched
from refold.replay.difference.pointer_diff import differences
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.fingerprints import redefined
from refold.replay.index.guarantee import refuse_other_rules
from refold.replay.reexecute.comparison import Comparison
from refold.replay.reexecute.report import ReplayReport, RunAgain, Watch, damaged
from refold.replay.reexecute.world import Replayed, first_event, program_of


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
        program: The current program; not needed for programs that Refold ships.
        tools: Needed if the program calls by name a delegation tool, or a tool with a typed result.
            No tool is executed.
        session: Needed if the run had one: a fresh session with the same reducers.
        volatile: Paths that are not compared, in addition to those that the log lists (§12.7).

    Raises:
        LogError: the log does not exist.
        ProgramNotFound: no program was given, and Refold does not ship the log's.
        ToolNeeded: a tool must be passed.
    """
    check_may_start("reexecute")
    again = RunAgain(
        log=log if isinstance(log, Path) else Path(log),
        program=program,
        tools={tool.name: tool for tool in tools},
        session=session,
        volatile=checked_volatile(volatile),
    )
    report = beside_loop(lambda: replay_tree(again))
    used = {one.rule for one in report.ignored}
    with contextlib.suppress(LogError):  # which the report has
        first = next(read_entries(again.log, torn_ok=True), None)
        if again.volatile or (first is not None and first.data.get("rules")):
            started = first_event(again.log)
            offered = {f"tool:{offer['name']}" for offer in started.tools}  # as in `diff`
            rules = started.rules.get("volatile", ())
            own = [each for each in rules if each.partition("/")[0] not in offered]
            left = [each for each in (*again.volatile, *own) if each not in used]
            report = attrs.evolve(report, unmatched=tuple(unmatched(again.log, left).values()))
    return report


@holding()
def replay_tree(again: RunAgain, watch: Watch | None = None) -> ReplayReport:
    """Re-execute a run and all below it.

    With a `watch`, the run is re-executed in this thread even if its record is unfinished.
    """
    tree = _Tree(again.log, watch)
    with counted() as executed:
        tree.replay(again)
    return tree.report(executed.tools)


class _Tree:
    """One re-execution of a tree of runs."""

    def __init__(self, log: Path, watch: Watch | None) -> None:
        self._log = log
        self._watch = watch
        self._runs = 0
        self._found: ReplayReport | None = None
        """The sum so far; of the root at first."""

    def report(self, tools_executed: int) -> ReplayReport:
        """Return the sum, with the tools that were executed in this process."""
        if tools_executed or self._runs > 1 or self._found is None:
            self._add(children=self._runs - 1, tools_executed=tools_executed)
        assert self._found is not None
        in_time = sorted(self._found.divergences, key=lambda one: one.when)
        return attrs.evolve(self._found, divergences=tuple(in_time))

    def _add(self, part: ReplayReport | None = None, **found: Any) -> None:
        part = part or ReplayReport(log=self._log, **found)
        self._found = self._found.plus(part) if self._found is not None else part

    def _add_damaged(self, again: RunAgain, recorded: str, now: str | None = None) -> None:
        found = damaged(again.log, again.names, recorded, now)
        self._add(divergences=(attrs.evolve(found, when=again.when),))

    def replay(self, again: RunAgain, found: Scan | None = None) -> None:
        """Replay one run, then its children; `found` is the chain's scan, if already made."""
        log = again.log
        found = found or scan(log)
        self._runs += 1
        if found.damage is not None or found.entries == 0:
            damage = found.damage or found.torn
            self._add_damaged(again, str(damage.as_error()) if damage else "no entry")
            return
        watch, self._watch = self._watch, None
        if watch is None and (
            # or it names a program of ours that would take this process with it
            not found.sealed or (again.program is None and first_event(log).program in UNRULY)
        ):
            refuse_other_rules(log, first_event(log))
            self._replay_unfinished(again)
            return
        run = Comparison(again, watch, verified=found.sealed)
        divergence = run.compare()
        if watch is not None:
            watch.on_return()
        replayed, offers = run.replayed, []
        recorded = tuple(each["name"] for each in replayed.started.tools)
        if divergence is None and again.offered not in (None, recorded):
            divergence = _offered_otherwise(again, run.names, recorded)
        if not again.names and again.program is not None:  # a root's, and not of a shipped program
            offers = [each for each in replayed.started.tools if not each.get("delegates")]
        self._add(
            unpassed=tuple(each["name"] for each in offers if each["name"] not in again.tools),
            redefined=redefined(offers, again.tools),
            divergences=(divergence,) if divergence is not None else (),
            entries=replayed.cursor.taken,
            ends_early=(log.name,) if divergence is None and replayed.has_ended else (),
            ignored=tuple(replayed.excuses.ignored),
            ignored_count=replayed.excuses.count,
            timers=replayed.timers,
            struck=tuple(
                f"timer {timer.key} of {timer.delay_us / 1_000_000:g} s in {log.name}"
                for timer in replayed.due.overdue.values()
            ),
            behind=(log.name,) if found.ended and found.torn else (),
        )
        for child in replayed.children:
            self._replay_child(attrs.evolve(again, names=run.names), child, replayed)

    def _replay_unfinished(self, again: RunAgain) -> None:
        """Replay a run whose record stops, in isolation, because it may crash or hang again."""
        started = first_event(again.log)
        again = attrs.evolve(
            again,
            program=again.program if again.program is not None else program_of(None, started),
            names=again.names or (started.program,),
        )
        from refold.replay.reexecute.apart import reexecute_apart  # noqa: PLC0415 - few are unfinished

        answer = reexecute_apart(again, lambda watch: replay_tree(again, watch))
        if answer.report is not None:
            self._add(answer.report.below(again.when))
        elif answer.reached_end:
            self._add(ends_early=(again.log.name,), entries=scan(again.log).entries)
        else:
            self._add(divergences=(_died(again, answer.how),))

    def _replay_child(self, above: RunAgain, child: RunChild, replayed: Replayed) -> None:
        given, ended = child.delegation, replayed.logged.get(child.call)
        name = given.agent or program_name(given.program)
        again = RunAgain(
            log=child_path(above.log, child.number),
            program=given.program,
            tools={**above.tools, **{tool.name: tool for tool in given.own_tools}},
            names=(*above.names, f"{name}[{child.number}]"),
            when=(*above.when, replayed.starts[child.call]),
            session=_session_of(child, replayed.kernel),
            seed=replayed.seeds.get(child.call),
            offered=tuple(sorted(offered(given, replayed.kernel.tools))),
            volatile=above.volatile,
        )
        log = again.log
        try:
            found = scan(log)
        except LogMissing as error:
            if os.path.lexists(log):
                self._add_damaged(again, str(error))
                return
            found = None
        if ended is None:
            if found is None or found.entries == 0:  # it was killed before it wrote a whole line
                self._add(unread=(" > ".join(again.names),))
                return
        elif found is None:
            said = "its parent's log contains its head, but the file is missing"
            self._add_damaged(again, f"{log.name}: {said}")
            return
        elif found.damage is None and (found.head, found.entries) != (ended.head, ended.events):
            self._add_damaged(
                again,
                f"its parent's log names {ended.events} entries, head {ended.head[:16]}",
                f"the file has {found.entries} entries, head {found.head[:16]}",
            )
            return
        self.replay(again, found)


def _session_of(child: RunChild, kernel: Kernel) -> SessionPort | None:
    """Return the session that the child's re-execution starts with."""
    if not child.delegation.shared or kernel.session is None:
        return child.delegation.session  # type: ignore[no-any-return]  # a `SessionPort`
    from refold.engine.session.shared import share  # noqa: PLC0415 - few runs share one

    return share(kernel.session, kernel.child_path(child.call), None)


def _offered_otherwise(
    again: RunAgain, names: tuple[str, ...], recorded: tuple[str, ...]
) -> Divergence:
    sides: list[dict[str, Any]] = [{"tools": [*names]} for names in (recorded, again.offered or ())]
    return Divergence(
        category="args_changed",
        where=" > ".join(names),
        log=str(again.log),
        seq=0,
        recorded=sides[0],
        now=sides[1],
        diff=differences(*sides),
        cause="the run above now gives this one other tools",
        when=(*again.when, 0),
    )


def _died(again: RunAgain, how: str) -> Divergence:
    cause = "the program ended its process, or stopped making progress, before the end of the "
    return Divergence(
        category="environment",
        where=" > ".join(again.names),
        log=str(again.log),
        now={"kind": "process", "name": how},
        cause=cause + "recording",
        when=again.when,
    )
