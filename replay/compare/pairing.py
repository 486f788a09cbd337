"""Which call of one run answers which call of another: by scope and order, or by likeness.

`strict` aligns scope with scope (`replay.difference.align`); a call that one side has earlier and
the other later in the same scope is one call that moved.  The other modes know no scopes and no
order: they pair the most alike first.  Pure, but for arguments that must be read to be compared.
The modes are CONTRACT.md §13.
"""

import operator
from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from typing import Any, Final, Literal, NamedTuple

import attrs

from refold.engine.events.events import in_order
from refold.replay.compare.calls import Call, Calls, RunCalls
from refold.replay.difference.align import Key, Pair, align
from refold.replay.difference.pointer_diff import Difference, differences, shared_ends

MatchMode = Literal["strict", "unordered", "subset", "superset"]
ArgumentMode = Literal["exact", "ignore", "subset", "superset"]

TRIES_MAX = 200
"""Calls of one name that are looked through for arguments that fit."""

_OURS: Final = 2**40
"""More than a log has calls; in a number, which side one is of."""


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


def pairs_of(a: RunCalls, b: RunCalls, *, match: MatchMode, arguments: ArgumentMode) -> Pairing:
    """Return the pairs that `match` asks for; calls that it lets be are left out."""
    if match == "strict":
        return _by_scope(a, b, arguments)
    pairs = _by_likeness(a, b, arguments)
    if match == "subset":
        pairs = (pair for pair in pairs if pair.call_a is not None)
    elif match == "superset":
        pairs = (pair for pair in pairs if pair.call_b is not None)
    return Pairing(pairs)


def is_alike(difference: Difference, arguments: ArgumentMode) -> bool:
    """Return whether `arguments` ignores this difference in a request."""
    match arguments:
        case "exact":
            return False
        case "ignore":
            return True
        case "subset":
            return difference.kind == "added"
        case "superset":
            return difference.kind == "removed"


# --- strict ----------------------------------------------------------------------------------


def _by_scope(a: RunCalls, b: RunCalls, arguments: ArgumentMode) -> Pairing:
    scopes_a, scopes_b = a.scopes(), b.scopes()
    none = array("I")
    scopes = [
        _Scope(
            _Keys(a.calls, scopes_a.get(scope, none), arguments),
            _Keys(b.calls, scopes_b.get(scope, none), arguments),
        )
        for scope in sorted(scopes_a.keys() | scopes_b.keys(), key=in_order)
    ]
    is_exact = all(scope.is_exact for scope in scopes)
    return Pairing((pair for scope in scopes for pair in scope.pairs()), is_exact)


class _Keys(Sequence[Key]):
    """The keys of a scope's calls for an alignment, made on access."""

    def __init__(
        self, calls: Calls | list[Call], places: "array[int]", arguments: ArgumentMode
    ) -> None:
        self.calls, self.places, self.arguments = calls, places, arguments

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return _Keys(self.calls, self.places[at], self.arguments)
        kind, name, asked = self.call(at).identity
        return kind, name, b"" if self.arguments == "ignore" else asked

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


# --- unordered -------------------------------------------------------------------------------


def _by_likeness(a: RunCalls, b: RunCalls, arguments: ArgumentMode) -> Iterator[Paired]:
    """Pair the same request and end first, then the same request, then what fits, then names.

    Of calls that are equally alike, the earlier with the earlier.  Yielded in the order of a, and
    after them what only b has.
    """
    fitting = [(_name, True)] if arguments in ("subset", "superset") else []
    ways: list[tuple[Callable[[Call], Hashable], bool]] = [
        (lambda call: (*call.identity, call.ended), False),
        (lambda call: call.identity, False),
        *fitting,
        (lambda call: (*_name(call), call.ended), False),
        (_name, False),
    ]
    partners, owners = array("q", [-1]) * len(a.calls), array("q", [-1]) * len(b.calls)
    for alike, must_fit in ways:
        rows = sorted(chain(_rows(b, owners, alike, 0), _rows(a, partners, alike, _OURS)))
        for _, group in groupby(rows, lambda row: row // (2 * _OURS)):
            candidates: deque[int] = deque()
            for row in group:
                at = row % _OURS
                if not row & _OURS:
                    candidates.append(at)
                    continue
                for place, other in enumerate(islice(candidates, TRIES_MAX)):
                    if not must_fit or _fits(a, a.calls[at], b, b.calls[other], arguments):
                        partners[at], owners[other] = other, at
                        del candidates[place]
                        break
    for at, call in enumerate(a.calls):
        yield Paired(call, b.calls[partners[at]] if partners[at] >= 0 else None)
    yield from (Paired(None, b.calls[at]) for at, owner in enumerate(owners) if owner < 0)


def _rows(
    run: RunCalls, partners: "array[int]", alike: Callable[[Call], Hashable], side: int
) -> Iterator[int]:
    """Yield a number for each call that has no partner: its likeness, its side, its place."""
    for at, partner in enumerate(partners):
        if partner < 0:
            yield hash(alike(run.calls[at])) * 2 * _OURS + side + at


def _name(call: Call) -> tuple[str, str]:
    return call.kind, call.name


def _fits(a: RunCalls, x: Call, b: RunCalls, y: Call, arguments: ArgumentMode) -> bool:
    found = differences(a.request(x), b.request(y))
    return all(is_alike(each, arguments) for each in found)
