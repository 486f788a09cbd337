"""The agents of a run as the page shows them: texts cut, messages as their words.

`replay.run.opened_run` has the agents, their turns and steps. What did not change since the page
was made before is the same object, so that a patch is found fast. Rules: CONTRACT.md §14.16.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.events.outcome import Priced, Usage
from refold.replay.run import amounts
from refold.replay.run.opened_run import Agent
from refold.replay.run.turns import Step, Turn, words_of

TEXT_MAX: Final = 20_000
"""Characters of a text; the Log has longer ones whole."""


_TEXTS: Final = frozenset({"about", "answered", "message", "result", "says", "text", "told"})
"""Members that hold what tools, models and people said."""


def without_content(value: Any) -> Any:
    """Return plain data with sizes in place of texts of tools, models and people."""
    if isinstance(value, dict):
        return {
            name: left_out(each) if name in _TEXTS else without_content(each)
            for name, each in value.items()
        }
    return [*map(without_content, value)] if isinstance(value, list | tuple) else value


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

    before: dict[int, tuple[Any, Any, Any]] = attrs.field(factory=dict)
    """`known` of the page before."""
    known: dict[int, tuple[Any, Any, Any]] = attrs.field(factory=dict)
    """By step or turn, which are kept alive: its source, what the result depends on, and that."""

    def of(self, agent: Agent) -> list[dict[str, Any]]:
        """Return the turns of an agent."""
        return [self._turn(each) for each in agent.turns]

    def _turn(self, turn: Turn) -> dict[str, Any]:
        steps = [self._step(each) for each in turn.steps]
        made_of = len(turn.entries), turn.status, *map(id, steps)
        return self._kept(turn, made_of, lambda: _turn(turn) | {"steps": steps})

    def _step(self, step: Step) -> dict[str, Any]:
        made_of = len(step.entries), step.status, step.child, step.interval
        return self._kept(step, made_of, lambda: _step(step))

    def _kept(self, source: Any, made_of: Any, make: Callable[[], Any]) -> dict[str, Any]:
        known = self.before.get(id(source))
        if known is None or known[1] != made_of:
            known = source, made_of, make()
        self.known[id(source)] = known
        return known[2]  # type: ignore[no-any-return]


_OF_TURN: Final = ("n", "model", "kept", "kept_at_end", "status", "usage")
_OF_STEP: Final = ("kind", "status", "interval", "call")


def _turn(turn: Turn) -> dict[str, Any]:
    usage = Usage(**{k: turn.usage[k] for k in _USAGE if k in turn.usage})
    return {name: getattr(turn, name) for name in _OF_TURN} | {
        "added": [*map(_message, turn.added)],
        "dropped": [*map(_message, turn.dropped)],
        "says": cut(turn.says),
        "error": _fault(turn.error),
        "spent": amounts.spent(usage) if turn.usage else "",
        "interval": turn.interval if turn.n else (None, None),
        "entries": [*turn.entries],
    }


def _step(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in _OF_STEP} | {
        "name": step.name or step.kind,
        "about": cut(_about(step)),
        "result": cut(words_of(step.result)),
        "error": _fault(step.error),
        "child": step.child or None,
        "entries": [*step.entries],
    }


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        each.get("name") or (each.get("function") or {}).get("name")
        for each in message.get("tool_calls") or ()
    ]
    text = words_of(message.get("content", message.get("parts")))
    return {"role": str(message.get("role", "?")), "text": cut(text), "calls": calls}


def _fault(error: Mapping[str, Any] | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {"code": str(error.get("code", "")), "message": cut(str(error.get("message", "")))}


_USAGE: Final = tuple(attrs.fields_dict(Usage))


def _about(step: Step) -> Any:
    """Return what a step was about; of a question, a note or a limit, the text in its entry."""
    data = step.about
    if step.kind not in ("input", "note", "limit") or not isinstance(data, Mapping):
        return data
    if step.kind == "limit":
        return f"{data.get('limit')}: {data.get('observed')} of {data.get('allowed')}"
    return data.get("question", data.get("text", data))


def spending(usage: Usage, priced: Priced) -> dict[str, Any]:
    """Return tokens and cost, in numbers and in words."""
    return attrs.asdict(usage) | {
        "tokens": amounts.tokens(usage),
        "cost": amounts.cost(usage, priced),
        "spent": amounts.spent(usage, priced),
    }
