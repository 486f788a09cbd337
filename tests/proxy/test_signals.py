"""Signals are the command's, each once, and the log is sealed after its end."""

import contextlib
import fcntl
import os
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.proxy.signals import Signals
from refold.replay.observed.record import read_record
from refold.replay.resume.observed_resume import resumable_record
from tests.support.upstream import Upstream

COUNTING = """
import os, select, signal, sys
count = {}
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)  # one that comes right before a read would be heeded after it
def came(number, frame):
    count[number] = count.get(number, 0) + 1
    print("got", signal.Signals(number).name, count[number], flush=True)
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, came)
print("ready", flush=True)
while woken in select.select([0, woken], [], [])[0]:
    os.read(woken, 64)
sys.stdin.readline()
print(count[int(sys.argv[1])], flush=True)
"""
"""Says which signals come, and how often, until a line is typed."""
DEADLINE_SECONDS = 60.0


def recording(log: Path, *command: str) -> list[str]:
    """Return the command line that records a command."""
    return [
        sys.executable,
        "-m",
        "refold",
        "record",
        "--workspace=none",
        "--log",
        str(log),
        "--",
        *command,
    ]


@contextlib.contextmanager
def started(
    command: Sequence[str], **environment: str
) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Start a command on a terminal of its own; give it and our side of the terminal."""
    ours, its = os.openpty()

    def take() -> None:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup

    process = subprocess.Popen(
        command,
        stdin=its,
        stdout=its,
        stderr=its,
        env={**os.environ, **environment},
        preexec_fn=take,  # noqa: PLW1509  # no thread runs here
    )
    os.close(its)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def until(ours: int, text: bytes) -> bytes:
    """Read a terminal until it shows a text."""
    seen = b""
    while text not in seen:
        assert select.select([ours], [], [], DEADLINE_SECONDS)[0], seen
        seen += os.read(ours, 4096)
    return seen


def test_ctrl_c_reaches_the_command_once(tmp_path: Path) -> None:
    """From the terminal, which sends it to both; the command decides what to do with it."""
    log = tmp_path / "run.jsonl"
    number = str(int(signal.SIGINT))
    with started(recording(log, sys.executable, "-c", COUNTING, number)) as (process, ours):
        until(ours, b"ready")
        os.write(ours, b"\x03")
        until(ours, b"got SIGINT 1")
        process.send_signal(signal.SIGHUP)  # what no key sends, nobody else has sent the command
        until(ours, b"got SIGHUP 1")
        os.write(ours, b"\n")
        rest = until(ours, b"recorded in")
        code = process.wait(DEADLINE_SECONDS)

    assert b"got" not in rest
    assert b"\n1\r\n" in rest
    *_, last = read_entries(log)
    assert (code, last.data["output"]["exit_code"]) == (130, 0)
    assert (last.data["status"], last.data["reason"]) == ("cancelled", "interrupted")
    assert resumable_record(log).is_cut
    assert refold.verify(log).complete


STARTING = """
import sys
from refold.proxy.command import run_command, started
from refold.proxy.signals import Signals

def start(*given):
    process = started(*given)
    with open(sys.argv[1]) as fifo:
        fifo.read()  # until the command has got its signal, and this process has, too
    return process

with Signals() as signals:
    run_command([sys.executable, "-c", sys.argv[2], sys.argv[1]], {}, signals, start=start)
"""
STARTED = """
import os, signal, sys
count = []
def came(*_):
    count.append(1)
    if len(count) == 1:
        print("got SIGINT", file=sys.stderr, flush=True)
        open(sys.argv[1], "w").close()
def asked(*_):
    print(f"{len(count)} in all", file=sys.stderr, flush=True)
    os._exit(0)
signal.signal(signal.SIGINT, came)
signal.signal(signal.SIGTERM, asked)
print("ready", file=sys.stderr, flush=True)
sys.stdin.readline()
"""


def test_ctrl_c_reaches_a_command_once_that_is_just_starting(tmp_path: Path) -> None:
    """Between its start and the time at which we know of it."""
    os.mkfifo(tmp_path / "fifo")
    starting = [sys.executable, "-c", STARTING, str(tmp_path / "fifo"), STARTED]
    with started(starting) as (process, ours):
        until(ours, b"ready")
        os.write(ours, b"\x03")
        until(ours, b"got SIGINT")
        process.send_signal(signal.SIGTERM)  # passed on after what was sent before
        seen = until(ours, b"in all")

    assert b"1 in all" in seen


def apart(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a command in a session of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, start_new_session=True
    )


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_refold_alone_is_passed_on_once(number: signal.Signals, tmp_path: Path) -> None:
    log = tmp_path / "run.jsonl"
    with apart(recording(log, sys.executable, "-c", COUNTING, str(int(number)))) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == f"got {number.name} 1\n".encode()
        process.stdin.write(b"\n")
        process.stdin.flush()
        rest = process.stdout.read()

    assert (process.returncode, rest) == (130, b"1\n")
    assert refold.verify(log).complete


@pytest.mark.long
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_refold_ends_as_a_command_that_a_signal_ended(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    """And the log is sealed with that exit code."""
    log = tmp_path / "run.jsonl"
    with apart(recording(log, "sh", "-c", "echo ready; exec sleep 60")) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        process.wait(DEADLINE_SECONDS)

    *_, last = read_entries(log)
    assert process.returncode == code
    assert last.data["output"]["exit_code"] == code
    assert refold.verify(log).complete


def test_a_record_that_was_killed_verifies_as_far_as_it_goes(tmp_path: Path) -> None:
    """The command goes on, without a proxy."""
    log = tmp_path / "run.jsonl"
    process = subprocess.Popen(
        recording(log, "sh", "-c", "echo $$; read line; echo went on > went-on"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tmp_path,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        child = int(process.stdout.readline())
        descriptor = os.pidfd_open(child)
        process.kill()
        process.wait(DEADLINE_SECONDS)
        process.stdin.write(b"\n")
        process.stdin.close()
        assert select.select([descriptor], [], [], DEADLINE_SECONDS)[0]
        os.close(descriptor)

    report = refold.verify(log)
    assert (report.intact, report.complete) == (True, False)
    assert (tmp_path / "went-on").read_text() == "went on\n"


def test_handlers_are_put_back() -> None:
    """Those that a process ignores stay ignored."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGHUP, before)


def test_what_came_before_the_command_was_there_is_passed_on() -> None:
    """As soon as it is."""
    with Signals() as signals:
        signal.raise_signal(signal.SIGTERM)
        with signals.going_to(lambda: subprocess.Popen(["sleep", "60"])) as process:
            assert process.wait(DEADLINE_SECONDS) == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_passed_on_to_what_a_shell_started(number: signal.Signals) -> None:
    """Which would go on alone: a shell ends, or waits for it, and passes nothing on."""
    program = "import time; print('ready', flush=True); time.sleep(60)"
    shell = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", program]
    with (
        Signals() as signals,
        signals.going_to(lambda: subprocess.Popen(shell, stdout=subprocess.PIPE)) as process,
        process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        signal.raise_signal(number)
        assert process.stdout.read() == b""  # the last that could write to it has ended


INTERACTIVE = """
import http.client, json, os, select, shutil, signal, sys, termios, tty, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])

def ask(text):
    connection = http.client.HTTPConnection(base.netloc, timeout=60)
    body = {"model": "m", "messages": [
        {"role": "system", "content": "the weather desk"}, {"role": "user", "content": text}]}
    headers = {"authorization": "Bearer sk-placeholder-4f1d"}
    connection.request("POST", base.path + "/chat/completions", json.dumps(body), headers)
    print(connection.getresponse().status, flush=True)

def resized(*_):
    print("size", *os.get_terminal_size(1), flush=True)

def stopped(*_):
    print("stopped", flush=True)

woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)  # as in COUNTING
signal.signal(signal.SIGWINCH, resized)
signal.signal(signal.SIGINT, stopped)

def typed():
    while woken in select.select([0, woken], [], [])[0]:
        os.read(woken, 64)
    return os.read(0, 1)

before = termios.tcgetattr(0)
tty.setcbreak(0)
print("ready", sys.stdin.isatty(), sys.stdout.isatty(), flush=True)
while (key := typed()) != b"q":
    print("key", key.decode(), flush=True)
    ask(f"Hello! {key.decode()}")
termios.tcsetattr(0, termios.TCSANOW, before)
"""
"""A client that people type at: each key is a request, at once; `q` ends it."""


@pytest.mark.long
def test_a_session_at_a_terminal_is_recorded_and_its_replay_says_what_is_missing(
    tmp_path: Path,
) -> None:
    """Keys one by one, the size as it changes, Ctrl-C as the command takes it; first to last."""
    log = tmp_path / "run.jsonl"
    command = [sys.executable, "-c", INTERACTIVE]
    with (
        Upstream() as upstream,
        started(recording(log, *command), **upstream.environment()) as (process, ours),
    ):
        until(ours, b"ready True True")
        os.write(ours, b"a")
        until(ours, b"key a\r\n200")
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 31, 117, 0, 0))
        until(ours, b"size 117 31")
        os.write(ours, b"\x03")
        until(ours, b"stopped")
        os.write(ours, b"b")
        until(ours, b"key b\r\n200")
        os.write(ours, b"q")
        until(ours, b"recorded in")
        code = process.wait(DEADLINE_SECONDS)

    assert code == 130
    assert refold.verify(log).complete
    asked = [turn.asked.messages[-1]["content"] for turn in read_record(log).turns]
    assert asked == ["Hello! a", "Hello! b"]
    again = [sys.executable, "-m", "refold", "replay", str(log), "--", *command]
    with started(again) as (process, ours):
        until(ours, b"ready True True")
        os.write(ours, b"a")
        until(ours, b"key a\r\n200")
        os.write(ours, b"q")
        said = until(ours, b"ran in ")
        code = process.wait(DEADLINE_SECONDS)

    assert code == 1
    assert b"its keyboard input is not in" in said
