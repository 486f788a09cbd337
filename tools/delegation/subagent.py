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
from collections.abc import Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.parameters import names_nearest
from refold.engine.events.limits import Limits
from refold.engine.kernel.pending import Child
from refold.engine.program.agent import caller
from refold.engine.program.run import Run, memory_of
from refold.tools.contract.options import ChildOptions
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    ChildEnd,
    ToolAnswer,
    ToolCall,
    failing,
    frame,
    problems_in,
    texts_schema,
    too_large,
)
from refold.tools.delegation.words import answer_of, truncation_text

NAME: Final = "subagent"
KEYS: Final = ("success", "summary", "artifacts", "error", "timed_out", "duration_ms")
"""Of every result, in this order."""

DESCRIPTION: Final = (
    "Hand one self-contained task to a fresh agent and wait for its result. The agent sees only "
    "the task, the context and the file names given here, not this conversation. Returns "
    "success, summary, artifacts, error, timed_out and duration_ms."
)


@names_nearest
@attrs.frozen(kw_only=True)
class SubagentOptions(ChildOptions):
    """How a `subagent` tool is set up.  The model that calls it can change none of it."""

    enabled: bool = True
    """Whether children may be started; if not, every call is refused with that reason."""
    agent: str = NAME
    """The child's name as an agent."""
    system: str = ""
    """The child's system prompt."""
    levels: int | None = 1
    timeout_seconds: int = 120
    """The default for calls without a value."""
    max_iterations: int = 8
    """The default for calls without a value."""
    timeout_seconds_cap: int = 600
    """A call that asks for more gets this."""
    max_iterations_cap: int = 50
    """A call that asks for more gets this."""
    parallel: bool = False
    """Whether several calls of one run may work at once; else they take turns, in the order of the
    calls."""

    def __attrs_post_init__(self) -> None:
        super().__attrs_post_init__()
        for name in _CAPPED:
            self.check_integer(name, 1)
            self.check_integer(f"{name}_cap", 1)


def subagent_tool(options: SubagentOptions | None = None, /, **changes: Any) -> DelegationTool:
    """Return the tool; keywords are the attributes of `SubagentOptions`.

    Raises:
        LimitRefused: a number is not a valid limit.
        TypeError: a keyword is not an option.
    """
    chosen = SubagentOptions.of(options, changes)
    framed = frame(chosen, name=NAME, make=subagent_tool, ask=_asked)
    return DelegationTool(
        **framed | ({} if chosen.enabled else {"children": None}),
        description=DESCRIPTION,
        parameters=_schema(chosen),
        measured=("/duration_ms",),
    )


# --- one call ----------------------------------------------------------------------------------


def _refused(options: SubagentOptions, arguments: Mapping[str, Json]) -> str:
    """Return why a call starts nothing; empty where it starts a child."""
    if not options.enabled:
        return f"disabled: {NAME} is not enabled in this phase"
    if problems := problems_in(arguments, _schema(options)):
        return f"arguments: {'; '.join(problems)}"
    if large := too_large(arguments, options.request_bytes):
        return f"rejected: {'; '.join(large)}"
    missing = options.missing
    return missing if missing.startswith("program") else missing and f"program: {missing}"


def _asked(run: Run, options: SubagentOptions, arguments: dict[str, Any]) -> ToolCall[Json]:
    if refused := _refused(options, arguments):
        result: Json = dict(zip(KEYS, (False, "", [], refused, False, 0), strict=True))
        return failing(NAME, arguments.get("task"), result, refused)
    limits, clamped = _granted(run.limits, options, arguments)
    caps = {name: getattr(limits, name) for name in _CAPPED}
    most = {name: getattr(options, f"{name}_cap") for name in _CAPPED}
    delegation = options.delegation(
        NAME,
        options.agent,
        arguments["task"],
        system=options.system,
        given={name: arguments[name] for name in ("context", "files") if name in arguments},
        tools=options.offered(run, caller().tools),
        limits=limits,
    )
    return ToolCall(
        tool=NAME,
        task=arguments["task"],
        details={"limits": caps, "clamped": clamped},
        delegations=[delegation],
        turn=_NO_TURN if options.parallel else memory_of(run, "turn of subagent", asyncio.Lock),
        render=lambda children: answer_to(run, children[0], most),
    )


def answer_to(run: Run, child: Child, most: Mapping[str, int]) -> ToolAnswer[Json]:
    """Return the six keys for a child; if output was cut off, one more artifact describes it."""
    ended = ChildEnd.of(run, child, most)
    outcome = ended.outcome
    artifacts: list[Json] = [{"kind": item.kind, "value": item.value} for item in outcome.artifacts]
    if outcome.truncated is not None:
        artifacts.append({"kind": "note", "value": truncation_text(outcome.truncated)})
    result = {**ended.note, "summary": answer_of(outcome), "artifacts": artifacts}
    return ToolAnswer({name: result[name] for name in KEYS}, ended.note)


def _granted(
    own: Limits, options: SubagentOptions, arguments: Mapping[str, Any]
) -> tuple[Limits, dict[str, Json]]:
    """Return the caller's limits narrowed for a call, and the requested values above them."""
    limits = own.narrowed(options.limits) if options.limits else own
    asked = {name: arguments.get(name, getattr(options, name)) for name in _CAPPED}
    caps = {
        name: min(filter(None, [value, getattr(options, f"{name}_cap"), getattr(limits, name)]))
        for name, value in asked.items()
    }
    clamped = {name: value for name, value in asked.items() if caps[name] < value}
    return attrs.evolve(limits, **caps), clamped


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
    texts = {
        "task": "The task, complete in itself.",
        "context": "Facts that the agent needs beyond the task.",
    }
    files = {"type": "array", "items": {"type": "string"}, "description": _FILES}
    return texts_schema(texts, "task", most=options.request_bytes, more={"files": files, **numbers})


_NO_TURN: Final = contextlib.nullcontext()
_FILES: Final = "Paths of files to read; hints only."
_CAPPED: Final = {
    "max_iterations": "Model requests that it may make",
    "timeout_seconds": "Wall time that it may take",
}
"""The limits that a call may request, up to a cap."""
