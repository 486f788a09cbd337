"""CONTRACT.md is numbered without gaps, and whoever cites a clause cites one that exists."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final, get_args

import attrs
import click

from refold import Limits
from refold.cli.group import refold as command_line
from refold.cli.output import exit_codes
from refold.engine.encoding import digest
from refold.engine.events.flags import NOW
from refold.engine.events.outcome import ArtifactKind, Outcome, Status
from refold.engine.ports.ports import Policy
from refold.replay.bulk.report import Result
from refold.replay.explain.divergence import HEADLINES, Category, Divergence
from refold.testing.refold_run import Mode
from tests.support.loops import for_each

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


@for_each("section", range(2, 18))
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


_WORDS_MAX: Final = 120
_WRITTEN_MAX: Final = 12_000


def test_no_paragraph_hides_a_rule() -> None:
    """A long paragraph is a list of numbered sentences, so that each can be found and cited."""
    paragraphs = re.split(r"\n\n+|\n(?=(?:\d+\.|-) )", CONTRACT)

    long = [
        each
        for each in paragraphs
        if len(each.split()) > _WORDS_MAX and not each.lstrip().startswith("|")
    ]

    assert long == []


def test_the_contract_stays_short() -> None:
    """Without tables, which tests compare with the code; numbers and signs are no words."""
    lines = [line for line in CONTRACT.split("\n") if not line.startswith("|")]

    words = re.findall(r"\S*[A-Za-z]\S*", "\n".join(lines))

    assert len(words) <= _WRITTEN_MAX


def _clause(begins: str, ends: str) -> str:
    """Return a piece of the contract on one line: from one text to the next."""
    text = re.sub(r"\s+", " ", CONTRACT).partition(begins)[2].partition(ends)[0]
    assert text, begins
    return text


def _rows(begins: str, ends: str) -> list[str]:
    """Return what stands in the first column of a table, but for its head."""
    found = re.findall(
        r"^\| `?([\w]+)`?[^|]* \|", CONTRACT.partition(begins)[2].partition(ends)[0], re.MULTILINE
    )
    return found[1:]


def _quoted(begins: str, ends: str) -> list[str]:
    return re.findall(r"`([^`]+)`", _clause(begins, ends))


def _fields(of: type) -> list[str]:
    return [field.name for field in attrs.fields(of)]


_CODES: Final = {
    value for name, value in vars(exit_codes).items() if name.isupper() and isinstance(value, int)
}
_DOMAINS: Final = {
    value[len(b"refold/1 ") :].decode().strip()
    for value in vars(digest).values()
    if isinstance(value, bytes) and value.startswith(b"refold/1 ")
}
LISTS: Final[dict[str, tuple[Collection[str], Collection[str]]]] = {
    "§3.3, domains": (_quoted("a domain of its own:", "**§3.4"), _DOMAINS),
    "§7.1, members": (
        re.findall(r"\w+", _clause("**§7.1 An outcome** is {", "}")),
        _fields(Outcome),
    ),
    "§7.1, statuses": (_rows("**§7.1 An outcome**", "A root ends as"), get_args(Status)),
    "§8, limits": (_rows("## §8 Limits", "**§8.1"), _fields(Limits)),
    "§8.4, caps": (_rows("**§8.4 Policy**", "**§8.5"), _fields(Policy)),
    "§8.4, artifacts": (_quoted("`artifact_kinds` |", "| `malformed`"), get_args(ArtifactKind)),
    "§12.4, categories": (_rows("**§12.4 Categories.**", "Whether two"), get_args(Category)),
    "§12.4, headlines": (list(HEADLINES), get_args(Category)),
    "§12.5, members": (
        re.findall(
            r"\w+",
            re.sub(r"\([^)]*\)", "", _clause("**§12.5 The divergence** is one object:", ";")),
        ),
        Divergence.members(),
    ),
    "§13.13, modes": ([*_rows("**§13.13 Modes**", "`--refold-accept`"), "accept"], get_args(Mode)),
    "§14.1, commands": (
        _quoted("**§14.1 Commands.**", "A LOG that"),
        command_line.list_commands(click.Context(command_line)),
    ),
    "§14.2, exit codes": (_rows("**§14.2 Exit codes.**", "**§14.3"), {*map(str, _CODES)}),
    "§14.13, results": (
        {*_quoted("4. The result of a log is", ": with `fail_fast=`")}
        - {"refold replay LOG -- COMMAND"},
        get_args(Result),
    ),
    "§15.1, flags": (
        re.findall(r"\d+\. `(\w+)`:", _clause("**§15.1**", "**§15.2**")),
        NOW.as_json(),
    ),
}


@for_each("name", LISTS)
def test_a_list_is_closed(name: str) -> None:
    """It has what the code has, and nothing else."""
    listed, known = LISTS[name]

    assert sorted(listed) == sorted(known)
