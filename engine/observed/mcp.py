"""Makes events of the messages between an MCP client and its server.

One observer watches one connection. It gets messages in the order in which they pass, each as a
JSON-RPC object without secrets. It appends a request of the client as a tool call: `tools/call`
under the tool's name, every other under `mcp.` and its method; then its response. All other
messages become `x-refold.mcp`, at the call that they belong to. Ids and progress tokens only
connect messages, and are not written. Pure except for the journal. `observed.mcp_messages` parses
messages. Rules: CONTRACT.md §16.11.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events import events
from refold.engine.observed import mcp_messages as messages
from refold.engine.observed.mcp_messages import LISTEN, LISTS, Message
from refold.engine.observed.observer import Journal
from refold.engine.wire.parts.kept_answers import body_of

MCP: Final = "x-refold.mcp"
"""What passes beside requests and responses: {scope, from, kind, …}; kinds are `Kind`."""

Kind = Literal["started", "params", "notification", "request", "response", "text", "ended"]
"""`started`: a connection began: {server, transport, command or url} · `params`: a request's other
members besides its arguments · `notification`, `request`, `response`: from the server, or from the
client (whose requests are tool calls instead) · `text`: a line that is not a message · `ended`:
{left, exit_code}."""
Side = Literal["client", "server"]

_DRAWN: Final = frozenset({"progressToken", "traceparent", "tracestate", "baggage"})
"""Members of `_meta` that are others each time."""
_READS: Final = re.compile(r"initialize|ping|server/discover|.+/(?:list|read|get|complete)")


@attrs.define
class Open:
    """A request of the client on its way."""

    call: str
    seq: int
    method: str
    channel: str
    id: str
    token: str | None
    """The progress token."""
    is_cancelled: bool = False


@attrs.frozen
class _Asked:
    """A request of the server on its way."""

    call: str | None
    seq: int


class McpObserver:
    """Watches one connection."""

    def __init__(self, journal: Journal, server: str, number: int, how: Mapping[str, Json]) -> None:
        """Write down that a connection began; `how` is {transport, command or url}."""
        self.scope = messages.scope_of(server, number)
        self._journal = journal
        self._ordinal = 0
        self._open: dict[str, Open] = {}
        """By call, in the order of asking."""
        self._broken: dict[str, Open] = {}
        """By id: what failed, and may be answered yet by a stream that takes up the broken one."""
        self._asked: dict[str, _Asked] = {}
        """The server's open requests, by channel and id."""
        self._effects: dict[str, events.EffectClass] = {}
        self._meta: dict[str, Any] = {}
        """Of the last request that had any."""
        self._began = 0
        self._began = self._note("client", "started", {"server": server, **how})

    def client(self, message: Message, channel: str = "") -> None:
        """Write down a message of the client, before it passes.

        `channel` is the stream that the response will come by; empty where there is one for all.

        Raises:
            LogPoisoned: the log cannot be written.
        """
        if messages.is_request(message):
            self._called(message, channel)
        elif messages.is_notification(message):
            self._from_client(message)
        elif messages.is_response(message):
            asked = self._asked.pop(messages.id_key(message.get("id")), None)
            self._note("client", "response", _answer(message), asked)
        else:
            self.text("client", json.dumps(message).encode())

    def server(self, message: Message, channel: str = "") -> None:
        """Write down a message of the server, before it passes.

        Raises:
            LogPoisoned: the log cannot be written.
        """
        if messages.is_response(message):
            opened = self._pop(messages.id_key(message.get("id")), channel)
            if opened is None:
                broken = self._broken.pop(messages.id_key(message.get("id")), None)
                self._note("server", "response", _answer(message), broken)
            else:
                self._returned(opened, message)
        elif messages.is_request(message) or messages.is_notification(message):
            self._from_server(message, channel)
        else:
            self.text("server", json.dumps(message).encode())

    def text(self, side: Side, content: bytes, channel: str = "") -> None:
        """Record a line that is not a message."""
        opened = self._newest(channel) if side == "server" else None
        self._note(side, "text", body_of(content), opened)

    def failed(self, channel: str, code: str, message: str, result: Json = None) -> None:
        """Write down that the requests of a channel get no response; `result` is what came."""
        for opened in self._in(channel):
            del self._open[opened.call]
            if not opened.is_cancelled:
                error = {"code": code, "message": message, "type": ""}
                self._journal.append(
                    events.ToolReturned("error", result, error), opened.call, opened.seq
                )
                self._broken[opened.id] = opened

    def gone(self, channel: str) -> None:
        """Write down that the client gave up on a channel."""
        for opened in self._in(channel):
            self._cancel(opened)
            del self._open[opened.call]

    def ended(self, left: Side, exit_code: int | None = None) -> None:
        """Record which side left first; requests without a response stay open."""
        code = {} if exit_code is None else {"exit_code": exit_code}
        opened = self._newest("") if left == "server" else None
        self._note("server", "ended", {"left": left, **code}, opened)

    # --- the client ----------------------------------------------------------------------

    def _called(self, message: Message, channel: str) -> None:
        request = messages.request_of(message)
        self._ordinal += 1
        self._broken.pop(messages.id_key(message["id"]), None)
        call = f"{self.scope}#{self._ordinal}"
        event = events.ToolCalled(
            request.name, dict(sorted(request.arguments.items())), self._effect(request.name)
        )
        seq = self._journal.append(event, call, self._began)
        meta = messages.meta_of(message)
        token = messages.id_key(meta["progressToken"]) if "progressToken" in meta else None
        opened = Open(call, seq, message["method"], channel, messages.id_key(message["id"]), token)
        self._open[call] = opened
        told = {name: value for name, value in meta.items() if name not in _DRAWN}
        is_new = bool(told) and told != self._meta  # it is the same nearly always: said once
        self._meta = told or self._meta
        params = {**request.more, **({"_meta": told} if is_new else {})}
        if params:
            self._note("client", "params", {"params": messages.held(params)}, opened)

    def _effect(self, name: str) -> events.EffectClass:
        if name.startswith(messages.PREFIX):
            return "reads" if _READS.fullmatch(name.removeprefix(messages.PREFIX)) else "changes"
        return self._effects.get(name, "changes")

    def _from_client(self, message: Message) -> None:
        params = message.get("params")
        opened = None
        if message["method"] == "notifications/cancelled" and isinstance(params, dict):
            opened = self._live_of(messages.id_key(params.get("requestId")))
        self._note("client", "notification", _untied(message, opened), opened)
        if opened is not None:
            self._cancel(opened)

    def _cancel(self, opened: Open) -> None:
        if not opened.is_cancelled:
            opened.is_cancelled = True
            self._journal.append(events.EffectCancelled("tool"), opened.call, opened.seq)

    # --- the server ----------------------------------------------------------------------

    def _returned(self, opened: Open, message: Message) -> None:
        if opened.is_cancelled:
            status = "error" if "error" in message else "ok"
            self._journal.append(events.EffectLate("tool", status), opened.call, opened.seq)
            return
        if opened.method == "tools/list":
            self._effects.update(_effects_in(message.get("result")))
        self._journal.append(_outcome(message), opened.call, opened.seq)

    def _from_server(self, message: Message, channel: str) -> None:
        opened, more = self._tied(message, channel)
        kind: Kind = "request" if messages.is_request(message) else "notification"
        if message["method"] == "notifications/cancelled":
            wanted = messages.id_key((message.get("params") or {}).get("requestId"))
            if (asked := self._asked.pop(wanted, None)) is not None:
                self._note("server", kind, _untied(message, None), asked)
                return
        seq = self._note("server", kind, {**_untied(message, opened), **more}, opened)
        if kind == "request":
            call = opened.call if opened is not None else None
            self._asked[messages.id_key(message["id"])] = _Asked(call, seq)

    def _tied(self, message: Message, channel: str) -> tuple[Open | None, dict[str, Json]]:
        """Return the call that a message of the server belongs to, as far as that is known."""
        params = message.get("params")
        if isinstance(params, dict) and "progressToken" in params:
            token = messages.id_key(params["progressToken"])
            return next((each for each in self._live() if each.token == token), None), {}
        # No request has the id null.
        if (found := self._live_of(messages.id_key(messages.subscription_of(message)))) is not None:
            return found, {"subscribed": True}
        return self._newest(channel), {}

    def _live(self) -> Iterator[Open]:
        return (each for each in self._open.values() if not each.is_cancelled)

    def _live_of(self, wanted: str) -> Open | None:
        return next((each for each in self._live() if each.id == wanted), None)

    def _in(self, channel: str) -> list[Open]:
        return [each for each in self._open.values() if each.channel == channel]

    def _newest(self, channel: str) -> Open | None:
        """Return the newest open request of a channel.

        A request that only lists comes after any other, and one that only listens after those: a
        server's incidental messages are not about a list, and the number of list requests depends
        on timing.
        """
        found = [each for each in self._live() if each.channel == channel]
        found.sort(key=lambda each: (each.method != LISTEN, each.method not in LISTS, each.seq))
        return found[-1] if found else None

    def _pop(self, wanted: str, channel: str) -> Open | None:
        found = [each for each in self._open.values() if each.id == wanted]
        found.sort(key=lambda each: each.channel != channel)  # a stream may be taken up by another
        return self._open.pop(found[0].call) if found else None

    # --- entries -------------------------------------------------------------------------

    def _note(
        self,
        side: Side,
        kind: Kind,
        data: Mapping[str, Json],
        opened: "Open | _Asked | None" = None,
    ) -> int:
        """Write down what passed, at the request that it belongs to; of none, at the beginning."""
        call, cause = (opened.call, opened.seq) if opened is not None else (None, self._began)
        told = {"scope": self.scope, "from": side, "kind": kind, **data}
        return self._journal.append(events.Extension(MCP, told), call, cause)


def _untied(message: Message, opened: Open | None) -> dict[str, Json]:
    """Return {method, params} without what only ties it to `opened`."""
    params = message.get("params")
    if params is None:
        return {"method": message["method"]}
    if isinstance(params, dict):
        meta = {
            name: value
            for name, value in messages.meta_of(message).items()
            if name not in _DRAWN and name != messages.SUBSCRIPTION
        }
        params = {name: value for name, value in params.items() if name != "_meta"}
        if opened is not None:
            params.pop("progressToken", None)
        params.pop("requestId", None)
        params |= {"_meta": meta} if meta else {}
    return {"method": message["method"], "params": messages.held(params)}


def _answer(message: Message) -> dict[str, Json]:
    return {name: messages.held(message[name]) for name in ("result", "error") if name in message}


def _outcome(message: Message) -> events.ToolReturned:
    """Return a response as a tool's result: the whole of it, and its error, if any."""
    if "error" in message:
        error = message["error"] if isinstance(message["error"], dict) else {}
        told = {
            "code": "json_rpc",
            "message": str(error.get("message", "")),
            "type": str(error.get("code", "")),
        }
        return events.ToolReturned("error", messages.held(message["error"]), told)
    result = message["result"]
    if isinstance(result, dict) and result.get("isError") is True:
        told = {"code": "is_error", "message": _text_of(result), "type": ""}
        return events.ToolReturned("error", messages.held(result), told)
    return events.ToolReturned("ok", messages.held(result))


def _text_of(result: dict[str, Any]) -> str:
    """Return the text of a tool's result."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    texts = [str(each.get("text", "")) for each in blocks if isinstance(each, dict)]
    return "\n".join(filter(None, texts))


def _effects_in(result: Any) -> dict[str, events.EffectClass]:
    """Return the effects that a server declares for its tools: read-only, or idempotent."""
    tools = result.get("tools") if isinstance(result, dict) else None
    found: dict[str, events.EffectClass] = {}
    for tool in tools if isinstance(tools, list) else ():
        hints = tool.get("annotations") if isinstance(tool, dict) else None
        if isinstance(hints, dict):
            if hints.get("readOnlyHint") is True:
                found[str(tool.get("name"))] = "reads"
            elif hints.get("idempotentHint") is True:
                found[str(tool.get("name"))] = "idempotent"
    return found
