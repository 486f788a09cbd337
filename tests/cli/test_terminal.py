"""On a real terminal of 80 columns: lines fit, colours can be turned off, Ctrl-C ends in 130."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from refold.engine.runners.recording import record

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def _on_terminal(*words: object, **environment: str) -> tuple[str, int]:
    """Return what a command shows on a terminal of 80 columns, and its exit code."""
    return _python_on_terminal("-m", "refold", *map(str, words), **environment)


def _python_on_terminal(*arguments: str, **environment: str) -> tuple[str, int]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    inherited = {
        key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "COLUMNS")
    }
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm-256color"} | environment,
    ) as process:
        os.close(theirs)
        shown = _all_of(ours)
        return shown, process.wait(timeout=60)


def _all_of(descriptor: int) -> str:
    chunks = []
    try:
        while chunk := os.read(descriptor, 65536):
            chunks.append(chunk)
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(descriptor)
    return b"".join(chunks).decode().replace("\r\n", "\n")


COMMANDS = [
    ("show", "LOG"),
    ("show", "LOG", "--events"),
    ("verify", "LOG"),
    ("show", "LOG", "--at", "-1"),
    ("show", "LOG", "--at", "1", "--to", "9"),
    ("replay", "LOG"),
    ("why", "LOG", "-1"),
    ("why", "LOG", "-1", "--all"),
    ("explore", "LOG", "--results"),
    ("verify", "."),
]
_ALL_OF_THEM = """
import sys
from refold.cli import main

for line in sys.argv[1].splitlines():
    try:
        main(line.split())
    except SystemExit as ended:
        print("ended with", ended.code, flush=True)
"""


@pytest.fixture(scope="module")
def shown(survey_log: Path) -> dict[tuple[str, ...], str]:
    """What each of `COMMANDS` shows, and how it ends; in one process, for it starts slowly."""
    lines = "\n".join(" ".join(words).replace("LOG", survey_log.name) for words in COMMANDS)
    with contextlib.chdir(survey_log.parent):
        everything, code = _python_on_terminal("-c", _ALL_OF_THEM, lines)
    assert code == 0, everything
    pieces = re.findall(r".*?^ended with \w+\n", everything, re.DOTALL | re.MULTILINE)
    return dict(zip(COMMANDS, pieces, strict=True))


@pytest.mark.parametrize("words", COMMANDS)
def test_every_line_fits_and_nothing_but_styles_is_sent(
    words: tuple[str, ...], shown: dict[tuple[str, ...], str]
) -> None:
    plain = _STYLE.sub("", shown[words])

    assert plain.endswith("ended with 0\n")
    assert len(plain.split("\n")) > 2
    assert max(map(len, plain.split("\n"))) <= 80
    assert "\x1b" not in plain


@pytest.mark.long
def test_styles_are_used_and_no_color_turns_colours_off(survey_log: Path) -> None:
    coloured, _ = _on_terminal("show", survey_log)
    plain, _ = _on_terminal("show", survey_log, NO_COLOR="1")
    dumb, _ = _on_terminal("show", survey_log, TERM="dumb")

    assert "\x1b[32m" in coloured
    assert "\x1b[" not in plain
    assert "\x1b" not in dumb


def test_an_interrupted_command_ends_in_130_without_a_traceback(
    survey_log: Path, tmp_path: Path
) -> None:
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(survey_log.read_bytes().splitlines(keepends=True)[:2]))
    command = [sys.executable, "-u", "-m", "refold", "show", "--events", "-f", str(log)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        for _ in range(3):
            following.stdout.readline()
        following.send_signal(signal.SIGINT)

        assert following.wait(timeout=60) == 130
        assert following.stderr.read().strip() == "refold: interrupted"


@pytest.mark.parametrize(
    "words",
    [
        ("show", "--events"),
        ("verify", "--json"),
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in (("show", "--events", "--json"), ("why",))
        ),
    ],
)
def test_a_reader_that_leaves_is_no_error(words: tuple[str, ...], survey_log: Path) -> None:
    """Of a table and of a document, long or short: 0, and nothing is said."""
    number = ("-1",) if words == ("why",) else ()
    command = [sys.executable, "-m", "refold", *words, str(survey_log), *number]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as showing:
        assert showing.stdout is not None
        assert showing.stderr is not None
        showing.stdout.close()

        assert showing.wait(timeout=60) == 0
        assert showing.stderr.read() == ""


def test_a_terminal_without_unicode_gets_escapes_and_no_error(survey_log: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "refold", "show", str(survey_log)],
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
        timeout=60,
    )

    assert ran.returncode == 0
    assert ran.stdout.isascii()


@pytest.mark.long
def test_what_lasts_for_a_second_says_what_it_does(tmp_path: Path) -> None:
    """While it lasts, on standard error; it is gone at the end."""
    path, log = tmp_path / "slow.py", tmp_path / "slow.jsonl"
    path.write_text("def slow(run, given):\n    pass\n")
    record(f"{path}:slow", log=log)
    path.write_text("import time\n\ndef slow(run, given):\n    time.sleep(2.5)\n")

    shown, code = _on_terminal("replay", log, "--program", f"{path}:slow")

    assert code == 0
    assert "re-executing " in shown


@pytest.mark.long
def test_what_lasts_says_how_far_it_is(sources: Path, tmp_path: Path) -> None:
    """One of the faults hangs for longer than a second, on any machine."""
    log = tmp_path / "d.jsonl"
    shown, code = _on_terminal("demo", sources, "--faults", "--log", log)

    assert code == 0
    assert re.search(r"recording: \d subagents? started", shown)
