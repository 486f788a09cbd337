"""The reducers that most slices need.

A reducer is a pure function `(items, event) -> items`: it returns a new tuple, or the old one where
nothing changes, and reads nothing but its arguments.  Those here take events that are the items
themselves; a reducer of one's own may make other items of them.
"""

from collections.abc import Callable
from typing import Any, TypeVar

S = TypeVar("S")

Reducer = Callable[[tuple[S, ...], Any], tuple[S, ...]]
"""Takes a slice's items and an event, and returns the items that follow."""


def append(items: tuple[S, ...], event: S) -> tuple[S, ...]:
    """Add the event, unless an equal one is there: the default."""
    return items if event in items else (*items, event)


def append_all(items: tuple[S, ...], event: S) -> tuple[S, ...]:
    """Add the event, equal ones included."""
    return (*items, event)


def replace_latest(_items: tuple[S, ...], event: S) -> tuple[S, ...]:
    """Keep the event alone."""
    return (event,)


def upsert_by(key: Callable[[S], object]) -> Reducer[S]:
    """Return a reducer that puts the event in the place of the item with the same key.

    An event with a new key goes to the end.
    """

    def upsert(items: tuple[S, ...], event: S) -> tuple[S, ...]:
        wanted = key(event)
        at = next((at for at, item in enumerate(items) if key(item) == wanted), len(items))
        return (*items[:at], event, *items[at + 1 :])

    return upsert
