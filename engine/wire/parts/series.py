"""Values of one request, which may share its first values with an earlier one, and derived values.

A program sends its whole conversation with each request. The values derived from each message (its
neutral form, its form without secrets, its digest) are computed once: a series takes over those of
the values that it shares with its base, as long as that exists. Results equal those of computing
all of it again. Values and derived values are never changed. Pure. Rules: CONTRACT.md §16.9.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, islice
from types import MappingProxyType
from typing import Any, Final, TypeVar

T = TypeVar("T")
Take = Callable[[list[Any], Sequence[Any], int], int]
"""`take(found, values, at)` appends the results of the values from `at` on, and returns the start
of the next group; it may read earlier results, but does not change them."""


class Series:
    """Some values; the first `shared` are the same objects as in `base`."""

    def __init__(self, values: list[Any], base: "Series | None" = None, shared: int = 0) -> None:
        self.values = values
        self.shared = shared
        self._base = base
        self._made: dict[Hashable, Any] = {}
        self._first: list[Any] = []
        self._starts: list[tuple[int, int]] = []
        """Of a series made by `grouped`: where each group begins, among the values and in here."""
        if base is not None:
            base._base = None  # noqa: SLF001 - nobody looks further back, and all of it would stay

    def _before(self, key: Hashable) -> "Series | None":
        """Return the values derived from the base."""
        found: Series | None = self._base._made.get(key) if self._base is not None else None  # noqa: SLF001 - of its own kind
        return found

    def each(self, make: Callable[[Any], Any], state: Hashable = None) -> "Series":
        """Return the series of `make(value)`, as it is under `state`."""
        return self._extended((make, state), lambda _last, values: map(make, values))

    def running(self, make: Callable[[str, Any], str]) -> "Series":
        """Return the series of `make(previous result, value)`; "" at first."""
        return self._extended(
            make, lambda last, values: islice(accumulate(values, make, initial=last or ""), 1, None)
        )

    def _extended(self, key: Hashable, make: Callable[[Any, list[Any]], Iterable[Any]]) -> "Series":
        """Return a key's known values, extended by `make(last one, values)` of the new ones."""
        if key not in self._made:
            before = self._before(key)
            shared = self.shared if before is not None else 0
            made = before.values[:shared] if before is not None else []
            made += make(made[-1] if made else None, self.values[shared:])
            self._made[key] = Series(made, before, shared)
        found: Series = self._made[key]
        return found

    def grouped(self, take: Take, first: Sequence[Any] = ()) -> "Series":
        """Return the series of `first` and the results of `take`, group by group.

        The last shared group is taken again, because it may continue.
        """
        found: Series | None = self._made.get(take)
        if found is None or not _are_same(found._first, [*first]):  # noqa: SLF001 - of its own kind
            before = self._before(take)
            if before is not None and not _are_same(before._first, [*first]):  # noqa: SLF001 - of its own kind
                before = None
            found = self._made[take] = self._grouped(take, [*first], before)
        return found

    def _grouped(self, take: Take, first: list[Any], before: "Series | None") -> "Series":
        starts: list[tuple[int, int]] = []
        found, at = [*first], 0
        if before is not None:
            known = before._starts  # noqa: SLF001 - of its own kind
            last = bisect_left(known, (self.shared, -1)) - 1
            if last >= 0:
                starts, (at, count) = known[:last], known[last]
                found = before.values[:count]
        made = Series(found, before, len(found) if before is not None else 0)
        while at < len(self.values):
            starts.append((at, len(found)))
            at = take(found, self.values, at)
        made._first, made._starts = first, starts
        return made

    def whole(self, make: Callable[[list[Any]], T]) -> T:
        """Return `make(values)`."""
        if make not in self._made:
            self._made[make] = make(self.values)
        found: T = self._made[make]
        return found


def _are_same(one: list[Any], other: list[Any]) -> bool:
    """Return whether two lists are equal with their types: 1, 1.0 and true differ."""
    return one == other and repr(one) == repr(other)


Lists = Mapping[str, Series]
"""The lists among the members of a body, by name."""

NO_LISTS: Final[Lists] = MappingProxyType({})


def series_in(lists: Lists, name: str, values: list[Any]) -> Series:
    """Return the series of a list of that name, if it is known; else a new one."""
    found = lists.get(name)
    return found if found is not None and found.values is values else Series(values)
