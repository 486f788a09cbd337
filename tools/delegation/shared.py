"""Parts that every delegation tool shares: start, join, and log notes.

A dialect parses a payload into `Delegation`s and renders their outcomes. The engine handles
starting, limits, depth and logs. Clocks and ids are read only through `run`, so a replay gives the
same result.  Rules: CONTRACT.md §10.4; the tools: `tools.delegation.subagent`, ….
"""

import asyncio
import hashlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.strict import nearest
from refold.engine.errors import ProgramNotFound, UsageError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.ports import Policy, Program, Reference, Tool
from refold.engine.ports.programs import found_program, reference_of
from refold.engine.program.agent import YIELDS
from refold.engine.program.run import Run
from refold.tools.agents.plans import NOT_BLANK
from refold.tools.contract.policy import POLICIES

T = TypeVar("T")

MOMENT_SECONDS: Final = 1e-6
"""A timer so short just gives the world its turn: a list of refusals holds up no time limit."""


async def delegate_one(run: Run, delegation: Delegation) -> Child:
    """Start one child, wait for it and return it; `outcome` is set.  Being cancelled cancels it."""
    child = await run.start(delegation)
    try:
        await run.join(child)
    except asyncio.CancelledError:
        run.cancel(child)
        raise
    return child


async def delegate_all(run: Run, delegations: Sequence[Delegation]) -> tuple[Outcome, ...]:
    """Start children, all before the first is waited for; return their outcomes in that order.

    Being cancelled cancels the children.
    """
    return tuple(map(outcome_in, await delegate_each(run, delegations)))


def outcome_in(child: Child) -> Outcome:
    """Return the outcome of a child that was joined."""
    return child.outcome if child.outcome is not None else Outcome(status="failed")


def yields_after(count: int) -> bool:
    """Return whether the world has its turn between `count` items of a list and the next."""
    return count > 0 and count % YIELDS == 0


async def delegate_each(run: Run, delegations: Sequence[Delegation]) -> tuple[Child, ...]:
    """Do as `delegate_all`, and return the children, each with its outcome and its limits."""
    children: list[Child] = []
    try:
        for delegation in delegations:
            if yields_after(len(children)):
                await run.sleep(MOMENT_SECONDS)
            children.append(await run.start(delegation))
        await run.join(*children)
        return tuple(children)
    except asyncio.CancelledError:
        for child in children:
            run.cancel(child)
        raise


# --- what the log and the diagnostics say of a call --------------------------------------------


@attrs.frozen(kw_only=True)
class Ticket:
    """One call of a delegation tool, between its two notes in the log."""

    tool: str
    correlation_id: str
    """The run's id and the call key of the tool's call: `3f0c…:0/1#2`."""
    task_sha256: str | None
    """The SHA-256 of the task's UTF-8 text; `None` without a task."""
    started_at: str
    """ISO 8601, as programs see the time."""


def call_begins(run: Run, tool: str, task: Json, **details: Json) -> Ticket:
    """Write `<tool> begins` into the log: which call, of what, since when, and `details`."""
    text = task if isinstance(task, str) else None
    ticket = Ticket(
        tool=tool,
        correlation_id=f"{run.id}:{run.call}",
        task_sha256=None if text is None else hashlib.sha256(text.encode()).hexdigest(),
        started_at=run.now().isoformat(),
    )
    note: dict[str, Json] = {
        "correlation_id": ticket.correlation_id,
        "task_sha256": ticket.task_sha256,
        "started_at": ticket.started_at,
    }
    measured = ("/correlation_id", "/started_at")
    run.annotate(f"{tool} begins", note | details, measured=measured)
    return ticket


def call_ends(run: Run, ticket: Ticket, *, ids: Iterable[str] = (), **status: Json) -> None:
    """Write `<tool> ends` into the log, and one line of diagnostics, with `status`.

    `ids` are the texts that the call made of its child's id, and gives to a model.

    The line goes through structlog where an application has configured it; nothing reads it back.
    """
    note: dict[str, Json] = {"correlation_id": ticket.correlation_id, **status}
    measured = [f"/{name}" for name in ("correlation_id", "duration_ms") if name in note]
    run.annotate(f"{ticket.tool} ends", note, measured=measured, ids=ids)
    structlog = sys.modules.get("structlog")  # not imported, it is not configured either
    if structlog is not None and structlog.is_configured():
        told = {**note, "task_sha256": ticket.task_sha256, "started_at": ticket.started_at}
        structlog.get_logger("refold.delegation").info(ticket.tool, **told)


def call_failed(run: Run, ticket: Ticket, error: str) -> None:
    """Write that a call ended before it had a child, and why."""
    call_ends(run, ticket, success=False, timed_out=False, error=error, duration_ms=0)


def texts_schema(texts: Mapping[str, str], *required: str) -> dict[str, Any]:
    """Return the JSON schema of text arguments, each with its description."""
    bounds = {"minLength": 1, "pattern": NOT_BLANK}
    described: dict[str, Any] = {
        name: {"type": "string", "description": text} | (bounds if name in required else {})
        for name, text in texts.items()
    }
    return {
        "type": "object",
        "properties": described,
        "required": [*required],
        "additionalProperties": False,
    }


def unknown_in(arguments: Mapping[str, Json], known: Iterable[str]) -> list[str]:
    """Return a problem for each argument that a tool does not take, with the nearest name."""
    names = tuple(known)
    return [
        f"/{name}: unknown argument{nearest(name, names)} (there are {', '.join(names)})"
        for name in sorted(arguments)
        if name not in names
    ]


def text_problems(arguments: Mapping[str, Json], schema: Mapping[str, Any]) -> list[str]:
    """Return what does not fit a schema of `texts_schema`, in its order, unknown names last."""
    found = []
    for name in schema["properties"]:
        value, is_required = arguments.get(name), name in schema["required"]
        if value is None and not is_required:
            continue
        if type(value) is not str or (is_required and not value.strip()):
            expected = "text that is not blank" if is_required else "text"
            seen = f"{value!r:.60}" if name in arguments else "nothing"
            found.append(f"/{name}: expected {expected}, found {seen}")
    return [*found, *unknown_in(arguments, schema["properties"])]


def offered_to_child(run: Any, tools: Iterable[Tool | str], levels: int | None) -> tuple[str, ...]:
    """Return the names of the tools that a child is offered: none that its depth forbids."""
    names = tuple(each if isinstance(each, str) else each.name for each in tools)
    if may_delegate(run, levels):
        return names
    return tuple(name for name in names if name not in _STARTERS)


def may_delegate(run: Any, levels: int | None) -> bool:
    """Return whether a child of `run` may start children itself."""
    caps = (run.limits.max_depth, None if levels is None else run.depth + levels)
    return all(cap is None or run.depth + 2 <= cap for cap in caps)


_STARTERS: Final = frozenset(name for row in POLICIES for name in (row, *POLICIES[row].also))
"""Tools that start children, and those that are of no use without them."""


def why_missing(program: Program | Reference | str) -> str:
    """Return why a child's program cannot be had; empty where it can.

    Without the places that were searched: they are this machine's, and models read this.
    """
    try:
        found_program(program)
    except UsageError as error:
        return str(error).partition("; sys.path ")[0]
    return ""


def plain_settings(options: Any) -> dict[str, Json]:
    """Return the options of a tool as the log of a run has them, and why its program is missing."""
    missing = why_missing(options.program)
    return values_of(options) | ({"missing": missing} if missing else {})


def values_of(options: Any) -> dict[str, Json]:
    """Return a tool's options for the log, without those that are code."""
    return attrs.asdict(
        options,
        filter=lambda field, _: field.name not in _CODE,
        value_serializer=lambda _, __, value: value.name if isinstance(value, Enum) else value,
    )


def with_values(options: T, plain: Mapping[str, Json]) -> T:
    """Return the options with values that `values_of` gave."""
    values = {name: _value(getattr(options, name), plain[name], name) for name in plain}
    return attrs.evolve(options, **values)  # type: ignore[misc]  # an attrs class


def _value(now: Any, plain: Any, name: str) -> Any:
    match plain:
        case dict() if name in _CLASSES:
            return _CLASSES[name](**{key: _value(None, plain[key], key) for key in plain})
        case list():
            return tuple(plain)
        case _:
            return type(now)[plain] if isinstance(now, Enum) else plain


_CLASSES: Final[Mapping[str, type]] = {"program": Reference, "limits": Limits, "policy": Policy}
_CODE: Final = ("program", "prompts", "session", "missing")
"""Options that are code, and the reason why that code is unavailable."""


def remaking(
    home: str, plain: Mapping[str, Json], program: Program | Reference | str
) -> Reference | None:
    """Return the reference by which another process makes the tool: `remade` in module `home`.

    `None` if that process could not import the children's program.
    """
    try:
        found = attrs.asdict(reference_of(program))
    except ProgramNotFound:
        return None
    given = plain if program == "agent" else {**plain, "program": found}
    return Reference(home, "remade", {**given})
