"""The agent loop: model, tool calls, results, until the model answers.

One program among others, which Refold ships by the name `agent`: it reaches the world through `run`
alone and knows nothing of logs.  Tools are defined in `refold.tools`, models in `engine.models`;
`refold.tools.agents.agent_files` converts an `AGENT.md` to an input.

The input is one JSON object:

    {"agent": {"name": "researcher",           # optional, as are all of agent's members
               "system": "You are …",          # the system prompt; none by default
               "tools": ["read_file"],         # offered to the model; by default all of the run's
               "model": "",                    # a name given to `record(models=…)`; the default
               "parameters": {"temperature": 0}},
     "task": "Find …",                         # required
     "context": "…",                           # optional
     "files": ["src/a.py"]}                    # optional hints; nothing is read

A run ends for one of these reasons (`run.finished.reason`):

| reason | when |
|---|---|
| `done` | the model answered without asking for a tool |
| `cut` | the provider cut the answer off (`length`, `content_filter`); calls in it are not made |
| `max_iterations`, `limit` | the kernel refused another request, or stopped the run |
| `fatal_tool_error` | a tool raised a `ToolError` with the code `fatal` |
| `no_progress` | the same calls gave the same results three times in a row |
| `cancelled` | from outside |
| `error` | a model request failed, or the model refused without a word (`refused`); the fault's
code is the model error's |

Any other failure of a tool, an unknown name and unreadable arguments become an error result for the
model.  The calls of one reply run at once; their results go back in the order of the calls.  Rules:
CONTRACT.md §10.5.
"""

import asyncio
import contextvars
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, cast

import attrs
import orjson

from refold.engine.children.reply import ARTIFACT, Members, Misfit, check_shape
from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.encoding.plain import to_json
from refold.engine.encoding.shapes import reader_of
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import (
    ArgumentsRefused,
    ModelError,
    NotCanonical,
    RunEnded,
    ToolError,
    ToolUnknown,
)
from refold.engine.events.outcome import Report, artifact_of
from refold.engine.ports.offers import chosen_tools
from refold.engine.ports.ports import Tool
from refold.engine.program.run import Run

REPEATS_MAX: Final = 3
"""The number of equal consecutive turns that count as no progress."""
YIELDS: Final = 16
"""After so many calls of one reply, or children of one list, the world may deliver a line."""
FATAL: Final = "fatal"
"""The code of a `ToolError` that ends the run."""
REFUSED: Final = "refused"
"""The code of a `ToolError` with a complete message: the model gets it without the code; and of a
`ModelError` for a refusal without a text."""
_CUTS: Final = ("length", "content_filter")
"""Stop reasons of answers that are not whole."""
_REFUSALS: Final = ("refusal", "content_filter")
_PAUSE: Final = "pause_turn"
"""The stop reason of a provider that wants to be asked again, to continue."""
_OF_ONE_RUN: Final = ("tool_choice", "response_format")
"""Parameters that children do not inherit: they depend on the request."""

Message = dict[str, Any]


async def agent(run: Run, input: Json) -> Report:  # noqa: A002 - the word of the domain
    """Run the loop to its end and return the model's answer.

    Raises:
        ArgumentsRefused: the input is not of the shape above.
        ToolUnknown: the run does not have an agent's tool.
        ModelError: a request failed, or the model refused without a text (`refused`).
        LimitReached: the run may not ask again.
        RunEnded: `fatal_tool_error` or `no_progress`.
    """
    given = read_input(input)
    offered = offered_tools(run, given.tools)
    act_as(given.settings)
    messages = given.opening
    turns: deque[Json] = deque(maxlen=REPEATS_MAX)
    begun = ""  # the text of an answer that the model paused
    while True:
        reply = await run.model(
            messages, tools=offered, model=given.model, agent=given.name, **given.parameters
        )
        messages.append(reply.message)
        is_refused = reply.stop_reason in _REFUSALS
        calls = [] if is_refused else reply.message.get("tool_calls") or []
        said = reply.message.get("content", "")
        content, begun = begun + said, ""
        if is_refused and not content.strip():
            why = f"the model gave no answer: {reply.stop_reason}"
            raise ModelError(given.model, why, REFUSED)
        if reply.stop_reason in _CUTS:
            return attrs.evolve(report_of(content), is_cut=True)
        if reply.stop_reason == _PAUSE and not calls:
            begun = content
            turns.append([(_PAUSE, said)])
            _end_if_stuck(turns)
            continue
        if not calls:
            return report_of(content)
        results = await asyncio.gather(
            *(call_result(run, offered, call, place) for place, call in enumerate(calls))
        )
        messages.extend(result.message for result in results)
        _end_if_fatal(results)
        turns.append(
            [
                (call["name"], call["arguments"], call.get("invalid"), result.message["content"])
                for call, result in zip(calls, results, strict=True)
            ]
        )
        _end_if_stuck(turns)


# --- what the loop is told -----------------------------------------------------------------


@attrs.frozen(kw_only=True)
class AgentInput:
    """The program's input, checked."""

    task: str
    context: str = ""
    files: tuple[str, ...] = ()
    name: str = "agent"
    system: str = ""
    tools: tuple[str, ...] | None = None
    model: str = ""
    parameters: Mapping[str, Json] = attrs.field(factory=dict)

    @property
    def request(self) -> str:
        """The user message: the task, then the context, then the hints, and nothing else."""
        parts = [self.task]
        if self.context:
            parts.append(f"Context:\n{self.context}")
        if self.files:
            parts.append("\n".join(["Files:", *(f"- {file}" for file in self.files)]))
        return "\n\n".join(parts)

    @property
    def settings(self) -> "Caller":
        """What the agent's children inherit."""
        kept = {key: self.parameters[key] for key in self.parameters if key not in _OF_ONE_RUN}
        return Caller(tools=self.tools, model=self.model, system=self.system, parameters=kept)

    @property
    def opening(self) -> list[Message]:
        """The messages that the conversation starts with."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, {"role": "user", "content": self.request}]


class _Own(TypedDict, total=False):
    name: str
    system: str
    tools: tuple[str, ...]
    model: str
    parameters: dict[str, Any]


class _Given(TypedDict, total=False):
    agent: _Own
    task: str
    context: str
    files: tuple[str, ...]


_RESERVED: Final = ("agent", "model", "tools", "inherited")


def read_input(value: Json) -> AgentInput:
    """Return the program's input as values; a member that is null counts as left out.

    Raises:
        ArgumentsRefused: with everything that does not fit.
    """
    plain, own = _without_null(value), {}
    try:
        if isinstance(plain, dict) and "agent" in plain:
            plain["agent"] = _without_null(plain["agent"])
        given: Any = reader_of(_Given)(plain)
        own = given.pop("agent", {})
        problems = [
            f"/agent/parameters/{name}: expected a parameter of the model, found a reserved name"
            for name in _RESERVED
            if name in own.get("parameters", {})
        ]
        if not given.get("task", "").strip():
            problems.append("/task: expected the task as a string, found nothing")
    except Exception as error:  # noqa: BLE001 - what a reader raises is explained
        found = problems_of(error)
        problems = [
            f"{each.pointer or '/'}: expected {each.expected}, found {each.found}" for each in found
        ]
    if problems:
        raise ArgumentsRefused("agent", tuple(problems))
    return AgentInput(**given, **own)


def _without_null(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    return {name: member for name, member in value.items() if member is not None}


# --- tools -----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Caller:
    """The settings of the agent that calls a delegation tool; its children get no more."""

    tools: tuple[str, ...] | None = None
    """Names offered to its model; `None` for all of the run's."""
    model: str = ""
    """A name given to `record(models=…)`; empty for the run's default."""
    system: str = ""
    """The agent's system prompt; empty for none."""
    parameters: Mapping[str, Json] = {}
    """Parameters of the model, inherited with it."""

    def child(
        self, *, name: str, system: str, model: str = "", parameters: Mapping[str, Json] = {}
    ) -> dict[str, Json]:
        """Return the member `agent` of a child's input; without a model of its own, the caller's.

        `parameters` are the child's own, over those that it inherits with the model.
        """
        inherited = {} if model and model != self.model else self.parameters
        own = {"name": name, "system": system, "model": model or self.model}
        told: dict[str, Json] = {key: text for key, text in own.items() if text}
        given = {**inherited, **parameters}
        return told | ({"parameters": given} if given else {})


_caller: contextvars.ContextVar[Caller] = contextvars.ContextVar("refold_agent")


def act_as(settings: Caller) -> None:
    """Have delegation tools take these settings as their caller's, in this task and its own."""
    _caller.set(settings)


def caller() -> Caller:
    """Return the settings of the agent that made this tool call; other programs have all tools."""
    return _caller.get(Caller())


class _AsRecorded:
    """A tool whose result comes as the JSON that the log holds: a model needs no Python types.

    So a replay needs none either, and the tools need not be there.
    """

    typed: Final = False

    def __init__(self, tool: Tool) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def load(self, result: Json, /) -> Json:
        """Return the result as it is."""
        return result


def offered_tools(run: Run, names: Sequence[str] | None) -> dict[str, Tool]:
    """Return the tools that the model may call, by name, in the order in which it is shown them.

    Raises:
        ToolUnknown: the run does not have one of the names.
    """
    known = {tool.name: tool for tool in run.tools}
    for name in names or ():
        if name not in known:
            raise ToolUnknown(name, tuple(known))
    chosen = known if names is None else chosen_tools(names, known)
    return {name: cast("Tool", _AsRecorded(chosen[name])) for name in sorted(chosen)}


@attrs.frozen
class CallResult:
    """What one tool call gave."""

    message: Message
    fault: str = ""
    """The failure's code; empty for a result."""


async def call_result(
    run: Run, offered: Mapping[str, Tool], call: Mapping[str, Any], place: int
) -> CallResult:
    """Return the message that answers a tool call: nothing a tool does raises here.

    Calls far down in a reply begin a little later, so that a time limit ends the run before them.
    """
    if place >= YIELDS:
        await run.sleep(place // YIELDS / 1e6)
    try:
        content, fault = _for_model(offered, call, await _called(run, offered, call))
    except ToolError as error:
        kind = error.error_type if error.code == "raised" and error.error_type else error.code
        content = error.message if error.code == REFUSED else f"{kind}: {error.message}"
        fault = error.code
    message = {
        "role": "tool",
        "tool_call_id": call["id"],
        "name": call["name"],
        "content": content,
        "is_error": bool(fault),
    }
    return CallResult(message, fault)


async def _called(run: Run, offered: Mapping[str, Tool], call: Mapping[str, Any]) -> Json:
    name = call["name"]
    if name not in offered:
        known = ", ".join(offered) or "none"
        raise ToolError(name, f"no tool is named {name!r}; there are: {known}", "unknown_tool")
    if "invalid" in call:
        found = f"{call['invalid']!r:.200}"
        raise ToolError(name, f"expected one JSON object, found {found}", "arguments")
    try:
        return await run.tool(offered[name], **call["arguments"])
    except NotCanonical as error:
        raise ToolError(name, str(error), "arguments") from None


def _for_model(
    offered: Mapping[str, Tool], call: Mapping[str, Any], result: Json
) -> tuple[str, str]:
    """Return the model's text for a result, and the code of a failure."""
    tell = getattr(offered[call["name"]], "tell", None)
    if tell is None:
        return _text(result), ""
    content, is_failure = tell(result)
    return content, "failed" if is_failure else ""


def _text(result: Json) -> str:
    return result if isinstance(result, str) else encode(to_json(result)).decode()


# --- endings ---------------------------------------------------------------------------------


def report_of(answer: str) -> Report:
    """Convert an answer to a report: text, or a summary with artifacts.

    An answer that is one JSON object of exactly `summary` (text) and `artifacts` (a list of objects
    of the texts `kind` and `value`, and perhaps `name`) is split; the parent's policy decides which
    kinds are allowed. Every other answer is text, even if it looks like JSON.
    """
    try:
        found = loads(answer)
        check_shape(found, _REPORT)
    except (orjson.JSONDecodeError, Misfit):
        return Report(summary=answer, output=answer)
    artifacts = tuple(map(artifact_of, found["artifacts"]))
    return Report(summary=found["summary"], output=found["summary"], artifacts=artifacts)


_REPORT: Final = Members({"summary": str, "artifacts": [ARTIFACT]})


def _end_if_fatal(results: Sequence[CallResult]) -> None:
    for result in results:
        if result.fault == FATAL:
            message = f"{result.message['name']}: {result.message['content']}"
            raise RunEnded("fatal_tool_error", message)


def _end_if_stuck(turns: deque[Json]) -> None:
    """End the loop where the last turns were the same: equal calls, ids apart, equal results.

    Raises:
        RunEnded: they were.
    """
    if len(turns) < REPEATS_MAX or any(turn != turns[0] for turn in turns):
        return
    names = ", ".join(name for name, *_ in turns[0])
    message = f"{names}: the same calls gave the same results {REPEATS_MAX} times in a row"
    raise RunEnded("no_progress", message)
