"""A program that was edited after it was recorded: what each edit is called (CONTRACT.md §12.4)."""

import asyncio
import contextlib
import itertools
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold import Delegation, Diverged, Limits, Run, record, reexecute, tool
from refold.replay.explain.divergence import Divergence
from tests.support.loops import for_each
from tests.support.steps import Step, program_of, recorded

A: Step = ("tool", "search", {"q": "a"})
B: Step = ("tool", "fetch", {"q": "b"})
C: Step = ("tool", "search", {"q": "c"})
D: Step = ("tool", "fetch", {"q": "d"})
X: Step = ("tool", "search", {"q": "x"})
FOUR = [A, B, C, D]


def edited(tmp_path: Path, before: list[Step], after: list[Step]) -> Divergence:
    """Return what re-execution says of an edit."""
    log = recorded(tmp_path / "a.jsonl", *before).log
    assert reexecute(log, program_of(*before)).identical
    (found,) = reexecute(log, program_of(*after)).divergences
    return found


@for_each("at", range(4))
def test_another_name(tmp_path: Path, at: int) -> None:
    """Case 11: a call that has another name is found where it stands."""
    name = {"search": "fetch", "fetch": "search"}[FOUR[at][1]]

    found = edited(tmp_path, FOUR, [*FOUR[:at], ("tool", name, FOUR[at][2]), *FOUR[at + 1 :]])

    assert (found.category, found.call) == ("name_changed", f"0#{at + 1}")
    assert [one.pointer for one in found.diff] == ["/name"]


@for_each("at", range(4))
def test_other_arguments(tmp_path: Path, at: int) -> None:
    """Case 12: a call with other arguments is found, with the place in them."""
    changed = ("tool", FOUR[at][1], {"q": "new"})

    found = edited(tmp_path, FOUR, [*FOUR[:at], changed, *FOUR[at + 1 :]])

    assert (found.category, found.call) == ("args_changed", f"0#{at + 1}")
    assert [one.pointer for one in found.diff] == ["/arguments/q"]


@attrs.frozen
class Old:
    x: int


@attrs.frozen
class New:
    x: int
    y: int


def test_a_result_of_another_type(tmp_path: Path) -> None:
    """Case 13: a recorded result that no longer fits what the tool returns is found."""

    def point(x: int) -> Old:
        return Old(x)

    def point_now(x: int) -> New:
        return New(x, 1)

    async def program(run: Run, _input: Any) -> Any:
        return (await run.tool("point", x=1)).x

    point_now.__name__ = "point"
    log = record(program, log=tmp_path / "a.jsonl", tools=[tool(effect="pure")(point)]).log

    (found,) = reexecute(log, program, tools=[tool(effect="pure")(point_now)]).divergences

    assert (found.category, found.call) == ("result_changed", "0#1")
    assert "at /y: expected a value" in found.cause


@for_each("value", [2, None, "1", 1.0, True, [1], {"n": 1}])
def test_another_output(tmp_path: Path, value: Any) -> None:
    """Case 14: a program that returns something else is found, however like it is."""
    found = edited(tmp_path, [A, ("return", 1)], [A, ("return", value)])

    assert (found.category, found.call) == ("output_changed", "")


@for_each("at", range(5))
def test_one_call_more(tmp_path: Path, at: int) -> None:
    """Case 15: a call that was added is found where it was added, and nothing after it."""
    found = edited(tmp_path, [*FOUR, ("return", 1)], [*FOUR[:at], X, *FOUR[at:], ("return", 1)])

    assert (found.category, found.call, found.recorded) == ("extra_call", f"0#{at + 1}", None)
    assert found.now["arguments"] == {"q": "x"}
    assert found.later == ()


@for_each("at", range(4))
def test_one_call_less(tmp_path: Path, at: int) -> None:
    """Case 16: a call that was left out is found where it stood, and nothing after it."""
    found = edited(tmp_path, [*FOUR, ("return", 1)], [*FOUR[:at], *FOUR[at + 1 :], ("return", 1)])

    assert found.category == ("unconsumed" if at == 3 else "missing_call")
    assert (found.call, found.recorded["name"]) == (f"0#{at + 1}", FOUR[at][1])
    assert found.later == ()


@for_each("at", range(3))
def test_two_calls_that_changed_places(tmp_path: Path, at: int) -> None:
    """Case 17: wherever the two stand."""
    swapped = [*FOUR[:at], FOUR[at + 1], FOUR[at], *FOUR[at + 2 :]]

    found = edited(tmp_path, FOUR, swapped)

    assert (found.category, found.call) == ("reordered", f"0#{at + 1}")


@pytest.mark.parametrize(
    "other",
    [("sleep", 0.001), ("note", "n"), ("uuid",), ("now",), ("model", "m"), ("child", [])],
    ids=lambda step: step[0],
)
@pytest.mark.parametrize("at", [0, 1, 3])
def test_something_of_another_kind(tmp_path: Path, other: Step, at: int) -> None:
    """Case 18: a call that became a timer, a look, a draw; and the other way."""
    after = [*FOUR[:at], other, *FOUR[at + 1 :]]

    assert edited(tmp_path, FOUR, after).category == "kind_changed"
    (tmp_path / "b").mkdir()
    assert edited(tmp_path / "b", after, FOUR).category == "kind_changed"


@for_each("at", range(4))
def test_an_early_return(tmp_path: Path, at: int) -> None:
    """Case 19: a program that returns before its record does: what is left is said."""
    found = edited(tmp_path, [*FOUR, ("return", 1)], [*FOUR[:at], ("return", 1)])

    assert (found.category, found.call) == ("unconsumed", f"0#{at + 1}")
    assert found.later_count == 3 - at


@for_each("at", range(5))
def test_an_error_for_a_return(tmp_path: Path, at: int) -> None:
    """Case 20: a program that raises is found, with the line that raised."""
    found = edited(tmp_path, [*FOUR, ("return", 1)], [*FOUR[:at], ("raise", "no"), *FOUR[at:]])

    assert found.category == ("unconsumed" if at < 4 else "output_changed")
    assert "ValueError: no" in str(found)
    assert found.file.endswith("steps.py")


@pytest.mark.parametrize("inner", [[A], [("sleep", 0.001)], [("child", [A])]], ids=str)
def test_an_await_that_was_added(tmp_path: Path, inner: list[Step]) -> None:
    """Case 21: on a call, a timer or a child that was started before."""
    before = [("start", inner), B, C, ("await",), ("return", 1)]
    after = [("start", inner), ("await",), B, C, ("return", 1)]

    assert edited(tmp_path, before, after).category == "unrecorded_await"


async def naps(run: Run, _input: Any) -> None:
    while True:
        await run.sleep(0.01)


@pytest.mark.parametrize("how", ["timed out", "cancelled"])
def test_a_run_that_was_ended(tmp_path: Path, how: str) -> None:
    """Case 23: a run that was cancelled or timed out replays; an edit of it is found."""

    async def parent(run: Run, _input: Any) -> Any:
        limits = Limits(timeout_seconds=0.05) if how == "timed out" else Limits()
        handle = await run.start(Delegation(program=naps, limits=limits))
        if how == "cancelled":
            run.cancel(handle)
        (outcome,) = await run.join(handle)
        return outcome.status

    log = record(parent, log=tmp_path / "a.jsonl").log
    assert reexecute(log, parent).identical

    async def idles(run: Run, _input: Any) -> None:
        run.annotate("first of all")
        await naps(run, None)

    (found,) = reexecute(tmp_path / "a.1.jsonl", idles).divergences
    assert found.category == "extra_call"


LEFT = {
    "call": A,
    "sleep": ("sleep", 0.001),
    "child": ("child", [A]),
    "nothing": ("return", None),
}


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(LEFT, 2)), ids=str)
def test_a_program_that_takes_turns(tmp_path: Path, one: str, other: str) -> None:
    """Case 25: one that goes another way each time it is run is found, whichever two ways."""
    turns: list[str] = []

    async def program(run: Run, given: Any) -> Any:
        turns.append("")
        step = LEFT[one if len(turns) == 1 else other]
        return await program_of(step, B)(run, given)

    log = recorded(tmp_path / "a.jsonl", program=program).log

    assert not reexecute(log, program).identical


@pytest.mark.parametrize("volatile", [(), ("tool:search/arguments/q",)])
def test_arguments_that_differ_every_time(tmp_path: Path, volatile: tuple[str, ...]) -> None:
    """Case 26: they diverge, unless a rule of the log declares them volatile."""
    numbers = itertools.count()

    async def program(run: Run, _input: Any) -> Any:
        await run.tool("search", q=str(next(numbers)))
        return 1

    log = recorded(tmp_path / "a.jsonl", program=program, volatile=volatile).log

    report = reexecute(log, program)

    assert report.identical == bool(volatile)


def test_a_divergence_is_data_or_an_exception(tmp_path: Path) -> None:
    """Case 28: as the caller asks."""
    log = recorded(tmp_path / "a.jsonl", A, B).log
    report = reexecute(log, program_of(A, C))

    with pytest.raises(Diverged) as caught:
        report.check()

    assert caught.value.divergence == report.divergences[0]
    reexecute(log, program_of(A, B)).check()


@pytest.mark.parametrize("size", [2, 3, 4, 7])
@pytest.mark.parametrize("waits", ["group", "wait", "kept"])
def test_a_future_more_does_not_turn_a_set_of_tasks_around(
    tmp_path: Path, waits: str, size: int
) -> None:
    """Tasks are given up in one order, whatever else the program makes before them."""

    async def program(run: Run, padding: int) -> Any:
        for _ in range(padding):
            asyncio.get_running_loop().create_future()
            await asyncio.sleep(0)

        async def given_up(number: int) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                run.annotate(str(number))
                raise

        async def fails() -> None:
            raise ValueError(await run.tool("search", q="now"))

        coroutines = [*(given_up(number) for number in range(size)), fails()]
        if waits == "group":
            with contextlib.suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    _ = [group.create_task(each) for each in coroutines]
            return None
        tasks = {asyncio.create_task(each) for each in coroutines}
        if waits == "wait":
            _, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return None

    def padded(padding: int) -> Any:
        async def program_of_padding(run: Run, _input: Any) -> Any:
            return await program(run, padding)

        return program_of_padding

    log = recorded(tmp_path / "a.jsonl", program=padded(0)).log

    assert [reexecute(log, padded(more)).divergences for more in range(1, 9)] == [()] * 8
