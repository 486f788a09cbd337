"""The input of a re-execution, the callbacks during it, and its result."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import Diverged
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.replay.difference.causes import ALL_HINT, CAUSES_SHOWN, cause_texts
from refold.replay.difference.excuses import ignored_lines
from refold.replay.difference.pointer_diff import counted
from refold.replay.explain.causes import likely_cause
from refold.replay.explain.divergence import Divergence, DivergenceReport

_STRUCK_SHOWN: Final = 5


@attrs.frozen(kw_only=True)
class RunAgain:
    """One run that is to be re-executed."""

    log: Path
    program: Program | Reference | str | None
    """`None`: the one that the log names, which Refold ships."""
    tools: Mapping[str, Tool]
    names: tuple[str, ...] = ()
    """From the root down to it; empty for a root."""
    when: tuple[int, ...] = ()
    """Entries of the starts above it, from the root down."""
    session: SessionPort | None = None
    seed: Json = None
    """The snapshot of a child's session at its start; `None` if it is not known."""
    offered: tuple[str, ...] | None = None
    """Names of the tools that a child's parent gives it; `None` for a run that is named itself."""
    volatile: tuple[str, ...] = ()
    """Paths that are not compared, in addition to those that the log lists."""


@attrs.frozen(kw_only=True)
class ReplayReport(DivergenceReport):
    """The result of a re-execution."""

    computed = (*DivergenceReport.computed, "not_compared")

    log: Path
    children: int = 0
    """Child runs that were re-executed, at every depth."""
    tools_executed: int = 0
    """Calls of leaf tools that programs and delegation tools made past `run`; else 0, for outcomes
    come from the record."""
    ends_early: tuple[str, ...] = ()
    """Logs whose record ends before its run did, and that match up to there."""
    timers: int = 0
    """Timers whose length is not compared: they did not fire, or their length is not recorded."""
    struck: tuple[str, ...] = ()
    """Timers that did not fire and would have, as the times of the record's lines show."""
    unread: tuple[str, ...] = ()
    """Child runs that left no log: they were killed before they wrote a line."""

    behind: tuple[str, ...] = ()
    """Logs with bytes behind their end, which no run wrote."""
    unmatched: tuple[str, ...] = ()
    """Sentences about volatile paths that match nothing in the run."""
    unpassed: tuple[str, ...] = ()
    """Tools of the run that were not passed, so that their definitions were not compared."""
    redefined: tuple[str, ...] = ()
    """Tools that were passed and whose definitions have changed; no request shows it."""

    def plus(self, other: "ReplayReport") -> "ReplayReport":
        """Return the report of both, under the name of this one's log."""
        names = [field.name for field in attrs.fields(ReplayReport) if field.name != "log"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return ReplayReport(log=self.log, **sums)

    def below(self, when: tuple[int, ...]) -> "ReplayReport":
        """Return it with its divergences in the place of the start of its run."""
        found = tuple(attrs.evolve(each, when=when) for each in self.divergences)
        return attrs.evolve(self, divergences=found)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """What could have changed unseen, a line each."""
        unread = []
        if self.timers:
            why = "cancelled before it fired, or recorded without a length"
            unread.append(f"the length of {counted(self.timers, 'timer')} ({why})")
        unread += [f"{timer}, which would have fired" for timer in self.struck[:_STRUCK_SHOWN]]
        unread += [f"{child}, which left no log" for child in self.unread]
        unread += [f"the bytes after the end of {name}" for name in self.behind]
        if self.unpassed:
            names = f"{counted(len(self.unpassed), 'tool')} ({', '.join(self.unpassed)})"
            unread.append(f"the definitions of {names}: pass tools=… (--tools)")
        changed = "its definition has changed"
        unread += [f"what the tool {name} does: {changed}" for name in self.redefined]
        return tuple(unread)

    def check(self) -> None:
        """Raise the first divergence, if there is one.

        Raises:
            Diverged: with the divergence as its data.
        """
        if self.divergences:
            raise Diverged(self.divergences[0])

    def lines(self, *, every: bool = False, standing: str = "") -> Iterator[str]:
        """Yield it as text; with `every`, all divergences and ignored values, each in full.

        `standing` is that of a run without an end.
        """
        if self.identical:
            compared = counted(self.entries, "entry", "entries")
            runs, ran = counted(self.children, "child run"), self.tools_executed
            yield f"identical: {compared}, {runs}; tool calls executed: {ran}"
            if self.ends_early:
                records = counted(len(self.ends_early), "log")
                how = f" ({standing})" if standing else ""
                yield f"  {records} without an end{how}: identical up to that point"
            yield from (f"  not compared: {each}" for each in self.not_compared)
        else:
            damaged = sum(each.category == "log_damaged" for each in self.divergences)
            if damaged:
                yield f"{counted(damaged, 'log')} damaged"
            if diverged := len(self.divergences) - damaged:
                yield f"{counted(diverged, 'run')} diverged"
            whole = (f"\n{each.in_full()}" for each in self.divergences)
            yield from whole if every else cause_texts(self.causes, CAUSES_SHOWN)
            is_cut = len(self.causes) > CAUSES_SHOWN or any(e.follows for e in self.causes)
            yield from [f"\n{ALL_HINT}"] * (is_cut and not every)
        yield from (f"note: {each}" for each in self.unmatched)
        yield from ignored_lines(self.ignored, self.ignored_count, every=every)

    def __str__(self) -> str:
        return "\n".join(self.lines())


@attrs.frozen
class Watch:
    """Callbacks for a re-execution that may not come to its end."""

    on_end: Callable[[], None]
    """The last line of an unfinished record has matched."""
    on_difference: Callable[[Divergence], None]
    """A line differed; its category is not known yet."""
    on_return: Callable[[], None]
    """The program has ended: what takes time from now on is the children's re-execution."""


def damaged(log: Path, names: tuple[str, ...], recorded: str, now: Json = None) -> Divergence:
    """Return the divergence for a damaged log: its recorded and its current state."""
    return Divergence(
        category="log_damaged",
        where=" > ".join(names) or "root",
        log=str(log),
        recorded=recorded,
        now=now,
        cause=likely_cause("log_damaged", (), {}),
    )
