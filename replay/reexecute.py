"""`reexecute`: run a recorded program again against its log, and its children against theirs.

Nothing is executed but the program: no tool, no model, no runner (CONTRACT.md §12).  Compared are
every request and the end of every run; nothing may remain unconsumed.
"""

import asyncio
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.canonical import Json, encode, loads
from refold.engine.codec import unstructure
from refold.engine.effects import RunChild
from refold.engine.errors import Diverged, LogDamaged, LogError, ProgramNotFound, UsageError
from refold.engine.events import RunFinished
from refold.engine.kernel import Kernel
from refold.engine.log import Scan, scan
from refold.engine.log.names import child_path
from refold.engine.offers import offer_of
from refold.engine.outcome import ChildRef
from refold.engine.ports import Program, Reference, SessionPort, Tool
from refold.engine.programs import (
    SHIPPED,
    check_not_importing,
    fingerprint_of,
    load_program,
    program_name,
)
from refold.engine.recording import in_thread
from refold.engine.run import faces_of
from refold.engine.verdict import Verdict
from refold.replay.apart import reexecute_apart
from refold.replay.divergence import Category, Divergence, between, likely_cause, line_of
from refold.replay.items import item_of
from refold.replay.naming import Mismatch, Step, category
from refold.replay.pointer_diff import Difference
from refold.replay.world import Replayed, first_event


@attrs.frozen(kw_only=True)
class ReplayReport:
    """What a re-execution proved."""

    log: Path
    divergences: tuple[Divergence, ...]
    """The first of each run that differs, the root's before its children's."""
    entries: int
    """Entries compared, over all logs."""
    children: int
    """Child runs that were re-executed, at every depth."""
    tools_executed: int = 0
    """Always 0: outcomes come from the record."""
    ends_early: tuple[str, ...] = ()
    """Logs whose record ends before its run did, and that match up to there."""

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

    def as_json(self) -> dict[str, Json]:
        """Return the report as `refold replay --json` prints it."""
        return {
            "log": str(self.log),
            "identical": self.identical,
            "divergences": [divergence.as_json() for divergence in self.divergences],
            "tools_executed": self.tools_executed,
            "entries": self.entries,
            "children": self.children,
            "ends_early": list(self.ends_early),
        }

    def __str__(self) -> str:
        if self.divergences:
            return "\n\n".join(str(divergence) for divergence in self.divergences)
        runs = f"{self.children} child run{'s' * (self.children != 1)}"
        text = f"identical: {self.entries} entries, {runs}; tool calls executed: 0"
        if self.ends_early:
            text += f"; the record of {', '.join(self.ends_early)} ends before its run did"
        return text


def reexecute(
    log: str | os.PathLike[str],
    program: Program | Reference | str | None = None,
    *,
    tools: Sequence[Tool] = (),
    session: SessionPort | None = None,
) -> ReplayReport:
    """Run the program of `log` again with recorded outcomes, and compare.

    Args:
        log: The log of a root run, or of a child.
        program: The program as it is now; not needed for those that Refold ships.
        tools: Needed where the program calls by name a delegation tool, or a tool whose result
            has a type of its own.  None is executed.
        session: Needed where the run had one: a fresh session with the same reducers.

    Raises:
        LogError: there is no such log.
        ProgramNotFound: no program was given and the log's is none that Refold ships.
        ToolNeeded: a tool has to be passed.
    """
    check_not_importing()
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - None instead of an error
        return in_thread(lambda: reexecute(log, program, tools=tools, session=session))  # type: ignore[no-any-return]  # of this function
    known = {tool.name: tool for tool in tools}
    return replay_tree(Path(log), program, known, (), session=session)


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
) -> ReplayReport:
    """Re-execute the run of `log` and all below it; `names` lead from the root to it.

    With a `watch`, the run is re-executed in this thread even if its record is unfinished.
    """
    tree = _Tree(watch)
    tree.replay(log, program, names, session, tools)
    return ReplayReport(
        log=log,
        divergences=tuple(tree.divergences),
        entries=tree.entries,
        children=tree.runs - 1,
        ends_early=tuple(tree.ends_early),
    )


def first_word(mismatch: Mismatch, recorded: Json, now: Json) -> Category:
    """Return what two lines that differ are called if nothing more is known."""
    if not mismatch.event_kind or recorded is None or now is None:
        return "unconsumed" if mismatch.has_ended else "missing_call"
    if recorded.get("kind") != now.get("kind"):
        return "kind_changed"
    return "name_changed" if recorded.get("name") != now.get("name") else "args_changed"


class _Tree:
    """One re-execution of a tree of runs."""

    def __init__(self, watch: Watch | None) -> None:
        self._watch = watch
        self.divergences: list[Divergence] = []
        self.ends_early: list[str] = []
        self.entries = 0
        self.runs = 0

    def replay(
        self,
        log: Path,
        program: Program | Reference | str | None,
        above: tuple[str, ...],
        session: SessionPort | None,
        tools: Mapping[str, Tool],
    ) -> None:
        """Replay one run, then its children."""
        found = scan(log)
        self.runs += 1
        if found.damage is not None or found.entries == 0:
            damage = found.damage or found.torn
            self.divergences.append(_damaged(log, above, damage.as_error() if damage else None))
            return
        watch, self._watch = self._watch, None
        if not found.sealed and watch is None:
            self._replay_unfinished(log, program, above, tools, session)
            return
        on_end = watch.on_end if watch else None
        replayed = Replayed(log, tools=tools, session=session, on_end=on_end)
        code = program_of(program, replayed.started.program)
        names = above or (replayed.started.program,)
        run = _Run(log, replayed, code, names)
        if watch is not None:
            replayed.on_mismatch = lambda mismatch: watch.on_difference(
                run.at_first_sight(mismatch)
            )
        divergence = run.compare()
        self.entries += replayed.cursor.taken
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
        code = program if program is not None else program_of(None, started.program)
        names = above or (started.program,)
        answer = reexecute_apart(log, code, tools, names, session)
        if answer.report is not None:
            self.divergences += answer.report.divergences
            self.ends_early += answer.report.ends_early
            self.entries += answer.report.entries
            self.runs += answer.report.children
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
            return  # else it was killed before it wrote a whole line
        ended = logged.get(child.call)
        is_bound = ended is None or (found.head, found.entries) == (ended.head, ended.events)
        if ended is not None and found.damage is None and not is_bound:
            self.divergences.append(_other(path, place, ended, found))
            return
        given = child.delegation
        own = {tool.name: tool for tool in given.own_tools}
        self.replay(path, given.program, place, session, {**tools, **own})


def _session_of(child: RunChild, kernel: Kernel) -> SessionPort | None:
    """Return the session that the child's re-execution starts with."""
    if not child.delegation.shared or kernel.session is None:
        return child.delegation.session  # type: ignore[no-any-return]  # a `SessionPort`
    from refold.engine.session.shared import share  # noqa: PLC0415 - few runs share one

    return share(kernel.session, kernel.child_path(child.call), None)


def program_of(program: Program | Reference | str | None, recorded: str) -> Program:
    """Return the program that was given, or the shipped one that the log names.

    Raises:
        ProgramNotFound: it is neither.
    """
    if program is not None:
        return load_program(program)
    if recorded in SHIPPED:
        return load_program(recorded)
    raise ProgramNotFound(
        recorded,
        "the log names its program but never says what code to import; "
        "pass it (--program module:name or file.py:name)",
    )


class _Run:
    """One run, compared with its log."""

    def __init__(
        self, log: Path, replayed: Replayed, program: Program, names: tuple[str, ...]
    ) -> None:
        self.log = log
        self.replayed = replayed
        self.program = program
        self.names = names
        self.raised: tuple[str, int] | None = None
        """Where the program raised, if it did."""

    def compare(self) -> Divergence | None:
        """Run the program; return the first difference."""
        replayed = self.replayed
        faces = faces_of(replayed.kernel)
        replayed.check_session()
        try:
            verdict = replayed.kernel.execute(
                self.program, (faces.asynchronous, faces.plain), replayed.started.input
            )
        except LogDamaged as error:
            return _damaged(self.log, self.names, error)
        if replayed.cursor.broken is not None:
            return _damaged(self.log, self.names, replayed.cursor.broken)
        if replayed.mismatch is not None:
            return self._named(replayed.mismatch)
        if replayed.has_ended:
            return None
        return self._compare_end(verdict)

    def _compare_end(self, verdict: Verdict) -> Divergence | None:
        replayed = self.replayed
        self.raised = verdict.place
        now = _end_of(verdict)
        entry = replayed.finish(now)
        if replayed.mismatch is not None:
            return self._named(replayed.mismatch)
        if entry is None:
            replayed.has_ended = True
            return None
        event = replayed.cursor.event(entry)
        if not isinstance(event, RunFinished):
            raise UsageError(f"{self.log}: the last entry is no run.finished")
        recorded = _end_of_event(event)
        session = replayed.kernel.session
        if session is not None and event.session_digest:
            recorded["session_digest"], now["session_digest"] = (
                event.session_digest,
                session.digest(),
            )
        difference = between(recorded, now)
        if not difference:
            return None
        return self._divergence(
            "output_changed", recorded=recorded, now=now, diff=difference, seq=entry.seq
        )

    def at_first_sight(self, mismatch: Mismatch) -> Divergence:
        """Return the first difference by its two lines alone, before the program runs on."""
        recorded, now, call, seq = _sides(mismatch, None)
        return self._divergence(
            first_word(mismatch, recorded, now),
            recorded=recorded,
            now=now,
            diff=between(recorded, now) if recorded and now else (),
            seq=seq,
            call=call,
            mismatch=mismatch,
        )

    def _other_end(self, mismatch: Mismatch) -> Divergence:
        """Return that a delegation tool, which is program code, returned something else."""
        call, entry = mismatch.call or "", mismatch.recorded
        recorded = {"kind": "tool.returned", "call": call, **mismatch.recorded_data}
        now = {"kind": "tool.returned", "call": call, **mismatch.now}
        return self._divergence(
            "result_changed",
            recorded=recorded,
            now=now,
            diff=between(recorded, now),
            seq=entry.seq if entry is not None else None,
            call=call,
            mismatch=mismatch,
        )

    def _named(self, mismatch: Mismatch) -> Divergence:
        explorer = self.replayed.explorer
        if explorer is None:
            raise UsageError("a mismatch without its explorer")
        if mismatch.is_other_end():
            return self._other_end(mismatch)
        name, step = category(mismatch, explorer)
        if name == "reordered" and mismatch.event_kind and mismatch.recorded is not None:
            step = None  # both lines are calls: they say it best
        recorded, now, call, seq = _sides(mismatch, step)
        return self._divergence(
            name,  # type: ignore[arg-type]  # one of the categories
            recorded=recorded,
            now=now,
            diff=() if name in _OF_ORDER else between(recorded, now),
            seq=seq,
            call=call,
            mismatch=mismatch,
        )

    def _divergence(
        self,
        name: Category,
        *,
        recorded: Json,
        now: Json,
        diff: tuple[Difference, ...],
        seq: int | None,
        call: str = "",
        mismatch: Mismatch | None = None,
    ) -> Divergence:
        fingerprints = self._fingerprints()
        if "python" in fingerprints and "source" not in fingerprints:
            name = "environment"
        last = mismatch.last if mismatch else tuple(self.replayed.last)
        file, line = (mismatch.file, mismatch.line) if mismatch else ("", 0)
        if not file and self.raised is not None:
            file, line = self.raised
        return Divergence(
            category=name,
            where=" > ".join([*self.names, *_label(recorded, now, call)]),
            log=str(self.log),
            call=call,
            seq=seq,
            recorded=recorded,
            now=now,
            diff=_without_call(diff),
            last=tuple(line_of(entry, self.replayed.cursor.data(entry)) for entry in last),
            file=file,
            line=line,
            fingerprints=fingerprints,
            cause=likely_cause(name, _without_call(diff), fingerprints),
        )

    def _fingerprints(self) -> dict[str, tuple[str, str]]:
        """Return what else is not as it was recorded."""
        started = self.replayed.started
        now = fingerprint_of(self.program)
        changed = {
            name: (started.fingerprint.get(name, ""), now.get(name, ""))
            for name in ("source", "hash_seed")
            if started.fingerprint.get(name, "") != now.get(name, "")
        }
        name = program_name(self.program)
        if not started.parent and name != started.program:
            changed["program"] = (started.program, name)
        python = ".".join(platform.python_version_tuple()[:2])
        if started.versions.get("python") != python:
            changed["python"] = (str(started.versions.get("python")), python)
        changed.update(_changed_tools(started.tools, self.replayed.kernel.tools))
        return changed


def _changed_tools(
    offers: Iterable[dict[str, Any]], tools: Mapping[str, Tool]
) -> dict[str, tuple[str, str]]:
    changed = {}
    for offer in offers:
        tool = tools.get(offer["name"])
        if tool is not None and tool.description:
            digest = offer_of(tool)["digest"]
            if digest != offer["digest"]:
                changed[f"tool {offer['name']}"] = (offer["digest"], digest)
    return changed


def _sides(mismatch: Mismatch, step: Step | None) -> tuple[Json, Json, str, int | None]:
    """Return what was recorded and what is asked now, the call key and the recorded entry."""
    if step is not None:
        recorded = step.recorded.as_json() if step.recorded else None
        now = step.now.as_json() if step.now else None
        if now is None and not mismatch.event_kind and mismatch.now is not None:
            now = {"kind": "run.finished", "arguments": mismatch.now}  # it ended instead
        call = next((item.call for item in (step.now, step.recorded) if item and item.call), "")
        return recorded, now, call, step.recorded.seq if step.recorded else None
    entry = mismatch.recorded
    recorded = None
    if entry is not None:
        item = item_of(entry.kind, entry.call, mismatch.recorded_data)
        recorded = item.as_json() if item else {"kind": entry.kind, "call": entry.call or ""}
    now = None
    if mismatch.event_kind:
        item = item_of(mismatch.event_kind, mismatch.call, mismatch.now)
        now = item.as_json() if item else {"kind": mismatch.event_kind, "call": mismatch.call or ""}
    call = mismatch.call or (entry.call if entry is not None else "") or ""
    return recorded, now, call, entry.seq if entry is not None else None


def _label(recorded: Json, now: Json, call: str) -> list[str]:
    """Return the last part of a place: `search#3`, or `search#1 in 0/2` below the first scope."""
    sides = [side for side in (now, recorded) if side and side.get("call") == call]
    name = next((side.get("name") or side.get("kind", "") for side in sides), "")
    if not call:
        return [name] if name == "clock" else []
    scope, mark, ordinal = call.rpartition("@" if "@" in call else "#")
    place = f"{name}{mark}{ordinal}"
    return [place if scope == "0" else f"{place} in {scope}"]


def _without_call(diff: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """Leave out the call keys: they are part of the place."""
    return tuple(one for one in diff if one.pointer != "/call")


_OF_ORDER: Final = ("reordered", "unrecorded_await", "unconsumed")
"""Categories whose two sides are different requests: how these differ says nothing."""

_END: Final = ("status", "reason", "output", "error", "summary", "artifacts")


def _end_of_event(event: RunFinished) -> dict[str, Json]:
    data = unstructure(event)
    return {name: data[name] for name in _END if name in data}


def _end_of(verdict: Verdict) -> dict[str, Json]:
    report = verdict.report
    event = RunFinished(
        verdict.status,
        verdict.reason,
        verdict.output,
        verdict.error,
        [],
        report.summary if report else None,
        [attrs.asdict(artifact) for artifact in report.artifacts] if report else None,
    )
    data: dict[str, Json] = loads(encode(_end_of_event(event)))
    return data


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


def _damaged(log: Path, names: tuple[str, ...], error: LogError | None) -> Divergence:
    return Divergence(
        category="log_damaged",
        where=" > ".join(names) or "root",
        log=str(log),
        recorded=str(error) if error else "no entry",
        cause=likely_cause("log_damaged", (), {}),
    )
