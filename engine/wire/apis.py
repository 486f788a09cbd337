"""Finds the wire format of a request in the table of formats, and reads it.

To add one: a folder like `wire.chat`, and its row here.  Pure.
Rules: CONTRACT.md §16.9.
"""

import json
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.wire.batches import BatchReader, followed, is_of_batch
from refold.engine.wire.chat.format import FORMAT as CHAT
from refold.engine.wire.generate.format import FORMAT as GENERATE
from refold.engine.wire.messages.format import FORMAT as MESSAGES
from refold.engine.wire.parts.exchange import METHOD, OTHER, PLACE, Asked
from refold.engine.wire.parts.format import AskedPaths, Route, WireFormat
from refold.engine.wire.parts.framing import FRAMES, ArrayParser, FrameParser
from refold.engine.wire.parts.kept_answers import body_of
from refold.engine.wire.parts.notation import held, read_json
from refold.engine.wire.parts.reading import (
    BodyReader,
    FailedReader,
    FirstByteReader,
    Reader,
    StreamReader,
)
from refold.engine.wire.parts.remembered import Remembered
from refold.engine.wire.parts.sse import EventParser
from refold.engine.wire.parts.texts import text_of
from refold.engine.wire.responses.format import FORMAT as RESPONSES

FORMATS: Final[dict[str, WireFormat]] = {
    row.name: row for row in (CHAT, RESPONSES, MESSAGES, GENERATE)
}
_NOT_OF_PATHS: Final = re.compile(r"[^\w.:@-]", re.ASCII)
_DEPLOYMENT: Final = "/deployments/"
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
            return _placed(row.asked(found, lists), path_and_query, place.model_in(at))
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


def _placed(asked: Asked, path_and_query: str, model: str | None) -> Asked:
    """Return a request with its path, if that has the model, a deployment or a query."""
    if model is None and "?" not in path_and_query and _DEPLOYMENT not in path_and_query:
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
