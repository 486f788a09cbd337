"""The record index of a log, from which other runs are served.

A re-execution takes line after line. A rehearsal (`replay.what_if.rehearsal`) and a partly live run
(`replay.partial.sources`) make requests in a different order, so they need each outcome by its call
key, and the same request in any place. This module neither executes nor compares.
Rules: CONTRACT.md §12.8, §12.10.
"""

from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.secret import MEMBER
from refold.engine.errors import LogUnsealed
from refold.engine.events import events
from refold.engine.events.codec import unstructure
from refold.engine.events.events import scope_of
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.kernel.world import REQUESTS
from refold.engine.log.damage import without_lines
from refold.engine.log.names import child_path
from refold.engine.log.reader import Entry, read_entries
from refold.engine.recording.bookends import scripts_in
from refold.replay.difference.excuses import without_volatile
from refold.replay.difference.volatile import without_places
from refold.replay.index.asked_items import Item, inside, item_of
from refold.replay.index.guarantee import refuse_observed, refuse_other_rules
from refold.replay.index.run_end import end_of
from refold.replay.index.standing import standing_text
from refold.replay.index.times import is_time


@attrs.frozen
class AskedCall:
    """One request of a program."""

    call: str
    identity: str
    """The digest of the request without its key: equal for the same request in any place."""
    item: Item
    data: dict[str, Json] = attrs.field(repr=False)
    """Its data, as in a log."""
    delegates: bool = False
    """Whether it calls a delegation tool: program code, whose result the program makes itself."""

    @property
    def name(self) -> tuple[str, str]:
        """Kind and name: unchanged in a request with different arguments."""
        return self.item.kind, self.item.name

    @property
    def comparable(self) -> dict[str, Json]:
        """The logged request without values that depend on the order: see `asked_of`."""
        return _identifying(self.item.kind, self.data)

    def identity_without(self, volatile: Iterable[str]) -> str:
        """Return the digest of the request with volatile places made equal (§12.7)."""
        said = self.comparable
        alike = without_volatile(":".join(self.name), said, volatile)
        return self.identity if alike is said else _identity(self.item.kind, alike)


@attrs.frozen
class Answer:
    """One line from the world."""

    key: str
    """The call or timer key that it completes; of the others, a name of their own."""
    call: str | None
    event: events.Event
    position: int
    """Its place in the order of delivery, from 0."""


class Book:
    """The record of one run.

    Raises:
        LogDamaged: an entry does not verify.
        LogUnsealed: the record has no end, and `unfinished_ok` is False.
        LogMissing: the file does not exist.
    """

    def __init__(self, log: Path, *, unfinished_ok: bool = False) -> None:
        self.log = log
        self.requests: dict[str, AskedCall] = {}
        """By call key, in the order asked."""
        self.answers: dict[str, Answer] = {}
        """By key, in the order of delivery."""
        self._fired: dict[tuple[str, int | None, int], str] = {}
        """Keys of timers, by scope, length and number among those."""
        self._granted: dict[str, int] = {}
        """By call: the tokens that a child has been granted so far."""
        self.values: dict[str, events.ValueDrawn] = {}
        """By call key, in the order drawn."""
        self.given_up_after: dict[str, str] = {}
        """By call key of tools and models that the program cancelled: the key of the last delivery
        before that; empty for none."""
        self.cancelled_children: set[str] = set()
        """Call keys of children that the program cancelled."""
        self.looks: list[events.ClockRead] = []
        self.markers: set[str] = set()
        self.snapshot: dict[str, Any] | None = None
        """Of the session that the run started with; `None` for none of its own."""
        self.usage: dict[str, Usage] = {}
        """What models spent, and children, by call key."""
        self.durations_us: dict[str, int] = {}
        """From the request to its outcome, by call key, as the clocks of `meta` have it."""
        self.entries = 0
        """Behind the first: the seq of the last."""
        self._asked_us: dict[str, int] = {}
        self._finished: events.RunFinished | None = None
        self._has_handles = False
        entries = read_entries(log, resolve=True, torn_ok=True)
        first = next(entries, None)
        self.started = _started(log, first)
        self.scripts = scripts_in(self.started.models, first.meta if first is not None else {})
        """Names of models that were scripts of the program."""
        for entry in entries:
            self._take(entry)
        self.end: dict[str, Json] = self._end(unfinished_ok=unfinished_ok)
        """How the run ended; empty for an unfinished record."""

    @property
    def delivered(self) -> tuple[str, ...]:
        """The keys of delivered outcomes, in order."""
        return tuple(self.answers)

    @property
    def given_up(self) -> tuple[str, ...]:
        """The call keys of requests that have no outcome."""
        asked = self.requests.values()
        return tuple(
            one.call for one in asked if not one.delegates and one.call not in self.answers
        )

    def example(self, tool: str) -> events.ToolReturned | None:
        """Return a result that a tool gave; `None` where it gave none."""
        calls = {one.call for one in self.requests.values() if one.item.name == tool}
        found = (answer.event for call, answer in self.answers.items() if call in calls)
        results = (event for event in found if isinstance(event, events.ToolReturned))
        return next((event for event in results if event.status == "ok"), None)

    def position(self, key: str) -> int | None:
        """Return the place of a key in the recorded order; `None` if it was not delivered."""
        answer = self.answers.get(key)
        return answer.position if answer is not None else None

    def fired(self, key: str, length_us: int | None, nth: int) -> Answer | None:
        """Return what fired a timer: by scope, length and number."""
        return self.answers.get(self._fired.get((scope_of(key), length_us, nth), ""))

    def child_number(self, call: str) -> int | None:
        """Return the number (from 1) of the child that a call started; `None` for none."""
        children = [one.call for one in self.requests.values() if one.item.kind == "child"]
        return children.index(call) + 1 if call in children else None

    def child_log(self, call: str) -> Path | None:
        """Return where the child that a call started has its log; `None` for none."""
        number = self.child_number(call)
        return child_path(self.log, number) if number is not None else None

    def empty(self) -> "Book":
        """Return a book of the same log in which nothing is recorded."""
        other = object.__new__(Book)
        other.__dict__ = {
            name: type(value)() if isinstance(value, (dict, list, set)) else value
            for name, value in self.__dict__.items()
        }
        other.snapshot = None
        return other

    @property
    def rules(self) -> dict[str, Any]:
        """Redaction and volatile rules that the log was made under; handles make secrets, too."""
        rules = self.started.rules
        return {**rules, "redaction": rules.get("redaction", {})} if self._has_handles else rules

    @property
    def whole_end(self) -> dict[str, Json]:
        """How the run ended, volatile places included; empty for an unfinished record."""
        return end_of(self._finished) if self._finished is not None else {}

    def stable(self, end: dict[str, Json]) -> dict[str, Json]:
        """Return a run's end without what is not compared of it (§12.2, §12.7)."""
        paths = self.rules.get("volatile", ())
        found: dict[str, Json] = without_volatile("run", without_places(end), paths)
        return found

    def label(self, key: str) -> str:
        """Return a key's text for people: `search#2 in 0/1 (q="b")`."""
        if "@" in key:
            return f"timer {key}"
        asked = self.requests.get(key)
        if asked is None:
            return _PLACED.get(key.partition(" ")[0], key)
        return label_of(asked.item)

    def _end(self, *, unfinished_ok: bool) -> dict[str, Json]:
        if self._finished is not None:
            return self.stable(end_of(self._finished))
        if not unfinished_ok:
            raise LogUnsealed(str(self.log), standing_text(self.log))
        return {}

    def _take(self, entry: Entry) -> None:
        self.entries += 1
        call, event = entry.call or "", entry.event
        mono = entry.meta.get("mono_us")
        at_us = mono if is_time(mono) else 0
        self._has_handles = self._has_handles or _HANDLE in entry.line
        match event:
            case event if isinstance(event, REQUESTS):
                self.requests[call] = asked_of(event, call, entry.seq)
                self._asked_us[call] = at_us
                if isinstance(event, events.ChildStarted):
                    limits = event.delegation.get("limits", {})
                    self._granted[call] = limits.get("model_tokens") or 0
            case event if isinstance(event, _REPLIES):
                self._complete(call, event, at_us)
            case events.TimerFired():
                self._answer(call, call, event)
                self._fired[scope_of(call), event.length_us, event.nth] = call
            case events.ValueDrawn():
                self.values[call] = event
            case events.ClockRead():
                self.looks.append(event)
            case events.PatchMarked():
                self.markers.add(event.id)
            case events.EffectCancelled(kind="tool" | "model"):
                self.given_up_after[call] = next(reversed(self.answers), "")
            case events.EffectCancelled(kind="child"):
                self.cancelled_children.add(call)
            case events.RunFinished():
                self._finished = event
            case _:
                self._take_other(event)

    def _take_other(self, event: Any) -> None:
        match event:
            case events.SessionSeeded():
                self.snapshot = event.snapshot
            case events.SessionChanged() if event.by:
                self._answer(f"session {len(self.answers)}", None, event)
            case events.TokensGranted(tokens, to):
                has = self._granted.get(to, 0)
                self._answer(f"tokens {to} {has}", None, event)
                self._granted[to] = has + tokens
            case events.LimitHit(limit="timeout_seconds", scope="run"):
                self._answer("timeout", None, event)
            case events.EffectCancelled(kind="run"):
                self._answer("cancellation", None, event)
            case _:
                pass  # it follows from the program, or nobody sees it

    def _complete(self, call: str, event: events.Event, at_us: int) -> None:
        asked = self.requests.get(call)
        if asked is None or asked.delegates:
            return  # a rejected start, or the result of program code
        self.durations_us[call] = max(0, at_us - self._asked_us[call])
        if isinstance(event, events.ModelAnswered):
            self.usage[call] = event.usage
        elif isinstance(event, events.ChildFinished):
            self.usage[call] = event.outcome.usage
        self._answer(call, call, event)

    def _answer(self, key: str, call: str | None, event: events.Event) -> None:
        self.answers[key] = Answer(key, call, event, len(self.answers))


_REPLIES: Final = (
    events.ToolReturned, events.ModelAnswered, events.InputGiven, events.ChildFinished
)  # fmt: skip
OUTSIDE: Final = frozenset({"timeout", "cancellation"})
"""Keys of what ends a run from outside."""
_HANDLE: Final = f'"{MEMBER}"'.encode()
_PLACED: Final = {
    "session": "a child's change of the session",
    "timeout": "the run's timeout",
    "cancellation": "the cancellation of the run",
}


def _started(log: Path, entry: Entry | None) -> events.RunStarted:
    event = entry.event if entry is not None else None
    if not isinstance(event, events.RunStarted):  # a reader lets no other first line pass
        raise without_lines(str(log))
    return refuse_other_rules(log, refuse_observed(log, event))


def asked_of(event: Any, call: str, seq: int = -1) -> AskedCall:
    """Return a request as a book has it; `identity` leaves out what depends on the order.

    That is: how much of a conversation the log has already, and the tokens that are left for a
    child when it starts.
    """
    data = unstructure(event)
    item = item_of(events.KIND_OF[type(event)], call, data, seq)
    if item is None:
        raise TypeError(f"{event!r} asks for nothing")
    identity = _identity(item.kind, _identifying(item.kind, data))
    delegates = isinstance(event, events.ToolCalled) and bool(event.delegates)
    return AskedCall(call, identity, item, data, delegates)


def _identifying(kind: str, data: dict[str, Json]) -> dict[str, Json]:
    match kind:
        case "tool":
            return {name: data[name] for name in ("tool", "arguments")}
        case "model":
            return {name: value for name, value in data.items() if name != "base"}
        case "child":
            given = data["delegation"]
            kept = {name: value for name, value in given.items() if name != "limits"}
            return {"delegation": kept}
        case _:
            return data


def _identity(kind: str, said: dict[str, Any]) -> str:
    if kind == "model":
        chain = reduce(digest.chained, said["added"], said["predecessor"])  # CONTRACT.md §2.4
        said = {**said, "predecessor": chain, "added": []}
    return digest.of_key([kind, said])


def blank(kind: str, result: Json = None, text: str = "") -> events.Event:
    """Return an answer with as little data as possible, for a request without a recorded one."""
    match kind:
        case "tool":
            return events.ToolReturned("ok", result)
        case "model":
            return events.ModelAnswered("ok", {"role": "assistant", "content": text})
        case "input":
            return events.InputGiven(result)
        case _:
            return events.ChildFinished(Outcome(status="completed", summary=text))


def label_of(item: Item) -> str:
    """Return a request in a few words, its scope unless that is the program itself's included."""
    where = "" if item.scope in ("", "0") else f" in {item.scope}"
    told = inside(item.kind, item.arguments)
    return f"{item.label()}{where}{f' {told}' if told not in ('', '()') else ''}"
