"""Agents of Pydantic AI as programs: the capability `Refold`.

    agent = Agent("openai:gpt-5", capabilities=[Refold()])

    async def ask(run, question):
        return (await agent.run(question)).output

    refold.record(ask, "How deep is the sea?")

`Refold()` finds the run by the program that awaits the agent, and does nothing anywhere else; the
agent may also be left as it is, and `agent.run(…, capabilities=[Refold(run)])` be called.

Guaranteed: each request to a model is a model request of the run, each call of a tool an effect.
Both are recorded before the agent sees what came of them, and re-executed without asking a model or
running a tool.  Agents that other agents call, parallel tools, retries, output types and streams
work as they are.  A synchronous tool runs on a thread of the host and not of the program; all other
functions of an agent (instructions, validators, output functions, hooks) run in the program.  Run
ids are drawn from the run, and times come from its clock.

For a model named by a text, the framework makes the client and needs its key even in a replay, with
any value.

Not guaranteed: a replay does not repeat a tool's side effects (on `deps` or the context). A tool
that needs them, or that asks another agent in the same run, is declared as `program`. A stream
arrives whole: each part as one event. Connections that an agent opens itself (an MCP server, a
realtime session, token counting, compaction) leave the program's loop, and are refused there.

A log holds, and a re-execution compares, the request as a provider sees it: texts, calls, results,
files, tools, settings. Times, ids of runs and conversations, and metadata are left out: they are
drawn anew each time and reach no provider. A result that is a JSON value is itself. `ToolReturn`s
and files must be read back unchanged, so they have a tag in the log; for any other value the log
has the text that a model sees. Exceptions that a tool raises for the model have codes of their
own. Answers are `engine.models.pydantic_ai`'s. Rules: CONTRACT.md §17.
"""

import functools
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final, Self

import pydantic_core
from pydantic import TypeAdapter
from pydantic_ai import messages as pai
from pydantic_ai._utils import disable_threads
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelAPIError,
    ModelHTTPError,
    ModelRetry,
    ToolFailed,
)
from pydantic_ai.messages import (
    MULTI_MODAL_CONTENT_TYPES,
    ModelMessage,
    ModelResponse,
    ToolReturn,
    ToolReturnContent,
)
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.run import AgentRunResult
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext
from pydantic_ai.tools import ToolDefinition as PydanticTool
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset

from refold.adapters.foreign import (
    ForeignModel,
    ForeignTool,
    ToolKind,
    checked_kind,
    checked_kinds,
    is_exact,
    message_of,
    plain_of,
    program_run,
    result_message,
    status_of,
    tool_definition,
)
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import without_empty
from refold.engine.errors import ModelError, NotCanonical, ToolError
from refold.engine.models.pydantic_ai import PROVIDER, answer_of, neutral_answer, reply_of
from refold.engine.ports.ports import ModelReply, ToolDefinition
from refold.engine.program.run import Run

__all__ = ["Refold"]

METADATA: Final = "refold"
"""The member of a tool's metadata that sets its treatment."""

_CONVERSATIONS: Final = uuid.UUID("7d1b5a5c-6b3e-5c0e-9a53-6f1f0d1f8a55")


@dataclass
class Refold(AbstractCapability[Any]):
    """Makes effects of an agent's model requests and tool calls, in a recorded run.

    Outside of a run it does nothing: the same agent serves both.
    """

    run: Run | None = None
    """The run to record in; by default that of the program that awaits the agent."""
    effects: Mapping[str, ToolKind] = field(default_factory=dict)
    """What tools are taken for, by name: an effect class, by default `changes`, or `program`. A
    tool can declare it itself: `metadata={"refold": "reads"}`."""
    _: KW_ONLY
    id: str | None = "refold"
    """One of an agent, and it is always on."""

    def __post_init__(self) -> None:
        """Check the arguments.

        Raises:
            ToolRefused: one of `effects` is neither an effect class nor `program`.
            UsageError: the run belongs to a plain program.
        """
        program_run(self.run)
        self.effects = checked_kinds(self.effects)

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return nothing: a run is in no file."""
        return None

    def get_ordering(self) -> CapabilityOrdering:
        """Ask for the innermost place: what other capabilities do is part of the program."""
        return CapabilityOrdering(position="innermost")

    def get_default_run_id(self) -> str | None:
        """Return an id drawn from the run."""
        run = program_run(self.run)
        return run.uuid() if run is not None else None

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id derived from the agent's run id."""
        return str(uuid.uuid5(_CONVERSATIONS, run_id)) if program_run(self.run) else None

    def get_run_clock(self) -> Callable[[], datetime] | None:
        """Return the clock of the run, which deadlines are counted on."""
        run = program_run(self.run)
        return run.now if run is not None else None

    async def wrap_run(self, ctx: RunContext[Any], *, handler: Any) -> AgentRunResult[Any]:  # noqa: ARG002 - the base's
        """Keep an agent's synchronous functions in the program, and date its messages."""
        run = program_run(self.run)
        if run is None:
            return await handler()  # type: ignore[no-any-return]  # the base's
        with disable_threads():
            result: AgentRunResult[Any] = await handler()
        _date(result.new_messages(), run.now())
        return result

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any] | None:
        """Return the toolset with each call an effect."""
        run = program_run(self.run)
        return _RecordedToolset(toolset, run, self.effects) if run is not None else None

    def get_wrapper_model(self, model: Model) -> Model | None:
        """Return the model with each request an effect."""
        run = program_run(self.run)
        return _RecordedModel(model, run) if run is not None else None


def _date(messages: list[ModelMessage], now: datetime) -> None:
    """Date answers that the program wrote like others: the machine's time changes."""
    for message in reversed(messages):
        if isinstance(message, ModelResponse):
            now = message.timestamp
            continue
        for dated in (message, *message.parts):
            if getattr(dated, "timestamp", None) is not None:
                dated.timestamp = now  # type: ignore[union-attr]  # just seen


# -- tools ------------------------------------------------------------------------------------


@dataclass
class _RecordedToolset(WrapperToolset[Any]):
    run: Run
    effects: Mapping[str, ToolKind]

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        kind = self._kind(name, tool.tool_def)
        if kind == "program":
            return await super().call_tool(name, tool_args, ctx, tool)
        call = functools.partial(super().call_tool, name, tool_args, ctx, tool)
        said, parameters = tool.tool_def.description or "", tool.tool_def.parameters_json_schema
        effect = ForeignTool(name, said, kind, parameters, functools.partial(called, name, call))
        try:
            result = await self.run.tool(effect, **plain_arguments(tool_args))
        except ToolError as error:
            failure = raised_back(error)
        else:
            return loaded(result)
        raise failure

    def _kind(self, name: str, definition: PydanticTool) -> ToolKind:
        if definition.tool_kind is not None:
            return "program"  # the framework's own: searches among tools, loads capabilities
        said = self.effects.get(name) or (definition.metadata or {}).get(METADATA, "changes")
        return checked_kind(name, said)


# -- models -----------------------------------------------------------------------------------


_Asked = tuple[list[ModelMessage], ModelSettings | None, ModelRequestParameters]


class _RecordedModel(WrapperModel):
    def __init__(self, wrapped: Model, run: Run) -> None:
        super().__init__(wrapped)
        self._run = run

    async def __aenter__(self) -> Self:
        return self  # the client is opened where it is used: on the host

    async def __aexit__(self, *_: object) -> None:
        """Leave the client alone."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        asked = (messages, model_settings, model_request_parameters)
        return await self._asked(asked, lambda: self.wrapped.request(*asked))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        asked = (messages, model_settings, model_request_parameters)

        async def answered() -> ModelResponse:
            async with self.wrapped.request_stream(*asked, run_context) as stream:
                async for _ in stream:
                    pass
                return stream.get()

        response = await self._asked(asked, answered)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )

    async def _asked(self, asked: _Asked, answered: Callable[[], Any]) -> ModelResponse:
        given, settings, parameters = asked
        name = self.wrapped.model_id
        messages = neutral_messages(given, parameters)

        async def work() -> ModelReply:
            async with self.wrapped:  # with a client of this loop
                return reply_of(name, await answered(), len(messages))

        try:
            reply = await self._run.model(
                messages,
                tools=neutral_tools(parameters),
                model=ForeignModel(name=name, work=work),
                **neutral_parameters(settings, parameters),
            )
        except ModelError as error:
            theirs = self._as_theirs(error)
            if theirs is error:
                raise
            raise theirs from error
        return answer_of(name, reply, self._run.now())

    def _as_theirs(self, error: ModelError) -> Exception:
        """Return a failure as the framework's own exception, so that its handlers work."""
        status = status_of(error)
        if status is not None:
            return ModelHTTPError(status, self.wrapped.model_name, error.message)
        if error.message.startswith(("ModelConnectionError", "ModelTimeoutError", "ModelAPIError")):
            return ModelAPIError(self.wrapped.model_name, error.message)
        return error


_REQUEST: Final = TypeAdapter(pai.ModelRequest)
_PARAMETERS: Final = TypeAdapter(ModelRequestParameters)

_OUTPUT: Final = (
    "allow_image_output",
    "allow_text_output",
    "native_tools",
    "output_mode",
    "output_object",
    "prompted_output_template",
)
"""Parameters of a request that a provider sees, except tools and instructions."""


# -- requests ---------------------------------------------------------------------------------


def neutral_messages(
    messages: Sequence[pai.ModelMessage], parameters: ModelRequestParameters
) -> list[dict[str, Any]]:
    """Return a conversation, its instructions first, as `run.model` takes it."""
    found = [message_of("system", text)] if (text := _instructions(messages, parameters)) else []
    for message in messages:
        if isinstance(message, pai.ModelResponse):
            found.append(neutral_answer(message))
        else:
            found.extend(_request(message))
    return found


def _instructions(messages: Sequence[pai.ModelMessage], parameters: ModelRequestParameters) -> str:
    if parameters.instruction_parts:
        return "\n\n".join(part.content for part in parameters.instruction_parts)
    last = next((each for each in reversed(messages) if isinstance(each, pai.ModelRequest)), None)
    return last.instructions or "" if last is not None else ""


def _request(message: pai.ModelRequest) -> Iterable[dict[str, Any]]:
    dumped = _REQUEST.dump_python(message, mode="json")["parts"]
    for part, plain in zip(message.parts, dumped, strict=True):
        yield _part(part, plain)


def _part(part: Any, plain: dict[str, Any]) -> dict[str, Any]:
    match part.part_kind:
        case "system-prompt":
            return message_of("system", part.content)
        case "user-prompt":
            return _user(part.content, plain["content"])
        case "tool-return":
            return _tool_result(part, plain)
        case "retry-prompt" if part.tool_name is not None:
            return _result(part, part.model_response(), is_error=True)
        case "retry-prompt" | "retry-feedback":
            return message_of("user", part.model_response())
        case _:
            kept = {name: value for name, value in plain.items() if name != "timestamp"}
            return {**message_of("system", ""), "provider": {PROVIDER: without_empty(kept)}}


def _user(content: Any, plain: Json) -> dict[str, Any]:
    if isinstance(content, str):
        return message_of("user", content)
    texts = "\n".join(item for item in content if isinstance(item, str))
    return {**message_of("user", texts), "provider": {PROVIDER: plain}}


def _tool_result(part: pai.ToolReturnPart, plain: dict[str, Any]) -> dict[str, Any]:
    is_error = part.outcome in ("failed", "retried")
    message = _result(part, part.model_response_str(wrap_if_error=False), is_error=is_error)
    if part.files:
        message["provider"] = {PROVIDER: plain["content"]}
    return message


def _result(part: Any, content: str, *, is_error: bool) -> dict[str, Any]:
    return result_message(part.tool_call_id, part.tool_name, content, is_error=is_error)


def neutral_tools(parameters: ModelRequestParameters) -> list[ToolDefinition]:
    """Return the tools that a model is offered, those that end a run among them."""
    return [
        tool_definition(tool.name, tool.description or "", tool.parameters_json_schema)
        for tool in (*parameters.function_tools, *parameters.output_tools)
    ]


def neutral_parameters(
    settings: ModelSettings | None, parameters: ModelRequestParameters
) -> dict[str, Json]:
    """Return settings by name, and under `pydantic_ai` how the output is asked for.

    Of headers there are only the names: they may hold keys.
    """
    found: dict[str, Json] = {
        name: sorted(value) if name == "extra_headers" else plain_of(value)  # type: ignore[call-overload]  # a dict of headers
        for name, value in (settings or {}).items()
        if value is not None
    }
    plain = _PARAMETERS.dump_python(parameters, mode="json", include=set(_OUTPUT))
    usual = _PARAMETERS.dump_python(ModelRequestParameters(), mode="json", include=set(_OUTPUT))
    odd = {name: plain[name] for name in _OUTPUT if plain.get(name) != usual.get(name)}
    return {**found, PROVIDER: odd} if odd else found


_TAG: Final = "$pydantic_ai"
_CONTENT: Final = TypeAdapter[Any](ToolReturnContent)
_RETURN: Final = TypeAdapter[Any](ToolReturn)
_plain: Final = functools.partial(
    pydantic_core.to_jsonable_python, bytes_mode="base64", inf_nan_mode="constants"
)


def plain_arguments(arguments: dict[str, Any]) -> dict[str, Json]:
    """Return validated arguments as the JSON that they were made of.

    Raises:
        NotCanonical: they were changed to what JSON cannot hold.
    """
    try:
        return _plain(arguments)  # type: ignore[no-any-return]  # as the arguments are
    except (ValueError, TypeError) as error:
        raise NotCanonical("", "arguments that JSON can hold", str(error), "arguments") from None


async def called(name: str, call: Callable[[], Any]) -> Json:
    """Call a tool on the host, and return its result as JSON.

    Raises:
        ToolError: an exception that the tool raised for the agent, with a code for it.
    """
    try:
        result = await call()
    except ModelRetry as error:
        raise ToolError(name, error.message, "retry", type(error).__name__) from None
    except ToolFailed as error:
        raise ToolError(name, error.message, "failed", type(error).__name__) from None
    except (ApprovalRequired, CallDeferred) as error:
        said = {"metadata": error.metadata, "kind": getattr(error, "kind", None)}
        text = json.dumps(pydantic_core.to_jsonable_python(said))
        raise ToolError(name, text, "deferred", type(error).__name__) from None
    return dumped(result)


def raised_back(error: ToolError) -> Exception:
    """Return the agent's view of a failed call: the tool's exception, or the error."""
    match error.code:
        case "retry":
            return ModelRetry(error.message)
        case "failed":
            return ToolFailed(error.message)
        case "deferred":
            said = json.loads(error.message)
            if error.error_type == "ApprovalRequired":
                return ApprovalRequired(said["metadata"])
            return CallDeferred(said["metadata"], kind=said["kind"] or "external")
        case _:
            return error


def dumped(result: Any) -> Json:
    """Return a result as JSON; where it has to be read back as something else, with a tag."""
    if isinstance(result, ToolReturn):
        return {_TAG: "return", "value": _RETURN.dump_python(result, mode="json")}
    plain = result if is_exact(result) else _plain(result)  # what a model is shown of it
    items = result if isinstance(result, list | tuple) else [result]
    if any(isinstance(item, MULTI_MODAL_CONTENT_TYPES) for item in items):
        return {_TAG: "content", "value": plain}
    if isinstance(plain, dict) and _TAG in plain:
        return {_TAG: "value", "value": plain}  # it looks like one of these, and is none
    return plain


def loaded(result: Json) -> Any:
    """Return the result of a recorded call as the agent receives it."""
    match result:
        case {"$pydantic_ai": "return", "value": value}:
            return _RETURN.validate_python(value)
        case {"$pydantic_ai": "content", "value": value}:
            return _CONTENT.validate_python(value)
        case {"$pydantic_ai": "value", "value": value}:
            return value
        case _:
            return result
