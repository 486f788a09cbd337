"""Which call of one run answers which call of another: by scope and order, or by likeness.

`strict` aligns scope with scope (`replay.difference.align`); a call that one side has earlier and
the other later in the same scope is one call that moved.  The other modes know no scopes and no
order: they pair the most alike first.  Pure, but for arguments that must be read to be compared.
The modes are CONTRACT.md §13.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Literal, NamedTuple

import attrs

from refold.engine.events.call_key import in_order
from refold.replay.compare.calls import Call, RunCalls
from refold.replay.difference.align import Key, align
from refold.replay.difference.pointer_diff import Difference, differences

MatchMode = Literal["strict", "unordered", "subset", "superset"]
ArgumentMode = Literal["exact", "ignore", "subset", "superset"]

TRIES_MAX = 200
"""Calls of one name that are looked through for arguments that fit."""


class Paired(NamedTuple):
    """A call of each side, or of one alone."""

    call_a: Call | None
    call_b: Call | None
    is_moved: bool = False
    """Whether the two stand at different places of their scope."""


@attrs.frozen
class Pairing:
    """All calls of two runs, paired."""

    pairs: list[Paired]
    is_exact: bool = True


def pairs_of(a: RunCalls, b: RunCalls, *, match: MatchMode, arguments: ArgumentMode) -> Pairing:
    """Return the pairs that `match` asks for; calls that it lets be are left out."""
    if match == "strict":
        return _by_scope(a, b, arguments)
    pairs = _by_likeness(a, b, arguments)
    if match == "subset":
        pairs = [pair for pair in pairs if pair.call_a is not None]
    elif match == "superset":
        pairs = [pair for pair in pairs if pair.call_b is not None]
    return Pairing(pairs)


def is_alike(difference: Difference, arguments: ArgumentMode) -> bool:
    """Return whether a difference in what was asked is none under `arguments`."""
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
    pairs: list[Paired] = []
    is_exact = True
    for scope in sorted(scopes_a.keys() | scopes_b.keys(), key=in_order):
        calls_a, calls_b = scopes_a.get(scope, []), scopes_b.get(scope, [])
        keys = [[_key(call, arguments) for call in calls] for calls in (calls_a, calls_b)]
        aligned = align(*keys)
        is_exact = is_exact and aligned.is_exact
        here = [
            Paired(None if x is None else calls_a[x], None if y is None else calls_b[y])
            for x, y in aligned.pairs
        ]
        pairs += _moves(here, arguments)
    return Pairing(pairs, is_exact)


def _key(call: Call, arguments: ArgumentMode) -> Key:
    return (call.kind, call.name, b"") if arguments == "ignore" else call.identity


def _moves(pairs: list[Paired], arguments: ArgumentMode) -> list[Paired]:
    """Join a call that only a has with the same call that only b has: it moved."""
    waiting: dict[Key, list[Call]] = defaultdict(list)
    for pair in reversed(pairs):
        if pair.call_a is None and pair.call_b is not None:
            waiting[_key(pair.call_b, arguments)].append(pair.call_b)
    moved: set[int] = set()
    joined: list[Paired] = []
    for pair in pairs:
        found = pair.call_b is None and pair.call_a and waiting.get(_key(pair.call_a, arguments))
        if found:
            other = found.pop()
            moved.add(id(other))
            joined.append(Paired(pair.call_a, other, is_moved=True))
        else:
            joined.append(pair)
    return [pair for pair in joined if pair.call_a or id(pair.call_b) not in moved]


# --- unordered -------------------------------------------------------------------------------


def _by_likeness(a: RunCalls, b: RunCalls, arguments: ArgumentMode) -> list[Paired]:
    """Pair the same request and end first, then the same request, then what fits, then names.

    Of calls that are equally alike, the earlier with the earlier.  Returned in the order of a, and
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
    partners: dict[str, str] = {}
    for alike, must_fit in ways:
        taken = set(partners.values())
        waiting: dict[Hashable, deque[str]] = defaultdict(deque)
        for key, call in b.calls.items():
            if key not in taken:
                waiting[alike(call)].append(key)
        for key, call in a.calls.items():
            if key in partners:
                continue
            candidates = waiting[alike(call)]
            for at, other in enumerate(islice(candidates, TRIES_MAX)):
                if not must_fit or _fits(a, call, b, b.calls[other], arguments):
                    partners[key] = other
                    del candidates[at]
                    break
    taken = set(partners.values())
    pairs = [Paired(call, b.calls.get(partners.get(key, ""))) for key, call in a.calls.items()]
    return pairs + [Paired(None, call) for key, call in b.calls.items() if key not in taken]


def _name(call: Call) -> tuple[str, str]:
    return call.kind, call.name


def _fits(a: RunCalls, x: Call, b: RunCalls, y: Call, arguments: ArgumentMode) -> bool:
    found = differences(a.request(x), b.request(y))
    return all(is_alike(each, arguments) for each in found)
