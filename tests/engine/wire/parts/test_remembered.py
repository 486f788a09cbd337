"""A body that goes on from an earlier one is read from there on, and says what it says alone."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.encoding.canonical import encode_sorted
from refold.engine.wire.apis import read_request
from refold.engine.wire.parts.notation import object_in
from refold.engine.wire.parts.remembered import Remembered
from tests.support.api_bodies import BODIES, PATHS, changed
from tests.support.loops import for_each

MEMBERS = {"chat": "messages", "messages": "messages", "responses": "input"}


def talk(count: int, **more: Any) -> bytes:
    messages = [{"role": "user", "content": f"Question {at}"} for at in range(count)]
    return json.dumps({"model": "m", "messages": messages, **more}).encode()


@st.composite
def conversations(draw: st.DrawFn, api: str) -> list[bytes]:
    """Return bodies that go on from each other, or from earlier ones, in some notation."""
    bodies = [draw(BODIES[api])]
    for _ in range(draw(st.integers(1, 5))):
        before, other = draw(st.sampled_from(bodies)), draw(BODIES[api])
        name = MEMBERS[api]
        body = {**before, **draw(st.sampled_from([{}, {"user": "x"}]))}
        if isinstance(before.get(name), list) and isinstance(other.get(name), list):
            keep = draw(st.integers(max(0, len(before[name]) - 1), len(before[name])))
            body[name] = before[name][:keep] + other[name]
        bodies.append(draw(st.one_of(st.just(body), changed(body))))
    spaces = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")]))
    return [json.dumps(body, separators=spaces).encode() for body in bodies]


@pytest.mark.parametrize("api", BODIES)
@pytest.mark.usefixtures("many_times")
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_conversation_reads_as_if_each_request_were_the_first(
    api: str, data: st.DataObject
) -> None:
    """Whatever it repeats, and whatever has changed in it."""
    remembered = Remembered()
    for body in data.draw(conversations(api)):
        found = read_request("POST", PATHS[api], body, remembered)
        alone = read_request("POST", PATHS[api], body)

        assert encode_sorted(found.as_json()) == encode_sorted(alone.as_json())
        assert found.tools_digest() == alone.tools_digest()
        assert found.text_series().values == list(found.messages)


TEXTS = st.text(alphabet='{}[]":, \n\\amesginput10.-eé\U0001f600', max_size=40)


@pytest.mark.usefixtures("many_times")
@given(st.lists(TEXTS, max_size=4), st.data())
def test_what_is_no_json_is_none(texts: list[str], data: st.DataObject) -> None:
    """Wherever it leaves what was read before."""
    whole = talk(3, tools=[{"name": "a"}]).decode()
    remembered = Remembered()
    assert remembered.object_in(whole.encode(), "messages")[0] == object_in(whole)
    for text in texts:
        at, end = sorted(data.draw(st.integers(0, len(whole))) for _ in range(2))
        body = (whole[:at] + text + whole[end:]).encode()

        assert remembered.object_in(body, "messages")[0] == object_in(body)


@for_each(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"messages": []}',
        b'{"messages": [1]}',
        b'{"messages": [12]}',
        b'{"messages": [1, 2], "messages": []}',
        b'{"input": [1], "input": 1}',
        b'{"messages": [{"a": 1, "a": 2}]}',
        b'{"messages": 1, "input": [[1]]}',
        b'{"messages": [1],}',
        b'{"messages": [1,]}',
        b'{"messages": [1] "a": 1}',
        b'{"messages": [1]} x',
        b' \n{ "messages" : [ 1 , {} ] } ',
        b'\xef\xbb\xbf{"messages": [1]}',
        b'{"messages": ["\xff"]}',
        b'{"messages": [NaN, 1e400, 0.1000000000000000055]}',
        b'{"messages": [' + b"[" * 497 + b"]" * 497 + b"]}",
        b'{"messages": [' + b"[" * 498 + b"]" * 498 + b"]}",
        b'{"messages": [' + b"[" * 498 + b"1" + b"]" * 498 + b"]}",
        b'{"messages": [1], "a": ' + b"[" * 499 + b"]" * 499 + b"}",
        b'{"messages": [1], "a": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"messages": [' + b"[" * 9999 + b"]" * 9999 + b"]}",
    ],
)
def test_a_body_is_what_it_would_be_anew(body: bytes) -> None:
    """At its first reading and at its second, after one that begins alike."""
    remembered = Remembered()
    remembered.object_in(b'{"messages": [1]}', "messages")

    for _ in range(2):
        for name in ("messages", "input", ""):
            assert repr(remembered.object_in(body, name)[0]) == repr(object_in(body))


def test_items_that_come_again_are_the_same_objects() -> None:
    """And only what is new is read."""
    remembered = Remembered()
    before, _ = remembered.object_in(talk(20), "messages")
    after, lists = remembered.object_in(talk(21), "messages")

    assert before is not None
    assert after is not None
    pairs = zip(before["messages"], after["messages"], strict=False)
    assert all(one is other for one, other in pairs)
    assert lists["messages"].shared == 20


def test_two_conversations_that_begin_alike_do_not_disturb_each_other() -> None:
    """The one with which more is shared is gone on from."""
    remembered = Remembered()
    for count in range(1, 12):
        for each in (talk(count), talk(count).replace(b"Question 1", b"Other 1")):
            _, lists = remembered.object_in(each, "messages")

    assert lists["messages"].shared == 10


def test_what_changes_near_the_end_is_read_again_from_there() -> None:
    """As marks of a cache do, which move on with each request."""
    remembered = Remembered()
    shared = []
    for count in range(10, 20):
        marked = talk(count).replace(
            f"Question {count - 1}".encode(), f"Question {count - 1} (cached)".encode()
        )
        shared.append(remembered.object_in(marked, "messages")[1]["messages"].shared)

    assert shared == [0, *range(9, 18)]


def test_tools_that_come_again_are_the_same_series() -> None:
    """So their digest is made once."""
    remembered = Remembered()
    tools = [{"name": "a"}]
    first, second, third = (
        remembered.object_in(body, "messages")[1]["tools"]
        for body in (talk(1, tools=tools), talk(2, tools=tools), talk(2, tools=[]))
    )

    assert first is second
    assert third is not second


def test_what_is_remembered_is_bounded() -> None:
    """The oldest is forgotten; a body too large for it is read and not kept."""
    remembered = Remembered(characters_max=3 * len(talk(20)))
    for letter in "abcdef":
        body = talk(20).replace(b"Question", letter.encode())
        remembered.object_in(body, "messages")

    again = remembered.object_in(talk(20).replace(b"Question", b"a"), "messages")[1]
    newest = remembered.object_in(talk(20).replace(b"Question", b"f"), "messages")[1]
    large = remembered.object_in(talk(40), "messages")[1]

    assert again["messages"].shared == 0
    assert newest["messages"].shared == 20
    assert large == {}
