"""`subagent`: one fresh child for one task; the caller waits; six keys come back, always.

    in   task, and perhaps context, files, max_iterations, timeout_seconds
    out  {"success", "summary", "artifacts", "error", "timed_out", "duration_ms"}

The child sees the task, the context and the hints, and nothing of the caller's conversation. Every
outcome and every refusal has the same six keys in the same order; the tool never raises. Arguments
are checked strictly. Values above a hard cap are clamped, which is logged. Calls of one run take
turns. `tools.delegation.shared` has the parts shared with other tools; the child's loop is
`engine.program.agent`.  Rules: CONTRACT.md §10.7.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import texts
from refold.engine.errors import LimitRefused
from refold.engine.events.limits import Limits
from refold.engine.kernel.pending import Child
from refold.engine.ports.delegation import Children, Delegation
from refold.engine.ports.ports import Policy, Program, Reference
from refold.engine.program.agent import caller
from refold.engine.program.run import Run
from refold.tools.agents.plans import NOT_BLANK
from refold.tools.contract.memory import memory_of, settings_of
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    call_begins,
    call_ends,
    delegate_each,
    may_delegate,
    offered_to_child,
    outcome_in,
    remaking,
    unknown_in,
    why_missing,
    with_values,
)
from refold.tools.delegation.words import answer_of, error_of, truncation_text

NAME: Final = "subagent"
KEYS: Final = ("success", "summary", "artifacts", "error", "timed_out", "duration_ms")
"""Of every result, in this order."""

DESCRIPTION: Final = (
    "Hand one self-contained task to a fresh agent and wait for its result. The agent sees only "
    "the task, the context and the file names given here, none of this conversation. Returns "
    "success, summary, artifacts, error, timed_out and duration_ms."
)


@attrs.frozen(kw_only=True)
class SubagentOptions:
    """How a `subagent` tool is set up.  The model that calls it can change none of it."""

    enabled: bool = True
    """Whether children may be started; if not, every call is refused with that reason."""
    program: Program | Reference | str = "agent"
    """The child's program."""
    agent: str = NAME
    """The child's name as an agent."""
    system: str = ""
    """The child's system prompt."""
    model: str = ""
    """The child's model, by a name given to `record(models=…)`; empty for the caller's."""
    parameters: Mapping[str, Json] = {}
    """Parameters of the child's model, such as `max_tokens`, over those of the caller's if the
    child has the caller's model."""
    tools: tuple[str, ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(texts)
    )
    """Tools offered to the child, among the run's own; `None` for all of the caller's."""
    max_depth: int = 1
    """Levels below the caller that may exist."""
    timeout_seconds: int = 120
    """The default for calls without a value."""
    max_iterations: int = 8
    """The default for calls without a value."""
    timeout_seconds_cap: int = 600
    """A call that asks for more gets this."""
    max_iterations_cap: int = 50
    """A call that asks for more gets this."""
    request_bytes: int | None = 256 * 1024
    """The most that a task, a context or all file hints may have, in bytes of UTF-8; a call with
    more starts nothing.  `None` for no cap of the tool's own."""
    parallel: bool = False
    """Whether several calls of one run may work at once; else they take turns, in the order of the
    calls."""
    policy: Policy = Policy()
    """Caps on what comes back, and the kinds of artifacts allowed."""
    runner: str = ""
    """The child's runner; empty for the run's default."""

    def __attrs_post_init__(self) -> None:
        least = {"max_depth": 0, "timeout_seconds": 1, "max_iterations": 1}
        least |= {f"{name}_cap": least[name] for name in ("timeout_seconds", "max_iterations")}
        if self.request_bytes is not None:
            least["request_bytes"] = 1
        for name, smallest in least.items():
            value = getattr(self, name)
            if type(value) is not int or value < smallest:
                raise LimitRefused(name, f"an integer of at least {smallest}", repr(value))

    @property
    def children(self) -> Children | None:
        """What all children need; None if none is started."""
        if not self.enabled:
            return None
        return Children(
            program=self.program,
            tools=self.tools,
            models=(self.model,) if self.model else (),
            levels=self.max_depth,
            runner=self.runner,
        )

    @property
    def reference(self) -> Reference | None:
        """How a subprocess makes the same tool; `None` if it cannot import the program."""
        return remaking(__name__, _changed(self), self.program)


def subagent_tool(options: SubagentOptions | None = None, /, **changes: Any) -> DelegationTool:
    """Return the tool; keywords are the attributes of `SubagentOptions`.

    Raises:
        LimitRefused: a number is not a valid limit.
        TypeError: a keyword is not an option.
    """
    chosen = attrs.evolve(options or SubagentOptions(), **changes)

    async def handler(run: Run, arguments: dict[str, Json], /) -> Json:
        settings = dict(settings_of(run, NAME, lambda: _settings(chosen)))
        missing = settings.pop("missing", "")
        return await _handled(run, _set_up(chosen, settings), arguments, missing)

    return DelegationTool(
        name=NAME,
        description=DESCRIPTION,
        parameters=_schema(chosen),
        handler=handler,
        reference=chosen.reference,
        children=chosen.children,
        measured=("/duration_ms",),
    )


def remade(**plain: Any) -> DelegationTool:
    """Return the tool that a reference describes."""
    return subagent_tool(with_values(SubagentOptions(), plain))


def _set_up(given: SubagentOptions, settings: Mapping[str, Any]) -> SubagentOptions:
    """Return the options recorded in the run's log; the child's program is code, and as given."""
    usual = SubagentOptions(program=given.program, runner=given.runner)
    return with_values(usual, settings)


def _settings(options: SubagentOptions) -> dict[str, Any]:
    """Return the settings for a run's log; `missing` is why the program is unavailable, if so."""
    always = {"request_bytes": options.request_bytes, "parallel": options.parallel}
    missing = why_missing(options.program)
    plain = _changed(attrs.evolve(options, runner=""))
    return plain | always | ({"missing": missing} if missing else {})


def _changed(options: SubagentOptions) -> dict[str, Any]:
    """Return the options that are not as by default, as a log holds them."""
    return attrs.asdict(
        options, filter=lambda field, value: field.name != "program" and value != field.default
    )


# --- one call ----------------------------------------------------------------------------------


async def _handled(
    run: Run, options: SubagentOptions, arguments: dict[str, Json], missing: str
) -> Json:
    """Return the six keys for one call, which is always logged."""
    refused = _refused(options, arguments, missing)
    async with contextlib.nullcontext() if options.parallel or refused else _turn_of(run):
        if refused:
            ticket = call_begins(run, NAME, arguments.get("task"))
            result = _refusal(refused)
        else:
            limits, clamped = _granted(run.limits, options, arguments)
            caps = {name: getattr(limits, name) for name in _CAPPED}
            ticket = call_begins(run, NAME, arguments["task"], limits=caps, clamped=clamped)
            (child,) = await delegate_each(run, [_delegation(run, options, arguments, limits)])
            most = {name: getattr(options, f"{name}_cap") for name in _CAPPED}
            result = result_of(run, child, most)
        told = ("success", "timed_out", "error", "duration_ms")
        call_ends(run, ticket, **{name: result[name] for name in told})
    return result


def _turn_of(run: Run) -> asyncio.Lock:
    """Return what calls of one run wait for: the document rules out children at once."""
    return memory_of(run, "turn of subagent", asyncio.Lock)


def _refused(options: SubagentOptions, arguments: Mapping[str, Json], missing: str) -> str:
    """Return why a call starts nothing; empty where it starts a child."""
    if not options.enabled:
        return f"disabled: {NAME} is not enabled in this phase"
    if problems := _problems(arguments):
        return f"arguments: {'; '.join(problems)}"
    if large := _too_large(arguments, options.request_bytes):
        return f"rejected: {'; '.join(large)}"
    return missing if missing.startswith("program") else missing and f"program: {missing}"


def result_of(run: Run, child: Child, most: Mapping[str, int]) -> dict[str, Json]:
    """Return the six keys for a child; if output was cut off, one more artifact describes it."""
    outcome = outcome_in(child)
    artifacts = [{"kind": item.kind, "value": item.value} for item in outcome.artifacts]
    if outcome.truncated is not None:
        artifacts.append({"kind": "note", "value": truncation_text(outcome.truncated)})
    return {
        "success": outcome.ok,
        "summary": answer_of(outcome),
        "artifacts": artifacts,
        "error": error_of(outcome, run=run, limits=child.limits, most=most),
        "timed_out": outcome.status == "timed_out",
        "duration_ms": outcome.duration_ms,
    }


def _refusal(error: str) -> dict[str, Json]:
    values: tuple[Json, ...] = (False, "", [], error, False, 0)
    return dict(zip(KEYS, values, strict=True))


def _delegation(
    run: Run, options: SubagentOptions, arguments: Mapping[str, Json], limits: Limits
) -> Delegation:
    has = caller()
    own = has.child(
        name=options.agent, system=options.system, model=options.model,
        parameters=options.parameters,
    )  # fmt: skip
    given: dict[str, Json] = {"agent": own}
    given |= {name: arguments[name] for name in ("task", "context", "files") if name in arguments}
    return Delegation(
        program=options.program,
        input=given,
        brief=arguments["task"],
        agent=options.agent,
        tool=NAME,
        tools=_tools_of(run, options, has.tools),
        levels=options.max_depth,
        limits=limits,
        policy=options.policy,
        runner=options.runner,
    )


def _tools_of(
    run: Run, options: SubagentOptions, own: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """Return the names offered to the child; `None` for all that the run has."""
    names = own if options.tools is None else options.tools
    if may_delegate(run, options.max_depth):
        return names
    return offered_to_child(run, run.tools if names is None else names, options.max_depth)


def _granted(
    own: Limits, options: SubagentOptions, arguments: Mapping[str, Json]
) -> tuple[Limits, dict[str, Json]]:
    """Return the caller's limits narrowed for a call, and the requested values above them."""
    caps: dict[str, Any] = {}
    clamped: dict[str, Json] = {}
    for name in _CAPPED:
        asked = arguments.get(name, getattr(options, name))
        allowed = [getattr(options, f"{name}_cap"), getattr(own, name)]
        caps[name] = min(asked, *(cap for cap in allowed if cap is not None))
        if caps[name] < asked:
            clamped[name] = asked
    return attrs.evolve(own, **caps), clamped


# --- arguments ---------------------------------------------------------------------------------


def _schema(options: SubagentOptions) -> dict[str, Any]:
    numbers = {
        name: {
            "type": "integer",
            "minimum": 1,
            "description": f"{what}; at most {getattr(options, f'{name}_cap')}.",
            "default": getattr(options, name),
        }
        for name, what in _CAPPED.items()
    }
    most = {} if options.request_bytes is None else {"maxLength": options.request_bytes}
    return {
        "type": "object",
        "properties": {
            "task": {
                "type": "string",
                "minLength": 1,
                "pattern": NOT_BLANK,
                "description": "What is to be done, complete in itself.",
                **most,
            },
            "context": {
                "type": "string",
                "description": "What it needs to know beyond the task.",
                **most,
            },
            "files": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Paths worth reading; hints only.",
            },
            **numbers,
        },
        "required": ["task"],
        "additionalProperties": False,
    }


_CAPPED: Final = {
    "max_iterations": "Model requests that it may make",
    "timeout_seconds": "Wall time that it may take",
}
"""The limits that a call may request, up to a cap."""


def _is_text(value: Json) -> bool:
    return type(value) is str


_EXPECTED: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "task": ("text that is not blank", lambda value: _is_text(value) and bool(value.strip())),
    "context": ("text", _is_text),
    "files": ("an array of texts", lambda value: type(value) is list and all(map(_is_text, value))),
    **dict.fromkeys(
        _CAPPED, ("an integer of at least 1", lambda value: type(value) is int and value >= 1)
    ),
}
"""By argument: the expected type, and a check of it."""


def _problems(arguments: Mapping[str, Json]) -> tuple[str, ...]:
    """Return what does not fit, in the order of the schema, unknown names last."""
    found = (
        f"/{name}: expected {expected}, found {_seen(arguments, name)}"
        for name, (expected, fits) in _EXPECTED.items()
        if (name in arguments or name == "task") and not fits(arguments.get(name))
    )
    return (*found, *unknown_in(arguments, _EXPECTED))


def _too_large(arguments: Mapping[str, Json], allowed: int | None) -> list[str]:
    """Return the arguments that exceed the request limit, each with its size."""
    texts = {"task": [arguments["task"]], "context": [arguments.get("context", "")]}
    texts["files"] = arguments.get("files", [])
    sizes = {name: sum(len(text.encode()) for text in texts[name]) for name in texts}
    return [
        f"/{name}: expected at most {allowed} bytes, found {size}"
        for name, size in sizes.items()
        if allowed is not None and size > allowed
    ]


def _seen(arguments: Mapping[str, Json], name: str) -> str:
    return f"{arguments[name]!r:.60}" if name in arguments else "nothing"
