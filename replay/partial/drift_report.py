"""A report of the drift, call by call, for people, machines and CI services.

Pure: it defines the texts of differences and does not find them. The rules are CONTRACT.md §12.10.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.errors import OutcomeMissing
from refold.replay.difference.excuses import Ignored, ignored_lines
from refold.replay.difference.pointer_diff import Difference, differing
from refold.replay.explain.junit import JUnitCase, JUnitSuite
from refold.replay.partial.sources import Sources

DriftVerdict = Literal["same", "result_changed", "arguments_changed", "new", "missing"]


@attrs.frozen(kw_only=True)
class CallDrift(Document):
    """What became of one call."""

    where: str
    """`survey > reader[2] > search#3 (q="x")`: names from the root run down."""
    call: str
    """Its call key now; of a missing one, the recorded key; empty for the end of the run."""
    kind: str
    """`tool`, `model`, `child`, `input` or `output`."""
    name: str
    verdict: DriftVerdict
    consequent: bool = False
    """Whether it may follow from an earlier result that changed."""
    noise: bool = False
    """Whether two live runs can differ here."""
    recorded: Json = None
    now: Json = None
    diff: tuple[Difference, ...] = ()

    @property
    def is_drift(self) -> bool:
        """Whether it is a difference of its own."""
        return self.verdict != "same" and not self.noise


@attrs.frozen(kw_only=True)
class DriftReport(Document):
    """What differs between a record and a run with live outcomes."""

    computed = ("identical", "counts")

    log: Path
    into: Path | None
    """The log of the new run, if requested."""
    calls: tuple[CallDrift, ...]
    missing: tuple[OutcomeMissing, ...]
    """Requests that were neither recorded nor allowed to run: the new run stops there."""
    sources: Sources
    ignored: tuple[Ignored, ...] = ()
    """Ignored differences, volatile or redacted; at most 1,000."""
    ignored_count: int = 0
    """How many these are in all."""
    served: tuple[str, ...] = ()
    """Calls whose results came from the record or were stubs, so that they could not drift:
    `tool pay (2)`, `model gpt-4o (1)`, by kind and name."""

    unmatched: tuple[str, ...] = ()
    """A sentence for each volatile path that was passed and matches nothing in the record."""

    @property
    def drifted(self) -> tuple[CallDrift, ...]:
        """What differs, noise left out, consequences included."""
        return tuple(row for row in self.calls if row.is_drift)

    @property
    def identical(self) -> bool:
        """Whether nothing drifted and nothing was missing."""
        return not self.drifted and not self.missing

    @property
    def counts(self) -> dict[str, int]:
        """How many calls there are of each verdict, and how many are consequent or noise."""
        found: dict[str, int] = dict.fromkeys(_VERDICTS, 0)
        for row in self.calls:
            found[row.verdict] += 1
        found["consequent"] = sum(row.consequent for row in self.calls)
        found["noise"] = sum(row.noise for row in self.calls)
        return found

    def junit(self) -> JUnitSuite:
        """Return the report for a CI service: one case a call."""
        cases = [
            JUnitCase(
                name=row.where,
                seconds=0.0,
                failure=(row.verdict, row_text(row)) if row.is_drift else None,
                skipped="noise: two live runs can differ here" if row.noise else "",
            )
            for row in self.calls
        ]
        cases += [
            JUnitCase(name=one.call, seconds=0.0, error=("missing", str(one)))
            for one in self.missing
        ]
        return JUnitSuite(name=str(self.log), cases=cases)

    def lines(self, *, every: bool = False) -> Iterator[str]:
        """Yield it as text; with `every`, all ignored values."""
        head, marks = self._counted(_VERDICTS), self._counted(("consequent", "noise"))
        head = f"{head} ({marks})" if marks else head
        yield f"{'no drift' if self.identical else 'drift'}: {head or 'no call was made'}"
        yield from (row_text(row) for row in self.calls if row.verdict != "same")
        yield from (f"missing   {one}" for one in self.missing)
        if self.served:
            why = "because their results were recorded ones"
            yield f"not compared, {why}: {', '.join(self.served)}"
        yield from ignored_lines(self.ignored, self.ignored_count, every=every)
        yield from (f"note: {each}" for each in self.unmatched)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _counted(self, names: Iterable[str]) -> str:
        counts = [(name.replace("_", " "), self.counts[name]) for name in names]
        return ", ".join(f"{count} {name}" for name, count in counts if count)


_VERDICTS: Final[tuple[DriftVerdict, ...]] = (
    "same", "result_changed", "arguments_changed", "new", "missing",
)  # fmt: skip
_WORDS: Final[dict[str, str]] = {
    "result_changed": "a different result",
    "arguments_changed": "different arguments",
    "new": "not recorded",
    "missing": "no longer requested",
}
_DIFFS_SHOWN: Final = 6


def row_text(row: CallDrift) -> str:
    """Return a call that differs, and where, as lines for people."""
    marks = ["consequent"] * row.consequent + ["noise"] * row.noise
    tail = f"  ({', '.join(marks)})" if marks else ""
    lines = [f"{row.verdict}: {_WORDS.get(row.verdict, 'the same')}  {row.where}{tail}"]
    return "\n".join(lines + differing(row.diff, _DIFFS_SHOWN))
