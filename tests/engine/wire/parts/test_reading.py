"""Which form an answer comes in, and how it fails: what all interfaces share."""

import json
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import read_request, reader_of
from refold.engine.wire.parts.gathered import Budget, Text
from refold.engine.wire.parts.reading import BODY_BYTES_MAX, Speaker, words_in
from tests.support.api_answers import read
from tests.support.api_bodies import PATHS
from tests.support.loops import for_each

BODY = b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}'
STREAM = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'


_DELTA = '{"type": "content_block_delta", '
EVENTS = {
    "chat": (
        '{"choices": [{"delta": {"content": P}}]}',
        '{"choices": [{"delta": {"role": "assistant", "content": P}}]}',
        '{"choices": [{"delta": {"content": P, "reasoning": Q}}]}',
        '{"choices": [{"delta": {"content": "c", "refusal": P}, "logprobs": null}]}',
        '{"choices": [{"delta": {"content": [P, "a", Q]}}]}',
        '{"choices": [{"index": 1, "delta": {"content": P}, "finish_reason": "stop"}]}',
        '{"choices": [{"delta": {"tool_calls": [{"index": 0, "id": P, "function": {}}]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"id": "i", "function": {"arguments": P}}]}}]}',
        '{"choices": [{"delta": {"tool_calls": [{"function": {"name": P}}]}}], "usage": Q}',
        '{"choices": [{"delta": {"content": "a"}, "finish_reason": P}], "usage": {"n": Q}}',
        '{"choices": [], "error": {"message": P}}',
    ),
    "messages": (
        '{"type": "message_start", "message": {"content": []}}',
        '{"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}',
        '{"type": "content_block_start", "index": 1, "content_block": {"type": P, "input": {}}}',
        _DELTA + '"index": 0, "delta": {"type": "t", "text": P}}',
        _DELTA + '"index": 1, "delta": {"type": "t", "partial_json": P}}',
        _DELTA + '"index": 1, "delta": {"type": "input_json_delta", "partial_json": P}}',
        _DELTA + '"index": 0, "delta": {"type": "citations_delta", "citation": P}}',
        '{"type": "message_delta", "delta": {"stop_reason": P}}',
        '{"type": "message_stop", "text": P}',
    ),
    "responses": (
        '{"type": "response.created", "response": {"id": P}}',
        '{"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}',
        '{"type": "response.output_text.delta", "output_index": 0, "delta": P}',
        '{"output_index": 0, "delta": P}',
        '{"type": "response.output_item.done", "output_index": 0, "item": {"content": P}}',
        '{"type": "response.completed", "response": {"output": [], "status": P}}',
    ),
}
"""What has an effect on an answer, and texts in other places; P and Q are pieces."""
PIECES = st.sampled_from(
    [
        "a",
        "b",
        "",
        ",",
        ", ",
        ":",
        " : ",
        "text",
        "é",
        '"',
        "\\",
        "a\n",
        "\U0001f600",
        '","',
        "[DONE]",
    ]
)
COLONS = st.sampled_from([": ", ":", " : "])
NAMES = st.sampled_from(["", "response.output_text.delta", "other"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[str, list[tuple[str, str]]]:
    """Return an interface, and events by name: some often in a row, some that are no JSON."""
    api = draw(st.sampled_from(sorted(EVENTS)))
    found = []
    for _ in range(draw(st.integers(1, 6))):
        event, colon = draw(st.sampled_from([*EVENTS[api], "[DONE]"])), draw(COLONS)
        for _ in range(draw(st.integers(1, 4))):
            said = event.replace(": ", colon)
            for place in "PQ":
                piece = draw(PIECES)
                plain = json.dumps(piece, ensure_ascii=draw(st.booleans()))
                raw = f'"{piece}"'.replace("\n", "\t")
                said = said.replace(place, draw(st.sampled_from([plain, raw])))
            found.append((draw(NAMES), said))
    return api, found


def told(api: str, events: list[tuple[str, str]]) -> ModelAnswered:
    """Return what a stream of these events says; of an error, its code alone."""
    stream = "".join(f"event: {name}\ndata: {event}\n\n" for name, event in events)
    found = read(api, stream.encode(), streamed=True, sizes=iter([10**9]))
    return attrs.evolve(found, error={"code": (found.error or {}).get("code")})


def content(*pieces: str) -> tuple[str, list[tuple[str, str]]]:
    """Return a stream of chat completions that adds these to a message, as they are."""
    return "chat", [("", f'{{"choices": [{{"delta": {{"content"{piece}}}}}]}}') for piece in pieces]


@pytest.mark.usefixtures("many_times")
@given(stream=streams())
@example(content(':"a"', '::":"', ':":"', ':":"', ' : ":"', ':":"'))
@example(content(':"a"', *(rf':"\u0061"}}, "x": {{"y": "{each}"' for each in "aac")))
@example(content(*[':"a", "refusal": "b"'] * 4))
@example(content(*[':"a"'] * 3, ":5", ':"b"'))
@example(content(':"aa"', ':"aa"', ':"a"', ':"', ':""'))
@example(content(':"a"', ':"a"', ':"\\n"', ':"a", "refusal": "b"', ':"\t"'))
@example(content(':"a"', ':"b"}, "finish_reason": "stop", "x": {"y": "b"'))
def test_events_that_repeat_but_for_a_text_are_read_like_others(
    stream: tuple[str, list[tuple[str, str]]],
) -> None:
    """Like those of which none begins as the one before it."""
    api, events = stream
    unlike = [(name, " " * (at % 2) + event) for at, (name, event) in enumerate(events)]

    assert told(api, events) == told(api, unlike)


class Named(Speaker):
    """A format in which the name says which text grows, and an event with a text may be the end."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = {name: Text(self._budget) for name in "ab"}

    def whole(self, body: dict[str, Any], /) -> None:
        """Take nothing."""

    def _take(self, name: str, event: dict[str, Any], /) -> None:
        self.texts[name].add(event["text"])
        self._is_over = "end" in event

    def _so_far(self) -> None:
        return None


def test_an_event_repeats_one_of_its_name_until_the_end() -> None:
    """No format of ours needs it yet."""
    speaker, ends = Named(), b', "end": 1'
    for name, piece, end in [
        *zip("aabb", "1234", [b""] * 4, strict=True),
        *zip("aa", "56", [ends] * 2, strict=True),
    ]:
        speaker.event(name, b'{"text": "%b"%b}' % (piece.encode(), end))

    assert {name: text.value() for name, text in speaker.texts.items()} == {"a": "125", "b": "34"}


@given(st.lists(PIECES, min_size=3), st.integers(0, 40), st.data())
def test_an_answer_is_cut_where_its_pieces_are_too_long_together(
    pieces: list[str], room: int, data: st.DataObject
) -> None:
    """As where each was added alone, and was looked at after some of them."""
    looks = data.draw(st.lists(st.booleans(), min_size=len(pieces), max_size=len(pieces)))
    speaker, alone = Named(), Text(budget := Budget(room))
    speaker._budget._bytes_max = room
    for piece, is_looked_at in zip(pieces, looks, strict=True):
        speaker.event("a", json.dumps({"text": piece}).encode())
        alone.add(piece)
        if is_looked_at:
            speaker.answered()
            assert speaker.texts["a"].value() == alone.value()
    speaker.settle()

    assert speaker.texts["a"].value() == alone.value()
    assert speaker._budget.truncated() == budget.truncated()


def answered(
    *chunks: bytes, status: int = 200, kind: str = "", stream: bool = False
) -> ModelAnswered:
    body = json.dumps({"messages": [], "stream": stream}).encode()
    reader = reader_of(read_request("POST", PATHS["chat"], body), status, kind)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.answered()


KINDS = ("", "application/json", "Text/Event-Stream; charset=utf-8", "text/plain", "text/html",
         "application/x-ndjson")  # fmt: skip


@pytest.mark.parametrize("begin", [b"", b"\n\n ", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("content", [BODY, STREAM, b": wait\n\n" + STREAM, b"id: 1\n" + STREAM])
def test_the_first_byte_says_how_to_read(content: bytes, begin: bytes) -> None:
    """Servers send both forms with any content type, whichever was asked for."""
    for kind in KINDS:
        for is_stream in (True, False):
            found = answered(begin, content, kind=kind, stream=is_stream)
            alone = answered(*[bytes([each]) for each in begin + content], kind=kind)

            assert found.message == alone.message == {"role": "assistant", "content": "a"}
            assert found.status == alone.status == "ok"


@for_each(
    "status, body, message",
    [
        (429, b'{"error": {"message": "slow  down", "type": "x"}}', "slow down"),
        (400, b'{"error": "bad"}', "bad"),
        (422, b'{"detail": [{"msg": "no"}]}', '[{"msg": "no"}]'),
        (500, b"<html>Oops</html>", "<html>Oops</html>"),
        (529, b'event: error\ndata: {"error": {"message": "busy"}}\n\n', "busy"),
        (502, b"", "no reason given"),
        (500, b"\xff", "\ufffd"),
        (401, b'{"error": {"message": "wrong key sk-abcdef123456"}}', "wrong key \u2026"),
        (302, b"", "no reason given"),
    ],
)
def test_a_status_that_is_no_success_is_an_error(status: int, body: bytes, message: str) -> None:
    """With the reason that the body gives, on one line and without keys."""
    for kind in ("application/json", "text/event-stream"):
        found = answered(body, status=status, kind=kind)

        assert found == ModelAnswered("error", error={"code": f"http_{status}", "message": message})


def test_a_long_reason_is_short() -> None:
    found = answered(*[b"x" * 1000] * 1000, status=500)

    assert len((found.error or {})["message"]) == 300


def test_a_body_that_is_too_large_is_not_read() -> None:
    """Nor kept."""
    chunk = b" " * (1024 * 1024)
    chunks = [chunk] * (BODY_BYTES_MAX // len(chunk) + 1)

    assert (answered(BODY[:-1], *chunks, BODY[-1:]).error or {})["code"] == "malformed"


def test_an_event_that_is_too_large_makes_a_stream_malformed() -> None:
    """What else it says is kept."""
    large = b"data: " + b"x" * (17 * 1024 * 1024) + b"\n\n"

    found = answered(large, STREAM, kind="text/event-stream")

    assert (found.error or {})["code"] == "malformed"
    assert found.message == {"role": "assistant", "content": "a"}


def test_words_are_the_message_or_all_of_it() -> None:
    """However deep it stands."""
    assert words_in({"error": {"message": "a"}}) == "a"
    assert words_in({"message": "a"}) == "a"
    assert words_in({"error": {"code": 1}}) == '{"code": 1}'
    assert words_in(None) == "null"
