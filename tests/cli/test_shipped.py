"""What Refold ships has its tools and session at hand; what it does not ship has none here."""

from pathlib import Path

import pytest

from refold.cli.shipped import session_of, tools_of
from refold.engine.programs import SHIPPED, load
from refold.engine.recording import record
from refold.tools.configured import planned


@pytest.mark.parametrize(
    ("program", "tools"),
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


@pytest.mark.parametrize("name", SHIPPED)
def test_each_shipped_name_is_a_program(name: str) -> None:
    assert callable(load(SHIPPED[name]))


def test_a_run_that_had_a_session_gets_one_again(tmp_path: Path, survey_log: Path) -> None:
    """A fresh one; a run that had none gets none."""

    def idle(_run: object, _input: None) -> None: ...

    log = record(idle, log=tmp_path / "idle.jsonl", session=planned()).log

    assert session_of(log) is not None
    assert session_of(survey_log) is None
