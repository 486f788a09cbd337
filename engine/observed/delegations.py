"""Recognises tool calls of other frameworks that hand work to another agent, by their names.

A convention is what a framework calls such tools; some let a model write its calls as text, and
write the result below it (ReAct).  What else tells who opened a conversation is
`observed.openers`'s.  Pure.  Rules: CONTRACT.md §16.5.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.wire.parts.notation import holds, object_in

Manner = Literal["handoff", "delegation"]
"""`handoff`: the other agent goes on with the conversation · `delegation`: it gets one of its own,
and its answer is the result of the call."""


@attrs.frozen
class Delegated:
    """A tool call that hands work to another agent."""

    framework: str
    manner: Manner
    agent: str
    """Whom, as far as the call says."""


@attrs.frozen
class _Convention:
    framework: str
    manner: Manner
    tool: re.Pattern[str]
    """Matches the whole name; its group, if it has one, is the agent."""
    arguments: tuple[str, ...] = ()
    """Where the agent's name stands, the first that is there."""


_CONVENTIONS: Final = (
    _Convention("Google ADK", "handoff", re.compile(r"transfer_to_agent"), ("agent_name",)),
    _Convention("OpenAI Agents", "handoff", re.compile(r"transfer_to_(.+)")),
    _Convention(
        "Claude", "delegation", re.compile(r"Task|Agent"), ("subagent_type", "description")
    ),
    _Convention(
        "crewAI", "delegation", re.compile(r"(?i:delegate[_ ]work[_ ]to[_ ]co-?worker)"),
        ("coworker", "co_worker"),
    ),
    _Convention(
        "crewAI", "delegation", re.compile(r"(?i:ask[_ ]question[_ ]to[_ ]co-?worker)"),
        ("coworker", "co_worker"),
    ),
    _Convention("LlamaIndex", "handoff", re.compile(r"handoff"), ("to_agent",)),
    _Convention("agno", "delegation", re.compile(r"delegate_task_to_members?"), ("member_id",)),
    _Convention("", "delegation", re.compile(r"delegate_(?:task_)?(?:to_)?(.+)"), ("agent",)),
)  # fmt: skip


def delegated(
    tool: str, arguments: Mapping[str, Any], profile: Profile = NO_PROFILE
) -> Delegated | None:
    """Return whom a call hands work to; `None` if neither profile nor convention knows it."""
    if tool in profile.hands_over:
        names = (arguments.get(name) for name in profile.hands_over[tool])
        agent = next((each for each in names if isinstance(each, str) and each), tool)
        return Delegated(profile.name, "delegation", agent)
    for one in _CONVENTIONS:
        found = one.tool.fullmatch(tool)
        if found is not None:
            said = next((arguments[name] for name in one.arguments if arguments.get(name)), None)
            named = found[1] if found.groups() else tool
            return Delegated(one.framework, one.manner, said if isinstance(said, str) else named)
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
