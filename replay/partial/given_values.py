"""Turns a value from a person into the outcome of a call: `--set`, a stub, `--result` of `resume`.

All of them take the same values and are checked by the same types (CONTRACT.md §12.10, §12.11).
Pure.
"""

from typing import Any

import attrs

from refold.engine.children.reply import summary_of
from refold.engine.encoding.canonical import Json, text_of_json
from refold.engine.errors import EventMalformed, UsageError
from refold.engine.events.codec import structure, unstructure
from refold.engine.events.events import ChildFinished, InputGiven, ModelAnswered, ToolReturned
from refold.engine.events.outcome import Fault, Outcome
from refold.engine.ports.people import check_answer, check_result
from refold.engine.ports.ports import Question, Tool


def given(
    event: Any, key: str, value: Json, *, tool: Tool | None = None, question: Question | None = None
) -> Any:
    """Return an outcome of the kind of `event` with a person's value; errors name `key`.

    Raises:
        UsageError: the value does not fit this kind of outcome, the return type of the tool, or the
            schema of the question.
    """
    if question is not None:
        check_answer(question, value)
    try:
        new = edit(event, value)
    except (UsageError, EventMalformed) as error:
        raise UsageError(f"the result of {key!r}: {error}") from None
    if isinstance(new, ToolReturned) and new.status == "ok":
        check_result(key, tool, value)
    return new


def edit(event: Any, value: Json) -> Any:
    """Return an outcome of the same kind as `event` with a new result.

    For a tool, a person or a drawn value, the result is any JSON value; for a model, its text, a
    JSON value that is its text, or its whole message; for a child, its output, or an object of an
    outcome's fields (`status`, `summary`, `output`, `error`); a child with an output and no error
    has completed. `{"error": {"message": …}}` makes any of the three fail.

    Raises:
        EventMalformed: an outcome's field is invalid.
        UsageError: the value does not fit this kind of event.
    """
    match event:
        case ToolReturned():
            error = _error_of(value)
            return ToolReturned("error", error=error) if error else ToolReturned("ok", value)
        case ModelAnswered():
            return _answer(event, value)
        case ChildFinished(outcome=outcome):
            return ChildFinished(_outcome(outcome, value))
        case InputGiven():
            return InputGiven(value, event.by)
        case _:
            return attrs.evolve(event, value=value)


def _error_of(value: Json) -> dict[str, Json] | None:
    match value:
        case {"error": {"message": str() as message, **rest}} if len(value) == 1:
            return {"code": rest.get("code", "raised"), "message": message, "type": ""}
        case _:
            return None


def _answer(event: ModelAnswered, value: Json) -> ModelAnswered:
    error = _error_of(value)
    if error is not None:
        return ModelAnswered("error", error={"code": error["code"], "message": error["message"]})
    if not isinstance(value, dict) or {"role", "content"}.isdisjoint(value):
        text = value if isinstance(value, str) else text_of_json(value)
        value = {"role": "assistant", "content": text}
    if "content" not in value:
        raise UsageError(f"a model's answer must be a string or a message; found {value!r:.60}")
    reason = "tool_calls" if value.get("tool_calls") else "stop"
    return ModelAnswered("ok", value, event.usage, reason)


def _outcome(outcome: Outcome, value: Json) -> Outcome:
    error = _error_of(value)
    if error is not None:
        fault = Fault(code=str(error["code"]), message=str(error["message"]))
        failed: Outcome = attrs.evolve(
            outcome, status="failed", summary="", output=None, artifacts=(), error=fault
        )
        return failed
    fields = ("status", "summary", "output", "error")
    if not (isinstance(value, dict) and value and all(name in fields for name in value)):
        value = {"output": value, "summary": summary_of(value)}
    data = {**unstructure(ChildFinished(outcome))["outcome"], **value}
    if "output" in value and "error" not in value:
        data["status"] = value.get("status", "completed")
    if data["status"] == "completed" and "error" not in value:
        data.pop("error", None)
    event: Any = structure("child.finished", {"outcome": data})
    return event.outcome  # type: ignore[no-any-return]  # of this kind
