"""The tools that a run may call: an explicit, frozen set, ordered by name.

There is no global registry and nothing registers itself: the caller of `record` or of a child's
start passes the tools.  Rules: CONTRACT.md §10.
"""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from refold.engine.encoding.parameters import texts
from refold.engine.errors import ToolRefused, ToolUnknown
from refold.engine.ports.ports import Tool, ToolDefinition
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
                    tool.name, "name", "another tool has it: name one of them otherwise"
                )
        self._tools = {name: found[name] for name in sorted(found)}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __repr__(self) -> str:
        return f"<registry of {', '.join(self._tools) or 'no tools'}>"

    @property
    def names(self) -> tuple[str, ...]:
        """The names, sorted."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool:
        """Return the tool with this name.

        Raises:
            ToolUnknown: no tool has this name; `known` lists the nearest names first.
        """
        if name in self._tools:
            return self._tools[name]
        near = get_close_matches(name, self._tools, n=3)
        raise ToolUnknown(name, (*near, *(known for known in self._tools if known not in near)))

    def only(self, names: Iterable[str]) -> "Registry":
        """Return a registry with only these names.

        Raises:
            ToolUnknown: a name is not in this registry; a child cannot have tools that its parent
                lacks.
        """
        return Registry(self.get(name) for name in texts(names, "names"))

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the tools as a model sees them, sorted by name."""
        return tuple(map(ToolDefinition.of, self))
