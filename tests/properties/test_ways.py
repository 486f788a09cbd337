"""The fast path changes nothing: a program does the same with it, without it, and on asyncio.

What a call does that is made at once, because nothing else is live, is what one does that waits
(CONTRACT.md §9.2, §9.11).  Random programs (`tests/support/ways.py`) in virtual time.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import ToolError
from refold.engine.log.reader import read_entries
from refold.engine.loop.loop import CALLBACKS_MAX
from refold.engine.program.run import Run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.audit.refolding import refold_log
from refold.replay.audit.verify import verify
from refold.tools.contract.tool_types import tool
from tests.support import ways
from tests.support.loops import some
from tests.support.ways import (
    fails,
    plain_program_of,
    program_of,
    random_tree,
    same_program_of,
    twice,
)

LONG: Final = 1_000
CHUNK: Final = 5

SEEDS: Final = some(1, range(0, LONG, CHUNK))


@attrs.frozen
class Ran:
    """A recording, and what happened in it."""

    recording: Recording
    trace: tuple[str, ...]

    def lines(self) -> list[Any]:
        """Return the log without what no two runs have in common."""
        return [
            (entry.kind, entry.call, entry.cause, _common(entry.kind, entry.data))
            for entry in read_entries(self.recording.log)
        ]


_UNLIKE: Final = {
    "run.started": {"nonce", "fingerprint"},
    "run.finished": {"children_root", "state_digest"},
}


def _common(kind: str, data: Any) -> Any:
    if kind == "child.finished":  # the head of its log, and how long it took
        data = {**data, "outcome": {**data["outcome"], "child": None}}
    return {name: value for name, value in data.items() if name not in _UNLIKE.get(kind, ())}


def ran(folder: Path, program: Any, trace: list[str], *, fast: bool) -> Ran:
    """Record a program one way, and re-execute its log both ways."""
    log = folder / f"{'fast' if fast else 'general'}.jsonl"
    recording = ways.recorded(program, log, fast=fast)
    found = Ran(recording, tuple(trace))
    assert verify(log).intact
    assert refold_log(log).agrees
    for again in (True, False):
        report = ways.replayed(program, log, fast=again)
        assert report.identical, f"recorded fast: {fast}, replayed fast: {again}\n{report}"
        assert tuple(trace) == found.trace
    return found


def both(folder: Path, program: Any, trace: list[str]) -> Ran:
    """Record a program both ways, and return what is the same of both."""
    folder.mkdir()
    fast, general = (ran(folder, program, trace, fast=way) for way in (True, False))
    assert fast.trace == general.trace
    assert fast.lines() == general.lines()
    return fast


@pytest.mark.parametrize("first", SEEDS)
def test_a_program_does_the_same_three_ways(tmp_path: Path, first: int) -> None:
    """On the fast path, the general way and asyncio's loop: in the same order, to the same end."""
    for seed in range(first, first + CHUNK):
        tree, trace = random_tree(seed), list[str]()

        found = both(tmp_path / str(seed), program_of(tree, trace), trace)

        ended, output, seen = ways.on_asyncio(tree)
        assert list(found.trace[: len(seen)]) == seen, (seed, tree)
        assert _ended(found.recording) == (ended, output), (seed, tree)


@pytest.mark.parametrize("first", SEEDS)
def test_what_asyncio_does_not_have_is_the_same_two_ways(tmp_path: Path, first: int) -> None:
    """Children, draws, dropped generators, busy waiting, `sys.exit` in a task; plain programs.

    A plain program does what the same one does that is asynchronous.
    """
    for seed in range(first, first + CHUNK):
        trace: list[str] = []
        both(tmp_path / str(seed), program_of(random_tree(seed, ours=True), trace), trace)
        plain = both(tmp_path / f"plain-{seed}", plain_program_of(seed, trace), trace)
        same = both(tmp_path / f"same-{seed}", same_program_of(seed, trace), trace)
        assert same.trace == plain.trace
        assert same.lines()[1:-1] == plain.lines()[1:-1]


# --- by hand -----------------------------------------------------------------------------------


def _cancel_self() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return task


async def cancels_itself(run: Run, _: Any) -> str:
    """A cancellation that is pending ends the first call, also of a tool that would fail."""
    for each in (twice, fails):
        task = _cancel_self()
        try:
            await run.tool(each, ms=1)
        except asyncio.CancelledError:
            task.uncancel()
            continue
        return "went on"
    return f"stopped, {await run.tool(twice, ms=2)}"


async def cancels_all(run: Run, _: Any) -> str:
    """The usual way to end: the caller's own task is among them."""
    for task in asyncio.all_tasks():
        task.cancel()
    try:
        await run.tool(twice, ms=1)
    except asyncio.CancelledError:
        return "stopped"
    return "went on"


async def cancels_in_a_group(run: Run, _: Any) -> list[Any]:
    """A task of a group that has cancelled itself calls nothing."""
    done: list[Any] = []

    async def work() -> None:
        _cancel_self()
        done.append(await run.tool(twice, ms=1))

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
    return done


async def timers_hash(run: Run, _: Any) -> list[int]:
    """A call takes no number away from timers, which hash to theirs."""
    await run.tool(twice, ms=1)
    timers = [asyncio.get_running_loop().call_later(1, print) for _ in range(2)]
    for timer in timers:
        timer.cancel()
    return [hash(timer) for timer in timers]


@tool(effect="pure")
def dig(ms: int) -> int:
    """Use most of the stack."""

    def down(left: int) -> int:
        return down(left - 1) if left else ms

    return down(sys.getrecursionlimit() - 300)


async def deep(run: Run, depth: int | None) -> int:
    """A tool has the stack to itself, however deep the program is that waits for it."""
    if depth == 0:
        return await run.tool(dig, ms=1)
    return await deep(run, 300 if depth is None else depth - 1)


async def ends(run: Run, _: Any) -> None:
    """What is begun in a clean-up after the end is cancelled where it first waits."""

    async def last() -> None:
        try:
            run.annotate(f"last words {await run.tool(twice, ms=2)}")
        except asyncio.CancelledError:
            run.annotate("no last words")
            raise

    async def leaves() -> None:
        sys.exit(3)

    task = asyncio.create_task(leaves())
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        await asyncio.create_task(last())


async def interrupts(run: Run, _: Any) -> None:
    """A task that calls and then raises KeyboardInterrupt ends the run, after its clean-up."""

    async def raises() -> None:
        await run.tool(twice, ms=1)
        raise KeyboardInterrupt

    task = asyncio.create_task(raises())
    try:
        await asyncio.wait([task])
    finally:
        run.annotate("cleans up", await run.tool(twice, ms=2))


EXAMPLES: Final = [
    (cancels_itself, "stopped, 4"),
    (cancels_all, "stopped"),
    (cancels_in_a_group, []),
    (timers_hash, [1, 2]),
    (deep, 1),
    (ends, None),
    (interrupts, None),
]


def _name(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("program", "output"), EXAMPLES, ids=_name)
def test_a_call_that_is_alone_is_as_any_other(tmp_path: Path, program: Any, output: Any) -> None:
    """One by one, what a call at once could pass over."""
    assert both(tmp_path / "logs", program, []).recording.output == output


@pytest.mark.long
def test_a_step_ends_with_a_call_that_is_alone(tmp_path: Path) -> None:
    """It has all its callbacks again: a program that calls now and then does not spin (§9.4)."""

    async def program(run: Run, _: Any) -> str:
        for number in range(3):
            await run.tool(twice, ms=number)
            for _ in range(CALLBACKS_MAX // 2):
                await asyncio.sleep(0)
        return "done"

    assert both(tmp_path / "logs", program, []).recording.output == "done"


def _ended(recording: Recording) -> tuple[str, Any]:
    error = recording.error
    if error is None:
        return recording.status, recording.output
    return (
        f"raised {error.message.partition(':')[0]}" if error.code == "raised" else error.code,
        None,
    )


@tool(effect="pure")
def echo(value: Any) -> Any:
    """Return a value, or fail with it."""
    if value == "fail":
        raise ValueError("as asked")
    return value


async def echoes(run: Run, values: list[Any]) -> list[Any]:
    """Pass each value through a tool."""
    found: list[Any] = []
    for value in values:
        try:
            found.append(await run.tool(echo, value=value))
        except ToolError as error:
            found.append(error.message)
    return found


_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["fail", "$blob", "é", "\x7f"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("a$"), inner),
    max_leaves=6,
)


@given(st.lists(_VALUES, min_size=1, max_size=4), st.data())
def test_both_ways_report_the_same_bytes(values: list[Any], data: st.DataObject) -> None:
    """Of a program as recorded, and of one that passes a value more, less, or another."""
    at = data.draw(st.integers(0, len(values)))
    more = data.draw(st.lists(_VALUES, max_size=1))
    now = [*values[:at], *more, *values[at + data.draw(st.integers(0, 1)) :]]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "a.jsonl")
        record(echoes, values, log=log, tools=(echo,), durability="fast")

        async def program(run: Run, _: Any) -> list[Any]:
            return await echoes(run, now)

        fast, general = (ways.replayed(program, log, fast=fast) for fast in (True, False))

    assert fast.as_json() == general.as_json()
    assert str(fast) == str(general)
    assert fast.identical or repr(now) != repr(values)  # True == 1 here, not in a log
