"""A command runs as it would without Refold, and what it prints is kept."""

import errno
import fcntl
import io
import os
import shutil
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import UsageError
from refold.proxy.command import (
    KEPT_BYTES,
    CommandEnd,
    FoldedTracebacks,
    run_command,
    terminal_here,
)
from refold.proxy.signals import Signals
from tests.support.loops import for_each


def ran(*command: str, write: io.BytesIO | None = None, **how: object) -> CommandEnd:
    """Run a command in this process, and return how it ended."""
    to = write or io.BytesIO()
    with Signals() as signals:
        return run_command(command, {}, signals, write=to.write, **how)  # type: ignore[arg-type]  # BytesIO counts


def python(code: str) -> list[str]:
    """Return a command that runs this."""
    return [sys.executable, "-c", code]


def test_what_it_prints_passes_through_and_is_kept() -> None:
    screen = io.BytesIO()
    ended = ran("printf", "a\\377b", write=screen)

    assert screen.getvalue() == ended.printed == b"a\xffb"
    assert (ended.exit_code, ended.printed_bytes) == (0, 3)


def test_of_much_output_the_beginning_is_kept_and_all_is_passed_on() -> None:
    size = 3 * KEPT_BYTES
    screen = io.BytesIO()
    ended = ran(*python(f"print('x' * {size}, end='')"), write=screen)

    assert ended.printed_bytes == len(screen.getvalue()) == size
    assert KEPT_BYTES <= len(ended.printed) < KEPT_BYTES + 100_000


@for_each(
    "code, expected",
    [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)],
)
def test_exit_codes_are_those_of_a_shell(code: str, expected: int) -> None:
    assert ran("sh", "-c", code).exit_code == expected


@for_each("name", ["no-such-command-here", "/no/such/file", "/dev/null", ""])
def test_a_command_that_cannot_be_started_is_the_callers_fault(name: str) -> None:
    with pytest.raises(UsageError) as refused:
        ran(name)

    assert name in str(refused.value)


def test_a_script_that_is_no_command_is_told_how_to_run() -> None:
    """As it would be named to Refold, too."""
    for name in ("no.py", "no.py:main"):
        with pytest.raises(UsageError, match=r"to run a script, use -- python no\.py$"):
            ran(name)


def test_it_has_the_variables_and_the_rest_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OF_OURS", "1")
    with Signals() as signals:
        screen: list[bytes] = []
        run_command(
            ["sh", "-c", 'printf "$OF_OURS $MORE"'], {"MORE": "2"}, signals, write=screen.append
        )

    assert b"".join(screen) == b"1 2"


def test_standard_output_is_a_terminal_where_one_is_asked_for() -> None:
    """Of that size; and what is written to it comes as it was written."""
    code = "import os, sys; print(sys.stdout.isatty(), *os.get_terminal_size(1))"

    assert ran(*python(code), terminal=(101, 33)).printed == b"True 101 33\n"
    assert ran(*python("import sys; print(sys.stdout.isatty())")).printed == b"False\n"


@pytest.mark.parametrize("terminal", [None, (80, 24)])
def test_children_that_go_on_are_not_waited_for(terminal: tuple[int, int] | None) -> None:
    """What the command printed is there, all of it."""
    code = "sleep 60 & echo $!; printf '%065000d' 7"
    ended = ran("sh", "-c", code, terminal=terminal)
    child, _, rest = ended.printed.partition(b"\n")
    os.kill(int(child), 9)

    assert len(rest) == 65000


def test_a_terminal_that_tells_no_size_has_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, its = os.openpty()
    with os.fdopen(ours, "rb"), os.fdopen(its, "w") as screen:
        monkeypatch.setattr(sys, "stdout", screen)
        assert terminal_here() == (80, 24)

        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 132, 0, 0))
        assert terminal_here() == (132, 50)


def test_where_nobody_reads_the_command_learns_it() -> None:
    """As it would without Refold: the pipe is broken."""

    def refuse(_content: bytes) -> None:
        raise BrokenPipeError

    with Signals() as signals:
        ended = run_command(["yes"], {}, signals, write=refuse)

    assert (ended.exit_code, ended.lost) == (128 + 13, "")


def test_what_could_not_be_passed_on_is_said() -> None:
    """A disk that is full, say; a reader that has left has had all that it wanted."""

    def refuse(_content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Signals() as signals:
        ended = run_command(["echo", "a"], {}, signals, write=refuse)

    assert ended.lost == "No space left on device"


def test_a_reader_that_is_slow_gets_all_of_it() -> None:
    """Also where whoever shares standard output has set it not to wait."""
    size = 300_000
    code = (
        "from refold.proxy.command import run_command; from refold.proxy.signals import Signals\n"
        "import os, sys\n"
        "os.set_blocking(1, False)\n"
        f"command = [sys.executable, '-c', 'print(\"x\" * {size}, end=\"\")']\n"
        "with Signals() as signals:\n    run_command(command, {}, signals)\n"
    )
    with subprocess.Popen(python(code), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = 0
        while content := process.stdout.read(16 * 1024):
            printed += len(content)

    assert (process.returncode, printed) == (0, size)


def test_a_command_may_run_in_any_thread() -> None:
    """Where signals cannot be obeyed."""
    found: list[CommandEnd] = []
    thread = threading.Thread(target=lambda: found.append(ran("true")))
    thread.start()
    thread.join()

    assert found[0].exit_code == 0


def test_it_has_our_standard_input_and_error(tmp_path: Path) -> None:
    """A filter stays a filter."""
    code = (
        "from refold.proxy.command import run_command; from refold.proxy.signals import Signals\n"
        "with Signals() as s: run_command(['sh', '-c', 'cat; echo bad >&2'], {}, s)"
    )
    done = subprocess.run(python(code), input=b"in", capture_output=True, cwd=tmp_path, check=True)

    assert (done.stdout, done.stderr) == (b"in", b"bad\n")


def test_descriptors_of_ours_are_not_the_commands() -> None:
    """It has three, and what it opens itself."""
    if not shutil.which("ls"):
        pytest.skip("there is no ls here")

    assert len(ran("ls", "/dev/fd").printed.split()) <= 4


@pytest.mark.long
def test_who_does_not_end_when_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """§16.19: SIGTERM at the timeout, SIGKILL after the grace."""
    monkeypatch.setattr("refold.proxy.signals.GRACE_SECONDS", 0.2)
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"
    with Signals() as signals:
        ended = run_command([sys.executable, "-c", deaf], {}, signals, timeout=2)
        asked = run_command(["sleep", "600"], {}, signals, timeout=0.1)

    assert (ended.exit_code, asked.exit_code) == (128 + 9, 128 + 15)
    assert (ended.timed_out, asked.timed_out) == (True, True)


REFUSED = (
    b"Traceback (most recent call last):\n"
    b'  File "a.py", line 4, in <module>\n'
    b"    ask()\n"
    b"KeyError: 1\n"
    b"\n"
    b"During handling of the above exception, another exception occurred:\n"
    b"\n"
    b"Traceback (most recent call last):\n"
    b'  File "sdk.py", line 9, in ask\n'
    b"openai.BadRequestError: Error code: 400 - refold replay: no recorded answer to this request\n"
)
OTHER = b'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\n'


def _folded(parts: list[bytes]) -> bytes:
    out = list[bytes]()
    folded = FoldedTracebacks(out.append)
    for part in parts:
        folded(part)
    folded.close()
    return b"".join(out)


@given(st.data())
def test_only_a_refused_request_is_folded_however_it_comes(data: st.DataObject) -> None:
    blocks = st.sampled_from([REFUSED, OTHER, b"50 %\r", b"done\n", b"\n", b"Trace me\n"])
    blocks_given = data.draw(st.lists(blocks))
    text = b"".join(blocks_given)
    at = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    parts = [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]

    found = _folded(parts)

    if REFUSED not in blocks_given:
        assert found == text
    assert b"refold replay" not in found
    assert found.count(b"the command then failed: BadRequestError\n") <= text.count(REFUSED)


def test_a_prompt_is_not_held() -> None:
    out = list[bytes]()

    FoldedTracebacks(out.append)(b"Go on? ")

    assert out == [b"Go on? "]
