"""One run against its log: both sides, put together for people (CONTRACT.md §12.2, §12.5)."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.explain.naming import first_word
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each
from tests.support.steps import fetch, recorded, search


async def waits_for_nothing(_run: Run, _input: Any) -> None:
    await asyncio.Event().wait()


def _moved(program: Any, tmp_path: Path) -> Path:
    """Return the text of a program below two more lines."""
    moved = tmp_path / "test_comparison.py"
    moved.write_text(f"import asyncio\n\n\n\nasync def {program.__name__}(_run, _input):\n"
                     "    await asyncio.Event().wait()\n")  # fmt: skip
    return moved


def test_lines_of_a_program_that_could_not_go_on_are_not_compared(tmp_path: Path) -> None:
    """An edit above them moves them, and changes nothing."""
    recording = record(waits_for_nothing, log=tmp_path / "a.jsonl")
    assert recording.error is not None
    assert recording.error.code == "stuck"

    assert reexecute(
        recording.log, f"{_moved(waits_for_nothing, tmp_path)}:waits_for_nothing"
    ).identical


async def asks_for_it(run: Run, _input: Any) -> Any:
    return await run.tool("search", q="a")


def test_an_unknown_tool_is_told_with_those_that_were_offered(tmp_path: Path) -> None:
    """By its name alone: with what it was called never came so far."""

    async def asks_for_another(run: Run, _input: Any) -> Any:
        return await run.tool("serch", q="a")

    asks_for_another.__name__ = "asks_for_it"
    log = recorded(tmp_path / "a.jsonl", program=asks_for_it).log

    (found,) = reexecute(log, asks_for_another).divergences

    assert (found.category, found.now["name"]) == ("name_changed", "serch")
    assert [(one.pointer, one.before, one.after) for one in found.diff] == [
        ("/name", "search", "serch")
    ]
    assert found.cause == "the run did not have the tool 'serch'; its tools were: fetch, search"
    assert found.file == __file__


@pytest.mark.parametrize("has_more", [True, False])
def test_the_end_of_the_run_is_told_among_what_follows(tmp_path: Path, has_more: bool) -> None:  # noqa: FBT001 - a case
    """Where it differs."""

    async def now(run: Run, _input: Any) -> Any:
        found = await run.tool("search", q="b")
        return [found] if has_more else "found a"

    log = recorded(tmp_path / "a.jsonl", program=asks_for_it).log

    (found,) = reexecute(log, now).divergences

    assert found.category == "args_changed"
    assert [one.category for one in found.later] == ["output_changed"] * has_more
    for one in found.later:
        assert (one.recorded["output"], one.now["output"]) == ("found a", ["found a"])
        assert [place.pointer for place in one.diff] == ["/output"]


@tool(effect="reads")
def typed() -> tuple[int, ...]:
    """Return what only the tool itself can read from a log."""
    return (1,)


async def asks_for_both(run: Run, _input: Any) -> None:
    await run.tool("search", q="a")
    await run.tool("typed")


async def asks_for_both_otherwise(run: Run, _input: Any) -> None:
    await run.tool("search", q="b")
    await run.tool("typed")


async def connects(run: Run, _input: Any) -> None:
    await run.tool("search", q="b")
    socket.create_connection(("127.0.0.1", 9), timeout=60).close()


def test_what_comes_first_is_told_whatever_ends_the_run_later(tmp_path: Path) -> None:
    """What a program does after its first difference is not the first difference."""
    log = recorded(tmp_path / "a.jsonl", program=asks_for_both, tools=[search, fetch, typed]).log

    for now in (connects, asks_for_both_otherwise):
        (found,) = reexecute(log, now).divergences

        assert (found.category, found.call) == ("args_changed", "0#1")


ASKED = {"kind": "tool", "name": "search", "arguments": {}}


@for_each(
    "recorded, now, expected",
    [
        (ASKED, ASKED | {"name": "fetch"}, "name_changed"),
        (ASKED, ASKED | {"arguments": {"q": "a"}}, "args_changed"),
        (ASKED, {"kind": "note"}, "kind_changed"),
        (ASKED, None, "missing_call"),
    ],
)
def test_the_first_word_for_two_lines_is_of_them_alone(
    recorded: Any, now: Any, expected: str
) -> None:
    """What takes its process with it gets no further; of the end of a run it is another one."""
    assert first_word(recorded, now, has_ended=False) == expected
    assert first_word(recorded, None, has_ended=True) == "unconsumed"


def _twice(helper: Any) -> Any:
    """Return a program of two tasks, each of which asks, calls `helper` and asks again."""

    async def asks_twice(run: Run, _input: Any) -> None:
        async def one(q: str) -> None:
            await run.tool("search", q=q)
            await run.tool("search", q=helper(q))

        async with asyncio.TaskGroup() as group:
            for q in "ab":
                group.create_task(one(q))

    return asks_twice


def test_an_exception_that_ends_the_program_now_is_the_cause(tmp_path: Path) -> None:
    """What a helper raises, whose source no fingerprint holds, is said with its place."""
    log = recorded(tmp_path / "a.jsonl", program=_twice(str.upper)).log

    def fails(q: str) -> str:
        raise LookupError(q)

    (found,) = reexecute(log, _twice(fails)).divergences

    assert found.category == "missing_call"
    assert "now raises" in found.cause
    assert "LookupError: a" in found.cause
    assert f"{__file__}:{fails.__code__.co_firstlineno + 1}" in found.cause


def test_what_comes_of_answers_that_were_made_up_is_no_cause(tmp_path: Path) -> None:
    """A program that is let run on may raise because of them."""

    async def asks(run: Run, _input: Any) -> Any:
        await run.tool("search", q="a")
        return await run.tool("search", q="b")

    async def asks_something_else(run: Run, _input: Any) -> Any:
        return (await run.tool("search", q="b")) + (await run.tool("fetch", url="c"))["no"]

    log = recorded(tmp_path / "a.jsonl", program=asks).log
    asks_something_else.__name__, asks_something_else.__qualname__ = (
        asks.__name__,
        asks.__qualname__,
    )

    (found,) = reexecute(log, asks_something_else).divergences

    assert found.category == "missing_call"
    assert "raises" not in found.cause
