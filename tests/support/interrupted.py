"""Programs that say `ready` and then take long, each in another way: `python … PROGRAM LOG`.

With one more word, signals come while Python waits and does not look (`leave_signals_elsewhere`).
"""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.tools.contract.tool_types import tool


def say(word: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def leave_signals_elsewhere() -> None:
    """Let another thread have all signals, as the system may: they end no wait of this one.

    So it is where a signal comes right before the wait begins, which nobody can time.
    """
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})


def block() -> None:
    """Take a minute, and look now and then whether there is a signal: one long wait may miss it."""
    for _ in range(600):
        time.sleep(0.1)


@tool(effect="reads")
def blocks() -> None:
    """Take a minute."""
    say("ready")
    block()


@tool(effect="reads")
async def takes_long() -> None:
    """Take a minute, on a loop."""
    say("ready")
    await asyncio.sleep(60)


@tool(effect="reads")
async def blocks_the_loop() -> None:
    """Take a minute, and let nobody else do anything meanwhile."""
    say("ready")
    block()


@tool(effect="reads")
async def goes_on() -> None:
    """Take a minute, whoever asks for an end."""
    say("ready")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)


async def sleeps(run: Run, _input: Any) -> None:
    """Wait for a timer."""
    say("ready")
    await run.sleep(60)


async def in_place(run: Run, _input: Any) -> None:
    """Wait for a tool that runs in the kernel's own thread."""
    await run.tool(blocks)


async def on_a_worker(run: Run, _input: Any) -> None:
    """Wait for a tool on another thread."""
    async with asyncio.timeout(100):
        await run.tool(blocks)


async def awaits(run: Run, _input: Any) -> None:
    """Wait for an asynchronous tool."""
    await run.tool(takes_long)


async def awaits_a_blocked_loop(run: Run, _input: Any) -> None:
    """Wait for an asynchronous tool that waits for nothing itself."""
    await run.tool(blocks_the_loop)


async def awaits_a_deaf_one(run: Run, _input: Any) -> None:
    """Wait for an asynchronous tool that is not to be cancelled."""
    await run.tool(goes_on)


async def computes(run: Run, _input: Any) -> None:
    """Be busy, then wait."""
    say("ready")
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        pass
    await run.sleep(60)


def wait_for_entry(log: Path, kind: str) -> None:
    """Wait until a log has an entry of that kind."""
    until = time.monotonic() + 60
    while f'"{kind}"'.encode() not in log.read_bytes() and time.monotonic() < until:
        time.sleep(0.001)


def wait_until_given_up(log: Path) -> None:
    """Wait until the program of a log has ended, and given up on what it left."""
    wait_for_entry(log, "effect.cancelled")


@tool(effect="reads")
def sees_late(log: str) -> None:
    """Wait until something came late; beside a timer, or it would run where that is recorded."""
    wait_for_entry(Path(log), "effect.late")


_BEGUN = threading.Event()


@tool(effect="reads")
def sees_begun() -> None:
    """Wait until `drains` has begun; given up before, it never would."""
    _BEGUN.wait(60)


@tool(effect="changes")
def drains(log: str) -> None:
    """Take a little longer than the program."""
    _BEGUN.set()
    wait_until_given_up(Path(log))
    say("ready")
    time.sleep(0.5)


async def has_ended(run: Run, log: str) -> str:
    """Return while a tool is under way that changes the world."""
    asyncio.create_task(run.tool(drains, log=log))  # noqa: RUF006 - left behind, on purpose
    await asyncio.sleep(0)
    await run.tool(sees_begun)
    return "ended"


def plainly(run: PlainRun, _input: Any) -> None:
    """Wait for a tool in a plain program."""
    run.tool(blocks)


def plainly_sleeps(run: PlainRun, _input: Any) -> None:
    """Wait for a timer in a plain program."""
    say("ready")
    run.sleep(60)


def never_yields(_run: PlainRun, _input: Any) -> None:
    """Be busy for good; say so once Ctrl-C has been taken note of."""
    say("ready")
    began = time.monotonic()
    while time.monotonic() < began + 0.5:
        pass
    say("still here")
    while True:
        pass


if __name__ == "__main__":
    if sys.argv[3:]:
        leave_signals_elsewhere()
    record(globals()[sys.argv[1]], sys.argv[2], log=sys.argv[2], durability="fast")
