"""Each job in the table of docs/commands.md is done by the command beside it."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.stores import folder_store

Invoke = Callable[..., Result]
PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
CODES = {"fork": (0, 4, 5), "diff": (0, 1), "explore": (0, 1, 4)}


def test_each_job_is_done_by_its_command(
    survey_log: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of the table: heads are written before they are expected."""
    monkeypatch.chdir(tmp_path)
    for name in ("runs", "others", "damaged"):
        shutil.copytree(survey_log.parent, tmp_path / name)
    damaged = tmp_path / "damaged" / survey_log.name
    damaged.write_bytes(damaged.read_bytes().replace(b'"seq":4', b'"seq":5', 1))
    agent = tmp_path / "agents" / "reviewer.md"
    agent.parent.mkdir()
    agent.write_text("---\ndescription: Reads.\n---\nYou read.\n")
    names = {
        "LOG": f"runs/{survey_log.name}", "OTHER": f"others/{survey_log.name}", "DIR": "runs",
        "DAMAGED": str(damaged), "AGENTS": "agents", "STORE": folder_store(tmp_path / "store"),
    }  # fmt: skip
    table = re.search(r"## Which command.*?\n## ", PAGE.read_text(), re.DOTALL)
    assert table
    commands = re.findall(r"`refold ([^`]+)`", table[0])
    failed = []
    for number, line in enumerate(commands):
        found = names | {"FILE": f"made-{line.split()[0]}"}
        words = [found.get(each, each) for each in shlex.split(line)]
        words = [each.replace("NEW", f"new{number}") for each in words]

        done = invoke(*words)

        codes = (3,) if "DAMAGED" in line else CODES.get(words[0], (0, "--live" in line))
        if done.exit_code not in codes:
            failed.append((line, done.exit_code, done.output))
    assert len(commands) > 30
    assert failed == [], failed
