"""Which call of one run answers which call of another: by scope and order.

Scope is aligned with scope (`replay.difference.align`); a call that one side has earlier and the
other later in the same scope is one call that moved.  Pure.  Rules: CONTRACT.md §13.4.
"""

import operator
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import attrs

from refold.engine.events.call_key import in_order
from refold.replay.compare.calls import Call, Calls, RunCalls
from refold.replay.difference.align import Key, Pair, align
from refold.replay.difference.pointer_diff import shared_ends


class Paired(NamedTuple):
    """A call of each side, or of one alone."""

    call_a: Call | None
    call_b: Call | None
    is_moved: bool = False
    """Whether the two are at different places in their scope."""


@attrs.frozen
class Pairing:
    """All calls of two runs, paired."""

    pairs: Iterable[Paired]
    is_exact: bool = True


def pairs_of(a: RunCalls, b: RunCalls) -> Pairing:
    """Return the calls of two runs, paired scope by scope."""
    scopes_a, scopes_b = a.scopes(), b.scopes()
    none = array("I")
    scopes = [
        _Scope(_Keys(a.calls, scopes_a.get(scope, none)), _Keys(b.calls, scopes_b.get(scope, none)))
        for scope in sorted(scopes_a.keys() | scopes_b.keys(), key=in_order)
    ]
    is_exact = all(scope.is_exact for scope in scopes)
    return Pairing((pair for scope in scopes for pair in scope.pairs()), is_exact)


class _Keys(Sequence[Key]):
    """The keys of a scope's calls for an alignment, made on access."""

    def __init__(self, calls: Calls | list[Call], places: "array[int]") -> None:
        self.calls, self.places = calls, places

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return _Keys(self.calls, self.places[at])
        return self.call(at).identity

    def call(self, at: int) -> Call:
        """Return a call of the scope."""
        return self.calls[self.places[at]]


class _Scope:
    """The calls of one scope: how those between a shared start and end are paired."""

    def __init__(self, a: _Keys, b: _Keys) -> None:
        self._start, end = shared_ends(a, b, operator.eq)
        self._a, self._b = a, b
        self._end = len(a) - end
        aligned = align(a[self._start : self._end], b[self._start : len(b) - end])
        self._middle, self.is_exact = aligned.pairs, aligned.is_exact

    def pairs(self) -> Iterator[Paired]:
        """Yield the pairs in the order of a."""
        a, b, start = self._a, self._b, self._start
        for at in range(start):
            yield Paired(a.call(at), b.call(at))
        gap = len(b) - len(a)
        for x, y, is_moved in _moves(self._middle, a[start : self._end], b[start:]):
            call_a = None if x is None else a.call(start + x)
            yield Paired(call_a, None if y is None else b.call(start + y), is_moved)
        for at in range(self._end, len(a)):
            yield Paired(a.call(at), b.call(at + gap))


def _moves(pairs: list[Pair], a: _Keys, b: _Keys) -> Iterator[tuple[int | None, int | None, bool]]:
    """Join a call that only a has with the same call that only b has: it moved."""
    waiting: dict[Key, list[int]] = defaultdict(list)
    for x, y in reversed(pairs):
        if x is None and y is not None:
            waiting[b[y]].append(y)
    moves: dict[int | None, int] = {}
    for x, y in pairs:
        if x is not None and y is None and (found := waiting.get(a[x])):
            moves[x] = found.pop()
    moved = {*moves.values()}
    for x, y in pairs:
        if x is not None or y not in moved:
            yield x, moves.get(x, y), x in moves
