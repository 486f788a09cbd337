"""Records one call of a framework's tool, and one request to its model, as effects.

The work of such an effect is a coroutine of the framework's own, with its own objects; the log gets
a projection of them to JSON. So an effect is made for one call and thrown away. A replay executes
nothing, so it never begins the work. Both run on the loop of asynchronous tools, as clients with
sockets need one. Each adapter decides how to project requests and how to read results back. Rules:
CONTRACT.md §17.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, get_args

import attrs
import pydantic_core

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.errors import ModelError, ToolRefused, UsageError
from refold.engine.events.events import EffectClass
from refold.engine.models.endpoint import failure_of
from refold.engine.ports.ports import CallContext, ModelReply, ModelRequest, ToolDefinition
from refold.engine.program.run import PlainRun, Run, current_run

ToolKind = EffectClass | Literal["program"]
"""How Refold treats a framework's tool: its effect class, or `program`: it runs on the kernel,
as part of the program, and reaches the world through effects of its own."""

_KINDS: Final = (*get_args(EffectClass), "program")


def program_run(given: Run | None) -> Run | None:
    """Return the run to record in: the given one, else that of the calling program.

    Raises:
        UsageError: it is the run of a plain program, which cannot await an agent.
    """
    if isinstance(given, PlainRun):
        raise UsageError(
            "an agent must be awaited: make the program an `async def program(run, input)`"
        )
    return given or current_run()


def checked_kinds(kinds: Mapping[str, str]) -> dict[str, ToolKind]:
    """Return what tools are taken for, by name.

    Raises:
        ToolRefused: neither an effect class nor `program`.
    """
    return {name: checked_kind(name, kind) for name, kind in kinds.items()}


def checked_kind(name: str, kind: object) -> ToolKind:
    """Return what one tool is taken for.

    Raises:
        ToolRefused: neither an effect class nor `program`.
    """
    if kind not in _KINDS:
        raise ToolRefused(name, "effect", f"expected one of {', '.join(_KINDS)}; found {kind!r}")
    return kind  # type: ignore[return-value]  # just seen


@attrs.frozen(eq=False)
class ForeignTool:
    """One call of a framework's tool: a `Tool` of the engine whose arguments `work` holds."""

    name: str
    description: str
    effect: EffectClass
    parameters: dict[str, Any]
    work: Callable[[], Awaitable[Json]]
    """Makes the call and returns its result as JSON; raises `ToolError` to choose a code."""
    delegates: bool = attrs.field(default=False, init=False)
    is_async: bool = attrs.field(default=True, init=False)
    typed: bool = attrs.field(default=False, init=False)
    timeout_seconds: float | None = attrs.field(default=None, init=False)
    reference: None = attrs.field(default=None, init=False)

    def call(self, _arguments: Mapping[str, Json], _context: CallContext, /) -> Any:
        """Begin the work; await the returned value for its result."""
        return self.work()

    def delegate(self, _run: Any, _arguments: Mapping[str, Json], /) -> Awaitable[Json]:
        """Refuse: it is an effect and no program code."""
        raise ToolRefused(self.name, "delegate", "a framework's tool cannot start subagents")

    def dump(self, result: Any, /) -> Json:
        """Return a result as JSON.

        Raises:
            NotCanonical: a log cannot hold it.
        """
        return to_json(result)

    def load(self, result: Json, /) -> Any:
        """Return a recorded result as it is."""
        return result


@attrs.frozen(kw_only=True, eq=False)
class ForeignModel:
    """One request to a framework's model: a `Model` of the engine whose messages `work` holds."""

    name: str
    work: Callable[[], Awaitable[ModelReply]]
    """Sends the request; raises `ModelError` to choose a code."""
    is_async: bool = attrs.field(default=True, init=False)
    reference: None = attrs.field(default=None, init=False)

    def complete(self, _request: ModelRequest, /) -> Any:
        """Begin the request; await the returned value for the `ModelReply`.

        Raises:
            ModelError: the framework's model raised: `http_<status>`, or `raised`.
        """
        return self._completed()

    async def _completed(self) -> ModelReply:
        try:
            return await self.work()
        except ModelError:
            raise
        except Exception as error:  # noqa: BLE001 - a model's failure is data, whatever it raised
            failure = failure_of(self.name, error)
        raise failure  # outside of the handler: the error holds the request, and so the key


def message_of(role: str, content: str) -> dict[str, Any]:
    """Return a neutral message that is a text."""
    return {"role": role, "content": content}


def result_message(call: str, name: str, content: str, *, is_error: bool) -> dict[str, Any]:
    """Return the neutral message for the result of the call with that id to the tool `name`."""
    of_call = {"role": "tool", "tool_call_id": call, "name": name}
    return {**of_call, "content": content, "is_error": is_error}


def tool_definition(name: str, description: str, parameters: Any) -> ToolDefinition:
    """Return a tool as a model is offered it; `parameters` is a JSON schema."""
    schema = plain_of(parameters)
    return ToolDefinition(name=name, description=description, parameters=schema)


def status_of(error: ModelError) -> int | None:
    """Return the HTTP status in an error's code."""
    word, _, status = error.code.partition("_")
    return int(status) if word == "http" and status.isdigit() else None


def is_exact(value: object) -> bool:
    """Return whether JSON gives back an equal value of the same types all through."""
    if isinstance(value, dict):
        return type(value) is dict and all(
            type(key) is str and is_exact(item) for key, item in value.items()
        )
    if isinstance(value, list):
        return type(value) is list and all(map(is_exact, value))
    return value is None or type(value) in (str, int, float, bool)


def plain_of(value: Any) -> Any:
    """Return a value as JSON, or the name of its type if it has no JSON form."""
    return pydantic_core.to_jsonable_python(value, fallback=lambda odd: type(odd).__name__)
