"""`refold demo` needs no key, model or network: it records, shows, verifies, replays and diffs."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def _demo(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "refold", "demo", *map(str, words)]
    env = os.environ | {"PATH": "/usr/bin:/bin"}  # the environment is not entered
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder in which the demo ran."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def said(sources: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Return what the demo said."""
    return _demo(folder, sources)


def test_it_shows_each_step_and_what_to_try_next(
    said: subprocess.CompletedProcess[str], sources: Path, folder: Path
) -> None:
    log = min(folder.glob("runs/*-demo-*.jsonl"), key=lambda path: len(path.name))
    shown = log.relative_to(folder)

    assert (said.returncode, said.stderr) == (0, "")
    for words in (
        f"record a survey of {sources} by ",
        f"$ refold show {shown}",
        f"$ refold verify {shown}",
        f"$ refold replay {shown}",
        f"$ refold diff {shown.with_suffix('')}-a.jsonl {shown.with_suffix('')}-b.jsonl",
        "Try next",
    ):
        assert f"\n{words}" in said.stdout
    assert ", in a subprocess and then in this process\n" in said.stdout
    assert "  intact     yes  4 logs" in said.stdout
    assert "completed survey_package 3" in said.stdout
    assert "3 subagents: 3 completed" in said.stdout
    assert "tool calls executed: 0" in said.stdout
    assert "no differences" in said.stdout


def test_the_commands_that_it_names_work(
    said: subprocess.CompletedProcess[str],
    folder: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    named = [line.split() for line in said.stdout.partition("\nTry next ")[2].splitlines()]
    own = [words[1:] for words in named if words[:1] == ["refold"]]
    commands = [words for words in own if "--faults" not in words]

    ran = [invoke(*words) for words in commands]

    assert [each.exit_code for each in ran] == [0, 0, 0]


def test_where_refold_is_not_on_the_path_it_says_how_it_gets_there(
    said: subprocess.CompletedProcess[str],
) -> None:
    """README's first command runs it by its path."""
    if not Path(sys.executable).with_name("activate").is_file():
        pytest.skip("this Python stands in no virtual environment")
    first = said.stdout.partition("\nTry next ")[2].splitlines()[1]

    assert first.startswith("  source ")
    assert first.endswith(f"{Path(sys.executable).parent.name}/activate")


def test_nothing_to_survey_is_five(tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "empty").mkdir()

    said = invoke("demo", tmp_path / "empty", "--log", tmp_path / "d.jsonl")

    assert said.exit_code == 5
    assert "no Python files found" in said.stdout


def test_what_is_there_already_is_refused_before_anything_is_recorded(
    sources: Path, tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "d-b.jsonl").write_text("mine")

    said = invoke("demo", sources, "--log", tmp_path / "d.jsonl")

    assert said.exit_code == 2
    assert "never overwritten" in said.stderr
    assert not (tmp_path / "d.jsonl").exists()


def test_a_path_that_is_no_folder_is_usage(tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("demo", tmp_path / "missing").exit_code == 2


@pytest.mark.long
def test_with_faults_it_still_ends_well(sources: Path, tmp_path: Path) -> None:
    """Case 93: a child hangs, one floods, one crashes, one is refused: outcomes, which replay."""
    said = _demo(tmp_path, sources, "--faults")

    assert said.returncode == 0
    for ended in ("3 completed", "1 timed out", "1 limit", "1 failed", "1 rejected"):
        assert ended in said.stdout
    assert "\nidentical: " in said.stdout


@pytest.mark.long
def test_the_standard_library_is_surveyed_by_default(tmp_path: Path) -> None:
    said = _demo(tmp_path)

    assert said.returncode == 0
    found = re.search(r"(\d+) subagents: \1 completed", said.stdout)
    assert found
    assert 10 <= int(found[1]) <= 40
    assert "not parsed" not in said.stdout
