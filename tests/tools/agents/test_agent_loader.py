"""A folder of agents: both conventions, one by id, or all that are ones."""

from pathlib import Path

import pytest

from refold.engine.errors import DefNotFoundError, InvalidDefError
from refold.tools.agents.agent_files import AgentLoader

PLAIN = "---\ndescription: d\n---\nYou are one.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("zoe", "ann"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "AGENT.md").write_text(PLAIN)
    (tmp_path / "moe.md").write_text(PLAIN)
    return tmp_path


def test_folders_and_files_are_agents_sorted_by_id(folder: Path) -> None:
    (folder / "README.md").write_text("These are agents.")
    (folder / ".hidden.md").write_text(PLAIN)
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("none")
    loader = AgentLoader(folder)

    assert [agent.id for agent in loader.discover_agents()] == ["ann", "moe", "zoe"]
    assert loader.skipped == ()
    assert loader.load("moe").system_prompt == "You are one."


@pytest.mark.parametrize("agent_id", ["x", "", ".", "..", "../ann", "ann/AGENT", "README", "empty"])
def test_what_no_file_defines_is_not_found(folder: Path, agent_id: str) -> None:
    with pytest.raises(DefNotFoundError):
        AgentLoader(folder).load(agent_id)


def test_what_is_invalid_is_passed_over_and_kept(folder: Path) -> None:
    (folder / "bad.md").write_text("---\nname: bad\n---\n")
    loader = AgentLoader(folder)

    assert [agent.id for agent in loader.discover_agents()] == ["ann", "moe", "zoe"]
    assert [error.agent for error in loader.skipped] == ["bad"]
    with pytest.raises(InvalidDefError):
        loader.load("bad")


def test_two_files_cannot_define_one_agent(folder: Path) -> None:
    (folder / "ann.md").write_text(PLAIN)
    loader = AgentLoader(folder)

    with pytest.raises(InvalidDefError, match=r"ann/AGENT\.md and ann\.md"):
        loader.load("ann")
    assert [agent.id for agent in loader.discover_agents()] == ["moe", "zoe"]


def test_each_call_reads_anew(folder: Path) -> None:
    loader = AgentLoader(folder)
    loader.discover_agents()
    (folder / "new.md").write_text(PLAIN)

    assert "new" in [agent.id for agent in loader.discover_agents()]


def test_tools_of_ones_own_can_be_named(folder: Path) -> None:
    (folder / "own.md").write_text("---\ndescription: d\ntools: [look]\n---\n")

    assert AgentLoader(folder, known_tools=["look"]).load("own").tools == ("look",)
    with pytest.raises(InvalidDefError, match="no tool is named 'look'"):
        AgentLoader(folder).load("own")


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidDefError, match="No such file"):
        AgentLoader(tmp_path / "absent").discover_agents()
