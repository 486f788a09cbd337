"""What MCP messages say is read and compared, whatever their notation (CONTRACT.md §16.11)."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.engine.observed import mcp_messages
from refold.engine.observed.mcp_messages import McpRequest, held, messages_in, request_of
from tests.support.loops import for_each

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def request(number: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@for_each(
    "one, other",
    [
        (request(1, name="a"), request(2, name="a", arguments={})),
        (request(1, name="a"), request("x", name="a", arguments=None, _meta={"n": 1})),
        (request(1, "a/list"), {"jsonrpc": "2.0", "id": 1, "method": "a/list"}),
    ],
)
def test_notation_makes_no_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Nor do ids and `_meta`."""
    assert request_of(dict(one)).key() == request_of(dict(other)).key()


def test_all_else_makes_a_difference() -> None:
    """Method, name, arguments, and what else a call has."""
    asked = [
        request(1, name="a"),
        request(1, name="b"),
        request(1, name="a", arguments={"x": 1}),
        request(1, name="a", requestState="s"),
        request(1, "a"),
        request(1, "a", x=1),
    ]

    assert len({request_of(each).key() for each in asked}) == len(asked)
    assert request_of(request(1, name="a", arguments=[1])).arguments == {"arguments": [1]}


@given(JSON)
def test_whatever_is_held_comes_back(value: Any) -> None:
    """As an object where a log can hold one, else as text."""
    kept = held(value)

    assert isinstance(kept, dict | str)
    assert mcp_messages.given(kept) == value


@given(st.binary() | JSON.map(lambda value: str(value).encode()))
def test_reading_a_line_never_raises(content: bytes) -> None:
    """It is messages, or it is none."""
    found = messages_in(content)

    assert found is None or all(isinstance(each, dict) for each in found)


def test_a_request_that_no_entry_can_hold_is_compared_all_the_same() -> None:
    """By its text."""
    large = [request_of(request(1, name="a", arguments={"n": 2**70 + n})) for n in (0, 1, 0)]

    assert large[0].key() == large[2].key() != large[1].key()
    assert large[0] == McpRequest("a", {"json": f'{{"n": {2**70}}}'}, {})
