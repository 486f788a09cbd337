"""The OpenAI responses interface, read from outside: answers.

Streamed or not, an answer is the message that a client which repeats it will send
(`wire.responses.request`).  Pure.  Rules: CONTRACT.md §16.10.
"""

from collections.abc import Iterator
from typing import Any, Final

from refold.engine.events.outcome import Usage
from refold.engine.wire.parts.counts import Counts
from refold.engine.wire.parts.exchange import LATER, ServedCall
from refold.engine.wire.parts.gathered import Budget, Gathered, Text
from refold.engine.wire.parts.notation import call_of, text_of
from refold.engine.wire.parts.reading import Said, Speaker, objects, words_in
from refold.engine.wire.responses.request import answer_of

COUNTS: Final = Counts(
    input=("input_tokens",),
    output=("output_tokens",),
    read="input_tokens_details/cached_tokens",
    written="input_tokens_details/cache_write_tokens",
    reasoning="output_tokens_details/reasoning_tokens",
)
_STOPS: Final = {"completed": "stop", "max_output_tokens": "length"}
_ENDS: Final = {"response.completed", "response.failed", "response.incomplete"}
_BEGINS: Final = {"response.created", "response.queued", "response.in_progress"}
_DELTAS: Final = {
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
}
_SERVED: Final = frozenset(
    {
        "code_interpreter_call",
        "file_search_call",
        "image_generation_call",
        "mcp_call",
        "web_search_call",
    }
)
"""Items that are calls which the server made: all others are the program's to make."""
_SERVED_ARGUMENTS: Final = ("action", "code", "queries")
_SERVED_RESULTS: Final = ("results", "outputs", "output")
_GROWS: Final = {"function_call": "arguments", "custom_tool_call": "input", "message": "content"}
"""The member that an item's deltas extend, by its type."""


class ResponsesSpeaker(Speaker):
    """Decodes an answer of this format.

    A stream repeats all of it at its end; its deltas matter only if the end is missing.
    """

    holds = "output"
    is_over_when_done = False

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._output: list[dict[str, Any]] | None = None
        self._partial_budget = Budget()
        self._done: dict[int, dict[str, Any]] = {}
        self._partial: dict[int, _Item] = {}

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed, or the end of a stream."""
        self.is_over = True
        self._note(body)
        # What an answer has before its end comes again with the end.
        output = body.get("output") if self._response["status"] not in LATER else []
        if isinstance(output, list) and (output or not self._done):
            self._budget = Budget()
            self._output = [_bounded(self._budget, item) for item in objects(output)]
        if body.get("status") == "failed" or (body.get("error") and "output" not in body):
            self.fault.found("failed", words_in(body) if body.get("error") else "no reason given")

    def _note(self, response: dict[str, Any]) -> None:
        names = ("status", "usage", "incomplete_details")
        self._response = {name: response.get(name) for name in names}
        self.answer_id = text_of(response.get("id"))

    def _take(self, name: str, event: dict[str, Any], /) -> None:
        kind = event.get("type") or name
        response = event.get("response")
        if kind == "error":
            self.fault.found("stream", words_in(event))
        elif kind in _ENDS and isinstance(response, dict):
            self.whole(response)
        elif kind in _BEGINS and isinstance(response, dict):
            self._note(response)
        elif type(at := event.get("output_index")) is int:
            self._item_event(kind, at, event)

    def _item_event(self, kind: str, at: int, event: dict[str, Any]) -> None:
        item = event.get("item")
        if kind == "response.output_item.added" and isinstance(item, dict):
            if self._partial_budget.part():
                self._partial[at] = _Item(self._partial_budget, item)
        elif kind == "response.output_item.done" and isinstance(item, dict):
            self._partial.pop(at, None)
            if self._budget.part():
                self._done[at] = _bounded(self._budget, item)
        elif kind in _DELTAS and at in self._partial:
            self._partial[at].add(text_of(event.get("delta")))

    def _so_far(self) -> Said | None:
        items = self._items()
        if self._output is None and not items and not self._response.get("usage"):
            return None
        message = self._message(items) if items else None
        stop = self._stop_reason(items)
        usage = Usage() if stop in LATER else COUNTS.usage(self._response.get("usage"))
        return message, usage, stop

    def _is_answer(self, said: Said) -> bool:
        return said[0] is not None or self._output is not None

    def _items(self) -> list[dict[str, Any]]:
        if self._output is not None:
            return self._output
        partial = {at: item.value() for at, item in self._partial.items()}
        found = {**partial, **self._done}
        return [found[at] for at in sorted(found)]

    def _message(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        message = answer_of(items)
        truncated = self._budget.truncated() or self._partial_budget.truncated()
        if truncated and (self._budget.is_spent or self._output is None):
            message["truncated"] = truncated
        return message

    def _stop_reason(self, items: list[dict[str, Any]]) -> str:
        parts = [part for item in items for part in objects(item.get("content"))]
        if any(part.get("type") == "refusal" for part in parts):
            return "refusal"
        details = self._response.get("incomplete_details")
        reason = text_of(details.get("reason")) if isinstance(details, dict) else ""
        status = reason or text_of(self._response.get("status"))
        return _STOPS.get(status, status) if self.is_over else ""


class _Item:
    """One item of an answer that is on its way."""

    def __init__(self, budget: Budget, start: dict[str, Any]) -> None:
        self._start = _bounded(budget, start)
        self._text = Text(budget)

    def add(self, delta: str) -> None:
        """Take a delta."""
        self._text.add(delta)

    def value(self) -> dict[str, Any]:
        """Return the item as far as it came."""
        grows = _GROWS.get(text_of(self._start.get("type")))
        text = self._text.value()
        return {**self._start, grows: text} if grows is not None and text else self._start


def _bounded(budget: Budget, item: dict[str, Any]) -> dict[str, Any]:
    gathered = Gathered(budget)
    gathered.add(item)
    return gathered.value()


def unspelled(items: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls of the program that no neutral message holds: shell, patch, computer."""
    for item in objects(items):
        kind = text_of(item.get("type"))
        if kind.endswith("_call") and kind not in _SERVED and kind not in _GROWS:
            yield kind.removesuffix("_call"), {each: item[each] for each in item if each != "type"}


def served(items: Any) -> Iterator[ServedCall]:
    """Yield the tools that the server used itself: search, code, images, MCP."""
    for item in objects(items):
        kind = text_of(item.get("type"))
        if kind not in _SERVED:
            continue
        name = text_of(item.get("name")) or kind.removesuffix("_call")
        given = dict(call_of("", "", text_of(item.get("arguments")))["arguments"])
        given |= {each: item[each] for each in _SERVED_ARGUMENTS if item.get(each) is not None}
        results = (item[each] for each in _SERVED_RESULTS if item.get(each) is not None)
        error = item.get("error") or ("failed" if item.get("status") == "failed" else "")
        yield ServedCall(name, given, next(results, None), words_in(error) if error else "")
