"""The agents of a run as the page shows them: texts cut, messages as their words.

`replay.run.opened_run` has the agents, their turns and steps. What did not change since the page
was made before is the same object, so that a patch is found fast. Rules: CONTRACT.md §14.16.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.events.outcome import Priced, Usage
from refold.replay.run import amounts
from refold.replay.run.opened_run import Agent
from refold.replay.run.turns import Step, Turn, words_of

TEXT_MAX: Final = 20_000
"""Characters of a text; the Log has longer ones whole."""


def left_out(value: Any) -> Any:
    """Return the replacement for content: its size."""
    if value is None or value in ("", [], {}, ()):
        return value
    size = len(value.encode()) if isinstance(value, str) else len(encode(value))
    return f"({size:,} bytes left out)"


def cut(value: Any) -> Any:
    """Return a value with its long texts cut; a large one as the beginning of its JSON."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}…"
    if isinstance(value, dict | list | tuple) and len(text := encode(value).decode()) > TEXT_MAX:
        return f"{text[:TEXT_MAX]}…"
    return value


@attrs.define
class Turns:
    """The turns of one run as plain data; kept, so that only what changed is made anew."""

    content: bool = True
    _known: dict[int, tuple[Any, Any, Any]] = attrs.field(factory=dict)
    """By step or turn, which are kept alive: its source and the result."""

    def of(self, agent: Agent) -> list[dict[str, Any]]:
        """Return the turns of an agent."""
        return [self._turn(each) for each in agent.turns]

    def _turn(self, turn: Turn) -> dict[str, Any]:
        steps = [self._step(each) for each in turn.steps]
        made_of = len(turn.entries), turn.status
        made: dict[str, Any]
        known = self._known.get(id(turn))
        if known is not None and known[1] == made_of:
            made = known[2]
            if len(made["steps"]) != len(steps) or any(
                a is not b for a, b in zip(made["steps"], steps, strict=True)
            ):
                made = made | {"steps": steps}
        else:
            usage = Usage(**{k: turn.usage[k] for k in _USAGE if k in turn.usage})
            made = {
                "n": turn.n,
                "model": turn.model,
                "kept": turn.kept,
                "kept_at_end": turn.kept_at_end,
                "added": [*map(self._message, turn.added)],
                "dropped": [*map(self._message, turn.dropped)],
                "says": self._text(turn.says),
                "status": turn.status,
                "error": self._fault(turn.error),
                "usage": turn.usage,
                "spent": amounts.spent(usage) if turn.usage else "",
                "interval": list(turn.interval) if turn.n else [None, None],
                "entries": [*turn.entries],
                "steps": steps,
            }
        self._known[id(turn)] = turn, made_of, made
        return made

    def _step(self, step: Step) -> dict[str, Any]:
        made_of = len(step.entries), step.status, step.child, step.interval
        known = self._known.get(id(step))
        if known is not None and known[1] == made_of:
            return known[2]  # type: ignore[no-any-return]
        about = step.about
        if step.kind in ("input", "note", "limit"):
            about = _about(step.kind, about)
        result = "" if step.result is None else words_of(step.result)
        made = {
            "kind": step.kind,
            "name": step.name or step.kind,
            "about": cut(about) if self.content else left_out(about),
            "result": self._text(result),
            "status": step.status,
            "error": self._fault(step.error),
            "interval": list(step.interval),
            "child": step.child or None,
            "call": step.call,
            "entries": [*step.entries],
        }
        self._known[id(step)] = step, made_of, made
        return made

    def _message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        calls = [
            each.get("name") or (each.get("function") or {}).get("name")
            for each in message.get("tool_calls") or ()
        ]
        text = words_of(message.get("content", message.get("parts")))
        return {"role": str(message.get("role", "?")), "text": self._text(text), "calls": calls}

    def _text(self, text: str) -> str:
        return str(cut(text) if self.content else left_out(text))

    def _fault(self, error: Mapping[str, Any] | None) -> dict[str, str] | None:
        if error is None:
            return None
        message = self._text(str(error.get("message", "")))
        return {"code": str(error.get("code", "")), "message": message}


_USAGE: Final = tuple(attrs.fields_dict(Usage))


def _about(kind: str, data: Any) -> Any:
    """Return the text of a question, a note or a limit, from the data of its entry."""
    if not isinstance(data, Mapping):
        return data
    if kind == "limit":
        return f"{data.get('limit')}: {data.get('observed')} of {data.get('allowed')}"
    return data.get("question", data.get("text", data))


def spending(usage: dict[str, Any], priced: dict[str, Any]) -> dict[str, Any]:
    """Return tokens and cost, in numbers and in words."""
    spent, cost = Usage(**usage), Priced(**priced)
    return usage | {
        "tokens": amounts.tokens(spent),
        "cost": amounts.cost(spent, cost),
        "spent": amounts.spent(spent, cost),
    }
