"""The delegation tools that Refold ships, as they are without configuration: one row a tool."""

from refold.engine.ports import Tool
from refold.tools.subagent import subagent_tool


def shipped_tools() -> tuple[Tool, ...]:
    """Return every shipped delegation tool; replay knows them by name."""
    return (subagent_tool(),)
