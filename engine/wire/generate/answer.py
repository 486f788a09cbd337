"""The Gemini generateContent interface, read from outside: answers.

Each event of a stream is an answer with the parts that are new.  Pure.  Rules: CONTRACT.md §16.10.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from refold.engine.wire.generate.request import answer_of
from refold.engine.wire.parts.counts import Counts, later
from refold.engine.wire.parts.exchange import Asked, ServedCall
from refold.engine.wire.parts.notation import held, json_text, text_of
from refold.engine.wire.parts.reading import Said, Speaker, objects, words_in

COUNTS: Final = Counts(
    input=("promptTokenCount", "toolUsePromptTokenCount"),
    output=("candidatesTokenCount", "thoughtsTokenCount"),
    read="cachedContentTokenCount",
    reasoning="thoughtsTokenCount",
    is_zero_left_out=True,
)
_STOPS: Final = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "refusal"}


class GenerateSpeaker(Speaker):
    """Decodes an answer of this format."""

    holds = "candidate"

    def __init__(self, asked: Asked) -> None:
        super().__init__()
        self._asked = asked
        self._parts: list[dict[str, Any]] = []
        self._counts: dict[str, Any] = {}
        self._stop = ""
        self._is_begun = False

    def whole(self, body: dict[str, Any], /) -> None:
        """Take an answer, or one event of a stream."""
        if body.get("error"):
            self.fault.found("failed", words_in(body))
        self._counts = later(self._counts, body.get("usageMetadata"))
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

    def _take(self, _name: str, event: dict[str, Any], /) -> None:
        self.whole(event)

    def _is_cut(self) -> bool:
        return self._is_begun and not self._stop

    def _so_far(self) -> Said | None:
        if not self._is_begun:
            return None
        message = self._marked(answer_of(self._asked.messages, self._parts))
        return message, COUNTS.usage(self._counts), _STOPS.get(self._stop, self._stop)


def served(turn: Any) -> Iterator[ServedCall]:
    """Yield the code that the server ran, each piece with the result that follows it."""
    parts = objects(turn.get("parts")) if isinstance(turn, dict) else []
    for part, following in pairwise([*parts, {}]):
        if isinstance(code := part.get("executableCode"), dict):
            result = following.get("codeExecutionResult")
            outcome = text_of(result.get("outcome")) if isinstance(result, dict) else ""
            error = "" if outcome in ("", "OUTCOME_OK") else outcome
            yield ServedCall("code_execution", code, result, error)
