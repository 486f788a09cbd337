"""Reads answers in any form, and describes their failures.

A reader uses the status and the first byte to choose between an error, a JSON body and a stream,
and passes the content to a `Speaker`, which decodes the interface. Pure. Rules: CONTRACT.md §16.10.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

import attrs
import orjson

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.parts.framing import ArrayParser, FrameParser
from refold.engine.wire.parts.gathered import Budget, Text
from refold.engine.wire.parts.notation import json_text, object_in, short, text_of
from refold.engine.wire.parts.sse import EventParser

BODY_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of an answer that is not streamed; a larger one is not read."""

_ERROR_BYTES_MAX: Final = 64 * 1024
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
"""Bytes before the first one of a body or a stream: white space, and a byte order mark."""
_FIELDS: Final = b"deir:"
"""First bytes of a stream's fields (`data`, `event`, `id`, `retry`) and comments; JSON has none."""
_EVENT_DATA: Final = re.compile(rb"(?m)^data:[ ]?(.*)$")


Said = tuple[dict[str, Any] | None, Usage, str]
"""The message of an answer, `None` for none; its usage; its stop reason, in neutral terms."""


@attrs.define
class FirstFault:
    """The reason why an answer is invalid; the first counts."""

    code: str = ""
    message: str = ""

    def found(self, code: str, message: str) -> None:
        """Take note of a reason."""
        if not self.code:
            self.code, self.message = code, short(message)


@attrs.frozen
class _Like:
    """An event whose only effect was that a text grew, without the piece of the text."""

    name: str
    head: bytes
    tail: bytes
    text: Text
    pieces: list[str] = attrs.field(factory=list)
    """Those of later events, which the text has not got yet: together, they take half the time."""

    def grows(self, name: str, data: bytes) -> bool:
        """Let the text grow if an event differs in the piece alone; return whether it does."""
        if name != self.name or not (data.startswith(self.head) and data.endswith(self.tail)):
            return False
        try:
            piece = orjson.loads(data[len(self.head) : -len(self.tail)])
        except ValueError:
            return False
        if is_text := isinstance(piece, str):
            self.pieces.append(piece)
        return is_text


def _like(name: str, data: bytes, text: Text, piece: str) -> _Like | None:
    """Return an event without the piece by which `text` grew; `None` if its place is not certain.

    Without backslashes, each text is in `data` as it is, so the only `"piece"` is the one.
    """
    quoted = b'"%b"' % piece.encode(errors="replace")
    if b"\\" in data or data.find(quoted) != data.rfind(quoted):
        return None
    head, _, tail = data.partition(quoted)
    return _Like(name, head, tail, text)


class Speaker(ABC):
    """Decodes one answer in one wire format."""

    unit = "an event"
    """The unit of a stream."""
    holds = "content"
    """The minimum content of an answer."""

    is_over_when_done: bool | None = None
    """Whether the event `[DONE]` ends a stream; `None` if it is none of the format."""

    answer_id = ""
    """The id that a later request may continue (`Asked.follows`); empty for none."""

    def __init__(self) -> None:
        self.fault = FirstFault()
        self._budget = Budget()
        self.is_over = False
        self._like: _Like | None = None

    @abstractmethod
    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed."""

    @abstractmethod
    def _take(self, name: str, event: dict[str, Any], /) -> None:
        """Take one event of a stream."""

    @abstractmethod
    def _so_far(self) -> Said | None:
        """Return the answer so far, or its usage without a message; `None` for neither."""

    def _is_answer(self, said: Said) -> bool:
        """Return whether a required part is there."""
        return said[0] is not None

    def _is_cut(self) -> bool:
        """Return whether more was to come."""
        return not self.is_over

    def event(self, name: str, data: bytes, /) -> None:
        """Take one event of a stream, as bytes; events after the end are ignored."""
        if self.is_over or (self._like is not None and self._like.grows(name, data)):
            return
        self.settle()
        event, asked, self._like = object_in(data), self._budget.asked, None
        if event is not None:
            self._take(name, event)
            if self._budget.grown is not None and self._budget.asked == asked + 1:
                self._like = _like(name, data, *self._budget.grown)
        elif self.is_over_when_done is None or data.strip() != b"[DONE]":
            self.fault.found("malformed", f"{self.unit} is no JSON object: {data[:80]!r}")
        else:
            self.is_over = self.is_over_when_done

    def settle(self) -> None:
        """Give a text the pieces that came for it."""
        if self._like is not None and self._like.pieces:
            self._like.text.add("".join(self._like.pieces))
            self._like.pieces.clear()

    def answered(self) -> ModelAnswered:
        """Return the answer so far; more may come."""
        self.settle()
        fault = attrs.evolve(self.fault)
        if self._is_cut():
            fault.found("cut", "the stream ends before its end")
        said = self._so_far()
        if said is None or not self._is_answer(said):
            fault.found("malformed", f"the answer holds no {self.holds}")
        message, usage, stop = said or (None, Usage(), "")
        if message is not None and "tool_calls" in message and stop in ("", "stop"):
            stop = "tool_calls"
        if fault.code:
            return ModelAnswered("error", message, usage, stop, attrs.asdict(fault))
        return ModelAnswered("ok", message, usage, stop or "stop")

    def _marked(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message, marked if it was truncated."""
        truncated = self._budget.truncated()
        return {**message, "truncated": truncated} if truncated else message


class Reader:
    """Reads one answer while it passes, in bytes as they come; this one reads nothing of it."""

    answer_id = ""
    """The id that a later request may continue, as found by `answered`; empty for none."""
    is_over = False
    """Whether the last event of a stream has come, as found by `answered`."""

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes; never raises."""

    def answered(self) -> ModelAnswered:
        """Return the answer so far; after the last byte, the whole answer. Never raises.

        An answer that cannot be read is an error with the code `malformed`.
        """
        return ModelAnswered("ok")

    def broken(self) -> ModelAnswered:
        """Return the answer of a connection that broke: `cut`, unless its last event had come."""
        said = self.answered()
        if self.is_over or (said.error or {}).get("code", "malformed") != "malformed":
            return said
        error = {"code": "cut", "message": "the connection broke before the end of the answer"}
        return attrs.evolve(said, status="error", error=error)


class StreamReader(Reader):
    """Reads a stream of events."""

    def __init__(self, speaker: Speaker, events: EventParser | FrameParser | ArrayParser) -> None:
        self._speaker = speaker
        self._events = events

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes."""
        for event in self._events.feed(chunk):
            if event.is_given_up:
                what = "an event of the stream is too large, or broken"
                self._speaker.fault.found("malformed", what)
            elif event.data:
                self._speaker.event(event.name, event.data)
        self._speaker.settle()

    def answered(self) -> ModelAnswered:
        """Return the answer so far."""
        self.answer_id, self.is_over = self._speaker.answer_id, self._speaker.is_over
        return self._speaker.answered()


class BodyReader(Reader):
    """Reads a JSON body."""

    def __init__(self, speaker: Callable[[], Speaker]) -> None:
        self._speaker = speaker
        self._body = bytearray()
        self._is_too_large = False

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes."""
        if self._is_too_large or len(self._body) + len(chunk) > BODY_BYTES_MAX:
            self._is_too_large = True
            self._body.clear()
        else:
            self._body += chunk

    def answered(self) -> ModelAnswered:
        """Return the body's answer."""
        speaker = self._speaker()
        body = object_in(bytes(self._body))
        if self._is_too_large:
            speaker.fault.found("malformed", f"the answer has more than {BODY_BYTES_MAX} bytes")
        elif body is None:
            start = bytes(self._body[:80])
            speaker.fault.found("malformed", f"the answer is no JSON object: {start!r}")
        else:
            speaker.whole(body)
        self.answer_id = speaker.answer_id
        return speaker.answered()


class FirstByteReader(Reader):
    """Reads a JSON body or a stream, by the first byte: servers send both as any content type."""

    def __init__(
        self, body: Callable[[], Reader], stream: Callable[[], Reader], *, is_stream: bool
    ) -> None:
        """Take what makes the two readers; `is_stream` decides for an answer without a byte."""
        self._body = body
        self._stream = stream
        self._is_stream = is_stream
        self._reader: Reader | None = None

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes."""
        if self._reader is None:
            chunk = chunk.lstrip(_BLANK)
            if not chunk:
                return
            self._reader = self._stream() if chunk[0] in _FIELDS else self._body()
        self._reader.feed(chunk)

    def answered(self) -> ModelAnswered:
        """Return the answer so far."""
        reader = self._reader or (self._stream if self._is_stream else self._body)()
        found = reader.answered()
        self.answer_id, self.is_over = reader.answer_id, reader.is_over
        return found


class FailedReader(Reader):
    """Reads why a request failed."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._body = bytearray()

    def feed(self, chunk: bytes, /) -> None:
        """Take some bytes."""
        self._body += chunk[: _ERROR_BYTES_MAX - len(self._body)]

    def answered(self) -> ModelAnswered:
        """Return the error: its code, and the body's reason."""
        body = bytes(self._body)
        said = _EVENT_DATA.search(body)
        found = object_in(body) or (object_in(said[1]) if said else None)
        words = words_in(found) if found is not None else body.decode(errors="replace")
        error = {"code": f"http_{self._status}", "message": short(words or "no reason given")}
        return ModelAnswered("error", error=error)


def words_in(body: Any) -> str:
    """Return an error's message, or all of it as text."""
    value = body
    for member in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(member):
            value = value[member]
    return text_of(value) if isinstance(value, str) else json_text(value)


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list; none for other values."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
