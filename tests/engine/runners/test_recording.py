"""`record` from plain code, in a running loop, or awaited (CONTRACT.md §9.6, §4.1)."""

import asyncio
import contextvars
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import LogExists, NotCanonical, RecordingRefused, UsageError
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import SystemDisk
from refold.engine.models import FunctionModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import Delegation, Durability, ModelRequest
from refold.engine.ports.programs import load_program
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record, record_async
from refold.replay.run.opened_run import delegation_tree
from refold.tools.contract.tool_types import tool
from tests.support.steps import recorded


async def echoes(run: Run, value: Any) -> Any:
    run.annotate("uuid", run.uuid())
    return value


def test_without_a_seed_no_two_runs_draw_the_same(tmp_path: Path) -> None:
    logs = [record(echoes, log=tmp_path / f"{name}.jsonl").log for name in "ab"]

    entries = [[*read_entries(log)] for log in logs]
    assert len({one[0].data["run_id"] for one in entries}) == 2
    drawn = {entry.data["data"] for one in entries for entry in one if entry.kind == "note.added"}
    assert len(drawn) == 2


def test_how_sure_a_log_is_follows_what_record_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No wait for the disk, one for a group of entries, or one for each step (CONTRACT.md §4.4)."""
    syncs: list[int] = []
    monkeypatch.setattr(SystemDisk, "sync", staticmethod(syncs.append))

    counts = []
    choices: tuple[Durability, ...] = ("fast", "group", "strict")
    for durability in choices:
        syncs.clear()
        record(echoes, log=tmp_path / f"{durability}.jsonl", durability=durability)
        counts.append(len(syncs))

    assert counts[0] == 0
    assert 0 < counts[1] < counts[2]


def test_one_seed_and_a_fixed_clock_give_one_data_digest(tmp_path: Path) -> None:
    """Of two live runs; another seed, another input or no fixed clock need not."""
    options: dict[str, Any] = {"seed": 7, "clock": FixedClock()}
    one, two = (record(echoes, 1, log=tmp_path / f"{n}.jsonl", **options) for n in "ab")
    other = record(echoes, 1, log=tmp_path / "c.jsonl", seed=8, clock=FixedClock())
    input_ = record(echoes, 2, log=tmp_path / "d.jsonl", **options)

    assert one.data_digest == two.data_digest
    assert len({one.data_digest, other.data_digest, input_.data_digest}) == 3
    assert one.head != two.head


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """The bytes stay as they are."""
    log = record(echoes, log=tmp_path / "a.jsonl").log
    before = log.read_bytes()

    with pytest.raises(LogExists):
        record(echoes, log=log)

    assert log.read_bytes() == before


def test_the_default_log_has_a_fresh_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `runs/`, by time and program."""
    monkeypatch.chdir(tmp_path)

    logs = {record(echoes).log for _ in range(3)}

    assert len(logs) == 3
    assert all(log.parent == Path("runs") and "echoes" in log.name for log in logs)


def test_what_is_wrong_with_the_call_is_said_before_anything_is_written(tmp_path: Path) -> None:
    """An input that no log can hold, an unknown runner."""
    log = tmp_path / "a.jsonl"

    with pytest.raises(NotCanonical, match=r"^input: at /x: expected a JSON value"):
        record(echoes, {"x": object()}, log=log)
    with pytest.raises(NotCanonical, match=r"^input: expected a JSON value"):
        record(echoes, object(), log=log)
    named: Any = "scripted:x"
    with pytest.raises(
        UsageError, match=r"^model: expected a Model \(see refold\.engine\.models\), found"
    ):
        record(echoes, model=named, log=log)
    with pytest.raises(UsageError, match=r"^models\['big'\]: expected a Model"):
        record(echoes, models={"big": named}, log=log)
    with pytest.raises(UsageError, match="in-process, ray, subprocess"):
        record(echoes, log=log, runner="cluster")

    assert not log.exists()


def test_a_file_that_records_while_it_is_imported_is_refused(tmp_path: Path) -> None:
    """Or loading a program for a replay would start a recording."""
    file = tmp_path / "careless.py"
    file.write_text(
        "from refold.engine.runners.recording import record\n"
        "async def program(run, input): ...\n"
        "record(program)\n"
    )

    with pytest.raises(RecordingRefused, match="__main__"):
        load_program(f"{file}:program")


def test_so_is_a_file_that_loads_another_before_it(tmp_path: Path) -> None:
    """It is still being imported when that one is: the error names it."""
    (tmp_path / "inner.py").write_text("def program(run, _input): pass\n")
    file = tmp_path / "outer.py"
    file.write_text(
        "from refold.engine.ports.programs import load_program\n"
        "from refold.engine.runners.recording import record\n"
        f"program = load_program({str(tmp_path / 'inner.py:program')!r})\n"
        f"record(program, log={str(tmp_path / 'a.jsonl')!r})\n"
    )

    with pytest.raises(RecordingRefused, match=r"outer\.py"):
        load_program(f"{file}:program")

    assert not (tmp_path / "a.jsonl").exists()


# --- where a loop runs already -----------------------------------------------------------------


def test_plain_code_in_a_running_loop(tmp_path: Path) -> None:
    """A notebook's cell: the run takes a thread of its own, and the cell waits."""

    async def cell() -> Any:
        task = asyncio.current_task()
        recording = record(echoes, 5, log=tmp_path / "a.jsonl")
        return [recording.output, asyncio.current_task() is task]

    assert asyncio.run(cell()) == [5, True]


def test_within_a_tool_of_another_run(tmp_path: Path) -> None:
    """A nested recording is the tool's own affair."""

    @tool(effect="changes")
    def records() -> Any:
        return record(echoes, 6, log=tmp_path / "inner.jsonl").output

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(records)

    def plain(run: PlainRun, _input: Any) -> Any:
        return run.tool(records)

    assert record(program, log=tmp_path / "a.jsonl").output == 6
    (tmp_path / "inner.jsonl").unlink()
    assert record(plain, log=tmp_path / "b.jsonl").output == 6


def test_awaited_many_at_once(tmp_path: Path) -> None:
    """Runs side by side, each on a thread of its own."""

    async def server() -> list[Any]:
        runs = [record_async(echoes, n, log=tmp_path / f"{n}.jsonl") for n in range(8)]
        return [recording.output for recording in await asyncio.gather(*runs)]

    assert asyncio.run(server()) == list(range(8))


def test_async_tools_share_the_callers_loop(tmp_path: Path) -> None:
    """They may use its clients and locks."""

    async def server() -> Any:
        lock = asyncio.Lock()
        ours = asyncio.get_running_loop()

        @tool(effect="reads")
        async def uses() -> bool:
            async with lock:
                return asyncio.get_running_loop() is ours

        async def program(run: Run, _input: Any) -> Any:
            return await asyncio.gather(*(run.tool(uses) for _ in range(3)))

        return (await record_async(program, log=tmp_path / "a.jsonl")).output

    assert asyncio.run(server()) == [True] * 3


def test_cancelling_the_awaiting_task_cancels_the_run(tmp_path: Path) -> None:
    """It ends as cancelled, sealed, before the task goes on."""
    log = tmp_path / "a.jsonl"

    async def server() -> None:
        begun = asyncio.Event()

        @tool(effect="reads")
        async def begins() -> None:
            begun.set()

        async def program(run: Run, _input: Any) -> None:
            await run.tool(begins)
            await run.sleep(60)

        task = asyncio.create_task(record_async(program, log=log))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(server())

    last = list(read_entries(log))[-1]
    assert (last.kind, last.data["status"]) == ("run.finished", "cancelled")


def test_errors_of_the_call_reach_whoever_awaits(tmp_path: Path) -> None:
    """As plain `record` raises them."""
    log = recorded(tmp_path / "a.jsonl", ("uuid",)).log

    with pytest.raises(LogExists):
        asyncio.run(record_async(echoes, log=log))


NAME: contextvars.ContextVar[str] = contextvars.ContextVar("NAME")


def test_context_variables_go_along(tmp_path: Path) -> None:
    """Into the thread of the kernel, and into the program."""

    async def program(_run: Run, _input: Any) -> Any:
        return NAME.get("none")

    async def server() -> Any:
        NAME.set("server")
        awaited = await record_async(program, log=tmp_path / "a.jsonl")
        return [awaited.output, record(program, log=tmp_path / "b.jsonl").output]

    assert asyncio.run(server()) == ["server", "server"]


def test_runs_on_threads_of_the_callers_own(tmp_path: Path) -> None:
    """A server without asyncio: kernels share nothing."""
    outputs: list[Any] = [None] * 6

    def work(number: int) -> None:
        outputs[number] = record(echoes, number, log=tmp_path / f"{number}.jsonl").output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert outputs == list(range(6))


_HANGING_TOOL = """
import sys, threading
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool

@tool(effect="reads", timeout_seconds=0.05)
def hangs() -> None:
    threading.Event().wait()

async def program(run, input):
    try:
        await run.tool(hangs)
    except Exception as error:
        return error.code

print(record(program, log=sys.argv[1]).output)
"""


def test_a_tool_that_hangs_keeps_no_process_from_ending(tmp_path: Path) -> None:
    """Its thread is left behind."""
    done = subprocess.run(
        [sys.executable, "-c", _HANGING_TOOL, os.fspath(tmp_path / "a.jsonl")],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.strip() == "timed_out"


def test_what_each_run_used_is_counted_in_all_above_it(tmp_path: Path) -> None:
    """§7.1, §11.9: outcomes, recordings, ends of runs and trees count all below, once."""

    def said(request: ModelRequest) -> Any:
        used = {"root": 1, "child": 10, "grandchild": 100}[request.parameters["agent"]]
        return {"text": "ok", "usage": {"input_tokens": used, "output_tokens": 1000 * used}}

    async def grandchild(run: Run, _: Any) -> None:
        await run.model([{"role": "user", "content": "x"}], agent="grandchild")

    async def child(run: Run, _: Any) -> list[int]:
        await run.model([{"role": "user", "content": "x"}], agent="child")
        return used(await run.delegate(Delegation(program=grandchild)))

    async def root(run: Run, _: Any) -> list[Any]:
        await run.model([{"role": "user", "content": "x"}], agent="root")
        outcome = await run.delegate(Delegation(program=child))
        return [outcome.output, used(outcome)]

    def used(of: Any) -> list[int]:
        return [of.usage.input_tokens, of.usage.output_tokens, of.usage.requests]

    log = tmp_path / "run.jsonl"
    recording = record(root, log=log, model=FunctionModel(said))
    (below,) = (tree := delegation_tree(log)).children
    (last,) = below.children
    ends = [[*read_entries(each)][-1].data["usage"] for each in sorted(tmp_path.glob("*.jsonl"))]

    assert recording.output == [[100, 100_000, 1], [110, 110_000, 2]]
    assert used(recording) == [111, 111_000, 3]
    assert [used(each) for each in (tree, below, last)] == [
        [111, 111_000, 3],
        [110, 110_000, 2],
        [100, 100_000, 1],
    ]
    assert sorted(each["input_tokens"] for each in ends) == [100, 110, 111]
