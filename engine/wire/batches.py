"""Batches: many requests in one, whose answers are fetched later, as lines of JSON.

A batch is asked with a POST; a GET says how far it is, and names the file of its answers, if that
is elsewhere (OpenAI). The lines are the answers of Anthropic's messages, and OpenAI's chat
completions and responses. Pure. Rules: CONTRACT.md §16.10.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.parts.exchange import LATER
from refold.engine.wire.parts.gathered import Budget, Text
from refold.engine.wire.parts.notation import object_in
from refold.engine.wire.parts.reading import BODY_BYTES_MAX, Reader, Speaker
from refold.engine.wire.parts.texts import text_of

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
