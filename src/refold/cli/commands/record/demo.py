"""`refold demo`: what Refold does, in ten seconds, without key, model or network.

Records a survey of a source tree by subagents, shows its delegation tree, then verifies it,
re-executes it, and compares two recordings of one part. The programs are those of
`programs.survey`; each step does the work of the command of the same name.
"""

import contextlib
import os
import shlex
import shutil
import sys
import sysconfig
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, UserPath, json_option, log_option
from refold.cli.arguments.rehearsals import dropped_prints, replayed
from refold.cli.commands.check.replay import describe as describe_replay
from refold.cli.commands.check.verify import describe as describe_verification
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE, NOT_COMPLETED
from refold.cli.output.printed import PrintedDemo
from refold.cli.output.trees import print_tree
from refold.engine.errors import LogExists
from refold.engine.log.names import SUFFIX, check_root, children, fresh_path
from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.programs.survey import PARTS, SKIPPED, TESTS, survey_tools
from refold.replay.audit.verify import verify
from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import LogDiff
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode

JOBS: Final = min(4, (os.cpu_count() or 1) + 1)
_RUNNERS: Final = {"a": "subprocess", "b": "in-process"}
"""The inputs of the two recordings of one part, by the letter at the end of their names."""


@click.command("demo")
@click.argument("path", required=False, type=UserPath(exists=True, file_okay=False, path_type=Path))
@log_option
@click.option(
    "--faults", is_flag=True, help="Add subagents that hang, flood, crash and are refused."
)
@click.option(
    "--jobs", type=click.IntRange(1, 16), default=JOBS, show_default=True,
    help="Number of subagents that work at the same time.",
)  # fmt: skip
@json_option
def command(*, path: Path | None, log: Path | None, faults: bool, jobs: int) -> int:
    """Survey a source tree with subagents, and record, show, verify, replay and diff the runs.

    Each part of the tree is surveyed by a subagent that runs in its own process and reads files
    through tools.  PATH is a folder with Python files; by default, it is Python's standard
    library.

    Examples:
      refold demo
      refold demo --faults          with four children that fail
      refold demo src/ --log runs/mine.jsonl --jobs 2

    Exit code: 0 all checks passed · 5 the survey did not complete · 3, 1 as for
               verify and replay.
    """
    log = _fresh(log)
    with dropped_prints() if output.is_json() else contextlib.nullcontext():
        document, code = _demonstrated(_Survey(path, jobs), log, faults=faults)
    return output.answer(document, lambda: None, code)


def _fresh(log: Path | None) -> Path:
    """Return where to record; refuse at once what could only be refused later.

    Raises:
        LogExists: something is there.
        LogNameRefused: no root's log can have that name.
    """
    if log is None:
        return fresh_path("demo")
    check_root(log)
    for each in (log, *(_part_log(log, letter) for letter in _RUNNERS)):
        if each.exists():
            raise LogExists(str(each))
    return log


def _part_log(log: Path, letter: str) -> Path:
    return log.with_name(f"{log.stem}-{letter}{SUFFIX}")


@attrs.frozen
class _Survey:
    """The surveyed folder, and the settings."""

    path: Path | None
    jobs: int

    @property
    def title(self) -> str:
        """The surveyed folder by its name in the log: never a path of this machine."""
        if self.path is not None:
            return self.path.resolve().name or "the root folder"
        return f"the standard library of Python {sys.version_info[0]}.{sys.version_info[1]}"

    def record(self, program: str, log: Path, more: dict[str, Any], **way: Any) -> Recording:
        """Record a survey whose task includes `more`."""
        skip = [*SKIPPED, *(TESTS if self.path is None else ())]
        task = {"title": self.title, "skip": skip, "jobs": self.jobs, "parts": PARTS, **more}
        tools = survey_tools(self.path or Path(sysconfig.get_path("stdlib")))
        return record(program, task, log=log, tools=tools, **way)


def _demonstrated(survey: _Survey, log: Path, *, faults: bool) -> tuple[PrintedDemo, int]:
    """Run all steps, the later ones only if there is something to show; return the results.

    The exit code is the first failed step's.
    """
    began = time.monotonic()
    what = survey.title if survey.path is None else str(survey.path)
    _heading("record", f"a survey of {what} by {survey.jobs} subagents at a time")
    with output.progress(lambda: _progress(log)):
        program = "survey_with_faults" if faults else "survey_tree"
        recording = survey.record(program, log, {}, runner="subprocess")
    tree = delegation_tree(log)
    print_tree(tree)
    if recording.summary:
        output.line(recording.summary)
    document = PrintedDemo(
        log=output.shown_path(log),
        status=recording.status,
        reason=recording.reason,
        error=recording.error,
        summary=recording.summary,
        children=dict(Counter(child.status for child in tree.children)),
    )
    code = NOT_COMPLETED
    if recording.ok:
        part = _smallest(tree)
        document, code = _checked(document, survey, log, part)
        if code == FINE:
            _print_proof(document, log, part, time.monotonic() - began, faults=faults)
    return attrs.evolve(document, duration_ms=round((time.monotonic() - began) * 1000)), code


def _progress(log: Path) -> str:
    started = len(children(log)) if log.exists() else 0
    return f"recording: {words.counted(started, 'subagent')} started"


def _heading(step: str, what: str) -> None:
    output.line()
    output.line((f"{step}  ", "bold magenta"), (what, "bold"))


def _checked(
    document: PrintedDemo, survey: _Survey, log: Path, part: str
) -> tuple[PrintedDemo, int]:
    """Verify and replay a survey, and compare two recordings of one part of it, if it has any."""
    opened = OpenedLog(log, log)
    _heading("verify", "the chain of hashes is unbroken, and parents and children match")
    found = verify(log)
    describe_verification(found, opened)
    _heading("replay", "the programs run again, with results from the logs")
    replay = replayed(opened, None)
    describe_replay(replay)
    comparison = _compared(survey, log, part) if part else None
    is_same = replay.identical and (comparison is None or comparison.identical)
    document = attrs.evolve(
        document,
        intact=found.intact,
        complete=found.complete,
        identical=replay.identical,
        tools_executed=replay.tools_executed,
        entries=replay.entries,
        differences=comparison.count if comparison else None,
    )
    is_sound = found.intact and found.complete
    return document, (FINE if is_same else DIFFERS) if is_sound else DAMAGED


def _compared(survey: _Survey, log: Path, part: str) -> LogDiff:
    """Record one part twice more, on two runners, and compare."""
    _heading("diff", f"{part}, recorded in a subprocess and then in this process")
    logs = {_part_log(log, letter): runner for letter, runner in _RUNNERS.items()}
    with output.progress(f"recording {part} twice"):
        for each, runner in logs.items():
            way: dict[str, Any] = {"runner": runner, "seed": 1, "clock": FixedClock()}
            survey.record("survey_tree", each, {"only": [part]}, **way)
        found = diff(*logs)
    output.lines(str(found))
    return found


def _print_proof(
    document: PrintedDemo, log: Path, part: str, seconds: float, *, faults: bool
) -> None:
    runs = words.counted(document.children.get("completed", 0), "subagent")
    entries = words.counted(document.entries or 0, "entry", "entries")
    output.line()
    output.line(("What this shows  ", "bold magenta"), f"({seconds:.1f} s in all)")
    output.line(f"  {runs} did real work, which is recorded in {entries}.")
    ran = document.tools_executed
    output.line(f"  Run again from the logs: tool calls executed: {ran}, differences: 0.")
    if faults:
        output.line(
            "  These faults are intended: each is recorded as an outcome in the log, "
            "and is replayed too."
        )
    output.line()
    output.line(("Try next", "bold magenta"))
    for each in _next(log, has_parts=bool(part), has_faults=faults):
        output.line(f"  {each}")


def _smallest(tree: RunNode) -> str:
    """Return the top-level name that was the fastest to survey, or empty."""
    done = [
        (child.duration_ms or 0, names[0])
        for child in tree.children
        if child.status == "completed" and isinstance(child.input, dict)
        and (names := [*child.input.get("packages", ()), *child.input.get("modules", ())])
    ]  # fmt: skip
    return min(done)[1] if done else ""


def _next(path: Path, *, has_parts: bool, has_faults: bool) -> list[str]:
    log = shlex.quote(str(path))
    first_child = shlex.quote(str(path.with_name(f"{path.stem}.1{SUFFIX}")))
    commands = [
        f"refold show {log} --details",
        f"refold show {first_child} --events",
        f"refold replay {log}",
    ]
    if has_parts:
        stem = shlex.quote(str(path.with_suffix("")))
        commands.append(f"refold diff {stem}-[{''.join(_RUNNERS)}]{SUFFIX}")
    if not has_faults:
        commands.append("refold demo --faults")
    return [*_entering(), *commands, f"refold export {log} --to refold"]


def _entering() -> list[str]:
    """Return the command that puts `refold` on the shell's path, if it was run by its path."""
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("refold") is not None or not activate.is_file():
        return []
    shown = min(str(activate), os.path.relpath(activate), key=len)
    return [f"source {shlex.quote(shown)}"]
