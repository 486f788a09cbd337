"""Results and errors of Pydantic AI's tools survive a log."""

import asyncio
import datetime as dt
from typing import Any

import pytest
from pydantic_ai import BinaryContent, ImageUrl, ModelRetry, ToolFailed, ToolReturn
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred

from refold.adapters.pydantic_ai import called, dumped, loaded, plain_arguments, raised_back
from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, ToolError
from tests.support.loops import for_each


@for_each(
    "result",
    [
        None,
        "text",
        {"a": [1, 0.5, None]},
        ToolReturn(return_value={"a": 1}, content="see", metadata={"b": 2}),
        [ImageUrl(url="https://x.test/a.png"), "beside"],
        {"$pydantic_ai": "content", "value": 1},
        {"$pydantic_ai": "value"},
    ],
)
def test_a_result_comes_back_as_it_was(result: Any) -> None:
    """Case 86: also one that looks like a recorded one."""
    assert loaded(to_json(dumped(result))) == result


def test_bytes_are_files_again() -> None:
    """With their media type."""
    back = loaded(dumped(BinaryContent(b"\x00\xff", media_type="application/pdf")))

    assert (back.data, back.media_type) == (b"\x00\xff", "application/pdf")


def test_anything_else_is_what_a_model_is_shown() -> None:
    """Tuples are lists, dates are texts."""
    assert loaded(dumped((1, dt.date(2026, 1, 2)))) == [1, "2026-01-02"]


@for_each(
    "raised",
    [
        ModelRetry("not so"),
        ToolFailed("gone"),
        CallDeferred({"a": 1}, kind="question"),
        ApprovalRequired({"why": "dear"}),
        ApprovalRequired(),
    ],
)
def test_what_is_raised_for_the_model_is_raised_again(raised: Exception) -> None:
    """Case 91: with its class and what it says."""

    async def call() -> None:
        raise raised

    with pytest.raises(ToolError) as caught:
        asyncio.run(called("look", call))
    again = raised_back(caught.value)

    assert type(again) is type(raised)
    assert vars(again) == vars(raised)


def test_another_error_stays_what_it_is() -> None:
    """The driver says of it what it says of any tool."""
    error = ToolError("look", "no such place", "raised", "ValueError")

    assert raised_back(error) is error


def test_arguments_are_json_again() -> None:
    """They were validated, and may have become dates or bytes."""
    assert plain_arguments({"day": dt.date(2026, 1, 2), "n": 1}) == {"day": "2026-01-02", "n": 1}
    with pytest.raises(NotCanonical, match="arguments: expected arguments that JSON can hold"):
        plain_arguments({"odd": object()})
