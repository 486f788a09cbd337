"""`refold run` records an agent file with a model that is named; 5 where it does not complete."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from refold.cli.schemas import schema

Invoke = Callable[..., Result]

AGENT = """---
name: reader
description: Reads files.
tools: [list_files]
---
You read.
"""
REPLIES = """
reader:
  - {name: list_files, arguments: {}}
  - "Two\\x1b[2J files."
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "AGENT.md").write_text(AGENT)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    return tmp_path


def _run(invoke: Invoke, folder: Path, *more: str, task: str = "look", stdin: str = "") -> Result:
    model = f"scripted:{folder / 'replies.yaml'}"
    words = ["--task", task, "--model", model, "--root", folder, "--log", folder / "a.jsonl"]
    return invoke("run", folder / "AGENT.md", *words, *more, stdin=stdin)


def test_it_says_the_answer_safely_and_where_it_was_recorded(folder: Path, invoke: Invoke) -> None:
    said = _run(invoke, folder)

    assert said.exit_code == 0
    assert said.stdout == "Two\\x1b[2J files.\n"
    assert str(folder / "a.jsonl") in said.stderr


def test_what_it_recorded_replays_by_its_name(folder: Path, invoke: Invoke) -> None:
    _run(invoke, folder)

    said = invoke("replay", folder / "a.jsonl")

    assert said.exit_code == 0
    assert "tool calls executed: 0" in said.stdout


def test_the_document_is_as_its_schema_says(folder: Path, invoke: Invoke) -> None:
    document = json.loads(_run(invoke, folder, "--json").stdout)

    jsonschema.validate(document, schema("run"))
    assert document["status"] == "completed"
    assert document["log"] == str(folder / "a.jsonl")


def test_a_task_is_read_from_standard_input(folder: Path, invoke: Invoke) -> None:
    assert _run(invoke, folder, task="-", stdin="look there\n").exit_code == 0
    assert "look there" in (folder / "a.jsonl").read_text()


def test_an_empty_task_is_usage(folder: Path, invoke: Invoke) -> None:
    assert _run(invoke, folder, task="-", stdin=" \n").exit_code == 2


def test_a_run_that_stops_at_a_limit_is_five_and_recorded(folder: Path, invoke: Invoke) -> None:
    said = _run(invoke, folder, "--max-turns", "1")

    assert said.exit_code == 5
    assert "max_iterations" in said.stderr
    assert invoke("verify", folder / "a.jsonl").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["missing/AGENT.md", "--task", "t", "--model", "scripted:replies.yaml"],
        ["AGENT.md", "--task", "t"],
        ["AGENT.md", "--task", "t", "--model", "nobody:x"],
        ["AGENT.md", "--task", "t", "--model", "scripted:missing.yaml"],
        ["AGENT.md", "--model", "scripted:replies.yaml"],
        ["AGENT.md", "--task", "t", "--model", "scripted:replies.yaml", "--root", "missing"],
        ["AGENT.md", "--task", "t", "--model", "scripted:replies.yaml", "--log", "AGENT.md"],
    ],
)
def test_what_is_wrong_with_the_call_is_usage_and_nothing_is_recorded(
    words: list[str], folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)

    said = invoke("run", *words)

    assert said.exit_code == 2
    assert "fault of Refold" not in said.stderr
    assert not list(folder.glob("**/*.jsonl"))


def test_a_log_that_is_there_is_never_overwritten(folder: Path, invoke: Invoke) -> None:
    _run(invoke, folder)

    assert _run(invoke, folder).exit_code == 2


def test_each_delegation_is_one_line_of_diagnostics_when_asked_for(
    folder: Path, invoke: Invoke
) -> None:
    (folder / "AGENT.md").write_text(AGENT.replace("[list_files]", "[subagent]"))
    (folder / "replies.yaml").write_text(
        "reader:\n  - {name: subagent, arguments: {task: dig}}\n  - Done.\nsubagent:\n  - Dug.\n"
    )
    model = f"scripted:{folder / 'replies.yaml'}"
    words = ("run", folder / "AGENT.md", "--task", "t", "--model", model)

    said = invoke("--log-level", "info", *words, "--log", folder / "a.jsonl")
    quiet = invoke(*words, "--log", folder / "b.jsonl")

    (line,) = [each for each in said.stderr.splitlines() if each.startswith("{")]
    assert json.loads(line)["level"] == "info"
    assert "{" not in quiet.stderr
    assert "└─ completed subagent 1" in invoke("show", folder / "a.jsonl").stdout
