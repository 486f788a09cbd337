"""A program neither records nor re-executes by itself (CONTRACT.md §9.6)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.tools.contract.tool_types import DelegationTool

made: list[int] = []


@refold.tool(effect="changes")
def charge(x: int) -> str:
    """Charge."""
    made.append(x)
    return "ok"


async def worker(run: refold.Run, x: int) -> Any:
    return await run.tool(charge, x=x)


STARTS: dict[str, Callable[[Path], Any]] = {
    "record": lambda log: refold.record(worker, 1, log=log, tools=[charge]),
    "reexecute": lambda log: refold.reexecute(log, worker, tools=[charge]),
    "resume": lambda log: refold.resume(log, worker, tools=[charge]),
    "fork": lambda log: refold.fork(log, into=log.with_name("fork.jsonl"), at=1),
    "drift": lambda log: refold.drift(log, worker, tools=[charge]),
    "explore": lambda log: refold.explore(log, worker, tools=[charge]),
    "sensitivity": lambda log: refold.sensitivity(log, worker, tools=[charge]),
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The log of an earlier run."""
    log = refold.record(worker, 0, log=tmp_path / "kept.jsonl", tools=[charge]).log
    made.clear()
    return log


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("is_plain", [False, True])
def test_a_program_that_starts_a_run_is_refused_by_name(
    name: str, kept: Path, tmp_path: Path, *, is_plain: bool
) -> None:
    """Or its tools would be executed again in each replay, and the report would not say so."""

    async def lead(_run: refold.Run, _input: Any) -> None:
        STARTS[name](kept)

    def plain_lead(_run: refold.PlainRun, _input: Any) -> None:
        STARTS[name](kept)

    recording = refold.record(plain_lead if is_plain else lead, log=tmp_path / "lead.jsonl")

    assert recording.error is not None
    assert recording.error.message.startswith(f"NestedRun: refold.{name} was called inside a p")
    assert "run.delegate" in recording.error.message
    assert recording.where.rpartition(":")[0] == __file__
    assert made == []


def test_so_is_one_that_awaits_its_recording(tmp_path: Path) -> None:
    """`record_async` has a thread of its own for the kernel; who asks for it is what counts."""

    async def lead(_run: refold.Run, _input: Any) -> None:
        await refold.record_async(worker, 1, tools=[charge])

    recording = refold.record(lead, log=tmp_path / "lead.jsonl")

    assert recording.error is not None
    assert "refold.record_async" in recording.error.message


def test_a_delegation_tool_is_program_code(tmp_path: Path) -> None:
    """It is re-executed in a replay as the program is."""

    async def handler(_run: Any, _arguments: Any) -> Any:
        return refold.record(worker, 1, tools=[charge]).output

    hand_over = DelegationTool(name="hand_over", description="", parameters={}, handler=handler)

    async def lead(run: refold.Run, _input: Any) -> Any:
        return await run.tool(hand_over)

    recording = refold.record(lead, log=tmp_path / "lead.jsonl", tools=[hand_over])

    assert recording.error is not None
    assert "refold.record was called" in recording.error.message


def test_a_leaf_tool_may_record_wherever_it_runs(tmp_path: Path) -> None:
    """It is an effect, which no replay runs: in the kernel's thread, on a worker, on a loop."""
    logs = iter(tmp_path / f"inner-{number}.jsonl" for number in range(9))

    @refold.tool
    def plain(x: int) -> str:
        return str(refold.record(worker, x, log=next(logs), tools=[charge]).output)

    @refold.tool
    async def asynchronous(x: int) -> str:
        inner = await refold.record_async(worker, x, log=next(logs), tools=[charge])
        return str(inner.output)

    async def lead(run: refold.Run, _input: Any) -> list[str]:
        alone = [await run.tool(plain, x=1), await run.tool(asynchronous, x=2)]
        calls = (run.tool(plain, x=3), run.tool(asynchronous, x=4))
        return alone + list(await asyncio.gather(*calls))

    made.clear()
    recording = refold.record(lead, log=tmp_path / "lead.jsonl", tools=[plain, asynchronous])
    report = refold.reexecute(recording, lead)

    assert (recording.output, sorted(made)) == (["ok"] * 4, [1, 2, 3, 4])
    assert report.identical


def test_a_run_within_a_tool_is_a_run_like_any_other(tmp_path: Path) -> None:
    """Its own program is refused, though a tool is on the stack further out."""

    async def inner(_run: refold.Run, _input: Any) -> None:
        refold.record(worker, 1, tools=[charge])

    @refold.tool
    def outer() -> str:
        return str(refold.record(inner, log=tmp_path / "inner.jsonl").error)

    async def lead(run: refold.Run, _input: Any) -> Any:
        return await run.tool(outer)

    assert "NestedRun" in refold.record(lead, log=tmp_path / "lead.jsonl").output


def test_a_tool_that_a_program_calls_as_a_function_is_warned_of(tmp_path: Path) -> None:
    """Nothing of it is recorded, and each replay calls it; other tools may call it so."""

    @refold.tool(effect="changes")
    def both(x: int) -> str:
        """Charge twice."""
        return charge(x) + charge(x)

    async def program(run: refold.Run, x: int) -> str:
        return charge(x) if x else await run.tool(both, x=x)

    refold.record(program, 0, log=tmp_path / "a.jsonl")
    with pytest.warns(RuntimeWarning, match=r"await run.tool\(charge, …\)") as warned:
        refold.record(program, 1, log=tmp_path / "b.jsonl")
    assert warned[0].filename == __file__
    assert charge(1) == "ok", "nor is a call outside of a program a mistake"


def test_a_run_that_has_ended_does_not_sleep(tmp_path: Path) -> None:
    """A plain one said that its log is sealed, and not what was wrong."""
    kept: list[refold.PlainRun] = []
    refold.record(lambda run, _input: kept.append(run), log=tmp_path / "a.jsonl")

    with pytest.raises(refold.UsageError, match="run was used outside its program"):
        kept[0].sleep(1)
