"""Reads a log's MCP part: connections, and the effects of each client message.

Every message of the client is a cue: the server's messages from then on, up to the next one, are
below it as steps, in order. Read once, when the first client comes. Volatile rules of tools apply:
`tool:NAME/arguments/POINTER` names a place of a tool call, `tool:mcp.*/arguments/…` one of all
other requests. Rules: CONTRACT.md §16.7, §16.11.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import LogError
from refold.engine.events import events
from refold.engine.events.codec import structure
from refold.engine.events.events import scope_of
from refold.engine.log.blobs import BlobStore
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import nonsense, read_entries, whole_data
from refold.engine.observed.mcp import MCP
from refold.engine.observed.mcp_messages import LISTS, PING, PREFIX, SCOPES, McpRequest, given
from refold.engine.observed.volatile import VolatileRules

_LISTS: Final = frozenset(PREFIX + each for each in LISTS)
_CHANGED: Final = re.compile(r"notifications/(\w+)/list_changed")


@attrs.define(kw_only=True)
class CueStep:
    """One thing that the server did, or waited for."""

    kind: Literal["notification", "request", "text", "response", "wait", "end"]
    """`response`: to the cue · `wait`: for the client's response to `asks` · `end`: it left."""
    data: dict[str, Any]
    """As the entry has it."""
    seq: int
    asks: int | None = None
    """Of `wait` and `request`: the seq of the request of the server; of a notification that takes
    one back, too."""


@attrs.define(kw_only=True)
class Cue:
    """A message of the client, and its effects."""

    kind: Literal["begin", "notification", "request"]
    name: str
    """The compared name of a request, `forecast`, `mcp.tools/list`; the method of a
    notification."""
    call: str = ""
    seq: int
    request: McpRequest | None = None
    key: str = ""
    """The key of a request for matching, volatile rules applied."""
    steps: list[CueStep] = attrs.field(factory=list)
    following: list[CueStep] = attrs.field(factory=list)
    """What came after its response, and belongs to no request."""
    is_served: bool = False
    is_over: bool = False

    def answer(self) -> dict[str, Any] | None:
        """Return {result} or {error} of a response; `None` without one, or if HTTP failed."""
        found = [step.data for step in self.steps if step.kind == "response"]
        return found[-1] if found and "failed" not in found[-1] else None

    def answer_alone(self) -> "Cue":
        """Return it with its response alone, without messages beside or after it."""
        steps = [step for step in self.steps if step.kind == "response"]
        return attrs.evolve(self, steps=steps, following=[])

    def is_alone(self) -> bool:
        """Return whether no message came beside or after the response."""
        return len(self.steps) == 1 and not self.following


@attrs.define(kw_only=True)
class Connection:
    """One connection of a client to a server."""

    scope: str
    server: str
    number: int
    cues: list[Cue]
    """The first is `begin`."""
    exit_code: int | None = None
    changed: dict[str, int] = attrs.field(factory=dict)
    """By list (`tools`, …): the last entry in which the server announced a change."""

    def requests(self) -> Iterator[Cue]:
        """Yield the requests, in the order of asking."""
        return (cue for cue in self.cues if cue.request is not None)


@attrs.define
class McpRecord:
    """All connections of one log."""

    path: Path
    program: str = ""
    connections: list[Connection] = attrs.field(factory=list)

    def of(self, server: str) -> list[Connection]:
        """Return the connections to a server, in the order of their beginning."""
        return [each for each in self.connections if each.server == server]

    def servers(self) -> list[str]:
        """Return the names of all servers."""
        return sorted({each.server for each in self.connections})

    def counted(self) -> list[Cue]:
        """Return all requests but pings, whose number hangs on time alone."""
        return [cue for each in self.connections for cue in each.requests() if not is_ping(cue)]

    def left(self) -> list[tuple[Connection, list[Cue]]]:
        """Return the requests that nobody has asked again, by connection; pings do not count.

        Nor does a list that was asked for at least once, and was the same each time.
        """
        found = []
        for each in self.connections:
            waiting = [
                cue
                for cue in each.requests()
                if not cue.is_served and not is_ping(cue) and not self._is_read_again(each, cue)
            ]
            if waiting:
                found.append((each, waiting))
        return found

    def equal(self, server: str, key: str) -> list[Cue]:
        """Return the requests that ask a server the same, in the order of the record."""
        return [cue for each in self.of(server) for cue in each.requests() if cue.key == key]

    def is_same_list(self, server: str, key: str) -> bool:
        """Return whether a request only lists, and each recorded answer was the same.

        Not if the server announced that the list changed, after it was first asked for.
        """
        equal = self.equal(server, key)
        if not equal or not only_lists(equal[0]):
            return False
        answers = [cue.answer() for cue in equal]
        is_same = answers[0] is not None and all(each == answers[0] for each in answers)
        return is_same and self._changed(server, equal[0]) < min(cue.seq for cue in equal)

    def _changed(self, server: str, cue: Cue) -> int:
        listed = cue.name.removeprefix(PREFIX).partition("/")[0]
        return max(each.changed.get(listed, 0) for each in self.of(server))

    def _is_read_again(self, connection: Connection, cue: Cue) -> bool:
        return (
            cue.is_alone()
            and self.is_same_list(connection.server, cue.key)
            and any(each.is_served for each in self.equal(connection.server, cue.key))
        )


def is_ping(cue: Cue) -> bool:
    """Return whether a request only asks whether the server is there."""
    return cue.name == PING


def only_lists(cue: Cue) -> bool:
    """Return whether a request only reads a list."""
    return cue.name in _LISTS


def read_mcp(log: Path, rules: VolatileRules) -> McpRecord:
    """Return the MCP part of a log.

    Raises:
        LogDamaged: the log does not verify, or has impossible data; a torn tail is ignored.
        LogMissing: the log does not exist.
    """
    reading = _Reading(McpRecord(log), rules)
    blobs = BlobStore(blobs_of(log))
    for entry in read_entries(log, torn_ok=True):
        if entry.seq == 0:
            reading.record.program = entry.data.get("program", "")
        elif entry.kind == MCP or str(entry.call).startswith(SCOPES):
            data = whole_data(entry, log, blobs)
            try:
                event = structure(entry.kind, data)
                reading.take(entry.seq, entry.call or "", entry.cause or 0, event)
            except (AttributeError, LookupError, TypeError, ValueError, LogError) as error:
                found = f"{type(error).__name__}: {error}"
                raise nonsense(entry, log, "what belongs to entries before", found) from None
    return reading.record


class _Reading:
    def __init__(self, record: McpRecord, rules: VolatileRules) -> None:
        self.record = record
        self._rules = rules
        self._scopes: dict[str, Connection] = {}
        self._cues: dict[str, Cue] = {}
        self._asks: set[int] = set()
        """Entries of requests of a server."""

    def take(self, seq: int, call: str, cause: int, event: events.Recorded) -> None:
        """Take one entry."""
        match event:
            case events.Extension(kind=kind, data=data) if kind == MCP:
                self._beside(seq, call, cause, data)
            case events.ToolCalled():
                request = McpRequest(event.tool, event.arguments, {})
                cue = Cue(kind="request", name=event.tool, call=call, seq=seq, request=request)
                cue.key = compared_key(request, self._rules)
                self._cues[call] = cue
                self._scopes[scope_of(call)].cues.append(cue)
            case events.ToolReturned():
                data = _response(event)
                self._cues[call].steps.append(CueStep(kind="response", data=data, seq=seq))
                self._cues[call].is_over = True
            case events.EffectCancelled():
                self._cues[call].is_over = True
            case _:
                pass

    def _beside(self, seq: int, call: str, cause: int, data: dict[str, Any]) -> None:
        if data["kind"] == "started":
            self._begin(seq, data)
            return
        if data["kind"] in ("notification", "request") and not isinstance(data["method"], str):
            raise TypeError("a method that is not a string")
        connection = self._scopes[data["scope"]]
        cue = self._cues.get(call) or connection.cues[-1]
        match data["from"], data["kind"]:
            case "client", "params":
                self._more(cue, data)
            case "client", "notification":
                cue = Cue(kind="notification", name=data["method"], seq=seq)
                connection.cues.append(cue)
            case "client", "response" if cause in self._asks:
                _add(cue, CueStep(kind="wait", data=data, seq=seq, asks=cause))
            case "server", "ended":
                connection.exit_code = data.get("exit_code")
                if data["left"] == "server":
                    _add(cue, CueStep(kind="end", data=data, seq=seq))
            case "server", "request":
                self._asks.add(seq)
                _add(cue, CueStep(kind="request", data=data, seq=seq, asks=seq))
            case "server", "response" if call in self._cues:  # by a stream that took up another
                cue.steps[-1] = CueStep(kind="response", data=_answer(data), seq=seq)
            case "server", ("notification" | "text") as kind:
                asks = cause if data.get("method") == "notifications/cancelled" else None
                if changed := _CHANGED.fullmatch(str(data.get("method"))):
                    connection.changed[changed[1]] = seq
                _add(cue, CueStep(kind=kind, data=data, seq=seq, asks=asks))
            case _:
                pass

    def _begin(self, seq: int, data: dict[str, Any]) -> None:
        connection = Connection(
            scope=data["scope"],
            server=data["server"],
            number=len(self.record.of(data["server"])) + 1,
            cues=[Cue(kind="begin", name="", seq=seq)],
        )
        self._scopes[connection.scope] = connection
        self.record.connections.append(connection)

    def _more(self, cue: Cue, data: dict[str, Any]) -> None:
        """Return the parts of a tool call other than its arguments."""
        params = given(data["params"])
        more = {name: value for name, value in params.items() if name != "_meta"}
        if cue.request is not None and more:
            cue.request = attrs.evolve(cue.request, more=more)
            cue.key = compared_key(cue.request, self._rules)


def _add(cue: Cue, step: CueStep) -> None:
    (cue.following if cue.is_over or cue.kind != "request" else cue.steps).append(step)


def _response(event: events.ToolReturned) -> dict[str, Json]:
    """Return {result} or {error} of a response, or {failed} where none came: {code, result}."""
    code = (event.error or {}).get("code")
    if event.status == "ok" or code == "is_error":
        return {"result": given(event.result)}
    if code == "json_rpc":
        return {"error": given(event.result)}
    return {"failed": event.result or {}}


def _answer(data: dict[str, Any]) -> dict[str, Json]:
    return {name: given(data[name]) for name in ("result", "error") if name in data}


def applied(request: McpRequest, rules: VolatileRules) -> McpRequest:
    """Return a request with all that is not compared taken out of it."""
    if not rules:
        return request
    value = {"arguments": request.arguments, "more": request.more}
    kept = rules.applied_to(value, f"tool:{request.name}")
    return McpRequest(request.name, kept["arguments"], kept["more"])


def compared_key(request: McpRequest, rules: VolatileRules) -> str:
    """Return what two requests share exactly if they ask the same, as far as it is compared."""
    return applied(request, rules).key()
