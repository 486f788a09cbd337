"""What a re-execution says when it is not the program that changed, or when the program breaks."""

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import ProgramRefused
from refold.tools import DelegationTool
from tests.support.loops import for_each
from tests.support.timed_programs import spread


async def child(run: refold.Run, number: int) -> int:
    run.annotate("here")
    return number


async def parent(run: refold.Run, _: None) -> list[int]:
    return [
        (await run.delegate(refold.Delegation(program=child, input=number))).result()
        for number in (1, 2)
    ]


async def breaks(_run: refold.Run, _: None) -> None:
    raise ZeroDivisionError("on purpose")


async def takes_no_input(_run: refold.Run) -> None:
    """Is no program."""


def test_a_childs_log_that_is_gone_is_no_identical_replay(tmp_path: Path) -> None:
    """Its parent's log names its head: what it did cannot be compared (CONTRACT.md §12.2)."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log
    (tmp_path / "a.2.jsonl").unlink()

    (divergence,) = refold.reexecute(log, parent).divergences

    assert (divergence.category, divergence.where) == ("log_damaged", "parent > child[2]")
    assert "a.2.jsonl" in str(divergence)


def test_a_program_that_raises_now_is_shown_with_its_line(tmp_path: Path) -> None:
    """The end of the run, and the place in the program, stand in the divergence."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log

    (divergence,) = refold.reexecute(log, breaks).divergences

    assert divergence.file == __file__
    assert "failed: ZeroDivisionError: on purpose" in str(divergence)


def test_another_program_than_the_recorded_one_is_named_as_the_cause(tmp_path: Path) -> None:
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log

    (divergence,) = refold.reexecute(log, breaks).divergences

    assert divergence.fingerprints["program"] == ("parent", "breaks")
    assert "recorded from 'parent'" in divergence.cause


def test_a_recording_names_the_line_that_raised(tmp_path: Path) -> None:
    """Beside the log's own data, so that an edit elsewhere changes no digest."""
    recording = refold.record(breaks, None, log=tmp_path / "a.jsonl")

    file, _, line = recording.where.rpartition(":")
    assert file == __file__
    assert "raise ZeroDivisionError" in Path(file).read_text().splitlines()[int(line) - 1]


def test_a_program_without_an_input_is_refused_before_a_log_is_made(tmp_path: Path) -> None:
    with pytest.raises(ProgramRefused, match=r"takes_no_input\(run, input\)"):
        refold.record(takes_no_input, None, log=tmp_path / "a.jsonl")  # type: ignore[arg-type]

    assert not list(tmp_path.iterdir())


@for_each(
    "before, after, cause",
    [
        ("a" * 64, "b" * 64, "depends on something outside run"),
        ("a" * 32, "b" * 32, "uuid"),
        ({"q": 1}, {"query": 1}, "depends on something outside run"),
        (["a", "b"], ["b", "a"], "order of a set"),
    ],
)
def test_a_likely_cause_is_not_guessed_from_looks_alone(
    before: object, after: object, cause: str
) -> None:
    """A digest is no uuid, and a renamed member is no shuffled set."""
    from refold.replay.difference.pointer_diff import differences  # noqa: PLC0415 - the same
    from refold.replay.explain.causes import likely_cause  # noqa: PLC0415 - of this test alone

    assert cause in likely_cause("args_changed", differences(before, after), {})


def test_a_childs_log_that_its_parent_does_not_know_is_not_replayed(tmp_path: Path) -> None:
    """A log that was cut, or written anew, is another one than the parent's log names."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log
    path = tmp_path / "a.1.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    (divergence,) = refold.reexecute(log, parent).divergences

    assert (divergence.category, divergence.where) == ("log_damaged", "parent > child[1]")


@pytest.mark.long
def test_a_child_that_was_killed_before_its_first_line_is_passed_over(tmp_path: Path) -> None:
    """An empty file holds nothing, as no file does."""
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))
    (tmp_path / "a.2.jsonl").unlink()
    (tmp_path / "a.1.jsonl").write_bytes(b"")

    report = refold.reexecute(log, parent)

    assert report.identical
    assert report.not_compared == ("parent > child[1], which left no log",)


async def patient(run: refold.Run, seconds: float) -> str:
    """Wait for what never comes, for a while."""
    try:
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    except TimeoutError:
        await run.sleep(0.001)
    return "late"


async def waits(run: refold.Run, _: None) -> str:
    return await patient(run, 0.005)


async def waits_longer(run: refold.Run, _: None) -> str:
    return await patient(run, 60)


async def is_in_time(run: refold.Run, _: None, *, seconds: float = 60) -> str:
    async with asyncio.timeout(seconds):
        return str(await run.tool(found))


async def waits_in_a_child(run: refold.Run, _: None) -> object:
    return (await run.delegate(refold.Delegation(program=waits))).output


@refold.tool(effect="reads")
def found() -> str:
    """Find something."""
    return "found"


@pytest.mark.parametrize("program", [waits, waits_in_a_child])
def test_the_length_of_a_timer_that_fired_is_compared(tmp_path: Path, program: Any) -> None:
    """Nothing is left to be listed (§12.2)."""
    log = refold.record(program, None, log=tmp_path / "a.jsonl").log

    report = refold.reexecute(log, program)

    assert (report.identical, report.timers, report.not_compared) == (True, 0, ())


def test_a_limit_that_struck_and_is_longer_now_is_a_difference(tmp_path: Path) -> None:
    """Both lengths are named, and what may be behind it."""
    log = refold.record(waits, None, log=tmp_path / "a.jsonl").log

    (found,) = refold.reexecute(log, waits_longer).divergences

    assert (found.category, found.where) == ("args_changed", "waits > timer@1")
    assert [(one.pointer, one.before, one.after) for one in found.diff] == [
        ("/arguments/length_us", 5_000, 60_000_000)
    ]
    assert "timer(0.005 s)  0@1" in str(found)
    assert "timer(60 s)  0@1" in str(found)


def test_a_length_that_was_drawn_past_run_is_a_difference_that_says_so(tmp_path: Path) -> None:
    """Jitter: the program is the same, and its length another each time."""
    lengths = iter((0.002, 0.003))

    async def jitters(_run: refold.Run, _: None) -> None:
        await asyncio.sleep(next(lengths))

    log = refold.record(jitters, None, log=tmp_path / "a.jsonl").log

    (found,) = refold.reexecute(log, jitters).divergences

    assert found.category == "args_changed"
    assert "randomness or a clock outside run" in found.cause


STRUCK = "timer 0@1 of 7 s in a.jsonl, which would have fired"


@pytest.mark.parametrize(("seconds", "struck"), [(60, []), (7, [STRUCK])])
def test_a_limit_that_did_not_strike_is_listed(
    tmp_path: Path, seconds: float, struck: list[str]
) -> None:
    """Its length is not compared; that it would have struck, the times of the lines show."""
    log = refold.record(is_in_time, None, log=tmp_path / "a.jsonl", tools=[found]).log
    spread(log, 10_000_000)

    report = refold.reexecute(log, functools.partial(is_in_time, seconds=seconds), tools=[found])

    assert report.identical
    timer = "the length of 1 timer (cancelled before it fired, or recorded without a length)"
    assert report.not_compared == (timer, *struck)
    lines = [f"  not compared: {each}" for each in report.not_compared]
    assert str(report).splitlines()[1:] == lines
    assert report.as_json()["not_compared"] == list(report.not_compared)


def test_a_run_without_timers_has_nothing_that_is_not_compared(tmp_path: Path) -> None:
    log = refold.record(parent, None, log=tmp_path / "a.jsonl").log

    report = refold.reexecute(log, parent)

    assert report.not_compared == ()
    assert "not compared" not in str(report)


def _answer(value: str) -> DelegationTool:
    async def handler(run: refold.Run, _arguments: dict[str, object]) -> str:
        run.annotate("working")
        return value

    return DelegationTool(
        name="answer", description="Answers.", parameters={"type": "object"}, handler=handler
    )


async def asks(run: refold.Run, _: None) -> object:
    return await run.tool("answer")


@refold.tool(name="found", effect="reads")
def found_otherwise(place: str = "") -> str:
    """Find something in a place."""
    return f"found {place}"


async def finds(run: refold.Run, _: None) -> object:
    return await run.tool("found")


def test_a_report_says_which_tools_were_not_compared(tmp_path: Path) -> None:
    """Those that were not passed, and those that were and whose change no request shows."""
    log = refold.record(finds, None, log=tmp_path / "a.jsonl", tools=[found]).log

    unpassed = refold.reexecute(log, finds)
    passed = refold.reexecute(log, finds, tools=[found])
    changed = refold.reexecute(log, finds, tools=[found_otherwise])

    assert unpassed.identical
    assert unpassed.not_compared == ("the definitions of 1 tool (found): pass tools=… (--tools)",)
    assert passed.not_compared == ()
    assert changed.identical
    assert changed.not_compared == ("what the tool found does: its definition has changed",)


def test_a_delegation_tool_that_returns_something_else_is_a_changed_result(tmp_path: Path) -> None:
    """It is program code: its result is compared where it stands."""
    log = refold.record(asks, None, log=tmp_path / "a.jsonl", tools=[_answer("old")]).log

    (divergence,) = refold.reexecute(log, asks, tools=[_answer("new")]).divergences

    assert (divergence.category, divergence.call) == ("result_changed", "0#1")
    assert [str(one) for one in divergence.diff] == ['/result: "old" → "new"']
    said = {"kind": "tool.returned", "call": "0#1", "status": "ok"}
    assert (divergence.recorded, divergence.now) == (
        said | {"result": "old"},
        said | {"result": "new"},
    )


def test_an_unfinished_run_with_a_tool_of_this_process_is_replayed_here(tmp_path: Path) -> None:
    """Another process could not import the tool."""
    log = refold.record(asks, None, log=tmp_path / "a.jsonl", tools=[_answer("old")]).log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-2]))

    report = refold.reexecute(log, asks, tools=[_answer("old")])

    assert report.identical, report
    assert report.ends_early == ("a.jsonl",)
