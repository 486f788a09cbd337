"""How a run without an end stands, in words: by its lock, and by what it asked (§14.10)."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.index.standing import WORDS, question_of, standing_text, stood

ROOT = Path(__file__).parents[3]
SOURCES = [
    path
    for folder in ("engine", "tools", "replay", "src/refold")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".js") and path != ROOT / "replay/index/standing.py"
]
OTHERS = re.compile(r"waits for you|[:(>] ?broke off|\Abroke off\Z|crashed, or|still open\)")
"""The words of a standing; that a run broke off may be part of any sentence."""


async def asks(run: Run, text: str) -> str:
    return str(await run.ask(text))


async def asks_by_a_child(run: Run, text: str) -> str:
    outcome = await run.delegate(Delegation(program=asks, input=text, brief="ask"))
    return outcome.status


@pytest.mark.parametrize("program", [asks, asks_by_a_child])
def test_the_words_have_the_question(tmp_path: Path, program: Any) -> None:
    """Of the run, or of one below it."""
    log = record(program, "May I?", log=tmp_path / "a.jsonl").log

    assert standing_text(log) == "waits for you: May I?"


def test_a_question_that_was_given_up_waits_for_nobody(tmp_path: Path) -> None:
    log = record(asks, "may I?", log=tmp_path / "a.jsonl").log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0])

    assert stood(log, question_of(log))[0] == "broke_off"
    assert standing_text(log) == "broke off"


def test_no_other_file_has_these_words() -> None:
    """Docstrings and comments apart, which explain them."""
    found = [
        f"{path.relative_to(ROOT)}: {text:.80}"
        for path in SOURCES
        if OTHERS.search(path.read_text(encoding="utf-8"))  # most need not be parsed
        for text in _texts(path)
        if OTHERS.search(text)
    ]

    assert not found
    assert all(map(OTHERS.search, [WORDS["waits_for_you"], WORDS["broke_off"]]))


def _texts(path: Path) -> list[str]:
    if path.suffix == ".js":
        return path.read_text().splitlines()
    tree = ast.parse(path.read_text())
    plain = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in plain
    ]
