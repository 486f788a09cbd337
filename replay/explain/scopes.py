"""Aligns recorded and current requests, task by task, over the tree of scopes.

Scopes are numbered in the order of creation, so an extra task, or two swapped ones, shifts the
numbers of all later ones. Therefore the children of a scope are aligned like calls: by the lowest
cost. Scopes that were equal before the first difference stay paired. Calls are aligned within a
pair of scopes; requests without an ordinal (timers, cancellations) are aligned separately.

Pure: it handles items, not logs. `replay.difference.align` aligns two plain sequences;
`replay.explain.naming` names the steps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, TypeVar

import attrs

from refold.engine.events.events import scope_above
from refold.replay.difference.align import GAP, align, cheapest, cost
from refold.replay.index.asked_items import Item

T = TypeVar("T")

Op = Literal["same", "changed", "added", "dropped"]

_CELLS_MAX: Final = 10_000
"""The size limit of one alignment; longer ones are cut at requests unique on each side."""
_PAIRS_MAX: Final = 400
"""Pairs of scopes below one that are weighed; where there are more, they are paired by number."""


@attrs.frozen(eq=False)
class AlignmentStep:
    """One step of an alignment."""

    recorded: Item | None
    now: Item | None

    @property
    def op(self) -> Op:
        """The change of the recorded request."""
        if self.recorded is None:
            return "added"
        if self.now is None:
            return "dropped"
        return "same" if self.recorded.key == self.now.key else "changed"

    @property
    def price(self) -> int:
        """The cost; a change costs less than a drop and an addition."""
        if self.recorded is None or self.now is None:
            return GAP
        return cost(self.recorded.key, self.now.key)


_Way = tuple[int, list[AlignmentStep]]
"""The cost of a pairing of scopes, and its steps."""


class _Node:
    """A scope with its requests and the scopes below it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.number = int(path.rpartition("/")[2])
        self.calls: list[Item] = []
        self.marks: list[Item] = []
        self.below: dict[int, _Node] = {}
        self._signature: tuple[object, ...] | None = None

    @property
    def children(self) -> list["_Node"]:
        return [self.below[number] for number in sorted(self.below)]

    def signature(self) -> tuple[object, ...]:
        """Return a value that is equal for two scopes with the same requests, also below them."""
        if self._signature is None:
            own = tuple(item.key for item in (*self.calls, *self.marks))
            self._signature = (own, tuple(child.signature() for child in self.children))
        return self._signature

    def weight(self) -> int:
        """Return how many items it has, with those below it."""
        return len(self.calls) + len(self.marks) + sum(each.weight() for each in self.children)

    def all_items(self) -> Iterable[Item]:
        yield from self.calls
        yield from self.marks
        for child in self.children:
            yield from child.all_items()


def aligned_scopes(
    recorded: Iterable[Item],
    now: Iterable[Item],
    known: Callable[[str], bool] = frozenset[str]().__contains__,
) -> list[AlignmentStep]:
    """Return the cheapest alignment of the recorded and the current requests, over all scopes.

    `known` returns whether a scope's path already existed, unchanged, before these requests.
    Requests without a call key (clock reads, markers) are left out.
    """
    return _Aligner(known).pair(_tree(recorded), _tree(now))[1]


def aligned(recorded: Sequence[Item], now: Sequence[Item]) -> list[AlignmentStep]:
    """Return the cheapest way from one sequence of requests to another, step by step."""
    before, after = ([item.key for item in items] for items in (recorded, now))
    return [
        AlignmentStep(_at(recorded, one), _at(now, other))
        for one, other in align(before, after, cells_max=_CELLS_MAX, early=True).pairs
    ]


def _at(items: Sequence[T], place: int | None) -> T | None:
    return None if place is None else items[place]


def _tree(items: Iterable[Item]) -> _Node:
    root = _Node("0")
    nodes = {"0": root}
    for item in items:
        if item.call:
            node = _node(item.scope, nodes)
            (node.marks if item.is_mark else node.calls).append(item)
    return root


def _node(path: str, nodes: dict[str, _Node]) -> _Node:
    found = nodes.get(path)
    if found is None:
        found = nodes[path] = _Node(path)
        above = scope_above(path)
        if above:
            _node(above, nodes).below[found.number] = found
    return found


class _Aligner:
    """Pairs scopes, and remembers what each pair costs."""

    def __init__(self, known: Callable[[str], bool]) -> None:
        self._known = known
        self._pairs: dict[tuple[str, str], _Way] = {}

    def pair(self, recorded: _Node, now: _Node) -> _Way:
        """Return the cost and the steps of pairing two scopes."""
        key = (recorded.path, now.path)
        if key not in self._pairs:
            steps = [*aligned(recorded.calls, now.calls), *aligned(recorded.marks, now.marks)]
            price = sum(step.price for step in steps)
            for more, below in self._children(recorded, now):
                price, steps = price + more, steps + below
            self._pairs[key] = (price, steps)
        return self._pairs[key]

    def _children(self, recorded: _Node, now: _Node) -> Iterator[_Way]:
        """Align the scopes below two; the known ones are paired with themselves."""
        fixed = sorted(
            number
            for number in {*recorded.below, *now.below}
            if self._known(f"{recorded.path}/{number}") and recorded.path == now.path
        )
        last = 0
        for number in [*fixed, 1 << 62]:
            yield from self._free(
                [each for each in recorded.children if last < each.number < number],
                [each for each in now.children if last < each.number < number],
            )
            yield self._either(recorded.below.get(number), now.below.get(number))
            last = number

    def _either(self, recorded: _Node | None, now: _Node | None) -> _Way:
        """Pair two scopes, or count all requests of a single one as dropped or added."""
        if recorded is not None and now is not None:
            return self.pair(recorded, now)
        steps = [AlignmentStep(item, None) for item in recorded.all_items()] if recorded else []
        steps += [AlignmentStep(None, item) for item in now.all_items()] if now else []
        return GAP * len(steps), steps

    def _free(self, recorded: list[_Node], now: list[_Node]) -> Iterator[_Way]:
        """Align scopes that are all unknown, by their requests."""
        before, after = (
            [("", "", repr(each.signature()).encode()) for each in nodes]
            for nodes in (recorded, now)
        )
        gap_a: list[_Node] = []
        gap_b: list[_Node] = []
        for a, b in align(before, after, cells_max=0).pairs:
            one, other = _at(recorded, a), _at(now, b)
            if one is not None and other is not None and one.signature() == other.signature():
                yield from self._weighed(gap_a, gap_b)
                yield self.pair(one, other)
                gap_a, gap_b = [], []
                continue
            gap_a += [one] if one is not None else []
            gap_b += [other] if other is not None else []
        yield from self._weighed(gap_a, gap_b)

    def _weighed(self, recorded: list[_Node], now: list[_Node]) -> Iterator[_Way]:
        """Align scopes of which none is as it was: by what each pair would cost, or by number."""
        if len(recorded) * len(now) > _PAIRS_MAX:
            both = {each.number: each for each in now}
            for one in recorded:
                yield self._either(one, both.pop(one.number, None))
            for other in both.values():
                yield self._either(None, other)
            return
        for a, b in cheapest(
            recorded,
            now,
            lambda one, other: self.pair(one, other)[0],
            lambda node: GAP * node.weight(),
            early=True,
        ):
            yield self._either(_at(recorded, a), _at(now, b))
