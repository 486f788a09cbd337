"""Tools are named as programs are: by module or file, alone or in lists (CONTRACT.md §14.9)."""

import sys
from pathlib import Path

import pytest

from refold.cli.loading import import_from_here, load_tools
from refold.engine.errors import ProgramNotFound, ToolRefused

TOOLS = """
import refold.tools.contract as contract

@contract.tool(effect="pure")
def add(a: int, b: int) -> int:
    return a + b

TOOLS = [add]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "adding.py"
    path.write_text(TOOLS)
    return path


def test_tools_are_named_alone_or_in_lists(file: Path) -> None:
    """Separated by commas; no name is no tool."""
    found = load_tools(f"{file}:TOOLS, {file}:add")

    assert [tool.name for tool in found] == ["add", "add"]
    assert load_tools("") == ()


def test_what_is_no_tool_is_refused(file: Path) -> None:
    """And so is a name behind which there is nothing."""
    with pytest.raises(ToolRefused):
        load_tools("os:sep")
    with pytest.raises(ProgramNotFound):
        load_tools(f"{file}:missing")
    with pytest.raises(ToolRefused, match=r"adding\.py:NAME"):
        load_tools(str(file))


def test_modules_are_found_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `python -m` would find them; the folder is named once, however often it is asked for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    import_from_here()
    import_from_here()

    assert sys.path.count(str(tmp_path)) == 1
