"""The OpenAI responses interface, read from outside.

Requests and answers become the neutral messages of CONTRACT.md §11.1: `instructions` first, and
neighbouring items of the assistant joined into one message, as one answer has them.  Notations of
the same: input or content as a text, or as one part; of an item or part, null or no member, empty
`annotations` or `logprobs` or none, `status: completed` or none; `type: message` or none; the JSON
of a call's arguments.  What the neutral shape has no place
for stands in `provider.responses`, as the list of the items.  Pure.
Rules: CONTRACT.md §16.9, §16.10.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.engine.models.wire import text_of
from refold.engine.observed.exchange import Answered, Asked, Reader
from refold.engine.observed.gathered import Budget, Gathered, Text
from refold.engine.observed.notation import (
    bare,
    call_of,
    folded,
    held,
    is_name,
    is_offer,
    is_text,
    object_in,
    plain_json,
    says,
    with_original,
)
from refold.engine.observed.reading import (
    Fault,
    answered_with,
    objects,
    reader_for,
    usage_of,
    words_in,
)
from refold.engine.observed.series import NO_LISTS, Series, series_in

API: Final = "responses"

_ROLES: Final = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
"""Neutral roles; any other is `user`."""
_RESULTS: Final = ("_output", "_response")
"""How the types of items end that give back what a tool found."""
_CALL: Final = {"type", "call_id", "name", "arguments"}
_RESULT: Final = {"type", "call_id", "output"}
_STOPS: Final = {"completed": "stop", "max_output_tokens": "length"}


# --- requests --------------------------------------------------------------------------------


def is_shaped(body: dict[str, Any], lists: Mapping[str, Series] = NO_LISTS) -> bool:
    """Return whether the members that this interface rests on have its shapes."""
    return _is_input(body.get("input"), lists) and _is_instructions(body.get("instructions"))


def _is_input(given: Any, lists: Mapping[str, Series]) -> bool:
    if isinstance(given, list):
        return all(series_in(lists, "input", given).each(_is_item).values)
    return given is None or isinstance(given, str)


def _is_item(item: Any) -> bool:
    return isinstance(item, dict)


def _is_instructions(given: Any) -> bool:
    return given is None or isinstance(given, str)


def asked(body: dict[str, Any], lists: Mapping[str, Series] = NO_LISTS) -> Asked:
    """Return what a body asks; never raises, and what is of no known shape is a parameter.

    `lists` are lists among its members, some of whose items may have been read before.
    """
    rest = dict(body)
    first: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    if _is_instructions(body.get("instructions")):
        _take_instructions(first, rest.pop("instructions", None))
    if _is_input(body.get("input"), lists) and body.get("input") != []:
        items = _items(rest.pop("input", None))
    said = series_in(lists, "input", items).each(_bare_item).grouped(_take_items, first)
    tools = rest.pop("tools") if "tools" in rest and is_offer(rest["tools"]) else None
    offered = series_in(lists, "tools", tools or []).each(held)
    return Asked(
        api="responses",
        model=rest.pop("model") if is_name(rest.get("model")) else "",
        messages=tuple(said.values),
        parameters=held(rest),
        tools=tuple(offered.values),
        said=said,
        offered=offered,
        follows=text_of(rest.get("previous_response_id")),
    )


def _take_instructions(found: list[dict[str, Any]], given: str | None) -> None:
    if given is not None:
        said = {"role": "system", "content": text_of(given)}
        found.append(said if is_text(given) else with_original(said, API, given))


def _items(given: Any) -> list[dict[str, Any]]:
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return given or []


def _take_items(found: list[dict[str, Any]], items: Sequence[dict[str, Any]], at: int) -> int:
    """Add the neutral message that an item is, with its neighbours if all are the assistant's.

    Returns where the next begins.
    """
    role, end = _role(items[at]), at + 1
    if role != "assistant":
        found.append(_message(role, items[at], is_first=not found))
        return end
    while end < len(items) and _role(items[end]) == "assistant":
        end += 1
    found.append(_assistant(items[at:end]))
    return end


def _role(item: dict[str, Any]) -> str:
    """Return the neutral role of an item: calls, reasoning and all else are the assistant's."""
    if "role" in item:
        return _ROLES.get(item["role"], "user") if is_text(item["role"]) else "user"
    kind = item.get("type")
    return "tool" if isinstance(kind, str) and kind.endswith(_RESULTS) else "assistant"


def _bare_item(item: dict[str, Any]) -> dict[str, Any]:
    said: dict[str, Any] = bare(item)
    if said.get("status") == "completed":
        del said["status"]
    if "role" in said:
        if said.get("type") == "message":
            del said["type"]
        kind = "output_text" if said["role"] == "assistant" else "input_text"
        if "content" in said:
            said["content"] = folded(said["content"], kind)
    elif "output" in said:
        said["output"] = folded(said["output"], "input_text")
    return said


def _message(role: str, item: dict[str, Any], *, is_first: bool) -> dict[str, Any]:
    """Return the neutral message of an item that is not the assistant's."""
    if role == "tool":
        return _result(item)
    content = item.get("content")
    message = {"role": role, "content": says(content)}
    is_plain = item.keys() == {"role", "content"} and item["role"] == role and is_text(content)
    # The first system message without its original is the one of `instructions`.
    is_plain = is_plain and not (role == "system" and is_first)
    return message if is_plain else with_original(message, API, [item])


def _result(item: dict[str, Any]) -> dict[str, Any]:
    output = item.get("output")
    call_id = item.get("call_id", item.get("approval_request_id"))
    message = {"role": "tool", "tool_call_id": text_of(call_id), "content": says(output)}
    is_plain = (
        item.keys() == _RESULT
        and item["type"] == "function_call_output"
        and is_text(call_id)
        and is_text(output)
    )
    return message if is_plain else with_original(message, API, [item])


def _assistant(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the one neutral message that neighbouring items of the assistant are."""
    texts = [says(item.get("content")) for item in items if "role" in item]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if calls := [call for item in items for call in _calls(item)]:
        message["tool_calls"] = calls
    if _are_plain(items):
        return message
    return with_original(message, API, [_rewritten(item) for item in items])


def _rewritten(item: dict[str, Any]) -> dict[str, Any]:
    """Return an item with the arguments of its call in one notation."""
    if item.get("type") != "function_call" or "arguments" not in item:
        return item
    return {**item, "arguments": plain_json(item["arguments"])}


def _calls(item: dict[str, Any]) -> list[dict[str, Any]]:
    match item.get("type"):
        case "function_call":
            return [call_of(item.get("call_id"), item.get("name"), item.get("arguments", ""))]
        case "custom_tool_call":
            arguments = {"input": text_of(item.get("input"))}
            return [call_of(item.get("call_id"), item.get("name"), arguments)]
        case _:
            return []


def _are_plain(items: Sequence[dict[str, Any]]) -> bool:
    """Return whether text and calls say it all: at most one text, then calls."""
    has_text = bool(items) and "role" in items[0]
    calls = items[1:] if has_text else items
    if has_text and not _is_plain_text(items[0], is_alone=not calls):
        return False
    return bool(items) and all(map(_is_plain_call, calls))


def _is_plain_text(item: dict[str, Any], *, is_alone: bool) -> bool:
    content = item.get("content")
    return item.keys() == {"role", "content"} and is_text(content) and (is_alone or content != "")


def _is_plain_call(item: dict[str, Any]) -> bool:
    return (
        item.keys() == _CALL
        and item["type"] == "function_call"
        and is_text(item["call_id"])
        and is_text(item["name"])
        and is_text(item["arguments"])
        and item["arguments"].strip() != ""
    )


# --- answers ---------------------------------------------------------------------------------

_ENDS: Final = {"response.completed", "response.failed", "response.incomplete"}
_BEGINS: Final = {"response.created", "response.queued", "response.in_progress"}
_DELTAS: Final = {
    "response.output_text.delta",
    "response.refusal.delta",
    "response.function_call_arguments.delta",
    "response.custom_tool_call_input.delta",
}
_GROWS: Final = {"function_call": "arguments", "custom_tool_call": "input", "message": "content"}
"""What the deltas of an item are pieces of, by its type."""


def reader(asked: Asked, *, status: int, content_type: str) -> Reader:
    """Return what reads the answer to `asked` from its bytes."""
    return reader_for(_Speaker, asked, status=status, content_type=content_type)


class _Speaker:
    """What an answer of this interface says.

    A stream says it all again at its end; its deltas matter only where there is no end.
    """

    def __init__(self) -> None:
        self._response: dict[str, Any] = {}
        self._output: list[dict[str, Any]] | None = None
        self._budget = Budget()
        self._partial_budget = Budget()
        self._done: dict[int, dict[str, Any]] = {}
        self._partial: dict[int, _Item] = {}
        self._fault = Fault()
        self._is_over = False

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed, or the end of a stream."""
        self._is_over = True
        self._note(body)
        output = body.get("output")
        if isinstance(output, list) and (output or not self._done):
            self._budget = Budget()
            self._output = [_bounded(self._budget, item) for item in objects(output)]
        if body.get("status") == "failed" or (body.get("error") and "output" not in body):
            self._fault.found("failed", words_in(body) if body.get("error") else "no reason given")

    def _note(self, response: dict[str, Any]) -> None:
        names = ("id", "status", "usage", "incomplete_details")
        self._response = {name: response.get(name) for name in names}

    def event(self, name: str, data: bytes, /) -> None:
        """Take one event of a stream."""
        if self._is_over or data.strip() == b"[DONE]":
            return
        event = object_in(data)
        if event is None:
            self._fault.found("malformed", f"an event is no JSON object: {data[:80]!r}")
            return
        kind = event.get("type") or name
        response = event.get("response")
        if kind == "error":
            self._fault.found("stream", words_in(event))
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

    def answered(self, fault: Fault, /) -> Answered:
        """Return what was said so far."""
        fault.found(self._fault.code, self._fault.message)
        if not self._is_over:
            fault.found("cut", "the stream ends before its end")
        items = self._items()
        message = self._message(items) if items else None
        if self._output is None and message is None:
            fault.found("malformed", "the answer holds no output")
        return answered_with(
            fault,
            message,
            usage=usage_of(self._response.get("usage"), ("input_tokens",), "output_tokens"),
            stop_reason=self._stop_reason(items),
            answer_id=text_of(self._response.get("id")),
        )

    def _items(self) -> list[dict[str, Any]]:
        if self._output is not None:
            return self._output
        partial = {at: item.value() for at, item in self._partial.items()}
        found = {**partial, **self._done}
        return [found[at] for at in sorted(found)]

    def _message(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        message = _assistant([_bare_item(item) for item in items])
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
        return _STOPS.get(status, status) if self._is_over else ""


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
