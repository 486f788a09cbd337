"""`refold run --dry-run` reports all that is wrong with a folder of agent files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.schemas import validate

Invoke = Callable[..., Result]

FINE = "---\nname: Reviewer\ndescription: Reads a change.\ntools: [read_file]\n---\nYou review.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "agents"
    (place / "reviewer").mkdir(parents=True)
    (place / "reviewer" / "AGENT.md").write_text(FINE)
    return place


def test_a_folder_in_which_all_is_well(folder: Path, invoke: Invoke) -> None:
    said = invoke("run", folder, "--dry-run")

    assert said.exit_code == 0
    assert "reviewer  Reads a change." in said.stdout
    assert "1 agent, 0 problems" in said.stdout


def test_every_problem_is_told_with_its_file(folder: Path, invoke: Invoke) -> None:
    (folder / "mute.md").write_text("---\nname: Mute\n---\n")
    (folder / "odd.md").write_text("---\ndescription: d\ntools: [red_file]\n---\n")

    said = invoke("run", folder, "--dry-run")
    document = json.loads(invoke("run", folder, "--dry-run", "--json").stdout)

    assert said.exit_code == 1
    assert "description is required" in said.stdout
    assert "did you mean 'read_file'?" in said.stdout
    assert "1 agent, 2 problems" in said.stdout
    validate(document, "agents")
    assert not document["ok"]
    assert [problem["agent"] for problem in document["problems"]] == ["mute", "odd"]
    assert document["problems"][0]["path"].endswith("mute.md")
    assert [agent["id"] for agent in document["agents"]] == ["reviewer"]


def test_the_folder_of_one_agent_is_checked_too(folder: Path, invoke: Invoke) -> None:
    """§14.12: AGENT.md itself, under the folder's name; texts beside it are no agents."""
    own = folder / "reviewer"
    (own / "notes.md").write_text("Not an agent.")

    said = invoke("run", own, "--dry-run")
    (own / "below").mkdir()
    (own / "below" / "AGENT.md").write_text("---\nname: Mute\n---\n")
    below = invoke("run", own, "--dry-run")
    (own / "AGENT.md").write_text("---\ndescription: d\ntools: [red_file]\n---\n")
    bad = invoke("run", own, "--dry-run")

    assert said.exit_code == 0, said.output
    assert "reviewer  Reads a change." in said.stdout
    assert "1 agent, 0 problems" in said.stdout
    assert "1 agent, 1 problem" in below.stdout
    assert bad.exit_code == 1
    assert "did you mean 'read_file'?" in bad.stdout


def test_the_working_directory_may_be_that_folder(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as it is, and not by a dot."""
    monkeypatch.chdir(folder / "reviewer")

    said = invoke("run", ".", "--dry-run")

    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("reviewer  ")


def test_tools_of_ones_own_may_be_named(folder: Path, invoke: Invoke) -> None:
    (folder / "web.md").write_text("---\ndescription: d\ntools: [web_search]\n---\n")

    tools = folder.parent / "own.py"
    tools.write_text(
        "import refold\n\n@refold.tool(effect='reads')\ndef web_search(query: str) -> str:\n"
        "    'Search.'\n    return query\n\nTOOLS = [web_search]\n"
    )

    assert invoke("run", folder, "--dry-run").exit_code == 1
    assert invoke("run", folder, "--dry-run", "--tools", f"{tools}:TOOLS").exit_code == 0


def test_an_empty_folder_has_none_and_a_missing_one_is_usage(
    tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "empty").mkdir()

    said = invoke("run", tmp_path / "empty", "--dry-run")

    assert said.exit_code == 1
    assert "no agents in" in said.stdout
    assert invoke("run", tmp_path / "absent", "--dry-run").exit_code == 2


def test_an_agents_file_is_checked_and_a_run_needs_a_task(folder: Path, invoke: Invoke) -> None:
    file = folder / "reviewer" / "AGENT.md"

    assert "1 agent, 0 problems" in invoke("run", file, "--dry-run").stdout
    assert "pass --task, or --dry-run" in invoke("run", file).stderr


def test_a_file_beside_agents_is_checked_itself(folder: Path, invoke: Invoke) -> None:
    (folder / "AGENT.md").write_text("---\ndescription: d\ntools: [spwan]\n---\n")

    said = invoke("run", folder / "AGENT.md", "--dry-run")

    assert said.exit_code == 1
    assert "did you mean 'spawn'?" in said.stdout
