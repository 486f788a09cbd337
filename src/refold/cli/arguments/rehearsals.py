"""Runs a recorded program again for several commands: with its tools, and in silence.

`explore` runs it many times, so its output is dropped; `replay`, of one log or many, runs it once a
log. CONTRACT.md §12.8 defines rehearsals.
"""

import contextlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from refold.api import reexecute
from refold.cli.arguments.loading import import_from_here, load_session, run_tools
from refold.cli.arguments.logs import OpenedLog, opened_log, program_started, refuse_damaged
from refold.cli.output import output
from refold.engine.events.events import RunStarted
from refold.engine.ports.programs import names_shipped, program_needed
from refold.replay.reexecute.report import ReplayReport

Report = TypeVar("Report")


def rehearsed(
    rehearse: Callable[..., Report],
    log: Path,
    program: str | None,
    tools: str,
    *,
    said: Callable[[], str],
    **options: Any,
) -> tuple[Report, OpenedLog]:
    """Return what `rehearse` finds, which runs a program many times; and its log.

    The program's output is dropped: it is not part of our answer. `said` labels the progress.

    Raises:
        ProgramNotFound: it has to be named, or a tool is not in the named place.
        LogDamaged: the log is not intact.
    """
    import_from_here(program)
    with opened_log(log) as opened:
        run = run_of(opened, program)
        refuse_damaged(opened)
        made = load_session(tools, program, opened.path)
        with (
            Path(os.devnull).open("w", encoding="utf-8") as nowhere,
            contextlib.redirect_stdout(nowhere),
            output.progress(said),
        ):
            given = run_tools(program, run, tools, only_marked=True)
            return rehearse(opened.path, program, tools=given, session=made, **options), opened


def run_of(log: OpenedLog, program: str | None) -> RunStarted:
    """Return the first entry of a program's log, if its program is known.

    Raises:
        ProgramNotFound: it has to be named.
        LogObserved: it is a watched command's.
    """
    run = program_started(log)
    if program is None and not names_shipped(run):
        raise program_needed(run.program)
    return run


def replayed(
    log: OpenedLog,
    program: str | None,
    tools: str = "",
    volatile: Iterable[str] = (),
) -> ReplayReport:
    """Re-execute a log; a shipped program is known by its name, and gets its tools' types.

    `tools` names tools and the run's session, as `--tools` does.

    Raises:
        ProgramNotFound: Refold does not ship it, and none was named.
    """
    run = run_of(log, program)
    said = f"re-executing {log.given}"
    with output.stdout_kept(), output.marked_as_replay(), output.progress(said):
        made = load_session(tools, program, log.path)
        given = run_tools(program, run, tools, only_marked=True)
        return reexecute(log.path, program, tools=given, session=made, volatile=volatile)
