"""Pydantic AI, its adapter, and a model that says what a test wants: a second to import."""

import datetime as dt
from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    ImageUrl,
    ModelRetry,
    RunContext,
    ToolFailed,
    ToolReturn,
)
from pydantic_ai.exceptions import (
    ApprovalRequired,
    CallDeferred,
    ModelHTTPError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    NativeToolCallPart,
    NativeToolReturnPart,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset
from pydantic_ai.usage import RequestUsage

from refold.adapters.pydantic_ai import (
    Refold,
    called,
    dumped,
    loaded,
    neutral_messages,
    neutral_parameters,
    neutral_tools,
    plain_arguments,
    raised_back,
)
from refold.engine.models.pydantic_ai import answer_of, neutral_answer, reply_of

__all__ = [
    "PLAIN",
    "Agent",
    "AgentInfo",
    "ApprovalRequired",
    "BaseModel",
    "BinaryContent",
    "CallDeferred",
    "DeltaToolCall",
    "DeltaToolCalls",
    "Found",
    "FunctionModel",
    "FunctionToolset",
    "ImageUrl",
    "ModelHTTPError",
    "ModelMessage",
    "ModelRequest",
    "ModelRequestParameters",
    "ModelResponse",
    "ModelRetry",
    "ModelSettings",
    "NativeToolCallPart",
    "NativeToolReturnPart",
    "OpenAIChatModel",
    "OpenAIProvider",
    "Parts",
    "Refold",
    "RequestUsage",
    "RetryPromptPart",
    "RunContext",
    "Script",
    "SystemPromptPart",
    "TestModel",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolDefinition",
    "ToolFailed",
    "ToolReturn",
    "ToolReturnPart",
    "UnexpectedModelBehavior",
    "UserPromptPart",
    "answer_of",
    "called",
    "dumped",
    "loaded",
    "neutral_answer",
    "neutral_messages",
    "neutral_parameters",
    "neutral_tools",
    "plain_arguments",
    "raised_back",
    "reply_of",
]


Parts = Sequence[TextPart | ToolCallPart | ThinkingPart]


class Script:
    """A model that says one list of parts after the other, and counts how often it is asked."""

    def __init__(self, *replies: Parts) -> None:
        self.replies = replies
        self.asked: list[list[ModelMessage]] = []
        self.model = FunctionModel(self._said, stream_function=self._streamed, model_name="script")

    def _said(self, messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        said = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse(parts=list(self.replies[said]))

    async def _streamed(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        for index, part in enumerate(self._said(messages, info).parts):
            if isinstance(part, TextPart):
                for word in part.content.split(" "):
                    yield f"{word} "
            elif isinstance(part, ToolCallPart):
                call = DeltaToolCall(part.tool_name, part.args_as_json_str())
                yield {index: call}


class Found(BaseModel):
    """A result."""

    place: str
    when: dt.date


PLAIN = ModelRequestParameters()
