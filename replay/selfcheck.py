"""Self-replay: a run is re-executed right after it was recorded, under the tripwire.

A program that does something else the second time is found while it is fresh, and not when its
log is needed; and one that did the same by luck is told what it read of the world.  `record` knows
nothing of it: the face calls `checked` where `check=True` or `REFOLD_CHECK=1` asks for it.
The rule is CONTRACT.md §12.12.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import attrs

from refold.engine.errors import Nondeterministic
from refold.engine.ports import SessionPort
from refold.engine.recording import Recording, in_thread
from refold.replay.reexecute import ReplayReport
from refold.replay.tripwire import Finding, Tripwire

_UNCHECKED: Final = ("suspended",)
"""A run that waits for a person has not ended: nothing to compare its end with."""


@attrs.frozen
class Watched:
    """A re-execution, and what its programs read beside `run`."""

    report: ReplayReport
    findings: tuple[Finding, ...]


def watched(reexecute: Callable[[], ReplayReport]) -> Watched:
    """Call `reexecute` under the tripwire.

    Programs of unfinished records run in processes of their own, where nobody watches.
    """
    if asyncio._get_running_loop() is not None:  # noqa: SLF001 - None instead of an error
        return in_thread(lambda: watched(reexecute))  # type: ignore[no-any-return]  # of this function
    with Tripwire() as wire:
        report = reexecute()
    return Watched(report, wire.findings)


def checked(recording: Recording, reexecute: Callable[[], ReplayReport]) -> Recording:
    """Return the recording, with what the tripwire found among its `warnings`.

    Raises:
        Nondeterministic: the re-execution was not identical.
    """
    if recording.status in _UNCHECKED:
        return recording
    seen = watched(reexecute)
    if not seen.report.identical:
        first = seen.report.divergences[0]
        raise Nondeterministic(str(recording.log), recording, first, seen.findings)
    found = map(str, seen.findings)
    return attrs.evolve(recording, warnings=(*recording.warnings, *found))


def twin_of(session: SessionPort | None) -> Any:
    """Return an empty session with the reducers of `session`, which is left alone."""
    make = getattr(session, "empty", None)
    return make() if make is not None else session
