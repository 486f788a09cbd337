"""`refold demo`: what Refold does, in ten seconds, without key, model or network.

Records a survey of a source tree by subagents, shows its delegation tree, then verifies it,
re-executes it, and compares two recordings of one part.  The programs are `programs.survey`'s; each
step is what the command of the same name does.
"""

import datetime as dt
import os
import shlex
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.cli.arguments.logs import OpenedLog, json_option, log_option
from refold.cli.arguments.rehearsals import replayed
from refold.cli.commands.replay import describe as describe_replay
from refold.cli.commands.verify import describe as describe_verification
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DAMAGED, DIFFERS, FINE, NOT_COMPLETED
from refold.cli.output.pages import page
from refold.cli.output.printed import PrintedDemo
from refold.cli.output.trees import print_tree
from refold.engine.errors import LogExists
from refold.engine.log.names import SUFFIX, check_root, children, default_path
from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.programs.survey import PARTS, SKIPPED, TESTS, survey_tools
from refold.replay.audit.verify import Verification, verify
from refold.replay.compare.diff import LogDiff, diff
from refold.replay.reexecute.report import ReplayReport
from refold.replay.tree.delegation_tree import RunNode, delegation_tree

JOBS: Final = min(4, (os.cpu_count() or 1) + 1)
_RUNNERS: Final = {"a": "subprocess", "b": "in-process"}
"""What the two recordings of one part run on, by the letter at the end of their names."""


_PAGE: Final = """
Examples:
  refold demo
  refold demo --faults          the survey, beside four children that fail
  refold demo src/ --log runs/mine.jsonl --jobs 2

Exit code: 0 all held · 5 the survey did not complete · 3, 1 as for verify
           and replay.
"""


@click.command("demo", epilog=page(_PAGE))
@click.argument(
    "path", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@log_option
@click.option(
    "--faults", is_flag=True, help="Add subagents that hang, flood, crash and are refused."
)
@click.option(
    "--jobs", type=click.IntRange(1, 16), default=JOBS, show_default=True,
    help="Subagents at once.",
)  # fmt: skip
@json_option
def command(*, path: Path | None, log: Path | None, faults: bool, jobs: int, as_json: bool) -> int:
    """Survey a source tree with subagents; record, show, verify, replay, diff.

    Each part of the tree goes to a subagent in a process of its own, which
    reads files through tools.  PATH is a folder with Python files; by default
    the standard library of the Python that runs this.
    """
    demo = _Demo(path, _fresh(log), faults=faults, jobs=jobs, is_quiet=as_json)
    demo.run()
    if as_json:
        output.document(demo.document().as_json())
    return demo.code()


def _fresh(log: Path | None) -> Path:
    """Return where to record; refuse at once what could only be refused later.

    Raises:
        LogExists: something is there.
        LogNameRefused: no root's log can have that name.
    """
    if log is None:
        now, short_id = dt.datetime.now(dt.UTC), os.urandom(3).hex()
        return default_path(Path("runs"), "demo", time=now, short_id=short_id)
    check_root(log)
    for each in (log, *(_part_log(log, letter) for letter in _RUNNERS)):
        if each.exists():
            raise LogExists(str(each))
    return log


def _part_log(log: Path, letter: str) -> Path:
    return log.with_name(f"{log.stem}-{letter}{SUFFIX}")


@attrs.define
class _Demo:
    """One demonstration, step by step."""

    path: Path | None
    log: Path
    faults: bool = attrs.field(kw_only=True)
    jobs: int = attrs.field(kw_only=True)
    is_quiet: bool = attrs.field(kw_only=True)
    recording: Recording | None = attrs.field(default=None, init=False)
    tree: RunNode | None = attrs.field(default=None, init=False)
    verification: Verification | None = attrs.field(default=None, init=False)
    replay: ReplayReport | None = attrs.field(default=None, init=False)
    comparison: LogDiff | None = attrs.field(default=None, init=False)
    part: str = attrs.field(default="", init=False)
    began: float = attrs.field(factory=time.monotonic, init=False)

    @property
    def root(self) -> Path:
        """The folder that is surveyed."""
        return self.path or Path(sysconfig.get_path("stdlib"))

    @property
    def opened(self) -> OpenedLog:
        return OpenedLog(self.log, self.log)

    def run(self) -> None:
        """Take all steps; the later ones only if there is something to look at."""
        self._say_what()
        self._record()
        assert self.recording is not None
        self._show()
        if not self.recording.ok:
            return
        self._verify()
        self._replay()
        self._diff()
        self._say_what_it_proved()

    # --- steps ---------------------------------------------------------------------------

    def _say_what(self) -> None:
        what = self.title if self.path is None else str(self.path)
        self._heading("record", f"a survey of {what}, {self.jobs} subagents at once")

    @property
    def title(self) -> str:
        """What is surveyed, as the log names it: never a path of this machine."""
        if self.path is not None:
            return self.path.resolve().name or "the root folder"
        return f"the standard library of Python {sys.version_info[0]}.{sys.version_info[1]}"

    def _task(self, **more: Any) -> dict[str, Any]:
        skip = [*SKIPPED, *(TESTS if self.path is None else ())]
        return {"title": self.title, "skip": skip, "jobs": self.jobs, "parts": PARTS, **more}

    def _record(self) -> None:
        program = "survey_with_faults" if self.faults else "survey_tree"
        with output.progress(self._progress):
            self.recording = record(
                program,
                self._task(),
                log=self.log,
                tools=survey_tools(self.root),
                runner="subprocess",
            )

    def _progress(self) -> str:
        started = len(children(self.log)) if self.log.exists() else 0
        return f"recording: {words.counted(started, 'subagent')} started"

    def _show(self) -> None:
        self.tree = delegation_tree(self.log)
        if self.is_quiet:
            return
        print_tree(self.tree)
        if self.recording is not None and self.recording.summary:
            output.line(self.recording.summary)

    def _verify(self) -> None:
        self._heading("verify", "every line chains, parents and children name each other")
        self.verification = verify(self.log)
        if not self.is_quiet:
            describe_verification(self.verification, self.opened)

    def _replay(self) -> None:
        self._heading("replay", "the programs run again, their outcomes come from the logs")
        self.replay = replayed(self.opened, None)
        if not self.is_quiet:
            describe_replay(self.replay)

    def _diff(self) -> None:
        """Record one part twice more, on two runners, and compare."""
        self.part = _smallest(self.tree)
        if not self.part:
            return
        self._heading("diff", f"{self.part}, recorded in a subprocess and then in this process")
        logs = {_part_log(self.log, letter): runner for letter, runner in _RUNNERS.items()}
        with output.progress(f"recording {self.part} twice"):
            for log, runner in logs.items():
                record(
                    "survey_tree",
                    self._task(only=[self.part]),
                    log=log,
                    tools=survey_tools(self.root),
                    runner=runner,
                    seed=1,
                    clock=FixedClock(),
                )
            self.comparison = diff(*logs)
        if not self.is_quiet:
            output.lines(str(self.comparison))

    # --- words ---------------------------------------------------------------------------

    def _heading(self, step: str, what: str) -> None:
        if not self.is_quiet:
            output.line()
            output.line((f"{step}  ", "bold magenta"), (what, "bold"))

    def _say_what_it_proved(self) -> None:
        if self.is_quiet or self.code() != FINE:
            return
        assert self.replay is not None
        log = shlex.quote(str(self.log))
        runs = words.counted(_statuses(self.tree).get("completed", 0), "subagent")
        entries = words.counted(self.replay.entries, "entry", "entries")
        output.line()
        output.line(
            ("What that proved  ", "bold magenta"),
            f"({time.monotonic() - self.began:.1f} s in all)",
        )
        output.line(f"  {runs} did real work, and {entries} say what every run did.")
        ran = self.replay.tools_executed
        output.line(f"  Run again from the logs: tool calls executed: {ran}, differences: 0.")
        if self.faults:
            output.line(
                "  The faults were asked for: each is an outcome in the log, and replays too."
            )
        output.line()
        output.line(("Try next", "bold magenta"))
        for each in _next(log, self.log, has_parts=bool(self.part), has_faults=self.faults):
            output.line(f"  {each}")

    # --- results -------------------------------------------------------------------------

    def code(self) -> int:
        """Return the exit code: that of the first step that did not hold."""
        recording, found, replay = self.recording, self.verification, self.replay
        if recording is None or not recording.ok:
            return NOT_COMPLETED
        if found is None or not (found.intact and found.complete):
            return DAMAGED
        is_same = self.comparison is None or self.comparison.identical
        return FINE if replay is not None and replay.identical and is_same else DIFFERS

    def document(self) -> PrintedDemo:
        """Return what happened."""
        recording, found, replay = self.recording, self.verification, self.replay
        assert recording is not None
        return PrintedDemo(
            log=output.shown_path(self.log),
            status=recording.status,
            reason=recording.reason,
            error=recording.error,
            summary=recording.summary,
            children=_statuses(self.tree),
            intact=found.intact if found else None,
            complete=found.complete if found else None,
            identical=replay.identical if replay else None,
            tools_executed=replay.tools_executed if replay else None,
            entries=replay.entries if replay else None,
            differences=self.comparison.count if self.comparison else None,
            duration_ms=round((time.monotonic() - self.began) * 1000),
        )


def _statuses(tree: RunNode | None) -> dict[str, int]:
    """Return how many children ended in which way."""
    found: dict[str, int] = {}
    for child in tree.children if tree else ():
        found[child.status] = found.get(child.status, 0) + 1
    return found


def _smallest(tree: RunNode | None) -> str:
    """Return the top-level name that took the least time to survey; empty if there is none."""
    done = [
        (child.duration_ms or 0, names[0])
        for child in (tree.children if tree else ())
        if child.status == "completed" and isinstance(child.input, dict)
        and (names := [*child.input.get("packages", ()), *child.input.get("modules", ())])
    ]  # fmt: skip
    return min(done)[1] if done else ""


def _next(log: str, path: Path, *, has_parts: bool, has_faults: bool) -> list[str]:
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
    return [*commands, f"refold pack {log}"]
