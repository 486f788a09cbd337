"""Comparators, which decide whether two live results count as equal (CONTRACT.md §12.10).

A comparator takes the recorded and the new result, and returns whether they count as equal. Pure.
`replay.partial.drift` calls them; the default is exact.
"""

import contextlib
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.replay.difference.pointer_diff import same

Comparator = Callable[[Json, Json], bool]
"""(recorded, now) → whether they count as the same."""


def exact(recorded: Json, now: Json) -> bool:
    """Return whether two JSON values are equal, in any order of members."""
    return same(recorded, now)


def text(recorded: Json, now: Json) -> bool:
    """Return whether they are equal but for case and white space in texts."""
    return same(_plain(recorded), _plain(now))


def subset(recorded: Json, now: Json) -> bool:
    """Return whether all that was recorded is there now; more members and items may be."""
    match recorded, now:
        case Mapping(), Mapping():
            return all(key in now and subset(value, now[key]) for key, value in recorded.items())
        case list(), list():
            left = list(now)
            return all(_take_match(item, left) for item in recorded)
        case _:
            return same(recorded, now)


def numbers(tolerance: float) -> Comparator:
    """Return a comparator that lets numbers differ, by `tolerance` of the larger or absolutely."""

    def close(recorded: Json, now: Json) -> bool:
        match recorded, now:
            case bool(), _:
                return recorded is now
            case int() | float(), int() | float() if not isinstance(now, bool):
                return math.isclose(recorded, now, rel_tol=tolerance, abs_tol=tolerance)
            case Mapping(), Mapping():
                return recorded.keys() == now.keys() and all(
                    close(value, now[key]) for key, value in recorded.items()
                )
            case list(), list():
                return len(recorded) == len(now) and all(map(close, recorded, now))
            case _:
                return same(recorded, now)

    return close


_NAMED: Final[dict[str, Comparator]] = {"exact": exact, "text": text, "subset": subset}


def comparator(which: Comparator | str) -> Comparator:
    """Return a comparator by its name (`exact`, `text`, `subset`, `numbers:0.01`), or itself.

    Raises:
        UsageError: no comparator has this name.
    """
    if not isinstance(which, str):
        return which
    if which in _NAMED:
        return _NAMED[which]
    name, _, number = which.partition(":")
    if name == "numbers":
        with contextlib.suppress(ValueError):
            return numbers(float(number))
    raise UsageError(f"unknown rule {which!r}: expected exact, text, subset or numbers:0.01")


def _plain(value: Json) -> Any:
    match value:
        case str():
            return " ".join(value.casefold().split())
        case list():
            return [_plain(item) for item in value]
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case _:
            return value


def _take_match(item: Json, left: list[Json]) -> bool:
    for at, other in enumerate(left):
        if subset(item, other):
            del left[at]
            return True
    return False
