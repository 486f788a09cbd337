"""`refold explore`: other orders of completion, and what they change; 0, 1 or 4 (§12.8)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool
from tests.support.schemas import validate

Invoke = Callable[..., Result]

PROGRAM_NAME = "racing.py"
PROGRAM = """
import asyncio
from refold.engine.ports.ports import Delegation

async def _pages(run, names):
    order = []

    async def one(name):
        order.append(await run.tool("fetch", name=name))

    await asyncio.gather(*(one(name) for name in names))
    return order

async def first(run, names):
    print("chatter")
    return (await _pages(run, names))[0]

async def all_of_them(run, names):
    return sorted(await _pages(run, names))

async def follow(run, names):
    return await run.tool("fetch", name=(await _pages(run, names))[0])

async def parent(run, names):
    return (await run.delegate(Delegation(program=first, input=names))).status
"""


@tool(effect="reads")
async def fetch(name: str) -> str:
    """Get something."""
    return f"page {name}"


def log_of(program: Path, name: str) -> Path:
    log = program.with_name(f"{name}.jsonl")
    return record(f"{program}:{name}", ["a", "b"], log=log, tools=[fetch]).log


def test_an_order_that_changes_the_output_is_one(program: Path, invoke: Invoke) -> None:
    log = log_of(program, "first")

    said = invoke("explore", log, "--program", f"{program}:first")

    assert said.exit_code == 1
    assert "2 orders tried (all possible orders): 1 ends differently than recorded" in said.stdout
    assert "deliver fetch#1 in 0/" in said.stdout
    assert "differs   /output: " in said.stdout
    assert "racing.py:" in said.stdout


def test_what_the_program_prints_is_dropped(program: Path, invoke: Invoke) -> None:
    """It would be printed for each order."""
    said = invoke("explore", log_of(program, "first"), "--program", f"{program}:first")

    assert "chatter" not in said.output


@pytest.mark.long
def test_the_first_few_ends_are_shown_unless_all_are_asked_for(
    program: Path, invoke: Invoke
) -> None:
    log = program.with_name("many.jsonl")
    record(f"{program}:first", list("abcdefg"), log=log, tools=[fetch])
    words = ("explore", log, "--program", f"{program}:first")

    few, every = invoke(*words), invoke(*words, "--all")

    assert few.stdout.count("an order changes the output") == 4
    assert "and 2 more ends, in " in few.stdout
    assert "to list them, add --all" in few.stdout
    assert every.stdout.count("an order changes the output") == 6


def test_every_order_the_same_is_fine(program: Path, invoke: Invoke) -> None:
    log = log_of(program, "all_of_them")

    said = invoke("explore", log, "--program", f"{program}:all_of_them", "--timers")

    assert said.exit_code == 0
    assert "every one ends as recorded" in said.stdout


def test_only_calls_that_were_never_recorded_are_four(program: Path, invoke: Invoke) -> None:
    log = log_of(program, "follow")

    said = invoke("explore", log, "--program", f"{program}:follow")

    assert said.exit_code == 4
    assert "asks for  fetch#1 (name=" in said.stdout


@pytest.mark.parametrize("name", ["first", "all_of_them", "follow", "parent"])
def test_the_document_is_as_its_schema_says(name: str, program: Path, invoke: Invoke) -> None:
    log = log_of(program, name)

    said = invoke("explore", log, "--program", f"{program}:{name}", "--json")

    document = json.loads(said.stdout)
    validate(document, "explore")
    assert document["log"] == str(log)
    assert document["identical"] == (said.exit_code == 0)


def test_a_packed_log_is_explored_by_its_name(program: Path, invoke: Invoke) -> None:
    packed = pack(log_of(program, "first"), program.with_name("first.refold"))

    said = invoke("explore", packed, "--program", f"{program}:first", "--json")

    assert json.loads(said.stdout)["log"] == f"{packed}:first.jsonl"


def test_a_shipped_program_needs_no_name(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("explore", survey_log, "--orders", "5")

    assert said.exit_code == 0
    assert said.stdout.startswith("survey_tree: ")


def test_any_other_has_to_be_named(program: Path, invoke: Invoke) -> None:
    log = log_of(program, "first")

    said = invoke("explore", log)

    assert said.exit_code == 2
    assert "--program" in said.stderr


def test_another_program_diverges(program: Path, invoke: Invoke) -> None:
    said = invoke("explore", log_of(program, "first"), "--program", f"{program}:all_of_them")

    assert said.exit_code == 1
    assert "output_changed" in said.stderr


def test_a_record_without_an_end_is_three(program: Path, invoke: Invoke) -> None:
    log = log_of(program, "first")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    said = invoke("explore", log, "--program", f"{program}:first")

    assert said.exit_code == 3
    assert "no run.finished" in said.stderr
    assert "Traceback" not in said.output
