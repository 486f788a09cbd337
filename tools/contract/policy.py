"""The delegation tools that Refold ships, one row each.

Agent files may name a tool with a row; `tools.delegation` describes how to add one. A dialect
outside the package is passed as a value and needs no row (CONTRACT.md §10.4).
"""

from typing import Final

import attrs


@attrs.frozen(kw_only=True)
class DelegationPolicy:
    """One row: what others know of a delegation tool."""

    addressable: bool = False
    """Whether the child's conversation can be read back by id; else it is sealed, in the log."""
    also: tuple[str, ...] = ()
    """Tools that come with it and start no child."""


POLICIES: Final[dict[str, DelegationPolicy]] = {
    "subagent": DelegationPolicy(),
    "subagent_dispatch": DelegationPolicy(addressable=True),
    "dispatch_subagent": DelegationPolicy(),
    "dispatch_subagents": DelegationPolicy(),
    "spawn": DelegationPolicy(also=("spawn_await",)),
}
"""By the name of the tool that starts the child."""
