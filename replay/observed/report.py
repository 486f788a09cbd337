"""Reports the replay of a watched command: its changed requests, and how it ended.

Every form of the report names the guarantee: requests were matched, and the command itself ran
freely. Rules: CONTRACT.md §16.6.
"""

import glob
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.observed.binding import Bindings
from refold.engine.observed.file_names import pattern_of
from refold.engine.observed.profile import EXACT
from refold.engine.workspace.paths import names_of
from refold.replay.difference.causes import ALL_HINT, CAUSES_SHOWN, cause_texts
from refold.replay.difference.excuses import IGNORED_SHOWN
from refold.replay.difference.pointer_diff import Difference, counted, differences, few
from refold.replay.difference.text_diff import text_changes
from refold.replay.explain.divergence import Divergence, DivergenceReport
from refold.replay.index.guarantee import MATCHED
from refold.replay.observed.changes import item_of, may_use_network
from refold.replay.observed.explaining import ANSWERED, all_divergences, repeats_refusal
from refold.replay.observed.ignoring import places_of
from refold.replay.observed.matching import Matcher
from refold.replay.observed.printed import advice, compared
from refold.replay.observed.reads import notes_on
from refold.replay.observed.record import OUTPUT, ObservedRecord, RecordedTurn
from refold.replay.observed.titles import place_of

__all__ = ["ObservedReport", "ended_otherwise", "joined", "report_of"]

_EXIT_CODE: Final = "/arguments/exit_code"
_STDOUT: Final = "/arguments/stdout"
_FILES: Final = "/arguments/files/"
_NAMES_SHOWN: Final = 8
"""Files that a cause names."""
BARE: Final = "the copy has "
"""The beginning of a note that matters only where something differs."""
OFFLINE: Final = "this call may have used the network: the sandbox has none; --copy network"


@attrs.frozen(kw_only=True)
class ObservedReport(DivergenceReport):
    """One replay of a watched command."""

    computed = (*DivergenceReport.computed, "guarantee")

    log: str
    program: str
    requests: int
    """Recorded."""
    served: int
    """Of them, asked again and answered from the record."""
    live: int
    """Requests without a recorded answer that were sent to the live server."""
    answered_otherwise: int
    """Requests that asked something else than was recorded, and were answered as recorded."""
    conversations: int
    rules: dict[str, Json]
    """The rules for values that were not compared: {volatile, volatile_texts}."""
    exit_code: int | None
    """The command's exit code; `None` if it does not end."""
    profile: str = ""
    """The name of the command's profile; empty without one."""
    files: str = ""
    """Whose files it ran on, if they are not of the recorded folder."""
    unused: tuple[str, ...] = ()
    """Files that have changed since the recording, and that it ran without."""
    uncompared: str = ""
    """Why today's folder was not compared with the recorded one; empty if it was."""
    unfit: str = ""
    """What this machine lacks that the recorded one had; empty if nothing is known."""
    unkept: str = ""
    """Why the copy was not kept, though it was to be; empty if it was."""
    notes: tuple[str, ...] = ()
    """What else is to be known of this replay, in words."""

    @property
    def is_nothing(self) -> bool:
        """Whether a command made no request at all; then its equal end proves nothing."""
        is_asked = any(one.now and one.category != "output_changed" for one in self.divergences)
        is_nothing = self.exit_code is not None and not (self.served or self.live or is_asked)
        return is_nothing and bool(self.requests or not self.divergences)

    @property
    def guarantee(self) -> str:
        """`matched`: requests were matched, and the command itself ran freely."""
        return MATCHED

    @property
    def identical(self) -> bool:
        """Whether all was asked again, nothing else was, and the command ended alike.

        True of nothing, too: see `is_nothing`.
        """
        return not (self.divergences or self.answered_otherwise)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data, in which nothing is not identical."""
        return super().as_json() | {"identical": self.identical and not self.is_nothing}

    def ignored_lines(self) -> list[str]:
        """Return the ignored values as lines for people: their number, then the places."""
        if not self.ignored_count:
            return []
        places = places_of(self.ignored)
        lines = [f"ignored: {counted(self.ignored_count, 'value')} that changed"]
        lines += [f"  {place}" for place in places[:IGNORED_SHOWN]]
        if len(places) > IGNORED_SHOWN:
            lines.append(f"  … and {len(places) - IGNORED_SHOWN} places more")
        return lines

    @property
    def headline(self) -> str:
        """The result and its counts: `identical: 2 of 2 recorded requests served, …`."""
        served = f"{self.served} of {counted(self.requests, 'recorded request')} served"
        talks = counted(self.conversations, "conversation")
        said = "identical" if self.identical else counted(len(self.divergences), "difference")
        if self.identical and self.unused:
            have = "has" if len(self.unused) == 1 else "have"
            said += f" on the recorded files; {len(self.unused)} {have} changed since: "
            said += f"{names_of(self.unused)}; `--copy today` uses them"
        if self.identical and self.uncompared:
            said += " on the recorded files; today's were not compared"
        if self.is_nothing:
            said = "the command sent no request" if self.requests else "nothing to replay"
        if self.unfit and not self.identical:
            said = f"could not be replayed here: {self.unfit}; {said}"
        live = f"; requests sent by the proxy: {self.live}" if self.live else ""
        return f"{said}: {served}, in {talks}{live}"

    def lines(self, *, every: bool = True) -> Iterator[str]:
        """Yield it for people: what differs, by cause; the verdict; and what was not compared."""
        is_fine = self.identical and not self.is_nothing
        verdict = f"{self.headline}; guarantee: {MATCHED}"
        if self.is_nothing:
            yield verdict
        if not is_fine:
            texts = cause_texts(self.causes, None if every else CAUSES_SHOWN)
            yield from "\n".join(texts).removeprefix("\n").split("\n")
            yield from [ALL_HINT] * (len(self.causes) > CAUSES_SHOWN and not every)
            yield ""
        if not self.is_nothing:
            yield verdict
        yield from filter(None, [self.files, self.profile and f"profile: {self.profile}"])
        yield from self.ignored_lines()
        for name, values in self.rules.items():
            yield f"not compared ({name}): {', '.join(map(str, values))}"
        yield from [f"not kept: --copy keep:{self.unkept}"] * bool(self.unkept)
        for note in self.notes:
            if not (is_fine and note.startswith(BARE)):
                yield f"note: {note}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


@attrs.frozen(kw_only=True)
class FailedAnswer(Document):
    """How a command reacted to a failed answer, up to its first new request."""

    call: str
    """The request whose answer failed."""
    where: str
    made: Literal["asked again", "went on", "gave up"]
    """`asked again`: the same request.

    `went on`: a different request, or all recorded ones.
    `gave up`: a recorded request was not made, or the exit code differs.
    """
    question: str
    """The first new request: its place, and its change; empty without one."""
    exit_code: int | None
    """If there was a new question, it was refused before the command ended."""

    def __str__(self) -> str:
        end = self.question or f"ended with code {self.exit_code}"
        return self.made if self.made == "asked again" else f"{self.made}: {end}"


def failed_answer(
    record: ObservedRecord, turn: RecordedTurn, report: ObservedReport
) -> FailedAnswer:
    """Return the report on an answer that failed in a replay."""
    asked = [one for one in report.divergences if one.now and one.category != "output_changed"]
    left = any(one.category in ("missing_call", "unconsumed") for one in report.divergences)
    made: Literal["asked again", "went on", "gave up"] = "went on"
    question = f"{asked[0].where}: {asked[0].cause}" if asked else ""
    if asked and isinstance(now := asked[0].now, dict):
        is_again = now["arguments"] == item_of(turn.asked, "")["arguments"]
        made = "asked again" if is_again else "went on"
    elif left or report.exit_code != record.exit_code:
        made = "gave up"
    return FailedAnswer(
        call=turn.call, where=place_of(record, turn), made=made, question=question,
        exit_code=report.exit_code,
    )  # fmt: skip


def without_network(report: ObservedReport) -> ObservedReport:
    """Return the report of a replay without a network, which says so of calls that may need one."""
    return attrs.evolve(
        report,
        divergences=tuple(
            attrs.evolve(each, cause=f"{each.cause.removesuffix(tail)}; {OFFLINE}{tail}")
            if may_use_network(each.diff, each.now or {})
            else each
            for each in report.divergences
            for tail in [f"; {ANSWERED}" if each.cause.endswith(ANSWERED) else ""]
        ),
    )


def report_of(
    record: ObservedRecord,
    matcher: Matcher,
    *,
    live: int,
    output: dict[str, Json] | None,
    files: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> ObservedReport:
    """Return the report of a finished replay.

    `output` is the command's end as in `run.finished`; `None` without a command. `files` are the
    files that differ at the end, by path: as recorded, and as they are now.
    """
    found = all_divergences(record, matcher)
    if output is not None and not (found and repeats_refusal(output.get("stdout"))):
        found += ended_otherwise(
            record, matcher.bindings, output, is_likely_consequence=bool(found)
        )
    found += left_otherwise(record, *files, is_likely_consequence=bool(found))
    code = output.get("exit_code") if output is not None else None
    rules = record.rules.as_json()
    if output is not None and record.output != EXACT:
        rules[OUTPUT] = [record.output]
    return ObservedReport(
        log=str(record.path),
        program=record.started.program,
        requests=len(record.turns),
        served=sum(turn.is_served for turn in record.turns),
        live=live,
        answered_otherwise=sum(one.answered_as is not None for one in matcher.misses),
        conversations=len({turn.scope for turn in record.turns}),
        entries=record.entries,
        divergences=tuple(found),
        rules=rules,
        exit_code=code if isinstance(code, int) else None,
        ignored=tuple(matcher.ignoring.found),
        ignored_count=matcher.ignoring.count,
        notes=(
            *record.notes,
            *matcher.bindings.lines(),
            *_notes(matcher),
            *notes_on(matcher.reads()),
            *_printed_otherwise(record, matcher.bindings, output),
            *(_unproven(matcher.bindings) if found else ()),
        ),
    )


def _notes(matcher: Matcher) -> Iterator[str]:
    if lent := sum(one.answered_as is not None for one in matcher.misses):
        yield (
            f"{ANSWERED}: {counted(lent, 'request')}; each change is listed at the "
            "first request that has it, and later requests that repeat it are counted"
        )
    if not (count := matcher.by_order):
        return
    were = "1 request was" if count == 1 else f"{count} requests were"
    yield (
        f"{were} made at the same time as an identical one with a different "
        "answer: which request got which answer depended on their order of "
        "arrival, both now and in the recording"
    )


def _unproven(bindings: Bindings) -> Iterator[str]:
    """Name what seems to be a commit, and what binds one."""
    if bindings.unproven:
        yield (
            f"compared as text: {few([*bindings.unproven], 3)}; the id of a commit may differ if "
            "the recorded folder has its repository (--workspace DIR), and both are equal but for "
            "their times and authors"
        )


def _printed_otherwise(
    record: ObservedRecord, bindings: Bindings, output: dict[str, Json] | None
) -> list[str]:
    """Report output that differs from the recorded one without counting as a difference."""
    ended = record.finished.output if record.finished is not None else None
    if output is None or not isinstance(ended, dict) or ended.get("stdout") == output.get("stdout"):
        return []
    if record.output == EXACT:
        told = "the command's output matches the recorded one, except for ignored text"
        printed = bindings.as_recorded_text(bindings.as_printed(str(output.get("stdout"))))
        is_bound = printed == ended.get("stdout")
        return [] if is_bound or ended_otherwise(record, bindings, output) else [told]
    told = "the command's output differs from the recorded one; compared: "
    return [f"{told}--volatile output:{record.output}"]


def joined(found: Iterable[Divergence], others: Sequence[Divergence]) -> tuple[Divergence, ...]:
    """Return what differs here and elsewhere: asked otherwise, then not asked, then the end."""
    both = sorted([*found, *others], key=_rank)
    if others and both[-1].category == "output_changed":
        cause = _why(both[-1].diff, is_likely_consequence=True)
        both[-1] = attrs.evolve(both[-1], cause=cause)
    return tuple(both)


def _rank(divergence: Divergence) -> int:
    if divergence.category == "output_changed":
        return 2
    return 1 if divergence.category in ("missing_call", "unconsumed") else 0


def ended_otherwise(
    record: ObservedRecord,
    bindings: Bindings,
    output: dict[str, Json],
    *,
    is_likely_consequence: bool = False,
) -> list[Divergence]:
    """Return a divergence if the command ended differently; `output` as in `run.finished`.

    A record without an end, or without a command, is not compared. Volatile texts are not compared.
    """
    if record.finished is None or record.finished.output is None:
        return []
    before, now = record.finished.output, output
    if isinstance(before, dict):
        before, now = compared(record, bindings, before, output)
    diff = differences(_end(before), _end(now))
    if not diff:
        return []
    cause = _why(diff, is_likely_consequence=is_likely_consequence) + _advice(record, diff)
    texts = [one for one in diff if one.pointer == _STDOUT]
    return [_end_changed(record, record.finished.output, output, diff, texts, cause)]


def left_otherwise(
    record: ObservedRecord,
    before: Mapping[str, str],
    now: Mapping[str, str],
    *,
    is_likely_consequence: bool = False,
) -> list[Divergence]:
    """Return a divergence if files are not as the recorded command left them.

    `before` and `now` hold what differs.  Texts that are volatile are not compared.
    """
    ends: list[dict[str, Json]] = []
    for one, other in ((before, now), (now, before)):
        files = {
            path: text
            for path, text in one.items()
            if path not in other or record.rules.text(text) != record.rules.text(other[path])
        }
        ends.append({"files": files})
    diff = differences(_end(ends[0]), _end(ends[1]))
    if not diff:
        return []
    cause = _why(diff, is_likely_consequence=is_likely_consequence)
    ended = record.finished.output if record.finished is not None else None
    printed = ended.get("stdout") if isinstance(ended, dict) else None
    kept = [path for path in before if printed and before[path] == printed]
    if kept:
        options = " ".join(f"--volatile {shlex.quote(f'file:{path}')}" for path in kept)
        cause += f"; if a shell redirected the output there, ignore it: {options}"
    others = [path for path in {**before, **now} if path not in kept]
    if others and not is_likely_consequence:
        ignored = dict.fromkeys(f"file:{pattern_of(glob.escape(path))}" for path in others)
        options = " ".join(f"--volatile {shlex.quote(each)}" for each in [*ignored][:_NAMES_SHOWN])
        cause += f"; if they change on every run, or another process writes them: {options}"
    return [_end_changed(record, ends[0], ends[1], diff, diff, cause)]


def _end_changed(
    record: ObservedRecord, before: Json, now: Json, diff: tuple[Difference, ...],
    texts: Sequence[Difference], cause: str,
) -> Divergence:  # fmt: skip
    return Divergence(
        category="output_changed",
        where=record.started.program,
        log=str(record.path),
        seq=record.entries - 1,
        recorded=_end(before),
        now=_end(now),
        diff=diff,
        texts=text_changes(texts),
        cause=cause,
    )


def _advice(record: ObservedRecord, diff: Sequence[Difference]) -> str:
    for one in diff:
        if one.pointer == _STDOUT and isinstance(one.before, str) and isinstance(one.after, str):
            return advice(record, one.before, one.after)
    return ""


def _end(output: Json) -> dict[str, Any]:
    return {"kind": "run.finished", "name": "", "call": "", "arguments": output}


def _why(diff: tuple[Difference, ...], *, is_likely_consequence: bool) -> str:
    pointers = {one.pointer for one in diff}
    code = next((one for one in diff if one.pointer == _EXIT_CODE), None)
    said = f"the command exited with status {code.after} instead of {code.before}" if code else ""
    found = [each.removeprefix(_FILES) for each in sorted(pointers) if each.startswith(_FILES)]
    names = [each.replace("~1", "/").replace("~0", "~") for each in found]
    if names:
        rest = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        said = f"the command left different files: {', '.join(names[:_NAMES_SHOWN])}{rest}"
    elif pointers - {_EXIT_CODE}:
        said += " and printed" if said else "the command printed"
        said += " something else"
    if is_likely_consequence:
        return f"{said}; this may follow from the first difference"
    return f"{said}, although every request got its recorded answer"
