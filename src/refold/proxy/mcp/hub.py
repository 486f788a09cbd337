"""Leads the MCP proxies of a command to the one log: by a route of the command's own proxy.

Each MCP server of a watched command has a proxy of its own, in a process that the command's MCP
client starts. They report here, and the one loop that serves all of it orders their messages with
the requests to models. The address goes to them by the variable `REFOLD_RECORDING`; a token in it
keeps others out. The other end is `mcp.remote`. Rules: CONTRACT.md §16.11.
"""

import hmac
import json
import os
import secrets
from collections.abc import Callable
from typing import Any, Final

import attrs

from refold.proxy.http.turns import Desk, Forward, Incoming, Serve
from refold.proxy.mcp.parties import NOTHING, Hello, Party, Reply, Sent

RECORDING: Final = "REFOLD_RECORDING"
"""The variable with its address."""
ROUTE: Final = "refold"
_OK, _NOT_FOUND = 200, 404


class Hub:
    """A desk that takes reports of MCP proxies, and leaves all else to another."""

    def __init__(self, desk: Desk, connect: Callable[[Hello], Party]) -> None:
        self._desk = desk
        self._connect = connect
        self._token = secrets.token_urlsafe(24)
        self._parties: list[Party] = []
        self._base = ""

    def variables(self, base: str) -> dict[str, str]:
        """Return the variables that lead to this hub, for the proxy at `base`."""
        self._base = base
        return {RECORDING: f"{base}/{ROUTE}/{self._token}"}

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Take a report, or leave the request to the other desk."""
        if incoming.route != ROUTE:
            return self._desk.begin(incoming)
        token, _, rest = incoming.target.removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self._token.encode()):
            return Serve.json(_NOT_FOUND, {})
        number, _, verb = rest.partition("/")
        if number == "open":
            return self._open(json.loads(incoming.body))
        if not number.isdecimal() or int(number) >= len(self._parties):
            return Serve.json(_NOT_FOUND, {})
        return Serve.json(_OK, packed(self._dispatch(self._parties[int(number)], verb, incoming)))

    def _open(self, hello: dict[str, Any]) -> Serve:
        party = self._connect(Hello(**hello))
        self._parties.append(party)
        number = len(self._parties) - 1
        told = {"number": number, "is_replay": party.is_replay, "before": self._before(hello)}
        return Serve.json(_OK, {**told, **packed(party.begin())})

    def _before(self, hello: dict[str, Any]) -> dict[str, str | None]:
        """Return the variables that lead here, as they are without: a server has no part in it."""
        given: dict[str, str] = hello["environment"]
        names = [name for name, value in given.items() if value.startswith(self._base)]
        return {name: os.environ.get(name) for name in names} if self._base else {}

    def _dispatch(self, party: Party, verb: str, incoming: Incoming) -> Reply:
        channel = incoming.header("x-refold-channel")
        match verb:
            case "client":
                return party.client(incoming.body, channel)
            case "server":
                party.server(incoming.body, channel)
            case "learn":
                party.learn([(name, value) for name, value in json.loads(incoming.body)])
            case "failed":
                party.failed(channel, **json.loads(incoming.body))
            case "gone":
                party.gone(channel)
            case "ended":
                party.ended(**json.loads(incoming.body))
        return NOTHING


def packed(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON has it."""
    sent = [
        {**attrs.asdict(each), "content": each.content.decode(errors="surrogateescape")}
        for each in reply.sent
    ]
    return {"sent": sent, "ends": reply.ends}


def unpacked(told: dict[str, Any]) -> Reply:
    """Return a reply from what `packed` gave."""
    sent = [
        Sent(**{**each, "content": each["content"].encode(errors="surrogateescape")})
        for each in told["sent"]
    ]
    return Reply(sent=sent, ends=told["ends"])
