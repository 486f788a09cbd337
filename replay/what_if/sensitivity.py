"""`sensitivity`: which recorded outcomes does a run depend on, and which are unused?

Each outcome in turn (a tool's result, a model's answer, a child's outcome, a person's answer, a
drawn value) is replaced by a different one of its type, and the program is rehearsed with all
others as recorded. If later requests change, the outcome *steers*; if the end of the run changes,
it *shows*; else the run does not depend on it. `replay.what_if.alter` changes values;
`replay.what_if.rehearsal` runs the program. Rules: CONTRACT.md §12.9.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.errors import RefoldError, UsageError
from refold.engine.events.events import ChildFinished, Event, ToolReturned, in_order
from refold.engine.ports.effects import RunChild
from refold.engine.ports.ports import Tool
from refold.engine.ports.programs import program_name
from refold.replay.difference.pointer_diff import Difference, counted, differences, few, same
from refold.replay.index.asked_items import Item
from refold.replay.index.by_call import AskedCall, Book, label_of
from refold.replay.what_if.alter import (
    altered_draw,
    altered_event,
    altered_within,
    fits,
    is_failure,
)
from refold.replay.what_if.rehearsal import RehearsalPlan, Rehearsed, Stage


@attrs.frozen(kw_only=True)
class Influence(Document):
    """What came of altering one outcome."""

    computed = ("steers", "shows")

    changed: str = ""
    """The first request that changed, or empty."""
    changed_call: str = ""
    is_gone: bool = False
    """Whether `changed` is not made any more at all."""
    diff: tuple[Difference, ...] = ()
    """From the recorded end of the run to this one, by JSON pointers; empty if it is the same."""
    stopped: str = ""
    """Why the run did not come to an end; empty if it did."""
    of_error: bool = False
    """Whether the call had failed and nothing depends on its error: a success was not tried."""

    @property
    def steers(self) -> bool:
        """Whether a later request changed."""
        return bool(self.changed)

    @property
    def shows(self) -> bool:
        """Whether the end of the run changed."""
        return bool(self.diff)

    def __str__(self) -> str:
        """Return what depends on the outcome, in a few words."""
        parts = [self._shown()] if self.diff else []
        if self.changed:
            parts.append(f"steers {self.changed}{', which is not made' * self.is_gone}")
        if self.stopped:
            parts.append(self.stopped)
        nothing = "nothing depends on its error; a success was not tried"
        return "; ".join(parts) or (nothing if self.of_error else "nothing depends on it")

    def _shown(self) -> str:
        status = next((one.after for one in self.diff if one.pointer == "/status"), None)
        if status is not None:
            return f"the run ends as {status}"
        return f"shows in {few([one.pointer for one in self.diff], _POINTERS_SHOWN)}"


@attrs.frozen(kw_only=True)
class CallSensitivity(Document):
    """What depends on one recorded outcome."""

    computed = ("verdict",)

    call: str
    kind: str
    """`tool`, `model`, `child`, `input` or `value`."""
    label: str
    """`search#3 in 0/1 (q="b")`."""
    altered: Influence | None
    """`None` if no different value of its type exists, as for null."""
    tokens: int = 0
    """Input and output tokens that it took, a child's included."""
    duration_ms: int = 0

    @property
    def is_tried(self) -> bool:
        """Whether an outcome was altered in more than the error of a failure."""
        return self.altered is not None and not self.altered.of_error

    @property
    def is_unneeded(self) -> bool:
        """Whether nothing changed when it was altered."""
        return self.altered is not None and self.altered == Influence()

    @property
    def verdict(self) -> str:
        """`nothing`, `steers`, `shows`, `steers and shows`, or `not altered`."""
        if self.altered is None:
            return "not altered"
        named = {"steers": self.altered.steers or bool(self.altered.stopped)}
        named["shows"] = self.altered.shows
        return " and ".join(name for name, is_so in named.items() if is_so) or "nothing"


@attrs.frozen(kw_only=True)
class SensitivityReport(Document):
    """What depends on which recorded outcome, in the order of call keys."""

    computed = ("unneeded", "tokens_unneeded", "duration_unneeded_ms")

    log: Path
    program: str
    calls: tuple[CallSensitivity, ...]
    unnamed: int = 0
    """Outcomes that `only` left out."""
    given_up: tuple[str, ...] = ()
    """Calls that have no outcome, so that none could be altered."""

    @property
    def unneeded(self) -> tuple[CallSensitivity, ...]:
        """Those that nothing depends on."""
        return tuple(call for call in self.calls if call.is_unneeded)

    @property
    def tokens_unneeded(self) -> int:
        """Tokens spent on them."""
        return sum(call.tokens for call in self.unneeded)

    @property
    def duration_unneeded_ms(self) -> int:
        """Time that they took, one after the other."""
        return sum(call.duration_ms for call in self.unneeded)

    def as_json(self) -> dict[str, Any]:
        """Return the report as a JSON object, in which `unneeded` is a count."""
        return super().as_json() | {"unneeded": len(self.unneeded)}

    def left_out(self) -> list[str]:
        """Return the outcomes that were not altered, as lines; empty for none."""
        lines = []
        if unaltered := sum(call.altered is None for call in self.calls):
            lines.append(f"not altered, because no other value is possible: {unaltered:,}")
        if failures := sum(bool(call.altered) and not call.is_tried for call in self.calls):
            lines.append(f"altered only in its error, because the call failed: {failures:,}")
        if self.unnamed:
            lines.append(f"not altered, because not selected: {self.unnamed:,}")
        if self.given_up:
            shown = few(self.given_up, _POINTERS_SHOWN)
            lines.append(f"cancelled in the recording, so without an outcome: {shown}")
        return lines

    def headline(self) -> str:
        """Return in one line how much was got for nothing."""
        found, altered = self.unneeded, [call for call in self.calls if call.altered]
        outcomes = counted(len(self.calls), "recorded outcome")
        is_all = all(call.is_tried for call in altered)
        which = f"every {'one' if is_all else 'success'} that could be altered"
        said = f"{outcomes}; the run depends on {which}"
        if found:
            spent = _spent(self.tokens_unneeded, self.duration_unneeded_ms)
            said = f"nothing depends on {len(found):,} of {outcomes} ({spent})"
        return f"{self.program}: {said if altered else f'{outcomes}, none altered'}"

    def lines(self) -> Iterator[str]:
        """Yield it as text: a line for each outcome, with what was spent on it."""
        yield self.headline()
        for call in self.calls:
            spent = "" if call.kind == "value" else f" ({_spent(call.tokens, call.duration_ms)})"
            yield f"  {call.label}{spent}: {call.altered or 'has no other value of its type'}"
        yield from self.left_out()

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _spent(tokens: int, duration_ms: int) -> str:
    return f"{counted(tokens, 'token')}, {duration_ms:,} ms"


_POINTERS_SHOWN: Final = 3


def influences(
    stage: Stage, *, only: str, on_call: Callable[[int, int], None] | None
) -> SensitivityReport:
    """Alter each outcome of a record in turn, and report its effects (`refold.sensitivity`).

    Raises:
        Diverged: the program does not match its log.
        UsageError: the program cannot run again, or ends differently the second time; or `only`
            is in the label of no call.
    """
    book = stage.book
    baseline = stage.baseline()
    trial = _Trial(stage, baseline)
    known = {*book.requests, *book.values}
    outcomes = [key for key in (*book.answers, *book.values) if key in known]
    named = [key for key in outcomes if only in label_of(_item_of(book, key))]
    if outcomes and not named:
        labels = few(sorted({label_of(_item_of(book, key)) for key in outcomes}), 3)
        raise UsageError(f"only={only!r}: no call has this in its label; the labels are {labels}")
    keys = sorted(named, key=in_order)
    calls = []
    for number, key in enumerate(keys, 1):
        if on_call is not None:
            on_call(number, len(keys))
        calls.append(trial.of(key))
    stage.check_again(baseline)
    return SensitivityReport(
        log=book.log,
        program=program_name(stage.program),
        calls=tuple(calls),
        unnamed=len(outcomes) - len(named),
        given_up=tuple(book.label(call) for call in book.given_up),
    )


class _Trial:
    """One run whose outcomes are altered, one after the other."""

    def __init__(self, stage: Stage, baseline: Rehearsed) -> None:
        self._stage, self._baseline, self._book = stage, baseline, stage.book
        self._asked = {one.call: one for one in baseline.asked}
        children = {child.call: child for child in baseline.children}
        self._called: dict[str, Tool | RunChild] = {**baseline.tools, **children}

    def of(self, key: str) -> CallSensitivity:
        """Return what depends on the outcome of one call."""
        book = self._book
        usage = book.usage.get(key)
        item = _item_of(book, key)
        found = self._strongest(self._plans(key))
        if found == Influence() and item.kind in ("tool", "model", "child"):
            found = Influence(of_error=is_failure(book.answers[key].event))
        return CallSensitivity(
            call=key,
            kind=item.kind,
            label=label_of(item),
            altered=found,
            tokens=usage.input_tokens + usage.output_tokens if usage else 0,
            duration_ms=book.durations_us.get(key, 0) // 1000,
        )

    def _plans(self, key: str) -> Iterator[RehearsalPlan]:
        """Yield rehearsals in which this outcome has a different value of its type."""
        drawn = self._book.values.get(key)
        if drawn is None:
            for event in self._variants(key, self._book.answers[key].event):
                yield RehearsalPlan(answers={key: event}, by_place=True)
        elif drawn.source in ("uuid", "random"):
            yield RehearsalPlan(seeds=frozenset({key}), by_place=True)
        elif not same(value := altered_draw(drawn), drawn.value):
            yield RehearsalPlan(values={key: value}, by_place=True)

    def _variants(self, key: str, event: Event) -> Iterator[Event]:
        """Yield other events that the type of the tool or child, if any, can be read from."""
        asked = self._called.get(key)
        others = [*altered_event(event)]
        if fitting := [one for one in others if fits(asked, one)]:
            yield from fitting
            return
        match event:
            case ToolReturned():
                result = altered_within(
                    event.result, lambda value: fits(asked, attrs.evolve(event, result=value))
                )
                if not same(result, event.result):
                    yield attrs.evolve(event, result=result)
            case ChildFinished(outcome=outcome):
                output = altered_within(
                    outcome.output, lambda value: fits(asked, _with_output(event, value))
                )
                yield from (_with_output(other, output) for other in others)

    def _strongest(self, plans: Iterator[RehearsalPlan]) -> Influence | None:
        """Return the first influence that shows, else the first that there is."""
        found: Influence | None = None
        for plan in plans:
            try:
                influence = self._influence(self._stage.rehearse(plan))
            except RefoldError:  # what was altered cannot be taken up again: a setting, say
                continue
            if influence.shows:
                return influence
            found = influence if found is None or found == Influence() else found
        return found

    def _influence(self, found: Rehearsed) -> Influence:
        changed, is_gone = self._first_changed(found)
        match found.how:
            case "ended":
                diff, stopped = differences(self._baseline.end, found.end), ""
            case "missing":
                what = label_of(found.missing) if found.missing else "more"
                diff, stopped = (), f"waits for {what}, which was never recorded"
            case "endless" | "hung":
                diff, stopped = (), "does not end"
        return Influence(
            changed=label_of(changed.item) if changed else "",
            changed_call=changed.call if changed else "",
            is_gone=is_gone,
            diff=diff,
            stopped=stopped,
        )

    def _first_changed(self, found: Rehearsed) -> tuple[AskedCall | None, bool]:
        """Return the first request that is not the recorded one, and whether it is not made."""
        for asked in found.asked:
            recorded = self._asked.get(asked.call)
            if recorded is None or recorded.identity != asked.identity:
                return asked, False
        made = {asked.call for asked in found.asked}
        gone = next((one for call, one in self._asked.items() if call not in made), None)
        return gone, gone is not None


def _with_output(event: Any, output: Json) -> ChildFinished:
    return ChildFinished(attrs.evolve(event.outcome, output=output))


def _item_of(book: Book, key: str) -> Item:
    if key in book.requests:
        return book.requests[key].item
    drawn = book.values[key]
    return Item("value", drawn.source, {"name": drawn.name}, key)
