"""Options of commands that run a command of another program: what needs one says so."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("replay", "a.jsonl"), ("--on-miss", "live")),
        (("replay", "a.jsonl"), ("--copy", "keep:b.jsonl")),
        (("fork", "a.jsonl", "--at", "1"), ("--volatile", "model:*/x")),
        (("fork", "a.jsonl", "--at", "1"), ("--upstream", "http://127.0.0.1:1")),
    ],
)
def test_what_is_for_commands_needs_one(
    words: tuple[str, ...],
    option: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    invoke: Invoke,
) -> None:
    """A `--` was forgotten."""
    monkeypatch.chdir(tmp_path)
    said = invoke(*words, *option)

    assert said.exit_code == 2
    assert f"{option[0]} needs -- COMMAND" in said.stderr
    assert [*tmp_path.iterdir()] == []


def test_help_has_the_options_of_programs_and_commands_in_groups(invoke: Invoke) -> None:
    for name in ("replay", "resume", "fork", "explore"):
        text = invoke(name, "--help").stdout
        _, shared, programs, commands = re.split(
            "^(?:Options|With -- COMMAND|With a program):$", text, flags=re.MULTILINE
        )
        assert "--json" in shared, name
        assert "--profile" in commands, name
        assert "--program" in programs, name
        assert max(each.count("\n  -") for each in (shared, programs, commands)) <= 20, name
    assert "With a program" not in invoke("mcp-proxy", "--help").stdout


@pytest.mark.parametrize("verb", ["replay", "resume", "fork", "explore"])
def test_a_command_without_the_dashes_before_it_is_pointed_at_them(
    verb: str, survey_log: Path, invoke: Callable[..., Result]
) -> None:
    said = invoke(verb, survey_log, "python", "agent.py")

    assert said.exit_code == 2
    assert "; a command to run follows --" in said.stderr
