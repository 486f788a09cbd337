"""Implements the fixture `refold_command`: runs a command, recorded or answered from its recording.

It works like `refold record` and `refold replay`: profile, arguments, variables, folders, shapes of
keys, and output. `refold.testing.refold_run` decides when a test records; `refold.pytest_plugin`
starts and ends this. Rules: CONTRACT.md §16.12.
"""

import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from refold.engine.observed.volatile import VolatileRules
from refold.engine.process.bounds import BY_SIGNAL
from refold.proxy.http.routes import why_nothing_came
from refold.proxy.sessions import record_command, replay_command
from refold.replay.observed.report import ObservedReport
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from refold.replay.testing.recordings import failed_beside, fresh_beside, move_over, remove
from refold.testing.refold_run import RecordedRuns, Settings, fail
from refold.testing.reproduce import explained
from refold.testing.session_proxy import SessionProxy, variables

PART: Final = ".command"
"""The suffix of the recordings of a test's commands."""
_INTERRUPTED: Final = BY_SIGNAL + signal.SIGINT


@attrs.frozen(kw_only=True)
class RanCommand:
    """A command that has ended."""

    exit_code: int
    """As in a shell: 128 and the number of the signal that ended it."""
    stdout: str
    log: Path
    """Its recording; it moves when the test has ended, if it was made by this test."""
    report: ObservedReport | None = None
    """Of the replay; `None` where the command was recorded."""

    def tree(self) -> RunNode:
        """Return who asked what, in which conversations: `== delegation_snapshot`."""
        return delegation_tree(self.log)


class RefoldCommand(RecordedRuns):
    """Records or replays the commands of one test, under its name."""

    called = "refold_command"

    def __init__(self, settings: Settings, session: SessionProxy | None = None) -> None:
        """Say how; `session` knows where base URLs lead without it."""
        super().__init__(settings)
        self._session = session

    def __call__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        cwd: str | os.PathLike[str] = ".",
        env: Mapping[str, str | None] | None = None,
        input: str = "",  # noqa: A002 - as `subprocess.run` calls it
        name: str | None = None,
        profile: str = "",
        output: str = "",
        volatile: Sequence[str] = (),
        volatile_text: Sequence[str] = (),
        unordered: Sequence[str] = (),
    ) -> RanCommand:
        """Run a command to its end, live or answered from its recording.

        Args:
            command: The program and its arguments.
            cwd: The folder where it runs.
            env: Variables that it gets besides those of the test; `None` removes one.
            input: Its standard input.
            name: What this command is called among several of a test; by default they are counted.
            profile: As `refold record --profile`.
            output: As `refold record --volatile output:`.
            volatile: As `refold record --volatile`, each.
            volatile_text: As `refold record --volatile text:REGEX`, each.
            unordered: As `refold record --volatile order:REGEX`, each.

        Raises:
            UsageError: the command cannot be started, or an option has no such form.
            LogDamaged: the recording does not verify.
            Failed: as `pytest.fail` raises it; the run differs from the recording, or none exists.
        """
        __tracebackhide__ = True
        words = [os.fspath(word) for word in command]
        log = self._claim(name)
        again = shlex.join(words).replace("{", "{{").replace("}", "}}")
        self._ways[log] = f"refold replay {{log}} -- {again}"
        rules = VolatileRules(volatile, volatile_text, unordered)
        options: dict[str, Any] = {"rules": rules, "profile": profile, "output": output}
        before = self._session.environment if self._session is not None else {}
        there = str(Path(cwd).resolve())
        led = {name: before.get(name) for name in os.environ if before}
        own = {**led, **(env or {}), "PWD": there}
        with pytest.MonkeyPatch.context() as patch, variables(own), _given(input):
            patch.chdir(there)
            with self._failing():
                if self._is_replayed(log):
                    return self._replay(log, words, options)
            if self._mode == "accept" and log.exists():
                with contextlib.suppress(pytest.fail.Exception):
                    return self._replay(log, words, options)
                self.explained = None  # for it is recorded anew: that stops no test
            return self._record(log, words, options)

    def _record(self, log: Path, command: list[str], options: dict[str, Any]) -> RanCommand:
        __tracebackhide__ = True
        made, printed, upstreams = fresh_beside(log), _Printed(), self._settings.upstreams
        try:
            done = record_command(
                command, log=made, upstreams=upstreams, write=printed.write,
                workspace="none",  # a test makes its folder itself, for each replay, too
                **options,
            )  # fmt: skip
        except BaseException:
            if made.exists():
                move_over(made, failed_beside(log))
            raise
        code = done.ended.exit_code
        if code == _INTERRUPTED or done.is_empty:
            remove(made)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
        if done.is_empty:
            why = "\n".join(why_nothing_came(upstreams, done.unserved))
            fail(
                f"{shlex.join(command)}: sent no model requests, and exited with status "
                f"{code}: {why}"
            )
        kept = self._put(made, log, is_good=code == 0)
        return RanCommand(exit_code=code, stdout=printed.text(), log=kept)

    def _replay(self, log: Path, command: list[str], options: dict[str, Any]) -> RanCommand:
        __tracebackhide__ = True
        printed, on_miss = _Printed(), self._settings.on_miss
        report = replay_command(log, command, write=printed.write, on_miss=on_miss, **options)
        if report.exit_code == _INTERRUPTED and not report.identical:
            raise KeyboardInterrupt
        if report.is_nothing or not report.identical:
            at = self._shown(log)
            found = tuple(attrs.evolve(each, log=at) for each in report.divergences)
            text = str(report := attrs.evolve(report, log=at, divergences=found))
            self.explained = explained(report.causes, text) if found else None
            fail(f"{text}\n{self._settings.if_meant()}")
        code = report.exit_code or 0
        return RanCommand(exit_code=code, stdout=printed.text(), log=log, report=report)


class _Printed:
    """Keeps a command's output, and prints it, for pytest to show if the test fails."""

    def __init__(self) -> None:
        self._kept = bytearray()

    def write(self, content: bytes) -> None:
        self._kept += content

    def text(self) -> str:
        text = self._kept.decode(errors="replace")
        print(text, end="")  # noqa: T201 - pytest shows it
        return text


@contextlib.contextmanager
def _given(text: str) -> Iterator[None]:
    """Have a text as the standard input of this process, which a command shares, in a block."""
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            yield
        finally:
            os.dup2(before, 0)
            os.close(before)
