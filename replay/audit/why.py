"""Why an entry stands in a log: the entries that led to it, back to the first line of the root.

What a log says of causes is followed as it is said: an outcome answers its request, a request was
made in the step that the last outcome opened, a child was started by its parent's entry, a model
request carries the answers and tool results of its conversation, a child's outcome is the end of
its log.  What a program had received earlier, in the same scope or in one below, may have mattered
too, and only the program knows: who asks for every entry gets these as well.  Executes nothing.
Rules: CONTRACT.md §3.2, §14.14.
"""

import sys
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.errors import EntryMissing, LogDamaged, LogError, LogMissing
from refold.engine.events.call_key import scope_above, scope_of
from refold.engine.events.events import COMPLETES, FROM_WORLD, REQUEST_KINDS, UNSEEN
from refold.engine.log.blobs import BlobStore
from refold.engine.log.names import blobs_of, check_seq, child_path, log_path, parent_of
from refold.engine.log.reader import Entry, read_entries, whole_data
from refold.replay.explain.divergence import line_of
from refold.replay.index.run_end import raised_at

How = Literal[
    "asked about", "after", "answers", "carries", "ends with", "concerns", "started by", "earlier"
]
"""`asked about`: the entry itself.  Of another, how the entry that it led to depends on it: that
one happened `after` it, in the step that it opened; `answers` it; `carries` it, as a message; is
the outcome of a child that `ends with` it; `concerns` it, cancelling, say; is the first line of a
run that was `started by` it; or had it `earlier`, in its scope or in one below."""

_NONE: Final = -1
"""Stands for no cause."""

Place = tuple[Path, int]
"""A log and a seq in it."""


@attrs.frozen(kw_only=True)
class Cause(Document):
    """One entry that led to the one that was asked about."""

    hidden = ("data",)

    log: str
    seq: int
    kind: str
    call: str
    """Empty where it has none."""
    how: How
    of: int | None
    """Where in the answer the entry stands that it led to; `None` for the first."""
    is_main: bool
    """Whether it is a link of the chain; else it stands beside one."""
    wall_us: int | None
    """When it was written, in microseconds since 1970; `None` where it does not say."""
    where: str
    """File and line of the program that raised, of a last entry; else empty."""
    line: str
    """It on one line, for people."""
    data: dict[str, Json] = attrs.field(repr=False)
    """As the log holds it: large texts by reference."""


@attrs.frozen
class Causes:
    """What led to an entry."""

    first: tuple[Cause, ...]
    """That entry, and what led to it; of a long chain those that are nearest."""
    count: int
    """How many there are in all."""


def why(log: str | PathLike[str], seq: int, *, every: bool = False) -> tuple[Cause, ...]:
    """Return what led to the entry `seq` of `log`: first that entry, then its causes.

    By default the chain, back to the first line of the root: after each link what else led to it
    directly, unless it stands in the chain by itself.  With `every`, all entries that can have led
    to it, each once: log by log, the latest first.

    A negative `seq` counts from the end.  Where the log of a parent is not there, it ends with the
    first line of the child.

    Raises:
        EntryMissing: the log has no such entry.
        LogMissing: there is no log at `log`.
        LogDamaged: an entry up to there does not verify.
    """
    return causes(log, seq, every=every, most=None).first


def causes(log: str | PathLike[str], seq: int, *, every: bool = False, most: int | None) -> Causes:
    """Return what `why` does, at most `most` of it, and how much there is.

    Raises:
        RefoldError: whatever `why` raises.
    """
    path = log_path("why", log)
    check_seq("why", "seq", seq)
    asked = _Log(path, seq if seq >= 0 else None)
    at = seq if seq >= 0 else len(asked.kinds) + seq
    if not 0 <= at < len(asked.kinds):
        raise EntryMissing(str(path), seq, len(asked.kinds))  # it was read to its end
    logs = _Logs({path: asked})
    all_found = _ancestors(logs, (path, at)) if every else _chain(logs, (path, at))
    found = all_found[:most]
    return Causes(_causes(found), len(all_found))


def direct_causes(
    counts: Mapping[Path, int],
) -> Iterator[tuple[Place, tuple[tuple[How, Place], ...]]]:
    """Yield each entry of some logs with what led to it directly: first its link of the chain.

    `counts` says how many entries of each log verify; each log is read once.

    Raises:
        LogDamaged: fewer of them do.
    """
    logs = _Logs({path: _Log(path, count - 1) for path, count in counts.items() if count})
    for path, count in counts.items():
        for seq in range(count):
            yield (path, seq), tuple(logs.direct((path, seq)))


def _causes(found: list["_Link"]) -> tuple[Cause, ...]:
    entries = _entries(found)
    at = {link.place: number for number, link in enumerate(found)}
    causes = []
    for link in found:
        entry, wall_us = entries[link.place], entries[link.place].meta.get("wall_us")
        cause = Cause(
            log=str(link.place[0]),
            seq=entry.seq,
            kind=entry.kind,
            call=entry.call or "",
            how=link.how,
            of=at[link.of] if link.of is not None else None,
            is_main=link.is_main,
            wall_us=wall_us if type(wall_us) is int else None,
            where=raised_at(entry.meta),
            line=_line(entry),
            data=entry.data,
        )
        causes.append(cause)
    return tuple(causes)


def _line(entry: Entry) -> str:
    match entry.kind:
        case "run.started":
            return f"{entry.seq} run.started {entry.data.get('program')}"
        case "run.finished":
            return f"{entry.seq} run.finished {entry.data.get('status')}"
        case _:
            return line_of(entry, entry.data)


@attrs.frozen
class _Link:
    place: Place
    how: How
    of: Place | None
    is_main: bool = attrs.field(default=True, kw_only=True)


def _chain(logs: "_Logs", first: Place) -> list[_Link]:
    main = [_Link(first, "asked about", None)]
    beside: list[Sequence[_Link]] = []
    while direct := list(logs.direct(main[-1].place)):
        here = main[-1].place
        beside.append(tuple(_Link(place, how, here, is_main=False) for how, place in direct[1:]))
        main.append(_Link(direct[0][1], direct[0][0], here))
    told = {link.place for link in main}
    found: list[_Link] = []
    for link, others in zip(main, [*beside, ()], strict=True):
        found.append(link)
        for each in others:
            if each.place not in told:
                told.add(each.place)
                found.append(each)
    return found


def _ancestors(logs: "_Logs", first: Place) -> list[_Link]:
    found = {first: _Link(first, "asked about", None)}
    waiting = deque([first])
    while waiting:
        here = waiting.popleft()
        direct = [*logs.direct(here), *logs.earlier(here)]
        for number, (how, place) in enumerate(direct):
            if place not in found:
                found[place] = _Link(place, how, here, is_main=number == 0)
                waiting.append(place)
    order = {path: number for number, path in enumerate(dict.fromkeys(p for p, _ in found))}
    return sorted(found.values(), key=lambda link: (order[link.place[0]], -link.place[1]))


def _entries(links: list[_Link]) -> dict[Place, Entry]:
    """Read the entries of the links, each log once."""
    wanted: dict[Path, set[int]] = {}
    for link in links:
        path, seq = link.place
        wanted.setdefault(path, set()).add(seq)
    found: dict[Place, Entry] = {}
    for path, numbers in wanted.items():
        for entry in islice(read_entries(path, torn_ok=True), max(numbers) + 1):
            if entry.seq in numbers:
                found[path, entry.seq] = entry
    return found


# --- what a log says of causes ---------------------------------------------------------------


class _Logs:
    """The logs of a tree that were needed so far."""

    def __init__(self, logs: dict[Path, "_Log"]) -> None:
        self._logs = logs

    def direct(self, place: Place) -> Iterator[tuple[How, Place]]:
        """Yield what led to an entry directly, that which comes in the chain first."""
        path, seq = place
        log = self._logs[path]
        kind, cause = log.kinds[seq], log.causes[seq]
        if seq == 0:
            yield from self._parent(path)
            return
        request = log.requests.get(log.calls[seq]) if kind in _WORD else None
        direct: dict[int, How] = {}
        if cause != _NONE:
            direct[cause] = "after"
        direct |= dict.fromkeys(log.carries.get(seq, ()), "carries")
        if request is not None:
            direct[request] = _WORD[kind]
        yield from ((how, (path, at)) for at, how in direct.items() if 0 <= at < seq)
        yield from self._end_of_child(path, seq)

    def earlier(self, place: Place) -> Iterator[tuple[How, Place]]:
        """Yield what the program had before, in the scope of an entry of its own or below it.

        Back to the entry before it that the program made in the scope, which had the rest; before
        the first one in a scope, to the one above that came before.
        """
        path, seq = place
        log = self._logs[path]
        scope = log.scope_of_code(seq)
        own = log.back_to_code(scope, seq)
        above = scope
        while above and not (own and log.scope_of_code(own[-1])):
            above = scope_above(above)
            own += log.back_to_code(above, seq)
        yield from (("earlier", (path, at)) for at in own)
        if scope in log.parents:
            yield from (("earlier", (path, at)) for at in log.below(scope, seq, own))

    def _parent(self, path: Path) -> Iterator[tuple[How, Place]]:
        """Yield the entry of the parent's log that this log's first line names, if it is there."""
        above = self._logs[path].parent
        place = parent_of(path)
        if above is None or place is None:
            return
        parent, _ = place
        log = self._log(parent)
        if log is not None and above.get("hash") in log.by_hash:
            yield "started by", (parent, log.by_hash[above["hash"]])

    def _end_of_child(self, path: Path, seq: int) -> Iterator[tuple[How, Place]]:
        number, events, start = self._logs[path].ends.get(seq, (0, 0, ""))
        child = child_path(path, number)
        log = self._log(child) if number else None
        # Another child's log leads back to its own start, which may come later: for ever around.
        if (
            log is not None
            and 0 < events <= len(log.kinds)
            and (log.parent or {}).get("hash") == start
        ):
            yield "ends with", (child, events - 1)

    def _log(self, path: Path) -> "_Log | None":
        if path not in self._logs:
            if path.is_symlink():  # what it points at is nobody's log
                return None
            try:
                self._logs[path] = _Log(path, None)
            except (LogError, LogMissing):
                return None
        return self._logs[path]


_WORD: Final[dict[str, How]] = {
    **dict.fromkeys(COMPLETES, "answers"),
    "effect.cancelled": "concerns",
    "effect.late": "concerns",
}
_NEVER_PROGRAMS: Final = (FROM_WORLD | UNSEEN) - COMPLETES.keys()


class _Log:
    """Of one log what tells causes, and no data."""

    def __init__(self, path: Path, last: int | None) -> None:
        self._path = path
        self._blobs = BlobStore(blobs_of(path))
        self.kinds: list[str] = []
        self.calls: list[str] = []
        self.causes = array("q")
        self.requests: dict[str, int] = {}
        self.carries: dict[int, tuple[int, ...]] = {}
        self.ends: dict[int, tuple[int, int, str]] = {}
        """Of a `child.finished`: the child's number, how many entries its log had, and the hash of
        its start."""
        self.parent: dict[str, Any] | None = None
        self.by_hash: dict[str, int] = {}
        """Starts of children."""
        self.parents: set[str] = set()
        """Scopes with entries in scopes below them."""
        self._scopes: dict[str, array[int]] = {}
        """By scope: its entries."""
        self._starts: dict[str, tuple[Json, str]] = {}
        """By call key: the child's number, and the hash of its start."""
        self._talk = _Talk()
        most = None if last is None else min(last + 1, sys.maxsize)
        for entry in islice(read_entries(path, torn_ok=True), most):
            self._take(entry)

    def scope_of_code(self, seq: int) -> str:
        """Return the scope of an entry that the program made; empty for one that the world did."""
        kind, call = self.kinds[seq], self.calls[seq]
        if kind == "run.finished":
            return "0"
        is_outcome = kind in COMPLETES and self.causes[seq] == self.requests.get(call, _NONE)
        is_world = is_outcome or kind in _NEVER_PROGRAMS
        return "" if is_world else scope_of(call)

    def back_to_code(self, scope: str, seq: int) -> list[int]:
        """Return the entries of a scope before `seq`, back to one that the program made."""
        found: list[int] = []
        places = self._scopes.get(scope, ())
        for number in range(bisect_left(places, seq) - 1, -1, -1):
            found.append(places[number])
            if self.scope_of_code(places[number]):
                break
        return found

    def below(self, scope: str, seq: int, own: list[int]) -> Iterator[int]:
        """Yield the entries of scopes below since the last of `own`; of each, back to code."""
        done: set[str] = set()
        for at in range(seq - 1, min(own, default=0), -1):
            other = scope_of(self.calls[at])
            if other.startswith(f"{scope}/") and other not in done:
                yield at
                if self.scope_of_code(at):
                    done.add(other)

    def _take_scope(self, scope: str, seq: int) -> None:
        if scope not in self._scopes:
            above = scope
            while above := scope_above(above):
                self.parents.add(above)
        self._scopes.setdefault(scope, array("q")).append(seq)

    def _take(self, entry: Entry) -> None:
        call, kind = entry.call or "", entry.kind
        if (asked := self.requests.get(call)) is not None:
            call = self.calls[asked]  # one text for both: of a million entries that is a third
        if kind in REQUEST_KINDS:
            self.requests[call] = entry.seq
        self.kinds.append(sys.intern(kind))
        self.calls.append(call)
        is_cause = type(entry.cause) is int and 0 <= entry.cause < entry.seq
        self.causes.append(entry.cause if is_cause else _NONE)  # type: ignore[arg-type]  # an int
        if call:
            self._take_scope(scope_of(call), entry.seq)
        match kind:
            case "run.started":
                parent = entry.data.get("parent")
                self.parent = parent if isinstance(parent, dict) else None
            case "child.started":
                self.by_hash[entry.hash] = entry.seq
                self._starts[call] = (entry.data.get("number"), entry.hash)
            case "child.finished":
                outcome = entry.data.get("outcome")
                child = outcome.get("child") if isinstance(outcome, dict) else None
                events = child.get("events") if isinstance(child, dict) else None
                number, start = self._starts.get(call, (None, ""))
                if type(number) is int and type(events) is int:
                    self.ends[entry.seq] = (number, events, start)
            case "model.asked" | "model.answered" | "tool.called" | "tool.returned":
                self._take_talk(entry, call)
            case _:
                pass

    def _take_talk(self, entry: Entry, call: str) -> None:
        try:
            data = whole_data(entry, self._path, self._blobs)
        except LogDamaged:  # which message it was is not known; the rest of the log is
            return
        match entry.kind:
            case "model.asked":
                self.carries[entry.seq] = tuple(self._talk.asked(entry.seq, call, data))
            case "model.answered":
                self._talk.answered(entry.seq, call, data)
            case "tool.called":
                self._talk.called(entry.seq, call, data)
            case _:
                self._talk.returned(entry.seq, call)


class _Talk:
    """Which entries the messages of a conversation come from."""

    def __init__(self) -> None:
        self._returned: dict[str, int | None] = {}
        """By call key: the `tool.returned` of a call that a model may have wanted."""
        self._chain: dict[str, int] = {}
        """By chain digest: the entry that brought the message."""
        self._ends: dict[str, str] = {}
        """By call key: the chain digest of what was asked."""
        self._wanted: dict[str, tuple[int, str, Json]] = {}
        """By the id that a model gave a tool call: answer, tool, arguments."""
        self._tools: set[str] = set()
        """Names of tools that a model has wanted."""
        self._calls: dict[str, list[tuple[int, str, Json]]] = {}
        """By tool: seq, call key and arguments of what no result was seen of yet."""

    def asked(self, seq: int, call: str, data: dict[str, Any]) -> Iterator[int]:
        """Take a request; yield the entries whose messages it carries, the latest first."""
        at = str(data.get("predecessor") or "")
        before = self._chain.get(at)
        for message in data.get("added", ()):
            at = digest.chained(at, message)
            self._chain.setdefault(at, seq)
        self._ends[call] = at
        results = [self._result(message) for message in data.get("added", ())]
        yield from sorted({found for found in results if found is not None}, reverse=True)
        if before is not None:
            yield before

    def answered(self, seq: int, call: str, data: dict[str, Any]) -> None:
        """Take an answer: it is a message of what is asked next, and wants tools called."""
        message = data.get("message")
        if not isinstance(message, dict) or call not in self._ends:
            return
        self._chain.setdefault(digest.chained(self._ends[call], message), seq)
        for wanted in message.get("tool_calls") or ():
            self._wanted[str(wanted.get("id"))] = (seq, wanted["name"], wanted.get("arguments"))
            self._tools.add(wanted["name"])

    def called(self, seq: int, call: str, data: dict[str, Any]) -> None:
        """Take a call of a tool, if a model wants one: no other is looked for later."""
        if data["tool"] in self._tools:
            self._calls.setdefault(data["tool"], []).append((seq, call, data.get("arguments")))
            self._returned[call] = None

    def returned(self, seq: int, call: str) -> None:
        """Take the result of a call."""
        if call in self._returned:
            self._returned[call] = seq

    def _result(self, message: Json) -> int | None:
        """Return the entry that a tool's message comes from: the call that the model asked for."""
        if not isinstance(message, dict) or message.get("role") != "tool":
            return None
        wanted = self._wanted.pop(str(message.get("tool_call_id")), None)
        if wanted is None:
            return None
        answer, tool, arguments = wanted
        calls = [each for each in self._calls.get(tool, ()) if each[0] > answer]
        found = next((each for each in calls if each[2] == arguments), calls[0] if calls else None)
        if found is None:
            return None
        self._calls[tool].remove(found)
        return self._returned.pop(found[1], None)
