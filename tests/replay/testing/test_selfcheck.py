"""A run is re-executed right after it was recorded, where that is asked for (§12.12)."""

import asyncio
import functools
import os
import pickle
import time
import warnings
from pathlib import Path
from typing import Any, Final

import pytest

import refold
from refold.engine.errors import Nondeterministic, OutsideLoop
from refold.engine.log.reader import scan
from refold.engine.session import Session
from refold.replay.testing.selfcheck import twin_of
from tests.support import checked_programs
from tests.support.checked_programs import (
    Said,
    a_session,
    add,
    clocked,
    kept,
    load,
    of_a_cache,
    of_a_file_read_once,
    of_a_path,
    of_both,
    of_the_childs_variable,
    of_the_command_line,
    of_the_import,
    of_the_results,
    of_the_tools_variable,
    says,
    steady,
    unsteady,
)  # fmt: skip
from tests.support.loops import some
from tests.support.suites import Suite

pytest_plugins = ["pytester"]

HERE: Final = functools.partial(clocked)
"""No other process can import it, so none is started for it."""


@pytest.mark.long
def test_a_run_that_does_the_same_again_is_returned(tmp_path: Path) -> None:
    """With nothing to warn of."""
    recording = refold.record(steady, 1, log=tmp_path / "a.jsonl", check=True)

    assert (recording.output, recording.warnings) == (2, ())


@pytest.mark.long
def test_what_it_read_beside_run_is_a_warning(tmp_path: Path) -> None:
    """Case 54: it did the same by luck, or because nothing hangs on it; with file and line."""
    recording = refold.record(clocked, 1, log=tmp_path / "a.jsonl", check=True)

    line = clocked.__code__.co_firstlineno + 2  # below its docstring
    assert recording.warnings == (f"{checked_programs.__file__}:{line}: time.time: use run.now()",)


ELSEWHERE = some(1, [of_both, of_the_import, of_a_cache, of_the_command_line, of_a_path])


@pytest.mark.parametrize("program", ELSEWHERE)
def test_what_is_another_thing_in_another_process_is_found(program: Any, tmp_path: Path) -> None:
    """Here it does the same each time: the report says where it did not, and both values."""
    kept(1)  # so that a cache has something that a fresh process has not
    with pytest.raises(Nondeterministic, match="in a new process, with a different hash") as caught:
        refold.record(program, log=tmp_path / "a.jsonl", check=True)

    found = caught.value.divergence
    assert found.category == "output_changed"
    here, there = found.recorded["output"], found.now["output"]
    assert here == caught.value.recording.output != there
    assert program is not of_both or (here[0] != there[0] and here[1] != there[1])
    assert caught.value.elsewhere in str(caught.value)


def test_what_cannot_be_run_elsewhere_is_said(tmp_path: Path) -> None:
    """A check that leaves something out is no all-clear; who did not ask in the call is spared."""

    async def nested(_run: refold.Run, _input: object) -> int:
        return 1

    asked = refold.record(nested, log=tmp_path / "a.jsonl", check=True)

    (warning,) = asked.warnings
    assert warning.startswith("not run again in a different process: it cannot import the program")
    assert "the order of sets" in warning


@pytest.mark.long
def test_a_session_crosses_to_the_other_process_as_to_a_child(tmp_path: Path) -> None:
    """By its factory; one that has none is said."""
    options: dict[str, Any] = {"check": True}
    crosses = refold.record(
        says, "x", log=tmp_path / "a.jsonl", session=a_session(has_factory=True), **options
    )
    stays = refold.record(
        says, "x", log=tmp_path / "b.jsonl", session=a_session(has_factory=False), **options
    )

    assert crosses.warnings == ()
    assert "SessionNeeded" in stays.warnings[0] or "session" in stays.warnings[0]


@pytest.mark.parametrize("value", [None, "", "0", "false", "No", "OFF"])
def test_nothing_is_checked_unasked(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs a second execution."""
    monkeypatch.setenv("REFOLD_CHECK", value or "")
    if value is None:
        monkeypatch.delenv("REFOLD_CHECK")

    assert refold.record(clocked, 1, log=tmp_path / "a.jsonl").warnings == ()
    assert refold.record(unsteady, log=tmp_path / "b.jsonl").ok


def test_a_run_that_does_something_else_is_an_error(tmp_path: Path) -> None:
    """Which has the recording, the divergence and what was found; the log stays."""
    log = tmp_path / "a.jsonl"

    with pytest.raises(Nondeterministic) as caught:
        refold.record(unsteady, log=log, check=True)

    error = caught.value
    assert error.recording.log == log
    assert error.divergence.category == "args_changed"
    assert scan(log).sealed
    assert str(error).startswith(f"{log}: the program behaved differently when it was run again")
    assert "/arguments/number" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_the_error_says_what_was_read(tmp_path: Path) -> None:
    """The likely cause stands beside the difference."""

    def program(run: refold.PlainRun, _input: object) -> object:
        return run.tool(add, number=time.perf_counter_ns())

    with pytest.raises(Nondeterministic, match=r"test_selfcheck.py:\d+: time.perf_counter_ns: use"):
        refold.record(program, log=tmp_path / "a.jsonl", check=True)


def test_a_variable_asks_for_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 68: a whole suite re-executes each run after it, with REFOLD_CHECK=1 and no edit."""
    monkeypatch.setenv("REFOLD_CHECK", "1")

    with pytest.warns(RuntimeWarning, match=r"checked_programs.py:\d+: time.time: use run.now()"):
        assert refold.record(HERE, 1, log=tmp_path / "a.jsonl").warnings
    with pytest.raises(Nondeterministic):
        asyncio.run(refold.record_async(unsteady, log=tmp_path / "d.jsonl"))
    with pytest.raises(Nondeterministic):
        refold.record(unsteady, log=tmp_path / "b.jsonl")
    assert refold.record(unsteady, log=tmp_path / "c.jsonl", check=False).ok


def test_a_run_recorded_from_a_coroutine_is_checked_too(tmp_path: Path) -> None:
    """Beside the caller's loop, which goes on."""

    async def main() -> refold.Recording:
        return await refold.record_async(HERE, 1, log=tmp_path / "a.jsonl", check=True)

    warnings = asyncio.run(main()).warnings
    assert ["time.time" in each for each in warnings] == [True, False]


@pytest.mark.long
def test_record_called_where_a_loop_runs_is_checked_too(tmp_path: Path) -> None:
    """The tripwire watches the thread that re-executes, whichever that is."""

    async def main() -> refold.Recording:
        return refold.record(clocked, 1, log=tmp_path / "a.jsonl", check=True)

    with pytest.warns(RuntimeWarning, match="record_async"):
        assert len(asyncio.run(main()).warnings) == 1


def test_a_run_that_failed_is_checked_too(tmp_path: Path) -> None:
    """Failing the same way is doing the same."""

    def program(_run: refold.PlainRun, _input: object) -> None:
        raise OutsideLoop("x", "y", 1)

    recording = refold.record(program, log=tmp_path / "a.jsonl", check=True)

    assert not recording.ok


def test_children_are_watched_too(tmp_path: Path) -> None:
    """They are re-executed in the same thread, each against its own log."""

    async def program(run: refold.Run, number: int) -> object:
        outcome = await run.delegate(refold.Delegation(program=clocked, input=number))
        return outcome.output

    recording = refold.record(program, 4, log=tmp_path / "a.jsonl", check=True)

    assert recording.output == 5
    assert ["time.time" in warning for warning in recording.warnings] == [True, False]


def test_a_run_that_waits_for_a_person_is_not_checked(tmp_path: Path) -> None:
    """It has no end yet to be compared."""

    async def program(run: refold.Run, _input: object) -> object:
        time.time()
        return await run.ask("Go on?")

    recording = refold.record(program, log=tmp_path / "a.jsonl", check=True)

    assert (recording.status, recording.warnings) == ("suspended", ())


def test_the_session_of_the_run_is_left_alone(tmp_path: Path) -> None:
    """The second execution has an empty one with the same reducers."""
    session = Session()
    session.register(Said)
    heard: list[object] = []
    session.bus.subscribe(Said, heard.append)

    def program(run: refold.PlainRun, _input: object) -> None:
        run.session.dispatch(Said("yes"))

    recording = refold.record(program, log=tmp_path / "a.jsonl", session=session, check=True)

    assert recording.ok, recording
    assert session.select_all(Said) == (Said("yes"),)
    assert heard == [Said("yes")]


def test_what_is_no_session_of_ours_is_used_as_it_is() -> None:
    """Nobody else says how to make an empty one."""
    assert twin_of(None) is None


@pytest.mark.long
def test_what_a_process_reads_once_is_found(tmp_path: Path) -> None:
    """This process has just read it; a new one reads it again."""
    found = refold.record(of_a_file_read_once, 1, log=tmp_path / "a.jsonl", check=True)

    (warning,) = found.warnings
    assert "checked_programs.py" in warning
    assert ": open: use run.read_text" in warning
    assert found.replays


# --- resumes and forks -----------------------------------------------------------------------


def resumed(program: Any, log: Path, **options: Any) -> refold.Recording:
    """Return the end of a run that stopped at a question, and continued in the same process."""
    (question,) = refold.record(program, log=log, tools=[load]).questions
    answers = {question.key: "yes"}
    return refold.resume(log, program, tools=[load], answers=answers, **options)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:`FILLED` changed while a subagent ran")
@pytest.mark.parametrize("program", some(1, [of_the_tools_variable, of_the_childs_variable]))
def test_a_result_that_depends_on_state_beside_the_log_is_warned_of(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a resume, and in a fork; Python shows it to a caller who did not ask."""
    monkeypatch.setenv("REFOLD_CHECK", "")
    with pytest.warns(RuntimeWarning, match="a tool or a child changed"):
        found = resumed(program, tmp_path / "a.jsonl")
    edits = {"0#1": "other"}
    fork = refold.fork(
        found, None, program, into=tmp_path / "b.jsonl", edits=edits, tools=[load], check=True
    )

    assert fork.recording is not None
    for each in (found, fork.recording):
        assert (each.status, each.replays) == ("completed", False)
        assert "output_changed" in each.warnings[-1]


def test_a_result_that_follows_from_the_log_is_not(tmp_path: Path) -> None:
    """No warning, and it says that it was replayed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = resumed(of_the_results, tmp_path / "a.jsonl", check=True)

    assert (found.replays, found.warnings) == (True, ())


def test_a_program_that_cannot_be_replayed_elsewhere_is_named(tmp_path: Path) -> None:
    """A closure, as in a notebook: nothing is claimed."""

    async def nested(run: refold.Run, value: object) -> object:
        return await of_the_results(run, value)

    found = resumed(nested, tmp_path / "a.jsonl", check=True)

    assert found.replays is None
    (warning,) = found.warnings
    assert "nested was not replayed in a new process" in warning


def test_a_check_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a call, or for a whole process."""
    monkeypatch.setenv("REFOLD_CHECK", "0")

    unchecked = resumed(of_the_tools_variable, tmp_path / "a.jsonl")
    monkeypatch.delenv("REFOLD_CHECK")
    also = resumed(of_the_tools_variable, tmp_path / "b.jsonl", check=False)

    assert (unchecked.replays, also.replays) == (None, None)


# --- pytest ----------------------------------------------------------------------------------

UNSTEADY = """
import time
import refold

def clocked(run, _input):
    return time.time() * 0

def drawing(run, _input):
    return time.perf_counter_ns()

def test_clocked(tmp_path):
    refold.record(clocked, log=tmp_path / "a.jsonl")

def test_drawing(tmp_path):
    refold.record(drawing, log=tmp_path / "a.jsonl")
"""


@pytest.mark.long
def test_pytest_checks_every_run_of_a_suite(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 68: `--refold-check` fails what is unsteady and warns of what was read."""
    monkeypatch.delenv("REFOLD_CHECK", raising=False)
    pytester.makepyfile(test_it=UNSTEADY)
    plain = [
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:cacheprovider",
        "-W",
        "default",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]

    pytester.runpytest_inprocess(*plain).assert_outcomes(passed=2)
    checked = pytester.runpytest_inprocess(*plain, "--refold-check")

    checked.assert_outcomes(passed=1, failed=1, warnings=1)
    checked.stdout.re_match_lines_random(
        [
            r".*RuntimeWarning: .*test_it.py:5: time.time: use run.now\(\)",
            r".*output_changed: .*",
            r".*test_it.py:8: time.perf_counter_ns: use run.now\(\)",
        ]
    )
    assert "REFOLD_CHECK" not in os.environ


def test_a_recording_that_is_unsteady_is_kept_beside(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no recording to replay against, and it is what there is to look at."""
    monkeypatch.delenv("REFOLD_CHECK", raising=False)
    suite = Suite(pytester)
    agent = (
        "import time\nfrom agent import search\ndef dig(run, _input):\n    return time.time_ns()\n"
    )
    test = "from other import dig\n\ndef test_dig(refold_run):\n    refold_run(dig)\n"
    suite.write(other=agent, test_it=test)

    said = suite.fails("--refold-record=once", "--refold-check")

    assert "time.time_ns: use run.now()" in said
    assert suite.logs() != []
    assert "test_dig.jsonl" not in suite.logs()
