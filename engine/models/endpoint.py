"""Holds the common parts of models behind HTTP.

A client made once, a request sent once, an answer read strictly, a failure reported without its
key. Translation is each adapter's own; retries, timeouts and keys are the SDK's. Answers are read
as the JSON that came, not as the SDK's objects: those are built without checks, and drop or invent
members. Rules: CONTRACT.md §11.
"""

import difflib
import inspect
import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, Final
from urllib.request import getproxies, proxy_bypass

from refold.engine.encoding.canonical import Json, check, encode
from refold.engine.errors import ExtraMissing, ModelError, NotCanonical
from refold.engine.events.outcome import Usage
from refold.engine.models.connections import close_if_more
from refold.engine.models.messages import check_messages
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference
from refold.engine.wire.parts import notation
from refold.engine.wire.parts.notation import short, text_of
from refold.engine.wire.parts.reading import words_in

PLACEHOLDER_KEY: Final = "none-needed"
"""Sent to a `base_url` for which the environment holds no key: local servers want none."""

OURS: Final = frozenset({"agent", "inherited"})
"""Parameters that speak to Refold (`engine.models.scripted`) and are never sent."""

_TAKEN: Final = {
    "messages": "pass the list to run.model",
    "model": "pass record(model=…), or models=… and their names",
    "parameters": "pass each by its name",
    "stream": "answers are not streamed",
    "system": "pass a message with the role system",
    "tools": "pass run.model(tools=…)",
}
"""Members that an adapter sets itself, as parameters they would contradict the log; what to do."""

_ANYWHERE: Final = ("max_tokens", "seed", "stop", "temperature", "tool_choice", "top_k", "top_p")
"""Names that servers know, whether or not the installed version of an SDK does."""

_NEAR: Final = 0.85
"""How alike a misspelt name and the right one are at least, of 1; `top_k` and `top_p` are 0.8."""

_KEY_CHARS_MIN: Final = 8
_CREDENTIALS: Final = ("api_key", "auth_token", "credentials")
"""Of an SDK's client."""


class LazyClient:
    """One SDK client, made at the first request and shared by all threads."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._client: Any = None

    def get(self) -> Any:
        """Return the client; the first call makes it."""
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def close(self) -> None:
        """Close its connections; a later request makes a new one."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def load_sdk(module: str, extra: str) -> Any:
    """Return an SDK's module.

    Raises:
        ExtraMissing: it, or something that it needs, is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        missing = error.name or module
    raise ExtraMissing(missing, extra)


class HttpModel(ABC):
    """A model that its provider's SDK asks over HTTP.

    Threads may share one.  The client is made at the first request; no key is held here, so that
    `reference` holds none.
    """

    provider: ClassVar[str]
    """The prefix of the model's name, its SDK and the extra with that: `openai`."""
    client_class: ClassVar[str]
    """In the SDK: `OpenAI`; the base of its errors is `OpenAIError`."""
    key_variables: ClassVar[tuple[str, ...]]
    """Environment variables with keys: their values are secrets of every run that has this
    model."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        timeout_seconds: float | None = None,
        max_retries: int | None = None,
    ) -> None:
        """Name the model, and the server if it is not the provider's own.

        `timeout_seconds` (each attempt) and `max_retries` are the SDK's where `None`.  Without a
        key in the environment, a `base_url`, or the provider's variable of that name, gets a
        placeholder.
        """
        self._model = model
        self._base_url = base_url
        self._more = {"timeout_seconds": timeout_seconds, "max_retries": max_retries}
        self._client = LazyClient(self._make_client)

    @property
    def name(self) -> str:
        """The provider and the model's name: `openai:gpt-4o`."""
        return f"{self.provider}:{self._model}"

    @property
    def reference(self) -> Reference:
        """How a subprocess makes the same model; it finds keys in its own environment."""
        given = {"model": self._model, "base_url": self._base_url, **self._more}
        return Reference(type(self).__module__, type(self).__qualname__, given)

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the model's answer.

        Raises:
            ModelError: `http_<status>`, `connection`, `timed_out`, `malformed`, `credentials`,
                `parameters`, `messages`, or `raised`.
            ExtraMissing: the SDK is not installed.
        """
        sdk = load_sdk(self.provider, self.provider)
        check_messages(self.name, request.messages)
        client = self._client.get()
        create = self._create_of(client)
        extra = parameters_of(self.name, request, inspect.signature(create).parameters)
        body = self._body(request, extra)
        errors = self._errors(sdk)
        content = send(self.name, sdk, errors, client, lambda: self._ask(create, body))
        return self._reply(self._read(content, body), request)

    @abstractmethod
    def _create_of(self, client: Any) -> Callable[..., Any]:
        """Return the client's function that asks a model, and gives the answer as it came."""

    @abstractmethod
    def _body(self, request: ModelRequest, extra: dict[str, Any]) -> dict[str, Any]:
        """Return that function's arguments; `extra` are the request's parameters."""

    def _ask(self, create: Callable[..., Any], body: dict[str, Any]) -> Any:
        return create(**body)

    def _read(self, content: bytes, _body: dict[str, Any]) -> dict[str, Any]:
        """Return the answer in the bytes that came."""
        return object_in(self.name, content)

    @abstractmethod
    def _reply(self, answer: dict[str, Any], request: ModelRequest) -> ModelReply:
        """Return an answer in the neutral form."""

    def _errors(self, sdk: Any) -> type[Exception]:
        found: type[Exception] = getattr(sdk, f"{self.client_class}Error")
        return found

    def _make_client(self) -> Any:
        sdk = load_sdk(self.provider, self.provider)
        make, options = getattr(sdk, self.client_class), self._options()
        with suppress(self._errors(sdk)):  # no key, or a profile that cannot be read
            client = make(**options)
            if any(getattr(client, each, None) for each in _CREDENTIALS):
                return _guarded(client)
            client.close()
        if not (self._base_url or os.environ.get(f"{self.provider.upper()}_BASE_URL")):
            why = f"no key: set {self.key_variables[0]}"
            raise ModelError(self.name, why, "credentials")
        return _guarded(make(api_key=PLACEHOLDER_KEY, **options))

    def close(self) -> None:
        """Close the client's connections; the model can still be used."""
        self._client.close()

    def _options(self) -> dict[str, Any]:
        """Return the arguments of an SDK client; unset ones are left to the SDK."""
        timeout, retries = self._more.values()
        options = {"base_url": self._base_url, "timeout": timeout, "max_retries": retries}
        return {name: value for name, value in options.items() if value is not None}


def _guarded(client: Any) -> Any:
    """Return an SDK's client, with a hook in the HTTP client below it: the SDKs take none."""
    if (below := getattr(client, "_client", None)) is not None:
        below.event_hooks["response"].append(close_if_more)
    return client


def parameters_of(model: str, request: ModelRequest, known: Iterable[str] = ()) -> dict[str, Any]:
    """Return the parameters to send, by name; the members of `extra_body` beside them, unchecked.

    Servers accept different ones, so a name is refused only if it is nearly one of the `known`.

    Raises:
        ModelError: `parameters`: one that the adapter itself sets, a misspelt one, or an
            `extra_body` that is not an object.
    """
    given = {name: value for name, value in request.parameters.items() if name not in OURS}
    free = given.pop("extra_body", {})
    if not isinstance(free, dict):
        raise ModelError(model, "extra_body is not an object of JSON", "parameters")
    for name in sorted(_TAKEN.keys() & {*given, *free}):
        advice = f"{name} cannot be given as a parameter: {_TAKEN[name]}"
        raise ModelError(model, advice, "parameters")
    names = [*known, *_ANYWHERE]
    for name in given.keys() - names:
        if near := difflib.get_close_matches(name, names, 1, _NEAR):
            advice = f"use {near[0]}, or put {name} into extra_body, which is sent unchecked"
            raise ModelError(model, f"{name} is not a parameter: {advice}", "parameters")
    return given | free


def send(
    model: str, sdk: Any, base: type[Exception], client: Any, create: Callable[[], Any]
) -> bytes:
    """Return the answer to a request; `base` is the base of the SDK's errors.

    Raises:
        ModelError: the request failed after the client's own retries (`http_<status>`,
            `connection`, `timed_out`), or could not be made (`raised`).
    """
    # Raised outside the handler: the SDK's error holds the request, and so the key.
    try:
        raw = create()
    except (base, TypeError, ValueError) as error:
        failure = _failure(model, sdk, error, secrets_of(client))
    else:
        return raw.http_response.content  # type: ignore[no-any-return]  # of the SDK
    raise failure


def secrets_of(client: Any) -> tuple[str, ...]:
    """Return the values that no message may contain, except those too short to be keys."""
    held = (getattr(client, name, None) for name in ("api_key", "auth_token"))
    keys = (secret.strip() for secret in held if isinstance(secret, str))
    return tuple(key for key in keys if len(key) >= _KEY_CHARS_MIN)


def _failure(model: str, sdk: Any, error: Exception, secrets: tuple[str, ...]) -> ModelError:
    if isinstance(error, sdk.APITimeoutError):
        return ModelError(model, "no answer in time", "timed_out")
    if isinstance(error, sdk.APIConnectionError):
        said = f"{error} {error.__cause__ or ''}{_asked(error.request.url)}"
        if "CERTIFICATE_VERIFY_FAILED" in said:
            said += "; SSL_CERT_FILE names the certificates that are trusted"
        return ModelError(model, short(said, secrets), "connection")
    if isinstance(error, sdk.APIStatusError):
        status = error.response.status_code
        text = error.response.text
        said = words_in(found) if (found := notation.object_in(text)) is not None else text
        words = said or error.response.reason_phrase or "no reason given"
        return ModelError(model, short(words, secrets), f"http_{status}")
    return ModelError(model, short(f"{type(error).__name__}: {error}", secrets), "raised")


def _asked(url: Any) -> str:
    """Return which server was asked, and by which proxy: both may be another than was meant.

    Without user names, passwords, and paths: these may be secret.
    """
    if not url.host:
        return f" The base URL is {str(url)[:80]!r}."
    asked = f" at {url.scheme}://{url.netloc.decode()}"
    proxies = getproxies()
    for name in (f"{url.scheme}_proxy", "all_proxy"):
        proxy = proxies.get(name.removesuffix("_proxy"))
        if proxy and not proxy_bypass(url.host):
            host = proxy.rpartition("//")[2].rpartition("@")[2]
            return f"{asked}, through the proxy {host} of {name.upper()}"
    return asked


def object_in(model: str, content: bytes) -> dict[str, Any]:
    """Return the object of a JSON body; raises `malformed` for another."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict):
        return answer
    raise malformed(model, f"the answer is not a JSON object: {content[:80]!r}")


def failure_of(model: str, error: Exception) -> ModelError:
    """Return the log's form of an error that a framework's model raised."""
    status = getattr(error, "status_code", None)
    code = f"http_{status}" if isinstance(status, int) else "raised"
    return ModelError(model, short(f"{type(error).__name__}: {error}"), code)


def malformed(model: str, message: str) -> ModelError:
    """Return the error for an answer of another shape than the protocol's."""
    return ModelError(model, short(message), "malformed")


def objects_in(model: str, value: Json, where: str) -> list[dict[str, Any]]:
    """Return a list of objects out of an answer; null is the empty one.

    Raises:
        ModelError: `malformed`: not an object.
    """
    items = [] if value is None else value
    if isinstance(items, list) and all(isinstance(item, dict) for item in items):
        return items
    raise malformed(model, f"{where}: expected a list of objects, found {type(value).__name__}")


def call_of(model: str, call_id: str, name: Json, arguments: Json) -> dict[str, Any]:
    """Return a neutral tool call.

    Arguments come as JSON text or as an object. Arguments that a log cannot hold exactly (not an
    object, a name given twice, an integer beyond 64 bits) go into `invalid` as text; empty text
    means no arguments.

    Raises:
        ModelError: `malformed`: a call without a tool's name.
    """
    if not isinstance(name, str) or not name:
        raise malformed(model, "a tool call has no name")
    call = {"id": call_id, "name": text_of(name), "arguments": {}}
    try:
        call["arguments"] = _arguments_in(arguments)
    except (ValueError, RecursionError, NotCanonical):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call["invalid"] = text_of(text)
    return call


def _arguments_in(arguments: Json) -> dict[str, Any]:
    if isinstance(arguments, str):
        text = arguments.strip()
        arguments = json.loads(text, object_pairs_hook=notation.once) if text else {}
    if not isinstance(arguments, dict):
        raise ValueError("no object")  # noqa: TRY004  # one kind of error for all that is invalid
    check(arguments)
    return arguments


def arguments_back(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments to send back in the history.

    Invalid text goes back inside an object: servers parse the history, and one bad call would
    make every later request fail.
    """
    if "invalid" in call:
        return {"invalid_json": call["invalid"]}
    return dict(call["arguments"])


def arguments_text(call: Mapping[str, Any]) -> str:
    """Return `arguments_back` as JSON text."""
    return encode(arguments_back(call)).decode()


def distinct_id(given: Json, index: int, messages: int, taken: set[str]) -> str:
    """Return the id of a call: the server's, or one by place where it gave none or one twice."""
    call_id = text_of(given)
    if not call_id or call_id in taken:
        call_id = f"call_{messages}_{index}"
    taken.add(call_id)
    return call_id


def reply_of(model: str, message: dict[str, Any], usage: Usage, stop_reason: str) -> ModelReply:
    """Return the reply, once it is known that a log can hold it.

    Raises:
        ModelError: `malformed`: it cannot.
    """
    if "tool_calls" in message and stop_reason in ("", "stop"):
        stop_reason = "tool_calls"
    try:
        check(message)
    except NotCanonical as error:
        failure = malformed(model, f"the answer cannot be kept: {error}")
    else:
        return ModelReply(message=message, usage=usage, stop_reason=stop_reason or "stop")
    raise failure
