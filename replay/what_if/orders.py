"""Orders of completions as lists of keys: moved, compared with the recorded one, and shrunk.

An order is a list of keys, first to last; the earliest outstanding key in it is delivered. A *move*
takes one key out of the recorded order and puts it before, or after, a different one.

Pure: a callable decides whether an order still shows the effect.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import attrs

from refold.replay.difference.align import longest_rise

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
