"""Tokens out of what answers count (CONTRACT.md §11.3)."""

from typing import Any

from refold.engine.events.outcome import Usage
from refold.engine.wire.chat.answer import COUNTS as CHAT
from refold.engine.wire.messages.answer import COUNTS as MESSAGES
from refold.engine.wire.responses.answer import COUNTS as RESPONSES
from tests.support.loops import for_each

CACHED = MESSAGES.usage(
    {
        "input_tokens": 5,
        "cache_read_input_tokens": 900,
        "cache_creation_input_tokens": 40,
        "output_tokens": 0,
    }
)


def test_cached_tokens_are_counted_apart_and_in_the_input() -> None:
    """Of each provider's members; what a provider does not say is unknown."""
    assert (CACHED.input_tokens, CACHED.cache_read_tokens, CACHED.cache_write_tokens) == (
        945,
        900,
        40,
    )
    assert CACHED.reasoning_tokens is None
    chat = CHAT.usage(
        {
            "prompt_tokens": 9,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }
    )
    responses = RESPONSES.usage(
        {
            "input_tokens": 9,
            "output_tokens": 5,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 3},
        }
    )
    writing = {"prompt_tokens_details": {"cache_write_tokens": 2}}
    assert CHAT.usage(writing).cache_write_tokens == 2
    writing = {"input_tokens_details": {"cache_write_tokens": 2}}
    assert RESPONSES.usage(writing).cache_write_tokens == 2
    assert chat == responses
    assert (chat.cache_read_tokens, chat.reasoning_tokens, chat.cache_write_tokens) == (4, 3, None)


@for_each("counts", [None, [], {"prompt_tokens": -1}, {"prompt_tokens": True}])
def test_what_is_no_count_is_none(counts: Any) -> None:
    """A server's numbers are not trusted."""
    assert CHAT.usage(counts) == Usage(requests=1, untold=1)
