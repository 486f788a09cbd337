"""Files that two runs named by their own time or by an id: which of them are each other's.

Two names are a pair if they differ only in values that are bound, in dates of each run's own day,
in times and in ids. Names alone are paired: contents are compared all the same. Pure. Rules:
CONTRACT.md §16.17.
"""

import contextlib
import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime
from typing import Final

import attrs

_TIME: Final = r"\d\d[-:._]?\d\d(?:[-:._]?\d\d)?(?:[.,_-]?\d{3,9})?"
_ZONE: Final = r"(?:Z|[+-]\d\d[-:]?\d\d)?"
UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TOKEN: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    rf"(?P<uuid>{UUID})"  # before days: it may begin as one
    rf"|(?P<day>\d{{4}}([-_.]?)\d\d\3\d\d(?:[T_-]{_TIME}{_ZONE})?)"
    r"|(?P<epoch>1\d{9}(?:\.\d{1,6}|\d{3})?)"
    r"|(?P<time>\d\d([-:.])\d\d\6\d\d)"
    r"|(?P<id>(?=[0-9a-f]{0,63}[0-9])(?=[0-9a-f]{0,63}[a-f])[0-9a-f]{8,64}"
    r"|(?=[0-9A-Z]{0,25}[0-9])[0-9A-HJKMNP-TV-Z]{26}"
    r"|(?=[0-9A-Za-z]{0,63}[0-9])(?=[0-9A-Za-z]{0,63}[a-z])(?=[0-9A-Za-z]{0,63}[A-Z])"
    r"[0-9A-Za-z]{16,64}"
    r"|tmp[0-9a-z_]{8})"
    r")(?![0-9A-Za-z])"
)
_LENGTH_MIN: Final = 8
"""Characters of a part of a name that is renamed in texts."""

_COMPARED_MAX: Final = 10_000
"""Pairs of contents of names alike that are compared."""

_Shape = tuple[str, ...]


def _cut(path: str) -> tuple[_Shape, list[tuple[str, str]]]:
    """Return what a name keeps, and its values: (kind, text)."""
    shape, values, at = list[str](), list[tuple[str, str]](), 0
    for found in _TOKEN.finditer(path):
        kind = next((name for name in ("day", "epoch", "time") if found[name]), "id")
        shape += [path[at : found.start()], kind]
        values.append((kind, found[0]))
        at = found.end()
    return (*shape, path[at:]), values


def pattern_of(path: str) -> str:
    """Return a pattern of names with `*` for each time and id, or the path if it has none."""
    return _TOKEN.sub("*", path)


def are_beside(runs: Sequence[date | None], days: Sequence[date | None]) -> bool:
    """Return whether the day of each run is known, and is one of `days`, or a day beside it."""
    pairs = zip(runs, days, strict=True)
    return all(one and other and abs((one - other).days) <= 1 for one, other in pairs)


def _day(kind: str, text: str) -> date | None:
    with contextlib.suppress(ValueError, OverflowError):
        if kind == "epoch":
            return datetime.fromtimestamp(int(text[:10]), UTC).date()
        digits = re.sub(r"\D", "", text[:10])[:8]
        return date.fromisoformat(f"{digits[:4]}-{digits[4:6]}-{digits[6:]}")
    return None


@attrs.define
class FileNames:
    """The pairs of two runs."""

    days: tuple[date | None, date | None]
    """The day of the recorded run and the day of the current one, if known."""
    count: int = 0
    """How many pairs there are."""
    _was: dict[str, str] = attrs.field(factory=dict)
    """Recorded parts of names, by the current ones."""
    _ids: dict[str, str] = attrs.field(factory=dict)
    """Current ids of names, by the recorded ones."""
    _before: tuple[dict[str, str], dict[str, str]] = attrs.field(factory=lambda: ({}, {}))

    def pairs(
        self,
        recorded: Iterable[str],
        now: Iterable[str],
        plain: Callable[[str], str],
        is_same: Callable[[str, str], bool],
    ) -> dict[str, str]:
        """Pair paths that only one of the runs has: the current one by the recorded one.

        `plain` gives a current name its recorded values, and `is_same` compares contents: of
        several alike, equal ones are paired first, the others in order if both runs have as many.
        """
        olds, news = defaultdict[_Shape, list[str]](list), defaultdict[_Shape, list[str]](list)
        for path in sorted(recorded):
            olds[_cut(path)[0]].append(path)
        for path in sorted(now):
            news[_cut(plain(path))[0]].append(path)
        found = dict[str, str]()
        for shape in olds.keys() & news.keys():
            ours, theirs = olds[shape], news[shape]
            for is_by_content in (True, False):
                if not is_by_content and len(ours) != len(theirs):
                    break
                if is_by_content and len(ours) * len(theirs) > _COMPARED_MAX:
                    continue
                for was, here in itertools.product([*ours], [*theirs]):
                    if was in ours and here in theirs and self._bind(was, here, plain(here)):
                        if is_by_content and not is_same(was, here):
                            self._was, self._ids = self._before
                            continue
                        ours.remove(was)
                        theirs.remove(here)
                        found[was] = here
        self.count += len(found)
        return found

    def renamed(self, text: str) -> str:
        """Return a text of the current run with recorded names in the place of current ones."""
        if not self._was:
            return text
        names = "|".join(map(re.escape, sorted(self._was, key=len, reverse=True)))
        return re.sub(
            rf"(?<![0-9A-Za-z])(?:{names})(?![0-9A-Za-z])", lambda one: self._was[one[0]], text
        )

    def _bind(self, was: str, here: str, plain: str) -> bool:
        """Bind the values of two names, if they can be a pair."""
        ids, parts = dict(self._ids), dict(self._was)
        for (kind, old), (_, new) in zip(_cut(was)[1], _cut(plain)[1], strict=True):
            if old == new:
                continue
            if kind == "id":
                if len(old) != len(new) or ids.setdefault(old, new) != new:
                    return False
                if sum(each == new for each in ids.values()) > 1:
                    return False
            elif kind != "time" and not are_beside(self.days, (_day(kind, old), _day(kind, new))):
                return False
            if min(len(old), len(new)) >= _LENGTH_MIN:
                parts.setdefault(new, old)
        parts.setdefault(here.rpartition("/")[2], was.rpartition("/")[2])
        self._before = self._was, self._ids
        self._was, self._ids = parts, ids
        return True
