"""A person's value as the outcome of a call (CONTRACT.md §12.10, §12.11)."""

from typing import Any

import pytest

import refold
from refold.engine.errors import RefoldError, UsageError
from refold.engine.events.events import (
    ChildFinished,
    InputGiven,
    ModelAnswered,
    ToolReturned,
    ValueDrawn,
)
from refold.engine.events.outcome import Fault, Outcome
from refold.replay.partial.given_values import edit, given
from tests.support.loops import for_each


@refold.tool(effect="reads")
def count() -> int:
    """Count."""
    return 1


def test_a_result_is_checked_by_the_type_of_its_tool_and_a_failure_is_not() -> None:
    failed = {"error": {"message": "m"}}

    assert given(ToolReturned("ok", 1), "0#1", 2, tool=count) == ToolReturned("ok", 2)
    assert given(ToolReturned("ok", 1), "0#1", failed, tool=count).status == "error"
    with pytest.raises(RefoldError, match="0#1"):
        given(ToolReturned("ok", 1), "0#1", "two", tool=count)


@for_each(
    "event, value, edited",
    [
        (ToolReturned("ok", 1), 2, ToolReturned("ok", 2)),
        (ToolReturned("error", error={"code": "x"}), [3], ToolReturned("ok", [3])),
        (ToolReturned("ok", 1), {"error": {"message": "m", "code": "c"}},
         ToolReturned("error", error={"code": "c", "message": "m", "type": ""})),
        (ToolReturned("ok", 1), {"error": {"message": "m"}, "more": 1},
         ToolReturned("ok", {"error": {"message": "m"}, "more": 1})),
        (ModelAnswered("ok"), "hi",
         ModelAnswered("ok", {"role": "assistant", "content": "hi"}, stop_reason="stop")),
        (ModelAnswered("ok"), {"error": {"message": "m"}},
         ModelAnswered("error", error={"code": "raised", "message": "m"})),
        (InputGiven("no", "me"), "yes", InputGiven("yes", "me")),
        (ValueDrawn("file", "p", "old"), "new", ValueDrawn("file", "p", "new")),
    ],
)  # fmt: skip
def test_what_an_edit_makes_of_an_outcome(event: Any, value: Any, edited: Any) -> None:
    """An outcome of the same kind."""
    assert edit(event, value) == edited


def test_what_an_edit_makes_of_a_childs_outcome() -> None:
    """Its output, or the fields that are named."""
    ended = ChildFinished(Outcome(status="completed", summary="old", output=1))

    assert edit(ended, 2).outcome.output == 2
    changed = edit(ended, {"status": "failed", "error": {"code": "c", "message": "m"}}).outcome
    assert (changed.status, changed.error.message, changed.output) == ("failed", "m", 1)


@for_each("value", [2, {"output": 2}, {"status": "completed", "output": 2}])
def test_an_output_makes_a_child_that_failed_one_that_completed(value: Any) -> None:
    ended = ChildFinished(Outcome(status="failed", error=Fault(code="raised", message="no")))

    outcome = edit(ended, value).outcome

    assert (outcome.status, outcome.error, outcome.output) == ("completed", None, 2)
    assert edit(ended, {"summary": "new"}).outcome.status == "failed"


def test_a_models_answer_is_a_text_or_a_message() -> None:
    """Another JSON value is its text, as a planner answers; half a message is refused."""
    for value, text in ((["tides", "ice"], '["tides","ice"]'), ({"n": 5}, '{"n":5}'), (5, "5")):
        assert edit(ModelAnswered("ok"), value).message == {"role": "assistant", "content": text}
    with pytest.raises(UsageError, match="string or a message"):
        edit(ModelAnswered("ok"), {"role": "assistant", "text": "5"})
