"""A table of permissions that each delegation tool grants its children, one row per tool.

A row describes the kind of child. Its limits are requests: the engine grants the lower of these and
the caller's own (CONTRACT.md §8). Agent files may name a tool with a row; `tools.delegation`
describes how to add one. A dialect outside the package is passed as a value and needs no row
(CONTRACT.md §10.4).
"""

from typing import Final, Literal, get_args

import attrs

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import ArtifactKind
from refold.engine.ports.ports import Policy

Isolation = Literal["fresh", "fork", "shared"]
"""`fresh`: the child knows only its task.

`fork`: it starts with a copy of its caller's session.
`shared`: it acts on its caller's session itself.
"""
ToolScope = Literal["caller", "own", "chosen"]
"""`caller`: the caller's tools.

`own`: the tools named in the agent's definition.
`chosen`: the caller's tools without those that the call or a profile excludes, and never the tool
itself.
"""


@attrs.frozen(kw_only=True)
class DelegationPolicy:
    """One row: the properties of a delegation tool's children."""

    isolation: tuple[Isolation, ...]
    """The isolation levels that can be configured, the default first."""
    tools: ToolScope
    """Whose tools the children have."""
    levels: int | None = None
    """Levels of runs below the caller; `None` for no cap of its own: the engine's holds."""
    limits: Limits = Limits()
    """The limits requested if the call sets none."""
    caps: Limits = Limits()
    """The most that a call may ask for."""
    deferred: bool = False
    """Whether the call returns before the child has ended."""
    fanout: int | None = 1
    """Children of one call; `None` for any number."""
    addressable: bool = False
    """Whether the child's conversation can be read back by id; else it is sealed, in the log."""
    artifact_kinds: tuple[ArtifactKind, ...] = get_args(ArtifactKind)
    """The kinds of artifacts that the children may return."""
    also: tuple[str, ...] = ()
    """Tools that come with it and start no child."""

    @property
    def policy(self) -> Policy:
        """The policy by which the engine checks the child's reply."""
        return Policy(artifact_kinds=self.artifact_kinds)


POLICIES: Final[dict[str, DelegationPolicy]] = {
    "subagent": DelegationPolicy(
        isolation=("fresh",),
        tools="caller",
        levels=1,
        limits=Limits(timeout_seconds=120, max_iterations=8),
        caps=Limits(timeout_seconds=600, max_iterations=50),
    ),
    "subagent_dispatch": DelegationPolicy(isolation=("fresh",), tools="own", addressable=True),
    "dispatch_subagent": DelegationPolicy(isolation=("fork",), tools="caller"),
    "dispatch_subagents": DelegationPolicy(
        isolation=("fork", "shared"), tools="caller", fanout=None
    ),
    "spawn": DelegationPolicy(
        isolation=("fresh",), tools="chosen", deferred=True, also=("spawn_await",)
    ),
}
"""By the name of the tool that starts the child."""
