"""`refold recover`: how far logs verify, what follows, what can be kept (CONTRACT.md §4.5)."""

import re
import shlex
from pathlib import Path
from typing import Final

import attrs
import click

from refold.cli.arguments.logs import LOG, OpenedLog, json_option, opened_log
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.cli.output.pages import page
from refold.cli.output.printed import ReadLog, RecoveredState, Recovery, Rest, SalvagedLog
from refold.engine.log.damage import TORN_TAIL, Damage
from refold.engine.log.names import SUFFIX, root_of, tree
from refold.engine.log.reader import open_log
from refold.engine.log.recovery import tail
from refold.engine.log.salvaging import Prefix, prefix_of, salvage
from refold.replay.audit.verify import LogReport, verify
from refold.replay.index.guarantee import is_observed

_PAGE: Final = """
torn tail   a crash cut the last write short: no entry is lost, and `refold
            resume` removes it
damaged     bytes were changed, lost or added: the run cannot be resumed, and
            --salvage keeps the entries before the damage
joined      a child that broke off, up to the end that its parent recorded

Examples:
  refold recover runs/audit.jsonl
  refold recover runs/audit.jsonl --salvage runs/salvaged.jsonl
  refold verify runs/salvaged.jsonl

The new log ends with an entry x-refold.salvaged.  It is intact but not
complete.  LOG and the files beside it do not change.

Exit code: 0 finished and intact, or salvaged · 3 torn, damaged, missing or
without an end.
"""

_KIND: Final = re.compile(rb'\{"seq":[0-9]+,"kind":"([a-z][a-z0-9._-]*)"')
_STYLES: Final = {"sealed": "green", "joined": "green", "open": "yellow", "torn": "yellow"}
_SOUND: Final = ("sealed", "joined")
_SHOWN: Final = 48


@click.command("recover", epilog=page(_PAGE))
@click.argument("log", type=RUN)
@click.option(
    "--salvage", "out", type=LOG, metavar="OUT", help="Copy the valid entries to a new log."
)
@json_option
def command(*, log: Path, out: Path | None) -> int:
    """Report how much of a log, and of its descendants' logs, is valid.

    Nothing is executed or changed.  --salvage copies the valid entries, including those of
    children's logs, to a new log.
    """
    with opened_log(log) as opened, output.progress(f"reading {log}"):
        found = [prefix_of(path) for path in tree(opened.path) if path.is_file()]
        reports = {report.path: report for report in verify(opened.path).logs}
        made = None
        if out is not None:
            new = salvage(opened.path, out)
            made = SalvagedLog(
                log=output.shown_path(new.log),
                entries=new.source.entries,
                head=new.head,
                children=sum(1 for child in new.children if child.entries),
                blobs=new.blobs,
                contents=new.contents,
                is_sealed=new.source.is_sealed,
            )
        logs = [_read(each, opened, reports.pop(str(each.path), None)) for each in found]
        logs += [_missing(report, opened) for report in reports.values()]
        is_resumable = not is_observed(opened.path) if found[0].entries else False

    def describe() -> None:
        for each in logs:
            _describe(each)
        if made is None:
            _advise(logs, log, is_resumable=is_resumable)
        else:
            kept = words.counted(made.entries, "entry", "entries")
            below = words.counted(made.children, "child log")
            output.line(("salvaged", "green"), f"  {made.log}: {kept}, {below}")
            output.line(f"  head {made.head}")

    is_fine = made is not None or all(each.state in _SOUND for each in logs)
    document = Recovery(logs=tuple(logs), salvaged=made)
    return output.answer(document, describe, FINE if is_fine else DAMAGED)


def _read(found: Prefix, log: OpenedLog, report: LogReport | None) -> ReadLog:
    wrong = found.wrong or (report.broken if report else None)  # sound, or they do not fit together
    return ReadLog(
        path=log.shown(found.path),
        state=_state(found, wrong, report),
        entries=found.entries,
        head=found.head,
        bytes=found.size,
        kept_bytes=found.offset,
        damage=attrs.evolve(wrong, path=log.shown(wrong.path)) if wrong else None,
        tail=_tail(found) if found.size > found.offset else None,
    )


def _missing(report: LogReport, log: OpenedLog) -> ReadLog:
    """Return the data of a child's log that is missing, or is not a plain file."""
    path = log.shown(report.path)
    return ReadLog(path=path, state="missing", damage=attrs.evolve(report.damage[0], path=path))


def _state(found: Prefix, wrong: Damage | None, report: LogReport | None) -> RecoveredState:
    if wrong is not None:
        is_torn = wrong.what == TORN_TAIL and not found.is_sealed  # none is torn off a seal
        return "torn" if is_torn else "damaged"
    if found.is_sealed:
        return "sealed"
    return "joined" if report is not None and report.complete else "open"


def _tail(found: Prefix) -> Rest:
    """Return what follows the entries that verify: how much, its digest, how it begins."""
    with open_log(found.path) as file:
        size, digest = tail(file.fileno(), found.offset)
        file.seek(found.offset)
        begins = file.read(200)
    kind = _KIND.match(begins)
    return Rest(
        bytes=size,
        sha256=digest,
        kind=kind[1].decode() if kind else "",
        begins=begins[:_SHOWN].decode(errors="backslashreplace"),
    )


def _describe(log: ReadLog) -> None:
    count = words.counted(log.entries, "entry", "entries")
    output.line((log.path, "bold"))
    state = log.state
    output.line("  ", (state, _STYLES.get(state, "bold red")), f"  {count} verify")
    if log.damage is not None and state in ("damaged", "missing"):
        damage = log.damage
        what = words.damage(damage.what)
        output.line(f"  line {damage.line} (byte {damage.byte}): {what}")
        output.line(f"    expected {damage.expected}")
        output.line(f"    found    {damage.found}")
    if log.tail is not None:
        tail = log.tail
        what = f", a cut {tail.kind}" if state == "torn" and tail.kind else ""
        output.line(f"  behind them {words.counted(tail.bytes, 'byte')}{what}: {tail.begins}")


def _advise(logs: list[ReadLog], given: Path, *, is_resumable: bool) -> None:
    """Print the next steps: keep the verified part, look closer, or continue the run."""
    top, states = logs[0].state, {log.state for log in logs}
    is_lossy = any(_is_lossy(log, top) for log in logs)
    if is_lossy and logs[0].entries:
        name = f"salvaged-{root_of(given.with_suffix(SUFFIX)).name}"
        new = output.folder_beside(given) / name
        both = " --salvage ".join(shlex.quote(output.shown_path(each)) for each in (given, new))
        output.hint(f"to save the valid entries: refold recover {both}")
    elif is_lossy:
        output.hint("no entry is valid: use a copy of the log, if there is one")
    elif states & {"damaged", "missing"}:
        name = shlex.quote(output.shown_path(given))
        output.hint(f"the hashes are valid, but the entries are inconsistent: refold verify {name}")
    elif top in ("torn", "open") and is_resumable:
        name = shlex.quote(output.shown_path(given))
        tail = ", without the torn tail" if top == "torn" else ""
        output.hint(f"to resume the run{tail}: refold resume {name}")


def _is_lossy(log: ReadLog, top: str) -> bool:
    """Return whether nobody takes off what follows the entries of a log: a resume would, a tail."""
    is_left = log.state == "torn" and top in _SOUND
    return is_left or (log.state == "damaged" and log.tail is not None)
