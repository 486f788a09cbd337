"""The input and the result of recording one run.

Values that pass between the caller that starts a run and the recorder; nothing here acts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from refold.engine.events.events import RunFinished
from refold.engine.kernel.unawaited import Slip
from refold.engine.ports.ports import Program, Question, Terms, Tool
from refold.engine.ports.program_types import PLAIN, ProgramTypes
from refold.engine.secrets.vault import Vault
from refold.engine.state.folding import Fold
from refold.engine.values import Value


@attrs.frozen(kw_only=True)
class RunRequest(Terms):
    """All that recording one run takes."""

    program: Program
    log: Path
    tools: Mapping[str, Tool] = attrs.field(factory=dict)
    meta: dict[str, int | str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    vault: Vault = attrs.field(factory=Vault)
    """Redaction, secrets and volatile paths."""


@attrs.frozen(kw_only=True)
class RecordedRun(Value):
    """One recorded run: its last event and its log's path."""

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
    """Its exception."""
    questions: tuple[Question, ...] = ()
    """The open questions of a suspended run; its log has no `run.finished`."""
    slips: tuple[Slip, ...] = ()
    """Calls that the program never awaited."""
    unheard: tuple[Slip, ...] = ()
    """Exceptions that nobody awaited."""
    types: ProgramTypes = PLAIN
    """Of the program."""


def by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    """Return tools by their names, sorted."""
    return {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
