"""`resume` goes on in the log of an unfinished run; what had ended is not done twice (§4.7)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import (
    AnswerRefused,
    AttemptsExhausted,
    ChildStopped,
    Diverged,
    InDoubt,
    LogDamaged,
    LogLocked,
    LogSealed,
    ToolAbsent,
    UsageError,
)
from refold.engine.events.outcome import Outcome
from refold.engine.log.names import child_path
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import ChildRequest, Question, Suspended
from refold.engine.ports.programs import load_program
from refold.engine.runners.in_process import InProcess
from refold.engine.runners.recorded import Recording
from refold.replay.resume.open_ends import open_ends
from refold.testing import FixedClock, ScriptedModel
from refold.tools import Tool
from tests.support import resumable
from tests.support import resumable_session as sessions
from tests.support.resumable import PROGRAMS, TOOLS, executed, pay, step, talker
from tests.support.unfinished import Keep, cut, executed_in, lines_of, rows_of

CLOCK = FixedClock()


@pytest.fixture(autouse=True)
def _empty_ledger() -> Iterator[None]:
    executed.clear()
    yield
    executed.clear()


def recorded(program: Any, argument: Any, log: Path, **options: Any) -> Recording:
    """Record under a fixed clock and seed, to be compared."""
    given: dict[str, Any] = {"tools": TOOLS, "clock": CLOCK, "seed": 1, "model": talker()} | options
    return refold.record(program, argument, log=log, **given)


def resumed(log: Path, program: Any, **options: Any) -> Recording:
    """Resume with all that `recorded` gave; whatever is in doubt is run again."""
    doubts = [doubt.key for doubt in open_ends(log).doubts]
    given: dict[str, Any] = {"tools": TOOLS, "clock": CLOCK, "model": talker(), "retry": doubts}
    given |= options
    return refold.resume(log, program, **given)


def check_whole(log: Path, program: Any) -> None:
    """The log is true, has its end, and the program does what it says."""
    report = refold.verify(log)
    assert (report.intact, report.complete) == (True, True), report.damage
    replayed = refold.reexecute(log, program, tools=TOOLS)
    assert replayed.identical, str(replayed)
    assert not replayed.ends_early


# --- at every entry ----------------------------------------------------------------------------

KEEPS = {
    "whole": lambda _log, lines: lines,
    "gone": lambda _log, _lines: 0,
    "begun": lambda _log, _lines: 1,
    "half": lambda _log, lines: lines // 2,
    "unsealed": lambda _log, lines: lines - 1,
}
LEFT = [(name, keep) for name in ("parents", "delegating") for keep in KEEPS if keep != "whole"]


def digests(run: Recording) -> tuple[str, str]:
    """Return what two runs have in common that did the same."""
    assert run.tree_digest
    return run.data_digest, run.tree_digest


CASES = [
    *((name, "whole", 1 + at % 5, 5) for at, name in enumerate(PROGRAMS)),
    *((name, keep, 1 + at % 10, 10) for at, (name, keep) in enumerate(LEFT)),
    *(pytest.param(name, keep, 1, 1, marks=pytest.mark.long) for name, keep in LEFT),
    *(pytest.param(name, "whole", 1, 1, marks=pytest.mark.long) for name in PROGRAMS),
]
"""Program, what is left of its children, first entry, step: in a short run they take turns."""


@pytest.mark.parametrize(("name", "keep", "first", "by"), CASES)
def test_a_run_resumed_at_any_entry_ends_as_if_it_had_never_broken_off(
    name: str, keep: str, first: int, by: int, tmp_path: Path
) -> None:
    """Case 55: same output and data digest, nothing that had ended is executed again."""
    program, argument = PROGRAMS[name]
    whole = recorded(program, argument, tmp_path / "whole.jsonl")
    assert whole.ok, whole.error
    all_done = {(tool, json.dumps(n)) for tool, n in executed}

    for entries in range(first, whole.entries, by):
        folder = tmp_path / str(entries)
        folder.mkdir()
        log = cut(whole.log, folder / "a.jsonl", entries, KEEPS[keep])
        before = {(tool, json.dumps(json.loads(args)["n"])) for tool, args in executed_in(log)}
        executed.clear()

        again = resumed(log, program)

        now = {(tool, json.dumps(n)) for tool, n in executed}
        assert (again.output, again.status) == (whole.output, "completed"), entries
        assert again.data_digest == whole.data_digest, entries
        assert again.tree_digest == whole.tree_digest != "", entries
        assert len(executed) == len(now), "something ran twice"
        assert not now & before, entries
        hanging = ("hangs", "3")  # cancelled, so not started again
        assert (now | before) - {hanging} == all_done - {hanging}, entries
        check_whole(log, program)


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("delegating", 13),
        *(pytest.param(name, 1, marks=pytest.mark.long) for name in PROGRAMS),
    ],
)
def test_a_record_that_ends_at_any_entry_is_replayed_to_there(
    name: str, by: int, tmp_path: Path
) -> None:
    """Case 22: prefix replay for every n (some, in a short run); stopping there matches."""
    program, argument = PROGRAMS[name]
    whole = recorded(program, argument, tmp_path / "whole.jsonl")

    for entries in range(1, whole.entries, by):
        folder = tmp_path / str(entries)
        folder.mkdir()
        report = refold.reexecute(cut(whole.log, folder / "a.jsonl", entries), program, tools=TOOLS)
        assert report.identical, str(report)
        assert report.ends_early


def test_what_was_resumed_is_resumed_again(tmp_path: Path) -> None:
    """Case 24: a log that resume made is replayed, cut and resumed like any other."""
    whole = recorded(resumable.sequential, 4, tmp_path / "whole.jsonl")
    (tmp_path / "once").mkdir()
    once = resumed(cut(whole.log, tmp_path / "once" / "a.jsonl", 4), resumable.sequential)

    for entries in range(4, once.entries):
        folder = tmp_path / str(entries)
        folder.mkdir()
        log = cut(once.log, folder / "a.jsonl", entries)
        again = resumed(log, resumable.sequential)
        assert digests(again) == digests(whole)
        check_whole(log, resumable.sequential)


def test_twenty_crashes_in_a_row_change_nothing(tmp_path: Path) -> None:
    """Case 56: a resume that breaks off is resumed; one more line each time."""
    whole = recorded(resumable.gathered, 3, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)

    for attempt in range(2, 22):
        again = resumed(log, resumable.gathered, max_attempts=99)
        rows = rows_of(log)
        first = next(at for at, row in enumerate(rows) if row["data"].get("attempt") == attempt)
        log.write_bytes(b"".join(lines_of(log)[: first + 1 + attempt % 2]))

    again = resumed(log, resumable.gathered, max_attempts=99)
    assert digests(again) == digests(whole)
    attempts = [row["data"]["attempt"] for row in rows_of(log) if row["kind"] == "run.resumed"]
    assert attempts == list(range(2, 23))
    check_whole(log, resumable.gathered)


# --- a torn tail -------------------------------------------------------------------------------


def test_a_torn_line_is_cut_kept_and_said(tmp_path: Path) -> None:
    """Case 57: at any byte of the last line; `run.resumed` says what was dropped."""
    whole = recorded(resumable.drawn, 3, tmp_path / "whole.jsonl")
    lines = lines_of(whole.log)

    for kept in range(1, len(lines[4]) - 1, 40):
        folder = tmp_path / str(kept)
        folder.mkdir()
        log = folder / "a.jsonl"
        log.write_bytes(b"".join(lines[:4]) + lines[4][:kept])
        again = resumed(log, resumable.drawn)
        said = next(row["data"] for row in rows_of(log) if row["kind"] == "run.resumed")
        assert said["cut"]["bytes"] == kept
        assert said["cut"]["offset"] == sum(map(len, lines[:4]))
        beside = [each for each in folder.iterdir() if each.read_bytes() == lines[4][:kept]]
        assert len(beside) == 1
        assert digests(again) == digests(whole)
        check_whole(log, resumable.drawn)


def test_what_was_drawn_stays_drawn(tmp_path: Path) -> None:
    """Case 52: ids, streams and times are those of the record, and go on from there."""
    whole = recorded(resumable.drawn, 3, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()

    again = resumed(cut(whole.log, tmp_path / "x" / "a.jsonl", 5), resumable.drawn)

    assert again.output == whole.output


# --- effects in doubt --------------------------------------------------------------------------


@pytest.fixture
def in_doubt(tmp_path: Path) -> Path:
    """The log of a run that broke off while it paid."""
    whole = recorded(resumable.sequential, 1, tmp_path / "whole.jsonl")
    at = next(at for at, row in enumerate(rows_of(whole.log)) if row["data"].get("tool") == "pay")
    (tmp_path / "x").mkdir()
    executed.clear()
    return cut(whole.log, tmp_path / "x" / "a.jsonl", at + 1)


def test_an_effect_that_may_have_changed_the_world_is_not_repeated_unasked(in_doubt: Path) -> None:
    """§4.7: it is listed, and nothing is done: no execution, no byte."""
    before = in_doubt.read_bytes()

    with pytest.raises(InDoubt) as caught:
        resumed(in_doubt, resumable.sequential, retry=())

    assert caught.value.keys == ("0#4",)
    assert "pay(n=7)" in str(caught.value)
    assert in_doubt.read_bytes() == before
    assert executed == []


@pytest.mark.parametrize(
    ("said", "decision", "output", "runs"),
    [
        ({"retry": ["0#4"]}, "retried", 7, 1),
        ({"retry": (), "results": {"0#4": 8}}, "result", 8, 0),
    ],
)
def test_people_say_what_became_of_it(
    said: dict[str, Any], decision: str, output: int, runs: int, in_doubt: Path
) -> None:
    """§4.7: it runs again, or what it gave is given; `run.resumed` says which."""
    again = resumed(in_doubt, resumable.sequential, **said)

    assert again.output == [0, "refused", output]
    assert executed.count(("pay", 7)) == runs
    resumption = next(row for row in rows_of(in_doubt) if row["kind"] == "run.resumed")
    assert resumption["data"]["in_doubt"] == [
        {"call": "0#4", "kind": "tool", "name": "pay", "decision": decision}
    ]
    check_whole(in_doubt, resumable.sequential)


def test_what_others_gave_has_to_be_what_the_tool_gives(in_doubt: Path) -> None:
    """§4.7: or the log would hold for ever what no program can take."""
    before = in_doubt.read_bytes()

    with pytest.raises(AnswerRefused, match="pay"):
        resumed(in_doubt, resumable.sequential, retry=(), results={"0#4": "seven"})

    assert in_doubt.read_bytes() == before


def test_or_that_it_failed(in_doubt: Path) -> None:
    """§4.7: the program sees an error with the code `in_doubt`."""
    again = resumed(in_doubt, resumable.sequential, retry=(), fail=["0#4"])

    assert again.error is not None
    assert (again.status, executed) == ("failed", [])
    assert "broke off" in again.error.message
    returned = [row["data"] for row in rows_of(in_doubt) if row["kind"] == "tool.returned"]
    assert returned[-1]["error"]["code"] == "in_doubt"
    check_whole(in_doubt, resumable.sequential)


async def pays(run: refold.Run, n: int) -> Any:
    """A child that pays."""
    return await run.tool(pay, n=n)


async def pays_below(run: refold.Run, n: int) -> Any:
    """Two that do, at once."""
    children = [await run.start(refold.Delegation(program=pays, input=n + each)) for each in (0, 1)]
    return [outcome.output for outcome in await run.join(*children)]


def test_doubts_of_children_are_named_from_the_root_down(tmp_path: Path) -> None:
    """§4.7: and are decided in the same call, each its own way."""
    whole = recorded(pays_below, 1, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3, lambda _log, _lines: 2)
    keys = [doubt.key for doubt in open_ends(log).doubts]
    executed.clear()

    with pytest.raises(InDoubt):
        resumed(log, pays_below, retry=keys[:1])
    again = resumed(log, pays_below, retry=keys[:1], results={keys[1]: 20})

    assert keys == ["0#1 > 0#1", "0#2 > 0#1"]
    assert (again.output, executed) == ([1, 20], [("pay", 1)])
    check_whole(log, pays_below)


def test_a_key_that_names_nothing_in_doubt_is_refused(in_doubt: Path) -> None:
    """§4.7: a typing error must not pass for a decision."""
    before = in_doubt.read_bytes()

    with pytest.raises(UsageError, match="0#9"):
        resumed(in_doubt, resumable.sequential, retry=["0#4", "0#9"])

    assert in_doubt.read_bytes() == before


# --- attempts, locks, refusals -----------------------------------------------------------------


def test_a_run_is_tried_ten_times_at_most(tmp_path: Path) -> None:
    """Case 64: then it is left to people; nothing is appended."""
    whole = recorded(resumable.plain, 3, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)

    for attempt in range(2, 11):
        resumed(log, resumable.plain)
        rows = rows_of(log)
        last = next(at for at, row in enumerate(rows) if row["data"].get("attempt") == attempt)
        log.write_bytes(b"".join(lines_of(log)[: last + 1]))
    before = log.read_bytes()

    with pytest.raises(AttemptsExhausted) as caught:
        resumed(log, resumable.plain)
    assert (caught.value.attempts, log.read_bytes()) == (11, before)
    assert resumed(log, resumable.plain, max_attempts=11).ok


_interrupted = threading.Event()


@refold.tool(effect="idempotent")
def interrupted(n: int) -> int:
    """Be interrupted as Ctrl-C would, once."""
    executed.append(("interrupted", n))
    if not _interrupted.is_set():
        _interrupted.set()
        signal.raise_signal(signal.SIGINT)
    return n


async def interruptible(run: refold.Run, n: int) -> Any:
    """Be interrupted in the middle."""
    await run.tool(step, n=n)
    return await run.tool(interrupted, n=n)


def test_ctrl_c_during_a_retry_seals_the_run_as_cancelled(tmp_path: Path) -> None:
    """Case 63: an interrupted attempt is counted, and says how it ended; nothing is lost."""
    _interrupted.set()
    whole = recorded(interruptible, 1, tmp_path / "whole.jsonl", tools=[step, interrupted])
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 4)
    _interrupted.clear()

    with pytest.raises(KeyboardInterrupt):
        resumed(log, interruptible, tools=[step, interrupted])

    rows = rows_of(log)
    assert [row["data"]["attempt"] for row in rows if row["kind"] == "run.resumed"] == [2]
    assert rows[-1]["data"]["status"] == "cancelled"
    check_report = refold.verify(log)
    assert (check_report.intact, check_report.complete) == (True, True)


def test_one_of_two_who_resume_at_once_is_refused(tmp_path: Path) -> None:
    """Case 62: a log has one writer; nothing is executed for the second."""
    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)
    executed.clear()

    first = LogWriter.resume(log)
    with pytest.raises(LogLocked) as caught:
        resumed(log, resumable.sequential)
    first.writer.close()

    assert caught.value.pid == os.getpid()
    assert executed == []
    assert resumed(log, resumable.sequential).ok


def test_whoever_comes_second_while_the_first_reads_is_refused(tmp_path: Path) -> None:
    """Case 62: the head is looked at again once the log is one's own."""
    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)
    entered: list[Recording] = []

    async def overtaken(run: refold.Run, n: int) -> Any:
        if not entered:  # re-executed: somebody else goes on with the log, to its end
            entered.append(other())
        return await resumable.sequential(run, n)

    def other() -> Recording:
        box: list[Recording] = []
        thread = threading.Thread(target=lambda: box.append(resumed(log, resumable.sequential)))
        thread.start()
        thread.join()
        return box[0]

    with pytest.raises((LogLocked, LogSealed)):
        resumed(log, overtaken)
    assert entered[0].ok
    check_whole(log, resumable.sequential)


def test_whoever_comes_second_after_having_read_all_is_refused(tmp_path: Path) -> None:
    """Case 62: it continues from the end that it has compared, and no later one."""
    entered: list[Recording] = []
    log = tmp_path / "x" / "a.jsonl"

    async def overtaken(run: refold.Run, n: int) -> Any:
        asked = asyncio.create_task(run.tool(step, n=n))
        await asyncio.sleep(0)
        if run.patched("x") and log.exists() and not entered:  # the record is at its end
            entered.append(whole)
            with ThreadPoolExecutor() as pool:
                entered[0] = pool.submit(resumed, log, overtaken).result()
        await asked
        return await run.ask("May I?")

    whole = recorded(overtaken, 2, tmp_path / "whole.jsonl")
    log.parent.mkdir()
    cut(whole.log, log, 3)

    with pytest.raises(LogLocked):
        resumed(log, overtaken)
    assert entered[0].status == "suspended"


def test_a_run_that_has_ended_is_not_resumed(tmp_path: Path) -> None:
    """Case 65: resumed twice, it ends once."""
    whole = recorded(resumable.sequential, 2, tmp_path / "a.jsonl")

    with pytest.raises(LogSealed):
        resumed(whole.log, resumable.sequential)


def test_a_child_is_resumed_with_its_root(tmp_path: Path) -> None:
    """§4.7: alone it would answer nobody."""
    whole = recorded(resumable.parents, 1, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 2, KEEPS["half"])

    with pytest.raises(UsageError, match="resume its root"):
        resumed(child_path(log, 1), resumable.leaf)


def test_damage_is_refused(tmp_path: Path) -> None:
    """§4.5: a resume repairs a torn tail and nothing else."""
    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 5)
    log.write_bytes(log.read_bytes().replace(b'"step"', b'"stop"', 1))

    with pytest.raises(LogDamaged):
        resumed(log, resumable.sequential)


def test_a_tool_that_the_run_was_offered_has_to_be_passed(tmp_path: Path) -> None:
    """§4.7: before anything is done, for it may be called."""
    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)

    with pytest.raises(ToolAbsent):
        resumed(log, resumable.sequential, tools=[step])
    with pytest.raises(ToolAbsent) as refused:
        resumed(log, resumable.sequential, tools=[])
    absent = {refused.value.tool, *refused.value.others}
    assert absent == {tool.name for tool in resumable.TOOLS}
    assert all(repr(name) in str(refused.value) for name in absent)
    assert len(lines_of(log)) == 3


def test_so_has_a_model(tmp_path: Path) -> None:
    """§4.7: a request without one would fail, and stand in the log for ever."""
    whole = recorded(resumable.asking_models, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)

    with pytest.raises(UsageError, match="model"):
        resumed(log, resumable.asking_models, model=None)
    assert len(lines_of(log)) == 3


async def spaced(run: refold.Run, _n: int) -> list[str]:
    """Arm two timers in one step, with work and a line between them."""
    loop, order = asyncio.get_running_loop(), list[str]()
    loop.call_later(0.04, order.append, "long")
    work_until = time.monotonic() + 0.03
    while time.monotonic() < work_until:
        pass
    run.annotate("between")
    loop.call_later(0.02, order.append, "short")
    await run.sleep(0.05)
    return order


def test_the_timers_of_a_step_count_from_one_instant_in_a_later_attempt_too(tmp_path: Path) -> None:
    """From the line that began the step, and not from the line before each (§9.3)."""
    whole = refold.record(spaced, 0, log=tmp_path / "whole.jsonl", tools=TOOLS)
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 2)

    again = refold.resume(log, spaced, tools=TOOLS)

    assert again.output == whole.output == ["short", "long"]
    check_whole(log, spaced)


# --- a program that changed --------------------------------------------------------------------


async def longer(run: refold.Run, n: int) -> Any:
    """Do more, later."""
    done = await resumable.gathered(run, n)
    return [*done, await run.tool(step, n=5000)]


@pytest.mark.parametrize("number", [99, 0])
def test_a_program_that_does_not_what_is_recorded_is_refused_and_the_log_left_alone(
    tmp_path: Path, number: int
) -> None:
    """Case 66: another call, or none where one is; nothing is written or executed."""

    async def otherwise(run: refold.Run, _n: int) -> Any:
        return await run.tool(step, n=number)

    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 5)
    before = log.read_bytes()
    executed.clear()

    with pytest.raises(Diverged) as caught:
        resumed(log, otherwise)

    assert "step" in str(caught.value)
    assert (log.read_bytes(), executed) == (before, [])
    assert resumed(log, resumable.sequential).ok


def test_a_change_after_the_tail_is_fine(tmp_path: Path) -> None:
    """§4.7: only what is recorded is compared."""
    whole = recorded(resumable.gathered, 1, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 4)

    again = resumed(log, longer)

    assert again.output == [*whole.output, 10000]
    check_whole(log, longer)


async def moody(run: refold.Run, given: dict[str, Any]) -> Any:
    """A child that does something else once a file is there, behind the back of its run."""
    first = 9 if Path(given["flag"]).exists() else 1  # noqa: ASYNC240 - that is the point
    return [await run.tool(step, n=first), await run.tool(step, n=2)]


async def one_child(run: refold.Run, given: dict[str, Any]) -> Any:
    """Start it."""
    delegation = refold.Delegation(program=moody, input=given, runner=given["runner"])
    return (await run.delegate(delegation)).output


@pytest.mark.parametrize(
    "runner", ["in-process", pytest.param("subprocess", marks=pytest.mark.long)]
)
def test_a_child_that_changed_stops_its_parent(runner: str, tmp_path: Path) -> None:
    """§4.7: it is no outcome; put right, the run goes on."""
    flag = tmp_path / "flag"
    given = {"flag": str(flag), "runner": runner}
    whole = recorded(one_child, given, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 2, KEEPS["half"])
    child = child_path(log, 1).read_bytes()

    flag.touch()
    with pytest.raises(ChildStopped) as caught:
        resumed(log, one_child)
    assert caught.value.code == "Diverged"
    assert child_path(log, 1).read_bytes() == child

    flag.unlink()
    again = resumed(log, one_child)
    assert (again.output, again.tree_digest) == (whole.output, whole.tree_digest)


GATE, AT_THE_GATE = threading.Event(), threading.Event()


async def pass_gate() -> bool:
    """Wait until the gate is open; it can be given up."""
    AT_THE_GATE.set()
    return await asyncio.to_thread(GATE.wait, 60)


async def patient(run: refold.Run, _input: Any) -> Any:
    """A child that is under way as long as the gate is shut."""
    await run.tool(step, n=3)
    return await run.tool("pass_gate")


async def two_children(run: refold.Run, given: dict[str, Any]) -> Any:
    """Start both."""
    children = [
        await run.start(refold.Delegation(program=program, input=given, runner="late"))
        for program in (patient, moody)
    ]
    return [outcome.result() for outcome in await run.join(*children)]


class Late(InProcess):
    """A runner that finds that the second child cannot go on, once the first is at the gate."""

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Run the first child; stop at the second."""
        if request.program is moody:
            assert AT_THE_GATE.wait(60)
            raise ChildStopped(str(request.log), "LogLocked", "somebody writes it")
        return super().run(request)


@pytest.mark.parametrize(("effect", "doubts"), [("reads", []), ("changes", ["0#1 > 0#2"])])
def test_a_child_that_cannot_go_on_leaves_those_beside_it_to_be_resumed(
    tmp_path: Path, effect: Any, doubts: list[str]
) -> None:
    """§9.5: they were sealed as cancelled, which nobody had asked for, and could not go on.

    What one of them was changing is in doubt: nobody saw what became of it.
    """
    GATE.set()
    gate = refold.tool(effect=effect)(pass_gate)
    options: dict[str, Any] = {"tools": [*TOOLS, gate], "runners": {"late": InProcess()}}
    given = {"flag": str(tmp_path / "flag")}
    whole = recorded(two_children, given, tmp_path / "whole.jsonl", **options)
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3, KEEPS["half"])

    GATE.clear()
    AT_THE_GATE.clear()
    with pytest.raises(ChildStopped):
        resumed(log, two_children, **options | {"runners": {"late": Late()}})
    GATE.set()
    assert [doubt.key for doubt in open_ends(log).doubts] == doubts
    again = resumed(log, two_children, **options)

    assert again.result() == whole.output
    check_whole(log, two_children)


def test_a_child_that_cannot_go_on_can_be_counted_as_failed(tmp_path: Path) -> None:
    """§4.7: `fail` takes the key of a child, too; its log stays as it is."""
    given = {"flag": str(tmp_path / "flag"), "runner": ""}
    whole = recorded(one_child, given, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 2, KEEPS["half"])
    child = child_path(log, 1).read_bytes()

    again = resumed(log, one_child, fail=["0#1"])

    assert (again.output, again.status) == (None, "completed")
    assert child_path(log, 1).read_bytes() == child
    assert refold.verify(log).complete


def test_a_child_that_had_ended_is_not_run_again(tmp_path: Path) -> None:
    """Case 97: its outcome is what its own log says."""
    whole = recorded(resumable.parents, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 3)
    ended = [child_path(log, number).read_bytes() for number in (1, 2)]
    executed.clear()

    again = resumed(log, resumable.parents)

    assert digests(again) == digests(whole)
    assert [child_path(log, number).read_bytes() for number in (1, 2)] == ended
    assert not {("step", 100), ("step", 200), ("step", 101), ("step", 201)} & set(executed)


class Orphaned(InProcess):
    """A runner that finds, once, what a process of the attempt before made in the meantime."""

    def __init__(self, left: bytes) -> None:
        self.left = left

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Run it, after the log has appeared."""
        if self.left and request.log is not None:
            request.log.write_bytes(self.left)
            self.left = b""
        return super().run(request)


def test_a_log_that_an_orphan_still_made_is_taken_up(tmp_path: Path) -> None:
    """§4.7: a child that had just been started may write until it notices that nobody is there."""
    given = {"flag": str(tmp_path / "flag"), "runner": "orphaned"}
    whole = recorded(one_child, given, tmp_path / "whole.jsonl", runners={"orphaned": InProcess()})
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 2, KEEPS["gone"])
    left = b"".join(lines_of(child_path(whole.log, 1))[:3])
    executed.clear()

    again = resumed(log, one_child, runners={"orphaned": Orphaned(left)})

    assert (again.output, again.tree_digest) == (whole.output, whole.tree_digest)
    assert executed == [("step", 2)]
    check_whole(log, one_child)


# --- time --------------------------------------------------------------------------------------


async def late(run: refold.Run, seconds: float) -> Any:
    """Wait twice at once, the one longer than the other; then see which timer is due first."""
    waits = asyncio.create_task(run.sleep(2 * seconds))
    await run.sleep(seconds)
    await run.tool(step, n=2)
    other = asyncio.create_task(run.sleep(1.5 * seconds))
    done, _ = await asyncio.wait([waits, other], return_when=asyncio.FIRST_COMPLETED)
    await run.tool(step, n=3)
    return [waits in done, other in done]


@pytest.mark.long
def test_a_timer_goes_on_with_what_was_left(tmp_path: Path) -> None:
    """§4.7: the time between two attempts does not count, the time before them does."""
    whole = refold.record(late, 0.5, log=tmp_path / "whole.jsonl", tools=TOOLS)
    lines = lines_of(whole.log)
    fired = next(at for at, line in enumerate(lines) if b'"timer.fired"' in line)
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", fired + 1)

    resumed = refold.resume(log, late, tools=TOOLS)

    rows = rows_of(log)
    (again,) = [row["meta"]["mono_us"] for row in rows if row["kind"] == "run.resumed"]
    last = [row for row in rows if row["kind"] == "timer.fired"][-1]
    assert whole.output == resumed.output == [True, False]  # half was left: the other had 0.75 s
    assert last["meta"]["mono_us"] - again > 400_000
    assert last["data"]["virtual_us"] >= 1_000_000
    check_whole(log, late)


@refold.tool(effect="reads")
async def works(seconds: float) -> None:
    """Take some time."""
    await asyncio.sleep(seconds)


async def until(run: refold.Run, seconds: float) -> Any:
    """Work, then wait for a moment that was set before."""
    moment = asyncio.get_running_loop().time() + seconds
    await run.tool(works, seconds=seconds / 2)
    try:
        async with asyncio.timeout_at(moment):
            await run.sleep(seconds * 0.75)
    except TimeoutError:
        return await run.tool(step, n=3)


def test_a_moment_that_was_set_is_kept(tmp_path: Path) -> None:
    """§4.7: by the run's own time, in which the time between two attempts does not count."""
    tools: list[Tool] = [*TOOLS, works]
    whole = refold.record(until, 0.8, log=tmp_path / "whole.jsonl", tools=tools)
    lines = lines_of(whole.log)
    done = next(at for at, line in enumerate(lines) if b'"tool.returned"' in line)
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", done + 1)

    resumed = refold.resume(log, until, tools=tools)

    (last,) = [row["data"]["virtual_us"] for row in rows_of(log) if row["kind"] == "timer.fired"]
    assert last >= 800_000
    assert whole.output == resumed.output == 6  # as a delay it would be later than the sleep
    assert refold.reexecute(log, until, tools=tools).identical


async def sleeps_twice(run: refold.Run, seconds: float) -> Any:
    """Wait, work, and wait again."""
    await run.sleep(seconds)
    await run.tool(step, n=1)
    await run.sleep(seconds)
    return "awake"


@pytest.mark.long
def test_a_wall_limit_counts_active_time(tmp_path: Path) -> None:
    """§4.7: what was used up before the record ends is used up; an attempt brings no new time."""
    limits = refold.Limits(timeout_seconds=0.7)
    whole = refold.record(
        sleeps_twice, 0.5, log=tmp_path / "whole.jsonl", tools=TOOLS, limits=limits
    )
    at = next(at for at, row in enumerate(rows_of(whole.log)) if row["kind"] == "timer.fired")
    (tmp_path / "x").mkdir()

    again = refold.resume(
        cut(whole.log, tmp_path / "x" / "a.jsonl", at + 1), sleeps_twice, tools=TOOLS
    )

    assert (whole.status, again.status) == ("timed_out", "timed_out")


# --- people ------------------------------------------------------------------------------------

ANSWERS = {"0/1#1": 5, "0/2#1": "b"}


def test_a_run_that_asks_is_suspended_and_goes_on_with_answers(tmp_path: Path) -> None:
    """Case 81: two questions at once are told apart by their keys, in whatever order answered."""
    asked = recorded(resumable.asking, 1, tmp_path / "a.jsonl")
    keys = [question.key for question in asked.questions]

    once = resumed(asked.log, resumable.asking, answers={"0/2#1": "b"}, by="ada")
    twice = resumed(asked.log, resumable.asking, answers={"0/1#1": 5})
    last = resumed(asked.log, resumable.asking, answers={"0#2": "c"})

    assert (asked.status, keys) == ("suspended", ["0/1#1", "0/2#1"])
    assert [question.key for question in once.questions] == ["0/1#1"]
    assert [question.key for question in twice.questions] == ["0#2"]
    assert last.output == [5, "b", 6, 2010, "c"]
    given = [row["data"] for row in rows_of(asked.log) if row["kind"] == "input.given"]
    assert [each["by"] for each in given] == ["ada", "", ""]
    assert executed.count(("step", 1)) == 1
    check_whole(asked.log, resumable.asking)


def test_who_resumes_may_be_asked(tmp_path: Path) -> None:
    """Each question once, with its key, by a function: as in the run that was recorded."""
    asked, told = recorded(resumable.asking, 1, tmp_path / "a.jsonl"), []

    def answer(question: Question) -> Any:
        told.append(question.key)
        return 5 if question.schema else "b"

    last = resumed(asked.log, resumable.asking, ask=answer)

    assert last.output == [5, "b", 6, 2010, "b"]
    assert sorted(told) == ["0#2", "0/1#1", "0/2#1"]
    check_whole(asked.log, resumable.asking)


def test_resuming_without_an_answer_changes_nothing(tmp_path: Path) -> None:
    """Case 73: a pending question is the same however often it is looked at."""
    asked = recorded(resumable.asking, 1, tmp_path / "a.jsonl")
    before = asked.log.read_bytes()

    for _ in range(3):
        again = resumed(asked.log, resumable.asking)
        assert (again.status, again.questions) == ("suspended", asked.questions)
        assert (again.head, again.entries) == (asked.head, asked.entries)
        assert open_ends(asked.log).questions == asked.questions
    assert refold.reexecute(asked.log, resumable.asking).identical
    assert asked.log.read_bytes() == before


@pytest.mark.parametrize("program", [resumable.asking, resumable.asking_plain])
def test_wherever_it_breaks_off_it_asks_the_same_and_never_twice(
    program: Any, tmp_path: Path
) -> None:
    """Case 82: what was answered is not asked again after a crash."""
    answers = {"A?": 5, "B?": "b", "C?": "c"}
    asks: list[str] = []

    def ask(question: Question) -> Any:
        asks.append(question.question)
        return answers[question.question]

    whole = recorded(program, 1, tmp_path / "whole.jsonl", ask=ask)
    assert whole.ok
    everything = sorted(asks)

    for entries in range(1, whole.entries):
        folder = tmp_path / str(entries)
        folder.mkdir()
        log = cut(whole.log, folder / "a.jsonl", entries)
        rows = rows_of(log)
        questions = {r["call"]: r["data"]["question"] for r in rows if r["kind"] == "input.asked"}
        given = [questions[row["call"]] for row in rows if row["kind"] == "input.given"]
        asks.clear()
        again = resumed(log, program, ask=ask)
        assert (again.output, again.tree_digest) == (whole.output, whole.tree_digest)
        assert sorted(asks + given) == everything
        check_whole(log, program)


def test_a_run_goes_on_with_its_work_while_it_waits(tmp_path: Path) -> None:
    """§9.9: it is suspended where people alone can make it go on, and not before."""
    whole = recorded(resumable.asking, 1, tmp_path / "whole.jsonl", ask=lambda _q: 5)
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 4)
    executed.clear()

    again = resumed(log, resumable.asking)

    assert again.status == "suspended"
    assert executed == [("step", 1), ("step", 2)]


def test_an_answer_has_to_fit(tmp_path: Path) -> None:
    """§9.9: its question, and its schema; nothing is written otherwise."""
    asked = recorded(resumable.asking, 1, tmp_path / "a.jsonl")
    before = asked.log.read_bytes()

    with pytest.raises(AnswerRefused, match="0#7"):
        resumed(asked.log, resumable.asking, answers={"0#7": 1})
    with pytest.raises(AnswerRefused, match="integer"):
        resumed(asked.log, resumable.asking, answers={"0/1#1": "five"})
    assert asked.log.read_bytes() == before


@pytest.mark.parametrize(
    "runner", ["in-process", pytest.param("subprocess", marks=pytest.mark.long)]
)
def test_a_child_that_asks_suspends_its_parents(runner: str, tmp_path: Path) -> None:
    """§9.9: at any depth; the key leads down from the root, and others work meanwhile."""
    asked = recorded(resumable.asking_below, 1, tmp_path / "a.jsonl", runner=runner)
    keys = [question.key for question in asked.questions]

    once = resumed(asked.log, resumable.asking_below, answers={keys[1]: "deep"})
    last = resumed(asked.log, resumable.asking_below, answers={keys[0]: "flat"})

    assert keys == ["0#1 > 0#2", "0#2 > 0#1 > 0#2"]
    assert [question.key for question in once.questions] == keys[:1]
    assert last.output == [[1202, "flat", 1402], [1204, "deep", 1404], 604]
    assert bool(executed) is (runner == "in-process"), "they go on where they ran"
    check_whole(asked.log, resumable.asking_below)


async def gives_up(run: refold.Run, _n: int) -> Any:
    """Ask, but not for ever."""
    try:
        async with asyncio.timeout(0.05):
            return await run.ask("quick?")
    except TimeoutError:
        return await run.tool(step, n=1)


def test_a_timeout_around_a_question_wins(tmp_path: Path) -> None:
    """§9.9: a timer can still fire, so the run is not suspended."""
    whole = refold.record(gives_up, 0, log=tmp_path / "a.jsonl", tools=TOOLS)

    assert (whole.status, whole.output) == ("completed", 2)
    check_whole(whole.log, gives_up)


async def asks_both(run: refold.Run, _n: int) -> Any:
    """Ask a model, and then a person."""
    await run.model([{"role": "user", "content": "hello"}])
    return await run.ask("and you?")


async def cancels_asker(run: refold.Run, _n: int) -> Any:
    """Start a child that asks, and give it up."""
    child = await run.start(refold.Delegation(program=asks_both, input=1))
    await run.sleep(0.3)
    run.cancel(child)
    (outcome,) = await run.join(child)
    return [outcome.status, outcome.error and [outcome.error.code, outcome.error.message]]


def test_a_suspended_child_can_be_cancelled(tmp_path: Path) -> None:
    """§9.9: its outcome is `cancelled`, and its log stays unsealed, held by its parent's.

    The tokens that it used by then count.
    """
    usage = {"input_tokens": 7, "output_tokens": 2}
    model = ScriptedModel([{"text": "hi", "usage": usage}])
    whole = refold.record(cancels_asker, 0, log=tmp_path / "a.jsonl", model=model)

    why = ["cancelled", "cancelled while it waited for a person"]
    assert (whole.status, whole.output) == ("completed", ["cancelled", why])
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (7, 2)
    assert refold.verify(whole.log).complete
    assert refold.reexecute(whole.log, cancels_asker).identical


# --- sessions ----------------------------------------------------------------------------------


def test_a_session_goes_on_as_it_stood(tmp_path: Path) -> None:
    """§4.7: its reducers run again over the record; a fresh session is passed."""
    whole = recorded(
        sessions.noting, 3, tmp_path / "whole.jsonl", session=sessions.session(), tools=[step]
    )
    assert whole.ok, whole.error

    for entries in range(1, whole.entries):
        folder = tmp_path / str(entries)
        folder.mkdir()
        log = cut(whole.log, folder / "a.jsonl", entries)
        again = resumed(log, sessions.noting, session=sessions.session(), tools=[step])
        assert (again.output, again.tree_digest) == (whole.output, whole.tree_digest)
        report = refold.reexecute(log, sessions.noting, session=sessions.session())
        assert report.identical, str(report)


def _changes(rows: list[dict[str, Any]], *kinds: str, by: bool) -> int:
    found = [row["data"] for row in rows if row["kind"] in kinds]
    return sum(bool(data.get("by")) is by for data in found)


def _keeps(lines: int) -> Keep:
    return lambda _log, _lines: lines


def test_a_change_to_a_shared_session_is_made_once(tmp_path: Path) -> None:
    """§4.7: a child that is resumed says again what it did; its parent has made it already."""
    given: dict[str, Any] = {"tools": [step]}
    program = sessions.sharing
    whole = recorded(program, 1, tmp_path / "whole.jsonl", session=sessions.session(), **given)
    child = rows_of(child_path(whole.log, 1))
    seen = 0

    for entries in range(4, whole.entries):
        made = _changes(rows_of(whole.log)[:entries], "session.changed", by=True)
        for lines in range(1, len(child)):
            said = _changes(child[:lines], "session.changed", "tool.returned", by=False)
            if said not in (made, made + 1):
                continue  # a child writes its change, its parent makes it, and only then it goes on
            folder = tmp_path / f"{entries}-{lines}"
            folder.mkdir()
            log = cut(whole.log, folder / "a.jsonl", entries, _keeps(lines))
            again = resumed(log, program, session=sessions.session(), **given)
            assert again.output == whole.output, (entries, lines)
            assert digests(again) == digests(whole)
            report = refold.reexecute(log, program, session=sessions.session())
            assert report.identical, str(report)
            seen += 1
    assert seen > 5


_EDITED = """
import refold

async def worker(run, n):
    return await run.tool("step", n=n)

async def lead(run, count):
    tasks = [refold.Delegation(program=worker, input=n) for n in range(count)]
    return [(await run.delegate(task)).output for task in tasks]
"""


@pytest.mark.parametrize("edit", ["", "    run.annotate('edited')\n"])
def test_an_edit_in_a_child_that_had_ended_is_warned_of(edit: str, tmp_path: Path) -> None:
    """§4.7: its outcome is in the log; the edit runs in the children that come."""
    for name, inserted in (("old", ""), ("new", edit)):
        program = _EDITED.replace("    return await", f"{inserted}    return await")
        (tmp_path / f"{name}.py").write_text(program, encoding="utf-8")
    old, new = (load_program(f"{tmp_path / name}.py:lead") for name in ("old", "new"))
    whole = recorded(old, 2, tmp_path / "whole.jsonl", tools=[step])
    ends = (row["seq"] for row in rows_of(whole.log) if row["kind"] == "child.finished")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", next(ends) + 1)

    again = resumed(log, new, tools=[step])

    assert again.output == whole.output
    assert [text for text in again.warnings if "edited" in text] == list(again.warnings)
    assert [("subagent 1 " in text, str(log) in text) for text in again.warnings] == [
        (True, True)
    ] * bool(edit)
    assert refold.reexecute(log, new, tools=[step]).identical is not bool(edit)


def test_the_session_has_to_be_passed(tmp_path: Path) -> None:
    """§4.7: as for `reexecute`."""
    whole = recorded(
        sessions.noting, 3, tmp_path / "whole.jsonl", session=sessions.session(), tools=[step]
    )
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 4)

    with pytest.raises(UsageError, match="session"):
        resumed(log, sessions.noting, tools=[step])
    assert len(lines_of(log)) == 4


def test_it_can_be_called_from_a_loop(tmp_path: Path) -> None:
    """As `record` can."""
    whole = recorded(resumable.sequential, 2, tmp_path / "whole.jsonl")
    (tmp_path / "x").mkdir()
    log = cut(whole.log, tmp_path / "x" / "a.jsonl", 5)

    async def main() -> Recording:
        return resumed(log, resumable.sequential)

    assert asyncio.run(main()).output == whole.output


@pytest.mark.long
def test_a_log_from_another_process_goes_on_in_this_one(tmp_path: Path) -> None:
    """Ids, streams and digests depend on nothing of the process."""
    log = tmp_path / "a.jsonl"
    code = (
        "import refold; from refold.testing import FixedClock; "
        "from tests.support import resumable as r; "
        "given = {'tools': r.TOOLS, 'clock': FixedClock(), 'seed': 1}; "
        f"refold.record(r.drawn, 3, log={str(log)!r}, **given)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[3])
    whole = lines_of(log)
    log.write_bytes(b"".join(whole[:6]))

    again = resumed(log, resumable.drawn)

    assert again.data_digest == json.loads(whole[-1])["data"]["data_digest"]


async def looks_twice(run: refold.Run, _n: int) -> Any:
    """Look at the clock before and after a call."""
    before = asyncio.get_running_loop().time()
    await run.tool(step, n=1)
    return asyncio.get_running_loop().time() >= before


def test_time_never_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """§4.7: however long a machine took from the start of a run to its first line."""
    create = LogWriter.create

    def slowly(*given: Any, **options: Any) -> LogWriter:
        threading.Event().wait(0.3)
        return create(*given, **options)

    monkeypatch.setattr(LogWriter, "create", slowly)
    whole = refold.record(looks_twice, 0, log=tmp_path / "whole.jsonl", tools=TOOLS)
    at = next(at for at, row in enumerate(rows_of(whole.log)) if row["kind"] == "tool.returned")
    (tmp_path / "x").mkdir()

    again = refold.resume(
        cut(whole.log, tmp_path / "x" / "a.jsonl", at + 1), looks_twice, tools=TOOLS
    )

    assert whole.output is again.output is True
