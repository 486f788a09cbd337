"""`refold heads`: the heads of root logs, to be kept elsewhere (CONTRACT.md §5.6)."""

import os
import sys
from pathlib import Path
from typing import Final

import attrs
import click

from refold.cli.arguments.logs import json_option, opened_log
from refold.cli.arguments.outputs import force_option, output_option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.cli.output.pages import page
from refold.engine.errors import LogUnsealed, RefoldError
from refold.engine.log.reader import read_entries
from refold.page.output_files import OutputFile
from refold.replay.audit.verify import verify
from refold.replay.bulk.bulk import find_logs
from refold.replay.index.standing import said
from refold.store.kept_heads import KeptHead

_PAGE: Final = """
Examples:
  refold heads runs -o /elsewhere/heads.txt
  refold verify runs --heads /elsewhere/heads.txt

Exit code: 0 all heads are listed · 3 logs were left out: damaged, or without
an end (standard error names them).
"""


@click.command("heads", epilog=page(_PAGE))
@click.argument("places", metavar="LOG...", nargs=-1, required=True, type=RUN)
@output_option("-o", "--out", kind="heads", text="Write the heads to this file.")
@force_option
@json_option
def command(*, places: tuple[Path, ...], out: OutputFile | None) -> int:
    """List the heads of finished root logs, one JSON line each.

    LOG can also be a folder, to list all root logs below it.  Store the list where the writers of
    the logs cannot change it.  `refold verify --heads` then detects logs that were replaced or
    removed, even if they are intact.
    """
    heads, left = list[KeptHead](), list[str]()
    folders = [each for each in places if each.is_dir()]
    for log in find_logs(places):
        try:
            heads.append(
                _head(log, next((each for each in folders if log.is_relative_to(each)), None))
            )
        except RefoldError as error:
            left.append(str(error))
    content = b"".join(each.encoded() for each in heads)
    for each in left:
        output.hint(f"left out: {each}")
    if out is not None:
        out.write(content)

    def describe() -> None:
        if out is None:
            sys.stdout.write(content.decode())
        else:
            output.line(
                (output.shown_path(out.path), "bold"), f"  {words.counted(len(heads), 'head')}"
            )

    return output.answer(
        {"heads": [attrs.asdict(each) for each in heads], "left_out": left}, describe,
        DAMAGED if left else FINE,
    )  # fmt: skip


def _head(log: Path, folder: Path | None) -> KeptHead:
    """Return the head of a finished log.

    Raises:
        RefoldError: the log is damaged, or without an end.
    """
    with opened_log(log) as opened:
        report = verify(opened.path)
        for damage in report.damage:
            raise damage.as_error()
        if not report.complete:
            raise LogUnsealed(str(log), said(opened.path))
        started = next(iter(read_entries(opened.path))).data
        name = os.path.relpath(log, folder) if folder is not None else log.name
        return KeptHead(
            Path(name).as_posix(), str(started.get("run_id", "")), report.entries, report.head
        )
