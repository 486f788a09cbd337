"""Finds the wire format of a request in the table of formats, and reads it.

To add one: a folder like `wire.chat`, and its row here.

A batch is many requests in one.  It is asked with a POST; a GET says how far it is, and names the
file of its answers, if that is elsewhere (OpenAI).  The answers are lines of JSON, of Anthropic's
messages, and OpenAI's chat completions and responses.  Pure.  Rules: CONTRACT.md §16.9, §16.10.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.chat.format import FORMAT as CHAT
from refold.engine.wire.generate.format import FORMAT as GENERATE
from refold.engine.wire.messages.format import FORMAT as MESSAGES
from refold.engine.wire.parts.exchange import LATER, METHOD, OTHER, PLACE, Asked
from refold.engine.wire.parts.format import AskedPaths, Route, WireFormat
from refold.engine.wire.parts.framing import FRAMES, ArrayParser, FrameParser
from refold.engine.wire.parts.gathered import Budget, Text
from refold.engine.wire.parts.kept_answers import body_of
from refold.engine.wire.parts.notation import held, object_in, read_json, text_of
from refold.engine.wire.parts.reading import (
    BODY_BYTES_MAX,
    BodyReader,
    FailedReader,
    FirstByteReader,
    Reader,
    Speaker,
    StreamReader,
)
from refold.engine.wire.parts.remembered import Remembered
from refold.engine.wire.parts.sse import EventParser
from refold.engine.wire.responses.format import FORMAT as RESPONSES

FORMATS: Final[dict[str, WireFormat]] = {
    row.name: row for row in (CHAT, RESPONSES, MESSAGES, GENERATE)
}
_NOT_OF_PATHS: Final = re.compile(r"[^\w.:@-]", re.ASCII)
_SUCCESS: Final = range(200, 300)
_FAILED: Final = 400
_EVENTS: Final = "text/event-stream"
_BOUNDARY: Final = re.compile(rb"--([^\r\n]{1,70})\r?\n")


def spoken(method: str, path: str) -> tuple[WireFormat, AskedPaths, re.Match[str]] | None:
    """Return the format that a request speaks, by its method and the end of its path."""
    plain = path.partition("?")[0].rstrip("/")
    for row in FORMATS.values():
        for place in row.places:
            is_method = place.method == method.upper()
            if is_method and (found := place.ends.search(plain)) is not None:
                return row, place, found
    return None


def read_request(
    method: str,
    path_and_query: str,
    body: bytes,
    remembered: Remembered | None = None,
) -> Asked:
    """Parse a request; never raises. Parts in `remembered` are not parsed again.

    A request without a known format, or with an invalid body, is `other`: {method, path, body}, the
    body as a JSON object or list, else as text, else as {"base64": …}; null for none.
    """
    spoken_here = spoken(method, path_and_query)
    if spoken_here is not None:
        row, place, at = spoken_here
        if at.groupdict().get("id") and not body:
            return _fetching(row.name, method.upper(), path_and_query, at)
        found, lists = (remembered or Remembered(0)).object_in(body, row.conversation)
        is_shaped = found is not None and PLACE not in found and row.is_shaped(found, lists)
        if found is not None and is_shaped and (not place.needs or place.needs in found):
            found, lists = row.apart(found, lists)
            return _placed(row.asked(found, lists), path_and_query, at, place.model_in(at))
    body = _without_boundary(body)
    parameters = {"method": text_of(method), "path": path_and_query, "body": _body(body)}
    return Asked(api=OTHER, model="", parameters=held(parameters), follows=followed(path_and_query))


def _fetching(api: str, method: str, path_and_query: str, at: re.Match[str]) -> Asked:
    """Return a request for an answer by its id, which is a parameter and not part of the path."""
    start, end = at.span("id")
    place = f"{path_and_query[:start]}:id{path_and_query[end:]}"
    found = {METHOD: method, PLACE: place, "id": at["id"]}
    return Asked(api=api, model="", parameters=held(found), follows=text_of(at["id"]))


def with_model(method: str, path_and_query: str, body: bytes, model: str) -> tuple[str, bytes]:
    """Return the path and the body of a request with a different model of the same format.

    A request without a format, or whose body is not a JSON object, is unchanged.
    """
    spoken_here = spoken(method, path_and_query)
    if spoken_here is None:
        return path_and_query, body
    at = spoken_here[2]
    if at.groupdict().get("model"):
        start, end = at.span("model")
        name = _NOT_OF_PATHS.sub(lambda found: f"%{ord(found[0]):02X}", model)
        return f"{path_and_query[:start]}{name}{path_and_query[end:]}", body
    try:
        told = json.loads(body)
    except ValueError:
        return path_and_query, body
    if not isinstance(told, dict):
        return path_and_query, body
    return path_and_query, json.dumps({**told, "model": model}, ensure_ascii=False).encode()


def _placed(asked: Asked, path_and_query: str, at: re.Match[str], model: str | None) -> Asked:
    """Return a request with its path, unless that only names the format and its version."""
    if model is None and path_and_query in (at[0], f"/v1{at[0]}"):
        return asked
    parameters = {**asked.parameters, PLACE: held(path_and_query)}
    return attrs.evolve(asked, model=asked.model or model or "", parameters=parameters)


def _without_boundary(body: bytes) -> bytes:
    """Return a multipart body with one boundary for all: clients draw another for each request."""
    found = _BOUNDARY.match(body)
    if found is None or not body.rstrip(b"\r\n").endswith(b"--" + found[1] + b"--"):
        return body
    return re.sub(rb"(?m)^--" + re.escape(found[1]), b"--boundary", body)


def _body(body: bytes) -> Json:
    if not body:
        return None
    kept = body_of(body)
    if not isinstance(text := kept.get("text"), str):
        return kept
    try:
        value = read_json(text)
    except ValueError:
        return text
    is_kept = isinstance(value, list) or (isinstance(value, dict) and value.keys() != {"base64"})
    return value if is_kept else text


def reader_of(asked: Asked, status: int, content_type: str) -> Reader:
    """Return a reader for the bytes of the answer to `asked`.

    The first byte determines whether it is a JSON body or a stream; frames are not text, so the
    content type names them.
    """
    row = FORMATS.get(asked.api)
    if row is None:
        if status >= _FAILED:
            return FailedReader(status)
        is_read = is_of_batch(str(asked.parameters.get("path", "")))
        return BatchReader(lambda name: FORMATS[name].speaker(asked)) if is_read else Reader()
    if status not in _SUCCESS:
        return FailedReader(status)
    framing = row.framing(asked.place)
    kind = content_type.partition(";")[0].strip().lower()
    if kind == FRAMES or (framing == "frames" and not kind):
        return StreamReader(row.speaker(asked), FrameParser())

    def stream() -> Reader:
        return StreamReader(row.speaker(asked), EventParser())

    def body() -> Reader:
        if asked.streamed and framing == "array":
            return StreamReader(row.speaker(asked), ArrayParser())
        return BodyReader(partial(row.speaker, asked))

    return FirstByteReader(body, stream, is_stream=asked.streamed or kind == _EVENTS)


def reader_of_part(asked: Asked, part: Mapping[str, Any]) -> Reader:
    """Return what reads the answer to `asked` again, by the first part that is kept of it."""
    return reader_of(asked, part["status"], part["headers"].get("content-type", ""))


def known_routes() -> tuple[Route, ...]:
    """Return the servers of all formats that programs are led away from, each once."""
    first = [row.route for row in FORMATS.values()]
    others = [route for row in FORMATS.values() for route in row.elsewhere]
    return tuple({route.name: route for route in (*first, *others)}.values())


def provider_of(asked: Asked) -> str:
    """Return the provider whose prices apply to a request; empty if unknown."""
    found = spoken("POST", asked.place)
    if found is not None and found[1].provider:
        return found[1].provider
    return FORMATS[asked.api].route.name if asked.api in FORMATS else ""


_ASKED: Final = re.compile(r"/batches\Z")
_FETCHED: Final = re.compile(
    r"/batches/(?P<id>[^/]+)(?:/results|/cancel)?\Z|/files/(?P<file>[^/]+)/content\Z"
)
_FORMATS: Final = {"message": "messages", "chat.completion": "chat", "response": "responses"}
"""By the member `type` or `object` of an answer: its format."""
_BATCH_BYTES_MAX: Final = 1024 * 1024
"""Of a body that says how far a batch is."""
_ENDED: Final = {"cancelled", "expired", "failed", "completed"}
"""States of a batch of OpenAI at which no more answers come; they may be in a file."""


def followed(path: str) -> str:
    """Return the id of the batch, or of the file of answers, that a path asks for; else empty."""
    found = _FETCHED.search(path.partition("?")[0].rstrip("/"))
    return text_of(found["id"] or found["file"]) if found is not None else ""


def is_of_batch(path: str) -> bool:
    """Return whether a request makes a batch, or asks for one or its answers."""
    plain = path.partition("?")[0].rstrip("/")
    return bool(_ASKED.search(plain) or _FETCHED.search(plain))


class BatchReader(Reader):
    """Reads how far a batch is, or its answers; any other answer passes unread."""

    def __init__(self, speaker: Callable[[str], Speaker]) -> None:
        """Take what reads an answer in a format, by its name."""
        self._speaker = speaker
        self._held = bytearray()
        self._usage = Usage()
        self._budget = Budget()
        self._text = Text(self._budget)
        self._is_lines: bool | None = None
        """Whether the answer is lines of answers; `None` until the first line is whole."""

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes."""
        if self._is_lines is False and len(self._held) + len(chunk) > _BATCH_BYTES_MAX:
            self._held.clear()
            return
        self._held += chunk
        if self._is_lines is False or (b"\n" not in chunk and len(self._held) <= BODY_BYTES_MAX):
            return
        *lines, rest = bytes(self._held).split(b"\n")
        if self._is_lines is None:
            self._is_lines = bool(lines) and bool(_answer_in(lines[0]))
        if self._is_lines:
            for line in lines:
                self._line(line)
            self._held = bytearray(rest)

    def _line(self, line: bytes) -> bool:
        """Take an answer; return whether the line is one, or the failure of one."""
        found = _answer_in(line)
        format_of = _FORMATS.get(text_of(found.get("type") or found.get("object")))
        if format_of is not None:
            speaker = self._speaker(format_of)
            speaker.whole(found)
            said = speaker.answered()
            self._usage = self._usage.plus(said.usage)
            content = (said.message or {}).get("content")
            self._text.add(f"{content}\n" if isinstance(content, str) and content else "")
        return bool(found)

    def answered(self) -> ModelAnswered:
        """Return the answers' texts and tokens, or how far the batch is."""
        if self._is_lines is not False and self._line(bytes(self._held)):
            self._is_lines = True
            self._held.clear()
        if self._is_lines:
            message: dict[str, Json] = {"role": "assistant", "content": self._text.value()}
            if (truncated := self._budget.truncated()) is not None:
                message["truncated"] = dict(truncated)
            return ModelAnswered("ok", message if message["content"] else None, self._usage, "stop")
        batch = object_in(bytes(self._held)) or {}
        if "batch" not in text_of(batch.get("type") or batch.get("object")):
            return ModelAnswered("ok")
        file = text_of(batch.get("output_file_id"))
        self.answer_id = file or text_of(batch.get("id"))
        status = text_of(batch.get("status"))
        is_over = status in _ENDED and not file
        return ModelAnswered("ok", stop_reason=status if is_over else LATER[1])


def _answer_in(line: bytes) -> dict[str, Any]:
    """Return the answer, or the failure, in a line of a batch's answers; empty for neither."""
    found = object_in(line) or {}
    if "custom_id" not in found:
        return {}
    return next((each for each in _inside(found) if isinstance(each, dict)), found)


def _inside(line: dict[str, Any]) -> Iterator[Any]:
    for outer, inner in (("result", "message"), ("response", "body")):
        if isinstance(line.get(outer), dict):
            yield line[outer].get(inner)
