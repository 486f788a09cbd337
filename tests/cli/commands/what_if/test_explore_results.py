"""`refold explore --results`: a line for each outcome, and what was got for nothing (§12.9)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool
from tests.cli.commands.what_if.test_explore import fetch
from tests.support.schemas import validate

Invoke = Callable[..., Result]

PROGRAM_NAME = "searching.py"
PROGRAM = """
async def main(run, names):
    print("chatter")
    run.uuid()
    page = await run.tool("fetch", name="a")
    await run.tool("fetch", name="a name that is much too long for a row of a table " * 2)
    return await run.tool("fetch", name=page)
"""


@pytest.fixture
def log(program: Path) -> Path:
    return record(f"{program}:main", [], log=program.with_name("a.jsonl"), tools=[fetch]).log


def test_each_outcome_has_a_row(log: Path, program: Path, invoke: Invoke) -> None:
    said = invoke("explore", log, "--results", "--program", f"{program}:main")

    assert said.exit_code == 0
    rows = said.stdout.splitlines()
    assert rows[0].startswith("main: nothing depends on 2 of 4 recorded outcomes (0 tokens, ")
    assert rows[1].startswith("  value uuid#1")
    assert 'steers fetch#4 (name="page a (altered)")' in rows[2]
    assert "…" in rows[3]
    assert "shows in /output" in rows[4]
    assert "chatter" not in said.output


def test_only_some_outcomes_are_altered_where_that_is_asked_for(
    log: Path, program: Path, invoke: Invoke
) -> None:
    said = invoke("explore", log, "--results", "--program", f"{program}:main", "--only", 'name="a"')

    assert len(said.stdout.splitlines()) == 3
    assert "not altered, because not selected: 3" in said.stdout
    assert 'fetch#2 (name="a")' in said.stdout.splitlines()[1]


@pytest.mark.parametrize("words", [("--orders", 3), ("--timers",), ("--all",)])
def test_options_of_orders_are_refused(words: tuple[str, ...], log: Path, invoke: Invoke) -> None:
    said = invoke("explore", log, "--results", *words)

    assert said.exit_code == 2
    assert f"{words[0]} is for orders: omit it with --results" in said.stderr


def test_the_document_is_as_its_schema_says(log: Path, program: Path, invoke: Invoke) -> None:
    said = invoke("explore", log, "--results", "--program", f"{program}:main", "--json")

    document = json.loads(said.stdout)
    validate(document, "explore-results")
    assert [call["verdict"] for call in document["calls"]] == [
        "nothing",
        "steers",
        "nothing",
        "shows",
    ]


def test_what_is_needed_throughout_is_said_so(
    program: Path, tmp_path: Path, invoke: Invoke
) -> None:
    program.write_text(
        "async def main(run, names):\n    return await run.tool('fetch', name='a')\n"
    )
    log = record(f"{program}:main", [], log=tmp_path / "b.jsonl", tools=[fetch]).log

    said = invoke("explore", log, "--results", "--program", f"{program}:main")

    (headline, _) = said.stdout.splitlines()
    assert headline.endswith("the run depends on every one that could be altered")


def test_a_program_has_to_be_named(log: Path, invoke: Invoke) -> None:
    said = invoke("explore", log, "--results")

    assert said.exit_code == 2
    assert "--program" in said.stderr


def test_an_outcome_that_cannot_be_altered_says_so(tmp_path: Path, invoke: Invoke) -> None:
    program = tmp_path / "null.py"
    program.write_text("async def main(run, names):\n    return await run.tool('nothing')\n")
    log = record(f"{program}:main", [], log=tmp_path / "b.jsonl", tools=[nothing]).log

    said = invoke("explore", log, "--results", "--program", f"{program}:main")

    assert "has no other value of its type" in said.stdout.splitlines()[1]
    assert said.stdout.splitlines()[0] == "main: 1 recorded outcome, none altered"


@tool(effect="reads")
async def nothing() -> None:
    """Answer nothing."""
