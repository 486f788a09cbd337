"""What `replay` and `fork` do with a command of another program.

Apart from their options: a replay of a program must not load a wire format. Rules: CONTRACT.md §16.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.foreign import proxy_module, sessions
from refold.cli.arguments.logs import OpenedLog, opened_log
from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.cli.output.exit_codes import DIFFERS, FINE, NOT_COMPLETED, USAGE
from refold.cli.output.printed import PrintedFork, PrintedResume
from refold.engine.log.reader import read_entries
from refold.page.output_files import OutputFile
from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import FORK_LINES
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.junit import JUnitCase, JUnitSuite, junit_xml
from refold.replay.index.guarantee import is_observed
from refold.replay.observed.effects import NO_EFFECTS, effects_of
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import ObservedReport

_SHOWN: Final = 8
"""Names of program files that are shown."""
DIFFERENT: Final = "{} of the recorded folder, which COMMAND may run, not as in yours"


def replay_foreign(
    log: Path,
    command: Sequence[str],
    *,
    is_all: bool,
    is_sure: bool,
    junit: OutputFile | None,
    **options: Any,
) -> int:
    """Run a command against a record, and report the differences."""
    started = time.monotonic()
    with opened_log(log) as opened:
        again = sessions().replay_command
        way = _callbacks(log, opened, options.get("copying"), is_sure=is_sure)
        report: ObservedReport = again(opened.path, command, **way, **options)
        sys.stdout.flush()
        report = attrs.evolve(
            report,
            divergences=tuple(_placed(one, opened) for one in report.divergences),
            ignored=tuple(attrs.evolve(one, log=opened.shown(one.log)) for one in report.ignored),
        )
    is_fine = report.identical and not report.unkept
    code = USAGE if report.is_nothing else FINE if is_fine else DIFFERS
    shown = output.shown_path(log)
    if junit is not None:
        failure = (report.headline, str(report)) if code else None
        case = JUnitCase(name=shown, seconds=time.monotonic() - started, failure=failure)
        junit.write(junit_xml([JUnitSuite(name="refold replay", cases=[case])]))
    lines = report.lines(every=is_all or report.answered_otherwise > 0)
    style = "bold red" if report.is_nothing or not report.identical else "green"

    def describe() -> None:  # on standard error: standard output is the command's
        with output.stdout_kept():
            output.report(lines, style)

    return output.answer({**report.as_json(), "log": shown}, describe, code)


def _placed(divergence: Divergence, log: OpenedLog) -> Divergence:
    """Return a divergence whose log is named as it was given."""
    return attrs.evolve(divergence, log=log.shown(divergence.log))


def programs_of(log: Path, record: ObservedRecord) -> tuple[str, ...]:
    """Return the program files of a recorded folder that differ from the user's."""
    found: tuple[str, ...] = proxy_module("copies.current").programs_of(log, record.folder)
    return found


def _effects_text(record: ObservedRecord) -> str:
    """Return which tool calls will be carried out; empty for none."""
    effects = effects_of(record)
    return str(effects) if effects.calls or effects.unread else ""


def _callbacks(
    log: Path,
    opened: OpenedLog,
    copying: Any,
    *,
    is_sure: bool,
    text_of: Callable[[Any], str] = _effects_text,
) -> dict[str, Any]:
    """Return a session's callbacks for printing, and for showing a record before it runs.

    `text_of` describes it. A record that this machine is not known to have made runs only
    in a sandbox, unless the user is sure; at a terminal, people are asked.

    Raises (in the review): UsageError: no sandbox is available, or the person refuses.
    """

    def review(shown: Any, head: str) -> None:
        record: ObservedRecord = getattr(shown, "served", shown)
        if said := text_of(shown):
            output.note((said, "yellow"))
        known, is_asked = proxy_module("recorded_here"), proxy_module("command").is_typed_at()
        if known.is_trusted(log, head):
            return
        if programs := programs_of(opened.path, record):
            named = ", ".join(programs[:_SHOWN])
            count = words.counted(len(programs), "program file")
            output.note((f"{DIFFERENT.format(count)}: {named}", "yellow"))
        if is_sure:
            return
        doubt = f"{output.shown_path(log)} was probably not recorded on this machine"
        listing = f"to list its tool calls, use `{output.command('show', log, '--effects')}`"
        placing = proxy_module("copies.placing")
        if why := placing.why_unboxed(record.folder, copying or placing.Copying()):
            raise click.UsageError(
                f"{doubt}, and nothing was run, because the command would run without a sandbox "
                f"({why}): {listing}; to run it all the same, add --yes"
            )
        if not (is_asked and sys.stderr.isatty()):
            return
        if not click.confirm(f"{doubt}. Run it?", err=True):
            raise click.UsageError(f"nothing was run; {listing}")
        known.remember(head)

    return {"review": review, "write": _write()}


def fork_foreign(log: Path, command: Sequence[str], *, is_sure: bool, **options: Any) -> int:
    """Run a command again, answered from the record up to an entry, and report the differences."""
    options.pop("output", None)  # what it prints is not compared
    with opened_log(log) as opened:
        way = _callbacks(log, opened, options.get("copying"), is_sure=is_sure)
        forked = sessions().fork_command(opened.path, command, **way, **options)
        sys.stdout.flush()
        found = diff(opened.path, forked.log)
        otherwise = [_placed(one, opened) for one in forked.otherwise]
    if otherwise:
        output.complain(
            f"the command's requests differ from the recorded ones before entry {forked.at}"
        )
    for one in otherwise:
        output.note_lines(str(one))
    is_fine = forked.ended.code == 0
    (last,) = deque(read_entries(forked.log, resolve=True), maxlen=1)
    new = output.shown_path(forked.log)
    document = PrintedFork(
        origin=output.shown_path(log),
        at=forked.at,
        log=new,
        status="completed" if is_fine else "failed",
        output=last.data.get("output"),
        diff={**found.as_json(), "a": output.shown_path(log)},
    )

    def describe() -> None:  # on standard error: standard output is the command's
        served = words.counted(forked.served, "request")
        told = f"  forked from {log} at entry {forked.at}: {served} served, {forked.live} live"
        output.note((document.status, output.status_style(document.status)), told)
        command = output.command("diff", document.origin, new, "--all")
        output.note_lines("\n".join(found.lines(FORK_LINES, command)))
        for note in forked.notes:
            output.note((f"note: {note}", "yellow"))
        output.hint(f"1 log: {new}; {output.command('show', new)}")

    code = DIFFERS if forked.otherwise else FINE if is_fine else NOT_COMPLETED
    return output.answer(document, describe, code)


def resume_foreign(
    log: Path, command: Sequence[str], *, is_sure: bool, verb: str = "resumed", **options: Any
) -> int:
    """Run an interrupted command again; ask unanswered requests, and report the result."""
    with opened_log(log) as opened:
        copying = options.get("copying")
        way = _callbacks(log, opened, copying, is_sure=is_sure, text_of=str)
        resumed = sessions().resume_command(opened.path, command, **way, **options)
        sys.stdout.flush()
        different = [_placed(one, opened) for one in resumed.different]
    for one in different:
        output.note_lines(str(one))
    is_fine = resumed.ended.code == 0
    document = PrintedResume(
        origin=output.shown_path(log),
        log=output.shown_path(resumed.log),
        status="completed" if is_fine else "failed",
        served=resumed.served,
        live=resumed.live,
        unasked=resumed.unasked,
        different=tuple(map(str, different)),
        patch=resumed.patch.text if resumed.patch is not None else "",
        applied=resumed.is_applied,
    )

    def describe() -> None:  # on standard error: standard output is the command's
        served = words.counted(resumed.served, "answer")
        told = f"  {verb} from {document.origin}: {served} from the log, {resumed.live} requested"
        output.note((document.status, output.status_style(document.status)), told)
        if resumed.unasked:
            answers = words.counted(resumed.unasked, "recorded answer")
            output.note((f"note: {answers} not requested again", "yellow"))
        for line in resumed.capped:
            output.complain(line)
        for note in resumed.notes:
            output.note((f"note: {note}", "yellow"))
        _print_patch(resumed, applies=bool(options.get("applies")))
        output.hint(f"1 log: {document.log}; {output.command('show', document.log)}")

    is_refused = bool(options.get("applies") and resumed.kept)
    code = FINE if is_fine else NOT_COMPLETED
    return output.answer(document, describe, DIFFERS if different or is_refused else code)


def _print_patch(resumed: Any, *, applies: bool) -> None:
    """Print the copy's differences from the user's folder, and whether they were applied."""
    patch = resumed.patch
    if patch is None or not patch.files:
        return
    files = f"{words.counted(len(patch.files), 'file')} of the copy not as in {patch.folder}"
    if resumed.is_applied:
        output.note(f"applied to {patch.folder}: {patch.names()}")
    elif resumed.kept and applies:
        output.complain(f"nothing was applied: {resumed.kept}")
        output.note_lines(patch.text)
    else:
        advice = "the command failed" if applies else "to write them there, use --copy apply"
        advice = f"no --copy apply: {resumed.kept}" if resumed.kept else advice
        output.note(f"{files}: {patch.names()}; {advice}")


def sensitivity_foreign(log: Path, command: Sequence[str], *, is_sure: bool, **options: Any) -> int:
    """Run a command once for each recorded answer, which fails, and print each reaction."""

    def review(record: ObservedRecord, head: str, count: int) -> None:
        _callbacks(log, opened, options.get("copying"), is_sure=is_sure)["review"](record, head)
        runs = f"{words.counted(count, 'answer')} to fail: {words.counted(count, 'run')}"
        output.note(f"{runs} of the command, one after the other")
        if not is_sure and proxy_module("command").is_typed_at() and sys.stderr.isatty():
            click.confirm("Begin?", err=True, abort=True)

    with opened_log(log) as opened:
        way = {"review": review, "write": lambda _content: None}
        found = list(sessions().failed_answers(opened.path, command, **way, **options))
    rows: list[list[output.Part]] = [["answer to", "the command's reaction to its failure"]]
    rows += [[one.where, str(one)] for one in found]
    answers = [one.as_json() for one in found]
    document = {"log": output.shown_path(log), "fault": options["fault"], "answers": answers}
    return output.answer(document, lambda: output.table(rows, wrap=True), FINE)


def _write() -> Callable[[bytes], None] | None:
    """Return the target of the command's output if standard output is to be one document."""

    def to_stderr(content: bytes) -> None:
        sys.stderr.buffer.write(content)
        sys.stderr.buffer.flush()

    return to_stderr if output.is_json() else None


_CHARS = 120
"""Of the arguments of a tool call."""


def show_effects(log: OpenedLog) -> int:
    """Print the tool calls of a record, and the program files that differ from the user's."""
    record = read_record(log.path) if is_observed(log.path) else None
    found, programs = NO_EFFECTS, tuple[str, ...]()
    if record is not None:
        found = effects_of(record, proxy_module("bookends").here())
        programs = programs_of(log.path, record)

    def describe() -> None:
        output.line(str(found) if record else "the replay of a program does not execute tool calls")
        for each in found.calls:
            arguments = compact(each.arguments, _CHARS)
            output.line(f"  {each.tool} {arguments}  ({each.conversation}, {each.call})")
        if programs:
            output.line(DIFFERENT.format(words.counted(len(programs), "program file")))
        for name in programs:
            output.line(f"  {name}")

    document = {"log": output.shown_path(log.given), **found.as_json(), "programs": [*programs]}
    return output.answer(document, describe)
