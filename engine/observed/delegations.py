"""Recognises delegating tool calls of other frameworks, by their names.

A convention is a framework's name for such tools. Some frameworks let a model write its calls as
text, and write the result below (ReAct). `observed.openers` uses other evidence for the opener of a
conversation. Pure. Rules: CONTRACT.md §16.5.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.notation import holds, object_in

_NAMES: Final = (
    "subagent_type", "agent_name", "subagent_name", "subagent", "to_agent", "agent", "coworker",
    "co_worker", "member_id", "task_name", "name", "description",
)  # fmt: skip
"""Arguments that may have the agent's name; the first present is used."""
_NAMED_BY: Final = ("subagent_type", "subagent_name", "subagent")
"""Those that no other tool has (deepagents, pydantic-deep, others)."""
_CONVENTIONS: Final = (
    r"transfer_to_agent",  # Google ADK
    r"transfer_to_(.+)",  # OpenAI Agents
    r"Task|Agent",  # Claude
    r"(?i:delegate[_ ]work[_ ]to[_ ]co-?worker)",  # crewAI
    r"(?i:ask[_ ]question[_ ]to[_ ]co-?worker)",
    r"handoff",  # LlamaIndex
    r"delegate_task_to_members?",  # agno
    r"delegate_(?:task_)?(?:to_)?(.+)",  # others
)
"""Each is the whole name of a delegating tool.

The agent's name is the argument `agent` if there is one, else the group, else another argument,
else the tool's name.
"""


def delegated(tool: str, arguments: Mapping[str, Any], profile: Profile = NO_PROFILE) -> str | None:
    """Return whom a call hands work to; `None` if neither profile nor convention knows it."""
    if tool in profile.hands_over:
        return _named(arguments, (*profile.hands_over[tool], *_NAMES)) or tool
    for expression in _CONVENTIONS:
        if (found := re.fullmatch(expression, tool)) is not None:
            names = ("agent",) if found.groups() else _NAMES
            return _named(arguments, names) or (found[1] if found.groups() else tool)
    return _named(arguments, _NAMED_BY) or None


def _named(arguments: Mapping[str, Any], names: Iterable[str]) -> str:
    """Return the first of these arguments that is a text; empty for none."""
    said = (arguments.get(name) for name in names)
    return next((each for each in said if isinstance(each, str) and each), "")


_ACTION: Final = re.compile(
    r"^Action:[ \t]*(.+?)[ \t]*\nAction Input:[ \t]*(\{.*?\})[ \t]*$", re.MULTILINE
)
_OBSERVATION: Final = "\nObservation:"


def written(content: Any) -> tuple[str, dict[str, Any]] | None:
    """Return name and arguments of a call that a model wrote as text, if it hands work over."""
    if not isinstance(content, str) or "Action:" not in content:
        return None
    found = _ACTION.search(content)
    arguments = object_in(found[2]) if found is not None else None
    if found is None or arguments is None or not holds(arguments):
        return None
    return (found[1], arguments) if delegated(found[1], arguments) is not None else None


def observation_in(content: Any) -> str | None:
    """Return the last result written below a call, or `None`."""
    if not isinstance(content, str):
        return None
    _, mark, said = f"\n{content}".rpartition(_OBSERVATION)
    return said.strip() if mark else None
