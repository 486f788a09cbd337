"""What `explore` and `sensitivity` share: program, tools, session, silence (§12.8)."""

import sys
from pathlib import Path

import pytest

from refold.cli.arguments.rehearsals import dropped_prints, subject


def test_prints_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    """On standard output; what a program complains of stays."""
    with dropped_prints():
        sys.stdout.write("chatter")
    sys.stdout.write("answer")

    assert capsys.readouterr().out == "answer"


def test_a_shipped_program_has_its_tools(survey_log: Path) -> None:
    with subject(survey_log, None, "", None, command="explore") as given:
        assert given is not None
        assert given.program is None
        assert "list_files" in {tool.name for tool in given.tools}
        assert given.session is None


def test_own_tools_are_loaded(survey_log: Path, tmp_path: Path) -> None:
    """And the program that is named takes the place of the shipped one."""
    path = tmp_path / "own.py"
    path.write_text(
        "from refold.tools.contract.tool_types import tool\n"
        "@tool(effect='pure')\n"
        "def add(a: int) -> int:\n"
        "    return a\n"
    )

    with subject(survey_log, "x:y", f"{path}:add", None, command="explore") as given:
        assert given is not None
        assert given.program == "x:y"
        assert [tool.name for tool in given.tools] == ["add"]
