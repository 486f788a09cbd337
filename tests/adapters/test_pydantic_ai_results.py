"""Results and errors of Pydantic AI's tools survive a log."""

import asyncio
import datetime as dt
import functools
from typing import TYPE_CHECKING

import pytest

from refold.engine.encoding.plain import to_json
from refold.engine.errors import NotCanonical, ToolError
from tests.support.later import Later

if TYPE_CHECKING:
    from tests.support import pydantic_sdk as sdk
else:
    sdk = Later("tests.support.pydantic_sdk")


def test_a_result_comes_back_as_it_was() -> None:
    """Case 86: also one that looks like a recorded one."""
    for result in (
        None,
        "text",
        {"a": [1, 0.5, None]},
        sdk.ToolReturn(return_value={"a": 1}, content="see", metadata={"b": 2}),
        [sdk.ImageUrl(url="https://x.test/a.png"), "beside"],
        {"$pydantic_ai": "content", "value": 1},
        {"$pydantic_ai": "value"},
    ):
        assert sdk.loaded(to_json(sdk.dumped(result))) == result


def test_bytes_are_files_again() -> None:
    """With their media type."""
    back = sdk.loaded(sdk.dumped(sdk.BinaryContent(b"\x00\xff", media_type="application/pdf")))

    assert (back.data, back.media_type) == (b"\x00\xff", "application/pdf")


def test_anything_else_is_what_a_model_is_shown() -> None:
    """Tuples are lists, dates are texts."""
    assert sdk.loaded(sdk.dumped((1, dt.date(2026, 1, 2)))) == [1, "2026-01-02"]


def test_what_is_raised_for_the_model_is_raised_again() -> None:
    """Case 91: with its class and what it says."""

    async def call(raised: Exception) -> None:
        raise raised

    for raised in (
        sdk.ModelRetry("not so"),
        sdk.ToolFailed("gone"),
        sdk.CallDeferred({"a": 1}, kind="question"),
        sdk.ApprovalRequired({"why": "dear"}),
        sdk.ApprovalRequired(),
    ):
        with pytest.raises(ToolError) as caught:
            asyncio.run(sdk.called("look", functools.partial(call, raised)))
        again = sdk.raised_back(caught.value)
        assert type(again) is type(raised)
        assert vars(again) == vars(raised)


def test_another_error_stays_what_it_is() -> None:
    """The driver says of it what it says of any tool."""
    error = ToolError("look", "no such place", "raised", "ValueError")

    assert sdk.raised_back(error) is error


def test_arguments_are_json_again() -> None:
    """They were validated, and may have become dates or bytes."""
    assert sdk.plain_arguments({"day": dt.date(2026, 1, 2), "n": 1}) == {
        "day": "2026-01-02",
        "n": 1,
    }
    with pytest.raises(NotCanonical, match="arguments: expected arguments that JSON can hold"):
        sdk.plain_arguments({"odd": object()})
