"""Two runs side by side: the calls that `refold diff` pairs, and its differences."""

import asyncio
import tempfile
import threading
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.replay.compare.diff import diff
from refold.tools.contract.tool_types import tool
from tests.support.trees import Latency, random_tree, tools_with, tree_program


@tool(effect="pure")
def double(x: int) -> int:
    """Return twice x."""
    return 2 * x


async def two_calls(run: Run, numbers: list[int]) -> int:
    return sum([await run.tool("double", x=number) for number in numbers])


def _recorded(folder: Path, name: str, numbers: list[int]) -> Path:
    return record(two_calls, numbers, log=folder / f"{name}.jsonl", tools=[double]).log


def _ids(document: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of the roots' logs of both runs."""
    return document["logs"][0]["id"], document["diff"]["other"]["logs"][0]["id"]


def test_a_row_names_both_entries(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1, 2, 3]), _recorded(tmp_path, "b", [1, 5, 3])

    document = page(a, b).document
    found, (one, other) = document["diff"], _ids(document)

    (whole,) = found["causes"]
    assert (whole["title"], whole["a"], whole["words"]) == ("root: input", None, ["/1: 2 → 5"])
    assert whole["follows"] == found["count"] - 1
    assert found["rows"][1][:4] == [one, 3, other, 3]
    assert [row[4] for row in found["rows"]] == ["same", "changed", "same"]
    assert found["rows"][1][5][0] == ["/arguments/x", 2, 5]
    assert found["table"]["tool_calls"] == [3, 3]


def _told_late(folder: Path, said: str) -> Path:
    """Record a run that asks a slow tool first, and is answered by a quick one first."""
    answered = threading.Event()

    @tool(effect="reads")
    def quick(n: int) -> str:
        return said * n

    @tool(effect="reads")
    def slow(n: int) -> str:
        answered.wait(60)
        return said * n

    async def program(run: Run, _input: None) -> None:
        asked = asyncio.ensure_future(run.tool(slow, n=1))
        await asyncio.sleep(0)
        await run.tool(quick, n=1)
        answered.set()
        await asked

    return record(program, None, log=folder / f"{said}.jsonl", tools=[quick, slow]).log


def test_the_first_difference_is_the_answer_that_came_first(tmp_path: Path) -> None:
    """Not the request that was written first: its answer may follow from the other."""
    document = page(_told_late(tmp_path, "one"), _told_late(tmp_path, "other")).document

    differ = [row[1] for row in document["diff"]["rows"] if row[4] == "changed"]
    first = document["diff"]["causes"][0]
    assert first["title"] == "root > quick#1: result"
    assert first["a"][1] == differ[1] > differ[0]


def test_a_call_that_one_run_lacks_has_no_entry_there(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1]), _recorded(tmp_path, "b", [1, 2])

    document = page(a, b).document
    rows, (one, other) = document["diff"]["rows"], _ids(document)

    assert sorted(row[4] for row in rows) == ["added", "same"]
    assert [one, 1, other, 1, "same"] in [row[:5] for row in rows]
    assert [one, None, other, 3, "added"] in [row[:5] for row in rows]


def test_two_runs_that_are_the_same_have_no_first_difference(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1]), _recorded(tmp_path, "b", [1])

    found = page(a, b).document["diff"]

    assert (found["identical"], found["causes"], found["count"]) == (True, [], 0)


def test_a_damaged_run_is_said_to_be_why_nothing_is_compared(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1]), _recorded(tmp_path, "b", [1])
    b.write_bytes(b.read_bytes().replace(b'"result":2', b'"result":3', 1))

    found = page(a, b).document["diff"]

    assert "error" in found
    assert not found["identical"]


@given(seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)))
@settings(max_examples=5, deadline=None)
def test_the_rows_differ_where_diff_finds_calls_that_do(seeds: tuple[int, int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        logs = [
            record(
                tree_program,
                random_tree(seed, children=True),
                log=Path(folder) / f"{name}.jsonl",
                tools=tools_with(Latency(seed)),
                durability="fast",
            ).log
            for name, seed in zip("ab", seeds, strict=True)
        ]
        found, told = page(*logs).document["diff"], diff(*logs)

    places = [place for row in found["rows"] for place in row[5]]
    calls = [each for each in told.differences if each.what]
    assert len(places) == sum(len(each.differences) for each in calls)
    assert found["identical"] == told.identical
    assert [each["title"] for each in found["causes"]] == [each.headline for each in told.causes]
