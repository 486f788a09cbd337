"""What bounds a process, and how it ended.  Pure values (CONTRACT.md §7.3)."""

from typing import Final, Literal

import attrs

BY_SIGNAL: Final = 128
"""Plus the number of a signal: the exit code of a command that it ended, as in a shell."""

How = Literal[
    "exited",
    "signalled",
    "timed_out",
    "cancelled",
    "frame_overflow",
    "stream_overflow",
    "memory",
    "spawn_failed",
    "lost",
]
"""`exited` and `signalled` are the child's own ends.

The next five are ours, regardless of the child's reaction. `spawn_failed`: no process was started.
`lost`: its machine is gone.
"""


@attrs.frozen(kw_only=True)
class Bounds:
    """Caps of one process and its descendants."""

    deadline_seconds: float | None = None
    """Wall time from the call on, starting included; `None` for no deadline."""
    grace_seconds: float = 2.0
    """Between TERM and KILL, after the deadline or a cancellation.  The other caps get no grace."""
    stream_bytes: int = 1024 * 1024
    """Kept of stdout and of stderr each: half from the head, half from the tail."""
    streams: Literal["drain", "kill"] = "drain"
    """What happens over `stream_bytes`: count and hash on, or kill."""
    frame_bytes: int = 1024 * 1024
    """Taken from the reply descriptor; one byte more kills."""
    memory_bytes: int | None = None
    """Resident bytes of the process and its descendants together, looked at ten times a second: a
    faster growth overshoots, and pages that processes share count once for each."""


@attrs.frozen(kw_only=True)
class Captured:
    """The kept part of a stream."""

    kept: bytes = b""
    """All of it, or its first `head_bytes` and then its last bytes."""
    head_bytes: int = 0
    """The offset of the gap in `kept`; `len(kept)` without a gap."""
    seen_bytes: int = 0
    sha256: str = ""
    """Of all the bytes seen, the dropped ones included; 64 lower-case hex digits."""

    @property
    def truncated(self) -> bool:
        """Whether bytes were dropped."""
        return self.seen_bytes > len(self.kept)


@attrs.frozen(kw_only=True)
class Ended:
    """The end of a process, and its output."""

    how: How
    code: int | None = None
    """Exit code; `None` if a signal ended it, or if the host reaped it behind our back."""
    signal: int | None = None
    """Number of the signal that ended the process, ours or another's."""
    stdout: Captured
    stderr: Captured
    reply: bytes = b""
    """All that came on the reply descriptor, up to `frame_bytes`; partial if the child died."""
    swept: int = 0
    """Descendants outside the process group that had to be killed."""
    duration_seconds: float = 0.0
    """From the call to the return."""
    error: str = ""
    """For people: why it never started; empty otherwise."""
