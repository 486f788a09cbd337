"""What others run or list us by: the GitHub Action, and the entry for registries of MCP servers."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import refold
from refold.cli.group import COMMANDS
from tests.support.loops import some

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(("changed", "code"), some(1, [(True, 1), (False, 0)]))
def test_the_action_describes_each_log_that_differs(
    changed: bool,  # noqa: FBT001 - pytest passes it
    code: int,
    tmp_path: Path,
) -> None:
    program = tmp_path / "app.py"
    program.write_text("def main(run, text):\n    return len(text)\n")
    refold.record(f"{program}:main", "one", log=tmp_path / "kept" / "a.jsonl")
    if changed:
        program.write_text("def main(run, text):\n    return len(text) + 10\n")
    (step,) = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    summary = tmp_path / "summary.md"
    summary.touch()
    given = {
        "LOGS": "kept",
        "ARGUMENTS": "--program app.py:main --limit jobs=1",
        "GITHUB_STEP_SUMMARY": str(summary),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }

    command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | given, check=False)

    assert done.returncode == code
    assert (tmp_path / "replay.xml").is_file()
    assert ("a.jsonl" in summary.read_text()) == changed
    assert len((ROOT / "action.yml").read_text().splitlines()) <= 30


def test_the_entry_for_registries_is_of_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    entry = json.loads((ROOT / "server.json").read_text())
    (package,) = entry["packages"]
    (source,) = package["runtimeArguments"]
    name, _ = package["packageArguments"]

    assert entry["version"] == package["version"] == project["version"]
    assert source["value"] == f"{project['name']}[mcp]=={project['version']}"
    assert name["value"] in COMMANDS
    assert "mcp" in project["optional-dependencies"]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a source archive does not know git")
def test_the_source_archive_has_every_file_that_tests_and_builds_read() -> None:
    """The links below src/refold and what only git reads are left out."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    included = tuple(build["targets"]["sdist"]["only-include"])
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    files = [Path(line) for line in listed.stdout.decode().splitlines()]

    left_out = [
        str(file)
        for file in files
        if not any(file.is_relative_to(each) for each in included)
        if not (ROOT / file).is_symlink()
    ]

    assert left_out == [".git-blame-ignore-revs", ".gitignore", "pyproject.toml"]
