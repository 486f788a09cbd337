"""Each example runs from any folder, without arguments, is recorded, and replays from its log."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from refold.cli.group import refold
from refold.replay.audit.verify import verify
from refold.replay.run.opened_run import delegation_tree
from refold.tools.agents.agent_files import AgentLoader
from refold.tools.contract.policy import POLICIES

ROOT = Path(__file__).parents[2]
READER = ROOT / "examples" / "verify_log.py"  # of logs; tests/examples/test_verify_log.py tries it
EXAMPLES = sorted({*(ROOT / "examples").glob("*.py")} - {READER})


def run_in(folder: Path, example: Path) -> str:
    """Run an example as a person would; return what it prints."""
    ended = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_each_tool_has_an_example_with_a_line_in_the_documents() -> None:
    page = (ROOT / "docs" / "agents-with-models.md").read_text(encoding="utf-8")

    assert {path.stem for path in EXAMPLES} == {*POLICIES, "second_opinion"}
    assert [path.name for path in EXAMPLES if f"examples/{path.name}" not in page] == []


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(each, marks=pytest.mark.long if number else ())
        for number, each in enumerate(EXAMPLES)
    ],
    ids=lambda path: path.stem,
)
def test_an_example_runs_and_replays(example: Path, tmp_path: Path) -> None:
    printed = run_in(tmp_path, example)

    assert f"by {example.stem}: completed" in printed
    assert printed.splitlines()[-1].startswith("identical: ")
    (log,) = [path for path in (tmp_path / "runs").glob("*.jsonl") if path.stem.count(".") == 0]
    assert verify(log).intact


@pytest.mark.long
def test_the_tool_of_ones_own_works_in_a_child_of_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is made there again, by a file that refers to itself by its name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "AGENT.md").write_text(
        "---\nname: lead\ndescription: d\ntools: [spawn, spawn_await, second_opinion]\n---\n"
    )
    script = {
        "lead": [
            {"name": "spawn", "arguments": {"task": "ask", "tools": "second_opinion"}},
            {"name": "spawn_await", "arguments": {"job_ids": "*"}},
            "done",
        ],
        "spawn": [{"name": "second_opinion", "arguments": {"question": "Rain?"}}, "asked"],
        "*": ["No."],
    }
    (tmp_path / "script.json").write_text(json.dumps(script))
    own = ["--tools", str(ROOT / "examples" / "second_opinion.py:TOOL")]
    words = ["run", "AGENT.md", "--task", "go", "--model", "scripted:script.json", *own]

    said = CliRunner().invoke(refold, [*words, "--runner", "subprocess", "--log", "a.jsonl"])

    assert said.exit_code == 0, said.output
    (child,) = delegation_tree("a.jsonl").children
    assert [one.status for one in child.children] == ["completed"] * 2
    assert CliRunner().invoke(refold, ["replay", "a.jsonl", *own]).exit_code == 0


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_how_to_use_a_real_model(example: Path) -> None:
    text = example.read_text(encoding="utf-8")

    assert f"python examples/{example.name} openai:gpt-4o" in text


def test_the_agents_of_the_examples_are_ones() -> None:
    loader = AgentLoader(ROOT / "examples" / "agents")

    assert [agent.id for agent in loader.discover_agents()] == ["reviewer", "scribe"]
    assert loader.skipped == ()
