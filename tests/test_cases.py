"""Every case that a record and replay engine has to get right has a test here, or a reason."""

from pathlib import Path
from typing import Final

import pytest

from tests.cases.__main__ import TESTS, Case, answered, listing, numbers_in
from tests.support.loops import for_each

_CASES_MAX: Final = 110


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """All of them; no constant, for it parses every test, and each worker imports this file."""
    return listing()


def _missing(case: Case) -> bool:
    return case.is_required and not case.is_pending and not case.is_answered


def test_each_case_has_a_rule_and_all_are_there(cases: list[Case]) -> None:
    """1 to 110, in order, in one line each."""
    assert [case.number for case in cases] == list(range(1, _CASES_MAX + 1))
    assert all(case.rule and "\n" not in case.rule for case in cases)


def test_every_case_that_is_required_has_a_test_or_a_reason(cases: list[Case]) -> None:
    """Those that have neither are named; `python -m tests.cases` prints the whole listing."""
    assert [f"{case.number} {case.rule}" for case in cases if _missing(case)] == []


def test_no_test_names_a_case_that_is_not_there(cases: list[Case]) -> None:
    """A number that was mistyped answers nothing."""
    assert set(answered(TESTS)) <= {case.number for case in cases}


@for_each(
    "line, numbers",
    [
        ("Case 27: a volatile field is caught unless declared.", (27,)),
        ("Cases 6, 7 and 9: many logs.", (6, 7, 9)),
        ("The same over a pipe (cases 11-13, 40).", (11, 12, 13, 40)),
        ("In that case nothing is written.", ()),
        ("§12.4: the 3 cases of an ending.", ()),
    ],
)
def test_numbers_are_read_from_a_first_line(line: str, numbers: tuple[int, ...]) -> None:
    """And only where a case is named."""
    assert numbers_in(line) == numbers


def test_a_case_without_a_test_is_found(tmp_path: Path) -> None:
    """The tool itself can fail: a required number that nobody names is missing."""
    table = tmp_path / "cases.toml"
    table.write_text(
        'required = ["1-3"]\npending = [3]\n[rules]\n1 = "a"\n2 = "b"\n3 = "c"\n[reasons]\n'
    )
    (tmp_path / "test_some.py").write_text('def test_one():\n    """Case 1: so."""\n')

    cases = listing(tmp_path, table)

    assert [_missing(case) for case in cases] == [False, True, False]
    assert cases[0].tests == (f"{tmp_path.name}/test_some.py::test_one",)
