"""`fork`: what if this result had been different? The rules are CONTRACT.md §12.11.

The beginning of a log is copied into a new one with edits: its data is unchanged otherwise, its
hash chain is new, and children are bound to it in both directions. Then the program continues from
there as a resumed run does. Its requests are served from the origin's record, executed live or
stubbed, as the sources specify. The origin's bytes never change: to find the place of a fork, the
logs above it are only read.
"""

import contextlib
import itertools
import os
import shlex
import shutil
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine import errors
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import members_to_json
from refold.engine.events import events
from refold.engine.events.codec import structure
from refold.engine.events.events import (
    ChildFinished,
    InputAsked,
    ToolCalled,
    ValueDrawn,
    key_in,
    run_and_call,
)
from refold.engine.events.outcome import ChildRef, Outcome
from refold.engine.kernel.world import REQUESTS
from refold.engine.log import names
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import child_path, is_there
from refold.engine.log.reader import Entry, read_entries, scan
from refold.engine.log.writer import LogWriter
from refold.engine.ports.effects import RunChild
from refold.engine.ports.ports import ChildRequest, Parentage, Question, Tool
from refold.engine.recording.bookends import SCRIPT, nonce
from refold.engine.recording.ledger import Ledger
from refold.engine.runners.recorded import Recording
from refold.replay.difference.pointer_diff import few
from refold.replay.index.by_call import Book, asked_of
from refold.replay.index.run_end import recording_of_log
from refold.replay.partial.given_values import given
from refold.replay.partial.rerun import Again, request_again, unless_missing
from refold.replay.partial.sources import SEEDED, BookSupply, Edit
from refold.replay.reexecute.apart import on_a_thread
from refold.replay.reexecute.reexecute import replay_tree
from refold.replay.reexecute.report import RunAgain
from refold.replay.reexecute.world import first_event, program_of
from refold.replay.resume.resume import continued


@attrs.frozen(kw_only=True)
class Fork:
    """A run that left another one at an entry."""

    origin: Path
    """The root log that it left."""
    at: int
    """Seq of the last entry that both share, edits aside, in the log that was named."""
    log: Path
    """The new log; it does not exist if an outcome was missing before anything ran live."""
    recording: Recording | None
    """How it ended; `None` where an outcome was missing: the log stops there."""
    missing: tuple[errors.OutcomeMissing, ...]
    unreached: tuple[str, ...] = ()
    """Call keys of edits that are not in the fork: it never asked for these."""


def forked(
    log: Path,
    at: int | None,
    again: Again,
    *,
    into: Path,
    edits: Mapping[str, Json],
    failed: bool = False,
) -> Fork:
    """Copy a log up to an entry into a new one, change results, and continue the program.

    With `failed`, failed children run again; other successful outcomes come from the record. Other
    arguments are those of `refold.fork`; see `replay.resume.fork.edit` for what a value of
    `edits` may be.

    Raises:
        EntryMissing: the log has no such entry.
        ForkRefused: neither an entry nor an edit gives the place, or an edit does not name an
            outcome.
        Diverged: an edited outcome changes the kept entries: fork earlier.
        LogExists: `into` exists.
        LogError: the origin is damaged or missing.
        UsageError: an edit has a value of the wrong kind.
    """
    if at is not None and type(at) is not int:
        expected = "expected the number of an entry as the second argument"
        found = f"found {at!r:.60}; without one, pass program=…"
        raise errors.UsageError(f"fork(log, at, program, into=…): {expected}, {found}")
    root = names.root_of(log)
    if failed:
        if at is not None or edits:
            wrong = "finds its place itself: do not pass an entry or edits"
            raise errors.UsageError(f"fork(again='failed') {wrong}")
        log, at = root, before_failure(root)
    book = Book(root, unfinished_ok=True)
    program = program_of(again.program, book.started)
    tools = {**_tools_beside(program), **again.tools}
    changed = edits_in(log, members_to_json({**edits}), tools)
    source, last = fork_entry(log, at, changed.values())
    again = attrs.evolve(again, program=program)
    origin = {"nonce": book.started.nonce, "head": last.hash, "at": last.seq}
    origin |= {"edits": sorted(changed)}
    kept, outcomes = cuts(source, last.seq + 1), {key: one.event for key, one in changed.items()}
    _check_free(into)
    had_blobs = names.blobs_of(into).exists()
    with _undone(into, root, changed, had_blobs=had_blobs):
        Transplant(root, into, None, kept, outcomes, origin).copy()
        recording = recording_of_log(into, program) if scan(into).sealed else None
        # A log that goes on is re-executed by going on; but no other is.
        copies = {edit.log: _place(edit.log, root, into) for edit in changed.values()}
        if recording is not None or any(
            copy.exists() and (old not in kept or scan(copy).sealed) for old, copy in copies.items()
        ):
            _check_copy(into, again)
    made = AgainSupply if failed else ForkSupply
    supply = made(book, again.sources, log=into, edits=changed)
    with _undone(into, root, changed, supply.live, had_blobs=had_blobs):
        if recording is None:
            request = request_again(book, again, into, supply)
            try:
                recording = unless_missing(request, supply, continued)
            except errors.ChildStopped as stopped:  # it may not do what is kept of it
                if not supply.live or stopped.code == errors.Diverged.__name__:
                    _check_copy(into, again)
                raise
    unreached = changed.keys() - _calls(into)
    if recording is None and not supply.live:
        _remove(into, had_blobs=had_blobs)
    return Fork(
        origin=root,
        at=last.seq,
        log=into,
        recording=recording,
        missing=tuple(supply.missing),
        unreached=tuple(sorted(unreached)),
    )


def _tools_beside(program: object) -> dict[str, Tool]:
    """Return the tools in a program's module, by name: it may call them without offering them."""
    beside = [*getattr(program, "__globals__", {}).values()]
    tools = (each for each in beside if hasattr(type(each), "dump") and hasattr(each, "effect"))
    return {tool.name: tool for tool in tools}


def _calls(log: Path) -> set[str]:
    """Return the call keys of a run and all below it."""
    found = set[str]()
    for path in names.tree(log):
        run = ""
        for entry in read_entries(path, torn_ok=True):
            run = entry.data.get("path", "") if entry.seq == 0 else run
            found.add(key_in(run, entry.call or ""))
    return found


def _check_free(log: Path) -> None:
    """Refuse a place where a file is, or a child's log of another run: `_undone` removes its own.

    Raises:
        LogExists: something is there.
        LogNameRefused: no root's log can have the name.
    """
    names.check_root(log)
    names.check_place(log)
    if os.path.lexists(log):
        refuse_if_locked(log)
        raise errors.LogExists(str(log))
    if log.parent.is_dir() and (left := names.children(log)):
        raise errors.LogExists(str(min(left.values())), str(log))


def _place(log: Path, root: Path, into: Path) -> Path:
    """Return where the copy of a log below `root` lies, in the tree of `into`."""
    return into.with_name(into.stem + log.name.removeprefix(root.stem))


def _check_copy(log: Path, again: Again) -> None:
    """Re-execute a copy to its end, with all its children.

    Raises:
        Diverged: an edit changes the copied entries.
        ForkRefused: the program stops making progress there, or ends its process.
    """
    run = RunAgain(log=log, program=again.program, tools=again.tools, session=again.session)
    report = on_a_thread(lambda watch: replay_tree(run, watch), log).report
    if report is not None:
        report.check()
    if report is None or report.children < len(names.tree(log)) - 1:
        problem = "the part before the fork cannot be re-executed with its children: fork earlier"
        raise errors.ForkRefused(str(log), problem)


@contextlib.contextmanager
def _undone(
    log: Path,
    root: Path,
    edits: Collection[str],
    live: Collection[str] = (),
    *,
    had_blobs: bool,
) -> Iterator[None]:
    """Remove a copy of `root` that failed before a `live` request; a log that was there stays.

    One that does not do what is kept of it cannot be resumed, and is removed whenever it fails.
    """
    try:
        yield
    except errors.LogExists:
        raise
    except errors.Diverged as error:
        _remove(log, had_blobs=had_blobs)
        found = error.divergence
        own = _place(Path(found.log), log, root)
        cause = "an edit changes the entries that are kept: fork earlier, or without `at` (--at)"
        cause = cause if edits else found.cause
        raise errors.Diverged(attrs.evolve(found, log=str(own), cause=cause)) from None
    except errors.RefoldError as error:
        if not live:
            _remove(log, had_blobs=had_blobs)
        else:
            command = f"refold resume {shlex.quote(str(log))}"
            error.add_note(f"{log} contains the fork up to that point: to continue, use {command}")
        raise


def _remove(log: Path, *, had_blobs: bool) -> None:
    for path in names.tree(log):
        path.unlink(missing_ok=True)
    if not had_blobs:
        shutil.rmtree(names.blobs_of(log), ignore_errors=True)


class ForkSupply(BookSupply):
    """Serves a fork from its origin's record; logs of served children are copied into it."""

    def child(self, request: ChildRequest, outcome: Outcome) -> Outcome:
        """Copy the log of a child whose outcome is supplied, bound to this run."""
        parent = request.identity.parent
        recorded = self.recorded.get(parent.call) if parent else None
        old = self.book.child_log(recorded) if recorded else None
        is_here = key_in(self.book.started.path, recorded or "") == request.identity.path
        is_kept = is_here and outcome.child is not None and old is not None and is_there(old)
        if not is_kept or old is None or request.log is None:
            return attrs.evolve(outcome, child=None)  # its seed and ids are those of its own place
        copied = Transplant(old, request.log, request.identity.parent).copy()
        return attrs.evolve(outcome, child=copied)


class AgainSupply(ForkSupply):
    """Serves what ended well from its origin's record; children that failed run again."""

    is_of_failed = False
    """Whether it serves a child that failed: what failed in that is done again, too."""

    def outcome(self, call: str, asked: Any, effect: Any) -> Any:
        """Return the recorded outcome; `None` if it failed or is missing, so it runs live."""
        recorded = self.claim(call, asked)
        answer = self.book.answers.get(recorded) if recorded is not None else None
        if answer is None:
            return super().outcome(call, asked, effect)
        event = answer.event
        if isinstance(event, ChildFinished):
            return event.outcome if event.outcome.status == "completed" else None
        if self.is_of_failed and getattr(event, "status", "ok") == "error":
            return super().outcome(call, asked, effect)
        return event

    def of_child(self, book: Book, effect: RunChild) -> BookSupply:
        """Return the supply of a child that runs again."""
        supply = super().of_child(book, effect)
        supply.is_of_failed = True  # type: ignore[attr-defined]  # of this class
        return supply


_KEYS_SHOWN: Final = 8


def edits_in(log: Path, edits: Mapping[str, Json], tools: Mapping[str, Tool]) -> dict[str, Edit]:
    """Return edits by their keys relative to the root run; the given keys are relative to `log`.

    A result is checked by the return type of its tool, if that is one of `tools`. A program that
    calls a tool itself does not offer it, so those beside the program have to be among them.

    Raises:
        ForkRefused: a key does not name an outcome that can be edited.
        UsageError: a value does not fit its outcome, an answer the schema of its question, or a
            result the return type of its tool.
    """
    run = first_event(log).path
    for key, above in itertools.permutations(edits, 2):
        if key.startswith(key_in(above, "")):
            both = f"{key!r} is in the child {above!r}, whose outcome is also edited"
            raise errors.ForkRefused(str(log), f"{both}: edit only one of them", dropped=key)
    return {key_in(run, key): _edit(log, key, value, tools) for key, value in edits.items()}


def fork_entry(log: Path, at: int | None, edits: Iterable[Edit]) -> tuple[Path, Entry]:
    """Return the log that is cut, and the last kept entry.

    If edits are in several runs, that is the lowest run that has them all in it or below it.

    Raises:
        EntryMissing: the log has no such entry.
        ForkRefused: neither an entry nor an edit gives the place.
    """
    if at is not None:
        return log, _entry(log, at)
    found = [(edit.log, edit.entry) for edit in edits]
    if not found:
        asked = Book(log, unfinished_ok=True).requests.values()
        keys = [one.call for one in asked if not one.delegates]
        options = ("--set", f"{keys[0]}=VALUE") if keys else ("--at", "0")
        problem = (
            "name an outcome to change, edits={KEY: VALUE}, or the last entry to keep, at=N "
            "(--set or --at on the command line)"
        )
        raise errors.ForkRefused(str(log), problem, options)
    while len({path for path, _ in found}) > 1:  # of the lowest run, its start in the one above
        lowest = max((path for path, _ in found), key=lambda path: path.name.count("."))
        bond = _bond(lowest)
        assert bond is not None, "edits are in one tree"
        found = [bond[:2] if path == lowest else (path, entry) for path, entry in found]
    return min(found, key=lambda place: place[1].seq)


def before_failure(log: Path) -> int:
    """Return the last entry before the outcome of the first child that failed.

    Raises:
        ForkRefused: no child did.
    """
    for entry in read_entries(log, torn_ok=True):
        if entry.kind == "child.finished" and entry.data["outcome"]["status"] != "completed":
            return entry.seq - 1
    raise errors.ForkRefused(str(log), "none of its children failed, so there is nothing to repeat")


def _entry(log: Path, at: int) -> Entry:
    last: deque[Entry] = deque(maxlen=min(-at, sys.maxsize) if at < 0 else 1)
    count = 0
    for entry in read_entries(log, torn_ok=True):
        last.append(entry)
        count += 1
        if entry.seq == at:
            return entry
    if at >= 0 or count < -at:
        raise errors.EntryMissing(str(log), at, count)
    return last[0]


def _bond(log: Path) -> tuple[Path, Entry, Entry | None] | None:
    """Return the log above a child's, and the entries there of its start and its end.

    `None` for a root's log; the end is `None` if the child was never joined.
    """
    above, start = names.parent_of(log), None
    if above is None:
        return None
    for entry in read_entries(above[0], torn_ok=True):
        if entry.kind == "child.started" and entry.data["number"] == above[1]:
            start = entry
        elif start is not None and entry.kind == "child.finished" and entry.call == start.call:
            return above[0], start, entry
    assert start is not None, "the logs are one tree's"
    return above[0], start, None


def _edit(log: Path, key: str, value: Json, tools: Mapping[str, Tool]) -> Edit:
    """Return the edit of the outcome, or of the drawn value, that `key` names in `log`."""
    run, call = run_and_call(key)
    path = log
    for start in run.split(" > ") if run else ():
        number = Book(path, unfinished_ok=True).child_number(start)
        if number is None or not is_there(child_path(path, number)):
            problem = f"{key!r}: {start} did not start a child{_keys(path)}"
            raise errors.ForkRefused(str(path), problem)
        path = child_path(path, number)
    asked = None
    for entry in read_entries(path, resolve=True, torn_ok=True):
        if entry.call != call:
            continue
        event = entry.event
        if isinstance(event, REQUESTS):
            asked, request = asked_of(event, call), event
        elif isinstance(event, ValueDrawn) and event.source in SEEDED:
            problem = f"{key!r} follows from the seed, so it cannot be edited"
            raise errors.ForkRefused(str(path), problem)
        elif asked is not None and asked.delegates:
            problem = f"{key!r} is a delegation tool, which is program code: edit its child"
            raise errors.ForkRefused(str(path), problem)
        elif isinstance(event, ValueDrawn):
            return Edit(path, entry, (event.source, event.name), given(event, key, value))
        elif asked is not None and isinstance(event, OUTCOMES):
            tool = tools.get(request.tool) if isinstance(request, ToolCalled) else None
            question = None
            if isinstance(request, InputAsked):
                question = Question(key=key, question=request.question, schema=request.schema)
            new = given(event, key, value, tool=tool, question=question)
            return Edit(path, entry, asked.name, new)
    problem = f"no outcome in this log or its descendants has the key {key!r}{_keys(path)}"
    raise errors.ForkRefused(str(path), problem)


def _keys(log: Path) -> str:
    """Return the end of a message that names keys of a log, and the command that lists them all."""
    book = Book(log, unfinished_ok=True)
    known = few([*book.requests, *book.values], _KEYS_SHOWN) or "none"
    return f"; its keys: {known}; refold show {shlex.quote(str(log))} --events"


def cuts(log: Path, kept: int) -> dict[Path, int]:
    """Return how many entries are kept: of the log, and of those above it up to its end."""
    found = {log: kept}
    while (bond := _bond(log)) is not None:
        log, _, end = bond
        if end is not None:
            found[log] = end.seq
    return found


# --- the copy ----------------------------------------------------------------------------------


OUTCOMES: Final = (
    events.ToolReturned, events.ModelAnswered, events.ChildFinished, events.InputGiven,
    events.ValueDrawn,
)  # fmt: skip
"""The events that an edit can change."""

Cuts = Mapping[Path, int]
"""How many entries are kept of a log; of one that is not named, all."""


@attrs.define
class Transplant:
    """One log to be copied, with the logs of the children that it joins."""

    _old: Path
    _new: Path
    _parent: Parentage | None
    _cuts: Cuts = attrs.field(factory=dict)
    _edits: Mapping[str, events.Event] = attrs.field(factory=dict)
    """By key relative to the root run: the new outcome."""
    _origin: dict[str, Any] | None = None
    """The description of the origin in the new root."""
    _ledger: Ledger = attrs.field(init=False)
    _started: events.RunStarted = attrs.field(init=False)
    _numbers: dict[str, int] = attrs.field(factory=dict, init=False)
    """Of children, by the call that started them."""

    def copy(self) -> ChildRef:
        """Copy the log and those below it; return the reference to the copy.

        Raises:
            LogExists: a log already exists at the new place.
            LogError: the old log, or one of its children's, is damaged.
        """
        keep = self._cuts.get(self._old)
        for entry in read_entries(self._old, resolve=True, torn_ok=True):
            if keep is not None and entry.seq >= keep:
                break
            event: Any = structure(entry.kind, entry.data)
            if isinstance(event, events.RunStarted):
                self._begin(event, entry.meta)
            elif isinstance(event, events.RunFinished):
                self._ledger.step = entry.cause or 0
                self._ledger.seal(event, {})
            else:
                self._ledger.append(self._changed(event, entry.call or ""), entry.call, entry.cause)
        for call in self._ledger.starts:  # beginnings of children that are to go on
            old = child_path(self._old, self._numbers[call])
            if old in self._cuts:
                self._child(call, self._ledger.starts[call])
        self._ledger.barrier()
        head, entries = self._ledger.close()
        return ChildRef(run=self._started.run_id, head=head, events=entries)

    def _begin(self, event: events.RunStarted, meta: Mapping[str, Any]) -> None:
        parent = attrs.asdict(self._parent) if self._parent else None
        origin = None if parent else self._origin
        event = attrs.evolve(event, parent=parent, nonce=nonce(), origin=origin)
        self._started = event
        marks = {name: value for name, value in meta.items() if name.startswith(SCRIPT)}
        writer = LogWriter.create(self._new, event, durability="fast", meta=marks)
        self._ledger = Ledger.begun(writer, event)

    def _changed(self, event: Any, call: str) -> Any:
        if event.__class__ in OUTCOMES:
            event = self._edits.get(key_in(self._started.path, call), event)
        match event:
            case events.ChildStarted(number=number):
                self._numbers[call] = number
            case events.ChildFinished(outcome=outcome) if call in self._ledger.starts:
                start = self._ledger.hash_of_start(call)
                number = self._numbers[call]
                if outcome.child is not None and is_there(child_path(self._old, number)):
                    ref = self._child(call, start)
                    self._ledger.joined(call, number, ref)
                    return attrs.evolve(event, outcome=attrs.evolve(outcome, child=ref))
        return event

    def _child(self, call: str, start: str) -> ChildRef:
        number = self._numbers[call]
        parent = Parentage(run=self._started.run_id, call=call, hash=start)
        logs = child_path(self._old, number), child_path(self._new, number)
        return Transplant(*logs, parent, self._cuts, self._edits).copy()
