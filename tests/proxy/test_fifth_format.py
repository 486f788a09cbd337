"""A wire format is one row: one made up here is recorded, replayed, refused and spelled."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.apis import FORMATS, reader_of
from refold.engine.wire.parts.counts import Counts
from refold.engine.wire.parts.exchange import Asked, asked_with
from refold.engine.wire.parts.format import AskedPaths, Route, SpelledEvent, WireFormat, answer_text
from refold.engine.wire.parts.kept_answers import pieces
from refold.engine.wire.parts.reading import Said, Speaker
from refold.engine.wire.parts.series import Lists, Series
from refold.engine.wire.spelling import spelled
from refold.proxy.http.routes import environment_of, routes_of
from tests.support.proxied import RawServer, answering, data_of, kinds, recorded, replayed, said

PATH = "/words/v1/tell"
WHOLE = b'{"said": "grey sea", "count": {"in": 7, "out": 2}}'
STREAMED = (
    b'data: {"more": "grey "}\n\ndata: {"more": "sea"}\n\ndata: {"count": {"in": 7, "out": 2}}\n\n'
)


def _asked(body: dict[str, Any], lists: Lists) -> Asked:
    rest = dict(body)
    return asked_with("words", rest, Series([{"role": "user", "content": rest.pop("tell")}]), lists)


class _Words(Speaker):
    """`{said, count}`, or a stream of `{more}` that ends in `{count}`."""

    def __init__(self) -> None:
        super().__init__()
        self._told = ""
        self._count: Any = None

    def whole(self, body: dict[str, Any], /) -> None:
        self._told, self._count = body["said"], body["count"]

    def _take(self, _name: str, event: dict[str, Any], /) -> None:
        self._told += event.get("more", "")
        self._count = event.get("count")

    def _is_cut(self) -> bool:
        return False

    def _so_far(self) -> Said:
        message = {"role": "assistant", "content": self._told}
        return message, Counts(input=("in",), output=("out",)).usage(self._count), ""


def _body(_asked: Asked, answered: ModelAnswered) -> dict[str, Any]:
    usage = answered.usage
    count = {"in": usage.input_tokens, "out": usage.output_tokens}
    return {"said": answer_text(answered), "count": count}


def _events(asked: Asked, answered: ModelAnswered) -> Iterator[SpelledEvent]:
    whole = _body(asked, answered)
    yield "", {"more": whole["said"]}
    yield "", {"count": whole["count"]}


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> WireFormat:
    """The row, in the table."""
    row = WireFormat(
        name="words",
        route=Route("words", ("WORDS_BASE_URL",), "http://127.0.0.1:9", key="WORDS_KEY"),
        places=(AskedPaths(re.compile(r"/tell\Z")),),
        is_shaped=lambda body, _lists: isinstance(body.get("tell"), str),
        asked=_asked,
        speaker=lambda _asked: _Words(),
        body=_body,
        events=_events,
        refused=lambda status, message: {"refused": [status, message]},
    )
    monkeypatch.setitem(FORMATS, row.name, row)
    return row


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_it_is_recorded_and_replayed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_streamed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """As a conversation with its usage, and served byte for byte."""
    log = tmp_path / "run.jsonl"
    answer, kind = (STREAMED, "text/event-stream") if is_streamed else (WHOLE, "application/json")
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(answer)}\r\n\r\n"
    body = {"tell": "of the sea", "model": "m", "stream": is_streamed}

    with RawServer(answering(head.encode(), answer)) as server:
        monkeypatch.setenv("WORDS_BASE_URL", server.url)
        with recorded(log, server.url) as base:
            first = said(base, body, path=PATH)
    with replayed(log) as (base, desk):
        again = said(base, body, path=PATH)
        other = said(base, {**body, "tell": "of the sky"}, path=PATH)

    assert first == again == (200, answer)
    assert server.heads[0].startswith(b"POST /v1/tell ")
    (asked,) = data_of(log, "model.asked")
    assert (asked["model"], asked["parameters"]["api"]) == ("m", "words")
    assert asked["added"] == [{"role": "user", "content": "of the sea"}]
    (answered,) = data_of(log, "model.answered")
    assert answered["message"]["content"] == "grey sea"
    assert (answered["usage"]["input_tokens"], answered["usage"]["output_tokens"]) == (7, 2)
    assert "x-refold.wire" in kinds(log)
    assert (desk.served, len(desk.matcher.misses)) == (1, 1)
    assert other[0] == 400
    assert json.loads(other[1])["refused"][0] == 400


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_an_edited_answer_is_spelled_in_it(is_streamed: bool) -> None:  # noqa: FBT001 - a parameter
    asked = Asked(api="words", model="m", parameters={"stream": is_streamed})
    edited = {"role": "assistant", "content": "blue sea"}

    part = spelled(asked, ModelAnswered("ok", edited, Usage(input_tokens=7, output_tokens=2)))

    reader = reader_of(asked, 200, part["headers"]["content-type"])
    for _, chunk in pieces([part]):
        reader.feed(chunk)
    found = reader.answered()
    assert found.message == edited
    assert (found.usage.input_tokens, found.usage.output_tokens) == (7, 2)


def test_its_clients_are_led_to_the_proxy() -> None:
    led = environment_of(routes_of([], {}), "http://p")

    assert led["WORDS_BASE_URL"] == "http://p/words"
