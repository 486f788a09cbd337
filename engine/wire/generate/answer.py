"""The Gemini generateContent interface, read from outside: answers.

Each event of a stream is an answer with the parts that are new.  Pure.  Rules: CONTRACT.md §16.10.
"""

from typing import Any, Final

from refold.engine.wire.generate.request import answer_of
from refold.engine.wire.parts.counts import GENERATE
from refold.engine.wire.parts.exchange import Answered, Asked, Reader
from refold.engine.wire.parts.gathered import Budget
from refold.engine.wire.parts.notation import held, json_text, object_in
from refold.engine.wire.parts.reading import Fault, answered_with, objects, reader_for, words_in
from refold.engine.wire.parts.texts import text_of

_STOPS: Final = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}


def reader(asked: Asked, *, status: int, content_type: str) -> Reader:
    """Return what reads the answer to `asked` from its bytes."""
    return reader_for(lambda: _Speaker(asked), asked, status=status, content_type=content_type)


class _Speaker:
    """What an answer of this interface says."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._budget = Budget()
        self._parts: list[dict[str, Any]] = []
        self._counts: Any = None
        self._stop = ""
        self._fault = Fault()
        self._is_begun = False

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer, or one event of a stream."""
        if body.get("error"):
            self._fault.found("failed", words_in(body))
        self._counts = body.get("usageMetadata") or self._counts
        blocked = body.get("promptFeedback")
        if isinstance(blocked, dict) and blocked.get("blockReason"):
            self._is_begun, self._stop = True, "SAFETY"
        for candidate in objects(body.get("candidates"))[:1]:
            self._is_begun = True
            self._stop = text_of(candidate.get("finishReason")) or self._stop
            content = candidate.get("content")
            parts = content.get("parts") if isinstance(content, dict) else None
            for part in objects(parts):
                text = json_text(part)
                if self._budget.part() and self._budget.text(text) == text:
                    self._parts.append(held(part))

    def event(self, _name: str, data: bytes, /) -> None:
        """Take one event of a stream."""
        event = object_in(data)
        if event is None:
            self._fault.found("malformed", f"an event is no JSON object: {data[:80]!r}")
        else:
            self.whole(event)

    def answered(self, fault: Fault, /) -> Answered:
        """Return what was said so far."""
        fault.found(self._fault.code, self._fault.message)
        if not self._is_begun:
            fault.found("malformed", "the answer holds no candidate")
            return answered_with(fault, None)
        if not self._stop:
            fault.found("cut", "the stream ends before its end")
        message = answer_of(self._asked.messages, self._parts)
        if truncated := self._budget.truncated():
            message["truncated"] = truncated
        return answered_with(
            fault,
            message,
            usage=GENERATE.usage(self._counts),
            stop_reason=_STOPS.get(self._stop, self._stop),
        )
