"""The outcomes that could be delivered next, with the order's first choice.

Outstanding are the calls and joined children with outcomes in the book, armed timers, and events
from outside all calls: a child's change of a shared session, the run's timeout, its cancellation.
These outside events, and timers unless they are free, keep their place: no deliverable outcome that
was recorded before them comes after. Rules: CONTRACT.md §12.8.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from refold.engine.events.events import ChildFinished, Event, SessionChanged, TimerFired
from refold.engine.kernel.kernel import Kernel
from refold.engine.loop.loop import Timer
from refold.replay.index.by_call import Answer, Book
from refold.replay.what_if.alter import fits

CHOICES_MAX: Final = 24
"""Outstanding completions that are looked at in one step; the rest comes later."""

_NEVER: Final = 1 << 62


@attrs.frozen
class Choice:
    """Something that could be delivered."""

    rank: tuple[int, int, int]
    """Its place in the order asked for, then in the record, then in virtual time."""
    key: str
    """The key of the recorded completion."""
    call: str | None
    """Under which it is delivered; a timer's own key; `None` for what belongs to no call."""
    event: Event
    position: int = _NEVER
    """Its place in the record; very large for a timer that never fired there."""
    is_made_up: bool = False
    """Whether the record cancelled the call, and this replaces its missing outcome."""

    @property
    def is_new(self) -> bool:
        """Whether it is a timer that never fired in the record."""
        return self.position == _NEVER and not self.is_made_up


class Outstanding:
    """What one rehearsal has to give."""

    def __init__(self, book: Book, order: Sequence[str], *, free_timers: bool) -> None:
        """Take the record; `order` lists keys, first to last."""
        self._book = book
        self._order = {key: at for at, key in enumerate(order)}
        self._free_timers = free_timers
        self._ready: list[Choice] = []
        """Outcomes of requested calls, by rank; cancelled ones are dropped late."""
        self._by_call: dict[str, Choice] = {}
        self._placed = [one for one in book.answers.values() if one.call is None]
        self._made_up: dict[str, Choice] = {}
        """By call: substitutes for outcomes that never came; never first unless requested."""
        self._due: dict[str, int] = {}
        self._now_us = 0
        self.timers = 0
        """How many were armed."""
        self.cancelled: set[str] = set()
        """Children that the program has cancelled."""

    def arm(self, timer: Timer) -> None:
        """Remember when a timer is due, by a clock that only timers move."""
        self._due[timer.key] = self._now_us + timer.delay_us
        self.timers += 1

    def add(self, call: str, key: str, event: Event) -> None:
        """Take note that the outcome recorded under `key` answers `call`."""
        choice = Choice(self._rank(key), key, call, event, self._book.answers[key].position)
        self._by_call[call] = choice
        insort(self._ready, choice, key=lambda one: one.rank)

    def add_made_up(self, call: str, key: str, event: Event) -> None:
        """Note a possible substitute for the outcome that `call` never had."""
        rank = self._rank(key, (3, len(self._made_up), 0))
        self._made_up[call] = Choice(rank, key, call, event, is_made_up=True)

    def alone(self, call: str) -> Choice | None:
        """Return what answers a call beside which nothing else is outstanding."""
        choice = self._by_call.get(call)
        if choice is None or any(one.position < choice.position for one in self._placed):
            return None
        return choice

    def choices(self, kernel: Kernel) -> list[Choice]:
        """Return the outcomes that could be delivered now, at most `CHOICES_MAX`, in order.

        A substitute may only come before a recorded outcome; before a timer, only if timers are
        free.
        """
        found = self._recorded(kernel)
        is_bound = all(isinstance(one.event, TimerFired) for one in found)
        if not found or not self._made_up or (is_bound and not self._free_timers):
            return found
        made_up = [
            one
            for call, one in self._made_up.items()
            if (pending := kernel.open.get(call)) and fits(pending.tool, one.event)
        ]
        return sorted([*found, *made_up], key=lambda one: one.rank)[:CHOICES_MAX]

    def _recorded(self, kernel: Kernel) -> list[Choice]:
        calls = self._calls(kernel)
        placed = self._next_placed(kernel) if self._placed else None
        if not kernel.loop.timers and placed is None:
            return [choice for choice, _ in zip(calls, range(CHOICES_MAX), strict=False)]
        found = list(calls)
        first = min((choice.position for choice in found), default=_NEVER)
        timers = self._timers(kernel, first, placed)
        if placed is not None and placed.position < first and not self._is_late(placed, kernel):
            found.append(placed)
        return sorted([*found, *timers], key=lambda one: one.rank)[:CHOICES_MAX]

    def take(self, choice: Choice) -> None:
        """Take note that something is delivered."""
        if choice.is_made_up:
            del self._made_up[choice.call or ""]
        elif isinstance(choice.event, TimerFired):
            self._now_us = max(self._now_us, self._due.pop(choice.call or "", 0))
        elif choice.call is None:
            del self._placed[0]
        else:
            self._drop(choice.call)

    # -- inside ---------------------------------------------------------------------------

    def _drop(self, call: str) -> None:
        self._ready.remove(self._by_call.pop(call))

    def _calls(self, kernel: Kernel) -> Iterator[Choice]:
        """Yield the outcomes of awaited calls, in order."""
        for choice in tuple(self._ready):
            call = choice.call or ""
            if call in kernel.open:
                yield choice
            elif call not in kernel.children:
                self._drop(call)
            elif kernel.wants_child(call) and not self._has_changes(kernel, call):
                is_known = not ended_by_cancel(self._book, choice.key, choice.event)
                yield from [choice] * (is_known or call in self.cancelled)

    def _has_changes(self, kernel: Kernel, call: str) -> bool:
        """Return whether a child has still to change the session that it shares."""
        path = kernel.child_path(call)
        return any(_is_by(one.event, path) for one in self._placed)

    def _next_placed(self, kernel: Kernel) -> Choice | None:
        """Return what comes next from outside of all calls, if the program is there yet."""
        placed: Answer = self._placed[0]
        if not kernel.can_deliver(placed.event, None):
            return None
        if isinstance(placed.event, SessionChanged) and not any(
            _is_by(placed.event, kernel.child_path(call)) for call in kernel.children
        ):
            return None
        return Choice(self._rank(placed.key), placed.key, None, placed.event, placed.position)

    def _is_late(self, placed: Choice, kernel: Kernel) -> bool:
        """Return whether a timer was recorded before it."""
        timers = (self._of_timer(timer) for timer in kernel.loop.timers.values())
        return any(one.position < placed.position for one in timers)

    def _timers(self, kernel: Kernel, first: int, placed: Choice | None) -> list[Choice]:
        """Return the timers that may fire.

        Recorded timers keep their order; the others fire when due, and not before an outside event
        that ends the run. Unless timers are free, a recorded one waits for deliverable outcomes
        recorded before it, and any other for all.
        """
        timers = [self._of_timer(timer) for timer in kernel.loop.timers.values()]
        if placed is not None:
            first = min(first, placed.position)
            timers = [one for one in timers if one.position < placed.position]
        if not timers:
            return []
        earliest = min(timers, key=lambda one: one.position)
        soonest = min(timers, key=lambda one: (self._due[one.call or ""], one.rank))
        if self._free_timers:
            is_one = earliest.is_new or soonest.key == earliest.key
            return [soonest] if is_one else [soonest, earliest]
        if not earliest.is_new:
            return [earliest] if earliest.position < first else []
        return [soonest] if first == _NEVER else []

    def _of_timer(self, timer: Timer) -> Choice:
        key, answer = timer.key, self._book.fired(timer.key, timer.length_us, timer.nth)
        if answer is not None:
            return Choice(self._rank(answer.key), answer.key, key, answer.event, answer.position)
        due = self._due[key]
        rank = self._rank(key, (2, due, timer.number))
        return Choice(
            rank, key, key, TimerFired(max(self._now_us, due), timer.length_us, nth=timer.nth)
        )

    def _rank(self, key: str, new: tuple[int, int, int] | None = None) -> tuple[int, int, int]:
        """Return the rank of a key: where the order has it, else `new`, else as recorded."""
        if key in self._order:
            return 0, self._order[key], 0
        position = self._book.position(key)
        return new or (1, _NEVER if position is None else position, 0)


def ended_by_cancel(book: Book, key: str, event: Event) -> bool:
    """Return whether a child ended because the recorded program cancelled it: not before that."""
    is_cancelled = isinstance(event, ChildFinished) and event.outcome.status == "cancelled"
    return is_cancelled and key in book.cancelled_children


def _is_by(event: Event, path: str) -> bool:
    by = event.by if isinstance(event, SessionChanged) else ""
    return by == path or by.startswith(f"{path} > ")
