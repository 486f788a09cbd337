"""The requests of a program to the world: effects, described in the imperative.

An effect does nothing itself.  The kernel hands it to the driver after its request is in the log
(CONTRACT.md §9.2); what came of it returns as an event.
"""

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Delegation, Model, ModelRequest, Tool
from refold.engine.ports.program_types import PLAIN, ProgramTypes
from refold.engine.values import Value


@attrs.frozen
class CallTool(Value):
    """Run a leaf tool on JSON arguments."""

    call: str
    tool: Tool
    arguments: dict[str, Json]
    secrets: tuple[tuple[str, str], ...] = ()
    """Places of handles in the arguments, {JSON pointer, name}: replaced before the tool runs."""


@attrs.frozen
class AskModel(Value):
    """Send one request to a model."""

    call: str
    model: Model | None
    """`None` in replay, which asks no model."""
    request: ModelRequest
    name: str = ""
    """As the program asked for the model; empty for the default."""


@attrs.frozen
class RunChild(Value):
    """Start one child run, inside the limits that were granted."""

    call: str
    delegation: Delegation
    number: int
    run_id: str
    limits: Limits
    types: ProgramTypes = PLAIN
    """Of the child's program."""


@attrs.frozen
class AskPerson(Value):
    """Put a question to a person."""

    call: str
    question: str
    schema: dict[str, Json] | None


@attrs.frozen
class GiveUp(Value):
    """End an effect that the program no longer wants."""

    call: str


Effect = CallTool | AskModel | RunChild | AskPerson | GiveUp
