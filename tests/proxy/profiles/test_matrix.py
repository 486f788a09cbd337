"""The table of docs/agents.md is what was seen, and each cell can be seen again (`long`)."""

import subprocess
from pathlib import Path

import pytest

from tests.proxy.profiles.agents import AGENTS, COMMIT
from tests.proxy.profiles.matrix import (
    BEGIN,
    END,
    JOB,
    PAGE,
    READING,
    WAYS,
    Try,
    kept,
    table,
    tried,
    version_of,
)
from tests.support.loops import for_each


def test_the_page_has_the_table_of_what_was_seen() -> None:
    """`python -m tests.proxy.profiles.matrix --table` writes it again."""
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)

    assert rest.partition(END)[0].strip() == table(kept())


def test_what_was_seen_is_of_agents_and_ways_that_are_tried() -> None:
    assert kept().keys() <= AGENTS.keys()
    assert all(row["cells"].keys() <= WAYS.keys() for row in kept().values())


def test_a_table_says_what_was_not_tried_and_what_was_not_so() -> None:
    seen = {
        "codex": {
            "version": "0.169.0",
            "cells": {"record": {"ok": True}, "two": {"ok": False, "said": "1 agent at the top"}},
        }
    }

    text = table(seen)

    assert "| Codex | 0.169.0 | yes | not tried | not tried |" in text
    assert "- Codex, two at once: 1 agent at the top" in text
    assert "| aider | - | not tried |" in text


@for_each("name", AGENTS)
def test_an_agent_commits_in_its_job_and_not_where_it_only_reads(name: str) -> None:
    """DSPy's script commits by itself."""
    told = {task: str(AGENTS[name].told(task)) for task in (JOB, READING)}

    assert (COMMIT.replace('"', "") in told[JOB].replace("\\", "")) == (
        name not in ("aider", "dspy")
    )
    assert "git commit" not in told[READING]


def test_folders_to_work_in_have_equal_commits_whenever_they_are_made(tmp_path: Path) -> None:
    """A submodule and a worktree have a `.git` that is a file."""
    one = Try(AGENTS["pi"], tmp_path)
    made = {kind: one.folder(f"in-{kind}", kind) for kind in ("", "submodule", "worktree")}
    heads = {_head(made[""]), _head(made["worktree"]), _head(one.folder("again"))}

    assert len(heads) == 1
    assert (made["submodule"] / "lib/.git").is_file()
    assert (made["worktree"] / ".git").is_file()
    assert (made[""] / "AGENTS.md").read_text() == "Be brief and kind.\n"


def _head(folder: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


@pytest.mark.long
@pytest.mark.parametrize("name", AGENTS)
def test_what_was_tried_of_an_agent_is_as_the_page_says(name: str, tmp_path: Path) -> None:
    """With the programs that are there, in the versions of the page."""
    row = kept().get(name, {"version": "", "cells": {}})
    if not row["cells"] or version_of(AGENTS[name]) != row["version"]:
        pytest.skip(f"{name} {row['version']} is not installed, or was not tried")
    seen = {way: cell["ok"] for way, cell in tried(name, row["cells"], tmp_path)}

    assert seen == {way: cell["ok"] for way, cell in row["cells"].items()}
