"""Every command has a page that a newcomer can act on, and that fits 80 columns."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from refold.cli.arguments.foreign import OfCommands, OfPrograms, WithCommand
from refold.cli.group import COMMANDS, refold
from refold.replay.audit.verify import verify
from tests.support.loops import for_each, some

Invoke = Callable[..., Result]


@for_each("name", COMMANDS)
def test_each_help_page_has_examples_and_fits_a_terminal(name: str, invoke: Invoke) -> None:
    page = invoke(name, "--help")

    assert page.exit_code == 0
    assert "Examples:" in page.stdout
    assert f"refold {name}" in page.stdout.partition("Examples:")[2]
    assert max(map(len, page.stdout.splitlines())) <= 80


def test_a_wrong_call_says_how_it_is_called(invoke: Invoke) -> None:
    said = invoke("show")

    assert said.exit_code == 2
    usage, problem, hint = said.stderr.strip().splitlines()
    assert usage.startswith("Usage: ")
    assert "show" in usage
    assert "LOG" in problem
    assert hint.endswith("For examples, see `refold show --help`.")


def test_without_a_command_it_says_what_there_is(invoke: Invoke) -> None:
    said = invoke()

    assert said.exit_code == 0
    page = said.stdout.splitlines()
    rows = [line[at : at + 11].strip() for line in page[6:-5] for at in (9, 45)]
    assert [*filter(None, rows)] == list(COMMANDS)
    assert len(page) <= 24, "one screen"
    assert max(map(len, page)) <= 80


def test_a_command_that_is_not_there_is_usage_and_names_the_nearest(invoke: Invoke) -> None:
    said = invoke("verfy", "x.jsonl")

    assert said.exit_code == 2
    assert "did you mean verify?" in said.stderr
    assert said.stdout == ""
    assert "known: demo, " in invoke("tree", "x.jsonl").stderr  # nothing is near it


@pytest.mark.long
@pytest.mark.parametrize(
    "closed",
    ["<&- >&- 2>&-", "<&-", ">&-", "2>&-"],
)
def test_a_standard_stream_that_is_closed_is_no_fault(closed: str, tmp_path: Path) -> None:
    """And none of the files that are opened takes its place."""
    log = tmp_path / "run.jsonl"
    command = f'"$0" -m refold record --log "$1" -- echo a {closed}'
    ran = subprocess.run(
        ["sh", "-c", command, sys.executable, str(log)], capture_output=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert verify(log).complete


@pytest.fixture
def damaged(survey_log: Path, tmp_path: Path) -> Path:
    log = tmp_path / "damaged.jsonl"
    log.write_bytes(survey_log.read_bytes().replace(b'"depth":0', b'"depth":1', 1))
    return log


@pytest.mark.parametrize("more", some(1, ["", " --json"]))
def test_a_command_ends_with_its_verdict_though_nobody_reads_it(damaged: Path, more: str) -> None:
    command = f'"$0" -m refold verify "$1"{more} | true; echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(
        ["bash", "-c", command, sys.executable, str(damaged)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert ran.stdout == "3\n"


def test_a_terminal_that_has_no_such_character_shows_one_like_it(survey_log: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "refold", "show", str(survey_log)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )

    assert b"|- completed" in ran.stdout
    assert b"\\u" not in ran.stdout


def test_a_shell_completes_the_names_of_commands() -> None:
    """Those of the help page; what is no command has no options to complete."""
    context = click.Context(refold)

    assert refold.list_commands(context) == list(COMMANDS)
    assert [each.value for each in refold.shell_complete(context, "ver")] == ["verify"]
    assert refold.get_command(context, "verfy") is None


def test_no_command_has_more_than_twenty_options_and_no_pair_of_groups() -> None:
    """Options of programs and of commands are apart by their class; shared ones are of neither."""
    counts = dict[str, int]()
    for name in COMMANDS:
        command = refold.get_command(click.Context(refold), name)
        assert command is not None
        options = [each for each in command.params if isinstance(each, click.Option)]
        counts[name] = len(options)
        apart = {type(each) for each in options} - {click.Option}
        assert apart <= {OfPrograms, OfCommands}
        assert not apart or isinstance(command, WithCommand), name
    assert {name: count for name, count in counts.items() if count > 20} == {}


def test_lines_of_a_help_page_are_kept_from_its_first_title_on(invoke: Invoke) -> None:
    shown = invoke("doctor", "--help").stdout

    assert "\n\n  Examples:\n    refold doctor -- python agent.py\n    refold doctor -- " in shown
    assert shown.endswith("\n\n  Exit code: 0 a model request arrived · 1 none arrived.\n")
