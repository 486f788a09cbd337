"""What recording one run takes, what comes of it, and what a resume hands over.

Values that pass between whoever starts a run and the recorder; nothing here acts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from refold.engine.events.events import Event, RunFinished, RunResumed
from refold.engine.kernel.unawaited import Slip, Unheard
from refold.engine.loop.loop import Timer
from refold.engine.ports.effects import Effect
from refold.engine.ports.ports import Program, Question, Terms, Tool
from refold.engine.recording.driver import Arrival
from refold.engine.secrets.vault import Vault
from refold.engine.state import Fold

if TYPE_CHECKING:
    from refold.engine.recording.ledger import Ledger  # it needs what needs this file


@attrs.frozen(kw_only=True)
class RunRequest(Terms):
    """All that recording one run takes."""

    program: Program
    log: Path
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    meta: dict[str, int | str] = attrs.field(factory=dict)
    vault: Vault = attrs.field(factory=Vault)
    """Redaction, secrets and volatile paths."""


@attrs.frozen(kw_only=True)
class Recorded:
    """One recorded run: its last event and where its log stands."""

    finished: RunFinished
    log: Path
    head: str
    entries: int
    fold: Fold
    duration_ms: int
    interrupted: bool = False
    place: tuple[str, int] | None = None
    """File and line of the program that raised, if it did."""
    raised: BaseException | None = None
    """What it raised."""
    questions: tuple[Question, ...] = ()
    """What a suspended run waits for; its log has no `run.finished`."""
    slips: tuple[Slip, ...] = ()
    """Calls that the program never awaited."""
    unheard: tuple[Unheard, ...] = ()
    """Exceptions that nobody awaited."""


@attrs.frozen(kw_only=True)
class Handed:
    """What a recorder needs in order to go on where an unfinished record ends."""

    ledger: "Ledger"
    """Of the record, its log open to be written."""
    resumed: RunResumed
    active_us: int
    virtual_us: int
    """Virtual time as the program last saw it."""
    timers: list[tuple[int, Timer]]
    """Timers that are armed, and microseconds left of each."""
    effects: list[Effect]
    """What is to be started, again or for the first time, in the order of requests."""
    arrivals: list[Arrival]
    """Outcomes that somebody decided."""
    asked: Mapping[str, Event] = attrs.field(factory=dict)
    """The requests that are open, by call."""
    changes: Mapping[str, int] = attrs.field(factory=dict)
    """How often children that share the session have changed it, by their paths."""


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools by their names, sorted."""
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
