"""Runs a recorded program again for several commands: with its tools, and in silence.

`explore` and `sensitivity` run it many times, so what it prints is dropped; `replay`, of one log or
many, and `demo` run it once a log.  What a rehearsal is, CONTRACT.md §12.8 says.
"""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.api import reexecute
from refold.cli.arguments.loading import import_from_here, joined, load_session, load_tools
from refold.cli.arguments.logs import (
    SAY_IT,
    OpenedLog,
    complain_of_unnamed,
    opened_log,
    program_started,
    refuse_damaged,
    started,
)
from refold.cli.output import output
from refold.engine.errors import ProgramNotFound
from refold.engine.ports.ports import SessionPort, Tool
from refold.engine.ports.programs import names_shipped
from refold.programs.shipped import tools_of
from refold.replay.reexecute.report import ReplayReport

Command = Callable[..., Any]

program_option: Final[Callable[[Command], Command]] = click.option(
    "--program", metavar="MODULE:NAME",
    help="The program as it is now: module:name or file.py:name; not for shipped ones.",
)  # fmt: skip
tools_option: Final[Callable[[Command], Command]] = click.option(
    "--tools", metavar="MODULE:NAME,…", multiple=True, callback=joined,
    help="Tools that the program calls by name, or lists of them.  None is executed.",
)  # fmt: skip


@attrs.frozen
class Subject:
    """One recorded run, with what it takes to run its program again."""

    log: OpenedLog
    program: str | None
    tools: tuple[Tool, ...]
    session: SessionPort | None


@contextlib.contextmanager
def subject(
    log: Path, program: str | None, tools: str, session: str | None, *, command: str
) -> Iterator[Subject | None]:
    """Give what a rehearsal takes; `None` where the program has to be named, which is then said.

    Raises:
        ProgramNotFound: a tool is not where it was said to be.
    """
    import_from_here(program)
    with opened_log(log) as opened:
        run = program_started(opened)
        name = run.program
        if program is None and not names_shipped(run):
            say_which(opened, name, command)
            yield None
            return
        refuse_damaged(opened)
        given = with_own(program, name, load_tools(tools))
        yield Subject(opened, program, given, load_session(session, opened.path))


def with_own(program: str | None, name: str, given: Iterable[Tool]) -> tuple[Tool, ...]:
    """Return tools, with those of a shipped program before them where no other was named."""
    own = () if program is not None else tools_of(name)
    return tuple({tool.name: tool for tool in (*own, *given)}.values())


def say_which(log: OpenedLog, name: str, command: str) -> None:
    """Say that the program `name` has to be named, and the line that does it."""
    program = complain_of_unnamed(name)
    path = shlex.quote(output.shown_path(log.given))
    output.hint(f"refold {command} {path} --program {program}")


def replayed(
    log: OpenedLog,
    program: str | None,
    tools: Iterable[Tool] = (),
    volatile: Iterable[str] = (),
    *,
    session: str | None = None,
) -> ReplayReport:
    """Re-execute a log; a shipped program is known by its name, and gets its tools' types.

    `session` names what makes the run's session, as `--session` does.

    Raises:
        ProgramNotFound: it is none that Refold ships, and none was named.
    """
    run = started(log.path)
    name = run.program
    if program is None and not names_shipped(run):
        raise ProgramNotFound(name, SAY_IT)
    given = with_own(program, name, tools)
    said = f"re-executing {log.given}"
    with output.stdout_kept(), output.marked_as_replay(), output.progress(said):
        made = load_session(session, log.path)
        return reexecute(log.path, program, tools=given, session=made, volatile=volatile)


@contextlib.contextmanager
def dropped_prints() -> Iterator[None]:
    """Drop what programs print: they run many times, and it is no part of our answer."""
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
    ):
        yield
