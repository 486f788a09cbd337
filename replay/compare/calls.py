"""The calls of one log, scope by scope: what a diff compares.

A log is streamed; of each call only its identity, two digests and where its entries lie are kept,
and the entries are read again where a difference is to be shown.  Left out of what is compared is
what is volatile (CONTRACT.md §6.2), and what only repeats earlier calls: the conversation before
the messages that a model request adds, and a child's number, which the interleaving decides.
"""

import sys
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.events.call_key import parts_of
from refold.engine.events.events import COMPLETES
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import Entry, open_log, read_entries
from refold.replay.compare.measured import Declared
from refold.replay.difference.align import Key
from refold.replay.difference.excuses import KIND_ASKED, without_volatile
from refold.replay.difference.volatile import is_volatile, stable
from refold.replay.index.asked_items import named

NO_OUTCOME: Final[Json] = {"status": "no outcome"}
"""How the end of a call reads that has none in its log."""

_Place = tuple[str, int]
"""Kind and byte offset of an entry."""

_ENDS: Final = frozenset({*COMPLETES, "effect.cancelled"})


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
    """Digest of what was asked."""
    asked_at: _Place
    ended: bytes = b""
    """Digest of how it ended; empty while open."""
    ended_at: tuple[_Place, ...] = ()
    number: int = 0
    """Of a child that was started; 0 for all else."""
    has_log: bool = False
    """Whether the child's outcome says that it wrote one."""

    @property
    def scope(self) -> str:
        """The scope of the call key; of a timer, with its `@`, for timers have their own count."""
        scope, mark, _ = parts_of(self.key)
        return scope + mark.strip("#")

    @property
    def identity(self) -> Key:
        """What an alignment compares."""
        return self.kind, self.name, self.asked

    @property
    def is_rejected(self) -> bool:
        """Whether it is a start that was refused: nothing tells what was asked."""
        return self.kind == "child" and not self.number

    def label(self) -> str:
        """Return the call in a few words: `search#3`, `researcher[2]`, `timer 0@2`."""
        ordinal = parts_of(self.key)[2]
        match self.kind:
            case "child":
                return f"{self.name}[{self.number}]" if self.number else f"rejected child#{ordinal}"
            case "tool":
                return f"{self.name}#{ordinal}"
            case "timer":
                return f"timer {self.key}"
            case _:
                words = f"{self.kind} {self.name}".strip()
                return f"{words}#{ordinal}" if self.key else words


class RunCalls:
    """The calls of the log at `path`, and how its run began and ended.

    Looks at the clock are no calls: `looks` counts them.

    Raises:
        LogDamaged: an entry does not verify; a torn tail ends the calls like the end of the file.
        LogMissing: there is no such file.
        LogUnsupported: it was written by a newer version.
    """

    looks = 0

    def __init__(
        self, path: Path, volatile: Iterable[str] = (), declared: Declared | None = None
    ) -> None:
        """Read the calls; places that `volatile` names are alike in all logs (§12.7).

        `declared` is what the tree of logs declares that this one belongs to.
        """
        self.path = path
        self.declared = declared or Declared(path)
        self.volatile = tuple(volatile)
        self.calls: dict[str, Call] = {}
        """By call key, in the order of asking; without one, by their place."""
        self.started: dict[str, Any] = {}
        """The data of `run.started`."""
        self.finished: dict[str, Any] | None = None
        """The data of `run.finished`; `None` for a log that is not sealed."""
        self.entries = 0
        self._blobs = BlobStore(blobs_of(path))
        end = 0
        for entry in read_entries(path, torn_ok=True):
            self._take(entry)
            self.entries += 1
            end = entry.offset + len(entry.line)
        self.behind = path.stat().st_size - end
        """Bytes behind the last entry: a torn tail."""

    def scopes(self) -> dict[str, list[Call]]:
        """Return the calls by scope, each scope's in the order of their ordinals."""
        found: dict[str, list[Call]] = {}
        for call in self.calls.values():
            found.setdefault(call.scope, []).append(call)
        return found

    def request(self, call: Call) -> Json:
        """Return what was asked, without what is volatile."""
        return self._view(call, call.asked_at, _asked)

    def ending(self, call: Call) -> Json:
        """Return how it ended, without what is volatile."""
        if not call.ended_at:
            return NO_OUTCOME if call.kind in KIND_ASKED else {}
        *before, last = call.ended_at
        ending = self._view(call, last, _ended)
        return {"cancelled": True} | ending if before and isinstance(ending, dict) else ending

    # --- reading -------------------------------------------------------------------------

    def _take(self, entry: Entry) -> None:
        match entry.kind:
            case "run.started":
                self.started = dict(self.declared.value(self._resolved(entry.data, entry.line)))
            case "run.finished":
                finished = self.declared.value(self._resolved(entry.data, entry.line))
                self.finished = without_volatile("run", finished, self.volatile)
            case "clock.read":
                self.looks += 1
            case kind if not is_volatile(kind):
                call = self.calls.get(entry.call) if entry.call else None
                if call is None:
                    call = self._begin(entry)
                elif kind in _ENDS:
                    self._end(call, entry)
                if kind == "value.drawn":
                    self._end(call, entry)

    def _begin(self, entry: Entry) -> Call:
        # One text for all: of a million entries, what is equal is most of what is kept.
        kind, name = map(sys.intern, _identified(entry.kind, entry.data))
        data = without_volatile(f"{kind}:{name}", self._compared(entry), self.volatile)
        asked = _digest(entry, _asked(entry.kind, data))
        place = sys.intern(entry.kind), entry.offset
        call = Call(entry.call or "", kind, name, entry.seq, asked, place)
        if entry.kind == "child.started":
            call.number = entry.data.get("number", 0)
        self.calls[call.key or f"\0{entry.seq}"] = call
        return call

    def _end(self, call: Call, entry: Entry) -> None:
        if entry.kind == "child.finished":
            if not call.number:
                call.kind, call.name = "child", ""
            child = entry.data.get("outcome", {}).get("child")
            call.has_log = bool(child and child.get("events"))
        call.ended_at = (*call.ended_at, (sys.intern(entry.kind), entry.offset))
        data = without_volatile(f"{call.kind}:{call.name}", self._compared(entry), self.volatile)
        ended = _digest(entry, _ended(entry.kind, data))
        call.ended = sha256(call.ended + ended).digest() if call.ended else ended

    def _compared(self, entry: Entry) -> dict[str, Any]:
        """Return the data of an entry without what is declared; the entry's own if nothing is."""
        data = entry.data
        if self.declared.is_any and is_marked(entry.line):
            data = self._resolved(data, entry.line)
        return self.declared.without(self.path, entry.kind, entry.call, data)

    def _view(self, call: Call, place: _Place, view: Callable[[str, dict[str, Any]], Json]) -> Json:
        kind, offset = place
        with open_log(self.path) as file:
            file.seek(offset)
            line = file.readline()
        data = self._resolved(loads(line)["data"], line)
        data = self.declared.without(self.path, kind, call.key, data)
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
            return {
                "model": data.get("model"),
                "added": data.get("added"),
                "parameters": data.get("parameters"),
                "new_conversation": data.get("base") == 0,
            }
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
            return stable(kind, data).get("outcome")
        case _:
            return stable(kind, data)


def _digest(entry: Entry, view: Json) -> bytes:
    content = entry.data_bytes if view is entry.data else encode(view)
    return sha256(content).digest()[:16]
