"""The loops that asynchronous tools run on (CONTRACT.md §9.2)."""

import asyncio
import contextlib
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.program.run import PlainRun, Run
from refold.engine.recording.host import Host
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each

PLACES: list[tuple[str, asyncio.AbstractEventLoop]] = []
"""Where the tool below ran: its thread, and its loop."""


@tool(effect="reads")
async def where(n: int) -> int:
    """Note the place."""
    await asyncio.sleep(0.001)
    PLACES.append((threading.current_thread().name, asyncio.get_running_loop()))
    return n


@pytest.fixture(autouse=True)
def nowhere() -> None:
    PLACES.clear()


def threads() -> list[str]:
    return [name for name, _ in PLACES]


async def one_by_one(run: Run, _input: Any) -> list[int]:
    return [await run.tool(where, n=n) for n in range(3)]


def plain(run: PlainRun, _input: Any) -> list[int]:
    return [run.tool(where, n=n) for n in range(3)]


@pytest.mark.parametrize("program", [one_by_one, plain])
def test_a_sequential_program_changes_no_thread(tmp_path: Path, program: Any) -> None:
    """An asynchronous tool that nothing else is live beside runs where the program does."""
    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == [0, 1, 2]
    assert threads() == [threading.current_thread().name] * 3
    assert reexecute(recording.log, program).identical


def test_what_is_concurrent_has_a_thread_and_all_have_one_loop(tmp_path: Path) -> None:
    """Clients keep connections, which belong to a loop: it is the same one all along."""

    async def program(run: Run, _input: Any) -> list[int]:
        first = await run.tool(where, n=0)
        both = await asyncio.gather(run.tool(where, n=1), run.tool(where, n=2))
        return [first, *both, await run.tool(where, n=3)]

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == [0, 1, 2, 3]
    assert threads() == [threading.current_thread().name, *["refold-host"] * 3]
    assert len({id(loop) for _, loop in PLACES}) == 1


def test_children_use_the_loop_of_the_whole_run(tmp_path: Path) -> None:
    """On its thread, for they run on threads of their own."""

    async def program(run: Run, _input: Any) -> list[Any]:
        first = await run.tool(where, n=0)
        outcome = await run.delegate(refold.Delegation(program=one_by_one))
        return [first, outcome.output]

    recording = refold.record(program, log=tmp_path / "a.jsonl")

    assert recording.output == [0, [0, 1, 2]]
    assert threads() == [threading.current_thread().name, *["refold-host"] * 3]
    assert len({id(loop) for _, loop in PLACES}) == 1


@for_each("left", ["server", "task", "timer", "thread"])
def test_what_a_tool_leaves_on_the_loop_goes_on(tmp_path: Path, left: str) -> None:
    """A later tool that blocks until then would wait for ever, if nobody ran the loop."""
    done, go = threading.Event(), threading.Event()
    kept: list[Any] = []

    async def told() -> None:
        await asyncio.to_thread(go.wait, 10)
        done.set()

    async def answers(_reader: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(b"!")
        writer.close()

    async def later() -> None:
        await asyncio.sleep(0.01)
        done.set()

    @tool(effect="changes")
    async def leaves() -> int:
        loop = asyncio.get_running_loop()
        if left == "server":
            kept.append(await asyncio.start_server(answers, "127.0.0.1", 0))
            return int(kept[0].sockets[0].getsockname()[1])
        if left == "timer":
            kept.append(loop.call_later(0.01, done.set))
        else:
            kept.append(loop.create_task(later() if left == "task" else told()))
        return 0

    @tool(effect="reads")
    def waits(port: int) -> bool:
        if not port:
            go.set()
            return done.wait(60)
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            return connection.recv(1) == b"!"

    @tool(effect="changes")
    async def ends() -> None:
        if left == "server":
            kept[0].close()
            await kept[0].wait_closed()

    async def program(run: Run, _input: Any) -> bool:
        found = bool(await run.tool(waits, port=await run.tool(leaves)))
        await run.tool(ends)
        return found

    assert refold.record(program, log=tmp_path / "a.jsonl").output is True


def test_many_tasks_and_timers_of_one_call_are_no_rest(tmp_path: Path) -> None:
    """Those that are over when the call ends are not waited for, and the thread stays the same."""

    @tool(effect="reads")
    async def many() -> int:
        for _ in range(400):
            await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0.00001))
        return len(asyncio.all_tasks())

    async def program(run: Run, _input: Any) -> list[int]:
        return [await run.tool(many), await run.tool(where, n=1)]

    assert refold.record(program, log=tmp_path / "a.jsonl").output == [1, 1]
    assert threads() == [threading.current_thread().name]


def test_a_run_that_is_recorded_inside_a_running_loop_is_no_special_case(tmp_path: Path) -> None:
    """As in a notebook, without `await`: the loop of the caller is not asked."""

    async def caller() -> Any:
        with pytest.warns(RuntimeWarning, match="record_async"):
            recording = refold.record(one_by_one, log=tmp_path / "a.jsonl")
        assert asyncio.get_running_loop().is_running()
        return recording.output

    assert asyncio.run(caller()) == [0, 1, 2]


def test_no_thread_of_a_loop_keeps_the_process_from_ending() -> None:
    """And each says whose it is; on a loop of the caller's there is none."""

    async def where() -> None:
        found.put(threading.current_thread())

    found: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()
    host = Host()
    for is_lasting, name in ((False, "refold-host"), (True, "refold-models")):
        host.run(where, lasting=is_lasting)
        thread = found.get(timeout=60)
        assert (thread.name, thread.daemon) == (name, True)
    host.close()

    async def beside() -> threading.Thread:
        Host(asyncio.get_running_loop()).run(where, lasting=True)
        return await asyncio.to_thread(found.get, timeout=60)

    assert asyncio.run(beside()) is threading.current_thread()


def test_a_host_loop_of_our_own_ends_with_its_tasks_cancelled() -> None:
    """One that is the caller's is left running."""
    host = Host()
    ended, begun = threading.Event(), threading.Event()

    async def stays() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    host.run(stays)
    assert begun.wait(60)
    assert not host.is_here()
    host.close()
    assert ended.is_set()
    Host().close()

    async def caller() -> bool:
        borrowed = Host(asyncio.get_running_loop())
        assert not borrowed.is_here()
        done = asyncio.Event()
        borrowed.call(done.set)
        await done.wait()
        borrowed.close()
        return asyncio.get_running_loop().is_running()

    assert asyncio.run(caller())


@pytest.mark.long
def test_a_task_that_will_not_end_does_not_keep_the_run_from_ending() -> None:
    """It is left on a thread that ends with the process."""
    host = Host()
    begun, goes_on, is_over = threading.Event(), threading.Event(), threading.Event()

    async def deaf() -> None:
        begun.set()
        while not is_over.is_set():
            goes_on.set()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    host.run(deaf)
    assert begun.wait(60)
    closing = threading.Thread(target=host.close, daemon=True)
    closing.start()
    closing.join(60)

    assert not closing.is_alive()
    goes_on.clear()
    assert goes_on.wait(60)
    is_over.set()


FORKS = """
import os, signal, sys
import refold
from refold.engine.ports.ports import ModelReply

class Answers:
    name, is_async = "m", True

    async def complete(self, request):
        return ModelReply(message={"role": "assistant", "content": "Moon."})

async def program(run, _input):
    return (await run.model([{"role": "user", "content": "Tides?"}])).message["content"]

def ask(log):
    print(refold.record(program, log=log, model=Answers()).output, flush=True)

ask(sys.argv[1])
if (child := os.fork()) == 0:
    signal.alarm(60)  # rather than wait for ever
    ask(sys.argv[2])
    os._exit(0)
os.waitpid(child, 0)
"""


def test_a_fork_asks_models_on_a_loop_of_its_own(tmp_path: Path) -> None:
    """The thread of the one that lasts does not go on there."""
    logs = (str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"))

    said = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS, *logs],
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout == "Moon.\n" * 2
