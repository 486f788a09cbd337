"""What each delegation tool grants its children, as data: one row a tool.

A row says what kind of child it is; the numbers are what a dialect asks for, and the engine grants
the lower of these and the caller's own (CONTRACT.md §8).  Agent files may name what has a row; how
one is added stands in `tools.delegation`.  A dialect outside the package needs no row: it is passed
(CONTRACT.md §10.4).
"""

from typing import Final, Literal, get_args

import attrs

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import ArtifactKind
from refold.engine.ports.ports import Policy

Isolation = Literal["fresh", "fork", "shared"]
"""`fresh`: the child knows what it is told · `fork`: it begins with a copy of its caller's session
· `shared`: it acts on its caller's session itself."""
ToolScope = Literal["caller", "own", "chosen"]
"""`caller`: what the caller has · `own`: what the agent's definition names · `chosen`: the
caller's, less what the call or a profile leaves out, and never the tool itself."""


@attrs.frozen(kw_only=True)
class DelegationPolicy:
    """One row: what a delegation tool's children are."""

    isolation: tuple[Isolation, ...]
    """What it may be set up to do, the default first."""
    tools: ToolScope
    """Whose tools the children have."""
    levels: int | None = None
    """Levels of runs below the caller; `None` for no cap of its own: the engine's holds."""
    limits: Limits = Limits()
    """Asked for where the call says nothing."""
    caps: Limits = Limits()
    """The most that a call may ask for."""
    deferred: bool = False
    """Whether the call returns before the child has ended."""
    fanout: int | None = 1
    """Children of one call; `None` for any number."""
    addressable: bool = False
    """Whether the child's conversation can be read back by id; else it is sealed, in the log."""
    artifact_kinds: tuple[ArtifactKind, ...] = get_args(ArtifactKind)
    """What the children may hand back."""
    also: tuple[str, ...] = ()
    """Tools that come with it and start no child."""

    @property
    def policy(self) -> Policy:
        """What the engine holds the child's reply to."""
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
