"""The place of a fork: the last kept entry, and the kept part of each log above it.

This module only reads logs. The rules are CONTRACT.md §12.11.
"""

import shlex
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from refold.engine.encoding.canonical import Json
from refold.engine.errors import EntryMissing, ForkRefused
from refold.engine.events.call_key import key_in, run_and_call
from refold.engine.events.events import InputAsked, ToolCalled, ValueDrawn
from refold.engine.kernel.world import REQUESTS
from refold.engine.log.names import child_path, parent_of
from refold.engine.log.reader import Entry, read_entries
from refold.engine.ports.ports import Question, Tool
from refold.replay.difference.pointer_diff import few
from refold.replay.index.by_call import Book, asked_of
from refold.replay.partial.given_values import given
from refold.replay.partial.sources import SEEDED, Edit
from refold.replay.reexecute.world import first_event
from refold.replay.resume.transplant import OUTCOMES

_KEYS_SHOWN: Final = 8


def edits_in(log: Path, edits: Mapping[str, Json], tools: Mapping[str, Tool]) -> dict[str, Edit]:
    """Return edits by their keys relative to the root run; the given keys are relative to `log`.

    A result is checked by the return type of its tool, if that is one of `tools`.

    Raises:
        ForkRefused: a key does not name an outcome that can be edited.
        UsageError: a value does not fit its outcome, an answer the schema of its question, or a
            result the return type of its tool.
    """
    run = first_event(log).path
    for key in edits:
        for above in edits:
            if key.startswith(key_in(above, "")):
                problem = (
                    f"{key!r} is in the child {above!r}, whose outcome is also edited: edit "
                    "only one of them"
                )
                raise ForkRefused(str(log), problem, dropped=key)
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
        keys = [
            key
            for key, asked in Book(log, unfinished_ok=True).requests.items()
            if not asked.delegates
        ]
        options = ("--set", f"{keys[0]}=VALUE") if keys else ("--at", "0")
        problem = (
            "name an outcome to change, edits={KEY: VALUE}, or the last entry to keep, at=N "
            "(--set or --at on the command line)"
        )
        raise ForkRefused(str(log), problem, options)
    while len({path for path, _ in found}) > 1:  # of the lowest run, its start in the one above
        lowest = max((path for path, _ in found), key=lambda path: path.name.count("."))
        found = [_start(path) if path == lowest else (path, entry) for path, entry in found]
    return min(found, key=lambda place: place[1].seq)


def before_failure(log: Path) -> int:
    """Return the last entry before the outcome of the first child that failed.

    Raises:
        ForkRefused: no child did.
    """
    for entry in read_entries(log, torn_ok=True):
        if entry.kind == "child.finished" and entry.data["outcome"]["status"] != "completed":
            return entry.seq - 1
    raise ForkRefused(str(log), "none of its children failed, so there is nothing to repeat")


def _entry(log: Path, at: int) -> Entry:
    last: deque[Entry] = deque(maxlen=min(-at, sys.maxsize) if at < 0 else 1)
    count = 0
    for entry in read_entries(log, torn_ok=True):
        last.append(entry)
        count += 1
        if entry.seq == at:
            return entry
    if at >= 0 or count < -at:
        raise EntryMissing(str(log), at, count)
    return last[0]


def _start(log: Path) -> tuple[Path, Entry]:
    """Return the log above a child's, and the entry there that starts the child."""
    above = parent_of(log)
    assert above is not None, "edits are in one tree"
    path, number = above
    entries = read_entries(path, torn_ok=True)
    return path, next(
        each for each in entries if each.kind == "child.started" and each.data["number"] == number
    )


def _edit(log: Path, key: str, value: Json, tools: Mapping[str, Tool]) -> Edit:
    """Return the edit of the outcome, or of the drawn value, that `key` names in `log`."""
    run, call = run_and_call(key)
    path = log
    for start in run.split(" > ") if run else ():
        number = Book(path, unfinished_ok=True).child_number(start)
        if number is None or not child_path(path, number).exists():
            problem = f"{key!r}: {start} did not start a child{_keys(path)}"
            raise ForkRefused(str(path), problem)
        path = child_path(path, number)
    asked = None
    for entry in read_entries(path, resolve=True, torn_ok=True):
        if entry.call != call:
            continue
        event = entry.event
        if isinstance(event, REQUESTS):
            asked, request = asked_of(event, call), event
        elif isinstance(event, ValueDrawn) and event.source in SEEDED:
            raise ForkRefused(str(path), f"{key!r} follows from the seed, so it cannot be edited")
        elif asked is not None and asked.delegates:
            problem = f"{key!r} is a delegation tool, which is program code: edit its child"
            raise ForkRefused(str(path), problem)
        elif isinstance(event, ValueDrawn):
            return Edit(path, entry, (event.source, event.name), given(event, key, value))
        elif asked is not None and isinstance(event, OUTCOMES):
            tool = tools.get(request.tool) if isinstance(request, ToolCalled) else None
            question = None
            if isinstance(request, InputAsked):
                question = Question(key=key, question=request.question, schema=request.schema)
            new = given(event, key, value, tool=tool, question=question)
            return Edit(path, entry, asked.name, new)
    raise ForkRefused(
        str(path), f"no outcome in this log or its descendants has the key {key!r}{_keys(path)}"
    )


def _keys(log: Path) -> str:
    """Return the end of a message that names keys of a log, and the command that lists them all."""
    book = Book(log, unfinished_ok=True)
    known = few([*book.requests, *book.values], _KEYS_SHOWN) or "none"
    return f"; its keys: {known}; refold show {shlex.quote(str(log))} --events"


def cuts(log: Path, kept: int) -> dict[Path, int]:
    """Return how many entries are kept: of the log, and of those above it up to its end."""
    found = {log: kept}
    while (above := parent_of(log)) is not None:
        log, number = above
        end = _end_of_child(log, number)
        if end is not None:
            found[log] = end
    return found


def _end_of_child(log: Path, number: int) -> int | None:
    """Return the entry at which a child was joined; `None` if it never was."""
    call = None
    for entry in read_entries(log, torn_ok=True):
        if entry.kind == "child.started" and entry.data["number"] == number:
            call = entry.call
        elif entry.kind == "child.finished" and entry.call == call and call is not None:
            return entry.seq
    return None
