"""`refold demo`: what Refold does, in ten seconds, without key, model or network.

Records a survey of a source tree by subagents, then runs the commands that show, verify, replay and
compare logs. The programs are those of `programs.survey`.
"""

import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

import click

from refold.cli.arguments.options import UserPath, argument, declared, log_option, option
from refold.cli.output import output, words
from refold.cli.output.exit_codes import FINE, NOT_COMPLETED
from refold.engine.errors import LogExists
from refold.engine.log.names import SUFFIX, check_root, children, fresh_path
from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.programs.survey import PARTS, SKIPPED, TESTS, survey_tools
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode

_JOBS: Final = min(4, (os.cpu_count() or 1) + 1)
"""Subagents that work at the same time."""
_RUNNERS: Final = {"a": "subprocess", "b": "in-process"}
"""The runners of the two recordings of one part, by the letter at the end of their names."""


@declared("demo", has_json=False)
def command(
    *,
    path: Path | None = argument(
        UserPath(exists=True, file_okay=False, path_type=Path), required=False
    ),
    log: Path | None = log_option,
    faults: bool = option("Add subagents that hang, flood, crash and are refused."),
) -> int:
    """Survey a source tree with subagents, and record, show, verify, replay and diff the runs.

    Each part of the tree is surveyed by a subagent that runs in its own process and reads files
    through tools.  PATH is a folder with Python files; by default, it is Python's standard
    library.

    Examples:
      refold demo
      refold demo --faults          with four children that fail
      refold demo src/ --log runs/mine.jsonl

    Exit code: 0 all checks passed · 5 the survey did not complete · 3, 1 as for
               verify and replay.
    """
    log = _fresh(log)
    _heading("record", f"a survey of {path or _title(path)} by {_JOBS} subagents at a time")
    with output.progress(lambda: _progress(log)):
        program = "survey_with_faults" if faults else "survey_tree"
        recording = _recorded(path, program, log, {}, runner="subprocess")
    code = _ran("show", log)
    if recording.summary:
        output.line(recording.summary)
    if not recording.ok:
        return NOT_COMPLETED
    code = code or _ran("verify", log) or _ran("replay", log)
    if code == FINE and (part := _smallest(delegation_tree(log))):
        code = _ran("diff", *_recorded_twice(path, log, part))
    if code == FINE:
        if faults:
            output.line()
            output.line("The faults are intended: the log has each as an outcome, and replays it.")
        _heading("Try next", "")
        for each in _next(log, has_faults=faults):
            output.line(f"  {each}")
    return code


def _fresh(log: Path | None) -> Path:
    """Return where to record; refuse at once what could only be refused later.

    Raises:
        LogExists: something is there.
        LogNameRefused: no root's log can have that name.
    """
    if log is None:
        return fresh_path("demo")
    check_root(log)
    for each in (log, *_part_logs(log)):
        if each.exists():
            raise LogExists(str(each))
    return log


def _part_logs(log: Path) -> list[Path]:
    return [log.with_name(f"{log.stem}-{letter}{SUFFIX}") for letter in _RUNNERS]


def _title(path: Path | None) -> str:
    """Return the surveyed folder by its name in the log: never a path of this machine."""
    if path is not None:
        return path.resolve().name or "the root folder"
    return f"the standard library of Python {sys.version_info[0]}.{sys.version_info[1]}"


def _recorded(
    path: Path | None, program: str, log: Path, more: dict[str, Any], **way: Any
) -> Recording:
    """Record a survey of a folder whose task includes `more`."""
    skip = [*SKIPPED, *(TESTS if path is None else ())]
    task = {"title": _title(path), "skip": skip, "jobs": _JOBS, "parts": PARTS, **more}
    tools = survey_tools(path or Path(sysconfig.get_path("stdlib")))
    return record(program, task, log=log, tools=tools, **way)


def _progress(log: Path) -> str:
    started = len(children(log)) if log.exists() else 0
    return f"recording: {words.counted(started, 'subagent')} started"


def _heading(step: str, what: str) -> None:
    output.line()
    output.line((f"{step} ", "bold magenta"), (what, "bold"))


def _ran(verb: str, *logs: Path) -> int:
    """Print a command, run it, and return its exit code."""
    root = click.get_current_context().find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, verb)
    assert command is not None
    _heading("$", output.command(verb, *logs))
    code: int = command.main([*map(str, logs)], standalone_mode=False)
    return code


def _recorded_twice(path: Path | None, log: Path, part: str) -> list[Path]:
    """Record one part twice more, on two runners, and return the logs."""
    _heading("record", f"{part}, in a subprocess and then in this process")
    logs = _part_logs(log)
    with output.progress(f"recording {part} twice"):
        for each, runner in zip(logs, _RUNNERS.values(), strict=True):
            way: dict[str, Any] = {"runner": runner, "seed": 1, "clock": FixedClock()}
            _recorded(path, "survey_tree", each, {"only": [part]}, **way)
    return logs


def _smallest(tree: RunNode) -> str:
    """Return the top-level name that was the fastest to survey, or empty."""
    done = [
        (child.duration_ms or 0, names[0])
        for child in tree.children
        if child.status == "completed" and isinstance(child.input, dict)
        and (names := [*child.input.get("packages", ()), *child.input.get("modules", ())])
    ]  # fmt: skip
    return min(done)[1] if done else ""


def _next(log: Path, *, has_faults: bool) -> list[str]:
    """Return commands to try, after the one that puts `refold` on the shell's path if needed."""
    first_child = log.with_name(f"{log.stem}.1{SUFFIX}")
    commands = [
        output.command("show", log, "--details"),
        output.command("show", first_child, "--events"),
        *(() if has_faults else ("refold demo --faults",)),
        output.command("export", log, "--to", "refold"),
    ]
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("refold") is not None or not activate.is_file():
        return commands
    shown = min(str(activate), os.path.relpath(activate), key=len)
    return [f"source {shlex.quote(shown)}", *commands]
