"""The table of docs/agents.md is what was seen, and each cell can be seen again (`long`)."""

from pathlib import Path

import pytest

from tests.proxy.profiles.matrix import (
    AGENTS,
    BEGIN,
    END,
    PAGE,
    WAYS,
    kept,
    table,
    try_one,
    version_of,
)


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


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", AGENTS)
def test_a_cell_is_as_the_page_says(name: str, way: str, tmp_path: Path) -> None:
    """With the programs that are there, in the versions of the page."""
    row = kept().get(name, {"version": "", "cells": {}})
    if way not in row["cells"] or version_of(AGENTS[name]) != row["version"]:
        pytest.skip(f"{name} {row['version']} is not installed, or was not tried so")

    assert try_one(name, way, tmp_path)["ok"] == row["cells"][way]["ok"]
