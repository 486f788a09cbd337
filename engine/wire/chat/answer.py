"""The OpenAI chat-completions interface, read from outside: answers.

Streamed or not, an answer is the message that a client which repeats it will send
(`wire.chat.request`).  Pure.  Rules: CONTRACT.md §16.10.
"""

from typing import Any, Final

import attrs

from refold.engine.wire.chat.request import message_of
from refold.engine.wire.parts.counts import Counts
from refold.engine.wire.parts.gathered import Budget, Gathered
from refold.engine.wire.parts.reading import Said, Speaker, objects, words_in
from refold.engine.wire.parts.texts import text_of

COUNTS: Final = Counts(
    input=("prompt_tokens",),
    output=("completion_tokens",),
    read="prompt_tokens_details/cached_tokens",
    written="prompt_tokens_details/cache_write_tokens",
    reasoning="completion_tokens_details/reasoning_tokens",
)
STOPS: Final = {"function_call": "tool_calls"}
"""Why an answer ended, in neutral words where they are others."""


class ChatSpeaker(Speaker):
    """Decodes an answer of this format."""

    unit = "a chunk"
    holds = "choice with a message"
    is_over_when_done = True

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, _Choice] = {}
        self._usage: Any = None

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed: one delta."""
        self._take_choices(body, "message")
        self._is_over = True
        if body.get("error"):
            self.fault.found("failed", words_in(body))

    def _take(self, _name: str, chunk: dict[str, Any], /) -> None:
        self._take_choices(chunk, "delta")
        if chunk.get("error"):
            self.fault.found("stream", words_in(chunk))

    def _take_choices(self, chunk: dict[str, Any], member: str) -> None:
        for place, given in enumerate(objects(chunk.get("choices"))):
            index = given.get("index")
            at = index if type(index) is int else place
            choice = self._choices.get(at)
            if choice is None:
                if not self._budget.part():
                    continue
                choice = self._choices[at] = _Choice(self._budget, is_streamed=member == "delta")
            choice.take(given, member)
        self._usage = chunk.get("usage") or self._usage

    def _is_cut(self) -> bool:
        choices = self._choices.values()
        return not self._is_over and not (choices and all(choice.stop for choice in choices))

    def _said(self) -> Said | None:
        choices = [self._choices[at] for at in sorted(self._choices)]
        if not any(choice.is_said for choice in choices):
            return None
        message = self._marked(self._message(choices))
        return message, COUNTS.usage(self._usage), choices[0].stop_reason

    def _message(self, choices: list["_Choice"]) -> dict[str, Any]:
        message, *others = [message_of(choice.message()) for choice in choices]
        if others:
            message["provider"] = {**message.get("provider", {}), "choices": others}
        return message


class _Choice:
    """One of the answers that were asked for."""

    def __init__(self, budget: Budget, *, is_streamed: bool) -> None:
        self._budget = budget
        self._is_streamed = is_streamed
        self._said = Gathered(budget, by_index=is_streamed)
        self._calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        """By the index that deltas give."""
        self._last: _Call | None = None
        self.stop = ""
        self.is_said = False

    def take(self, given: dict[str, Any], member: str) -> None:
        """Take one chunk's data for this choice."""
        self.stop = text_of(given.get("finish_reason")) or self.stop
        delta = given.get(member)
        if not isinstance(delta, dict):
            return
        self.is_said = True
        self._said.add({name: delta[name] for name in delta if name not in ("role", "tool_calls")})
        if "tool_calls" in delta:
            for call in objects(delta["tool_calls"]):
                self._take_call(call)

    def _take_call(self, delta: dict[str, Any]) -> None:
        index, call_id = delta.get("index"), text_of(delta.get("id"))
        call = self._open.get(index) if type(index) is int else self._last
        is_next = bool(call_id) and call is not None and call.id not in ("", call_id)
        if call is None or is_next or not self._is_streamed:
            if not self._budget.part():
                return
            place = index if type(index) is int else len(self._calls)
            call = _Call(Gathered(self._budget, by_index=self._is_streamed), place)
            self._calls.append(call)
        if type(index) is int:
            self._open[index] = call
        self._last = call
        call.id = call.id or call_id
        call.said.add({name: delta[name] for name in delta if name != "index"})

    @property
    def stop_reason(self) -> str:
        """Why it ended, in neutral words."""
        return "refusal" if self._said.value().get("refusal") else STOPS.get(self.stop, self.stop)

    def message(self) -> dict[str, Any]:
        """Return the message as an answer that is not streamed has it."""
        said: dict[str, Any] = {**self._said.value(), "role": "assistant"}
        calls = [call.said.value() for call in sorted(self._calls, key=lambda call: call.place)]
        for call in calls:
            if "function" in call:
                call.setdefault("type", "function")
        return {**said, "tool_calls": calls} if calls else said


@attrs.define
class _Call:
    """One tool call of an answer. A new id begins a new call, even at the same index."""

    said: Gathered
    place: int
    id: str = ""
