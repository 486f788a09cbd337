"""The delegation tools that Refold ships, one maker for each row of `tools.contract.policy`.

`shipped_tools` makes them without configuration. `as_offered` makes them as a recorded run had
them: their definitions come from its log, where each also finds its own settings.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from refold.engine.errors import ToolUnknown
from refold.engine.ports.ports import Reference, Tool
from refold.tools.contract.policy import POLICIES
from refold.tools.contract.tool_types import DelegationTool, with_approval
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool
from refold.tools.delegation.dispatch_subagents import with_planning
from refold.tools.delegation.spawn import spawn_tools
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.delegation.subagent_dispatch import unconfigured

MAKERS: Final[Mapping[str, Callable[[], tuple[Tool, ...]]]] = {
    "subagent": lambda: (subagent_tool(),),
    "subagent_dispatch": lambda: (unconfigured(),),
    "dispatch_subagent": lambda: (dispatch_subagent_tool(),),
    "dispatch_subagents": with_planning,
    "spawn": spawn_tools,
}
"""What makes the tools of a row without configuration, by the row's name."""


def shipped_tools() -> tuple[Tool, ...]:
    """Return the tools of all rows, in the order of the rows."""
    return tuple(tool for name in POLICIES for tool in MAKERS[name]())


def offered_tools(offers: Iterable[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the shipped delegation tools among the offers of a `run.started`, as offered."""
    found = []
    for offer in offers:
        if offer.get("delegates") and offer["name"] in _shipped():
            tool = as_offered(offer["name"], offer["description"], offer["schema"])
            found.append(with_approval(tool) if offer.get("approval") else tool)
    return tuple(found)


@functools.cache
def _shipped() -> dict[str, Tool]:
    return {tool.name: tool for tool in shipped_tools()}


def as_offered(name: str, description: str, schema: dict[str, Any]) -> DelegationTool:
    """Return the shipped tool of that name with the definition that a run was offered.

    Raises:
        ToolUnknown: none has that name.
    """
    tool = _shipped().get(name)
    if tool is None:
        raise ToolUnknown(name, tuple(_shipped()))
    definition = {"name": name, "description": description, "schema": schema}
    return DelegationTool(
        name=tool.name,
        description=description,
        parameters=schema,
        handler=tool.delegate,
        effect=tool.effect,
        approval=getattr(tool, "approval", False),
        tell=getattr(tool, "tell", None),
        measured=getattr(tool, "measured", ()),
        reference=Reference(__name__, "as_offered", definition),
        stands_in=True,
    )
