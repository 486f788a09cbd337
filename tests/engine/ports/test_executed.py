"""Tool calls that a replay executes are counted, and not presumed (CONTRACT.md §12.2)."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.ports.executed import count_tool, counted
from refold.tools.contract.tool_types import DelegationTool


@refold.tool(effect="reads")
def look(x: int) -> int:
    """Look."""
    return x


async def _handler(_run: Any, _arguments: Any) -> Any:
    return look(3)


hand_over = DelegationTool(name="hand_over", description="", parameters={}, handler=_handler)


async def child(run: refold.Run, _input: Any) -> Any:
    return look(1) + await run.tool(look, x=1)


async def lead(run: refold.Run, _input: Any) -> Any:
    await run.tool(look, x=1)
    await run.delegate(refold.Delegation(program=child))
    return look(2) + await run.tool(hand_over)


async def breaks_off(run: refold.Run, _input: Any) -> Any:
    look(1)
    return await run.tool(look, x=1)


@pytest.mark.filterwarnings("ignore:the tool look was called as a function")
def test_calls_past_the_run_are_counted(tmp_path: Path) -> None:
    """Of the program, of a delegation tool and of a child; those through `run` are not made."""
    log = refold.record(lead, log=tmp_path / "a.jsonl", tools=[look, hand_over]).log

    report = refold.reexecute(log, lead, tools=[look, hand_over])

    assert report.identical
    assert report.tools_executed == 3
    assert report.as_json()["tools_executed"] == 3
    assert "tool calls executed: 3" in str(report)


@pytest.mark.long
def test_so_are_those_of_a_run_that_is_re_executed_apart(tmp_path: Path) -> None:
    """An unfinished record is run in another process, which says what it executed."""
    log = refold.record(breaks_off, log=tmp_path / "a.jsonl", tools=[look]).log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    report = refold.reexecute(log, breaks_off, tools=[look])

    assert report.ends_early == ("a.jsonl",)
    assert report.tools_executed == 1


@pytest.mark.parametrize("times", [0, 2])
def test_a_count_is_of_its_context(times: int) -> None:
    """Outside of one, nothing is counted; after one, it stands still."""
    count_tool()
    with counted() as count:
        for _ in range(times):
            count_tool()
    count_tool()

    assert count.tools == times
