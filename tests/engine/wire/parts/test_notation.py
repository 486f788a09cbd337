"""Values that a log can hold: exactly, or as text that nothing else is taken for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.encoding.canonical import encode, encode_sorted
from refold.engine.wire.parts.notation import (
    Number,
    bare,
    call_of,
    folded,
    held,
    holds,
    object_in,
    plain_json,
    read_json,
    short,
    text_of,
    text_of_content,
)
from tests.support.loops import for_each

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**65), 2**65),
        st.floats(),
        st.text(alphabet="a\ud800\u00e9", max_size=3),
    ),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$json", "\ud800"]), inner, max_size=2)
    ),
)


@given(one=VALUES, two=VALUES)
def test_what_is_held_is_equal_exactly_if_the_values_are(one: Any, two: Any) -> None:
    """And a log can hold it."""
    texts = [json.dumps(value, sort_keys=True) for value in (one, two)]

    kept = [encode_sorted(held(read_json(text))) for text in texts]

    assert (kept[0] == kept[1]) is (texts[0] == texts[1])


def _read(text: str | bytes) -> str:
    try:
        return repr(read_json(text))
    except ValueError:
        return "refused"


@given(
    values=st.lists(VALUES | st.floats(allow_nan=False), max_size=3),
    names=st.lists(st.sampled_from('ab"\u00e9'), min_size=3, max_size=3),
    separators=st.sampled_from([(",", ":"), (", ", ": ")]),
    is_ascii=st.booleans(),
)
def test_bytes_are_read_as_their_text_is(
    values: list[Any], names: list[str], separators: tuple[str, str], *, is_ascii: bool
) -> None:
    """By a faster library, and with no other result: a member given twice is refused, too."""
    said = {"separators": separators, "ensure_ascii": is_ascii}
    members = [
        json.dumps(name, **said) + separators[1] + json.dumps(value, **said)  # type: ignore[arg-type]
        for name, value in zip(names, values, strict=False)
    ]
    content = ("{" + separators[0].join(members) + "}").encode(errors="replace")

    assert _read(content) == _read(content.decode())


@for_each(
    "text, expected",
    [
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", {"$json": "9223372036854775808"}),
        ("0.1", 0.1),
        ("0.1000000000000000055", {"$json": "0.1000000000000000055"}),
        ("1e400", {"$json": "1e400"}),
        ("1e-400", {"$json": "1e-400"}),
        ("1e99999999999999999999", {"$json": "1e99999999999999999999"}),
        ("0e99999999999999999999", {"$json": "0e99999999999999999999"}),
        ("1e2", 100.0),
        ("NaN", {"$json": "NaN"}),
        ("-Infinity", {"$json": "-Infinity"}),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\ud83d"', {"$json": '"\\ud83d"'}),
        ('{"$json": "NaN"}', {"$json": '{"$json": "NaN"}'}),
        ('{"$json": "NaN", "a": 1}', {"$json": "NaN", "a": 1}),
        ('[{"\\ud83d": 1}, 2]', [{"$json": '{"\\ud83d": 1}'}, 2]),
    ],
)
def test_what_a_log_cannot_hold_becomes_its_text(text: str, expected: Any) -> None:
    """Integers beyond 64 bits, numbers that no float is, halves of characters."""
    assert encode(held(read_json(text))) == encode(expected)


def test_deep_values_become_text_at_the_bound() -> None:
    """Others keep their shape."""
    deep = read_json("[" * 100 + "]" * 100)

    kept = held(deep)

    assert not holds(deep)
    encode(kept)
    assert encode(kept).startswith(b"[" * 64 + b'{"$json":')


@for_each("text", ["", "{", '{"a": 1, "a": 2}', "[" * 600 + "]" * 600, "[" * 10**5, "9" * 5000])
def test_what_is_no_json_is_refused(text: str) -> None:
    """With one kind of error; a member given twice and bottomless nesting are of it."""
    with pytest.raises(ValueError, match=r"."):
        read_json(text)
    assert object_in(text) is None


def test_a_number_that_is_no_float_keeps_its_text() -> None:
    assert read_json("[1e400]") == [Number("1e400")]


def test_content_of_one_text_is_that_text() -> None:
    """With nothing beside it but what says nothing."""
    part = {"type": "text", "text": "a"}

    assert folded("a", "text") == "a"
    assert folded([part], "text") == "a"
    assert folded([{**part, "citations": None}], "text") == "a"
    assert folded([part], "input_text") == [part]
    assert folded([{**part, "x": 1}], "text") == [{**part, "x": 1}]
    assert folded([part, part], "text") == [part, part]
    assert folded([], "text") == []
    assert folded(None, "text") is None


def test_null_members_say_nothing() -> None:
    """Nor do empty lists of remarks; other empty lists do."""
    assert bare({"a": None, "annotations": [], "content": [], "b": 0}) == {"content": [], "b": 0}
    assert bare("text") == "text"


def test_content_says_the_texts_of_its_parts() -> None:
    """Whatever else stands between them."""
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, 3, "b", {"refusal": "c"}]

    assert text_of_content(parts) == "abc"
    assert text_of_content({"text": "a"}) == ""


@for_each(
    "arguments, expected",
    [
        ('{"a": 1}', {"arguments": {"a": 1}}),
        ({"a": 1}, {"arguments": {"a": 1}}),
        ("", {"arguments": {}}),
        (" \n", {"arguments": {}}),
        ("{", {"arguments": {}, "invalid": "{"}),
        ("[1]", {"arguments": {}, "invalid": "[1]"}),
        ('{"a": 1, "a": 2}', {"arguments": {}, "invalid": '{"a": 1, "a": 2}'}),
        ('{"a": 1e400}', {"arguments": {}, "invalid": '{"a": 1e400}'}),
        ({"a": 2**64}, {"arguments": {}, "invalid": '{"a": 18446744073709551616}'}),
        (None, {"arguments": {}, "invalid": "null"}),
        ("\ud800", {"arguments": {}, "invalid": "\ufffd"}),
    ],
)
def test_arguments_that_a_log_cannot_hold_are_kept_as_text(
    arguments: Any, expected: dict[str, Any]
) -> None:
    """As §11.2 says; nothing raises."""
    assert call_of("c", "f", arguments) == {"id": "c", "name": "f", **expected}


def test_the_notation_of_arguments_is_one() -> None:
    """What is no object stays as it is."""
    assert plain_json('{"b":1,"a":2}') == plain_json('{ "a": 2, "b": 1 }')
    assert plain_json("{") == "{"
    assert plain_json({"a": 1}) == {"a": 1}


def test_half_a_surrogate_pair_is_replaced() -> None:
    """A log holds no lone surrogates, and whole pairs stay."""
    assert text_of("a\ud83cb") == "a\ufffdb"
    assert text_of("\U0001f319") == "\U0001f319"


def test_messages_are_short_and_hold_no_key() -> None:
    """One line, 300 characters; keys by shape and by value."""
    told = short("no\n sk-abcdef123 Bearer abcdefghijklmnop, not hush; bearer token", ["hush"])

    assert told == "no … …, not …; bearer token"
    assert len(short("x" * 1000)) == 300
