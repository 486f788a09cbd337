"""Refold under a Python that lacks what macOS and Windows lack (CONTRACT.md §14.18)."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final

import pytest

import refold
from refold.cli.group import COMMANDS, READING
from tests.systems import environment

_COMMANDS: Final = """
import contextlib, io, json, sys
from refold.cli.group import refold
answers = []
for words in json.load(sys.stdin):
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            refold.main(words, prog_name="refold")
        except SystemExit as ended:
            out.flush()
            answers.append([ended.code, out.buffer.getvalue().decode()])
json.dump(answers, sys.stdout)
"""
"""Runs command lines one after the other, as `refold` does each, and prints codes and output."""

_PROGRAM: Final = """
import asyncio, refold

@refold.tool
def double(n: int) -> int:
    return 2 * n

async def child(run, n):
    return await run.tool(double, n=n)

async def root(run, text):
    kids = [await run.start(refold.Delegation(program=child, input=n)) for n in (1, 2)]
    outcomes = await run.join(*kids)
    await asyncio.sleep(0.001)
    return [text * 100_000, *(outcome.result() for outcome in outcomes)]
"""


pytestmark = pytest.mark.long  # `.ci/run` has a stage for them


@pytest.fixture(scope="module")
def macos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("macos"), "macos")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("windows"), "windows")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder behind a link, as temporary folders of macOS are, with a program."""
    (tmp_path / "real").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "linked" / "p.py").write_text(_PROGRAM)
    monkeypatch.chdir(tmp_path / "linked")
    return tmp_path / "linked"


def _run(python: Path | str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *words], input=stdin, capture_output=True, text=True, check=False, timeout=600
    )


def _commands(python: Path | str, lines: list[list[str]]) -> list[tuple[int, str]]:
    ended = _run(python, "-c", _COMMANDS, stdin=json.dumps(lines))
    assert ended.returncode == 0, ended.stderr
    return [(code, text) for code, text in json.loads(ended.stdout)]


def _record(python: Path | str) -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); import refold, p;"
        "assert refold.record(p.root, 'text', log='a.jsonl', tools=[p.double],"
        " runner='subprocess').status == 'completed'"
    )
    ended = _run(python, "-c", code)
    assert ended.returncode == 0, ended.stderr


def test_macos_records_and_replays_with_children_in_processes(macos: Path, folder: Path) -> None:
    _record(macos)
    assert refold.verify(folder / "a.jsonl").complete
    replay = ["replay", "a.jsonl", "--program", "p.py:root"]
    for code, text in _commands(macos, [replay, ["verify", "a.jsonl"]]):
        assert code == 0, text


@pytest.mark.usefixtures("folder")
def test_macos_runs_the_demo_with_faults(macos: Path) -> None:
    ended = _run(macos, "-m", "refold", "demo", "--faults")
    assert ended.returncode == 0, ended.stderr
    assert "no differences" in ended.stdout


_READING: Final = [
    ["ls"],
    ["ls", "."],
    ["show", "a.jsonl"],
    ["show", "a.jsonl", "--events", "--details"],
    ["show", "a.jsonl", "--events", "-n", "5"],
    ["why", "a.jsonl", "5"],
    ["show", "a.jsonl", "--at", "3"],
    ["show", "a.jsonl", "--at", "3", "--json"],
    ["verify", "a.jsonl", "a.1.jsonl", "torn.jsonl", "a.refold"],
    ["show", "torn.jsonl"],
    ["show", "a.refold"],
    ["diff", "a.jsonl", "a.refold"],
    ["diff", "a.1.jsonl", "a.2.jsonl"],
    ["ls", "a.jsonl", "a.refold", "--diff", "a.jsonl"],
    ["files", "a.jsonl"],
    ["export", "a.jsonl", "--to", "markdown"],
    ["schema", "--help"],
]


def test_windows_reads_what_linux_reads(windows: Path, folder: Path) -> None:
    """All commands that only read print the same there, byte for byte."""
    _record(sys.executable)
    whole = (folder / "a.jsonl").read_bytes()
    (folder / "torn.jsonl").write_bytes(whole[:-10])
    assert _commands(sys.executable, [["export", "a.jsonl", "--to", "refold"]])[0][0] == 0
    assert (folder / "a.blobs").is_dir(), "a text of its own file is read, too"
    here, there = _commands(sys.executable, _READING[:-1]), _commands(windows, _READING[:-1])
    for words, ours, theirs in zip(_READING, here, there, strict=False):
        assert theirs == ours, words
    assert {code for code, _ in there} == {0, 1, 2, 3}, "each kind of answer is among them"


def test_windows_writes_the_same_page(windows: Path, folder: Path) -> None:
    _record(sys.executable)
    pages: list[bytes] = []
    for python in (sys.executable, windows):
        words = ["export", "a.jsonl", "--to", "html", "-o", f"{len(pages)}.html"]
        assert _commands(python, [words])[0][0] == 0
        pages.append((folder / words[-1]).read_bytes())
    assert pages[0] == pages[1]


@pytest.mark.usefixtures("folder")
def test_windows_refuses_the_rest_in_one_line(windows: Path) -> None:
    others = [name for name in COMMANDS if name not in READING]
    for name, (code, text) in zip(others, _commands(windows, [[n] for n in others]), strict=True):
        assert code == 2
        assert re.fullmatch(rf"refold: refold {name} needs Linux or macOS: .* use WSL\..*\n", text)


def test_windows_refuses_to_write_a_log(windows: Path, folder: Path) -> None:
    code = "import sys; sys.path.insert(0, '.'); import refold, p; refold.record(p.child, 1)"
    ended = _run(windows, "-c", code)
    assert "SystemUnsupported: writing a log needs Linux or macOS" in ended.stderr
    assert not list(folder.glob("**/*.jsonl"))


@pytest.mark.usefixtures("folder")
def test_windows_shows_a_run_in_the_browser(windows: Path) -> None:
    _record(sys.executable)
    view = subprocess.Popen(
        [windows, "-m", "refold", "view", "a.jsonl"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert view.stdout is not None
        (address,) = re.findall(r"http://\S+", view.stdout.readline())
        with urllib.request.urlopen(address) as page:
            assert b"<html" in page.read().lower()
    finally:
        view.kill()
        view.communicate()
