"""The findings of an exploration of orders, for people and for machines.

`replay.what_if.explore` makes it. Rules: CONTRACT.md §12.8.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.replay.difference.pointer_diff import Difference, counted, differing, few

FindingKind = Literal["output", "error", "missing", "endless"]

HEADLINES: Final[dict[FindingKind, str]] = {
    "output": "an order changes the output",
    "error": "an order makes the run end differently",
    "missing": "an order leads to a call that was never recorded",
    "endless": "with some order, the program never ends",
}


@attrs.frozen(kw_only=True)
class OrderStep:
    """One move from the recorded order, in words that people read."""

    deliver: str
    """`fetch#1 in 0/2 (url="b")`."""
    relation: Literal["before", "after"]
    other: str
    call: str
    """The call or timer key of the moved completion."""
    other_call: str

    def __str__(self) -> str:
        verb = "fire" if "@" in self.call else "deliver"
        return f"{verb} {self.deliver} {self.relation} {self.other}"


@attrs.frozen(kw_only=True)
class OrderFinding(Document):
    """One way in which the run ended otherwise, and the nearest order that leads to it."""

    computed = ("headline",)

    kind: FindingKind
    """`output`: a different output.

    `error`: it raised, got stuck, or ended with a different status.
    `missing`: it waited for an outcome that was never recorded.
    `endless`: it did not end.
    """
    moves: tuple[OrderStep, ...]
    """The fewest moves from the recorded order that were found; empty where not looked for."""
    orders: int
    """How many of the orders tried end so."""
    digest: str
    """Of this end; equal for equal ends."""
    end: dict[str, Json]
    """{status, reason, output, error, …}; empty for a run that did not end."""
    diff: tuple[Difference, ...]
    """From the recorded end to this one, by JSON pointers."""
    missing: dict[str, Json] | None = None
    """{kind, name, call, arguments, label} of the call that was never recorded, or never ended."""
    is_given_up: bool = False
    """Whether the record has that call and gave up on it: here it comes to an end in time, with an
    outcome that was made up, and the run does not end as recorded."""
    file: str = ""
    """Of the program: where both of what changed places are awaited; empty where not known."""
    line: int = 0
    order: tuple[str, ...] = ()
    """Keys of all that was delivered, first to last."""

    @property
    def headline(self) -> str:
        """What happened, in a few words."""
        return _GIVEN_UP if self.is_given_up else HEADLINES[self.kind]

    def __str__(self) -> str:
        lines = [f"{self.headline} ({counted(self.orders, 'order')})"]
        lines += [f"  order     {move}" for move in self.moves]
        if self.file:
            lines.append(f"  awaited   {self.file}:{self.line}")
        if self.missing is not None:
            verb = "given up" if self.is_given_up else "asks for"
            lines.append(f"  {verb}  {self.missing.get('label')}  {self.missing.get('call')}")
        return "\n".join(lines + differing(self.diff, _DIFFS_SHOWN))


@attrs.frozen(kw_only=True)
class ExploreReport(Document):
    """The results of the orders that were tried."""

    computed = ("identical",)

    log: Path
    where: str
    """The name of the program."""
    orders: int
    """Orders that were tried, the recorded one included; no two are the same."""
    as_recorded: int
    """How many of them ended as recorded."""
    is_exhaustive: bool
    """Whether all orders were tried."""
    findings: tuple[OrderFinding, ...]
    """One for each end that is not the recorded one: the first of each kind, then the rest, in
    the order found."""
    outstanding: int
    """Most completions that were outstanding at once; with 1 there is but one order."""
    given_up: tuple[str, ...]
    """Calls that the record gave up on: they have no outcome."""
    timers: bool
    untried: tuple[str, ...] = ()
    """Missing outcomes that come first in no order here; the others had substitutes."""
    timers_armed: int = 0
    """How many timers the run as recorded armed; unless `timers`, they did not race."""
    children_left: int = 0
    """Child runs, which are explored by their own logs."""

    @property
    def identical(self) -> bool:
        """Whether every order ended as recorded."""
        return not self.findings

    @property
    def changes(self) -> bool:
        """Whether an order ended the run otherwise; calls never recorded aside."""
        return any(finding.kind != "missing" for finding in self.findings)

    def headline(self) -> str:
        """Return in one line how many orders were tried, and what came of them."""
        raced = " of the raced outcomes" if self.left_out() else ""
        if self.is_exhaustive and self.orders == 1:
            only = "" if raced else ": only one outcome could be delivered at any time"
            return f"no other order{raced} is possible{only}"
        more = f"all possible orders{raced}" if self.is_exhaustive else "there are more"
        tried = f"{counted(self.orders, 'order')} tried ({more})"
        counts = Counter[FindingKind]()
        for finding in self.findings:
            counts[finding.kind] += finding.orders
        others = [
            _ending(counts["output"] + counts["error"], "end", "differently than recorded"),
            _ending(counts["missing"], "lead", "to something that was never recorded"),
            _ending(counts["endless"], "run", "without end"),
        ]
        said = ", ".join(filter(None, others)) or "every one ends as recorded"
        return f"{tried}: {said}"

    def left_out(self) -> list[str]:
        """Return what no order here could show, a line each; empty for nothing."""
        lines = []
        if self.untried:
            shown = few(self.untried, _GIVEN_UP_SHOWN)
            lines.append(f"cancelled in the recording, and therefore left out: {shown}")
        if self.timers_armed and not self.timers:
            timers = counted(self.timers_armed, "timer")
            lines.append(f"not varied: {timers}; to vary them, use timers=True (--timers)")
        if self.children_left:
            runs = counted(self.children_left, "child run")
            lines.append(f"not explored: {runs}; to explore one, pass its log")
        return lines

    def lines(self, *, every: bool = False) -> Iterator[str]:
        """Yield it as text: the first findings, or `every` one."""
        yield f"{self.where}: {self.headline()}"
        yield from (f"  {each}" for each in self.left_out())
        most = len(self.findings) if every else FINDINGS_SHOWN
        yield from (f"\n{finding}" for finding in self.findings[:most])
        if rest := self.findings[most:]:
            orders = counted(sum(finding.orders for finding in rest), "order")
            yield f"\nand {counted(len(rest), 'more end')}, in {orders}: to list them, add --all"

    def __str__(self) -> str:
        return "\n".join(self.lines())


_GIVEN_UP: Final = "with some order, the program needs an outcome that was never recorded"
FINDINGS_SHOWN: Final = 4
"""Findings that people are shown unless they ask for all."""
_DIFFS_SHOWN: Final = 8
_GIVEN_UP_SHOWN: Final = 3


def _ending(number: int, verb: str, how: str) -> str:
    return f"{number:,} {verb}{'s' * (number == 1)} {how}" if number else ""
