"""Two records compared call by call, scope by scope; rules are CONTRACT.md §12.10."""

import asyncio
from pathlib import Path
from typing import Any

from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.index.by_call import Book
from refold.replay.partial.drift import Comparator, Records, exact
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each


@tool(effect="reads")
def look(x: int) -> int:
    """Return what was asked for."""
    return x


async def calls(run: Run, given: list[Any]) -> list[Any]:
    """Call `look` for each number; a list is done at once."""
    found = []
    for each in given:
        if isinstance(each, list):
            found += await asyncio.gather(*(calls(run, [one]) for one in each))
        else:
            found.append(await run.tool("look", x=each))
    return found


def rows(folder: Path, old: Any, new: Any, rule: Comparator = exact) -> list[tuple[str, str]]:
    """Record both, and return call and verdict of what is not the same, the output left out."""
    one = record(calls, old, log=folder / "a.jsonl", tools=[look]).log
    other = record(calls, new, log=folder / "b.jsonl", tools=[look]).log
    return [
        (row.call, row.verdict)
        for row in Records(Book(one), Book(other), {"*": rule}, ()).rows()
        if row.verdict != "same" and row.kind != "output"
    ]


@for_each(
    "old, new, expected",
    [
        ([1, 2, 3], [1, 2, 3], []),
        ([1, 2, 3], [1, 9, 3], [("0#2", "arguments_changed")]),
        ([1, 2, 3], [1, 9, 2, 3], [("0#2", "new")]),
        ([1, 2, 3], [1, 3], [("0#2", "missing")]),
        ([1, 2, 3], [1], [("0#2", "missing"), ("0#3", "missing")]),
        ([1, 2, 3], [1, 9], [("0#2", "arguments_changed"), ("0#3", "missing")]),
        ([[1, 2]], [[1, 9]], [("0/2#1", "arguments_changed")]),
        ([[1, 2]], [[1, 2, 3]], [("0/3#1", "new")]),
    ],
)
def test_what_became_of_each_call(
    tmp_path: Path, old: Any, new: Any, expected: list[tuple[str, str]]
) -> None:
    """An inserted call is one new call; what may have changed is that of the same key."""
    assert rows(tmp_path, old, new) == expected


def test_the_output_is_a_row_of_its_own(tmp_path: Path) -> None:
    """It has no call key, and stands last."""
    one = record(calls, [1], log=tmp_path / "a.jsonl", tools=[look]).log
    other = record(calls, [2], log=tmp_path / "b.jsonl", tools=[look]).log

    last = list(Records(Book(one), Book(other), {}, ()).rows())[-1]

    assert (last.kind, last.call, last.verdict) == ("output", "", "result_changed")
    assert [str(each) for each in last.diff] == ["/output/0: 1 → 2"]
