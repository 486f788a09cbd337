"""The frame of every delegation tool: check the arguments, note, start, join, note, answer.

    arguments -> a `ToolCall`: children to start, and how to render their end -> a `ToolAnswer`

A tool's own file parses its arguments into a `ToolCall` or refuses them. The engine handles the
start, limits, depth and logs. Clocks and ids are read only through `run`, so a replay gives the
same result.  Rules: CONTRACT.md §10.4; the tools: `tools.delegation.subagent`, ….
"""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Generic, TypeVar

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.encoding.strict import nearest
from refold.engine.errors import ToolError
from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child
from refold.engine.ports.ports import Delegation, Tool
from refold.engine.program.agent import YIELDS
from refold.engine.program.run import PlainRun, Run, asynchronous_face, waited
from refold.tools.agents.plans import NOT_BLANK
from refold.tools.contract.options import ChildOptions
from refold.tools.delegation.words import error_of, handed_back

R = TypeVar("R")
Options = TypeVar("Options", bound=ChildOptions)

MOMENT_SECONDS: Final = 1e-6
"""A timer so short just gives the world its turn: a list of refusals holds up no time limit."""


async def delegate_all(run: Run, delegations: Sequence[Delegation]) -> tuple[Outcome, ...]:
    """Start children, all before the first is waited for; return their outcomes in that order.

    Being cancelled cancels the children.
    """
    return tuple(map(outcome_in, await delegate_each(run, delegations)))


def outcome_in(child: Child) -> Outcome:
    """Return the outcome of a child that was joined."""
    return child.outcome if child.outcome is not None else Outcome(status="failed")


async def delegate_each(
    run: Run, delegations: Sequence[Delegation], *, waits: bool = True
) -> tuple[Child, ...]:
    """Do as `delegate_all`, and return the children, each with its outcome and its limits.

    Without `waits`, they are started only.
    """
    children: list[Child] = []
    try:
        for delegation in delegations:
            if children and len(children) % YIELDS == 0:  # the world has its turn
                await run.sleep(MOMENT_SECONDS)
            children.append(await run.start(delegation))
        if waits:
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
    begun: Mapping[str, Json]
    """The SHA-256 of the task's UTF-8 text, `None` without a task; and when, in ISO 8601."""


def call_begins(run: Run | PlainRun, tool: str, task: Json, **details: Json) -> Ticket:
    """Write `<tool> begins` into the log: which call, of what, since when, and `details`."""
    digest = hashlib.sha256(task.encode()).hexdigest() if isinstance(task, str) else None
    begun: dict[str, Json] = {"task_sha256": digest, "started_at": run.now().isoformat()}
    ticket = Ticket(tool=tool, correlation_id=f"{run.id}:{run.call}", begun=begun)
    note = {"correlation_id": ticket.correlation_id, **begun, **details}
    run.annotate(f"{tool} begins", note, measured=("/correlation_id", "/started_at"))
    return ticket


def call_ends(
    run: Run | PlainRun, ticket: Ticket, *, ids: Iterable[str] = (), **status: Json
) -> None:
    """Write `<tool> ends` into the log, and one line of diagnostics, with `status`.

    `ids` are the texts that the call made of its child's id, and gives to a model.

    The line goes through structlog where an application has configured it; nothing reads it back.
    """
    note: dict[str, Json] = {"correlation_id": ticket.correlation_id, **status}
    measured = [f"/{name}" for name in ("correlation_id", "duration_ms") if name in note]
    run.annotate(f"{ticket.tool} ends", note, measured=measured, ids=ids)
    structlog = sys.modules.get("structlog")  # not imported, it is not configured either
    if structlog is not None and structlog.is_configured():
        structlog.get_logger("refold.delegation").info(ticket.tool, **note, **ticket.begun)


def note_of(error: str | None, *, timed_out: bool = False, duration_ms: int = 0) -> dict[str, Json]:
    """Return the members of the note `<tool> ends`, by the error of a call; `None` for none."""
    status = {"success": error is None, "timed_out": timed_out}
    return {**status, "error": error, "duration_ms": duration_ms}


# --- one call ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ChildEnd:
    """How a child ended, in words for a model."""

    outcome: Outcome
    error: str | None
    """`code: message`, unless it completed."""
    value: str = ""
    """The output as JSON text, if it is not a text and has no summary."""

    @classmethod
    def of(cls, run: Any, child: Child, most: Mapping[str, int] | None = None) -> "ChildEnd":
        """Return the end of a child that was joined; `most` is as for `error_of`."""
        outcome = outcome_in(child)
        is_value = outcome.ok and not outcome.summary and child.output_json not in (None, "")
        return cls(
            outcome=outcome,
            error=error_of(outcome, run=run, limits=child.limits, most=most),
            value=encode(child.output_json).decode() if is_value else "",
        )

    @property
    def answer(self) -> str:
        """The answer and the artifacts below it, or the last words."""
        return handed_back(self.outcome, self.value)

    @property
    def failure(self) -> str:
        """The error, and on the next line the last words; empty if the child completed."""
        return "" if self.error is None else "\n".join(filter(None, [self.error, self.answer]))

    @property
    def note(self) -> dict[str, Json]:
        """The note for the log."""
        is_late, took_ms = self.outcome.status == "timed_out", self.outcome.duration_ms
        noted = note_of(self.error, timed_out=is_late, duration_ms=took_ms)
        return {**noted, "success": self.outcome.ok}


@attrs.frozen
class ToolAnswer(Generic[R]):
    """A call's result, or the error that it raises, and the note for the log."""

    result: R | Exception
    note: Mapping[str, Json]
    ids: tuple[str, ...] = ()
    """Texts that the call made of its child's id, and gives to a model."""


@attrs.define(kw_only=True)
class ToolCall(Generic[R]):
    """One call: the children that it starts, and how their end becomes its result."""

    tool: str
    task: Json
    """For the log and the diagnostics."""
    render: Callable[[tuple[Child, ...]], ToolAnswer[R]]
    delegations: list[Delegation] = attrs.field(factory=list)
    details: Mapping[str, Json] = {}
    """More members of the note that the call begins."""
    waits: bool = True
    """Whether the children are joined."""
    turn: AbstractAsyncContextManager[Any] = attrs.field(factory=contextlib.nullcontext)
    """What the call waits for, and holds until the children have ended."""
    close: Callable[[], object] = lambda: None
    """Called once the children have ended, however they did."""


def failing(tool: str, task: Json, error: Exception | R, why: str, **details: Json) -> ToolCall[R]:
    """Return a call that starts nothing: it has this result, or raises this error."""
    answer = ToolAnswer(error, note_of(why))
    return ToolCall(tool=tool, task=task, details=details, render=lambda _: answer)


def answered(run: Any, asked: ToolCall[R] | R) -> R | Awaitable[R]:
    """Return the result of a call, or an awaitable of it in an async program.

    A value that is not a `ToolCall` is returned unchanged. Sessions are released before any error.
    """
    return waited(run, awaited(asynchronous_face(run), asked))  # type: ignore[no-any-return]  # of this type


async def awaited(run: Any, asked: ToolCall[R] | R) -> R:
    """Do as `answered`, for the asynchronous face of a run."""
    if not isinstance(asked, ToolCall):
        return asked
    async with asked.turn:
        ticket = call_begins(run, asked.tool, asked.task, **asked.details)
        try:
            children = await delegate_each(run, asked.delegations, waits=asked.waits)
        finally:  # the sessions of the children are released before the tool returns or raises
            asked.delegations.clear()
            asked.close()
        answer = asked.render(children)
        call_ends(run, ticket, ids=answer.ids, **answer.note)
    if isinstance(answer.result, Exception):
        raise answer.result
    return answer.result


def frame(
    options: Options,
    *,
    name: str,
    make: Callable[[Any], Tool],
    ask: Callable[[Run, Options, dict[str, Json]], ToolCall[Any]],
) -> dict[str, Any]:
    """Return a `DelegationTool`'s name, handler, reference, and what its children need.

    `ask` turns the arguments of a call into a `ToolCall`, by the options that the run recorded.
    `make` makes the tool of its options in another process.
    """

    async def handler(run: Run, arguments: dict[str, Json], /) -> Json:
        return await awaited(run, ask(run, options.recorded(run, name), arguments))

    return {
        "name": name,
        "handler": handler,
        "reference": options.remaking(make),
        "children": options.children,
    }


# --- arguments ---------------------------------------------------------------------------------


def texts_schema(
    texts: Mapping[str, str],
    *required: str,
    most: int | None = None,
    more: Mapping[str, Any] = {},
) -> dict[str, Any]:
    """Return the JSON schema of text arguments, each with its description, and of `more`."""
    bounds = {"minLength": 1, "pattern": NOT_BLANK}
    cap = {} if most is None else {"maxLength": most}
    described: dict[str, Any] = {
        name: {"type": "string", "description": text} | (bounds if name in required else {}) | cap
        for name, text in texts.items()
    }
    return {
        "type": "object",
        "properties": described | dict(more),
        "required": [*required],
        "additionalProperties": False,
    }


def problems_in(arguments: Mapping[str, Json], schema: Mapping[str, Any]) -> list[str]:
    """Return what does not fit a schema of texts, numbers and lists of texts.

    In the order of the schema, with unknown names, and the nearest known one, last.
    """
    known = schema["properties"]
    found = []
    for name, one in known.items():
        if name in arguments or name in schema["required"]:
            expected, fits = _EXPECTED[one["type"], "minLength" in one]
            if not fits(arguments.get(name)):
                seen = f"{arguments[name]!r:.60}" if name in arguments else "nothing"
                found.append(f"/{name}: expected {expected}, found {seen}")
    for name in sorted(arguments.keys() - known):
        near = nearest(name, known)
        found.append(f"/{name}: unknown argument{near} (there are {', '.join(known)})")
    return found


def checked(
    tool: str, arguments: Mapping[str, Json], schema: Mapping[str, Any], options: ChildOptions
) -> None:
    """Check arguments; one that is null counts as left out.

    Raises:
        ToolError: some do not fit, or are too large, or the children's program is missing.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    if problems := problems_in(given, schema) or too_large(given, options.request_bytes):
        raise ToolError(tool, "; ".join(problems), "arguments")
    if options.missing:
        raise ToolError(tool, options.missing, "program")


def too_large(arguments: Mapping[str, Json], most: int | None) -> list[str]:
    """Return the arguments, and the items of a list of objects, that have more than `most` bytes.

    Of UTF-8, all texts of one together.
    """
    sizes: dict[str, int] = {}
    for name, value in arguments.items():
        if isinstance(value, list) and any(isinstance(each, dict) for each in value):
            sizes |= {f"/{name}/{place}": _size(each) for place, each in enumerate(value)}
        else:
            sizes[f"/{name}"] = _size(value)
    return [
        f"{place}: expected at most {most} bytes, found {size}"
        for place, size in sizes.items()
        if most is not None and size > most
    ]


def _size(value: Json) -> int:
    if isinstance(value, str):
        return len(value.encode())
    parts = value.values() if isinstance(value, dict) else value
    return sum(map(_size, parts)) if isinstance(value, dict | list) else 0


def _is_text(value: Json) -> bool:
    return type(value) is str


_EXPECTED: Final[Mapping[tuple[str, bool], tuple[str, Callable[[Any], bool]]]] = {
    ("string", True): (
        "text that is not blank", lambda value: _is_text(value) and bool(value.strip()),
    ),
    ("string", False): ("text", _is_text),
    ("array", False): (
        "an array of texts", lambda value: type(value) is list and all(map(_is_text, value)),
    ),
    ("integer", False): (
        "an integer of at least 1", lambda value: type(value) is int and value >= 1,
    ),
}  # fmt: skip
"""The words for a type of a schema, and its check; by type, and whether blanks are refused."""
