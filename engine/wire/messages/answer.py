"""The Anthropic messages interface, read from outside: answers.

Streamed or not, an answer is the message that a client which repeats it will send
(`wire.messages.request`).  Pure.  Rules: CONTRACT.md §16.10.
"""

from typing import Any, Final

from refold.engine.wire.messages.request import answer_of
from refold.engine.wire.parts.counts import MESSAGES
from refold.engine.wire.parts.exchange import Answered, Asked, Reader
from refold.engine.wire.parts.gathered import Budget, Gathered, Text
from refold.engine.wire.parts.notation import json_text, object_in
from refold.engine.wire.parts.reading import (
    Fault,
    answered_with,
    objects,
    reader_for,
    words_in,
)
from refold.engine.wire.parts.texts import text_of

_STOPS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
}


def reader(asked: Asked, *, status: int, content_type: str) -> Reader:
    """Return what reads the answer to `asked` from its bytes."""
    return reader_for(_Speaker, asked, status=status, content_type=content_type)


class _Speaker:
    """What an answer of this interface says."""

    def __init__(self) -> None:
        self._budget = Budget()
        self._blocks: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._fault = Fault()
        self._is_begun = False
        self._is_over = False

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed."""
        self._is_over = True
        if body.get("error"):
            self._fault.found("failed", words_in(body))
        elif isinstance(body.get("content"), list):
            self._begin(body)

    def event(self, _name: str, data: bytes, /) -> None:
        """Take one event of a stream."""
        if self._is_over:
            return
        event = object_in(data)
        if event is None:
            self._fault.found("malformed", f"an event is no JSON object: {data[:80]!r}")
            return
        match event.get("type"):
            case "message_start":
                self._begin(_object(event, "message"))
            case "content_block_start":
                self._start(event.get("index"), _object(event, "content_block"))
            case "content_block_delta":
                self._go_on(event.get("index"), _object(event, "delta"))
            case "message_delta":
                self._note(_object(event, "delta"), event.get("usage"))
            case "message_stop":
                self._is_over = True
            case "error":
                self._fault.found("stream", words_in(event))
            case _:
                pass

    def _begin(self, message: dict[str, Any]) -> None:
        self._is_begun = True
        self._note(message, message.get("usage"))
        for index, block in enumerate(objects(message.get("content"))):
            self._start(index, block)

    def _note(self, said: dict[str, Any], usage: Any) -> None:
        self._stop = text_of(said.get("stop_reason")) or self._stop
        if isinstance(usage, dict):
            self._usage |= {name: usage[name] for name in usage if usage[name] is not None}

    def _start(self, index: Any, block: dict[str, Any]) -> None:
        if type(index) is int and index not in self._blocks and self._budget.part():
            self._blocks[index] = _Block(self._budget, block)

    def _go_on(self, index: Any, delta: dict[str, Any]) -> None:
        if type(index) is int and index in self._blocks:
            self._blocks[index].add(delta)

    def answered(self, fault: Fault, /) -> Answered:
        """Return what was said so far."""
        fault.found(self._fault.code, self._fault.message)
        if not self._is_over:
            fault.found("cut", "the stream ends before its end")
        if not self._is_begun:
            fault.found("malformed", "the answer holds no content")
            return answered_with(fault, None)
        return answered_with(
            fault,
            self._message(),
            usage=MESSAGES.usage(self._usage),
            stop_reason=_STOPS.get(self._stop, self._stop),
        )

    def _message(self) -> dict[str, Any]:
        blocks = [self._blocks[index].value() for index in sorted(self._blocks)]
        message = answer_of(blocks)
        if truncated := self._budget.truncated():
            message["truncated"] = truncated
        return message


class _Block:
    """One block of an answer."""

    def __init__(self, budget: Budget, start: dict[str, Any]) -> None:
        rest = dict(start)
        self._has_input = "input" in rest
        self._input = _within(budget, rest.pop("input", None))
        self._partial = Text(budget)
        self._said = Gathered(budget)
        self._said.add(rest)

    def add(self, delta: dict[str, Any]) -> None:
        """Take a delta."""
        match delta.get("type"):
            case "input_json_delta":
                self._partial.add(text_of(delta.get("partial_json")))
            case "citations_delta":
                self._said.add({"citations": [delta.get("citation")]})
            case _:
                self._said.add({name: delta[name] for name in delta if name != "type"})

    def value(self) -> dict[str, Any]:
        """Return the block as an answer that is not streamed has it."""
        said = self._said.value()
        if text := self._partial.value().strip():
            found = object_in(text)
            said["input"] = text if found is None else found
        elif self._has_input:
            said["input"] = self._input
        return said


def _within(budget: Budget, value: Any) -> Any:
    """Return a call's input as it is if it may be kept, else what may be kept of its text."""
    if not value:
        return value
    text = json_text(value)
    kept = budget.text(text)
    return value if kept == text else kept


def _object(event: dict[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    return value if isinstance(value, dict) else {}
