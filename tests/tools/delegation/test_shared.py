"""What delegation tools share: order, cancelling with the caller, notes, errors."""

import asyncio
from pathlib import Path
from typing import Any

from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import call_begins, delegate_all


async def echo(_run: Any, given: Any) -> Any:
    return given


def test_children_start_before_the_first_is_waited_for_and_come_in_order(tmp_path: Path) -> None:
    async def program(run: Run, _input: Any) -> list[Any]:
        outcomes = await delegate_all(run, [Delegation(program=echo, input=n) for n in range(3)])
        return [outcome.output for outcome in outcomes]

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log)

    assert recording.output == [0, 1, 2]
    kinds = [entry.kind for entry in read_entries(log)]
    assert kinds[1:-1] == ["child.started"] * 3 + ["child.finished"] * 3


def test_the_world_has_its_turn_within_a_long_list(tmp_path: Path) -> None:
    """Between 16 starts and the next: a list that is refused does not hold up a time limit."""

    async def program(run: Run, _input: Any) -> int:
        return len(await delegate_all(run, [Delegation(program=echo)] * 40))

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, limits=Limits(max_children=0))
    ended = record(program, log=tmp_path / "late.jsonl", limits=Limits(timeout_seconds=1e-6))

    kinds = [entry.kind for entry in read_entries(log)]
    refused = ["limit.hit", "child.finished"]
    assert kinds[1:-1] == [
        *refused * 16, "timer.fired", *refused * 16, "timer.fired", *refused * 8,
    ]  # fmt: skip
    assert recording.output == 40
    assert ended.status == "timed_out"
    assert [entry.kind for entry in read_entries(ended.log)].count("child.started") == 16
    for each in (log, ended.log):
        assert reexecute(each, program).identical


def test_a_call_is_noted_under_the_key_of_its_tool(tmp_path: Path) -> None:
    """Calls of one tool at once have a correlation id each; a task that is no text has no hash."""

    async def handler(run: Run, arguments: dict[str, Any], /) -> str:
        return call_begins(run, "asks", arguments["task"], asked=1).correlation_id

    asks = DelegationTool(name="asks", description="", parameters={}, handler=handler)

    async def program(run: Run, _input: Any) -> list[Any]:
        outside = run.call
        both = await asyncio.gather(run.tool(asks, task="a"), run.tool(asks, task=3))
        return [*both, outside, run.call]

    log = tmp_path / "run.jsonl"
    recording = record(program, log=log, seed=1)

    first, second, *outside = recording.output
    called = [entry.call for entry in read_entries(log) if entry.kind == "tool.called"]
    assert [first.partition(":")[2], second.partition(":")[2]] == called
    assert outside == ["", ""]
    noted = [entry.data["data"] for entry in read_entries(log) if entry.kind == "note.added"]
    assert [note["correlation_id"] for note in noted] == [first, second]
    assert [note["task_sha256"] is None for note in noted] == [False, True]
    assert [note["asked"] for note in noted] == [1, 1]
