"""Models without a network: a script of replies, or a function.

`ScriptedModel` gives the n-th reply of an agent to the request that holds n-1 replies already: the
conversation chooses, not the order of arrival. So there is no shared cursor, and runs in parallel,
in subprocesses and in replay agree. `FunctionModel` covers everything else.

The file that `engine.models.parse` reads, and what `replies` may be, in YAML or JSON:

    researcher:                                # the agent's name; "*" is any other
      - tool_calls:                            # one reply with two parallel calls
          - {name: search, arguments: {query: tides}}
          - {name: search, arguments: {query: moon, limit: 3}}
        text: Let me look.                     # optional beside calls
        usage: {input_tokens: 120, output_tokens: 30}
      - {name: read, arguments: {path: a.md}}  # short for a reply with one call
      - error: {code: http_500, message: overloaded}
      - The tides follow the moon.             # short for {text: …}
    "*":
      - {text: "", stop_reason: refusal}

A list instead of the object is the script of every agent.  Rules: CONTRACT.md §11.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import takewhile
from pathlib import Path
from typing import Any, Final, NotRequired, Self, TypedDict

import attrs
import yaml

from refold.engine.encoding.canonical import check, join
from refold.engine.encoding.shapes import reader_of
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import ModelError, ScriptRefused
from refold.engine.events.outcome import Usage
from refold.engine.models.messages import check_messages
from refold.engine.plain_files import plain_file
from refold.engine.ports.ports import ModelReply, ModelRequest, Reference

Reply = str | Mapping[str, Any] | ModelReply | ModelError
"""One reply of a script: a text, an object as in a file, a ready reply, or a failure."""

ANY_AGENT: Final = "*"


class _Call(TypedDict):
    id: NotRequired[str]
    name: str
    arguments: NotRequired[dict[str, Any]]
    invalid: NotRequired[str]


_Usage = TypedDict(  # type: ignore[misc]  # its members are not spelled out
    "_Usage", dict.fromkeys(attrs.fields_dict(Usage), int) | {"prices": str}, total=False
)


class _Error(TypedDict):
    code: str
    message: str


class _LongReply(TypedDict, total=False):
    text: str
    tool_calls: list[_Call]
    stop_reason: str
    usage: _Usage
    provider: dict[str, Any]
    error: _Error


class ScriptedModel:
    """A model that answers from its script. Threads may share one: it keeps nothing.

    Who asks is the request's parameter `agent` (none: `"*"`). The parameter `inherited` of a
    conversation that began as another agent's is the number of messages that it took over; replies
    among those do not count.
    """

    is_script: Final = True
    """Whether a log marks the model as one that its name does not lead to."""

    def __init__(
        self,
        replies: Sequence[Reply] | Mapping[str, Sequence[Reply]],
        name: str = "scripted",
        *,
        where: str = "replies",
    ) -> None:
        """Check the whole script; `where` names it in errors.

        Raises:
            ScriptRefused: a part does not match this module's docstring.
        """
        self._name = name
        self._script = _script(replies, where)
        self.is_list = not isinstance(replies, Mapping)
        """Whether all agents have the same replies: each run that asks begins with the first."""

    @classmethod
    def from_file(cls, path: Path | str, name: str = "scripted") -> Self:
        """Return the model that a YAML or JSON file describes.

        Raises:
            ScriptRefused: the file cannot be read, or is not a script.
        """
        try:
            replies = yaml.safe_load(plain_file(path).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ScriptRefused(str(path), "", "", "no such file") from None
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            why = " ".join(str(error).split())
            raise ScriptRefused(str(path), "", "a readable YAML or JSON file", why) from None
        return cls(replies, name, where=str(path))

    @property
    def name(self) -> str:
        """As the log shows it."""
        return self._name

    @property
    def is_priced(self) -> bool:
        """Whether each reply has its cost: `cost_usd_micros` in its `usage`."""
        replies = (reply for each in self._script.values() for reply in each)
        return all("error" in one or "cost_usd_micros" in one.get("usage", {}) for one in replies)

    @property
    def reference(self) -> Reference:
        """How a subprocess makes the same model: by the script itself, which may have no file."""
        arguments = {"replies": self._script, "name": self._name}
        return Reference(__name__, type(self).__qualname__, arguments)

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the reply at the conversation's place.

        Raises:
            ModelError: the script's own, there are no more replies (`script_exhausted`), or a new
                message lacks a member (`messages`).
        """
        agent = str(request.parameters.get("agent", ANY_AGENT))
        script = self._script.get(agent, self._script.get(ANY_AGENT, []))
        taken_over = request.messages[: request.parameters.get("inherited", 0)]
        new = takewhile(_is_new, reversed(request.messages))
        check_messages(self._name, [*new] or request.messages[-1:])
        place = _replies_in(request) - _replies(taken_over)
        if not {agent, ANY_AGENT} & self._script.keys():
            named = ", ".join(self._script) or "none"
            wanted = f"no script for agent {agent!r} (scripts: {named})"
            raise ModelError(self._name, wanted, "script_exhausted")
        if place >= len(script):
            replies = "1 reply" if len(script) == 1 else f"{len(script)} replies"
            wanted = f"agent {agent!r} has {replies} and asks for number {place + 1}"
            raise ModelError(self._name, wanted, "script_exhausted")
        return _reply_of(self._name, script[place], f"call_{len(request.messages)}")


class FunctionModel:
    """A model that is a function of the request; the function must be pure and safe in threads."""

    is_script: Final = True
    """As of a `ScriptedModel`."""

    def __init__(
        self,
        function: Callable[[ModelRequest], Reply],
        name: str = "function",
        *,
        reference: Reference | None = None,
    ) -> None:
        """Take the function; with `reference`, which must make this model, subprocesses have it."""
        self._function = function
        self._name = name
        self._reference = reference

    @property
    def name(self) -> str:
        """As the log shows it."""
        return self._name

    @property
    def reference(self) -> Reference | None:
        """The replies."""
        return self._reference

    def complete(self, request: ModelRequest, /) -> ModelReply:
        """Return the function's reply.

        Raises:
            ModelError: the function raised or returned it.
            ScriptRefused: the function returned something other than a reply.
        """
        reply: Any = self._function(request)
        if inspect.iscoroutine(reply):
            reply.close()  # or Python would name a line of ours
        said = _checked_reply(reply, self._name, "")
        return _reply_of(self._name, said, f"call_{len(request.messages)}")


def _replies_in(request: ModelRequest) -> int:
    counted, replies = request.counted or ((), 0)
    return replies if counted is request.messages else _replies(request.messages)


def _replies(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum(message.get("role") == "assistant" for message in messages)


def _is_new(message: Mapping[str, Any]) -> bool:
    """Return whether a message is not a reply: those before the last reply were checked with it."""
    return message.get("role") != "assistant"


def _reply_of(model: str, reply: dict[str, Any], call_prefix: str) -> ModelReply:
    """Return a checked reply as the port has it.

    Calls without an id are named by their place in the conversation. The reply is a copy: changes
    to a program's messages must not change the script.
    """
    reply = deepcopy(reply)
    if "error" in reply:
        raise ModelError(model, reply["error"]["message"], reply["error"]["code"])
    message: dict[str, Any] = {"role": "assistant", "content": reply.get("text", "")}
    if calls := reply.get("tool_calls"):
        message["tool_calls"] = [
            {"id": f"{call_prefix}_{index}", "name": "", "arguments": {}} | call
            for index, call in enumerate(calls)
        ]
    if "provider" in reply:
        message["provider"] = reply["provider"]
    stop_reason = reply.get("stop_reason", "tool_calls" if calls else "stop")
    usage = Usage(**{"requests": 1} | reply.get("usage", {}))
    return ModelReply(message=message, usage=usage, stop_reason=stop_reason)


def _script(replies: Any, where: str) -> dict[str, list[dict[str, Any]]]:
    """Return the script as JSON, each reply in its long form."""
    if isinstance(replies, Mapping):
        agents = {agent: (listed, f"/{agent}") for agent, listed in replies.items()}
    else:
        agents = {ANY_AGENT: (replies, "")}
    script: dict[str, list[dict[str, Any]]] = {}
    for agent, (listed, pointer) in agents.items():
        if not isinstance(agent, str):
            raise ScriptRefused(where, pointer, "an agent's name", repr(agent))
        if not isinstance(listed, list | tuple):
            raise ScriptRefused(where, pointer, "a list of replies", _kind(listed))
        script[agent] = [
            _checked_reply(reply, where, join(pointer, index)) for index, reply in enumerate(listed)
        ]
    return script


def _checked_reply(reply: Any, where: str, pointer: str) -> dict[str, Any]:
    """Return one reply in its long form."""
    long = _long(reply)
    if long is None:
        raise ScriptRefused(where, pointer, "a string or an object", _kind(reply))
    try:
        check(long)
        read: dict[str, Any] = deepcopy(reader_of(_LongReply)(long))
    except Exception as error:  # noqa: BLE001 - what the reader raises is explained
        wrong = next(problems_of(error, pointer))
        raise ScriptRefused(where, wrong.pointer, wrong.expected, wrong.found) from None
    if "error" in read and len(read) > 1:
        beside = ", ".join(name for name in read if name != "error")
        raise ScriptRefused(where, pointer, "an error alone", f"{beside} beside it")
    for name, value in read.get("usage", {}).items():
        if isinstance(value, int) and value < 0:
            at = f"{pointer}/usage/{name}"
            raise ScriptRefused(where, at, "an integer of at least 0", str(value))
    for index, call in enumerate(read.get("tool_calls", ())):
        if not call["name"]:
            at = f"{pointer}/tool_calls/{index}/name"
            raise ScriptRefused(where, at, "a tool's name", "an empty text")
    return read


def _long(reply: Any) -> dict[str, Any] | None:
    match reply:
        case str():
            return {"text": reply}
        case ModelReply():
            return _from_reply(reply)
        case ModelError():
            return {"error": {"code": reply.code, "message": reply.message}}
        case Mapping() if "name" in reply or "arguments" in reply:
            return {"tool_calls": [dict(reply)]}
        case Mapping():
            return dict(reply)
        case _:
            return None


def _from_reply(reply: ModelReply) -> dict[str, Any]:
    message = reply.message
    long = {"text": message.get("content", ""), "stop_reason": reply.stop_reason}
    long |= {name: message[name] for name in ("tool_calls", "provider") if name in message}
    return long | {"usage": reply.usage.as_json()}


def _kind(value: Any) -> str:
    if inspect.iscoroutine(value):
        return "a coroutine: use a plain function, not an async one"
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.60}"
