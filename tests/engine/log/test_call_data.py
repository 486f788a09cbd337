"""Rule: bytes made without an event are those that the event would have, or none are made."""

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.engine.encoding.canonical import DEPTH_MAX
from refold.engine.errors import NotCanonical
from refold.engine.events.codec import unstructure
from refold.engine.events.events import Event, ToolCalled, ToolReturned
from refold.engine.log import call_data
from refold.engine.log.blobs import BLOB_MIN, encode_data
from tests.support.loops import for_each

TEXTS = st.text() | st.sampled_from(
    ["$esc", "\x7f", "\u202e", "\ud800", "\U000e0041", "x" * 300, "null"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def of_event(event: Event) -> bytes | None:
    """Return the bytes of an event's data; `None` where it has none."""
    try:
        return encode_data(unstructure(event))
    except NotCanonical:
        return None


@given(VALUES)
@example({"$esc": 1})
@example("x" * (BLOB_MIN - 1))
@example("x" * BLOB_MIN)
@example(nested(DEPTH_MAX - 2))
@example(nested(DEPTH_MAX - 1))
@example(nested(DEPTH_MAX))
def test_the_bytes_are_those_of_the_event(value: Any) -> None:
    """Of arguments and of results, whatever they are: blobs, markers, depth, what is refused."""
    made = call_data.returned(value)
    assert made is None or made == of_event(ToolReturned("ok", value))

    arguments = {"at": value, "b": 2}
    made = call_data.called("find", "reads", arguments)
    assert made is None or made == of_event(ToolCalled("find", arguments, "reads"))


@pytest.mark.parametrize(
    "name", ["find", "ü", "a\x7fb", "$x", 'a"b', "\ud800", "\U000e0041", "n" * 40_000]
)
@pytest.mark.parametrize("effect", ["reads", "$", "\ud800", "\U000e0041"])
def test_no_name_breaks_them(name: str, effect: Any) -> None:
    """A tool of somebody's own may have any."""
    made = call_data.called(name, effect, {"a": 1})

    assert made is None or made == of_event(ToolCalled(name, {"a": 1}, effect))


@for_each("value", [None, True, 7, 1.5, "text", "Grüße", [1, [2]], {"a": None}, "y" * 20_000, []])
def test_most_values_need_no_event(value: Any) -> None:
    """Else nothing would be gained."""
    assert call_data.returned(value) == of_event(ToolReturned("ok", value))
    called = call_data.called("find", "reads", {"value": value})
    assert called == of_event(ToolCalled("find", {"value": value}, "reads"))


@for_each("value", [math.nan, 2**64, b"", {1: 2}, "\ud800", nested(DEPTH_MAX)])
def test_what_no_log_can_hold_is_left_to_the_event(value: Any) -> None:
    """Which says where in its data the wrong value stands."""
    assert of_event(ToolReturned("ok", value)) is None
    assert call_data.returned(value) is None
    assert call_data.called("find", "reads", {"value": value}) is None
