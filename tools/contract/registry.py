"""The tools that a run may call: an explicit, frozen set, ordered by name.

There is no global registry and nothing registers itself: the caller of `record` or of a child's
start passes the tools.  Rules: CONTRACT.md §10.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from refold.engine.errors import ToolRefused
from refold.engine.ports.ports import Tool
from refold.tools.contract.tool_types import as_tool


class Registry:
    """Tools by name; iteration is sorted by name, regardless of the order given."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        """Take tools; a plain function becomes a tool that `changes` the world.

        Raises:
            ToolRefused: one cannot be a tool, or two have the same name.
        """
        found: dict[str, Tool] = {}
        for thing in tools:
            tool = as_tool(thing)
            if found.setdefault(tool.name, tool) is not tool:
                raise ToolRefused(
                    tool.name, "name", "another tool has this name: rename one of them"
                )
        self._tools = {name: found[name] for name in sorted(found)}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(self._tools)
