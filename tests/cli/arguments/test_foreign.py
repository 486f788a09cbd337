"""Options of commands that run a command of another program: what needs one says so."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.mark.parametrize("option", [("--on-miss", "live"), ("--keep", "b.jsonl")])
def test_what_is_for_commands_needs_one(
    option: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    invoke: Invoke,
) -> None:
    """A `--` was forgotten."""
    monkeypatch.chdir(tmp_path)
    said = invoke("replay", "a.jsonl", *option)

    assert said.exit_code == 2
    assert f"{option[0]} needs -- COMMAND" in said.stderr
    assert not tmp_path.joinpath("b.jsonl").exists()


def test_help_says_what_needs_a_command(invoke: Invoke) -> None:
    """Of a replay and a fork; what records has one always."""
    for name, count in (("replay", 13), ("fork", 11), ("record", 0)):
        words = " ".join(invoke(name, "--help").stdout.split())
        assert words.count("With -- COMMAND: ") == count, name


@pytest.mark.parametrize(
    "option",
    [
        ("--volatile", "model:*/x"),
        ("--volatile-text", "x"),
        ("--unordered", "x"),
        ("--upstream", "http://127.0.0.1:1"),
    ],
)
def test_what_a_fork_has_for_commands_needs_one(
    option: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    invoke: Invoke,
) -> None:
    """A `--` was forgotten."""
    monkeypatch.chdir(tmp_path)
    said = invoke("fork", "a.jsonl", "--at", "1", *option)

    assert said.exit_code == 2
    assert f"{option[0]} needs -- COMMAND" in said.stderr
    assert not tmp_path.joinpath("runs").exists()
