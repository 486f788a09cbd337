"""Where two JSON values differ, as JSON pointers.

The diff of two logs and divergences both use it. Two values are equal if their canonical bytes are
equal except for the order of members (CONTRACT.md §3.5): `1`, `1.0` and `true` are three values.
Arrays are compared without their common start and end, so that one inserted element is one
addition. `replay.difference.align` aligns whole calls.

Pure: nothing here reads a log.
"""

import json
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, TypeVar

import attrs

from refold.engine.encoding.canonical import Json, encode, join
from refold.engine.encoding.document import Document

T = TypeVar("T")

DifferenceKind = Literal["changed", "added", "removed"]

_CHARACTERS_SHOWN: Final = 120
"""Characters of a value that a line for people shows."""
_COUNTED_FROM: Final = 60
"""Below this count, left-out lines are not counted; the count would take half their place."""


@attrs.frozen
class Difference(Document):
    """One place where two JSON values differ."""

    pointer: str
    """JSON pointer (RFC 6901) into `before`, for `added` into `after`; empty for the whole."""
    kind: DifferenceKind
    before: Json = None
    """`None` also where `added`."""
    after: Json = None
    """`None` also where `removed`."""

    def as_json(self) -> dict[str, Any]:
        """Return {pointer, kind, before, after}; without the side that has nothing there."""
        document: dict[str, Any] = {"pointer": self.pointer, "kind": self.kind}
        if self.kind != "added":
            document["before"] = self.before
        if self.kind != "removed":
            document["after"] = self.after
        return document

    def __str__(self) -> str:
        where = self.pointer or "(the value itself)"
        match self.kind:
            case "added":
                return f"{where}: added {shown(self.after)}"
            case "removed":
                return f"{where}: removed {shown(self.before)}"
            case "changed":
                told = reordered(self.before, self.after) or _pair(self.before, self.after)
                return f"{where}: {told}"


def differences(before: Json, after: Json) -> tuple[Difference, ...]:
    """Return every place at which `after` differs from `before`, in the order of `before`.

    Members that only `after` has follow those of `before`.  Empty if the two are the same.
    """
    return tuple(_walk(before, after, ""))


def same(before: Json, after: Json) -> bool:
    """Return whether the two values are equal, ignoring the order of members."""
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        return len(before) == len(after) and all(map(same, before, after))
    if type(before) is not type(after):
        return False
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(before[k], after[k]) for k in before)
    if isinstance(before, float):
        return repr(before) == repr(after)  # -0.0 is written otherwise than 0.0
    return bool(before == after)


def reordered(before: Json, after: Json) -> str:
    """Return that two lists, or texts of lines, are the same in a different order; else empty."""
    if isinstance(before, str) and isinstance(after, str):
        olds, news, thing = before.splitlines(), after.splitlines(), "line"
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        olds, news = ([json.dumps(item, sort_keys=True) for item in e] for e in (before, after))
        thing = "item"
    else:
        return ""
    is_same = len(olds) == len(news) and olds != news and sorted(olds) == sorted(news)
    return f"the same {counted(len(olds), thing)} in a different order" if is_same else ""


def shown(value: Json, characters_max: int = _CHARACTERS_SHOWN) -> str:
    """Return a value on one line for people: safe to print, cut in the middle where long."""
    text = encode(value).decode()
    if len(text) <= characters_max:
        return text
    if characters_max < _COUNTED_FROM:
        return cut(text, (characters_max - 1) // 2)
    kept = (characters_max - 30) // 2
    return f"{text[:kept]}…({len(text) - 2 * kept} more)…{text[-kept:]}"


def cut(text: str, head: int, tail: int | None = None) -> str:
    """Return a text without its middle, if it is longer than the two kept ends."""
    tail = head if tail is None else tail
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}…{text[len(text) - tail :]}"


def counted(number: int, thing: str, things: str = "") -> str:
    """Return a number and its noun: `1 entry`, `2,310 entries`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def few(names: Sequence[str], most: int) -> str:
    """Return the first of some names, and how many more there are: `a, b and 2 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def differing(places: Sequence[Difference], most: int) -> list[str]:
    """Return lines for the first differences, and the number of the others."""
    lines = [f"  differs   {one}" for one in places[:most]]
    more = len(places) - most
    return [*lines, f"            … and in {counted(more, 'more place')}"] if more > 0 else lines


def _walk(before: Json, after: Json, pointer: str) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _members(before, after, pointer)
    elif isinstance(before, list | tuple) and isinstance(after, list | tuple):
        yield from _elements(before, after, pointer)
    elif not same(before, after):
        yield Difference(pointer, "changed", before, after)


def _members(before: dict[str, Json], after: dict[str, Json], pointer: str) -> Iterator[Difference]:
    for name, value in before.items():
        where = join(pointer, name)
        if name in after:
            yield from _walk(value, after[name], where)
        else:
            yield Difference(where, "removed", before=value)
    for name, value in after.items():
        if name not in before:
            yield Difference(join(pointer, name), "added", after=value)


def _elements(before: Sequence[Json], after: Sequence[Json], pointer: str) -> Iterator[Difference]:
    """Compare what lies between the common start and the common end, place by place.

    The same elements in a different order are one difference.
    """
    start, end = shared_ends(before, after)
    olds, news = before[start : len(before) - end], after[start : len(after) - end]
    if len(olds) == len(news) > 1 and reordered(olds, news):
        yield Difference(pointer, "changed", list(before), list(after))
        return
    paired = min(len(olds), len(news))
    for at in range(paired):
        yield from _walk(olds[at], news[at], f"{pointer}/{start + at}")
    for at in range(paired, len(olds)):
        yield Difference(f"{pointer}/{start + at}", "removed", before=olds[at])
    for at in range(paired, len(news)):
        yield Difference(f"{pointer}/{start + at}", "added", after=news[at])


def shared_ends(
    before: Sequence[T], after: Sequence[T], alike: Callable[[T, T], bool] = same
) -> tuple[int, int]:
    """Return how many elements the two share at the start, and of the rest at the end."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if not alike(before[at], after[at])), most)
    most -= start
    end = next((at for at in range(most) if not alike(before[-1 - at], after[-1 - at])), most)
    return start, end


def _pair(before: Json, after: Json) -> str:
    """Show two values; of long texts, the neighbourhood of the first character that differs."""
    old, new = encode(before).decode(), encode(after).decode()
    if len(old) <= _CHARACTERS_SHOWN and len(new) <= _CHARACTERS_SHOWN:
        return f"{old} → {new}"
    at, _ = shared_ends(old, new, operator.eq)
    where = f" (from character {at})" if at else ""
    return f"{_around(old, at)} → {_around(new, at)}{where}"


def _around(text: str, at: int) -> str:
    start, end = max(0, at - 30), at + 60
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    return f"{head}{text[start:end]}{tail}"
