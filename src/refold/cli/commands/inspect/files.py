"""`refold files`: the recorded folder of a watched command, at any entry (CONTRACT.md §16.18)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import opened_log
from refold.cli.arguments.options import argument, declared, option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, FINE
from refold.cli.output.printed import PrintedFile, PrintedFiles
from refold.engine.errors import ContentMissing, UsageError
from refold.engine.workspace.contents import Contents
from refold.engine.workspace.inside import restore
from refold.engine.workspace.paths import as_text
from refold.engine.workspace.tree import FileTree, TreeEntry, is_below
from refold.replay.observed.folder import contents_of, folder_at

_MARKS: Final = {"added": "+", "changed": "~", "removed": "-", "": " "}


@declared("files")
def command(
    *,
    log: Path = argument(RUN),
    path: str = argument(click.STRING, default=""),
    at: int | None = option("The folder after entry N; by default the end."),
    out: Path | None = option(
        "Write the files into DIR, which must be empty or missing.", "-o", "--out DIR"
    ),
) -> int:
    """List, print or restore the folder that a watched command worked in.

    If PATH is a file, it is printed; if it is a folder, its files are listed.  The contents are
    taken from the log and from the git repository in which it was recorded.

    Examples:
      refold files runs/claude.jsonl
      refold files runs/claude.jsonl --at 12 src
      refold files runs/claude.jsonl src/app.py
      refold files runs/claude.jsonl --at 0 -o /tmp/before

    Exit code: 0 success · 2 the log has no folder, or no such file · 3 the
    content of a file is missing, as standard error reports.
    """
    path = path.rstrip("/")
    with opened_log(log) as opened:
        found = folder_at(opened.path, at)
        assert found.started is not None
        start = found.started
        with contents_of(opened.path, found) as contents:
            now = contents.whole(found.tree)
            chosen = [entry for entry in now.differs if is_below(as_text(entry.path), path)]
            if out is not None:
                return _restored(chosen, contents, out)
            if len(chosen) == 1 and as_text(chosen[0].path) == path and not output.is_json():
                sys.stdout.buffer.write(contents.content(chosen[0]))
                return FINE
            listed = tuple(_listed(contents.whole(start.tree), now, path))
    if path and not listed:
        raise UsageError(
            f"{path}: no such file after that entry; to list the files, use "
            f"`{output.command('files', log)}`"
        )
    told = PrintedFiles(
        log=output.shown_path(log),
        folder=as_text(start.path),
        digest=now.digest,
        files=listed,
    )
    return output.answer(told.as_json(), lambda: _describe(told, found.lost))


def _listed(before: FileTree, now: FileTree, path: str) -> Iterator[PrintedFile]:
    paths = sorted(before.by_path.keys() | now.by_path.keys(), key=os.fsencode)
    for each in paths:
        old, new = before.by_path.get(each), now.by_path.get(each)
        shown = new or old
        if shown is None or not is_below(as_text(each), path):
            continue
        change = "" if old == new else "added" if not old else "changed" if new else "removed"
        why = shown.value if shown.kind == "out" else "secret" if shown.kind == "cut" else ""
        yield PrintedFile(
            path=as_text(each), mode=shown.mode, size_bytes=shown.size, change=change, left_out=why
        )


def _describe(told: PrintedFiles, lost: str) -> None:
    for file in told.files:
        why = f"  left out: {file.left_out}" if file.left_out else ""
        size = "" if file.size_bytes is None else words.size(file.size_bytes)
        output.line(_MARKS[file.change], f" {file.mode}  {size:>8}  ", (file.path, "bold"), why)
    changed = sum(bool(file.change) for file in told.files)
    output.line((f"{words.counted(len(told.files), 'file')}, {changed} changed", "dim"))
    if lost:
        output.complain(f"the folder was not recorded up to the end: {lost}")


def _restored(entries: list[TreeEntry], contents: Contents, out: Path) -> int:
    """Write files into an empty folder; report those that could not be restored."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(
            f"--out {out}: expected an empty or new folder, because nothing is overwritten"
        )
    out.mkdir(parents=True, exist_ok=True)
    missing: list[ContentMissing] = restore(entries, contents.content, out)
    for entry in entries:
        if not entry.is_restorable:
            why = "secrets were removed" if entry.kind == "cut" else f"left out: {entry.value}"
            output.hint(f"{as_text(entry.path)}: {why}")
    for each in missing:
        output.complain(str(each))
    return DAMAGED if missing else FINE
