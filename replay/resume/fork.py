"""`fork`: what if this result had been different? The rules are CONTRACT.md §12.11.

The beginning of a log is copied into a new one (`replay.resume.transplant`) with edits. Then the
program continues from there as a resumed run does. Its requests are served from the origin's
record, executed live or stubbed, as the sources specify. The origin's bytes never change.
"""

import contextlib
import os
import shlex
import shutil
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import members_to_json
from refold.engine.errors import (
    ChildStopped,
    Diverged,
    ForkRefused,
    LogExists,
    OutcomeMissing,
    RefoldError,
    UsageError,
)
from refold.engine.events.call_key import key_in
from refold.engine.events.events import ChildFinished
from refold.engine.events.outcome import Outcome
from refold.engine.log.lock import refuse_if_locked
from refold.engine.log.names import (
    blobs_of,
    check_place,
    check_root,
    children,
    root_of,
    tree,
)
from refold.engine.log.reader import read_entries, scan
from refold.engine.ports.effects import RunChild
from refold.engine.ports.ports import ChildRequest
from refold.engine.runners.recorded import Recording
from refold.replay.index.by_call import Book
from refold.replay.index.run_end import recording_of_log
from refold.replay.partial.rerun import Again, request_again, unless_missing
from refold.replay.partial.sources import BookSupply
from refold.replay.reexecute.apart import on_a_thread
from refold.replay.reexecute.reexecute import replay_tree
from refold.replay.reexecute.report import RunAgain
from refold.replay.reexecute.world import program_of
from refold.replay.resume.fork_place import before_failure, cuts, edits_in, fork_entry
from refold.replay.resume.resume import continued
from refold.replay.resume.transplant import Transplant


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
    missing: tuple[OutcomeMissing, ...]
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
    arguments are those of `refold.fork`; see `replay.resume.transplant.edit` for what a value of
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
        raise UsageError(
            "fork(log, at, program, into=…): expected the number of an entry as the "
            f"second argument, found {at!r:.60}; without one, pass program=…"
        )
    root = root_of(log)
    if failed:
        if at is not None or edits:
            raise UsageError(
                "fork(again='failed') finds its place itself: do not pass an entry or edits"
            )
        log, at = root, before_failure(root)
    changed = edits_in(log, members_to_json({**edits}), again.tools)
    source, last = fork_entry(log, at, changed.values())
    book = Book(root, unfinished_ok=True)
    program = program_of(again.program, book.started)
    again = attrs.evolve(again, program=program)
    origin = {
        "nonce": book.started.nonce,
        "head": last.hash,
        "at": last.seq,
        "edits": sorted(changed),
    }
    events = {key: edit.event for key, edit in changed.items()}
    plan = Transplant(cuts=cuts(source, last.seq + 1), edits=events, origin=origin)
    _check_free(into)
    had_blobs = blobs_of(into).exists()
    with _undone(into, root, changed, had_blobs=had_blobs):
        plan.copy(root, into, None)
        recording = recording_of_log(into, program) if scan(into).sealed else None
        # A log that goes on is re-executed by going on; but no other is.
        copies = {edit.log: _place(edit.log, root, into) for edit in changed.values()}
        if recording is not None or any(
            copy.exists() and (old not in plan.cuts or scan(copy).sealed)
            for old, copy in copies.items()
        ):
            _check_copy(into, again)
    made = AgainSupply if failed else ForkSupply
    supply = made(book, again.sources, log=into, edits=changed)
    with _undone(into, root, changed, supply.live, had_blobs=had_blobs):
        if recording is None:
            request = request_again(book, again, into, supply)
            try:
                recording = unless_missing(request, supply, continued)
            except ChildStopped as stopped:  # one that goes on does not do what is kept of it
                if not supply.live or stopped.code == Diverged.__name__:
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


def _calls(log: Path) -> set[str]:
    """Return the call keys of a run and all below it."""
    found = set[str]()
    for path in tree(log):
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
    check_root(log)
    check_place(log)
    if os.path.lexists(log):
        refuse_if_locked(log)
        raise LogExists(str(log))
    if log.parent.is_dir() and (left := children(log)):
        raise LogExists(str(min(left.values())), str(log))


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
    if report is None or report.children < len(tree(log)) - 1:
        problem = "the part before the fork cannot be re-executed with its children: fork earlier"
        raise ForkRefused(str(log), problem)


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
    except LogExists:
        raise
    except Diverged as error:
        _remove(log, had_blobs=had_blobs)
        found = error.divergence
        own = root.with_name(root.stem + Path(found.log).name.removeprefix(log.stem))
        cause = "an edit changes the entries that are kept: fork earlier, or without `at` (--at)"
        cause = cause if edits else found.cause
        raise Diverged(attrs.evolve(found, log=str(own), cause=cause)) from None
    except RefoldError as error:
        if not live:
            _remove(log, had_blobs=had_blobs)
        else:
            error.add_note(
                f"{log} contains the fork up to that point: to continue, use refold "
                f"resume {shlex.quote(str(log))}"
            )
        raise


def _remove(log: Path, *, had_blobs: bool) -> None:
    for path in tree(log):
        path.unlink(missing_ok=True)
    if not had_blobs:
        shutil.rmtree(blobs_of(log), ignore_errors=True)


class ForkSupply(BookSupply):
    """Serves a fork from its origin's record; logs of served children are copied into it."""

    def child(self, request: ChildRequest, outcome: Outcome) -> Outcome:
        """Copy the log of a child whose outcome is supplied, bound to this run."""
        parent = request.identity.parent
        recorded = self.recorded_call(parent.call) if parent else None
        old = self.book.child_log(recorded) if recorded else None
        is_here = key_in(self.book.started.path, recorded or "") == request.identity.path
        is_kept = is_here and outcome.child is not None and old is not None and old.exists()
        if not is_kept or old is None or request.log is None:
            return attrs.evolve(outcome, child=None)  # its seed and ids are those of its own place
        plan = Transplant(cuts={}, edits={}, origin=None)
        return attrs.evolve(outcome, child=plan.copy(old, request.log, request.identity.parent))


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
