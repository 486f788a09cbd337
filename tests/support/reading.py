"""What a client of models makes of recorded answers."""

from typing import Any

import attrs

from refold.engine.errors import ModelError
from refold.engine.ports.ports import ModelReply, ModelRequest
from tests.support.corpus import Recorded
from tests.support.model_server import Answer


def served(recorded: list[Recorded]) -> list[Answer]:
    """Return what a server says that gives these answers."""
    return [Answer(status=answer.status, body=answer.content) for answer in recorded]


def read(model: Any, request: ModelRequest) -> Any:
    """Return what a model says of its next answer, or the code of its error."""
    try:
        reply = model.complete(request)
    except ModelError as error:
        return error.code
    calls = reply.message.get("tool_calls", [])
    told = [(call["id"], call["name"], call["arguments"]) for call in calls]
    usage = (reply.usage.input_tokens, reply.usage.output_tokens)
    return reply.message["content"], told, usage, reply.stop_reason


def told(reply: ModelReply, expected: dict[str, Any]) -> dict[str, Any]:
    """Return a reply as a fixture has it, with the counts that are expected."""
    counts = {count: getattr(reply.usage, count) for count in expected["usage"]}
    return attrs.asdict(reply) | {"usage": counts}
