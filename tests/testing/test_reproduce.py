"""What a run of a test is called on the command line (CONTRACT.md §13.12)."""

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.ports.ports import Program, Reference
from refold.testing.reproduce import program_words, replay_command, shown
from refold.tools import Tool
from refold.tools.delegation.subagent import subagent_tool
from tests.support.loops import for_each

HERE = Path(__file__).parent


def program(_run: refold.PlainRun, number: int) -> int:
    return number


@refold.tool
def plain(number: int) -> int:
    """Give a number."""
    return number


@refold.tool
def typed(number: int) -> Path:
    """Give a path."""
    return Path(str(number))


class TestNames:
    @staticmethod
    def program(_run: refold.PlainRun, number: int) -> int:
        return number


@for_each(
    "given, words",
    [
        (program, "test_reproduce.py:program"),
        (TestNames.program, "test_reproduce.py:TestNames.program"),
        (Reference(str(HERE / "a.py"), "main"), "a.py:main"),
        (Reference("some.module", "main"), "some.module:main"),
        (refold.reexecute, "refold.api:reexecute"),
        ("some.module:main", "some.module:main"),
        (lambda _run, _given: None, None),
        (Reference("some.module", "make", {"number": 1}), None),
    ],
)
def test_a_program_is_named_as_a_replay_finds_it(given: Any, words: str | None) -> None:
    """By file, from where one types, or by module; what has no name has none."""
    assert program_words(given, HERE) == words


def test_a_program_that_is_installed_is_named_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its file lies is this machine's affair."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_alone.py").write_text("def main(run, input):\n    return input\n")
    monkeypatch.syspath_prepend(folder)

    assert program_words(import_module("installed_alone").main, tmp_path) == "installed_alone:main"


def test_a_partial_has_no_name() -> None:
    """What it binds is in no file."""
    assert program_words(functools.partial(program), HERE) is None


@for_each(
    "given, tools, command",
    [
        ("agent", [plain], "refold replay {log}"),
        (program, [plain, subagent_tool()], "--program test_reproduce.py:program"),
        (program, [typed], "--program test_reproduce.py:program --tools test_reproduce.py:typed"),
        (lambda _run, _given: None, [], None),
    ],
)
def test_tools_are_named_where_a_replay_needs_their_types(
    given: Program | str, tools: list[Tool], command: str | None
) -> None:
    """Not those that it never asks, nor those that Refold ships."""
    found = replay_command(given, tools, HERE, has_session=False)

    assert (found or "nothing").endswith(command or "nothing")


def test_a_tool_without_a_name_and_a_session_cannot_be_typed() -> None:
    """Better no command than one that fails."""

    def nested(number: int) -> Path:
        return Path(str(number))

    assert replay_command(program, [refold.tool(nested)], HERE, has_session=False) is None
    assert replay_command(program, [], HERE, has_session=True) is None


def test_a_command_is_quoted_and_has_one_place_for_the_log() -> None:
    """Braces of a name are no places."""
    found = replay_command("a {b}.py:main", [], HERE, has_session=False)

    assert found is not None
    assert found.format(log="x.jsonl") == "refold replay x.jsonl --program 'a {b}.py:main'"


def test_paths_are_relative_unless_they_lead_away() -> None:
    """Quoted where a shell would read them otherwise."""
    assert shown(HERE / "a[1].jsonl", HERE, is_quoted=True) == "'a[1].jsonl'"
    assert shown(HERE / "a.jsonl", HERE.parent) == f"{HERE.name}/a.jsonl"
    assert shown("/elsewhere/a.jsonl", HERE) == "/elsewhere/a.jsonl"
