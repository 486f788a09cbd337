"""What Refold ships has its tools at hand; what it does not ship has none here."""

from pathlib import Path

from refold.engine.ports.programs import load
from refold.programs import SHIPPED
from refold.programs.shipped import tools_of
from tests.support.loops import for_each


@for_each(
    "program, tools",
    [
        ("survey_tree", {"list_files", "read_file", "search_text", "parse_source"}),
        ("survey_package", {"list_files", "read_file", "search_text", "parse_source"}),
        ("agent", {"list_files", "read_file", "search_text"}),
        ("never_ends", set()),
        ("main", set()),
    ],
)
def test_each_shipped_program_has_the_tools_that_it_calls(
    program: str, tools: set[str], tmp_path: Path
) -> None:
    assert {tool.name for tool in tools_of(program, tmp_path)} == tools


@for_each("name", SHIPPED)
def test_each_shipped_name_is_a_program(name: str) -> None:
    assert callable(load(SHIPPED[name]))
