"""Which test answers which case: `python -m tests.cases`.

The cases, one rule each, stand in `cases.toml`; a test names the ones that it answers in the first
line of its docstring.  `tests/test_cases.py` holds the listing to be complete.
"""

import ast
import functools
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs

TESTS: Final = Path(__file__).parents[1]
_NAMED: Final = re.compile(r"\bcases?\s+(\d[\d\s,–-]*(?:and\s+\d+)?)", re.IGNORECASE)  # noqa: RUF001 - a range is written with a dash of either length
_NUMBERS: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")  # noqa: RUF001 - the same


@attrs.frozen
class Case:
    """One rule, and what stands for it."""

    number: int
    rule: str
    reason: str
    """Why it does not arise here; empty where it does."""
    tests: tuple[str, ...]
    """`tests/folder/test_file.py::test_name`, sorted."""
    is_required: bool
    is_pending: bool

    @property
    def is_answered(self) -> bool:
        """Whether a test or a reason stands for it."""
        return bool(self.tests or self.reason)


def listing(folder: Path = TESTS, table: Path = TESTS / "cases" / "cases.toml") -> list[Case]:
    """Return every case, by number, with the tests below `folder` that name it."""
    told: dict[str, Any] = tomllib.loads(table.read_text(encoding="utf-8"))
    required = set(_expanded(" ".join(told["required"])))
    pending = set(told["pending"])
    tests = answered(folder)
    return [
        Case(
            number=int(number),
            rule=rule,
            reason=" ".join(told["reasons"].get(number, "").split()),
            tests=tuple(sorted(tests.get(int(number), ()))),
            is_required=int(number) in required,
            is_pending=int(number) in pending,
        )
        for number, rule in told["rules"].items()
    ]


@functools.cache
def answered(folder: Path) -> dict[int, set[str]]:
    """Return the tests below `folder` by the numbers in the first lines of their docstrings."""
    found: dict[int, set[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        place = path.relative_to(folder.parent).as_posix()
        text = path.read_text(encoding="utf-8")
        if not _NAMED.search(text):
            continue  # to parse all of them takes seconds
        for name, line in _first_lines(ast.parse(text)):
            for number in numbers_in(line):
                found.setdefault(number, set()).add(f"{place}::{name}")
    return found


def numbers_in(line: str) -> tuple[int, ...]:
    """Return the case numbers that a line names: `Case 3`, `cases 6, 7 and 9`, `Cases 11-26`."""
    return tuple(number for part in _NAMED.findall(line) for number in _expanded(part))


def _expanded(text: str) -> Iterator[int]:
    for first, last in _NUMBERS.findall(text):
        yield from range(int(first), int(last or first) + 1)


def _first_lines(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node.name, (ast.get_docstring(node) or "").partition("\n")[0]


def _text(case: Case) -> str:
    status = "" if case.is_answered else "pending" if case.is_pending else "NO TEST"
    lines = [f"{case.number:>3}  {case.rule}", *(f"       {test}" for test in case.tests)]
    lines += [f"       not here: {case.reason}"] if case.reason else []
    lines += [f"       {status}"] if status else []
    return "\n".join(lines)


def main() -> int:
    """Print the listing; 1 where a case that is required has neither a test nor a reason."""
    cases = listing()
    for case in cases:
        print(_text(case))  # noqa: T201 - that is what it is for
    count = sum(bool(case.tests) for case in cases)
    stale = [case.number for case in cases if case.is_pending and case.is_answered]
    print(f"\n{count} of {len(cases)} have a test")  # noqa: T201 - the same
    if stale:
        print(f"pending no longer: {stale}")  # noqa: T201 - the same
    return any(case.is_required and not case.is_pending and not case.is_answered for case in cases)


if __name__ == "__main__":
    sys.exit(main())
