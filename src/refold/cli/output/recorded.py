"""Reports a run that was recorded or continued: in lines, or as one document."""

from pathlib import Path

from refold.cli.output import output, words
from refold.cli.output.entries import compact
from refold.cli.output.exit_codes import DIFFERS, FINE, NOT_COMPLETED
from refold.engine.runners.recorded import Recording
from refold.replay.run.opened_run import OpenedRun


def answer(recording: Recording, *, again: str) -> int:
    """Report a run, and return the exit code; `again` is the command that continues it."""
    document = recording.as_json() | {"log": output.shown_path(recording.log)}
    return output.answer(document, lambda: describe(recording, again=again), code_of(recording))


def code_of(recording: Recording) -> int:
    """Return the exit code of a run that was recorded or continued; warn if it does not replay."""
    if recording.replays is False:
        output.complain(*recording.warnings[-1].split("\n"))
        return DIFFERS
    return FINE if recording.ok else NOT_COMPLETED


def describe(recording: Recording, *, again: str) -> None:
    """Print a run's output and the place of its log; `again` is the command that continues it.

    For a suspended run, print its open questions.
    """
    plain = recording.output_json
    said = plain if isinstance(plain, str) else recording.summary
    if said:
        output.lines(said)
    elif plain is not None:
        output.line(compact(plain))
    if recording.error is not None:
        output.complain(f"{recording.status}: {recording.error.code}: {recording.error.message}")
    if recording.questions:
        _describe_suspended(recording)
    told = (run := OpenedRun(recording.log)).totals
    facts = [
        words.counted(recording.entries, "entry", "entries"),
        words.requests(told["requests"], told["requests_failed"]),
        words.spent(run.tree.usage),
        words.seconds(recording.duration_ms),
    ]
    output.hint(f"\nrecorded in {output.shown_path(recording.log)}: {', '.join(facts)}")
    output.hint(f"head {recording.head}")
    output.hint(again if recording.questions else output.command("show", recording.log))


def hint_recorded(log: Path, entries: int) -> None:
    """Name the log that a command was recorded in, and what shows it."""
    count = words.counted(entries, "entry", "entries")
    output.hint(f"recorded in {output.shown_path(log)}: {count}; {output.command('show', log)}")


def _describe_suspended(recording: Recording) -> None:
    from refold.cli.output.people import describe_questions  # noqa: PLC0415 - few runs are suspended

    answers = words.counted(len(recording.questions), "answer")
    output.complain(f"suspended: waiting for {answers}")
    describe_questions(recording.questions)
