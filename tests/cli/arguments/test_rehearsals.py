"""What `explore` and `sensitivity` share: program, tools, session, silence (§12.8)."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from refold.cli.arguments.rehearsals import rehearsed
from refold.engine.ports.ports import Tool


def test_prints_are_dropped(survey_log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output; what a program complains of stays."""

    def chatters(_log: Path, _program: str | None, **_given: Any) -> None:
        sys.stdout.write("chatter")
        sys.stderr.write("complaint")

    rehearsed(chatters, survey_log, None, "", said=lambda: "at it")
    sys.stdout.write("answer")

    assert capsys.readouterr() == ("answer", "complaint")


def _given(
    _log: Path, program: str | None, *, tools: Iterable[Tool], session: Any
) -> tuple[str | None, set[str], Any]:
    """Return what a rehearsal is given."""
    return program, {tool.name for tool in tools}, session


def _rehearsed(log: Path, program: str | None, tools: str) -> Any:
    return rehearsed(_given, log, program, tools, said=lambda: "at it")[0]


def test_a_shipped_program_has_its_tools(survey_log: Path) -> None:
    program, tools, session = _rehearsed(survey_log, None, "")

    assert (program, session) == (None, None)
    assert "list_files" in tools


def test_own_tools_are_loaded(survey_log: Path, tmp_path: Path) -> None:
    """And the program that is named takes the place of the shipped one."""
    path = tmp_path / "own.py"
    path.write_text(
        "from refold.tools.contract.tool_types import tool\n"
        "@tool(effect='pure')\n"
        "def add(a: int) -> int:\n"
        "    return a\n"
        "def main(run, given):\n"
        "    return given\n"
    )
    main = f"{path}:main"

    assert _rehearsed(survey_log, main, f"{path}:add") == (main, {"add"}, None)
