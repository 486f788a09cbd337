"""The Anthropic messages interface, read from outside: answers.

Streamed or not, an answer is the message that a client which repeats it will send
(`wire.messages.request`).  Pure.  Rules: CONTRACT.md §16.10.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

from refold.engine.wire.messages.request import answer_of
from refold.engine.wire.parts.counts import Counts, later
from refold.engine.wire.parts.exchange import ServedCall
from refold.engine.wire.parts.gathered import Budget, Gathered, Text
from refold.engine.wire.parts.notation import json_text, object_in, text_of
from refold.engine.wire.parts.reading import Said, Speaker, objects, words_in

COUNTS: Final = Counts(
    input=("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    output=("output_tokens",),
    read="cache_read_input_tokens",
    written="cache_creation_input_tokens",
    written_1h="cache_creation/ephemeral_1h_input_tokens",
)
STOPS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}
"""Why an answer ended, in neutral words."""


class MessagesSpeaker(Speaker):
    """Decodes an answer of this format."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[tuple[int, _Block]] = []
        """Each with its index: gateways give several blocks the same one."""
        self._open: dict[int, _Block] = {}
        self._usage: dict[str, Any] = {}
        self._stop = ""
        self._is_begun = False

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed."""
        self.is_over = True
        if body.get("error"):
            self.fault.found("failed", words_in(body))
        elif isinstance(body.get("content"), list):
            self._begin(body)

    def _take(self, _name: str, event: dict[str, Any], /) -> None:
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
                self.is_over = True
            case "error":
                self.fault.found("stream", words_in(event))
            case _:
                pass

    def _begin(self, message: dict[str, Any]) -> None:
        self._is_begun = True
        self._note(message, message.get("usage"))
        for index, block in enumerate(objects(message.get("content"))):
            self._start(index, block)

    def _note(self, said: dict[str, Any], usage: Any) -> None:
        self._stop = text_of(said.get("stop_reason")) or self._stop
        self._usage = later(self._usage, said.get("usage"), usage)

    def _start(self, index: Any, block: dict[str, Any]) -> None:
        if type(index) is int and self._budget.part():
            self._open[index] = _Block(self._budget, block)
            self._blocks.append((index, self._open[index]))

    def _go_on(self, index: Any, delta: dict[str, Any]) -> None:
        if type(index) is int and index in self._open:
            self._open[index].add(delta)

    def body(self) -> dict[str, Any]:
        """Return the answer so far as the body of one that is not streamed."""
        return {"content": self._content(), "stop_reason": self._stop, "usage": self._usage}

    def _content(self) -> list[dict[str, Any]]:
        return [block.value() for _, block in sorted(self._blocks, key=itemgetter(0))]

    def _so_far(self) -> Said | None:
        if not self._is_begun:
            return None
        message = self._marked(answer_of(self._content()))
        return message, COUNTS.usage(self._usage), STOPS.get(self._stop, self._stop)


class _Block:
    """One block of an answer."""

    def __init__(self, budget: Budget, start: dict[str, Any]) -> None:
        rest = dict(start)
        self._has_input = "input" in rest
        self._input = _within(budget, rest.pop("input", None))
        self._partial = Text(budget)
        self._so_far = Gathered(budget)
        self._so_far.add(rest)

    def add(self, delta: dict[str, Any]) -> None:
        """Take a delta."""
        match delta.get("type"):
            case "input_json_delta":
                self._partial.add(text_of(delta.get("partial_json")))
            case "citations_delta":
                self._so_far.add({"citations": [delta.get("citation")]})
            case _:
                self._so_far.add({name: delta[name] for name in delta if name != "type"})

    def value(self) -> dict[str, Any]:
        """Return the block as an answer that is not streamed has it."""
        said = self._so_far.value()
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


def served(blocks: Any) -> Iterator[ServedCall]:
    """Yield the tools that the server used itself: search, fetch, code, MCP."""
    found = objects(blocks)
    results = {
        text_of(block.get("tool_use_id")): block
        for block in found
        if text_of(block.get("type")).endswith("_tool_result")
    }
    for block in found:
        if block.get("type") in ("server_tool_use", "mcp_tool_use"):
            end = results.get(text_of(block.get("id")), {})
            told = end.get("content")
            failed = told if isinstance(told, dict) and "error_code" in told else {}
            error = text_of(failed.get("error_code")) or ("failed" if end.get("is_error") else "")
            arguments = _object(block, "input")
            yield ServedCall(text_of(block.get("name")), arguments, told, error)
