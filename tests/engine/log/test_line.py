"""The bytes of a line (CONTRACT.md §3)."""

import pytest

from refold.engine.errors import NotCanonical
from refold.engine.log.line import (
    NO_HASH,
    data_of,
    encode_meta,
    hash_of,
    is_well_formed,
    plain,
    stored_hash,
    trailer,
)

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


@pytest.mark.parametrize(
    ("old", "new"),
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
    ],
)
def test_another_form_is_not_well_formed(old: bytes, new: bytes) -> None:
    """Member order, spacing and meta are exactly as the writer makes them."""
    body = BODY.replace(old, new)

    assert is_well_formed(LINE)
    assert body != BODY
    assert not is_well_formed(body + trailer(b"a" * 64, body))


@pytest.mark.parametrize(
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
