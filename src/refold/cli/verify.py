"""`refold verify`: are logs intact and complete?  Three answers, never one (CONTRACT.md §5)."""

import re
from pathlib import Path
from typing import Any, Final

import click

from refold.cli import output, words
from refold.cli.errors import DAMAGED, FINE
from refold.cli.logs import LOG, OpenedLog, json_option, opened_log
from refold.cli.pages import page
from refold.engine.log.damage import TORN_TAIL
from refold.replay.verify import LEAVES_INTACT, OTHER_HEAD, LogReport, Verification, verify

_SHOWN: Final = 10
"""Places of damage that people are shown of one tree."""
_HEAD_DIGITS: Final = 64
_HEX: Final = re.compile(r"[0-9a-f]*\Z")


_PAGE: Final = """
intact     every line chains to the one above it, entries make sense
           together, parents and children name each other
complete   sealed at its end, or its head is the one kept elsewhere
authentic  signed (nothing is, so far)

Examples:
  refold verify runs/audit.jsonl
  refold verify runs/*.jsonl --json
  refold verify runs/audit.jsonl --expect-head 5859a211…

Exit code: 0 intact and complete · 3 not.
"""


@click.command("verify", epilog=page(_PAGE))
@click.argument("logs", metavar="LOG…", type=LOG, nargs=-1, required=True)
@click.option("--expect-head", metavar="HASH", help="The head kept elsewhere: of one LOG only.")
@json_option
def command(*, logs: tuple[Path, ...], expect_head: str | None, as_json: bool) -> int:
    """Check logs, and those of all runs below them.

    Nothing is executed.  A log cut off at the end of a line still chains: to
    notice that, keep the head that a recording prints and give it here.
    """
    if expect_head is not None and len(logs) > 1:
        raise click.UsageError("--expect-head is the head of one log; give one LOG")
    if expect_head is not None:
        expect_head = _whole_head(expect_head)
    found = [_verified(log, expect_head, as_json=as_json) for log in logs]
    if as_json:
        output.document(
            {
                "logs": [log for each in found for log in each["logs"]],
                "intact": all(each["intact"] for each in found),
                "complete": all(each["complete"] for each in found),
                "authentic": None,
            }
        )
    return FINE if all(each["intact"] and each["complete"] for each in found) else DAMAGED


def _whole_head(given: str) -> str:
    """Return a head as logs spell it.

    Raises:
        UsageError: it is no head, or a part of one.
    """
    head = given.strip().lower()
    if not _HEX.match(head):
        raise click.UsageError(f"a head has {_HEAD_DIGITS} hex digits, and nothing else")
    if len(head) != _HEAD_DIGITS:
        raise click.UsageError(f"a head has {_HEAD_DIGITS} hex digits, this has {len(head)}")
    return head


def _verified(given: Path, expect_head: str | None, *, as_json: bool) -> dict[str, Any]:
    with opened_log(given) as log, output.progress(f"verifying {given}"):
        verification = verify(log.path, expect_head=expect_head)
        document = document_of(verification, log)
    if not as_json:
        describe(verification, log)
    return document


def document_of(verification: Verification, log: OpenedLog) -> dict[str, Any]:
    """Return the document of one tree, its files named as they were given."""
    document = verification.as_json()
    for report in document["logs"]:
        report["path"] = log.shown(report["path"])
        for damage in report["damage"]:
            damage["path"] = log.shown(damage["path"])
    return document


def describe(verification: Verification, log: OpenedLog) -> None:
    """Print the three answers for one tree, and what is wrong with it."""
    entries = sum(report.entries for report in verification.logs)
    count = len(verification.logs)
    output.line((output.shown_path(log.given), "bold"))
    what = f"{words.counted(count, 'log')}, {words.counted(entries, 'entry', 'entries')}"
    output.line("  intact     ", _answer(verification.intact), f"  {what}")
    output.line("  complete   ", _answer(verification.complete), f"  {_ends(verification, log)}")
    output.line("  authentic  ", ("-  ", "dim"), "  not signed")
    if verification.head:
        output.line(f"  head       {verification.head}")
    for damage in verification.damage[:_SHOWN]:
        output.line(
            (f"  {log.shown(damage.path)}:{damage.line}", "red"),
            f" (byte {damage.byte}): {damage.what}",
        )
        output.line(f"    expected {damage.expected}")
        output.line(f"    found    {damage.found}")
    rest = len(verification.damage) - _SHOWN
    if rest > 0:
        output.line((f"  and {words.counted(rest, 'more place')}: --json lists them", "dim"))


def _answer(is_so: bool) -> tuple[str, str]:  # noqa: FBT001 - the answer itself
    return ("yes", "green") if is_so else ("NO ", "bold red")


def _ends(verification: Verification, log: OpenedLog) -> str:
    root = verification.root
    unsealed = [report for report in verification.logs if not report.complete]
    if not unsealed:
        return "every log is sealed, or its parent holds its head"
    for report in unsealed:
        if not report.intact:
            which = "the log" if report is root else Path(log.shown(report.path)).name
            return f"not judged: {which} is damaged at line {_damaged_at(report)}"
    if any(damage.what == OTHER_HEAD for damage in root.damage):
        return "its head is not the expected one"
    if root in unsealed:
        return "no seal: the run is still going on, crashed, or its log was cut"
    for report in unsealed:
        if any(damage.what == TORN_TAIL for damage in report.damage):
            return f"{Path(log.shown(report.path)).name} has a torn tail"
    return f"{words.counted(len(unsealed), 'child log')} missing, or without an end"


def _damaged_at(report: LogReport) -> int:
    """Return the first line that makes a log not intact."""
    return next(each.line for each in report.damage if each.what not in LEAVES_INTACT)
