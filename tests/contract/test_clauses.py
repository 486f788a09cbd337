"""CONTRACT.md is numbered without gaps, and whoever cites a clause cites one that exists."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
CONTRACT: Final = (ROOT / "CONTRACT.md").read_text(encoding="utf-8")

_SECTION: Final = re.compile(r"^## §(\d+) ", re.MULTILINE)
_CLAUSE: Final = re.compile(r"^(?:\*\*|### )§(\d+)\.(\d+)\b", re.MULTILINE)
_CITED: Final = re.compile(r"§ ?(\d+)(?:\.(\d+))?")
_FOLDERS: Final = ("engine", "tools", "replay", "src/refold", "tests", "fixtures")


def _clauses() -> set[str]:
    numbered = {f"{section}.{clause}" for section, clause in _CLAUSE.findall(CONTRACT)}
    return numbered | set(_SECTION.findall(CONTRACT))


def test_sections_are_numbered_without_gaps() -> None:
    """1 to 17, in order."""
    assert [int(number) for number in _SECTION.findall(CONTRACT)] == list(range(1, 18))


@pytest.mark.parametrize("section", range(2, 18))
def test_clauses_of_a_section_are_numbered_without_gaps(section: int) -> None:
    """From 1 (or 0) on, in order, so that a missing clause is seen."""
    found = [int(clause) for of, clause in _CLAUSE.findall(CONTRACT) if int(of) == section]

    assert found in (list(range(1, len(found) + 1)), list(range(len(found))))
    assert found


def test_every_cited_clause_exists() -> None:
    """In code, tests, fixtures and documents."""
    known = _clauses()
    files = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py")]
    files += [ROOT / name for name in ("CONTRACT.md", "README.md", "CHANGELOG.md")]

    unknown = {
        f"{path.relative_to(ROOT)}: §{found[0]}"
        for path in files
        for found in _CITED.finditer(path.read_text(encoding="utf-8"))
        if (f"{found[1]}.{found[2]}" if found[2] else found[1]) not in known
    }

    assert not unknown


_WORDS_MAX: Final = 150


def test_no_paragraph_hides_a_rule() -> None:
    """A long paragraph is a list of numbered sentences, so that each can be found and cited."""
    paragraphs = re.split(r"\n\n+|\n(?=(?:\d+\.|-) )", CONTRACT)

    long = [
        each
        for each in paragraphs
        if len(each.split()) > _WORDS_MAX and not each.lstrip().startswith("|")
    ]

    assert long == []
