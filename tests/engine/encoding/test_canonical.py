"""Values become canonical bytes exactly, or are refused with their place (CONTRACT.md §3.5)."""

import json
import re
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.engine.encoding.canonical import (
    DEPTH_MAX,
    check,
    encode,
    encode_key,
    encode_sorted,
    escape_tags,
    join,
    kind_of,
    loads,
    text_of_json,
    unescaped,
)
from refold.engine.errors import NotCanonical
from refold.engine.kernel.pending import Child
from tests.support.loops import for_each

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def nested(levels: int) -> Any:
    """Return `levels` arrays, one in the other."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@settings(deadline=None)  # a machine may be busy
@given(VALUES)
def test_what_is_encoded_reads_back_as_it_was(value: Any) -> None:
    """Integers stay integers, floats floats, texts the same code points."""
    try:
        encoded = encode(value)
    except NotCanonical:
        assert "\\ud" in repr(value)  # a key may be any text; only surrogates are refused
        return

    back = loads(encoded)

    assert back == value
    assert repr(back) == repr(value)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_hold_nothing_that_a_terminal_obeys(text: str) -> None:
    """Controls, bidi marks and invisible characters are escaped; a newline never stands raw."""
    shown = encode([text]).decode()

    assert not any(ord(each) < 0x20 or 0x7F <= ord(each) <= 0x9F for each in shown)
    assert not set(shown) & set("\xad\u061c\u200b\u200f\u2028\u2029\u202e\u2066\u2069\ufeff\ufffb")


@for_each("tag", ["\U000e0020", "\U000e0041", "\U000e007f"])
def test_a_line_hides_no_tag(tag: str) -> None:
    """Tags spell a text that nobody sees; their neighbours, and digests, have no part in it."""
    value = {"\U000e001f": f"{tag}x{tag}\U000e0080"}
    encoded = encode(value)
    shown = escape_tags(encoded)

    assert tag.encode() in encoded
    assert shown.isascii() is False
    assert tag.encode() not in shown
    assert loads(shown) == value
    assert json.loads(shown) == value


def named(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"x": value}
    return value


@settings(deadline=None)
@given(st.recursive(SCALARS | st.floats(), lambda inner: st.lists(inner) | st.tuples(inner)))
def test_an_odd_number_beside_a_null_is_refused_as_the_exact_walk_refuses_it(value: Any) -> None:
    """A null in the bytes may have been one."""
    try:
        check([value, None])
    except NotCanonical as refused:
        with pytest.raises(NotCanonical, match=re.escape(str(refused))):
            encode([value, None])
    else:
        encode([value, None])


@for_each(
    "value, pointer, expected",
    [
        ({"a": [1, float("nan")]}, "/a/1", "a finite number"),
        ({"a": None, "b": float("nan")}, "/b", "a finite number"),
        ({"a": None, "b": {"c": float("nan")}}, "/b/c", "a finite number"),
        ({"null": None, "b": float("-inf")}, "/b", "a finite number"),
        ({"a": float("-inf")}, "/a", "a finite number"),
        ({"a": 2**63}, "/a", "a signed 64-bit integer"),
        ({"a": [-(2**63) - 1]}, "/a/0", "a signed 64-bit integer"),
        ({"a/b": {"~": "\ud800"}}, "/a~1b/~0", "text without lone surrogates"),
        ({"a": {1: 2}}, "/a", "string keys"),
        (nested(DEPTH_MAX + 1), "/0" * DEPTH_MAX, f"at most {DEPTH_MAX} levels of nesting"),
        (named(DEPTH_MAX + 1), "/x" * DEPTH_MAX, f"at most {DEPTH_MAX} levels of nesting"),
        ({"a": b"x"}, "/a", "a JSON value"),
        ({"a": {1, 2}}, "/a", "a JSON value"),
        ({"a": OrderedDict(b=1)}, "/a", "a JSON value"),
    ],
)
def test_what_a_log_cannot_hold_exactly_is_refused(value: Any, pointer: str, expected: str) -> None:
    """Case 86: with the JSON pointer of the place and what was expected there."""
    with pytest.raises(NotCanonical) as caught:
        encode(value)

    assert (caught.value.pointer, caught.value.expected) == (pointer, expected)


def test_an_integer_that_is_too_wide_is_shown() -> None:
    """An unsigned one of 64 bits needs 65 with its sign; one of many digits is told by its size."""
    with pytest.raises(NotCanonical, match="a signed 64-bit integer, found 18446744073709551615"):
        encode(2**64 - 1)
    with pytest.raises(NotCanonical, match="found an integer of 5001 bits"):
        encode(2**5000)


def test_the_limits_themselves_are_held() -> None:
    """The widest integers and the deepest value are no refusal."""
    for value in (2**63 - 1, -(2**63), nested(DEPTH_MAX), named(DEPTH_MAX), None, -0.0, 5e-324):
        assert repr(loads(encode(value))) == repr(value)


def test_members_keep_their_order_unless_they_are_sorted() -> None:
    """For lines the order given; for digests one order whatever was given."""
    assert encode({"b": 1, "a": 2}) == b'{"b":1,"a":2}'
    assert encode_sorted({"b": 1, "a": {"d": 1, "c": 2}}) == b'{"a":{"c":2,"d":1},"b":1}'


def test_pointers_escape_what_json_pointers_escape() -> None:
    """RFC 6901: `~` is `~0`, `/` is `~1`."""
    assert join("/a", "b/c~d") == "/a/b~1c~0d"
    assert unescaped("b~1c~0d") == "b/c~d"
    assert join("/a", 3) == "/a/3"


@for_each(
    "value, text",
    [('a"b', 'a"b'), ("", ""), (None, "null"), ({"b": [1, "x"]}, '{"b":[1,"x"]}')],
)
def test_a_string_is_its_own_text(value: Any, text: str) -> None:
    assert text_of_json(value) == text


def test_what_makes_a_json_value_of_another_is_said() -> None:
    """Of what has such a method; and a value that holds itself is named by a short pointer."""

    class Model:
        def model_dump(self) -> None: ...

    ring: list[Any] = []
    ring.append(ring)
    values: list[Any] = [Model(), b"x", iter([]), ring]
    said = []
    for value in values:
        with pytest.raises(NotCanonical) as refused:
            encode(value)
        said.append(str(refused.value))

    assert "(use .model_dump(mode='json'))" in said[0]
    assert "(use .decode(), or base64 text)" in said[1]
    assert "(use list(…))" in said[2]
    assert len(said[3]) < 200


def test_a_key_has_levels_beside_those_of_the_deepest_value() -> None:
    """Else what stands in a log could not be looked up; a line of a log has no more."""
    deepest = nested(DEPTH_MAX)

    assert encode_key(["kind", {"b": 1, "a": deepest}]).startswith(b'["kind",{"a":[[')
    for refuses, value in ((encode, ["kind", deepest]), (encode_key, [float("nan"), deepest])):
        with pytest.raises(NotCanonical):
            refuses(value)


@for_each("name", dir(refold))
def test_a_message_names_a_public_class_as_programs_write_it(name: str) -> None:
    """And not by the private module that holds it; an internal class has no module at all."""
    kind = getattr(refold, name)
    if isinstance(kind, type):
        new: Any = kind.__new__
        assert kind_of(new(kind)) == f"refold.{name}"
    assert kind_of(Child.__new__(Child)) == "Child"
