"""Agents of the OpenAI Agents SDK as programs: a run configuration, `recorded`.

    async def ask(run, question):
        result = await Runner.run(agent, question, run_config=recorded(run))
        return result.final_output

    refold.record(ask, "How deep is the sea?")

Options of `RunConfig` are given to `recorded`. Models are asked by name, as agents and `RunConfig`
have them; an agent with a model object of its own has it wrapped: `Agent(model=RecordedModel(…))`.
Outside of a recorded run both behave as the framework does.

Guaranteed: each request to a model is a model request of the run, and each call of a function tool
an effect.  Both are recorded before the agent sees what came of them, and re-executed without
asking a model or running a tool.  Handoffs, agents as tools, parallel tools, guardrails, output
types and streams work as they are: they are code of the program.  A synchronous function tool runs
on a thread of the host and not of the program.  Traces are not exported from a recorded run.

Not guaranteed: a replay does not repeat a tool's side effects (on the context object). A tool that
needs them, or that runs another agent in the same run, is declared as `program`, and is
asynchronous. A result without a JSON form is recorded as the text that a model would see. A stream
arrives whole: each item and text as one event. What opens files, sockets or threads by itself (an
MCP server, a session in a database, a run that was not given the configuration) leaves the
program's loop, and is refused there; so is an agent whose model object is not wrapped. The shape of
messages is in `adapters.openai_agents_items`. Rules: CONTRACT.md §17.
"""

import copy
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import attrs
from agents import FunctionTool, RunConfig
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse, TResponseStreamEvent
from agents.models.interface import Model, ModelProvider
from agents.models.multi_provider import MultiProvider
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from agents.run_config import CallModelData, ModelInputData
from agents.tool import Tool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from agents.tool_context import ToolContext
from agents.usage import Usage
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseTextDeltaEvent,
    ResponseUsage,
)

from refold.adapters.foreign import (
    ForeignModel,
    ForeignTool,
    ToolKind,
    checked_kinds,
    is_exact,
    program_run,
)
from refold.adapters.openai_agents_items import (
    AnswersSoFar,
    answer_of,
    neutral_parameters,
    neutral_tools,
    reply_of,
)
from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.engine.events.events import EffectClass
from refold.engine.models import endpoint
from refold.engine.ports.ports import ModelReply
from refold.engine.program.run import Run

__all__ = ["RecordedModel", "recorded"]

_SHOWN: Final = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


@attrs.frozen(eq=False)
class _Recorder:
    """State of one `recorded`: the run, the effects of tools, the answers that came."""

    run: Run | None = None
    effects: Mapping[str, ToolKind] = attrs.field(factory=dict)
    conversation: AnswersSoFar = attrs.field(factory=AnswersSoFar)


_current: ContextVar[_Recorder | None] = ContextVar("refold_openai_agents", default=None)


def recorded(
    run: Run | None = None, *, effects: Mapping[str, ToolKind] | None = None, **options: Any
) -> RunConfig:
    """Return a `RunConfig` under which an agent's requests and tool calls are effects of a run.

    Args:
        run: The run to record in; by default that of the calling program. Outside of a program it
            is an ordinary `RunConfig`.
        effects: What tools are taken for, by name: an effect class, by default `changes`, or
            `program`.
        options: Those of `RunConfig`.

    Raises:
        ToolRefused: one of `effects` is neither an effect class nor `program`.
        UsageError: the run belongs to a plain program.
    """
    kinds = checked_kinds(effects or {})
    found = program_run(run)
    if found is None:
        return RunConfig(**options)
    recorder = _Recorder(found, kinds)
    model = options.pop("model", None)
    provider = options.pop("model_provider", None) or MultiProvider()
    given = options.pop("call_model_input_filter", None)
    return RunConfig(
        **{"tracing_disabled": True, **options},
        model=RecordedModel(model, recorder) if isinstance(model, Model) else model,
        model_provider=_RecordedProvider(provider, recorder),
        call_model_input_filter=functools.partial(_before_request, recorder, given, model),
    )


async def _before_request(
    recorder: _Recorder, given: Any, model: object, data: CallModelData[Any]
) -> ModelInputData:
    """Say whose request it is, and refuse one that would not be recorded."""
    own = data.agent.model
    if model is None and isinstance(own, Model) and not isinstance(own, RecordedModel):
        raise UsageError(
            f"agent {data.agent.name!r} has a model object of its own, which is not recorded: wrap "
            f"it, Agent(model=RecordedModel({type(own).__name__}(…)))"
        )
    _current.set(recorder)
    if given is None:
        return data.model_data
    found = given(data)
    return await found if isinstance(found, Awaitable) else found  # type: ignore[no-any-return]  # the user's


class _RecordedProvider(ModelProvider):
    def __init__(self, provider: ModelProvider, recorder: _Recorder) -> None:
        self._provider = provider
        self._recorder = recorder

    def get_model(self, model_name: str | None) -> Model:
        name = model_name or "default"
        return RecordedModel(
            functools.partial(self._provider.get_model, model_name), self._recorder, name=name
        )


class RecordedModel(Model):
    """A model whose requests are effects in a recorded run; elsewhere it is the model itself."""

    def __init__(
        self,
        model: Model | Callable[[], Model],
        recorder: _Recorder | None = None,
        *,
        name: str = "",
    ) -> None:
        """Take a model, or what makes one where it is first asked.

        The log shows `name`; by default the model's own name, else its class.
        """
        self._made = model if isinstance(model, Model) else None
        self._make = model
        self._recorder = recorder
        self._name = name or str(getattr(model, "model", "") or type(model).__name__)

    def _model(self) -> Model:
        if self._made is None:
            self._made = self._make()  # type: ignore[operator]  # no model, so what makes one
        return self._made

    def _supports_default_prompt_cache_key(self) -> bool:
        supports = getattr(self._made, "_supports_default_prompt_cache_key", None)
        return bool(supports()) if callable(supports) else False

    def get_retry_advice(self, request: ModelRetryAdviceRequest) -> ModelRetryAdvice | None:
        """Return the model's advice; nothing in a recorded run: a replay has no such error."""
        is_recorded = program_run(self._recorder.run if self._recorder else None) is not None
        return None if is_recorded else self._model().get_retry_advice(request)

    async def close(self) -> None:
        """Close the model, if it was made."""
        if self._made is not None:
            await self._made.close()

    async def get_response(self, *asked: Any, **more: Any) -> ModelResponse:
        """Return the model's answer to the framework's request.

        Raises:
            ModelError: the request failed.
        """
        run = program_run(self._recorder.run if self._recorder else None)
        if run is None:
            return await self._model().get_response(*asked, **more)
        said = _by_name(asked, more)
        return await self._asked(run, said, lambda again: self._model().get_response(**again))

    async def stream_response(
        self, *asked: Any, **more: Any
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Yield the model's answer; in a recorded run each item as one event, when all is there.

        Raises:
            ModelError: the request failed.
        """
        run = program_run(self._recorder.run if self._recorder else None)
        if run is None:
            async for event in self._model().stream_response(*asked, **more):
                yield event
            return
        answer = await self._asked(
            run,
            _by_name(asked, more),
            lambda again: drained(self._model().stream_response(**again)),
        )
        for event in events_of(answer, self._name, run.now().timestamp()):
            yield event

    async def _asked(
        self,
        run: Run,
        said: dict[str, Any],
        answered: Callable[[dict[str, Any]], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        recorder = self._recorder or _current.get() or _Recorder()
        tools: list[Tool] = said["tools"]
        said["tools"] = [*tools]

        async def work() -> ModelReply:
            return reply_of(self._name, await answered(said))

        reply = await run.model(
            recorder.conversation.messages(said["system_instructions"], said["input"]),
            tools=neutral_tools(said["tools"], said["handoffs"]),
            model=ForeignModel(name=self._name, work=work),
            **neutral_parameters(
                said["model_settings"],
                said["output_schema"],
                **{name: value for name, value in said.items() if name not in _PLACES},
            ),
        )
        answer = answer_of(self._name, reply)
        recorder.conversation.came(answer, reply.message)
        # The framework runs the very tools of this list for the calls in the answer.
        tools[:] = [_as_effect(tool, run, recorder.effects) for tool in tools]
        return answer


_PLACES: Final = inspect.getfullargspec(Model.get_response).args[1:]
"""Arguments that the framework also passes to a model by position."""


def _by_name(asked: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    return {**dict(zip(_PLACES, asked, strict=False)), **more}


# -- tools ------------------------------------------------------------------------------------


def _as_effect(tool: Tool, run: Run, effects: Mapping[str, ToolKind]) -> Tool:
    if not isinstance(tool, FunctionTool) or isinstance(tool.on_invoke_tool, _RecordedCall):
        return tool
    kind = effects.get(tool.name, "program" if tool._is_agent_tool else "changes")  # noqa: SLF001 - nothing else says so
    if kind == "program":
        return tool
    made = copy.copy(tool)
    made.on_invoke_tool = _RecordedCall(made, tool.on_invoke_tool, run, kind)
    return made


@attrs.frozen(eq=False)
class _RecordedCall:
    """Records a call, in the place of a function tool of the framework."""

    tool: FunctionTool
    call: Any
    run: Run
    effect: EffectClass

    async def __call__(self, context: ToolContext[Any], text: str) -> Any:
        async def work() -> Json:
            return _shown(await self.call(copy.copy(context), text))

        tool = self.tool
        parameters = tool.params_json_schema
        effect = ForeignTool(tool.name, tool.description, self.effect, parameters, work)
        call = endpoint.call_of("", "", tool.name, text)
        arguments = {"invalid_json": call["invalid"]} if "invalid" in call else call["arguments"]
        return await self.run.tool(effect, **arguments)


def _shown(result: Any) -> Json:
    """Return a result as JSON, or as the text for a model if it has no exact JSON form."""
    if isinstance(result, list) and any(isinstance(item, _SHOWN) for item in result):
        return [_shown(item) for item in result]
    if isinstance(result, _SHOWN):
        return result.model_dump(mode="json", exclude_none=True)
    return result if is_exact(result) else str(result)


async def drained(stream: AsyncIterator[TResponseStreamEvent]) -> ModelResponse:
    """Return the answer at the end of a stream."""
    done: list[Any] = []
    last: Response | None = None
    async for event in stream:
        if isinstance(event, ResponseOutputItemDoneEvent):
            done.append(event.item)
        elif event.type in ("response.completed", "response.incomplete", "response.failed"):
            last = event.response
    if last is None or last.status in ("failed", "incomplete"):
        why = _unfinished(last)
        raise ModelBehaviorError(f"the stream ended without a completed response: {why}")
    return ModelResponse(
        output=last.output or done,
        usage=Usage(requests=1, **_tokens(last.usage)),
        response_id=last.id,
    )


def _unfinished(last: Response | None) -> str:
    """Return the provider's reason for an incomplete response."""
    if last is None:
        return "no answer"
    if last.error is not None:
        return last.error.message
    details = last.incomplete_details
    return f"{last.status}: {details.reason}" if details and details.reason else str(last.status)


_TOKENS: Final = (
    "input_tokens",
    "input_tokens_details",
    "output_tokens",
    "output_tokens_details",
    "total_tokens",
)


def _tokens(spent: Usage | ResponseUsage | None) -> dict[str, Any]:
    """Return the values of both kinds of usage."""
    return {} if spent is None else {name: getattr(spent, name) for name in _TOKENS}


def events_of(answer: ModelResponse, model: str, now: float) -> list[TResponseStreamEvent]:
    """Return an answer as a stream has it: each item and each text at once; `now` in seconds."""
    events: list[Any] = []

    def add(kind: Any, name: str, **members: Any) -> None:
        events.append(kind(type=f"response.{name}", sequence_number=len(events), **members))

    for index, item in enumerate(answer.output):
        place = {"output_index": index}
        add(ResponseOutputItemAddedEvent, "output_item.added", item=item, **place)
        for at, text in _texts(item):
            said: dict[str, Any] = {"content_index": at, "item_id": item.id, "logprobs": []}
            add(ResponseTextDeltaEvent, "output_text.delta", delta=text, **said, **place)
        add(ResponseOutputItemDoneEvent, "output_item.done", item=item, **place)
    response = _response(answer, model, now)
    add(ResponseCompletedEvent, "completed", response=response)
    return events


def _texts(item: Any) -> list[tuple[int, str]]:
    parts = item.content if isinstance(item, ResponseOutputMessage) else ()
    return [(at, part.text) for at, part in enumerate(parts) if part.type == "output_text"]


def _response(answer: ModelResponse, model: str, now: float) -> Response:
    return Response(
        id=answer.response_id or "",
        created_at=now,
        model=model,
        object="response",
        output=answer.output,
        parallel_tool_calls=True,
        status="completed",
        tool_choice="auto",
        tools=[],
        usage=ResponseUsage(**_tokens(answer.usage)),
    )
