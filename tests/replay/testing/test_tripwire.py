"""The tripwire says where a program reads the world beside `run`, and what to do (§12.12)."""

import datetime as dt
import inspect
import io
import os
import pathlib
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.replay.testing.tripwire import FINDINGS_MAX, Finding, Tripwire


def found(program: Callable[..., Any], tmp_path: Path, **options: Any) -> tuple[Finding, ...]:
    """Record a program, and return what its re-execution trips over."""
    recording = refold.record(program, log=tmp_path / "a.jsonl", check=False, **options)
    assert recording.ok, recording
    with Tripwire() as wire:
        report = refold.reexecute(recording, program)
    assert report.identical, report
    return wire.findings


READS: list[tuple[Callable[[], object], str, str]] = [
    (time.time, "time.time", "run.now()"),
    (time.monotonic_ns, "time.monotonic_ns", "run.now()"),
    (lambda: dt.datetime.now(dt.UTC), "datetime.now", "run.now()"),
    (dt.date.today, "date.today", "run.now()"),
    (time.gmtime, "time.gmtime", "run.now()"),
    (lambda: time.strftime("%H"), "time.strftime", "run.now()"),
    (lambda: time.gmtime(*[]), "time.gmtime", "run.now()"),
    (random.random, "random.random", "run.random("),
    (lambda: random.randint(1, 3), "random.randint", "run.random("),
    (lambda: random.choice([1]), "random.choice", "run.random("),
    (random.Random, "random.Random()", "run.random("),
    (secrets.token_hex, "secrets.token_hex", "run.random("),
    (lambda: os.urandom(1), "os.urandom", "run.random("),
    (uuid.uuid4, "uuid.uuid4", "run.uuid()"),
    (uuid.uuid1, "uuid.uuid1", "run.uuid()"),
    (lambda: os.environ.get("HOME"), "os.environ", "run.environment("),
    (lambda: os.getenv("HOME"), "os.getenv", "run.environment("),
    (lambda: "HOME" in os.environ, "os.environ", "run.environment("),
    (lambda: open(__file__).close(), "open", "run.read_text("),  # noqa: PTH123 - that is the point
    (lambda: pathlib.Path(__file__).read_text(), "pathlib.Path.read_text", "run.read_text("),
    (lambda: open("/dev/null", "w").close(), "open", "a tool to write"),  # noqa: PTH123 - the same
    (lambda: os.makedirs("/", exist_ok=True), "os.makedirs", "a tool"),  # noqa: PTH103 - the same
    (lambda: os.listdir("/"), "os.listdir", "make it a tool"),  # noqa: PTH208 - the same
    (lambda: os.path.exists("/"), "os.path.exists", "run.read_text("),  # noqa: PTH110 - the same
    (socket.gethostname, "socket.gethostname", "make it a tool"),
    (os.getpid, "os.getpid", "make it a tool"),
    (lambda: subprocess.run(["true"], check=True), "subprocess.run", "make it a tool"),
    (lambda: hash("a"), "hash", "do not depend on it"),
    (lambda: id(READS), "id", "do not depend on it"),
]


@pytest.mark.parametrize(("read", "what", "remedy"), READS, ids=[what for _, what, _ in READS])
def test_what_is_read_is_found_with_file_and_line(
    read: Callable[[], object], what: str, remedy: str, tmp_path: Path
) -> None:
    """Case 54: the tripwire names what was read, the file and line, and what to use instead."""

    async def program(_run: refold.Run, _input: object) -> None:
        for _ in range(2):
            read()

    findings = found(program, tmp_path)

    assert [finding.what for finding in findings] == [what]
    assert findings[0].file == __file__
    assert remedy in findings[0].remedy
    assert str(findings[0]) == f"{__file__}:{findings[0].line}: {what}: {findings[0].remedy}"


def test_the_line_is_that_of_the_call(tmp_path: Path) -> None:
    """Of several, each has its own."""
    began = inspect.currentframe()
    assert began is not None

    def program(_run: refold.PlainRun, _input: object) -> None:
        time.time()
        time.time()

    lines = [finding.line - began.f_lineno for finding in found(program, tmp_path)]

    assert lines[1] - lines[0] == 1


def test_advice_is_told_apart(tmp_path: Path) -> None:
    """An id or a hash is harmless as long as nothing hangs on it."""

    def program(_run: refold.PlainRun, _input: object) -> None:
        id(program)
        time.time()

    assert [finding.is_advice for finding in found(program, tmp_path)] == [True, False]


def test_what_is_given_a_time_reads_no_clock(tmp_path: Path) -> None:
    """It says the same everywhere; with the time zone of the machine in it, it does not."""

    def program(_run: refold.PlainRun, _input: object) -> None:
        time.gmtime(0)
        time.strftime("%A", (2020, 1, 1, 0, 0, 0, 2, 1, 0))
        time.localtime(0)

    assert [finding.what for finding in found(program, tmp_path)] == ["time.localtime"]


def test_a_thread_that_a_program_starts_is_found(tmp_path: Path) -> None:
    """What it does is no longer in anybody's order."""

    def program(_run: refold.PlainRun, _input: object) -> None:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()

    (finding,) = found(program, tmp_path)

    assert (finding.what, finding.remedy) == ("threading.Thread.start", "make it a tool")


def test_what_is_asked_of_run_is_no_finding(tmp_path: Path) -> None:
    """Nor what the engine, the loop and the tools do for it."""

    @refold.tool(effect="reads")
    def look() -> float:
        return time.time()

    async def program(run: refold.Run, _input: object) -> None:
        run.now()
        run.uuid()
        run.random("name").random()
        run.environment("HOME")
        run.read_text(__file__)
        await run.sleep(0.001)
        await run.tool(look)
        random.Random(7).random()
        io.StringIO("text").read()

    assert found(program, tmp_path) == ()


def test_a_package_is_told_by_the_line_of_the_program_that_called_it(tmp_path: Path) -> None:
    """A program cannot change an installed package; it can call it elsewhere."""
    installed = tmp_path / "site-packages" / "clocks.py"
    installed.parent.mkdir()
    installed.write_text("import time\ndef now():\n    return time.time()\n")
    code = compile(installed.read_text(), str(installed), "exec")
    names: dict[str, Any] = {}
    exec(code, names)

    def program(_run: refold.PlainRun, _input: object) -> None:
        names["now"]()

    (finding,) = found(program, tmp_path)

    assert (finding.what, finding.file) == ("time.time", __file__)


def test_so_many_findings_are_kept(tmp_path: Path) -> None:
    """A report that goes on for ever helps nobody."""
    lines = "".join("    time.time()\n" for _ in range(FINDINGS_MAX + 10))
    names: dict[str, Any] = {"time": time}
    exec(compile(f"def program(run, input):\n{lines}", "many.py", "exec"), names)

    assert len(found(names["program"], tmp_path)) == FINDINGS_MAX


def test_the_profiler_of_before_is_back_afterwards() -> None:
    """Whoever profiles their tests goes on doing so."""
    seen: list[str] = []

    def profile(_frame: object, event: str, _argument: object) -> None:
        seen.append(event)

    sys.setprofile(profile)
    try:
        with Tripwire():
            pass
        assert sys.getprofile() is profile
    finally:
        sys.setprofile(None)
