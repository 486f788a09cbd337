"""Recognises tool calls of other frameworks that hand work to another agent, by their names.

A convention is what a framework calls such tools; some let a model write its calls as text, and
write the result below it (ReAct).  What else tells who opened a conversation is
`observed.openers`'s.  Pure.  Rules: CONTRACT.md §16.5.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.notation import holds, object_in

_CONVENTIONS: Final[dict[str, tuple[str, ...]]] = {
    r"transfer_to_agent": ("agent_name",),  # Google ADK
    r"transfer_to_(.+)": (),  # OpenAI Agents
    r"Task|Agent": ("subagent_type", "description"),  # Claude
    r"(?i:delegate[_ ]work[_ ]to[_ ]co-?worker)": ("coworker", "co_worker"),  # crewAI
    r"(?i:ask[_ ]question[_ ]to[_ ]co-?worker)": ("coworker", "co_worker"),
    r"handoff": ("to_agent",),  # LlamaIndex
    r"delegate_task_to_members?": ("member_id",),  # agno
    r"delegate_(?:task_)?(?:to_)?(.+)": ("agent",),  # others
}
"""By what is the whole name of a tool: where the agent's name stands in the arguments, the first
that is there.  Else it is the expression's group, or the tool's name."""


def delegated(tool: str, arguments: Mapping[str, Any], profile: Profile = NO_PROFILE) -> str | None:
    """Return whom a call hands work to; `None` if neither profile nor convention knows it."""
    if tool in profile.hands_over:
        names = (arguments.get(name) for name in profile.hands_over[tool])
        return next((each for each in names if isinstance(each, str) and each), tool)
    for expression, members in _CONVENTIONS.items():
        if (found := re.fullmatch(expression, tool)) is not None:
            said = next((arguments[name] for name in members if arguments.get(name)), None)
            named = found[1] if found.groups() else tool
            return said if isinstance(said, str) else named
    return None


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
    """Return the last result that is written below a call; `None` if there is none."""
    if not isinstance(content, str):
        return None
    _, mark, said = f"\n{content}".rpartition(_OBSERVATION)
    return said.strip() if mark else None
