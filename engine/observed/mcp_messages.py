"""Reads and compares messages of MCP: the objects of JSON-RPC.

`observed.mcp` makes their events and calls. Pure. Rules: CONTRACT.md §16.11.
"""

import json
import re
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.errors import NotCanonical
from refold.engine.log.blobs import DATA_MAX, encode_data

Message = dict[str, Any]

SCOPES: Final = "0/mcp-"
"""How the scopes of connections begin; the name of the server follows."""
PREFIX: Final = "mcp."
"""Precedes the method of a request that is not a tool call."""
PING: Final = "mcp.ping"
LISTS: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)
"""Methods that only read a list: a client asks when its cache does not have it yet."""
CALL: Final = "tools/call"
LISTEN: Final = "subscriptions/listen"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"

_HELD_BYTES: Final = DATA_MAX // 4
"""Of one value that is kept as an object; a larger one is kept as text, in a blob."""
_NOT_PLAIN: Final = re.compile(r"[^A-Za-z0-9._-]+")


def messages_in(content: bytes) -> list[Message] | None:
    """Return the messages of a line or body, one or a batch; `None` if it has none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    batch = found if isinstance(found, list) else [found]
    return batch if batch and all(isinstance(each, dict) for each in batch) else None


def plain_name(name: str) -> str:
    """Return the name of a server as scopes have it."""
    return _NOT_PLAIN.sub("-", name).strip("-.") or "server"


def scope_of(server: str, number: int) -> str:
    """Return the scope of a connection; `number` counts those to one server, from 1."""
    base = f"{SCOPES}{plain_name(server)}"
    return base if number == 1 else f"{base}/{number}"


# --- values ----------------------------------------------------------------------------------


def held(value: Json) -> Json:
    """Return an object that a log can hold exactly; of anything else, its JSON as text."""
    if isinstance(value, dict):
        try:
            encode_data(value, bytes_max=_HELD_BYTES, is_crowded=False)
        except NotCanonical:
            return json.dumps(value)
        return value
    return json.dumps(value)


def given(value: Json) -> Json:
    """Return what `held` was given."""
    return json.loads(value) if isinstance(value, str) else value


@attrs.frozen
class McpRequest:
    """One request of a client, as it is recorded and compared."""

    name: str
    """The tool's, or `mcp.` and the method."""
    arguments: dict[str, Any]
    """Of a tool call, or the parameters of any other method; {json} where no entry can hold them.
    """
    more: dict[str, Any]
    """Other parameters of a tool call."""

    def key(self) -> str:
        """Return what two requests share exactly if they ask the same: 64 hex digits."""
        return digest.of_key([self.name, self.arguments, self.more])


def request_of(message: Message) -> McpRequest:
    """Parse a request; `_meta` belongs to the protocol and is ignored."""
    params = message.get("params")
    if not isinstance(params, dict):
        params = {} if params is None else {"params": params}
    params = {name: value for name, value in params.items() if name != "_meta"}
    if message["method"] == CALL and isinstance(params.get("name"), str):
        name = params.pop("name")
        arguments = params.pop("arguments", None)
        if not isinstance(arguments, dict):
            arguments = {} if arguments is None else {"arguments": arguments}
        return McpRequest(name, _exact(arguments), _exact(params))
    return McpRequest(f"{PREFIX}{message['method']}", _exact(params), {})


def _exact(members: dict[str, Any]) -> dict[str, Any]:
    kept = held(members)
    return kept if isinstance(kept, dict) else {"json": kept}


def is_request(message: Message) -> bool:
    """Return whether a message wants a response."""
    return isinstance(message.get("method"), str) and message.get("id") is not None


def is_notification(message: Message) -> bool:
    """Return whether a message wants none."""
    return isinstance(message.get("method"), str) and message.get("id") is None


def is_response(message: Message) -> bool:
    """Return whether a message answers a request."""
    return "method" not in message and ("result" in message or "error" in message)


def id_key(value: Json) -> str:
    """Return what two ids share if they are the same: 1 and "1" are not."""
    return json.dumps(value)


def meta_of(message: Message) -> dict[str, Any]:
    """Return the `_meta` of a message's parameters."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def subscription_of(message: Message) -> Json:
    """Return the id of the request that a message was subscribed to with; `None` for none."""
    return meta_of(message).get(SUBSCRIPTION)


def with_subscription(params: dict[str, Any], request_id: Json) -> dict[str, Any]:
    """Return parameters that name the request that subscribed to them."""
    return {**params, "_meta": {**params.get("_meta", {}), SUBSCRIPTION: request_id}}


def compared(response: Message) -> Json:
    """Return the compared part of a client's response."""
    result = response.get("result")
    if isinstance(result, dict):
        return {"result": {name: value for name, value in result.items() if name != "_meta"}}
    return {name: response[name] for name in ("result", "error") if name in response}
