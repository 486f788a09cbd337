"""What a spawned agent is made of, and what of it stands in the log."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.log.reader import read_entries
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.agents.profiles import (
    SpawnProfile,
    SubAgentFactory,
    profiles_block,
    with_profiles,
)


def test_a_factory_is_plain_data() -> None:
    factory = SubAgentFactory(
        profiles={"sage": SpawnProfile(tools=("a", "b"), pool="fast")},
        workspace=Path("there"),
        default_bootstrap_files=["SOUL.md"],
        default_pool="slow",
    )

    assert SubAgentFactory().with_json(factory.as_json()) == factory


def test_profiles_stand_in_the_log_by_name() -> None:
    """A file of settings in another order is the same to a replay."""
    profiles = {name: SpawnProfile(pool=name) for name in ("sage", "bard")}

    assert list(SubAgentFactory(profiles=profiles).as_json()["profiles"]) == ["bard", "sage"]


def test_an_unknown_profile_is_a_key_error(tmp_path: Path) -> None:
    async def program(run: Any, _: Any) -> Any:
        with pytest.raises(KeyError):
            SubAgentFactory().build(run, profile_name="poet")
        return SubAgentFactory().build(run).model

    assert record(program, log=tmp_path / "run.jsonl").output == ""


def test_what_is_read_is_recorded_and_a_replay_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.")
    factory = SubAgentFactory(workspace=tmp_path)

    async def program(run: Any, _: Any) -> Any:
        return factory.build(run, "Now.").system

    log = tmp_path / "run.jsonl"
    assert record(program, log=log).output == "Be kind.\n\n---\n\nNow."
    drawn = [entry.data["value"] for entry in read_entries(log) if entry.kind == "value.drawn"]
    assert drawn == ["Be kind.", None]
    (tmp_path / "AGENTS.md").write_text("Be rude.")
    assert reexecute(log, program).identical


def test_a_prompt_gets_the_block_at_its_end() -> None:
    profiles = {"sage": SpawnProfile(system_prompt="Be wise.")}

    assert with_profiles("You lead.", profiles) == f"You lead.\n\n{profiles_block(profiles)}"
    assert with_profiles("", profiles) == profiles_block(profiles)
    assert with_profiles("You lead.", {}) == "You lead."
