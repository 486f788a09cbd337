"""The OpenAI chat-completions interface, read from outside: answers.

Streamed or not, an answer is the message that a client which repeats it will send
(`wire.chat.request`).  Pure.  Rules: CONTRACT.md §16.10.
"""

from typing import Any, Final

import attrs

from refold.engine.wire.chat.request import message_of
from refold.engine.wire.parts.counts import Counts, later
from refold.engine.wire.parts.gathered import Budget, Gathered
from refold.engine.wire.parts.notation import object_in, text_of
from refold.engine.wire.parts.reading import Said, Speaker, objects, words_in

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
        self._usage: dict[str, Any] = {}

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer that is not streamed: one delta."""
        self._take_choices(body, "message")
        self.is_over = True
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
            self._usage = later(self._usage, given.get("usage"))  # of Moonshot
        groq = chunk.get("x_groq")
        told = groq.get("usage") if isinstance(groq, dict) else None
        self._usage = later(self._usage, told, chunk.get("usage"))

    def _is_cut(self) -> bool:
        choices = self._choices.values()
        return not self.is_over and not (choices and all(choice.stop for choice in choices))

    def _so_far(self) -> Said | None:
        choices = [self._choices[at] for at in sorted(self._choices)]
        is_said = any(choice.is_said for choice in choices)
        if not (is_said or self._usage):
            return None
        message = self._marked(self._message(choices)) if is_said else None
        stop = choices[0].stop_reason if is_said else ""
        return message, COUNTS.usage(self._usage), stop

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
        self._so_far = Gathered(budget, by_index=is_streamed)
        self._calls: list[_Call] = []
        self._open: dict[int, _Call] = {}
        """By the index that deltas give."""
        self.stop = ""
        self.is_said = False

    def take(self, given: dict[str, Any], member: str) -> None:
        """Take one chunk's data for this choice."""
        self.stop = text_of(given.get("finish_reason")) or self.stop
        delta = given.get(member)
        if not isinstance(delta, dict):
            return
        self.is_said = True
        self._so_far.add(
            {name: delta[name] for name in delta if name not in ("role", "tool_calls")}
        )
        if "tool_calls" in delta:
            for call in objects(delta["tool_calls"]):
                self._take_call(call)

    def _take_call(self, delta: dict[str, Any]) -> None:
        index = delta["index"] if type(delta.get("index")) is int else None
        call = self._continued(delta, index)
        if call is None:
            if not self._budget.part():
                return
            place = len(self._calls) if index is None else index
            call = _Call(Gathered(self._budget, by_index=self._is_streamed), place)
            self._calls.append(call)
        if index is not None:
            self._open[index] = call
        call.add(delta)

    def _continued(self, delta: dict[str, Any], index: int | None) -> "_Call | None":
        """Return the call that a delta continues; `None` if it begins one.

        Servers leave out ids and indexes, repeat names, and give each call the same index.
        """
        if not (self._is_streamed and self._calls):
            return None
        call = self._calls[-1] if index is None else self._open.get(index)
        call_id, name = text_of(delta.get("id")), _name_in(delta)
        if call_id:
            known = (each for each in self._calls if each.id == call_id)
            return call if call is not None and call.id in ("", call_id) else next(known, None)
        if not name:
            return call or self._calls[-1]
        if call is not None and name == call.name and not (call.is_whole and _gives(delta)):
            return call
        return None

    @property
    def stop_reason(self) -> str:
        """Why it ended, in neutral words."""
        return "refusal" if self._so_far.value().get("refusal") else STOPS.get(self.stop, self.stop)

    def message(self) -> dict[str, Any]:
        """Return the message as an answer that is not streamed has it."""
        said: dict[str, Any] = {**self._so_far.value(), "role": "assistant"}
        calls = [call.said.value() for call in sorted(self._calls, key=lambda call: call.place)]
        for call in calls:
            if "function" in call:
                call.setdefault("type", "function")
        return {**said, "tool_calls": calls} if calls else said


@attrs.define
class _Call:
    """One tool call of an answer."""

    said: Gathered
    place: int
    id: str = ""
    name: str = ""

    def add(self, delta: dict[str, Any]) -> None:
        """Take a delta; a repeated name is not added."""
        given = {name: delta[name] for name in delta if name != "index"}
        name, function = _name_in(delta), delta.get("function")
        if name and name == self.name and isinstance(function, dict):
            given["function"] = {each: function[each] for each in function if each != "name"}
        self.id = self.id or text_of(delta.get("id"))
        self.name = self.name or name
        self.said.add(given)

    @property
    def is_whole(self) -> bool:
        """Whether its arguments are complete."""
        function = self.said.value().get("function")
        text = function.get("arguments") if isinstance(function, dict) else None
        return isinstance(text, str) and text.rstrip().endswith("}") and object_in(text) is not None


def _name_in(delta: dict[str, Any]) -> str:
    function = delta.get("function")
    return text_of(function.get("name")) if isinstance(function, dict) else ""


def _gives(delta: dict[str, Any]) -> bool:
    """Return whether a delta has arguments; some servers end a call with its name alone."""
    function = delta.get("function")
    return isinstance(function, dict) and bool(function.get("arguments"))
