"""`explore`: does the completion order of concurrent work change a run's result?

The program is rehearsed with its recorded outcomes in different orders of completion: no tool runs
and no token is spent. First come all orders that are one step away from the recorded one, then two,
and so on; the second half are random. For an order that ends the run differently, moves are undone
one by one while it still does. `replay.what_if.rehearsal` runs one order. Rules: CONTRACT.md §12.8.

An order is a list of keys, first to last; the earliest outstanding key in it is delivered. A *move*
takes one key out of the recorded order and puts it before, or after, a different one.
"""

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding import digest
from refold.engine.events.events import scope_of
from refold.engine.kernel.kernel import Kernel
from refold.engine.loop.loop import Task
from refold.engine.ports.programs import program_name
from refold.replay.difference.align import longest_rise
from refold.replay.difference.pointer_diff import differences
from refold.replay.index.by_call import Book, label_of
from refold.replay.reexecute.world import task_place
from refold.replay.what_if.order_report import (
    HEADLINES,
    ExploreReport,
    FindingKind,
    OrderFinding,
    OrderStep,
)
from refold.replay.what_if.outstanding import CHOICES_MAX, ended_by_cancel
from refold.replay.what_if.rehearsal import RehearsalPlan, Rehearsed, Stage

# --- orders as lists of keys -------------------------------------------------------------------


DeliveryOrder = tuple[str, ...]

_TRIES_MAX: Final = 120
"""Orders that one shrinking may try."""

_MOVES_MIN: Final = 2
"""Moves that one could take the place of."""


@attrs.frozen
class Move:
    """One key at a different place than in the recorded order."""

    key: str
    relation: Literal["before", "after"]
    other: str


def moved(order: DeliveryOrder, move: Move) -> DeliveryOrder:
    """Return `order` with a key just before or after another."""
    rest = [each for each in order if each != move.key]
    at = rest.index(move.other) + (move.relation == "after")
    return (*rest[:at], move.key, *rest[at:])


def continued(prefix: Sequence[str], recorded: DeliveryOrder) -> DeliveryOrder:
    """Return `prefix`, and then the rest of the recorded order."""
    seen = set(prefix)
    return (*prefix, *(key for key in recorded if key not in seen))


def moves(order: DeliveryOrder, recorded: DeliveryOrder) -> tuple[Move, ...]:
    """Return the fewest moves from the recorded order to `order`, ignoring unshared keys.

    A key that comes earlier is put before the first that it overtakes; one that comes later, after
    the last that overtook it.
    """
    places = {key: at for at, key in enumerate(recorded)}
    common = [key for key in order if key in places]
    return tuple(_move(common, key, places) for key in displaced(common, recorded))


def displaced(order: Sequence[str], recorded: DeliveryOrder) -> list[str]:
    """Return the fewest keys without which `order` is a part of the recorded order."""
    places = {key: at for at, key in enumerate(recorded)}
    kept = set(longest_rise([places.get(key, -1) for key in order]))
    return [key for at, key in enumerate(order) if at not in kept]


def shrunk(
    order: DeliveryOrder, recorded: DeliveryOrder, holds: Callable[[DeliveryOrder], bool]
) -> DeliveryOrder:
    """Return an order nearer to the recorded one for which `holds` is still true.

    First every moved key is put back by itself, until none can be; then one of the rest alone may
    do, moved further; at last each is put as near to its recorded place as it may be.
    """
    left = iter(range(_TRIES_MAX))

    def tries(one: DeliveryOrder) -> bool:
        return next(left, None) is not None and holds(one)

    order = _put_back(order, recorded, tries)
    order = _by_itself(order, recorded, tries)
    for key in displaced(order, recorded):
        order = _nearer(order, recorded, key, tries)
    return order


def _put_back(
    order: DeliveryOrder, recorded: DeliveryOrder, holds: Callable[[DeliveryOrder], bool]
) -> DeliveryOrder:
    size = max(1, len(displaced(order, recorded)) // 2)
    while True:  # many at once, as long as that works; at last one by one
        before, moved = order, displaced(order, recorded)
        for at in range(0, len(moved), size):
            nearer = _restored(order, recorded, moved[at : at + size])
            if nearer != order and holds(nearer):
                order = nearer
        if size == 1 and order == before:
            return order
        size = max(1, size // 2)


def _by_itself(
    order: DeliveryOrder, recorded: DeliveryOrder, holds: Callable[[DeliveryOrder], bool]
) -> DeliveryOrder:
    """Return the recorded order with one key moved over all that it changes places with."""
    places = {key: at for at, key in enumerate(recorded)}
    gone = [key for key in displaced(order, recorded) if key in places]
    if len(gone) < _MOVES_MIN:
        return order
    for key in gone:
        overtaken, ahead = (sorted(e, key=places.__getitem__) for e in _passed(order, key, places))
        tried = [Move(key, "before", each) for each in overtaken[:1]]
        tried += [Move(key, "after", each) for each in ahead[-1:]]
        for one in (moved(recorded, each) for each in tried):
            if holds(one):
                return one
    return order


def _restored(order: DeliveryOrder, recorded: DeliveryOrder, keys: Iterable[str]) -> DeliveryOrder:
    """Return `order` with keys put back where they were recorded among those that never moved."""
    places = {key: at for at, key in enumerate(recorded)}
    still = set(order) - set(displaced(order, recorded))
    for key in keys:
        rest = [each for each in order if each != key]
        if key in places:
            later = (
                at
                for at, each in enumerate(rest)
                if each in still and places.get(each, -1) > places[key]
            )
            rest.insert(next(later, len(rest)), key)
            still.add(key)
        order = tuple(rest)
    return order


def _nearer(
    order: DeliveryOrder, recorded: DeliveryOrder, key: str, holds: Callable[[DeliveryOrder], bool]
) -> DeliveryOrder:
    """Return an order in which `key` overtakes, or is overtaken by, as few as will do."""
    places = {each: at for at, each in enumerate(recorded)}
    if key not in places:
        return order
    overtaken, ahead = (
        sorted(each, key=places.__getitem__) for each in _passed(order, key, places)
    )
    nearest = [Move(key, "before", each) for each in reversed(overtaken)]
    tried = (moved(order, each) for each in nearest or [Move(key, "after", e) for e in ahead])
    return next((one for one in tried if one != order and holds(one)), order)


def _move(order: Sequence[str], key: str, places: dict[str, int]) -> Move:
    overtaken, ahead = _passed(order, key, places)
    if overtaken:
        return Move(key, "before", overtaken[0])
    return Move(key, "after", ahead[-1])


def _passed(order: Sequence[str], key: str, places: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return what `key` overtakes, and what overtook it, each in their order."""
    at, own = order.index(key), places[key]
    overtaken = [each for each in order[at + 1 :] if places.get(each, own) < own]
    return overtaken, [each for each in order[:at] if places.get(each, own) > own]


# --- the exploration ---------------------------------------------------------------------------


ORDERS: Final = 200
"""Orders that are tried unless more are asked for."""

SHRUNK_MAX: Final = 5
"""The number of ends whose first order is shrunk; further ends are only reported."""

_REPEATS_MAX: Final = 50
"""Random orders in a row that bring nothing new; after them the search is systematic again."""

_WAITING_MAX: Final = 100_000
"""Deviations that are lined up; wide programs have more than anybody wants to try."""


def _untried(book: Book, tried: Collection[str]) -> Iterator[str]:
    """Yield the calls whose own end is unknown because the program cancelled them."""
    yield from (call for call in book.given_up if call not in tried)
    for call, answer in book.answers.items():
        if ended_by_cancel(book, call, answer.event):
            yield call


def explored(
    stage: Stage, most: int, on_order: Callable[[int], None] | None, *, timers: bool
) -> ExploreReport:
    """Rehearse a run in at most so many orders of completion, as `refold.explore` does.

    With `timers`, they race too. `on_order` is called after each order with the number tried so
    far.

    Raises:
        Diverged: the program does not match its log, in the recorded order.
        UsageError: the program cannot run again, or ends differently the second time.
    """
    book = stage.book
    baseline = stage.baseline()
    search = _Search(stage, baseline, most, on_order, timers=timers)
    search.run()
    return ExploreReport(
        log=book.log,
        where=program_name(stage.program),
        orders=len(search.seen),
        as_recorded=search.as_recorded,
        is_exhaustive=search.is_exhaustive,
        findings=tuple(search.findings()),
        outstanding=max(map(len, baseline.choices), default=0),
        given_up=tuple(book.label(call) for call in book.given_up),
        untried=tuple(book.label(call) for call in _untried(book, search.keys)),
        timers=timers,
        timers_armed=baseline.timers,
        children_left=len(baseline.children),
    )


@attrs.define
class _End:
    """One way in which the run ended."""

    found: Rehearsed
    orders: int = 0


@attrs.frozen
class _Deviation:
    """Another completion at one step of an order that was tried."""

    delivered: DeliveryOrder
    at: int
    key: str


class _Search:
    """The orders of one run."""

    def __init__(
        self,
        stage: Stage,
        baseline: Rehearsed,
        most: int,
        on_order: Callable[[int], None] | None,
        *,
        timers: bool,
    ) -> None:
        self._stage, self._baseline = stage, baseline
        self._most, self._on_order, self._timers = most, on_order, timers
        self._recorded: DeliveryOrder = baseline.delivered
        self.keys = dict.fromkeys(self._recorded)
        """All that could be delivered in any order that was tried."""
        self._own = digest_of(baseline)
        self.seen: set[DeliveryOrder] = {baseline.delivered}
        """The delivered keys, for each order that was tried."""
        self._aside: set[DeliveryOrder] = set()
        """Orders that were tried out of turn: their neighbours are not queued yet."""
        self._ends: dict[str, _End] = {self._own: _End(baseline, 1)}
        self._waiting: list[list[_Deviation]] = []
        """Deviations to be tried, by how many they come on top of."""
        self.is_exhaustive = False
        self._is_over = False
        self._is_cut = False

    @property
    def as_recorded(self) -> int:
        """Orders that ended as recorded."""
        return self._ends[self._own].orders

    def run(self) -> None:
        """Try orders until there are enough, or no more."""
        # With timers, what could have come instead at each step of the recorded order is different.
        first = self._rehearsed(self._recorded) if self._timers else self._baseline
        self._branch(first, 0, 0)
        self._try_aside(self._recorded[::-1])
        self._systematic(max(1, self._most // 2))
        if any(self._waiting):
            self._defer()
            self._random()
            self._systematic(self._most)
        if len(self._ends) > 1 and not self._is_over:
            self._stage.check_again(self._baseline)
        self.is_exhaustive = not any(self._waiting) and not self._is_cut and not self._is_over

    def findings(self) -> Iterator[OrderFinding]:
        """Yield the findings: the first of each kind, shrunk, then the rest."""
        ends = {key: end for key, end in self._ends.items() if key != self._own}
        kinds: dict[FindingKind, str] = {}
        for key, end in ends.items():
            kinds.setdefault(_kind(end.found, self._baseline), key)
        keys = [kinds[kind] for kind in HEADLINES if kind in kinds]
        for at, key in enumerate(dict.fromkeys([*keys, *ends])):
            is_shrunk = at < SHRUNK_MAX and ends[key].found.how != "hung"
            yield self._finding(key, ends[key], is_shrunk=is_shrunk)

    # -- trying ---------------------------------------------------------------------------

    def _rehearsed(self, order: DeliveryOrder, **more: Any) -> Rehearsed:
        plan = RehearsalPlan(order=order, free_timers=self._timers, **more)
        return self._stage.rehearse(plan)

    def _try(self, order: DeliveryOrder) -> Rehearsed | None:
        """Rehearse an order; return the result, or `None` if it equals an earlier one."""
        found = self._rehearsed(order)
        self._is_over = found.how == "hung"  # it goes on in its thread: enough is known
        if found.delivered in self.seen and not self._is_over:
            if found.delivered not in self._aside:
                return None
            self._aside.remove(found.delivered)
            return found
        self.seen.add(found.delivered)
        end = self._ends.setdefault(digest_of(found), _End(found))
        end.orders += 1
        if self._on_order is not None:
            self._on_order(len(self.seen))
        return found

    def _try_aside(self, order: DeliveryOrder) -> bool:
        """Try an order out of turn; return whether it was new."""
        known = len(self.seen)
        found = None if self._is_done(self._most) else self._try(order)
        if found is not None:
            self._aside.add(found.delivered)
        return len(self.seen) > known

    def _is_done(self, most: int) -> bool:
        return self._is_over or len(self.seen) >= most

    def _systematic(self, most: int) -> None:
        """Try orders with the fewest deviations first."""
        level = 0
        while level < len(self._waiting) and not self._is_done(most):
            if not self._waiting[level]:
                level += 1
                continue
            deviation = self._waiting[level].pop()
            prefix = (*deviation.delivered[: deviation.at], deviation.key)
            found = self._try(continued(prefix, self._recorded))
            if found is not None:
                self._branch(found, deviation.at + 1, level + 1)

    def _branch(self, found: Rehearsed, start: int, level: int) -> None:
        """Line up all orders that are one deviation away from `found`, from step `start` on."""
        if level == len(self._waiting):
            self._waiting.append([])
        lined: list[tuple[int, _Deviation]] = []
        for at, choices in enumerate(found.choices[start:], start):
            self._is_cut = self._is_cut or len(choices) == CHOICES_MAX
            self.keys.update(dict.fromkeys(choices))
            others = enumerate(choices[1:])
            lined += [(nth, _Deviation(found.delivered, at, key)) for nth, key in others]
        lined.sort(key=lambda one: (-one[0], -one[1].at))  # taken from the end: the nearest first
        if sum(map(len, self._waiting)) + len(lined) > _WAITING_MAX:
            self._is_cut = True
            lined = lined[-_WAITING_MAX // 10 :] if level == 0 else []
        self._waiting[level] += [deviation for _, deviation in lined]

    def _defer(self) -> None:
        """Try each completion after all that was outstanding with it: late by one single move."""
        for key, choices in zip(self._recorded, self._baseline.choices, strict=True):
            if self._is_done(self._most):
                return
            others = [each for each in choices[1:] if each in self._recorded]
            if len(others) > 1:
                last = max(others, key=self._recorded.index)
                self._try_aside(moved(self._recorded, Move(key, "after", last)))

    def _random(self) -> None:
        repeats = number = 0
        while not self._is_done(self._most) and repeats < _REPEATS_MAX:
            order = list(self.keys)
            random.Random(number).shuffle(order)  # noqa: S311 - to be repeatable
            number += 1
            repeats = 0 if self._try_aside(tuple(order)) else repeats + 1

    # -- telling --------------------------------------------------------------------------

    def _finding(self, key: str, end: _End, *, is_shrunk: bool) -> OrderFinding:
        places = continued(self._recorded, tuple(self.keys))
        found, order = end.found, continued(end.found.delivered, places)
        steps: tuple[Move, ...] = ()
        place: tuple[str, int] | None = None
        if is_shrunk:
            order = shrunk(order, places, lambda one: digest_of(self._rehearsed(one)) == key)
            found = self._rehearsed(order)
            steps = moves(order, places) if digest_of(found) == key else ()
            place = self._awaited(order, found)
        missing, (file, line) = found.missing, place or ("", 0)
        return OrderFinding(
            kind=_kind(found, self._baseline),
            moves=tuple(self._step(move) for move in steps),
            orders=end.orders,
            digest=key,
            end=found.end,
            diff=differences(self._baseline.end, found.end) if found.end else (),
            missing={**missing.as_json(), "label": label_of(missing)} if missing else None,
            is_given_up=found.is_given_up,
            file=file,
            line=line,
            order=found.delivered,
        )

    def _step(self, move: Move) -> OrderStep:
        label = self._stage.book.label
        return OrderStep(
            deliver=label(move.key),
            relation=move.relation,
            other=label(move.other),
            call=move.key,
            other_call=move.other,
        )

    def _awaited(self, order: DeliveryOrder, found: Rehearsed) -> tuple[str, int] | None:
        """Return where the program waits for both that changed places, when the first comes."""
        pairs = zip(found.delivered, self._recorded, strict=False)
        pair = next(((now, then) for now, then in pairs if now != then), None)
        if pair is None:
            return found.place
        places: list[tuple[str, int] | None] = []

        def note_place(kernel: Kernel, key: str) -> None:
            if key == pair[0]:
                places.append(_place_above(kernel, *pair))

        self._rehearsed(order, before=note_place)
        return next(iter(places), None)


def _place_above(kernel: Kernel, one: str, other: str) -> tuple[str, int] | None:
    """Return the place at which the nearest common parent task of two calls waits."""
    scopes = zip(scope_of(one).split("/"), scope_of(other).split("/"), strict=False)
    shared = [here for here, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], scopes)]
    tasks = {task.scope.path: task for task in kernel.loop.unfinished if isinstance(task, Task)}
    while shared:
        task = tasks.get("/".join(shared))
        place = task_place(task) if task is not None else None
        if place is not None:
            return place
        shared.pop()
    return None


def digest_of(found: Rehearsed) -> str:
    """Return the digest of an end; equal for equal ends."""
    missing = found.missing
    asked = [missing.kind, missing.name, missing.arguments] if missing is not None else None
    return digest.of_key([found.how, found.end, asked])


def _kind(found: Rehearsed, baseline: Rehearsed) -> FindingKind:
    match found.how:
        case "missing":
            return "missing"
        case "endless" | "hung":
            return "endless"
        case "ended":
            same_status = found.end["status"] == baseline.end["status"] == "completed"
            return "output" if same_status else "error"
