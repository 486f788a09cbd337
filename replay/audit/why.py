"""The causes of an entry: the entries that led to it, back to the first line of the root.

Causes are followed as recorded: an outcome answers its request; a request was made in the step that
the last outcome opened; a child was started by its parent's entry; a model request carries the
answers and tool results of its conversation; a child's outcome is the end of its log; files changed
while calls ran. Earlier outcomes in the same scope, or in one below, may also matter, but only the
program knows, so they are included only if every entry is requested. Executes nothing. Rules:
CONTRACT.md §3.2, §14.14.
"""

import contextlib
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.encoding.parameters import names_nearest
from refold.engine.errors import EntryMissing, FolderRefused, LogDamaged, LogError, LogMissing
from refold.engine.events.events import (
    COMPLETES,
    FOLDER,
    FROM_WORLD,
    REQUEST_KINDS,
    UNSEEN,
    scope_above,
    scope_of,
)
from refold.engine.log.descriptors import holding
from refold.engine.log.names import check_seq, child_path, is_there, log_path, parent_of
from refold.engine.log.reader import Entry, read_entries, whole_data
from refold.replay.explain.divergence import line_of
from refold.replay.index.kept_folds import LogFold, entries_at, fold_log
from refold.replay.index.malformed import explains_malformed
from refold.replay.index.run_end import raised_at

How = Literal[
    "asked about",
    "after",
    "answers",
    "carries",
    "ends with",
    "concerns",
    "during",
    "started by",
    "raises",
    "earlier",
]
"""`asked about`: the entry itself.

Otherwise, how the entry that it led to depends on it: that one happened `after` it, in the step
that it opened; `answers` it; `carries` it, as a message; is the outcome of a child that `ends with`
it; `concerns` it, for example cancels it; is a change of files `during` it; is the first line of a
run `started by` it; is the end of a run that `raises` its error; or had it `earlier`, in its scope
or in one below.
"""

_LINK, _BESIDE = 1, 2
"""Whether an entry is a link of a chain, or only led to one."""
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
    """The position in the answer of the entry that it led to; `None` for the first."""
    is_main: bool
    """Whether it is a link of the chain, not a secondary cause."""
    wall_us: int | None
    """When it was written, in microseconds since 1970; `None` if not recorded."""
    where: str
    """File and line of the program that raised, of a last entry; else empty."""
    line: str
    """It on one line, for people."""
    data: dict[str, Json] = attrs.field(repr=False)
    """As the log holds it: large texts by reference."""

    def __str__(self) -> str:
        return f"{self.log}: {self.how} {self.line}"


@attrs.frozen
class Causes(Document):
    """What led to an entry."""

    causes: tuple[Cause, ...]
    """That entry, and what led to it; of a long chain those that are nearest."""
    count: int
    """How many there are in all."""


@names_nearest
@explains_malformed
def why(log: str | PathLike[str], seq: int, *, every: bool = False) -> tuple[Cause, ...]:
    """Return the entries that led to the entry `seq` of `log`, starting with that entry.

    The default is the chain back to the first line of the root: each link is followed by its other
    direct causes that are not in the chain. With `every`, all entries that may have led to it, each
    once: log by log, the latest first.

    A negative `seq` counts from the end. If the parent's log is missing, the result ends with the
    first line of the child.

    Raises:
        EntryMissing: the log has no such entry.
        LogMissing: the log does not exist.
        LogDamaged: an entry up to there does not verify.
    """
    return causes(log, seq, every=every, most=None).causes


@holding()
def causes(log: str | PathLike[str], seq: int, *, every: bool = False, most: int | None) -> Causes:
    """Return the result of `why`, at most `most` causes of it, and their total number.

    Raises:
        RefoldError: any error of `why`.
    """
    path = log_path("why", log)
    check_seq("why", "seq", seq)
    asked = _Log(path, seq if seq >= 0 else None, every=every)
    at = seq if seq >= 0 else asked.entries + seq
    if not 0 <= at < asked.entries:
        raise EntryMissing(str(path), seq, asked.entries)  # it was read to its end
    logs = _Logs({path: asked}, every=every)
    links = _ancestors(logs, (path, at)) if every else _chain(logs, (path, at))
    found = [*islice(links, most)]
    if every:
        return Causes(_causes(logs, found), len(found) + sum(1 for _ in links))
    logs.tell_beside()
    return Causes(_causes(logs, found), logs.reported())


def direct_causes(
    counts: Mapping[Path, int],
) -> Iterator[tuple[Place, tuple[tuple[How, Place], ...]]]:
    """Yield each entry of some logs with its direct causes: first its link of the chain.

    `counts` are the numbers of verified entries per log; each log is read once.

    Raises:
        LogDamaged: fewer of them do.
    """
    logs = _Logs({path: _Log(path, count - 1) for path, count in counts.items() if count})
    for path, count in counts.items():
        for seq in range(count):
            yield (path, seq), tuple(logs.direct((path, seq)))


def _causes(logs: "_Logs", found: list["_Link"]) -> tuple[Cause, ...]:
    entries = _entries(logs, found)
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


def _chain(logs: "_Logs", first: Place) -> Iterator[_Link]:
    """Yield the chain, walked twice, so that its links are not repeated as secondary causes."""
    logs.tell_chain(first)
    for link, beside in _walk(logs, first):
        yield link
        for how, place in beside:
            if logs.tell(place):
                yield _Link(place, how, link.place, is_main=False)


def _walk(logs: "_Logs", first: Place) -> Iterator[tuple[_Link, list[tuple[How, Place]]]]:
    """Yield the links of a chain, each with what else led to it."""
    link = _Link(first, "asked about", None)
    while direct := [*logs.direct(link.place)]:
        yield link, direct[1:]
        link = _Link(direct[0][1], direct[0][0], link.place)
    yield link, []


def _ancestors(logs: "_Logs", first: Place) -> Iterator[_Link]:
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
    yield from sorted(found.values(), key=lambda link: (order[link.place[0]], -link.place[1]))


_SOUGHT_MAX: Final = 1000
"""Entries of a log that are looked for one by one; for more, it is read."""


def _entries(logs: "_Logs", links: list[_Link]) -> dict[Place, Entry]:
    """Read the entries of the links, each log once."""
    wanted: dict[Path, set[int]] = {}
    for link in links:
        path, seq = link.place
        wanted.setdefault(path, set()).add(seq)
    found: dict[Place, Entry] = {}
    for path, numbers in wanted.items():
        if len(numbers) <= _SOUGHT_MAX:
            sought = entries_at(path, sorted(numbers), logs.end(path))
            found |= {(path, entry.seq): entry for entry in sought}
        if not all((path, number) in found for number in numbers):
            for entry in islice(read_entries(path, torn_ok=True), max(numbers) + 1):
                if entry.seq in numbers:
                    found[path, entry.seq] = entry
    return found


# --- what a log says of causes ---------------------------------------------------------------


class _Logs:
    """The logs of a tree that were needed so far."""

    def __init__(self, logs: dict[Path, "_Log"], *, every: bool = False) -> None:
        self._logs = logs
        self._every = every
        self._told: dict[Path, bytearray] = {}

    def tell(self, place: Place, what: int = _BESIDE) -> bool:
        """Return whether this is the first time that an entry is reported."""
        path, seq = place
        told = self._told.setdefault(path, bytearray(self._logs[path].entries))
        is_first = not told[seq]
        told[seq] = told[seq] or what
        return is_first

    def reported(self) -> int:
        """Return how many entries were reported."""
        return sum(len(told) - told.count(0) for told in self._told.values())

    def end(self, path: Path) -> int:
        """Return up to which byte a log was read."""
        return self._logs[path].end

    def tell_chain(self, place: Place) -> None:
        """Report the links of a chain, which may be very long."""
        while True:
            self.tell(place, _LINK)
            path, seq = place
            causes, told = self._logs[path].causes, self._told[path]
            while causes[seq] >= 0:
                seq = causes[seq]
                told[seq] = _LINK
            direct = next(self.direct((path, seq)), None)
            if direct is None:
                return
            place = direct[1]

    def tell_beside(self) -> None:
        """Report what led to the links of a chain that was reported."""
        for path, told in [*self._told.items()]:
            log = self._logs[path]
            for seq, at in zip(log.of, log.beside, strict=True):
                told[at] = told[at] or (told[seq] == _LINK and _BESIDE)
            for seq in log.ends:
                for _, place in self.direct((path, seq)) if told[seq] == _LINK else ():
                    self.tell(place)

    def direct(self, place: Place) -> Iterator[tuple[How, Place]]:
        """Yield what led to an entry directly, that which comes in the chain first."""
        path, seq = place
        log = self._logs[path]
        if seq == 0:
            yield from self._parent(path)
            return
        direct: dict[int, How] = {}
        role = log.roles[seq]
        other: How = next((how for bit, how in _HOWS if role & bit), "carries")
        if log.causes[seq] != _NONE:
            raises = role & _LAST and role & _MORE
            direct[log.causes[seq]] = other if role & _ASKED else "raises" if raises else "after"
        if role & _MORE:
            other = "after" if role & _LAST else other
            direct |= dict.fromkeys(log.causes_beside(seq), other)
        yield from ((how, (path, at)) for at, how in direct.items())
        yield from self._end_of_child(path, seq)

    def earlier(self, place: Place) -> Iterator[tuple[How, Place]]:
        """Yield the program's earlier outcomes, in the scope of an entry of its own or below it.

        It goes back to the program's previous entry in the scope, which had the rest; before the
        first entry of a scope, to the previous one in the scope above.
        """
        path, seq = place
        log = self._logs[path]
        scope = log.scope_of_code(seq)
        own, above = log.back_to_code(scope, seq), scope
        beneath = list(log.below(scope, seq, own))
        while above and not (own and log.scope_of_code(own[-1])):
            above = scope_above(above)
            own += (part := log.back_to_code(above, seq))
            others = log.below(above, seq, part)  # of tasks that may have ended before this one
            beneath += (at for at in others if not log.roles[at] & _REQUEST)
        yield from (("earlier", (path, at)) for at in [*own, *beneath])

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
        if seq not in self._logs[path].ends:
            return
        number, events, start = self._logs[path].ends[seq]
        child = child_path(path, number)
        log = self._log(child) if number else None
        # Another child's log leads back to its own start, which may come later: for ever around.
        if (
            log is not None
            and 0 < events <= log.entries
            and (log.parent or {}).get("hash") == start
        ):
            yield "ends with", (child, events - 1)

    def _log(self, path: Path) -> "_Log | None":
        if path not in self._logs:
            if not is_there(path):  # what it points at is nobody's log
                return None
            try:
                self._logs[path] = _Log(path, None, every=self._every)
            except (LogError, LogMissing):
                return None
        return self._logs[path]


_ANSWERS, _CONCERNS, _WORLDS, _LAST, _ASKED, _MORE, _REQUEST, _FILES = 1, 2, 4, 8, 16, 32, 64, 128
"""What an entry is: `_ASKED`, its cause is the request that it is about; `_MORE`, it has other
direct causes."""
_HOWS: Final[tuple[tuple[int, How], ...]] = (
    (_ANSWERS, "answers"),
    (_CONCERNS, "concerns"),
    (_FILES, "during"),
)
_ROLES: Final = {
    **dict.fromkeys(FROM_WORLD | UNSEEN, _WORLDS),
    **dict.fromkeys(COMPLETES, _ANSWERS),
    **dict.fromkeys(REQUEST_KINDS, _REQUEST),
    "effect.cancelled": _CONCERNS,
    "effect.late": _WORLDS | _CONCERNS,
    "run.finished": _LAST,
    FOLDER: _FILES,
}
"""The relation of each kind of entry to the program; a kind that is missing is the program's."""


class _Log(LogFold):
    """The causes in one log: numbers without data, and call keys only of open requests."""

    def __init__(self, path: Path, last: int | None, *, every: bool = False) -> None:
        super().__init__(path)
        self._every = every
        self.roles = bytearray()
        self.causes = array("i")
        self.of, self.beside = array("i"), array("i")
        """Entries with `_MORE`, and for each one direct cause: the request that it is about, or an
        entry that a request to a model carries."""
        self.ends: dict[int, tuple[int, int, str]] = {}
        """Of a `child.finished`: the child's number, how many entries its log had, and the hash of
        its start."""
        self.parent: dict[str, Any] | None = None
        self.by_hash: dict[str, int] = {}
        """Starts of children."""
        self.parents: set[str] = set()
        """Scopes with entries in scopes below them; like all of scopes, only with `every`."""
        self._scopes: dict[str, array[int]] = {}
        """By scope: its entries."""
        self._scope_of: list[str] = []
        """By entry: its scope, one text for all of it."""
        self._open: dict[str, int] = {}
        """By call key: open requests."""
        self._since: dict[str, int] = {}
        """By call key: requests that ended since files changed last; of a log with files."""
        self._has_files = False
        self._starts: dict[str, tuple[Json, str]] = {}
        """By call key: the child's number, and the hash of its start."""
        self._talk = _Talk()
        fold_log(self, last=last, torn_ok=True, keeps=not every)

    def causes_beside(self, seq: int) -> Sequence[int]:
        """Return the direct causes of an entry beside `causes`."""
        return self.beside[bisect_left(self.of, seq) : bisect_right(self.of, seq)]

    def scope_of_code(self, seq: int) -> str:
        """Return the scope of an entry that the program made; empty for one that the world did."""
        if self.roles[seq] & _LAST:
            return "0"
        is_outcome = self.roles[seq] & _ANSWERS and self.roles[seq] & _ASKED
        return "" if is_outcome or self.roles[seq] & _WORLDS else self._scope_of[seq]

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
        """Yield the entries of scopes below, since the code in `own`; of each, back to code."""
        if scope not in self.parents:
            return
        done: set[str] = set()
        since = own[-1] if own and self.scope_of_code(own[-1]) else 0
        for at in range(seq - 1, since, -1):
            other = self._scope_of[at]
            if other.startswith(f"{scope}/") and other not in done:
                yield at
                if self.scope_of_code(at):
                    done.add(other)

    def _take_scope(self, call: str, seq: int) -> None:
        scope = sys.intern(scope_of(call))
        self._scope_of.append(scope)
        if call and scope not in self._scopes:
            above = scope
            while above := scope_above(above):
                self.parents.add(above)
        if call:
            self._scopes.setdefault(scope, array("q")).append(seq)

    def _take_beside(self, seq: int, cause: int) -> None:
        self.roles[seq] |= _MORE
        self.of.append(seq)
        self.beside.append(cause)

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        call, kind = entry.call or "", entry.kind
        role = _ROLES.get(kind, 0)
        cause = entry.cause if type(entry.cause) is int and 0 <= entry.cause < entry.seq else _NONE
        self.roles.append(role)
        self.causes.append(cause)
        super().take(entry)
        if role & (_ANSWERS | _CONCERNS) and call in self._open:
            if self._open[call] == cause:
                self.roles[-1] |= _ASKED
            else:
                self._take_beside(entry.seq, self._open[call])
        if kind in REQUEST_KINDS:
            self._open[call] = entry.seq
        elif role & _ANSWERS or kind == "effect.late":
            ended = self._open.pop(call, None)  # nothing of it comes later
            if ended is not None and self._has_files:
                self._since[call] = ended
        if self._every:
            self._take_scope(call, entry.seq)
        if role & _LAST:
            self._take_raised(entry, cause)
        self._take_other(entry, call)

    def _take_raised(self, entry: Entry, cause: int) -> None:
        """Let an end be led to by the failure that it raises, before the last outcome."""
        raised = entry.meta.get("error_seq")
        if type(raised) is int and 0 < raised < entry.seq and raised != cause:
            self.causes[-1] = raised
            self._take_beside(entry.seq, cause)

    def _take_files(self, entry: Entry) -> None:
        """Let a change of files be led to by the calls that can have made it, the latest first."""
        from refold.engine.workspace.entries import FolderChanged, read_entry  # noqa: PLC0415 - few logs have folders

        changed = read_entry(whole_data(entry, self.path, self._blobs))
        if isinstance(changed, FolderChanged):
            running = self._since | self._open
            calls = {call for change in changed.changes for call in changed.suspects(change)}
            found = sorted((running[call] for call in calls if call in running), reverse=True)
            if found:
                self.causes[-1] = found[0]
                self.roles[-1] |= _ASKED
            for at in found[1:]:
                self._take_beside(entry.seq, at)
        self._has_files, self._since = True, {}

    def _take_other(self, entry: Entry, call: str) -> None:
        match entry.kind:
            case kind if kind == FOLDER:
                with contextlib.suppress(LogDamaged, FolderRefused):
                    self._take_files(entry)
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
                number, start = self._starts.pop(call, (None, ""))
                if type(number) is int and type(events) is int:
                    self.ends[entry.seq] = (number, events, start)
                    self.roles[-1] |= _MORE
            case "model.asked" | "model.answered" | "tool.called" | "tool.returned":
                self._take_talk(entry, call)

    def _take_talk(self, entry: Entry, call: str) -> None:
        try:
            data = whole_data(entry, self.path, self._blobs)
        except LogDamaged:  # which message it was is not known; the rest of the log is
            self.is_whole = False
            return
        match entry.kind:
            case "model.asked":
                for at in self._talk.asked(entry.seq, call, data):
                    self._take_beside(entry.seq, at)
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
        self._chain: dict[int, int] = {}
        """By chain digest, shortened to a number: the entry that brought the message."""
        self._ends: dict[str, str] = {}
        """By call key: the chain digests of open requests."""
        self._wanted: dict[str, tuple[int, str, Json]] = {}
        """By the id that a model gave a tool call: answer, tool, arguments."""
        self._wanting: Counter[str] = Counter()
        """By tool: how many of these want it."""
        self._calls: dict[str, dict[str, tuple[int, Json]]] = {}
        """By tool that a model wants, and call key: seq and arguments, until a result is seen."""

    def asked(self, seq: int, call: str, data: dict[str, Any]) -> Iterator[int]:
        """Take a request; yield the entries whose messages it carries, the latest first."""
        at = str(data.get("predecessor") or "")
        before = self._chain.get(_key(at))
        for message in data.get("added", ()):
            at = digest.chained(at, message)
            self._chain.setdefault(_key(at), seq)
        self._ends[call] = at
        results = [self._result(message) for message in data.get("added", ())]
        yield from sorted({found for found in results if found is not None}, reverse=True)
        if before is not None:
            yield before

    def answered(self, seq: int, call: str, data: dict[str, Any]) -> None:
        """Take an answer: it is a message of the next request, and requests tool calls."""
        message = data.get("message")
        asked = self._ends.pop(call, None)
        if not isinstance(message, dict) or asked is None:
            return
        self._chain.setdefault(_key(digest.chained(asked, message)), seq)
        for wanted in message.get("tool_calls") or ():
            self._take_wanted(name := str(wanted.get("id")))  # an id that is given again
            self._wanted[name] = (seq, wanted["name"], wanted.get("arguments"))
            self._wanting[wanted["name"]] += 1
            self._calls.setdefault(wanted["name"], {})

    def called(self, seq: int, call: str, data: dict[str, Any]) -> None:
        """Take a call of a tool, if a model wants one: no other is looked for later."""
        if data["tool"] in self._calls:
            self._calls[data["tool"]][call] = seq, data.get("arguments")
            self._returned[call] = None

    def returned(self, seq: int, call: str) -> None:
        """Take the result of a call."""
        if call in self._returned:
            self._returned[call] = seq

    def _result(self, message: Json) -> int | None:
        """Return the entry that a tool's message comes from: the call that the model asked for."""
        if not isinstance(message, dict) or message.get("role") != "tool":
            return None
        wanted = self._take_wanted(str(message.get("tool_call_id")))
        if wanted is None:
            return None
        answer, tool, arguments = wanted
        calls = self._calls[tool]
        fitting = [each for each in calls.items() if each[1][0] > answer]
        exact = (call for call, (_, sent) in fitting if sent == arguments)
        found = next(exact, fitting[0][0] if fitting else "")
        calls.pop(found, None)
        seq = self._returned.pop(found, None)
        if not self._wanting[tool]:  # what is wanted later is called later
            for call in self._calls.pop(tool):
                self._returned.pop(call, None)
        return seq

    def _take_wanted(self, name: str) -> tuple[int, str, Json] | None:
        wanted = self._wanted.pop(name, None)
        self._wanting.subtract([wanted[1]] if wanted else [])
        return wanted


def _key(name: str) -> int:
    """Return a number for a digest, the same in every process: a kept state has them."""
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)
