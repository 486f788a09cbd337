"""How a child run ended: one closed shape for every runner and every dialect.

Status comes from what happened, never from text (CONTRACT.md §7).  Pure values.
"""

from typing import Any, Literal

import attrs

from refold.engine.encoding.canonical import Json

Status = Literal["completed", "failed", "timed_out", "rejected", "malformed", "cancelled", "limit"]
"""`completed`: the program returned · `failed`: it raised, crashed, or had no runner ·
`timed_out`: wall time · `rejected`: never started · `malformed`: the reply does not parse ·
`cancelled`: the parent's doing · `limit`: stopped by any other cap."""

STATUSES: tuple[Status, ...] = (
    "completed",
    "failed",
    "timed_out",
    "rejected",
    "malformed",
    "cancelled",
    "limit",
)

ArtifactKind = Literal["note", "path", "diff", "json"]


@attrs.frozen(kw_only=True)
class Artifact:
    """A named, typed, bounded piece of a child's output."""

    kind: ArtifactKind
    value: str
    """Text; for `json`, canonical JSON text."""
    name: str = ""
    """A label, unique within the outcome where it is not empty."""


@attrs.frozen(kw_only=True)
class Report:
    """What a program may return where its parent wants more than a value."""

    summary: str
    """Compact text for the parent."""
    output: Json = None
    artifacts: tuple[Artifact, ...] = ()


@attrs.frozen(kw_only=True)
class Fault:
    """Why something did not succeed, as data."""

    code: str
    """A stable word for programs: `raised`, `max_depth`, `crashed`, `schema`, …"""
    message: str
    """One or two sentences for people."""


@attrs.frozen(kw_only=True)
class Truncated:
    """What a cap cut off a child's text."""

    kept_bytes: int
    seen_bytes: int
    sha256: str
    """Of all the bytes seen, the dropped ones included."""


@attrs.frozen(kw_only=True)
class Usage:
    """What a run spent on models, its children's spending included."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
        )


@attrs.frozen(kw_only=True)
class ChildRef:
    """Which run it was, and where its log stood when the parent joined."""

    run: str
    """The child's run id."""
    head: str
    """The hash of its last entry, 64 lower-case hex digits; empty where it wrote no log."""
    events: int
    """Entries in its log."""


@attrs.frozen(kw_only=True)
class Outcome:
    """How a child ended.  `duration_ms` and `child` stand last: they are volatile (§6.2)."""

    status: Status
    summary: str = ""
    """Compact text for the parent; at most its `summary_bytes` after truncation."""
    output: Json = None
    """The program's return value."""
    artifacts: tuple[Artifact, ...] = ()
    error: Fault | None = None
    """Set unless `completed`."""
    truncated: Truncated | None = None
    tools_used: tuple[str, ...] = ()
    """In order of first use, as observed in the child's log."""
    usage: Usage = Usage()
    duration_ms: int = 0
    child: ChildRef | None = None
    """`None` for `rejected`: no run existed."""

    @property
    def ok(self) -> bool:
        """Whether the child completed."""
        return self.status == "completed"


def failed(status: Status, code: str, message: str, **more: Any) -> Outcome:
    """Return an outcome that is not `completed`, with its fault."""
    return Outcome(status=status, error=Fault(code=code, message=message), **more)
