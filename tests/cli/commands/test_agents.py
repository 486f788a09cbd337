"""`refold agents check` says all that is wrong with a folder of agent files."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

from refold.cli.schema.documents import schema

Invoke = Callable[..., Result]

FINE = "---\nname: Reviewer\ndescription: Reads a change.\ntools: [read_file]\n---\nYou review.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "agents"
    (place / "reviewer").mkdir(parents=True)
    (place / "reviewer" / "AGENT.md").write_text(FINE)
    return place


def test_a_folder_in_which_all_is_well(folder: Path, invoke: Invoke) -> None:
    said = invoke("agents", "check", folder)

    assert said.exit_code == 0
    assert "reviewer  Reads a change." in said.stdout
    assert "1 agent, 0 problems" in said.stdout


def test_every_problem_is_told_with_its_file(folder: Path, invoke: Invoke) -> None:
    (folder / "mute.md").write_text("---\nname: Mute\n---\n")
    (folder / "odd.md").write_text("---\ndescription: d\ntools: [red_file]\n---\n")

    said = invoke("agents", "check", folder)
    document = json.loads(invoke("agents", "check", folder, "--json").stdout)

    assert said.exit_code == 1
    assert "description is required" in said.stdout
    assert "the nearest: read_file" in said.stdout
    assert "1 agent, 2 problems" in said.stdout
    jsonschema.validate(document, schema("agents"))
    assert not document["ok"]
    assert [problem["id"] for problem in document["problems"]] == ["mute", "odd"]
    assert document["problems"][0]["path"].endswith("mute.md")
    assert [agent["id"] for agent in document["agents"]] == ["reviewer"]


def test_the_folder_of_one_agent_is_checked_too(folder: Path, invoke: Invoke) -> None:
    """§14.12: AGENT.md itself, under the folder's name; texts beside it are no agents."""
    own = folder / "reviewer"
    (own / "notes.md").write_text("Not an agent.")

    said = invoke("agents", "check", own)
    (own / "below").mkdir()
    (own / "below" / "AGENT.md").write_text("---\nname: Mute\n---\n")
    below = invoke("agents", "check", own)
    (own / "AGENT.md").write_text("---\ndescription: d\ntools: [red_file]\n---\n")
    bad = invoke("agents", "check", own)

    assert said.exit_code == 0, said.output
    assert "reviewer  Reads a change." in said.stdout
    assert "1 agent, 0 problems" in said.stdout
    assert "1 agent, 1 problem" in below.stdout
    assert bad.exit_code == 1
    assert "the nearest: read_file" in bad.stdout


def test_the_working_directory_may_be_that_folder(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named as it is, and not by a dot."""
    monkeypatch.chdir(folder / "reviewer")

    said = invoke("agents", "check", ".")

    assert said.exit_code == 0, said.output
    assert said.stdout.startswith("reviewer  ")


def test_tools_of_ones_own_may_be_named(folder: Path, invoke: Invoke) -> None:
    (folder / "web.md").write_text("---\ndescription: d\ntools: [web_search]\n---\n")

    assert invoke("agents", "check", folder).exit_code == 1
    assert invoke("agents", "check", folder, "--tool", "web_search").exit_code == 0


def test_an_empty_folder_has_none_and_a_missing_one_is_usage(
    tmp_path: Path, invoke: Invoke
) -> None:
    (tmp_path / "empty").mkdir()

    said = invoke("agents", "check", tmp_path / "empty")

    assert said.exit_code == 1
    assert "no agents in" in said.stdout
    assert invoke("agents", "check", tmp_path / "absent").exit_code == 2


def test_without_a_subcommand_it_shows_its_page(invoke: Invoke) -> None:
    said = invoke("agents")

    assert said.exit_code == 2
    assert said.stdout == ""
    assert said.stderr.splitlines()[0].startswith("Usage: refold agents")
    assert "Commands:" in said.stderr.splitlines()
    assert "refold: " not in said.stderr
    assert invoke("agents", "check", "--help").exit_code == 0
    assert invoke("agents", "chek").exit_code == 2
