"""Matches a rehearsal's request with a recorded one: the same request, in any place.

In a different order, a worker may take another worker's task and request it under its own key. So
an outcome goes to the same request: under the same key, else nearest in the same scope, else
anywhere; and only once. Pure except for its record of given outcomes. Rules: CONTRACT.md §12.8.

Runs that are recorded while partly live or forked are stricter, and match only in the same scope:
`replay.partial.sources`.
"""

from collections import Counter
from collections.abc import Sequence

import attrs

from refold.engine.events.events import ClockRead, ValueDrawn, number_of, scope_of
from refold.replay.difference.excuses import KIND_ASKED, Excuses
from refold.replay.index.by_call import AskedCall, Book

Looks = dict[tuple[str, int], ClockRead]
"""The n-th clock reading of a scope."""


class BookMatcher:
    """Finds for each request the one of a book that answers it; each answers once."""

    def __init__(self, book: Book, *, by_place: bool, looks: Looks) -> None:
        """Take the book; `looks` is empty at first, and filled by the recorded order."""
        self._by_place = by_place
        self._recorded = book.requests
        self._excuses = Excuses(str(book.log), book.rules)
        self._requests = dict(book.requests)
        self._alike: dict[str, dict[str, None]] = {}
        """By identity: the keys that nobody has taken, as an ordered set."""
        for asked in book.requests.values():
            self._alike.setdefault(asked.identity, {})[asked.call] = None
        self._values = dict(book.values)
        self._recorded_looks = book.looks or [ClockRead(0, 0)]
        self._looks, self._is_learning = looks, not looks
        self._looked: Counter[str] = Counter()

    def recognised(self, asked: AskedCall) -> AskedCall:
        """Return a request as equal to the recorded one of its key, if rules ignore differences.

        These are values that the log's rules declare volatile, and redacted ones (§12.7).
        """
        own = self._recorded.get(asked.call)
        if own is None or not self._excuses.is_any or own.identity == asked.identity:
            return asked
        pair = (own.data, asked.data)
        is_same = self._excuses.excused(KIND_ASKED[own.item.kind], asked.call, 0, pair)
        return attrs.evolve(asked, identity=own.identity) if is_same else asked

    def take(self, asked: AskedCall) -> str | None:
        """Return the key of the recorded request that answers this one; `None` for none."""
        match = self._match(asked)
        if match is None:
            return None
        del self._requests[match.call]
        del self._alike[match.identity][match.call]
        return match.call

    def _match(self, asked: AskedCall) -> AskedCall | None:
        own = self._requests.get(asked.call)
        if own is not None and own.identity == asked.identity:
            return own
        alike = [self._requests[call] for call in self._alike.get(asked.identity, ())]
        if alike or not self._by_place:
            return _nearest(asked, alike)
        near = (one for one in self._requests.values() if one.item.scope == asked.item.scope)
        return _nearest(asked, [one for one in near if one.name == asked.name])

    def draw(self, source: str, name: str, call: str) -> tuple[str, ValueDrawn] | None:
        """Return the recorded draw of that name, and its key: the same key, its scope, or any."""
        alike = [
            key
            for key, drawn in self._values.items()
            if (drawn.source, drawn.name) == (source, name)
        ]
        if not alike:
            return None
        scope = scope_of(call)
        near = (key for key in alike if scope_of(key) == scope)
        key = call if call in alike else next(near, alike[0])
        return key, self._values.pop(key)

    def read_clock(self, scope: str) -> ClockRead:
        """Return the time that this scope had at this look.

        A scope that never looked by itself (it saw the clock through another's look) gets the
        last recorded time.
        """
        place = (scope, self._looked[scope])
        if self._is_learning:
            at = min(self._looked.total(), len(self._recorded_looks) - 1)
            self._looks[place] = self._recorded_looks[at]
        self._looked[scope] += 1
        return self._looks.get(place, self._recorded_looks[-1])


def _nearest(asked: AskedCall, alike: Sequence[AskedCall]) -> AskedCall | None:
    """Return the one that was asked nearest: in the same scope by its ordinal, else the first."""
    own = [one for one in alike if one.item.scope == asked.item.scope]
    if own:
        at = number_of(asked.call)
        return min(own, key=lambda one: abs(number_of(one.call) - at))
    return alike[0] if alike else None
