"""`refold why`: what led to an entry, back to the first line of its root (CONTRACT.md §14.14)."""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import (
    OpenedLog,
    continuing,
    edited_in,
    guarantee_of,
    opened_log,
    print_guarantee,
    started,
)
from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.entries import EDITED, STYLES, gist
from refold.cli.output.exit_codes import FINE
from refold.engine.log.reader import read_entries
from refold.replay.audit.why import Cause, causes

_ANSWERED: Final = "model.answered"
_LEVELS_MAX: Final = 12
"""Deeper links are not indented further."""


@declared("why", context_settings={"ignore_unknown_options": True})
def command(
    *,
    log: Path = argument(RUN),
    entry: str = argument(click.STRING, "N"),
    every: bool = option(
        "List all possible causes, the latest first; otherwise at most 200 lines.", "--all"
    ),
) -> int:
    """Show the causes of entry N of a log; -1 is the last entry, 0#1 the outcome of that call.

    The chain of causes leads back to the first entry of the root run, through the logs of
    children and their parents.  Other direct causes of an entry are listed below it.  Nothing is
    executed.

    Examples:
      refold why runs/audit.jsonl 12
      refold why runs/audit.jsonl -1
      refold why runs/audit.jsonl '0#1'
      refold why runs/audit.2.jsonl 5 --all
      refold why report.refold 12 --json

    +1.2 s is the time since the first entry shown.

    The relation of an entry to the line above it:
      after       the last result that was delivered before it
      answers     the request that it answers
      carries     an entry whose text was sent to the model with it
      ends with   the last entry of the child whose outcome it is
      concerns    the request that it cancels, or answers too late
      during      a call that ran while the files changed
      started by  the entry of the parent's log that started this run
      earlier     an earlier entry of the same task or of one below (with --all)
    """
    with opened_log(log) as opened, continuing(opened) as kept:
        with output.progress(f"reading {log}"):
            started(opened.path)  # a file without a first entry has no causes
            most = None if every else output.LINES_MAX
            found = causes(opened.path, _number(opened, entry), every=every, most=most)
        if output.is_json():
            document = opened.named(found.as_json(), "causes")
            document |= {"log": output.shown_path(log), "entry": found.causes[0].seq}
            document |= guarantee_of(opened.path) | ({"verified": False} if kept.skipped else {})
            output.document(document)
            return FINE
        shown = [opened.shown(cause.log) for cause in found.causes]
        lines = _lines(found.causes, shown, every=every)
        output.some(lines, most, found.count - len(found.causes), "link", cut=True)
        print_guarantee(guarantee_of(opened.path))
        if found.causes[0].kind == "run.finished" and found.count == 1:
            _point_to_answer(opened.path, log)
    return FINE


def _point_to_answer(path: Path, log: Path) -> None:
    """Name the last answer of a recorded command, whose end has no cause in the log."""
    answers = (each.seq for each in read_entries(path, torn_ok=True) if each.kind == _ANSWERED)
    for seq in deque(answers, maxlen=1):
        line = output.command("why", log, str(seq))
        output.hint(f"the log has no cause of the command's end; of its last answer: {line}")


def _number(log: OpenedLog, entry: str) -> int:
    """Return the number of an entry, or of the last one of a call."""
    entries = read_entries(log.path, torn_ok=True) if "#" in entry else ()
    calls = {each.call: each.seq for each in entries}
    try:
        return calls.get(entry) or int(entry)
    except ValueError:
        listing = output.command("show", log.given, "--events")
        expected = f"the number of an entry, or a call of `{listing}`"
        raise click.UsageError(f"{entry}: expected {expected}") from None


def _lines(
    found: tuple[Cause, ...], shown: list[str], *, every: bool
) -> Iterator[list[output.Part]]:
    level, before = 0, ""
    edited = {name: edited_in(Path(name)) for name in {each.log for each in found}}
    began_us = min((each.wall_us for each in found if each.wall_us is not None), default=None)
    for cause, name in zip(found, shown, strict=True):
        if name != before and (every or cause.is_main):
            yield [(name, "bold")]
            before = name
        indent = 0 if every else 2 * min(level, _LEVELS_MAX) + (0 if cause.is_main else 4)
        level += cause.is_main
        of = f"of {found[cause.of].seq}" if every and cause.of is not None else ""
        elsewhere = "" if name == before else f"{name} "
        is_edited = (cause.kind, cause.call) in edited[cause.log]
        yield _line(cause, f"{'':{indent}}", of, elsewhere, began_us, is_edited=is_edited)
    last = found[-1]
    if not every and last.seq == 0 and last.data.get("parent"):
        yield [("the parent's log is missing or belongs to a different run", "yellow")]
    if every:
        yield [(words.counted(len(found), "entry", "entries"), "dim")]


def _line(
    cause: Cause, indent: str, of: str, elsewhere: str, began_us: int | None, *, is_edited: bool
) -> list[output.Part]:
    how = "" if cause.of is None else cause.how
    after = ""
    if began_us is not None and cause.wall_us is not None:
        after = f"+{words.seconds((cause.wall_us - began_us) // 1000)}  "
    return [
        (f"{indent}{f'{how} {of}'.strip():<{20 if of else 10}} ", "dim"),
        (elsewhere, "dim"),
        f"{cause.seq} ",
        (cause.kind, STYLES.get(cause.kind, "") if cause.is_main else "dim"),
        f" {cause.call}  " if cause.call else "  ",
        (after, "dim"),
        (f"{cause.where}  " if cause.where else "", "bold"),
        EDITED if is_edited else "",
        *gist(cause.kind, cause.data),
    ]
