"""The delegation tools that Refold ships, one row each.

Agent files may name a tool with a row; `tools.delegation` describes how to add one. A dialect
outside the package is passed as a value and needs no row (CONTRACT.md §10.4).
"""

from collections.abc import Iterable
from typing import Final

POLICIES: Final[dict[str, tuple[str, ...]]] = {
    "subagent": (),
    "subagent_dispatch": (),
    "dispatch_subagent": (),
    "dispatch_subagents": (),
    "spawn": ("spawn_await",),
}
"""Tools that come with a delegation tool and start no child, by the tool's name."""


def with_companions(names: Iterable[str]) -> tuple[str, ...]:
    """Return names of tools, each with those of the tools that come with it."""
    return tuple(one for name in names for one in (name, *POLICIES.get(name, ())))
