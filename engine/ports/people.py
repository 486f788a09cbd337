"""Questions to people, and valid answers (CONTRACT.md §9.9).

A question may have a JSON schema; an answer that does not fit does not count. A tool with
`approval` is asked for before each call. Pure: who is asked, and how, belongs to the recorder, the
driver and the command line.
"""

from collections.abc import Mapping
from typing import Any, Final

from refold.engine.encoding.canonical import Json, encode
from refold.engine.errors import AnswerRefused, RefoldError, ToolError, UsageError
from refold.engine.ports.ports import Question, Tool

APPROVAL: Final[dict[str, Json]] = {"type": "boolean"}
"""The schema of an approval."""
DENIED: Final = "denied"
"""The code of the `ToolError` of a call that was not approved."""

ASK_FAILED: Final = "the function passed as ask="
"""How the problem of a question begins that the function left open by mistake."""

_SHOWN_CHARACTERS: Final = 200
"""Of one argument, in the question."""


def check_question(question: object, schema: Mapping[str, Any] | None) -> None:
    """Check a program's question.

    Raises:
        UsageError: the question is not a text, or its schema is not a JSON schema.
    """
    if not isinstance(question, str):
        raise UsageError(
            f"a question must be a string; found {type(question).__name__} {question!r:.60}"
        )
    if schema is None or schema == APPROVAL:
        return
    from refold.engine.encoding.schemas import problem_of  # noqa: PLC0415 - only where a schema is given

    if problem := problem_of(schema):
        raise UsageError(
            f"the schema of the question {question!r:.60} is not a JSON schema: {problem}"
        )


def check_answer(question: Question, answer: Json) -> None:
    """Check an answer against the schema of its question.

    Raises:
        AnswerRefused: it does not fit.
        UsageError: its schema, which may have been read from a log, is not a JSON schema.
    """
    if question.schema is None:
        return
    if question.schema == APPROVAL and isinstance(answer, bool):
        return
    check_question(question.question, question.schema)
    from refold.engine.encoding.schemas import misfit  # noqa: PLC0415 - the same

    if found := misfit(question.schema, answer):
        expected = f"a value that fits {encode(question.schema).decode()}"
        raise AnswerRefused(question.key, expected, found)


def check_result(key: str, tool: Tool | None, result: Json) -> None:
    """Check a result that a person gives in the place of a call's, by the tool's return type.

    `key` names it in the error. Without a tool, nothing is known of its type.

    Raises:
        AnswerRefused: it does not have this type.
    """
    if tool is None:
        return
    try:
        tool.dump(tool.load(result) if tool.typed else result)
    except RefoldError as error:
        raise AnswerRefused(key, f"the return type of {tool.name}", str(error)) from None


def needs_approval(tool: Tool) -> bool:
    """Return whether a person is asked before each call of the tool."""
    return bool(getattr(tool, "approval", False))


def approval_question(tool: str, arguments: Mapping[str, Json]) -> str:
    """Return the question: `May I call pay(n=7)?`, arguments as JSON, long ones cut."""
    shown = ", ".join(f"{name}={_cut(value)}" for name, value in arguments.items())
    return f"May I call {tool}({shown})?"


def check_approved(tool: str, answer: Json) -> None:
    """Let an approved call continue.

    Raises:
        ToolError: with the code `denied`, unless the answer is `true`.
    """
    if answer is not True:
        raise ToolError(tool, "the call was not approved", DENIED)


def _cut(value: Json) -> str:
    text = encode(value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
