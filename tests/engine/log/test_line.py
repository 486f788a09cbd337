"""The bytes of a line (CONTRACT.md §3)."""

import json

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.engine.errors import NotCanonical
from refold.engine.log.line import (
    NO_HASH,
    data_of,
    encode_meta,
    hash_of,
    parts_of,
    plain,
    stored_hash,
    trailer,
)
from tests.support.loops import for_each

BODY = (
    b'{"seq":1,"kind":"note.added","call":"0#1","data":{"text":"a"},'
    b'"meta":{"wall_us":1,"mono_us":2}'
)
LINE = BODY + trailer(b"a" * 64, BODY)


def test_a_first_line_hashes_under_its_own_domain() -> None:
    """No later line can pass for a header, nor a header for a later line."""
    assert hash_of(NO_HASH, BODY) != hash_of(b"a" * 64, BODY)
    assert hash_of(NO_HASH, b"a" * 64 + BODY) != hash_of(b"a" * 64, BODY)


def test_the_hash_stands_at_a_fixed_place() -> None:
    """It is found by slicing; anything else at the end of a line is no hash."""
    assert stored_hash(LINE) == hash_of(b"a" * 64, BODY).encode()
    assert stored_hash(LINE[:-1]) is None
    assert stored_hash(LINE[:-4] + b'G"}\n') is None


def test_data_is_cut_out_by_text_though_it_holds_the_same_text() -> None:
    """Quotes within strings are escaped, so no value can forge the cut."""
    evil = b'{"text":",\\"meta\\":{","data":{"data":1,"meta":{"wall_us":3}}}'
    body = BODY.replace(b'{"text":"a"}', evil)

    assert data_of(body + trailer(b"a" * 64, body)) == evil


@for_each(
    "old, new",
    [
        (b'"seq":1', b'"seq":01'),
        (b'"seq":1', b'"seq": 1'),
        (b'"kind":"note.added"', b'"kind":"note.added","kind":"x"'),
        (b'"call":"0#1"', b'"call":"0\\u00231"'),
        (b'"call":"0#1"', b'"cause":1,"call":"0#1"'),
        (b'"mono_us":2', b'"mono_us":2,"x":{"y":1}'),
        (b'"mono_us":2', b'"mono_us":2,"x":"a b"'),
        (b'"wall_us":1,', b""),
        (b',"meta":{"wall_us":1,"mono_us":2}', b""),
        (BODY[BODY.index(b',"data":') : BODY.index(b'"wall_us"')], b""),
        (BODY[BODY.index(b',"data":') : BODY.index(b',"meta":')], b""),
    ],
)
def test_another_form_is_not_well_formed(old: bytes, new: bytes) -> None:
    """Member order, spacing and meta are exactly as the writer makes them."""
    body = BODY.replace(old, new)

    assert parts_of([LINE])
    assert body != BODY
    assert parts_of([LINE, body + trailer(b"a" * 64, body)]) is None


@for_each(
    "meta",
    [
        {"a": "b c"}, {"a": 1.5}, {"A": 1}, {"a": True}, {"a": 2**63}, {"a": -(2**63) - 1},
        {'a","b': 1}, {"a": "é"},
    ],
)  # fmt: skip
def test_meta_holds_integers_and_plain_words_only(meta: dict[str, int | str]) -> None:
    """Else the last `,"meta":{` of a line would not surely be its own."""
    with pytest.raises(NotCanonical):
        encode_meta(meta)


def test_meta_holds_each_integer_of_64_bits() -> None:
    """Clocks of any epoch."""
    assert encode_meta({"a": -(2**63), "b": 2**63 - 1}) == b',"a":%d,"b":%d' % (-(2**63), 2**63 - 1)


def test_any_name_can_be_made_plain() -> None:
    """Hosts are named freely; `meta` takes a plain form."""
    assert plain("büro 1") == "b-ro-1"
    assert encode_meta({"host": plain("x" * 500)}) == b',"host":"%b"' % (b"x" * 128)


_BITS = st.sampled_from(
    [
        *(
            b'"',
            b"{",
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"0",
            b"-",
            b"1",
            b" ",
            b"\\",
            b"\xff",
            b"null",
        ),
        *(b',"x":1', b'"data":{},', b',"meta":{"wall_us":1,"mono_us":2}', b',"cause":9'),
        *(b'"seq":1,', b'"hash":"",', b"tool.called", b'"call":"0#2",', b"[" * 1030 + b"]" * 1030),
    ]
)
_EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), _BITS | st.just(b"")), max_size=3)


def _edited(body: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for part, cut, bit in edits:
        at = int(part * len(body))
        body = body[:at] + bit + body[at + cut :]
    return body + trailer(b"a" * 64, body)


def _names(line: bytes) -> list[str]:
    """Return the names of a line's members, also of one that is there twice."""
    try:
        return [name for name, _ in json.loads(line, object_pairs_hook=list)]
    except (ValueError, RecursionError):
        return []


@pytest.mark.usefixtures("many_times")
@given(st.lists(_EDITS, min_size=1, max_size=4))
@example([[], [(0.99, 0, b"0")]])
@example([[(1.0, 0, b',"meta":{"wall_us":1,"mono_us":2}')]])
@example([[(BODY.index(b',"meta"') / len(BODY), 0, b',"x":1')]])
def test_parts_are_those_that_json_finds(edits: list[list[tuple[float, int, bytes]]]) -> None:
    """Of one line and of several, a line has parts if a JSON parser finds its members in order."""
    lines = [_edited(BODY, each) for each in edits]
    found = [parts_of([line]) for line in lines]

    assert parts_of(lines) == (None if None in found else [each[0] for each in found if each])
    for line, parts in zip(lines, found, strict=True):
        if parts is None:
            continue
        kind, call, cause, data = parts[0]
        try:
            row = orjson.loads(line)
        except ValueError:
            row = {}
        expected = {"kind": kind, "call": call, "cause": cause}
        expected = {name: value for name, value in expected.items() if value is not None}
        try:
            whole = {**expected, "data": orjson.loads(data)}
        except ValueError:
            assert _names(line) != ["seq", *expected, "data", "meta", "hash"]
        else:
            assert row
            assert {name: row[name] for name in whole} == whole
            assert list(row) == ["seq", *whole, "meta", "hash"]
