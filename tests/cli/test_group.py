"""Every command has a page that a newcomer can act on, stands in README.md, and fits 80 columns."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.cli.group import COMMANDS
from refold.replay.audit.verify import verify

Invoke = Callable[..., Result]

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_is_documented_in_the_readme(name: str) -> None:
    assert f"refold {name}" in README.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_page_has_examples_and_fits_a_terminal(name: str, invoke: Invoke) -> None:
    page = invoke(name, "--help")

    assert page.exit_code == 0
    assert "Examples:" in page.stdout
    assert f"refold {name}" in page.stdout.partition("Examples:")[2]
    assert max(map(len, page.stdout.splitlines())) <= 80


def test_without_a_command_it_says_what_there_is(invoke: Invoke) -> None:
    said = invoke()

    assert said.exit_code == 0
    assert all(name in said.stdout for name in COMMANDS)
    assert "Exit codes:" in said.stdout
    assert max(map(len, said.stdout.splitlines())) <= 80


def test_a_command_that_is_not_there_is_usage_and_names_the_nearest(invoke: Invoke) -> None:
    said = invoke("verfy", "x.jsonl")

    assert said.exit_code == 2
    assert "did you mean verify?" in said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_standard_stream_that_is_closed_is_no_fault(closed: str, tmp_path: Path) -> None:
    """And none of the files that are opened takes its place."""
    log = tmp_path / "run.jsonl"
    command = f'"$0" -m refold record --log "$1" -- echo a {closed}'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable, str(log)], capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert verify(log).complete
