"""Models of every provider that Pydantic AI has: `pydantic:PROVIDER:NAME`.

Translates neutral messages to that framework's, and its answers back; HTTP, keys, retries and
timeouts are its own (extra `pydantic-ai`, and that of the provider). `adapters.pydantic_ai` reads
answers with the same functions. An answer is kept whole beside its neutral shape, under `provider`,
for the framework is given the same one again. Rules: CONTRACT.md §11, §17.3.
"""

import dataclasses
import datetime as dt
import functools
import inspect
import json
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, get_args

from pydantic import TypeAdapter
from pydantic_ai import messages as pai
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import (
    ModelConnectionError,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.models import KnownModelName, Model, ModelRequestParameters, infer_model
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition as PydanticTool

from refold.engine.encoding.plain import without_empty
from refold.engine.errors import ModelError, ModelNotFound
from refold.engine.events.outcome import Usage
from refold.engine.models import endpoint
from refold.engine.models.messages import check_messages
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference
from refold.engine.wire.parts.notation import short, text_of

PROVIDER: Final = "pydantic_ai"
"""The name under which messages and parameters hold parts without a neutral form."""

_DRAWN: Final = re.compile(r"pyd_ai_[0-9a-f]{32}")
_RESPONSE: Final = TypeAdapter(pai.ModelResponse)

_KEPT: Final = frozenset(
    {
        "finish_reason",
        "model_name",
        "parts",
        "provider_details",
        "provider_name",
        "provider_response_id",
        "state",
        "usage",
    }
)
"""Members of an answer that are logged: not the moment, the server's address, or later notes."""


_PARTS: Final = {
    "cache_read_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "reasoning_tokens": "output_reasoning_tokens",
}
"""Parts of a usage: our names and the framework's."""


class PydanticAIModel:
    """A model that Pydantic AI opens, at the first request: `PydanticAIModel("groq:NAME")`.

    `base_url` is the server to ask, for providers that take one.
    """

    is_async = True
    """Asked where asynchronous tools run: the framework's clients need a loop."""

    def __init__(self, model: str, *, base_url: str | None = None) -> None:
        self._model = model
        self._base_url = base_url

    @property
    def name(self) -> str:
        """As the log shows it: `pydantic:groq:NAME`."""
        return f"pydantic:{self._model}"

    @property
    def reference(self) -> Reference:
        """How a subprocess makes the same model; it finds keys in its own environment."""
        given = {"model": self._model, "base_url": self._base_url}
        return Reference(type(self).__module__, type(self).__qualname__, given)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables whose values are secrets of every run that has this model.

        The framework names them only in the source of the provider.
        """
        source = inspect.getsource(sys.modules[self.check().__module__])
        return tuple(sorted({*_KEYS.findall(source)}))

    def check(self) -> type:
        """Return the class of the provider; nothing is asked, and no key is needed.

        Raises:
            ModelNotFound: no such provider, a required package is not installed, or it takes no
                base URL.
        """
        if self._model == "test":  # the framework's own, which needs no provider
            return Model
        provider, _, name = self._model.partition(":")
        try:
            found = infer_provider_class(provider) if name else None
        except ImportError as error:
            raise ModelNotFound(self.name, str(error)) from None
        except ValueError:
            found = None
        if found is not None:
            if self._base_url is None or "base_url" in inspect.signature(found).parameters:
                return found
            raise ModelNotFound(self.name, f"the provider {provider} takes no base URL")
        known = sorted({each.partition(":")[0] for each in _names(KnownModelName.__value__)})
        expected = f"pydantic:PROVIDER:NAME, with one of {', '.join(known)}, …"
        raise ModelNotFound(
            self.name, f"Pydantic AI does not have a provider {provider!r}: {expected}"
        )

    def complete(self, request: ModelRequest, /) -> Any:
        """Begin the request; await the returned value for the `ModelReply`.

        Raises:
            ModelError: `http_<status>`, `connection`, `timed_out`, `credentials`, `parameters`,
                `messages`, `malformed`, `raised`.
        """
        return self._completed(request)

    async def _completed(self, request: ModelRequest) -> ModelReply:
        settings = endpoint.parameters_of(self.name, request)
        check_messages(self.name, request.messages)
        messages = [*_messages(self.name, request.messages)]
        try:
            model = infer_model(self._model, self._provider)
            if validate := getattr(model, _HOOK, None):
                setattr(model, _HOOK, functools.partial(_completed_by, validate))
            async with model:
                check_settings(self.name, model, settings)
                answer = await model_request(
                    model,
                    messages,
                    model_settings=ModelSettings(**settings),  # type: ignore[typeddict-item]  # just checked
                    model_request_parameters=_offered(request),
                )
        except ModelError:
            raise
        except UserError as error:  # no key, almost always
            failure = ModelError(self.name, short(str(error)), "credentials")
        except ModelTimeoutError as error:
            failure = ModelError(self.name, short(str(error)), "timed_out")
        except ModelConnectionError as error:
            failure = ModelError(self.name, short(f"{error} {error.__cause__ or ''}"), "connection")
        except Exception as error:  # noqa: BLE001 - a model's failure is data, whatever it raised
            failure = endpoint.failure_of(self.name, error)
            if failure.code == "raised" and _is_of_answer(error):
                said = f"the answer is not of the protocol: {failure.message}"
                failure = endpoint.malformed(self.name, said)
        else:
            return reply_of(self.name, answer, len(request.messages))
        raise failure  # outside of the handler: the error holds the request, and so the key

    def _provider(self, name: str) -> Provider[Any]:
        found = infer_provider_class(name)
        return found() if self._base_url is None else found(base_url=self._base_url)  # type: ignore[call-arg]  # most take it


def _is_of_answer(error: Exception) -> bool:
    """Return whether an error came of an answer: no JSON, or without what is taken for granted.

    The framework's functions that read one are named for the response.
    """
    frames = (frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__))
    return (
        isinstance(error, UnexpectedModelBehavior)
        or isinstance(error.__cause__, ValueError)
        or any("response" in name for name in frames)
    )


_HOOK: Final = "_validate_completion"
"""The method of the framework's chat models that its subclasses replace to check an answer."""


def _completed_by(validate: Callable[[Any], Any], response: Any) -> Any:
    """Fill in what small servers leave out of a chat completion; the framework wants all of it."""
    response.id, response.model = response.id or "", response.model or ""
    response.object = "chat.completion"
    for at, choice in enumerate(response.choices):
        choice.index = at
        choice.message.content = choice.message.content and text_of(choice.message.content)
        for call in choice.message.tool_calls or ():
            call.id = call.id or ""
            if not isinstance(given := call.function.arguments, str):
                call.function.arguments = json.dumps(given or {})
    return validate(response)


_KEYS: Final = re.compile(r"""['"]([A-Z][A-Z0-9_]*_(?:KEY|TOKEN)[A-Z0-9_]*)['"]""")


def _names(type_: Any) -> Iterable[str]:
    """Return the texts in a type made of literals."""
    for each in get_args(type_):
        yield from [each] if isinstance(each, str) else _names(getattr(each, "__value__", each))


# -- requests ---------------------------------------------------------------------------------


def check_settings(name: str, model: Model, settings: Mapping[str, Any]) -> None:
    """Refuse a setting that the framework would pass over in silence.

    Raises:
        ModelError: `parameters`: neither all models of the framework know it nor this one.
    """
    own = vars(sys.modules[type(model).__module__])
    kinds = [ModelSettings, *(own[each] for each in own if each.endswith("ModelSettings"))]
    known = {member for kind in kinds for member in inspect.get_annotations(kind)}
    if unknown := sorted(settings.keys() - known):
        said = f"{', '.join(unknown)}: Pydantic AI knows {', '.join(sorted(known))}"
        raise ModelError(name, short(said), "parameters")


def _offered(request: ModelRequest) -> ModelRequestParameters:
    tools = [
        PydanticTool(
            name=tool.name, description=tool.description, parameters_json_schema=tool.parameters
        )
        for tool in request.tools
    ]
    return ModelRequestParameters(function_tools=tools)


_ANY_TIME: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Of an answer in the history: the framework wants one, and no provider is shown it."""


def _messages(model: str, messages: Iterable[Mapping[str, Any]]) -> Iterable[pai.ModelMessage]:
    """Return neutral messages as the framework's: those between two answers are one."""
    asked: list[Any] = []
    for message in messages:
        if message["role"] != "assistant":
            asked.append(_part(message))
            continue
        if asked:
            yield pai.ModelRequest(asked)
            asked = []
        reply = ModelReply(message=dict(message))
        answer = answer_of(model, reply, _ANY_TIME)
        if not answer.parts:  # a refusal: the framework would leave its text out
            plain = {name: value for name, value in message.items() if name != "provider"}
            answer = answer_of(model, ModelReply(message=plain), _ANY_TIME)
        yield answer
    if asked:
        yield pai.ModelRequest(asked)


def _part(message: Mapping[str, Any]) -> Any:
    match message["role"]:
        case "system":
            return pai.SystemPromptPart(message["content"])
        case "tool":
            outcome: Any = "failed" if message.get("is_error") else "success"
            name, call_id = message.get("name", ""), message["tool_call_id"]
            return pai.ToolReturnPart(name, message["content"], call_id, outcome=outcome)
        case _:
            return pai.UserPromptPart(message["content"])


# -- answers ----------------------------------------------------------------------------------


def neutral_answer(response: pai.ModelResponse) -> dict[str, Any]:
    """Return an answer as a neutral message with all of it under `provider`."""
    texts = [part.content for part in response.parts if isinstance(part, pai.TextPart)]
    calls = [
        endpoint.call_of("", part.tool_call_id, part.tool_name, part.args or {})
        for part in response.parts
        if isinstance(part, pai.ToolCallPart)
    ]
    content = "".join(texts) or _refusal(response)
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = calls
    plain = _RESPONSE.dump_python(response, mode="json")
    kept = {name: value for name, value in plain.items() if name in _KEPT}
    invalid = {call["id"]: call["invalid"] for call in calls if "invalid" in call}
    parts = [
        without_empty(part)
        | ({"args": invalid[part["tool_call_id"]]} if part.get("tool_call_id") in invalid else {})
        for part in plain["parts"]
    ]
    kept["usage"] = {name: value for name, value in plain["usage"].items() if value}
    del kept["parts"]
    kept = without_empty(kept)
    if parts != [without_empty(part) for part in _parts_of(message)]:
        kept["parts"] = parts  # else the neutral shape says it all
    return {**message, "provider": {PROVIDER: kept}}


def _refusal(response: pai.ModelResponse) -> str:
    """Return the words of a refusal, which the framework has in no part; empty for none."""
    return text_of((response.provider_details or {}).get("refusal"))


def _stop_reason(response: pai.ModelResponse) -> str:
    """Return why an answer ended; where the framework has one word for several, the provider's."""
    own = text_of((response.provider_details or {}).get("finish_reason"))
    if own == "refusal" or _refusal(response):
        return "refusal"
    known = response.finish_reason or own or "stop"
    return "tool_calls" if known == "tool_call" else known


def _parts_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the parts of an answer that is a text, then calls, and nothing beside them."""
    text = message["content"]
    parts = [{"content": text, "part_kind": "text"}] if text else []
    return parts + [
        {
            "tool_name": call["name"],
            "args": endpoint.arguments_back(call),
            "tool_call_id": call["id"],
            "part_kind": "tool-call",
        }
        for call in message.get("tool_calls", ())
    ]


def reply_of(model: str, response: pai.ModelResponse, messages: int) -> ModelReply:
    """Return the log's form of the answer to so many messages.

    Raises:
        ModelError: `malformed`: a log cannot hold it.
    """
    response = dataclasses.replace(response, parts=_with_ids(response.parts, messages))
    counted = vars(response.usage)  # as an attribute, an unknown count is 0
    known = {ours: counted.get(theirs) for ours, theirs in _PARTS.items()}
    usage = Usage(
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        requests=1,
        untold=None if counted.keys() & {"input_tokens", "output_tokens"} else 1,
        **known,
    )
    try:
        message = neutral_answer(response)
    except ValueError as error:
        raise endpoint.malformed(model, f"the answer cannot be kept: {error}") from None
    return endpoint.reply_of(model, message, usage, _stop_reason(response))


def _with_ids(parts: Sequence[Any], messages: int) -> list[Any]:
    """Give each call an id of its own, by its place where its model gave none or one twice.

    The framework draws ids: a live run would differ from the record (§11.2).
    """
    taken: set[str] = set()
    named: dict[str, str] = {}
    found, calls = [], 0
    for part in parts:
        given = getattr(part, "tool_call_id", None) or ""
        if isinstance(part, pai.ToolCallPart):
            known = "" if _DRAWN.fullmatch(given) else given
            own = endpoint.distinct_id(known, calls, messages, taken)
            calls += 1
        elif _DRAWN.fullmatch(given):  # a server's tool, and its result
            own = named.setdefault(given, f"served_{messages}_{len(named)}")
        else:
            own = given
        found.append(part if own == given else dataclasses.replace(part, tool_call_id=own))
    return found


def answer_of(model: str, reply: ModelReply, when: dt.datetime) -> pai.ModelResponse:
    """Return the answer that a log holds, with the time at which the program got it.

    For an edited one, it is built from its neutral shape.

    Raises:
        ModelError: `malformed`: another version of the framework wrote it.
    """
    spent = {
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
    }
    kept = reply.message.get("provider", {}).get(PROVIDER, {"usage": spent})
    try:
        plain = {"parts": _parts_of(reply.message), **kept, "timestamp": when}
        return _RESPONSE.validate_python(plain)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        why = short(f"this is no answer of Pydantic AI: {error}")
    raise ModelError(model, why, "malformed")
