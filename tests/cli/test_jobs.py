"""Each job in the table of docs/commands.md is done by the command beside it."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.cli.group import COMMANDS
from tests.support.stores import folder_store

Invoke = Callable[..., Result]
PAGE = Path(__file__).parents[2] / "docs" / "commands.md"
CODES = {"fork": (0, 4, 5), "diff": (0, 1), "explore": (0, 1, 4), "doctor": (1,), "resume": (0, 5)}
SERVING = ("demo", "view", "mcp", "mcp-proxy")
"""Commands that run until they are stopped, or for long: their page has the options."""


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
    (tmp_path / "AGENT.md").write_text("---\ndescription: Reads.\ntools: []\n---\nYou read.\n")
    (tmp_path / "replies.yaml").write_text("- done\n")
    lines = survey_log.read_bytes().splitlines(keepends=True)
    (tmp_path / "open.jsonl").write_bytes(lines[0])
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "key"], check=True)
    (tmp_path / "signers").write_text(f"ann {(tmp_path / 'key.pub').read_text()}")
    names = {
        "LOG": f"runs/{survey_log.name}", "OTHER": f"others/{survey_log.name}", "DIR": "runs",
        "DAMAGED": str(damaged), "AGENTS": "agents", "STORE": folder_store(tmp_path / "store"),
        "OPEN": "open.jsonl", "RECORDED": "recorded.jsonl", "COMMAND": "true", "KEY": "key",
        "SIGNERS": "signers", "SPEC": "scripted:replies.yaml",
    }  # fmt: skip
    table = re.search(r"## Which command.*?\n## ", PAGE.read_text(), re.DOTALL)
    assert table
    commands = re.findall(r"`refold ([^`]+)`", table[0])
    failed = []
    for number, line in enumerate(commands):
        found = names | {"FILE": f"made-{line.split()[0]}"}
        words = [found.get(each, each) for each in shlex.split(line)]
        words = [each.replace("NEW", f"new{number}") for each in words]

        done = invoke(*words if words[0] not in SERVING else (words[0], "--help"))

        codes = (3,) if "DAMAGED" in line else CODES.get(words[0], (0, "--live" in line))
        if done.exit_code not in codes:
            failed.append((line, done.exit_code, done.output))
    assert {line.split()[0] for line in commands} == {*COMMANDS}
    assert failed == [], failed
