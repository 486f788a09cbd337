"""The agents of a run as the page shows them: texts cut, messages as their words.

`replay.run.opened_run` has the agents, their turns and steps. What did not change since the page
was made before is the same object, so that a patch is found fast. Rules: CONTRACT.md §14.16.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.events.outcome import Usage
from refold.replay.run import amounts
from refold.replay.run.opened_run import Agent
from refold.replay.run.turns import Step, Turn, words_of

TEXT_MAX: Final = 20_000
"""Characters of a text; the Log has longer ones whole."""


_TEXTS: Final = frozenset(
    {
        "about", "after", "answered", "before", "message", "parts", "result", "says",
        "text", "told",
    }
)  # fmt: skip
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
        return self._kept(turn, made_of, lambda: _turn(turn, steps))

    def _step(self, step: Step) -> dict[str, Any]:
        made_of = len(step.entries), step.status, step.child, step.interval
        return self._kept(step, made_of, lambda: _step(step))

    def _kept(self, source: Any, made_of: Any, make: Callable[[], Any]) -> dict[str, Any]:
        known = self.before.get(id(source))
        if known is None or known[1] != made_of:
            known = source, made_of, make()
        self.known[id(source)] = known
        return known[2]  # type: ignore[no-any-return]


def _turn(turn: Turn, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return _plain(
        turn,
        added=[*map(_message, turn.added)],
        dropped=[*map(_message, turn.dropped)],
        steps=steps,
        spent=spent(turn),
    )


def spent(turn: Turn) -> str:
    """Return the tokens and the cost of a turn in words; empty if the answer named none."""
    usage = Usage(**{name: turn.usage[name] for name in _USAGE if name in turn.usage})
    return amounts.spent(usage) if turn.usage else ""


def _step(step: Step) -> dict[str, Any]:
    return _plain(step, name=step.name or step.kind, result=cut(words_of(step.result)))


def _plain(one: Turn | Step, **made: Any) -> dict[str, Any]:
    """Return a turn or a step as `refold show --turn --json` does, but for what is `made`."""
    made["error"] = one.error and {name: cut(value) for name, value in one.error.items()}
    return made | {name: cut(getattr(one, name)) for name in one.members() if name not in made}


def _message(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        each.get("name") or (each.get("function") or {}).get("name")
        for each in message.get("tool_calls") or ()
    ]
    text = words_of(message.get("content", message.get("parts")))
    return {"role": str(message.get("role", "?")), "text": cut(text), "calls": calls}


_USAGE: Final = tuple(attrs.fields_dict(Usage))
