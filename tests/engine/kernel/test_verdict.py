"""How a run ended, by what its program returned or raised (CONTRACT.md §9.4)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import (
    LimitReached,
    ModelError,
    OutsideLoop,
    RunEnded,
    ToolError,
    ToolUnknown,
)
from refold.engine.events.events import LimitHit
from refold.engine.events.outcome import Artifact, Report
from refold.engine.kernel import verdict
from refold.engine.loop import loop as loops
from refold.engine.loop.loop import Loop
from tests.support.loops import for_each


class Silent(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise LookupError


@for_each(
    "error, status, reason, code",
    [
        (LookupError("x"), "failed", "error", "raised"),
        (ToolError("t", "m", "timed_out"), "failed", "error", "raised"),
        (ToolUnknown("t", ()), "failed", "error", "raised"),
        (ModelError("m", "busy", "http_500"), "failed", "error", "http_500"),
        (RunEnded("no_progress", "m"), "failed", "no_progress", "no_progress"),
        (OutsideLoop("loop.sock", "a.py", 3), "failed", "error", "outside_loop"),
        (LimitReached("model_tokens", 5, 6), "limit", "limit", "model_tokens"),
        (LimitReached("max_iterations", 5, 6), "limit", "max_iterations", "max_iterations"),
        (Silent(), "failed", "error", "raised"),
    ],
)
def test_what_a_program_raised_says_how_it_ended(
    error: Exception, status: str, reason: str, code: str
) -> None:
    """The table of §9.4, row by row."""
    found = verdict.verdict_of_error(error)

    assert found.error is not None
    assert (found.status, found.reason, found.error.code) == (status, reason, code)


def test_a_group_says_what_is_in_it() -> None:
    """The text of a group alone names nothing."""
    inner = [LookupError(f"no {number}") for number in range(7)]
    group = ExceptionGroup("two", [ToolError("t", "m"), ExceptionGroup("seven", inner), OSError()])

    opened = verdict.verdict_of_error(group).error

    assert opened is not None
    told = [f"LookupError: no {number}" for number in range(7)]
    said = "; ".join([f"ExceptionGroup: {group}: ToolError: {inner_text(group)}", *told, "…"])
    assert opened.message == said


def inner_text(group: ExceptionGroup[Exception]) -> str:
    return str(group.exceptions[0])


def test_a_group_was_raised_where_its_first_exception_was() -> None:
    """The line at which the group itself was put together helps nobody."""

    def fails() -> None:
        raise LookupError

    try:
        fails()
    except LookupError as error:
        group = ExceptionGroup("one", [error])

    assert verdict.place_of(group) == (__file__, fails.__code__.co_firstlineno + 1)


def test_a_models_failure_says_its_code_once() -> None:
    """It is the fault's code; the error's own text has it at the end."""
    error = ModelError("m", "busy", "http_500")

    found = verdict.verdict_of_error(error).error

    assert found is not None
    assert (found.code, found.message) == ("http_500", "m: busy")
    assert str(error) == "m: busy (http_500)"


def test_a_value_completes_a_run() -> None:
    """As the JSON that the log holds."""
    found, hit = verdict.verdict_of_value((1, "two"), None)

    assert (found.status, found.reason, found.output, hit) == (
        "completed",
        "done",
        [1, "two"],
        None,
    )


def test_a_report_completes_a_run_with_its_output() -> None:
    """Summary and artifacts go beside it."""
    report = Report(summary="s", output={"a": 1}, artifacts=(Artifact(kind="note", value="v"),))

    found, _ = verdict.verdict_of_value(report, None)

    assert (found.output, found.report) == ({"a": 1}, report)


@for_each("value", [float("nan"), object(), {1: 2}, "x" * 40 + "\ud800"])
def test_what_a_log_cannot_hold_is_no_output(value: Any) -> None:
    """The run failed, and says where."""
    found, hit = verdict.verdict_of_value(value, None)

    assert found.error is not None
    assert (found.status, found.error.code, hit) == ("failed", "output", None)


def test_what_a_log_cannot_hold_is_no_artifact_either() -> None:
    """The run failed, as with such an output."""
    report = Report(summary="s", output=1, artifacts=(Artifact(kind="note", value="\ud800"),))

    found, _ = verdict.verdict_of_value(report, None)

    assert found.error is not None
    assert (found.status, found.error.code) == ("failed", "output")


def test_an_output_over_its_cap_is_a_limit() -> None:
    """Counted in canonical bytes; the cap itself is allowed."""
    fits, none = verdict.verdict_of_value("xxx", 5)
    found, hit = verdict.verdict_of_value("xxxx", 5)

    assert (fits.status, none) == ("completed", None)
    assert (found.status, found.reason, found.output) == ("limit", "limit", None)
    assert hit == LimitHit("output_bytes", 5, "run", 6)


def test_a_text_of_an_exception_is_fit_for_a_log() -> None:
    """Bounded, without lone surrogates, and there even where `str` raises."""
    assert verdict.text_of(LookupError("\ud800")) == "\\ud800"
    assert len(verdict.text_of(LookupError("x" * 9_000))) == 4_000
    assert verdict.text_of(Silent()) == "(its text cannot be shown)"


def test_a_tool_error_comes_back_from_its_fault() -> None:
    """As a replay raises it: the same words, the same code."""
    error = ToolError("t", "m", "timed_out", "TimeoutError")

    back = verdict.tool_error("t", verdict.fault_of(error))

    assert (back.code, back.message, back.error_type) == ("timed_out", "m", "TimeoutError")
    assert verdict.fault_of(LookupError("x")) == {
        "code": "raised",
        "message": "x",
        "type": "LookupError",
    }


def test_a_run_that_spins_names_its_first_tasks_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough to find the loop: eight at most, in the order of their creation."""
    monkeypatch.setattr(loops, "CALLBACKS_MAX", 1_000)  # seconds of work, as it is
    loop = Loop(read_clock=float, peek_clock=float, arm=lambda _timer: None)  # type: ignore[abstract]  # what it lacks is refused, by name

    async def spins() -> None:
        while True:  # noqa: ASYNC110 - the very mistake
            await asyncio.sleep(0)

    tasks = [loop.spawn(spins(), loop.root.child()) for _ in range(10)]
    assert not loop.step()

    found = verdict.spinning(loop)

    assert found.error is not None
    assert found.error.code == "spinning"
    assert found.error.message.count("test_verdict.py:") == 8
    assert "1,000,000 callbacks" in found.error.message
    loop.forget_ready()
    for task in tasks:
        task.cancel()
    assert loop.step()


def test_a_step_that_ends_is_no_spin() -> None:
    """However much is ready: whoever waits in the end may take its time."""
    loop = Loop(read_clock=float, peek_clock=float, arm=lambda _timer: None)  # type: ignore[abstract]  # the same
    seen: list[int] = []
    for number in range(10_000):
        loop.call_soon(seen.append, number)

    assert loop.step()
    assert seen == list(range(10_000))


def test_where_no_code_of_the_users_was_the_place_is_a_librarys() -> None:
    """The innermost, and none of the engine's."""
    with pytest.raises(ValueError, match="Expecting") as caught:
        json.loads("{")
    assert caught.value.__traceback__ is not None
    error = caught.value.with_traceback(caught.value.__traceback__.tb_next)

    place = verdict.place_of(error)

    assert place is not None
    assert Path(place[0]).name == "decoder.py"


@pytest.mark.parametrize(
    ("report", "place"),
    [
        (Report(summary=3), "/summary: expected a text, found int"),  # type: ignore[arg-type]  # wrong
        (Report(summary="s", artifacts=None), "/artifacts: expected a tuple of refold.Artifact"),  # type: ignore[arg-type]  # wrong
    ],
)
def test_a_report_that_no_log_can_hold_is_refused(report: Report, place: str) -> None:
    """Such a summary was written, and made the log damaged; such artifacts ended the engine."""
    found, _ = verdict.verdict_of_value(report, None)

    assert found.error is not None
    assert (found.status, found.error.code) == ("failed", "output")
    assert place in found.error.message


def test_all_that_led_to_an_error_is_told_once() -> None:
    """Those of a group, and those that they were raised from, in circles too."""
    first, second = KeyError(1), ValueError(2)
    second.__cause__, first.__cause__ = first, second
    group = ExceptionGroup("both", [second, first])

    assert [*verdict.causes_of(group)] == [group, second, first]
    assert [*verdict.causes_of(TypeError())][1:] == []
