"""OpenAI Agents, its adapter, and a model that says what a test wants: two seconds to import."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    InputGuardrailTripwireTriggered,
    ModelSettings,
    OpenAIChatCompletionsModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunResult,
    ToolOutputImage,
    UserError,
    WebSearchTool,
    function_tool,
    handoff,
)
from agents.exceptions import ModelBehaviorError
from agents.items import ModelResponse
from agents.models.interface import Model, ModelProvider
from agents.retry import ModelRetryAdvice, ModelRetryAdviceRequest
from agents.run_config import CallModelData, ModelInputData
from agents.usage import Usage
from openai import AsyncOpenAI
from openai.types.responses import (
    ResponseError,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputRefusal,
    ResponseOutputText,
    ResponseReasoningItem,
)
from openai.types.responses.response import IncompleteDetails
from pydantic import BaseModel

from refold.adapters.openai_agents import RecordedModel, drained, events_of, recorded
from refold.adapters.openai_agents_items import (
    AnswersSoFar,
    answer_of,
    neutral_parameters,
    neutral_tools,
    reply_of,
)

__all__ = [
    "Agent",
    "AnswersSoFar",
    "AsyncOpenAI",
    "BaseModel",
    "CallModelData",
    "Found",
    "GuardrailFunctionOutput",
    "IncompleteDetails",
    "InputGuardrail",
    "InputGuardrailTripwireTriggered",
    "Item",
    "Model",
    "ModelBehaviorError",
    "ModelInputData",
    "ModelProvider",
    "ModelResponse",
    "ModelRetryAdvice",
    "ModelRetryAdviceRequest",
    "ModelSettings",
    "Named",
    "OpenAIChatCompletionsModel",
    "RecordedModel",
    "ResponseError",
    "ResponseFunctionToolCall",
    "ResponseOutputMessage",
    "ResponseOutputRefusal",
    "ResponseOutputText",
    "ResponseReasoningItem",
    "RunConfig",
    "RunContextWrapper",
    "RunResult",
    "Runner",
    "Script",
    "ToolOutputImage",
    "Usage",
    "UserError",
    "WebSearchTool",
    "answer_of",
    "drained",
    "events_of",
    "function_tool",
    "handoff",
    "neutral_parameters",
    "neutral_tools",
    "recorded",
    "reply_of",
]


Item = ResponseOutputMessage | ResponseFunctionToolCall | ResponseReasoningItem


class Script(Model):
    """A model that says one list of items after the other, by how often it was asked."""

    def __init__(self, *replies: Sequence[Item] | Exception) -> None:
        self.replies = replies
        self.asked: list[Any] = []

    async def get_response(self, *asked: Any, **_more: Any) -> ModelResponse:
        self.asked.append(asked)
        said = self.replies[len(self.asked) - 1]
        if isinstance(said, Exception):
            raise said
        usage = Usage(requests=1, input_tokens=5, output_tokens=2, total_tokens=7)
        return ModelResponse(list(said), usage, response_id=f"resp_{len(self.asked)}")

    async def stream_response(self, *asked: Any, **more: Any) -> AsyncIterator[Any]:
        for event in events_of(await self.get_response(*asked, **more), "script", 0.0):
            yield event


class Named(ModelProvider):
    """Gives models by name."""

    def __init__(self, **models: Model) -> None:
        self.models = models

    def get_model(self, model_name: str | None) -> Model:
        return self.models[model_name or "default"]


class Found(BaseModel):
    """A result, and an output."""

    place: str
