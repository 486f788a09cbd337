"""Groups the differences of a comparison by cause.

The first difference in time comes first. Equal ones are one cause, and those that may follow from
an earlier one are counted there. `diff`, `replay`, the pytest plugin and the page show causes.
Pure.
"""

import itertools
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.replay.difference.pointer_diff import Difference, counted
from refold.replay.difference.text_diff import TextChange, changed_words, text_changes

_NUMBERS: Final = re.compile(r"\[\d+\]|(?<=\bconversation) \d+( \(.*\)\Z)?", re.DOTALL)
"""Numbers of equal agents in the path of a run, and titles of conversations without a name."""
ALL_HINT: Final = "to list every difference, add --all"
CAUSES_SHOWN: Final = 8
"""Causes that a report shows if not all differences are asked for."""
_LINES: Final = 8
"""Lines of changed words that a cause holds."""

_WORDS_MAX: Final = 100
"""The maximum number of changes that are searched for inside of others."""


@attrs.frozen(kw_only=True)
class DiffCause(Document):
    """A difference that no earlier one explains."""

    hidden = ("run", "call", "place", "differences", "leaves")

    agent: str
    """Names from the root down to the agent, without the numbers of equal ones."""
    turn: int | None = None
    """The number of the agent's last model request by then; `None` before the first."""
    what: str
    """The category of the difference."""
    where: str
    """The path of the first: `root > researcher[2] > search#3`."""
    was: Json
    now: Json
    """Both sides of the first place that differs."""
    words: tuple[str, ...]
    """The changed lines or words, as text."""
    follows: int = 0
    """The number of later differences that it may explain."""
    alike: tuple[str, ...] = ()
    """Where else the same changed."""
    run: str
    """The path of the run."""
    call: str
    """The name of the tool, model or child; empty for the run itself."""
    place: Hashable = None
    """The line of the program; of requests without differing places, also both requests."""
    differences: tuple[Difference, ...] = ()
    leaves: tuple[Any, ...]
    """The difference itself, and those that are alike."""

    @property
    def key(self) -> tuple[Hashable, ...]:
        """Equal for the same change elsewhere, and different for any other."""
        places = ((each.pointer, each.kind, *changed_words(each)) for each in self.differences)
        return self.agent, self.call, self.what, self.place, tuple(places)

    @property
    def headline(self) -> str:
        """Where and what: `90 times: root > researcher[2] > search#3: arguments`."""
        return f"{self._times()}{self.where}: {self.what}"

    def __str__(self) -> str:
        lines = [f"{self._times()}{self.leaves[0]}"]
        if self.follows:
            lines.append(f"  then      {counted(self.follows, 'later difference')}")
        return "\n".join(lines)

    def _times(self) -> str:
        return f"{len(self.leaves)} times: " if self.alike else ""


class Leaf(Protocol):
    """One difference of a comparison."""

    def as_cause(self) -> DiffCause:
        """Return it as a cause of its own."""


def cause_of(
    leaf: Leaf,
    *,
    run: str,
    differences: tuple[Difference, ...],
    sides: tuple[Json, Json],
    texts: Sequence[TextChange] = (),
    **told: Any,
) -> DiffCause:
    """Return the cause of one difference; `sides` are its values if no place in them differs."""
    before, now = (differences[0].before, differences[0].after) if differences else sides
    texts = texts or text_changes(differences)
    shown = {text.what for text in texts}
    lines = [line for text in texts for line in text.lines]
    lines += [] if lines else [str(each) for each in differences if each.pointer not in shown]
    return DiffCause(
        agent=_NUMBERS.sub("", run), run=run, was=before, now=now, words=tuple(lines[:_LINES]),
        differences=differences, leaves=(leaf,), **told,
    )  # fmt: skip


def causes(found: Iterable[Leaf], *, spread: bool = False) -> tuple[DiffCause, ...]:
    """Return the causes of differences, which are in the order of time.

    With `spread`, a difference can lead to later ones: to the result of its call and to all results
    in its run, to requests of a run that got something different, in runs that were started
    differently, or if they repeat its words. In a replay it cannot: each run gets recorded results.
    """
    groups: dict[Hashable, list[DiffCause]] = {}
    follows = Counter[Hashable]()
    earlier = _Earlier()
    for leaf in found:
        one = leaf.as_cause()
        key = one.key
        known = earlier.explains(one) if spread and key not in groups else None
        if known is None:
            groups.setdefault(key, []).append(one)
            follows[key] += one.follows
        else:
            follows[known] += 1 + one.follows
        earlier.add(one, key if known is None else known)
    return tuple(
        attrs.evolve(
            group[0],
            follows=follows[key],
            alike=tuple(each.where for each in group[1:]),
            leaves=tuple(leaf for each in group for leaf in each.leaves),
        )
        for key, group in groups.items()
    )


_GOT: Final = {
    "header", "input", "result", "name", "kind", "order", "only_in_a", "only_in_b",
}  # fmt: skip
"""Categories of differences after which a run knows something different.  After a different request
with the same result it does not, so that no later request can follow from it."""


class _Earlier:
    """The differences so far, by what they can lead to."""

    def __init__(self) -> None:
        self._calls: dict[str, Hashable] = {}
        """The first cause at each call; if it started a run, all in that run may follow from it."""
        self._runs: dict[str, Hashable] = {}
        """The first cause in each run, from which results may follow."""
        self._got: dict[str, Hashable] = {}
        """The first cause for which each run got something different."""
        self._words: dict[tuple[str, str], Hashable] = {}

    def explains(self, one: DiffCause) -> Hashable:
        """Return the key of the cause that may explain a difference, or `None`."""
        in_run = self._runs if one.what in ("result", "retry") else self._got
        path = one.run.split(" > ")
        starts = (" > ".join(path[:depth]) for depth in range(2, len(path) + 1))
        calls = (self._calls.get(each) for each in (one.where, *starts))
        if (known := next(filter(None, (in_run.get(one.run), *calls)), None)) is not None:
            return known
        repeated = [self._repeated(each) for each in map(changed_words, one.differences)]
        return repeated[0] if repeated and all(repeated) else None

    def _repeated(self, words: tuple[str, str]) -> Hashable:
        """Return the key of a cause whose changed words are these, or are inside of these."""
        if (known := self._words.get(words)) is not None:
            return known
        some = itertools.islice(self._words.items(), _WORDS_MAX)
        was, now = words
        return next((key for (a, b), key in some if a and was.replace(a, b) == now), None)

    def add(self, one: DiffCause, key: Hashable) -> None:
        self._runs.setdefault(one.run, key)
        if one.what in _GOT:
            self._got.setdefault(one.run, key)
        if one.where != one.run:
            self._calls.setdefault(one.where, key)
        for each in one.differences:
            self._words.setdefault(changed_words(each), key)


def cause_texts(found: Sequence[DiffCause], most: int | None) -> Iterator[str]:
    """Yield the text of the first causes, each after an empty line, and the number of the rest."""
    for one in found[:most]:
        yield f"\n{one}"
    if most is not None and len(found) > most:
        yield f"\n{counted(len(found) - most, 'more cause')}"
