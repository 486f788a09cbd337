"""The calls of one log, scope by scope, for a diff.

A log is streamed. For each call, only its identity, two digests and the offsets of its entries are
kept, as numbers; the entries are read again to show a difference. Volatile values (CONTRACT.md
§6.2) are not compared, nor are repetitions of earlier calls: the conversation before the messages
that a model request adds, and a child's number, which depends on the interleaving.
"""

import re
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.events.events import COMPLETES, REQUEST_KINDS, parts_of
from refold.engine.log.blobs import BlobBroken, is_marked, resolved
from refold.engine.log.reader import Entry, open_log
from refold.replay.compare.measured import Declared
from refold.replay.difference.align import Key
from refold.replay.difference.excuses import KIND_ASKED, without_volatile
from refold.replay.difference.volatile import is_volatile, stable, without_places, without_rest
from refold.replay.index.asked_items import call_label, named
from refold.replay.index.kept_folds import LogFold, fold_log

if TYPE_CHECKING:  # with all that reads a folder
    from refold.replay.observed.folder import FileDifference

NO_OUTCOME: Final[Json] = {"status": "no outcome"}
"""How the end of a call reads that has none in its log."""

RETRIES: Final = "retries"
"""The member of an ending that has why the same request failed before."""

_ENDS: Final = frozenset({*COMPLETES, "effect.cancelled"})
_ENDED: Final = REQUEST_KINDS | {"limit.hit"}
"""Kinds whose call ends in a later entry."""
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,8}")


@attrs.define
class Call:
    """One effect, or another thing that the program did, under its call key."""

    key: str
    """Empty for what happened to the run as a whole."""
    kind: str
    """`tool`, `model`, `child`, `input`, `timer`, `value`, `note`, `patch`, `session`, `limit`,
    `cancel`, or a third party's own."""
    name: str
    """Of the tool, the model, the child's agent or program, the value; often empty."""
    seq: int
    asked: bytes
    """The digest of the request."""
    asked_at: int
    """Byte offset of its entry."""
    ended: bytes = b""
    """Digest of how it ended; empty while open."""
    ended_at: tuple[int, ...] = ()
    """Byte offsets of the entries that ended it."""
    number: int = 0
    """Of a child that was started; 0 for all else."""
    has_log: bool = False
    """Whether the child's outcome has a log."""

    @property
    def scope(self) -> str:
        """The scope of the call key; of a timer, with its `@`, for timers have their own count."""
        scope, mark, _ = parts_of(self.key)
        return scope + mark.strip("#")

    @property
    def identity(self) -> Key:
        """The value that an alignment compares."""
        return self.kind, self.name, self.asked

    @property
    def is_rejected(self) -> bool:
        """Whether it is a rejected start, whose request is not recorded."""
        return self.kind == "child" and not self.number

    def label(self) -> str:
        """Return the call in a few words: `search#3`, `researcher[2]`, `timer 0@2`."""
        if self.kind != "child":
            return call_label(self.kind, self.name, self.key)
        ordinal = parts_of(self.key)[2]
        return f"{self.name}[{self.number}]" if self.number else f"rejected child#{ordinal}"


class Calls:
    """Calls in the order of asking, in some seventy bytes each: a log may have a million."""

    _ROW: Final = Struct("<QIIII16s16sQ")
    """Offset of the request, seq, kind and name, key without number, number, digests, its end."""

    def __init__(self) -> None:
        self._rows = bytearray()
        self._texts: dict[str, int] = {}
        self._names: list[str] = []
        self._odd: dict[int, Call] = {}
        """Children, and calls that ended twice."""

    def __len__(self) -> int:
        return len(self._rows) // self._ROW.size

    def __iter__(self) -> Iterator[Call]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> Call:
        if at in self._odd:
            return self._odd[at]
        row = self._ROW.unpack_from(self._rows, at * self._ROW.size)
        asked_at, seq, what, task, number, asked, ended, ended_at = row
        kind, _, name = self._names[what].partition("\0")
        key = f"{self._names[task]}{number or ''}"
        ends = (ended, (ended_at,)) if ended_at else ()
        return Call(key, kind, name, seq, asked, asked_at, *ends)

    def __setitem__(self, at: int, call: Call) -> None:
        if call.kind == "child" or len(call.ended_at) > 1:
            self._odd[at] = call
        number = parts_of(call.key)[2]
        number = number if _NUMBER.fullmatch(number) else ""  # no key that we give
        what, task = self._text(f"{call.kind}\0{call.name}"), call.key.removesuffix(number)
        end = call.ended_at[-1] if call.ended_at else 0
        row = call.asked_at, call.seq, what, self._text(task), int(number or 0)
        size = self._ROW.size
        packed = self._ROW.pack(*row, call.asked, call.ended, end)
        self._rows[at * size : (at + 1) * size] = packed

    def _text(self, text: str) -> int:
        place = self._texts.setdefault(text, len(self._names))
        if place == len(self._names):
            self._names.append(text)
        return place


class RunCalls(LogFold):
    """The calls of the log at `path`, and the start and end of its run.

    Clock reads are not calls; `looks` counts them.

    Raises:
        LogDamaged: an entry does not verify; a torn tail ends the calls like the end of the file.
        LogMissing: the file does not exist.
        LogUnsupported: it was written by a newer version.
    """

    looks = 0
    files: "tuple[FileDifference, ...]" = ()
    """Of a watched command: those that differ at the end of the log that this one is bound to."""

    def __init__(
        self, path: Path, volatile: Iterable[str] = (), declared: Declared | None = None
    ) -> None:
        """Read the calls; places that `volatile` names count as equal in all logs (§12.7).

        `declared` are the declarations of the log tree that this log belongs to.
        """
        super().__init__(path)
        self.declared = declared or Declared(path)
        self.volatile = tuple(volatile)
        self.calls: Calls | list[Call] = Calls()
        self._turns: defaultdict[str, array[int]] = defaultdict(lambda: array("Q"))
        """By agent: the entries of its model requests; empty until asked for."""
        self._open: dict[str, tuple[int, Call]] = {}
        """By call key: those that have not ended, and their places."""
        self.started: dict[str, Any] = {}
        """The data of `run.started`."""
        self.finished: dict[str, Any] | None = None
        """The data of `run.finished`; `None` for a log that is not sealed."""
        self._limits: Mapping[str, Any] = {}
        fold_log(self, torn_ok=True, keeps=False)
        self.behind = path.stat().st_size - self.end
        """Bytes behind the last entry: a torn tail."""

    def scopes(self) -> dict[str, "array[int]"]:
        """Return the places of calls by scope, each scope's in the order of their ordinals."""
        found: dict[str, array[int]] = {}
        for at, call in enumerate(self.calls):
            found.setdefault(call.scope, array("I")).append(at)
        return found

    def turn(self, call: Call) -> int | None:
        """Return how many model requests its agent had made by then; `None` for none."""
        if not self._turns:
            for each in self.calls:
                self._turns[self.agent_of(each)].extend([each.seq] * (each.kind == "model"))
        return bisect_right(self._turns[self.agent_of(call)], call.seq) or None

    def names(self, _call: str) -> list[str]:
        """Return the names of the agents above a call, below the run itself."""
        return []

    def agent_of(self, _call: Call) -> str:
        """Return what tells the agents of this log apart: a program's log has one."""
        return ""

    def notes(self, other: "RunCalls") -> list[str]:  # noqa: ARG002 - of watched commands
        """Return what was not compared with another run, in sentences."""
        return []

    def request(self, call: Call) -> Json:
        """Return the request without volatile values."""
        return self._view(call, call.asked_at, _asked)

    def ending(self, call: Call) -> Json:
        """Return the outcome without volatile values."""
        if not call.ended_at:
            return NO_OUTCOME if call.kind in KIND_ASKED else {}
        *before, last = call.ended_at
        ending = self._view(call, last, _ended)
        return {"cancelled": True} | ending if before and isinstance(ending, dict) else ending

    # --- reading -------------------------------------------------------------------------

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        super().take(entry)
        match entry.kind:
            case "run.started":
                self.started = dict(self.declared.value(self._resolved(entry.data, entry.line)))
                self._limits = self.started.get("limits") or {}
            case "run.finished":
                finished = self.declared.value(self._resolved(entry.data, entry.line))
                self.finished = without_volatile("run", finished, self.volatile)
            case "clock.read":
                self.looks += 1
            case kind if not is_volatile(kind):
                at, call = self._open.get(entry.call or "", (len(self.calls), None))
                if call is None:
                    call = self._begin(entry)
                    if entry.call and kind in _ENDED:
                        self._open[entry.call] = at, call
                elif kind in _ENDS:
                    self._end(call, entry)
                if kind == "value.drawn":
                    self._end(call, entry)
                if kind in COMPLETES:
                    self._open.pop(call.key, None)
                self.calls[at] = call

    def _begin(self, entry: Entry) -> Call:
        kind, name = _identified(entry.kind, entry.data)
        data = self._compared(entry)
        if kind == "child":
            data = without_rest(data, self._limits)
        data = without_volatile(f"{kind}:{name}", data, self.volatile)
        asked = _digest(entry, _asked(entry.kind, data))
        call = Call(entry.call or "", kind, name, entry.seq, asked, entry.offset)
        if entry.kind == "child.started":
            call.number = entry.data.get("number", 0)
        return call

    def _end(self, call: Call, entry: Entry) -> None:
        if entry.kind == "child.finished":
            if not call.number:
                call.kind, call.name = "child", ""
            child = entry.data.get("outcome", {}).get("child")
            call.has_log = bool(child and child.get("events"))
        call.ended_at = (*call.ended_at, entry.offset)
        data = without_volatile(f"{call.kind}:{call.name}", self._compared(entry), self.volatile)
        ended = _digest(entry, _ended(entry.kind, data))
        call.ended = sha256(call.ended + ended).digest() if call.ended else ended

    def _compared(self, entry: Entry) -> dict[str, Any]:
        """Return an entry's data without declared values; unchanged if none are declared."""
        data = entry.data
        if self.declared.is_any and is_marked(entry.line):
            data = self._resolved(data, entry.line)
        return self.declared.without(self.path, entry.kind, entry.call, data)

    def _view(self, call: Call, place: int, view: Callable[[str, dict[str, Any]], Json]) -> Json:
        with open_log(self.path) as file:
            file.seek(place)
            line = file.readline()
        row = loads(line)
        kind, data = row["kind"], self._resolved(row["data"], line)
        data = self.declared.without(self.path, kind, call.key, data)
        if kind == "child.started":
            data = without_rest(data, self._limits)
        return view(kind, without_volatile(f"{call.kind}:{call.name}", data, self.volatile))

    def _resolved(self, data: dict[str, Any], line: bytes) -> dict[str, Any]:
        return dict(resolved(data, self._text)) if is_marked(line) else data

    def _text(self, name: str, size: int) -> str:
        try:
            return self._blobs.get(name, size)
        except BlobBroken as broken:  # told by its digest, which is as good to compare
            return f"({broken.what}: {name}, {size} bytes)"


# --- what is compared ------------------------------------------------------------------------


def _identified(kind: str, data: dict[str, Any]) -> tuple[str, str]:
    """Return the kind and the name of the call that an entry begins."""
    if kind == "value.drawn":
        return "value", f"{data.get('source')} {data.get('name')}".strip()
    return named(kind, data)


def _asked(kind: str, data: dict[str, Any]) -> Json:
    match kind:
        case "model.asked":
            asked = {name: data.get(name) for name in ("model", "added", "parameters")}
            return asked | {"new_conversation": data.get("base") == 0}
        case "value.drawn":
            return {name: data.get(name) for name in ("source", "name")}
        case _:
            return stable(kind, data)


def _ended(kind: str, data: dict[str, Any]) -> Json:
    match kind:
        case "effect.cancelled":
            return {"status": "cancelled"}
        case "value.drawn":
            return {"value": data.get("value")}
        case "child.finished":
            outcome = stable(kind, data).get("outcome")
            return without_places(outcome) if isinstance(outcome, dict) else outcome
        case _:
            return without_places(stable(kind, data))


def _digest(entry: Entry, view: Json) -> bytes:
    content = entry.data_bytes if view is entry.data else encode(view)
    return sha256(content).digest()[:16]
