"""Change markers: a program changes, and old records replay as they were (CONTRACT.md §9.8)."""

import asyncio
from pathlib import Path
from typing import Any

import refold
from refold.testing import FixedClock
from tests.support.loops import for_each
from tests.support.resumable import TOOLS, step
from tests.support.unfinished import cut, rows_of


async def before(run: refold.Run, n: int) -> Any:
    """The program as it was."""
    return [await run.tool(step, n=n), await run.tool(step, n=n + 1)]


async def after(run: refold.Run, n: int) -> Any:
    """The program as it is: one call more, for new runs."""
    first = await run.tool(step, n=n)
    if run.patched("ask twice"):
        first = await run.tool(step, n=n + 10)
    return [first, await run.tool(step, n=n + 1)]


async def at_last(run: refold.Run, n: int) -> Any:
    """The program when no old run is left: the old way is gone, and the marker with it."""
    await run.tool(step, n=n)
    return [await run.tool(step, n=n + 10), await run.tool(step, n=n + 1)]


async def deprecated(run: refold.Run, n: int) -> Any:
    """The same, with the marker still passed."""
    run.patched("ask twice")
    return await at_last(run, n)


def _recorded(program: Any, log: Path, argument: Any = 1) -> refold.Recording:
    return refold.record(program, argument, log=log, tools=TOOLS, clock=FixedClock(), seed=1)


def test_a_new_run_goes_the_new_way_and_says_so(tmp_path: Path) -> None:
    """Case 99: `patch.marked` stands where the marker was first passed."""
    recording = _recorded(after, tmp_path / "a.jsonl")

    assert recording.output == [22, 4]
    assert [row["data"] for row in rows_of(recording.log) if row["kind"] == "patch.marked"] == [
        {"id": "ask twice"}
    ]
    assert refold.reexecute(recording.log, after).identical


def test_an_old_record_goes_the_old_way(tmp_path: Path) -> None:
    """Case 99: and new and old ones are replayed by the same program, in any order."""
    old = _recorded(before, tmp_path / "old.jsonl")
    new = _recorded(after, tmp_path / "new.jsonl")

    for log in (old, new, old, new):
        assert refold.reexecute(log, after).identical


def test_without_the_marker_the_change_diverges(tmp_path: Path) -> None:
    """Case 99: as it should."""
    old = _recorded(before, tmp_path / "old.jsonl")

    report = refold.reexecute(old, at_last)

    assert not report.identical
    assert report.divergences[0].category in ("extra_call", "args_changed")


def test_a_marker_that_nobody_passes_any_more_is_passed_over(tmp_path: Path) -> None:
    """Case 99: once all old records are gone, the marker goes."""
    new = _recorded(after, tmp_path / "new.jsonl")

    assert refold.reexecute(new, deprecated).identical
    assert refold.reexecute(new, at_last).identical


def test_rolling_back_is_noticed(tmp_path: Path) -> None:
    """Case 100: a new record under the old program is a divergence, which names the call."""
    new = _recorded(after, tmp_path / "new.jsonl")

    report = refold.reexecute(new, before)

    assert not report.identical
    assert "step" in str(report)


async def often(run: refold.Run, n: int) -> Any:
    """Pass the same marker in several spots, once before its line could stand elsewhere."""
    ways = [run.patched("m")]
    await run.tool(step, n=n)
    ways.append(run.patched("m"))
    ways.append(run.patched("other"))
    await run.tool(step, n=n + 1)
    return [*ways, run.patched("m"), run.patched("other")]


def test_a_marker_has_one_answer_in_a_run(tmp_path: Path) -> None:
    """Case 99: memoised: one line each, however many spots."""
    recording = _recorded(often, tmp_path / "a.jsonl")

    ids = [row["data"]["id"] for row in rows_of(recording.log) if row["kind"] == "patch.marked"]
    assert ids == ["m", "other"]
    assert recording.output == [True] * 5
    assert refold.reexecute(recording.log, often).identical


def test_a_marker_takes_no_ordinal(tmp_path: Path) -> None:
    """§9.8: call keys are the same with and without it."""
    keys = []
    for number, program in enumerate((before, deprecated)):
        log = _recorded(program, tmp_path / f"a{number}x.jsonl").log
        keys.append([row.get("call") for row in rows_of(log) if row["kind"] == "tool.called"])

    assert keys == [["0#1", "0#2"], ["0#1", "0#2", "0#3"]]


async def branches_before(run: refold.Run, n: int) -> Any:
    """Branches at once, as they were."""

    async def branch(each: int) -> Any:
        await run.tool(step, n=10 * each)
        return await run.tool(step, n=10 * each + 1)

    return await asyncio.gather(*(branch(each) for each in range(1, n + 1)))


async def branches(run: refold.Run, n: int) -> Any:
    """The same with a marker in each branch."""

    async def branch(each: int) -> Any:
        await run.tool(step, n=10 * each)
        if run.patched("in a branch"):
            await run.tool(step, n=10 * each + 5)
        return await run.tool(step, n=10 * each + 1)

    return await asyncio.gather(*(branch(each) for each in range(1, n + 1)))


def test_a_marker_in_concurrent_branches_has_one_answer(tmp_path: Path) -> None:
    """Case 42: whichever branch comes there first."""
    old = _recorded(branches_before, tmp_path / "old.jsonl", 4)
    new = _recorded(branches, tmp_path / "new.jsonl", 4)

    assert new.output == old.output
    assert refold.reexecute(old, branches).identical
    assert refold.reexecute(new, branches).identical
    assert sum(row["kind"] == "patch.marked" for row in rows_of(new.log)) == 1


@for_each("entries", range(1, 7))
def test_a_resumed_run_passes_a_marker_where_it_comes_to_it(entries: int, tmp_path: Path) -> None:
    """Case 99: after the end of the record it is a new run, before it the old one."""
    old = _recorded(before, tmp_path / "old.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(old.log, tmp_path / "x" / "a.jsonl", min(entries, old.entries - 1))

    again = refold.resume(log, after, tools=TOOLS)

    is_new = entries <= 3  # the first call has its result in entry 2; the second is asked after it
    assert again.output == ([22, 4] if is_new else [2, 4])
    assert refold.reexecute(log, after).identical
    assert refold.verify(log).complete


def test_a_child_has_markers_of_its_own(tmp_path: Path) -> None:
    """§9.8: a marker belongs to the run whose program passes it."""

    async def parent(run: refold.Run, n: int) -> Any:
        outcome = await run.delegate(refold.Delegation(program=after, input=n))
        return [outcome.output, run.patched("ask twice")]

    recording = _recorded(parent, tmp_path / "a.jsonl")

    assert recording.output == [[22, 4], True]
    assert refold.reexecute(recording.log, parent).identical
    assert refold.verify(recording.log).intact
