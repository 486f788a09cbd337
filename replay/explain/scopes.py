"""Aligns what was recorded with what is asked now, task by task, over the tree of scopes.

Scopes are numbered in the order of creation, so a task more, or two that changed places, shifts the
numbers of all that follow.  Therefore the children of a scope are aligned like calls are: the
cheapest way from the recorded ones to those of now.  Scopes that were the same before the first
difference stay paired.  Calls are aligned within a pair of scopes; what takes no ordinal of the
calls (timers, givings-up) apart from them.

Pure: knows items, not logs.  `replay.difference.align` aligns two plain sequences; what a step is
called is `replay.explain.naming`'s to say.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import attrs

from refold.replay.difference.align import align, cost
from refold.replay.index.asked_items import Item

Op = Literal["same", "changed", "added", "dropped"]

_GAP: Final = 4
_CELLS_MAX: Final = 10_000
"""Of one alignment of calls: what is longer is cut at requests that occur once on each side."""
_PAIRS_MAX: Final = 400
"""Pairs of scopes below one that are weighed; where there are more, they are paired by number."""


@attrs.frozen(eq=False)
class AlignmentStep:
    """One step of an alignment."""

    op: Op
    recorded: Item | None
    now: Item | None


class _Node:
    """A scope with what was asked in it, and the scopes below it."""

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
        """Return what is equal for two scopes in which the same was asked, below them too."""
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
    """Return the cheapest way from the recorded requests to those of now, over all scopes.

    `known` says of a scope's path whether it was there, and the same, before these requests.
    Requests without a call key (looks at the clock, markers) are left out.
    """
    return _Aligner(known).pair(_tree(recorded), _tree(now))[1]


def aligned(recorded: Sequence[Item], now: Sequence[Item]) -> list[AlignmentStep]:
    """Return the cheapest way from one sequence of requests to another, step by step."""
    pairs = align(
        [item.key for item in recorded],
        [item.key for item in now],
        cells_max=_CELLS_MAX,
        early=True,
    ).pairs
    return [
        _step(recorded[one] if one is not None else None, now[other] if other is not None else None)
        for one, other in pairs
    ]


def _step(recorded: Item | None, now: Item | None) -> AlignmentStep:
    if recorded is None:
        return AlignmentStep("added", None, now)
    if now is None:
        return AlignmentStep("dropped", recorded, None)
    return AlignmentStep("same" if recorded.key == now.key else "changed", recorded, now)


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
        above = path.rpartition("/")[0]
        if above:
            _node(above, nodes).below[found.number] = found
    return found


class _Aligner:
    """Pairs scopes, and remembers what each pair costs."""

    def __init__(self, known: Callable[[str], bool]) -> None:
        self._known = known
        self._pairs: dict[tuple[str, str], tuple[int, list[AlignmentStep]]] = {}

    def pair(self, recorded: _Node, now: _Node) -> tuple[int, list[AlignmentStep]]:
        """Return what it costs to say that one scope became the other, and the steps of it."""
        key = (recorded.path, now.path)
        if key not in self._pairs:
            steps = [*aligned(recorded.calls, now.calls), *aligned(recorded.marks, now.marks)]
            price = sum(map(_price, steps))
            below, more = self._children(recorded, now)
            self._pairs[key] = (price + below, steps + more)
        return self._pairs[key]

    def _children(self, recorded: _Node, now: _Node) -> tuple[int, list[AlignmentStep]]:
        """Align the scopes below two; the known ones are paired with themselves."""
        fixed = sorted(
            number
            for number in {*recorded.below, *now.below}
            if self._known(f"{recorded.path}/{number}") and recorded.path == now.path
        )
        price, steps, last = 0, list[AlignmentStep](), 0
        for number in [*fixed, 1 << 62]:
            between = self._free(
                [each for each in recorded.children if last < each.number < number],
                [each for each in now.children if last < each.number < number],
            )
            at = self._either(recorded.below.get(number), now.below.get(number))
            price += between[0] + at[0]
            steps += between[1] + at[1]
            last = number
        return price, steps

    def _either(self, recorded: _Node | None, now: _Node | None) -> tuple[int, list[AlignmentStep]]:
        """Pair two scopes, or say that one of them is all there is."""
        if recorded is not None and now is not None:
            return self.pair(recorded, now)
        steps = (
            [AlignmentStep("dropped", item, None) for item in recorded.all_items()]
            if recorded
            else []
        )
        steps += [AlignmentStep("added", None, item) for item in now.all_items()] if now else []
        return _GAP * len(steps), steps

    def _free(self, recorded: list[_Node], now: list[_Node]) -> tuple[int, list[AlignmentStep]]:
        """Align scopes of which none is known, by what was asked in them."""
        pairs = align(
            [_key_of(each) for each in recorded], [_key_of(each) for each in now], cells_max=0
        ).pairs
        price, steps = 0, list[AlignmentStep]()
        gap_a: list[_Node] = []
        gap_b: list[_Node] = []
        for a, b in [*pairs, (None, None)]:
            one, other = recorded[a] if a is not None else None, now[b] if b is not None else None
            if one is not None and other is not None and one.signature() == other.signature():
                found = self._weighed(gap_a, gap_b)
                same = self.pair(one, other)
                price, steps = price + found[0], steps + found[1] + same[1]
                gap_a, gap_b = [], []
                continue
            gap_a += [one] if one is not None else []
            gap_b += [other] if other is not None else []
        found = self._weighed(gap_a, gap_b)
        return price + found[0], steps + found[1]

    def _weighed(self, recorded: list[_Node], now: list[_Node]) -> tuple[int, list[AlignmentStep]]:
        """Align scopes of which none is as it was: a table of what each pair would cost."""
        if len(recorded) * len(now) > _PAIRS_MAX:
            return self._by_place(recorded, now)
        rows, columns = len(recorded), len(now)
        cost = [[0] * (columns + 1) for _ in range(rows + 1)]
        for row in range(rows, -1, -1):
            for column in range(columns, -1, -1):
                cost[row][column] = self._cheapest(recorded, now, row, column, cost)[0]
        steps, row, column = list[AlignmentStep](), 0, 0
        while row < rows or column < columns:
            _, op = self._cheapest(recorded, now, row, column, cost)
            one = recorded[row] if op != "added" else None
            other = now[column] if op != "dropped" else None
            steps += self._either(one, other)[1]
            row += op != "added"
            column += op != "dropped"
        return cost[0][0], steps

    def _cheapest(
        self, recorded: list[_Node], now: list[_Node], row: int, column: int, cost: list[list[int]]
    ) -> tuple[int, str]:
        choices: list[tuple[int, str]] = []
        if row < len(recorded) and column < len(now):
            price = self.pair(recorded[row], now[column])[0]
            choices.append((price + cost[row + 1][column + 1], "paired"))
        if row < len(recorded):
            choices.append((_GAP * recorded[row].weight() + cost[row + 1][column], "dropped"))
        if column < len(now):
            choices.append((_GAP * now[column].weight() + cost[row][column + 1], "added"))
        return min(choices, key=lambda choice: choice[0], default=(0, "same"))

    def _by_place(self, recorded: list[_Node], now: list[_Node]) -> tuple[int, list[AlignmentStep]]:
        both = {each.number: each for each in now}
        price, steps = 0, list[AlignmentStep]()
        for one in recorded:
            found = self._either(one, both.pop(one.number, None))
            price, steps = price + found[0], steps + found[1]
        for other in both.values():
            found = self._either(None, other)
            price, steps = price + found[0], steps + found[1]
        return price, steps


_PRICES: Final = {"same": 0, "added": _GAP, "dropped": _GAP}


def _price(step: AlignmentStep) -> int:
    """Return what a step costs; what was changed costs less than dropping and adding."""
    if step.op in _PRICES:
        return _PRICES[step.op]
    assert step.recorded is not None
    assert step.now is not None
    return cost(step.recorded.key, step.now.key)


def _key_of(node: _Node) -> tuple[str, str, bytes]:
    return "", "", repr(node.signature()).encode()
