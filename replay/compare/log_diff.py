"""The differences of two logs, as values, as plain data and as text for people.

Nothing here reads a log: `replay.compare.diff` does. The rules are CONTRACT.md §13.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

from refold.engine.encoding.document import Document
from refold.replay.compare.pairing import ArgumentMode, MatchMode
from refold.replay.difference.pointer_diff import Difference, counted, shown
from refold.replay.index.guarantee import OBSERVED
from refold.replay.run.tree_text import printable

DiffCategory = Literal[
    "only_in_a",
    "only_in_b",
    "arguments",
    "result",
    "retry",
    "name",
    "kind",
    "output",
    "status",
    "input",
    "order",
    "header",
]
"""`only_in_…`: a call that the other log lacks · `arguments`: asked otherwise · `result`: ended
otherwise · `retry`: failed before, and was tried again ·
`name`, `kind`: another tool, or another kind of call, in its place · `order`: asked
elsewhere in its scope · `output`, `status`, `input`: of a run · `header`: program, limits, rules
and tools of the run that was asked for."""

_SHOWN: Final = 8
"""Places of one difference that its text shows."""
FORK_LINES: Final = 40
"""Lines of differences that the report of a fork shows."""
_HASH: Final = re.compile(r"\b([0-9a-f]{16})[0-9a-f]{16,48}\b")


@attrs.frozen(kw_only=True)
class LogDifference(Document):
    """One difference between two logs."""

    computed = ("where",)

    category: DiffCategory
    run: str
    """The run's path, with the names and numbers of log a: `root > researcher[2]`."""
    what: str = ""
    """The call in a few words, `search#3`; empty for the run itself."""
    scope: str = ""
    """The scope of the call; empty for the run itself."""
    call_a: str | None = None
    call_b: str | None = None
    """Call keys; `None` where the log has no such call, or it is the run itself."""
    seq_a: int | None = None
    seq_b: int | None = None
    """Of the entries that asked."""
    differences: tuple[Difference, ...] = ()
    """Places where the JSON values differ; the whole request for a call that one log lacks."""

    @property
    def where(self) -> str:
        """The place with names: `root > researcher[2] > search#3`."""
        return f"{self.run} > {self.what}" if self.what else self.run

    def __str__(self) -> str:
        keys = [key for key in dict.fromkeys((self.call_a, self.call_b)) if key]
        at = f" ({' → '.join(keys)})" if keys else ""
        lines = [f"{printable(self.where)}{at}: {self.category}"]
        lines += [f"    {self._place(each)}" for each in self.differences[:_SHOWN]]
        if len(self.differences) > _SHOWN:
            lines.append(f"    and {counted(len(self.differences) - _SHOWN, 'place')} more")
        return "\n".join(lines)

    def _place(self, place: Difference) -> str:
        """Return one place as text; the whole request for a call that one log lacks."""
        if self.category == "only_in_a":
            return printable(shown(place.before))
        return printable(shown(place.after) if self.category == "only_in_b" else str(place))


@attrs.frozen
class RunContext(Document):
    """How one run came to be recorded otherwise.  Explains; makes nothing unequal."""

    run: str
    differences: tuple[Difference, ...]


@attrs.frozen(kw_only=True)
class LogDiff(Document):
    """The differences of two logs and of the logs below them."""

    computed = ("identical",)

    a: str
    b: str
    """Paths, as given."""
    match: MatchMode
    arguments: ArgumentMode
    differences: tuple[LogDifference, ...]
    """Those that keep their details, in the order of scopes, a child's where it was started."""
    count: int
    """All of them."""
    context: tuple[RunContext, ...]
    notes: tuple[str, ...]
    """What could not be compared, or not exactly."""
    entries: int
    """Of the larger of the two trees, that were compared."""
    runs: int
    """Pairs of logs that were compared."""
    guarantee: str = ""
    """`matched` where one of them is a watched command's log, else empty."""

    @property
    def identical(self) -> bool:
        """Whether nothing differs under these modes."""
        return self.count == 0

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self, most: int | None = None, command: str = "") -> Iterator[str]:
        """Yield the lines of it as text: at most so many of differences; `command` lists all."""
        what = counted(self.count, "difference") if self.count else "no differences"
        modes = [f"match {self.match}"] * (self.match != "strict")
        modes += [f"arguments {self.arguments}"] * (self.arguments != "exact")
        said = f" ({', '.join(modes)})" if modes else ""
        entries = counted(self.entries, "entry", "entries")
        yield f"{what}: {entries} in {counted(self.runs, 'run')} compared{said}"
        left, count = most, 0
        for difference in self.differences:
            text = str(difference).split("\n")
            left = left - len(text) if left is not None else None
            if left is not None and left < 0:
                break
            yield from text
            count += 1
        if self.count > count:
            advice = f": to list all, use {command}" if command else ""
            yield f"and {counted(self.count - count, 'difference')} more{advice}"
        yield from (f"note: {printable(note)}" for note in self.notes)
        for each in self.context:
            for place in each.differences:
                told = _HASH.sub(r"\1", printable(str(place)))  # enough to tell two apart
                yield f"not compared: {printable(each.run)}: {told}"
        if self.guarantee:
            yield f"guarantee: {self.guarantee} ({OBSERVED})"
