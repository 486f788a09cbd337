"""`refold view`: the page of runs from a server on loopback (CONTRACT.md §14.16)."""

import contextlib
import secrets
import time
import webbrowser
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import click

from refold.cli.arguments.logs import opened_log
from refold.cli.arguments.options import PORT, argument, declared, option
from refold.cli.arguments.run_list import runs_of
from refold.cli.arguments.run_names import RUNS, RUNS_FOLDER
from refold.cli.output import output
from refold.cli.output.exit_codes import FINE
from refold.cli.output.listed import ListedRun
from refold.engine.errors import RefoldError

_PATIENCE_SECONDS: Final = 1.5
"""The longest time to read runs for the list at once: the next look, seconds later, continues."""

_LANES: Final = 14
"""Agents of a run that the list draws."""


@declared("view", has_json=False)
def command(
    *,
    place: Path = argument(RUNS, "[DIR|LOG]", default=RUNS_FOLDER),
    is_opened: bool = option("Open the page in the browser.", "--open"),
    port: int = option("Local port; by default a free one.", type=PORT, default=0),
) -> int:
    """Show runs in the browser, including running ones.

    DIR is a folder of logs (by default runs/).  LOG is one log, which can be in
    a store.  Nothing is executed or written.

    Examples:
      refold view                        the runs of runs/
      refold view runs/audit.jsonl --open

    The printed address works only on this machine, and lets anyone who has it
    read the runs.  Stop with Ctrl-C.  To get a file: refold export LOG --to html.
    """
    from refold.page.server import Server  # noqa: PLC0415 - not for help pages

    if not place.exists():
        raise click.UsageError(f"{output.shown_path(place)}: no such file or folder")
    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(place, stack)
        first = None if place.is_dir() else quote(place.name)
        try:
            server = Server(runs, secrets.token_urlsafe(24), first=first, port=port)
        except OSError as error:
            raise click.UsageError(f"port {port}: {error.strerror}") from None
        with server, contextlib.suppress(KeyboardInterrupt):
            output.line((server.url, "bold"))
            output.hint("Ctrl-C ends it")
            if is_opened:
                webbrowser.open(server.url)
            server.serve_forever()
    return FINE


class FolderOfRuns:
    """The runs of a folder, or one log, by file name."""

    def __init__(self, place: Path, stack: contextlib.ExitStack) -> None:
        """Read `place`; unpacked files stay until `stack` is closed."""
        self._place = place
        self._stack = stack
        self._unpacked: dict[Path, Path] = {}
        self._counts: dict[Path, tuple[Any, dict[str, Any]]] = {}

    def log(self, run: str) -> Path:
        """Return the log of a run, unpacked where it is packed.

        Raises:
            KeyError: no run has that name.
            RefoldError: it cannot be unpacked.
        """
        found = {each.path.name: each.path for each in runs_of([self._place])}
        return self._plain(found[run])

    def rows(self) -> list[dict[str, Any]]:
        """Return the runs, the newest first; counts of those that were not read yet come later."""
        began = time.monotonic()
        return [
            self._row(each, is_read=time.monotonic() - began < _PATIENCE_SECONDS)
            for each in reversed(runs_of([self._place]))
        ]

    def _row(self, run: ListedRun, *, is_read: bool) -> dict[str, Any]:
        row = {
            "id": run.path.name,
            "path": run.log,
            "status": run.status,
            "standing": run.standing,
            "program": run.program,
            "agent": run.who,
            "started_us": run.wall_us or None,
            "duration_ms": run.duration_ms,
        }
        return row | self._counted(run, is_read=is_read)

    def _counted(self, run: ListedRun, *, is_read: bool) -> dict[str, Any]:
        """Return the data that needs the whole tree: subagents, models, tokens."""
        seen = (run.bytes, run.entries)
        kept, counts = self._counts.get(run.path, (None, {}))
        if kept == seen or not is_read or run.status == "unreadable":
            return counts
        from refold.replay.run.opened_run import OpenedRun  # noqa: PLC0415 - not for help pages

        try:
            read = OpenedRun(self._plain(run.path))
        except RefoldError:
            return {}
        told = read.totals
        counts = {
            "subagents": told["subagents"],
            "failed": told["failed"],
            "tools_failed": told["tools_failed"],
            "models": sorted({model for each in read.agents for model in each.node.models}),
            **told["all"],
            "title": read.title,
            "question": (read.question or {}).get("question", ""),
            "files": len(read.tree.files),
            "lanes": [
                [*each.interval, "failed" if each.node.last_failed else each.status]
                for each in read.agents[:_LANES]
                if each.interval and None not in each.interval
            ],
        }
        self._counts[run.path] = seen, counts
        return counts

    def _plain(self, path: Path) -> Path:
        if path not in self._unpacked:
            self._unpacked[path] = self._stack.enter_context(opened_log(path)).path
        return self._unpacked[path]
