"""Whatever a log holds, a terminal gets printable characters only: no escape, no markup."""

import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.delegation import Delegation
from refold.engine.recording import record
from refold.tools.contract import tool

Invoke = Callable[..., Result]

EVIL = (
    "a\x1b[2J\x1b]0;pwned\x07\x1b]8;;http://x\x1b\\b\x9b31m\x85\x7f\r\n\x08"
    "\u202e\u2066\u200b\u2028\ufeff\U000e0041[bold red]m[/]"
)


@tool(effect="pure")
def echo(text: str) -> str:
    """Say it again."""
    return text


async def child(_: Any, __: Any) -> str:
    """Fail with a message that nobody should print as it is."""
    raise ValueError(EVIL)


async def hostile(run: Any, given: Any) -> Any:
    """Put the text wherever a program can put text."""
    run.annotate(EVIL, {EVIL: EVIL})
    await run.tool(echo, text=EVIL)
    await run.delegate(Delegation(program=child, brief=EVIL, agent=EVIL, tool=EVIL, input=EVIL))
    return [EVIL, given]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return record(hostile, EVIL, log=tmp_path / "evil.jsonl").log


def _is_safe(text: str) -> bool:
    return all(each == "\n" or unicodedata.category(each)[0] != "C" for each in text) and not (
        {"\u2028", "\u2029"} & set(text)
    )


@pytest.mark.parametrize(
    "words",
    [
        ["show", "LOG"],
        ["show", "LOG", "--details"],
        ["show", "LOG", "--events"],
        ["show", "LOG", "--json"],
        ["show", "LOG", "--entry", "1"],
        ["tail", "LOG"],
        ["tail", "LOG", "--json"],
        ["state", "LOG"],
        ["state", "LOG", "--at", "-2"],
        ["state", "LOG", "--json"],
        ["verify", "LOG"],
        ["ls", "FOLDER"],
        ["diff", "LOG", "OTHER"],
        ["diff", "LOG", "OTHER", "--json"],
        ["replay", "LOG", "--program", "PROGRAM"],
        ["replay", "LOG", "--program", "PROGRAM", "--json"],
        ["replay", "LOG"],
        ["replay", "FOLDER", "--program", "PROGRAM"],
        ["replay", "FOLDER", "--program", "PROGRAM", "--all"],
        ["replay", "FOLDER", "--json"],
        ["why", "LOG", "-1"],
        ["why", "LOG", "-1", "--all"],
        ["why", "LOG", "-1", "--json"],
        ["state", "LOG", "--diff", "0", "-1"],
        ["state", "LOG", "--diff", "0", "-1", "--json"],
    ],
)
def test_no_control_character_of_a_log_reaches_the_terminal(
    words: list[str], log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    other = record(hostile, [EVIL], log=tmp_path / "other.jsonl").log
    (tmp_path / "now.py").write_text(
        f"async def hostile(run, x):\n    run.annotate({EVIL + '!'!a})\n"
    )
    places = {
        "LOG": str(log),
        "FOLDER": str(tmp_path),
        "OTHER": str(other),
        "PROGRAM": f"{tmp_path / 'now.py'}:hostile",
    }

    said = invoke(*(places.get(word, word) for word in words))

    assert said.exit_code in (0, 1, 2)
    assert _is_safe(said.stdout)
    assert _is_safe(said.stderr)


def test_markup_of_a_log_is_shown_as_it_is(log: Path, invoke: Invoke) -> None:
    assert "[bold red]m[/]" in invoke("show", log).stdout


def test_a_path_is_shown_safely_too(tmp_path: Path, invoke: Invoke) -> None:
    log = record(hostile, 1, log=tmp_path / "a\x1b[2Jb.jsonl").log

    for words in (
        ["verify", log],
        ["show", log, "--details"],
        ["ls", tmp_path],
        ["why", log, "-1"],
        ["replay", tmp_path, "--fail-fast"],
        ["show", f"{log}x"],
    ):
        said = invoke(*words)
        assert _is_safe(said.stdout)
        assert _is_safe(said.stderr)
