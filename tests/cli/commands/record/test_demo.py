"""`refold demo` needs no key, model or network: it records, shows, verifies, replays and diffs."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from refold.cli.schema.documents import schema
from refold.replay.audit.verify import verify

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


def test_it_shows_each_step_what_it_proved_and_what_to_try_next(
    said: subprocess.CompletedProcess[str], sources: Path, folder: Path
) -> None:
    assert (said.returncode, said.stderr) == (0, "")
    for words in (
        f"record  a survey of {sources} by ",
        "verify  the chain of hashes is unbroken, and parents and children match",
        "replay  the programs run again, with results from the logs",
        "diff  ",
        "What this shows  (",
        "Try next\n",
    ):
        assert f"\n{words}" in said.stdout
    assert ", recorded in a subprocess and then in this process\n" in said.stdout
    assert "  intact     yes  4 logs" in said.stdout
    log = min(folder.glob("runs/*-demo-*.jsonl"), key=lambda path: len(path.name))
    entries = sum(log.entries for log in verify(log).logs)
    assert f"  3 subagents did real work, which is recorded in {entries} entries." in said.stdout
    assert "completed survey_package 3" in said.stdout
    assert "no differences" in said.stdout
    assert "tool calls executed: 0, differences: 0" in said.stdout


def test_the_commands_that_it_names_work(
    said: subprocess.CompletedProcess[str],
    folder: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    named = [line.split() for line in said.stdout.partition("Try next\n")[2].splitlines()]
    own = [words[1:] for words in named if words[:1] == ["refold"]]
    commands = [words for words in own if "--faults" not in words]

    ran = [invoke(*(path for word in words for path in _as_a_shell(word))) for words in commands]

    assert [each.exit_code for each in ran] == [0, 0, 0, 0, 0]


def test_where_refold_is_not_on_the_path_it_says_how_it_gets_there(
    said: subprocess.CompletedProcess[str],
) -> None:
    """README's first command runs it by its path."""
    if not Path(sys.executable).with_name("activate").is_file():
        pytest.skip("this Python stands in no virtual environment")
    first = said.stdout.partition("Try next\n")[2].splitlines()[0]

    assert first.startswith("  source ")
    assert first.endswith(f"{Path(sys.executable).parent.name}/activate")


def _as_a_shell(word: str) -> list[str]:
    return sorted(map(str, Path().glob(word))) or [word]


@pytest.mark.long
def test_its_document_is_as_the_schema_says(sources: Path, tmp_path: Path, invoke: Invoke) -> None:
    log = tmp_path / "d.jsonl"
    began = time.monotonic()
    said = invoke("demo", sources, "--log", log, "--jobs", "1", "--json")
    took_ms = 1 + (time.monotonic() - began) * 1000

    document = json.loads(said.stdout)
    jsonschema.validate(document, schema("demo"))
    assert said.exit_code == 0
    assert document["children"] == {"completed": 3}
    assert (document["tools_executed"], document["differences"]) == (0, 0)
    assert (document["intact"], document["complete"], document["identical"]) == (True,) * 3
    assert document["entries"] == sum(each.entries for each in verify(log).logs)
    assert (document["log"], document["status"]) == (str(log), "completed")
    assert document["summary"].startswith("sources")
    assert 100 < document["duration_ms"] <= took_ms


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
    said = _demo(tmp_path, sources, "--faults", "--json")

    document = json.loads(said.stdout)
    assert said.returncode == 0
    assert document["children"] == {
        "timed_out": 1,
        "limit": 1,
        "failed": 1,
        "rejected": 1,
        "completed": 3,
    }
    assert document["identical"]


@pytest.mark.long
def test_the_standard_library_is_surveyed_by_default(tmp_path: Path) -> None:
    said = _demo(tmp_path, "--json")

    document = json.loads(said.stdout)
    assert said.returncode == 0
    assert 10 <= document["children"]["completed"] <= 40
    assert "not parsed" not in document["summary"]
