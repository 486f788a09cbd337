"""A call that a program never awaits is told with its place, and stands in no log (§9.10)."""

import asyncio
import functools
import gc
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.kernel.unawaited import Unawaited

TOLD = pytest.mark.filterwarnings("ignore:run.* was never awaited:RuntimeWarning")


@refold.tool(effect="reads")
def fetch(n: int) -> int:
    """Return what was asked for."""
    return n


def line_of(program: Callable[..., Any], text: str) -> int:
    """Return the line of a program that holds a text."""
    lines, first = inspect.getsourcelines(program)
    return first + next(at for at, line in enumerate(lines) if text in line)


async def forgets(run: refold.Run, _: Any) -> Any:
    """Forget to await three calls, and await one."""
    run.tool("fetch", n=1)  # type: ignore[unused-coroutine]  # the slip
    run.tool(fetch, n=3)  # type: ignore[unused-coroutine]  # the slip
    kept = run.ask("Really?")
    return [await run.tool(fetch, n=2), inspect.iscoroutine(kept)]


@TOLD
def test_what_was_never_awaited_is_told_with_its_place(tmp_path: Path) -> None:
    """In the order of the calls; nothing of it stands in the log."""
    recording = refold.record(forgets, log=tmp_path / "a.jsonl", tools=[fetch], check=False)

    asked, again = line_of(forgets, "n=1"), line_of(forgets, "n=3")
    question = line_of(forgets, "Really")
    assert recording.output == [2, True]
    assert recording.warnings == (
        f"{__file__}:{asked}: run.tool('fetch') was never awaited, so the call was not made",
        f"{__file__}:{again}: run.tool('fetch') was never awaited, so the call was not made",
        f"{__file__}:{question}: run.ask() was never awaited, so the call was not made",
    )
    assert recording.entries == 4


def test_python_warns_at_the_same_place(tmp_path: Path) -> None:
    """Once, for who does not look at the recording; and a replay says nothing again."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        recording = refold.record(forgets, log=tmp_path / "a.jsonl", tools=[fetch], check=False)
        told = [(str(each.message)[:20], each.filename, each.lineno) for each in seen]
        report = refold.reexecute(recording, forgets)

    assert told == [
        ("run.tool('fetch') wa", __file__, line_of(forgets, "n=1")),
        ("run.tool('fetch') wa", __file__, line_of(forgets, "n=3")),
        ("run.ask() was never ", __file__, line_of(forgets, "Really")),
    ]
    assert len(seen) == len(told)
    assert report.identical


@TOLD
def test_the_check_adds_to_it(tmp_path: Path) -> None:
    """§12.12: what it finds stands behind, such as that no other process has this program."""
    program = functools.partial(forgets)
    recording = refold.record(program, log=tmp_path / "a.jsonl", tools=[fetch], check=True)

    *told, added = recording.warnings
    assert ["was never awaited" in each for each in told] == [True] * 3
    assert "not run again in a different process" in added


async def cancels(run: refold.Run, _: Any) -> int:
    """Cancel a task before its call has begun."""
    task = asyncio.ensure_future(run.tool(fetch, n=1))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return await run.tool(fetch, n=2)


async def many(run: refold.Run, _: Any) -> int:
    """Have more calls at once than are kept unseen, and as many after each other."""
    at_once = await asyncio.gather(*(run.tool(fetch, n=n) for n in range(600)))
    one_by_one = [await run.tool(fetch, n=n) for n in range(600)]
    return int(sum(at_once) + sum(one_by_one))


@pytest.mark.parametrize("program", [cancels, many])
def test_what_was_begun_or_cancelled_is_no_slip(
    tmp_path: Path, program: Callable[..., Any]
) -> None:
    """However many there are, and whatever became of them."""
    recording = refold.record(program, log=tmp_path / "a.jsonl", tools=[fetch])

    assert recording.ok
    assert recording.warnings == ()


def test_what_has_begun_is_let_go_of() -> None:
    """A long run keeps its last call, and of those that wait no more than its last ones."""
    kept = Unawaited()

    async def call(pauses: int) -> None:
        if not pauses:
            kept.begin()
        for _ in range(pauses):
            await asyncio.sleep(0)

    for _ in range(10_000):
        coroutine = call(0)
        kept.add(coroutine)
        with pytest.raises(StopIteration):
            coroutine.send(None)
    assert kept._made == []

    waiting = [call(1) for _ in range(1_000)]
    for coroutine in waiting:
        coroutine.send(None)
        kept.add(coroutine)
    assert len(kept._made) <= 257
    assert kept.collect() == ()


def test_one_that_has_not_begun_stays_when_another_begins() -> None:
    """The last one that was made need not be the one that begins."""
    kept = Unawaited()

    async def call() -> None:
        kept.begin()

    first, last = call(), call()
    kept.add(first)
    kept.add(last)
    with pytest.raises(StopIteration):
        first.send(None)

    assert [made[0] for made in kept._made] == [first, last]
    assert [slip.line > 0 for slip in kept.collect()] == [True]


def test_where_nobody_is_told_nothing_is() -> None:
    """Neither by Refold nor by Python, which would warn of a coroutine that is not closed."""
    kept = Unawaited(is_told=False)

    async def call() -> None:
        pass

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.add(call())
        assert kept.collect() == ()
        gc.collect()


async def parent(run: refold.Run, _: Any) -> Any:
    """Have a child that forgets."""
    return (await run.delegate(refold.Delegation(program=forgets))).status


def test_of_a_child_python_is_told(tmp_path: Path) -> None:
    """At the places of its calls; its own recording is nobody's."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        recording = refold.record(parent, log=tmp_path / "a.jsonl", tools=[fetch], check=False)
        told = [(each.category, each.filename, each.lineno) for each in seen]

    assert (recording.output, recording.warnings) == ("completed", ())
    assert told == [
        (RuntimeWarning, __file__, line_of(forgets, text)) for text in ("n=1", "n=3", "Really")
    ]


def test_a_child_does_not_fail_for_it(tmp_path: Path) -> None:
    """Where warnings are errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        recording = refold.record(parent, log=tmp_path / "a.jsonl", tools=[fetch], check=False)

    assert (recording.output, recording.warnings) == ("completed", ())


def test_the_methods_are_what_they_were() -> None:
    """Named and documented, and making coroutines."""
    assert refold.Run.tool.__name__ == "tool"
    assert "ToolError" in (refold.Run.tool.__doc__ or "")


async def names_its_call(run: refold.Run, _: Any) -> Any:
    """Return the names of a coroutine, as a program or a traceback shows them."""
    call: Any = run.tool(fetch, n=1)
    names = [call.__name__, call.__qualname__]
    await call
    return names


def test_a_call_has_the_name_of_the_method(tmp_path: Path) -> None:
    """Old logs of a program that looks at it replay."""
    recording = refold.record(names_its_call, log=tmp_path / "a.jsonl", tools=[fetch])

    assert recording.output == ["tool", "Run.tool"]
