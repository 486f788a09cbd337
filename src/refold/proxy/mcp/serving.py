"""The log side of MCP that replays: no server is started, and requests are served from the record.

A request gets the first recorded answer, in the order of the record, to an equal request to the
same server, with the server's messages before and after it. Nothing like it is served in its place:
a request that was not recorded gets an error, and is a divergence. A list that was the same each
time is served as often as it is asked for. Rules: CONTRACT.md §16.11.
"""

import json
from collections import Counter
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.observed import mcp_messages as messages
from refold.engine.observed.binding import Bindings
from refold.engine.observed.mcp_messages import McpRequest, id_key
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.kept_answers import bytes_of
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import Log
from refold.proxy.mcp.misses import McpMiss, answered_otherwise, divergence_of, title_of
from refold.proxy.mcp.parties import NOTHING, Hello, Party, Reply, Sent
from refold.proxy.mcp.record import (
    Connection,
    Cue,
    CueStep,
    McpRecord,
    applied,
    is_ping,
    only_lists,
)
from refold.proxy.mcp.recording import McpRecording, RecordedConnection
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.reads import ReadCount

REFUSED: Final = -32000
"""The error code of a request that was not recorded."""
_SHOWN: Final = 200
"""Characters of recorded arguments in an error."""


class McpServing:
    """Serves the servers of one record."""

    def __init__(
        self,
        record: McpRecord,
        rules: VolatileRules,
        log: Log,
        secrets: Secrets,
        bindings: Bindings | None = None,
    ) -> None:
        """Take the record; `bindings` pair recorded values with current ones (§16.17)."""
        self.record = record
        self.bindings = bindings or Bindings()
        self._rules = rules
        self.secrets = secrets
        self.divergences: list[Divergence] = []
        self.served = 0
        self._recording = McpRecording(log, secrets)
        self._counts: Counter[str] = Counter()
        self._again: Counter[tuple[str, str]] = Counter()
        """By server and key: how often a list was served beyond the recorded number."""

    def connect(self, hello: Hello) -> Party:
        """Return what serves one connection."""
        self._counts[hello.server] += 1
        observer = self._recording.observer(hello)
        known = self.record.of(hello.server)
        number = self._counts[hello.server]
        same = known[number - 1] if number <= len(known) else None
        recording = observer, self._recording.log, self.secrets
        return _Served(*recording, self, hello.server, same)

    def take(self, request: McpRequest, server: str, same: Connection | None) -> Cue | McpMiss:
        """Return the recorded request that is made again: each once, but for pings and lists."""
        connections = sorted(self.record.of(server), key=lambda each: each is not same)
        cues = (cue for each in connections for cue in each.requests())
        asked = [cue for cue in cues if cue.request and self.binds(cue.request, request)]
        found = next((cue for cue in asked if not cue.is_served), None)
        if found is None and asked and is_ping(asked[-1]):
            return asked[-1].answer_alone()  # how many there are hangs on time alone
        if found is None and asked and self.record.is_same_list(server, asked[-1].key):
            self._again[server, asked[-1].key] += 1
            return asked[-1].answer_alone()
        if found is None:
            said = self.bindings.as_recorded_value([request.arguments, request.more])
            plain = McpRequest(request.name, *said)
            return McpMiss(plain, server, len(asked), connections)
        found.is_served = True
        self.served += not is_ping(found)
        return found

    def binds(self, recorded: McpRequest, now: McpRequest) -> bool:
        """Return whether two requests are equal in their compared parts; bind their values."""
        one, other = (applied(each, self._rules) for each in (recorded, now))
        was, here = ([each.name, each.arguments, each.more] for each in (one, other))
        joined = self.bindings.joined_values(was, here, f"call:{now.name}")
        if joined is not None:
            self.bindings.commit(joined)
        return joined is not None

    def reads(self) -> list[ReadCount]:
        """Return how often each list was read that was the same each time it was recorded."""
        counts = {}
        for connection in self.record.connections:
            server = connection.server
            for cue in connection.requests():
                equal = self.record.equal(server, cue.key) if only_lists(cue) else ()
                served = sum(each.is_served for each in equal)
                if served and self.record.is_same_list(server, cue.key):
                    asked = served + self._again[server, cue.key]
                    counts[server, cue.key] = ReadCount(title_of(server, cue), asked, len(equal))
        return list(counts.values())


@attrs.define(eq=False)
class _Running:
    """A cue whose steps are being gone through."""

    cue: Cue
    steps: list[CueStep]
    channel: str
    id: Json = None
    token: Json = None
    at: int = 0


@attrs.define(eq=False)
class _Served(RecordedConnection):
    """One connection."""

    is_replay = True

    _serving: McpServing
    _server: str
    _same: Connection | None
    _running: list[_Running] = attrs.field(factory=list, init=False)
    _asked: dict[str, int] = attrs.field(factory=dict, init=False)
    """By the id that a request of the server has now: its recorded entry."""
    _ids: dict[int, int] = attrs.field(factory=dict, init=False)
    """The reverse."""
    _responses: dict[int, dict[str, Any]] = attrs.field(factory=dict, init=False)
    """The client's answers to them."""
    _sent: list[Sent] = attrs.field(factory=list, init=False)
    _ends: int | None = attrs.field(default=None, init=False)

    # --- what comes ----------------------------------------------------------------------

    def begin(self) -> Reply:
        """Return the server's messages before the client's first."""
        if self._same is None:
            return NOTHING
        begin = self._same.cues[0]
        self._run(_Running(begin, begin.following, ""))
        return self._reply()

    def client(self, content: bytes, channel: str = "") -> Reply:
        """Return the server's messages after that."""
        for message in messages.messages_in(content) or ():
            scrubbed = self._secrets.scrubbed(message)
            self._observer.client(scrubbed, channel)
            if messages.is_request(message):
                self._request(message, messages.request_of(scrubbed), channel)
            elif messages.is_notification(message):
                self._notification(message)
            elif messages.is_response(message):
                self._response(message, scrubbed)
        return self._reply()

    def server(self, content: bytes, channel: str = "") -> None:
        """Do nothing: a replay has no server."""

    def failed(self, channel: str, code: str, message: str, result: Json = None) -> None:
        """Do nothing: a replay has no server."""

    def gone(self, channel: str) -> None:
        """Let go of a channel."""
        super().gone(channel)
        self._running = [each for each in self._running if each.channel != channel]

    def _reply(self) -> Reply:
        reply = Reply(sent=self._sent, ends=self._ends)
        self._sent, self._ends = [], None
        return reply

    def _request(self, message: dict[str, Any], request: McpRequest, channel: str) -> None:
        found = self._serving.take(request, self._server, self._same)
        if isinstance(found, McpMiss):
            self._missed(divergence_of(self._serving.record, found), message["id"], channel)
            return
        token = messages.meta_of(message).get("progressToken")
        self._run(_Running(found, found.steps, channel, message["id"], token))

    def _missed(self, divergence: Divergence, request_id: Json, channel: str) -> None:
        self._serving.divergences.append(divergence)
        error = {"code": REFUSED, "message": _refusal(divergence)}
        self._send({"id": request_id, "error": error}, channel, is_last=True)

    def _notification(self, message: dict[str, Any]) -> None:
        method = message["method"]
        if method == "notifications/cancelled":
            wanted = id_key((message.get("params") or {}).get("requestId"))
            over = [one for one in self._running if one.id is not None and id_key(one.id) == wanted]
            self._running = [one for one in self._running if one not in over]
            for one in over:
                self._run(_Running(one.cue, one.cue.following, ""))
        for cue in self._same.cues if self._same is not None else ():
            if cue.kind == "notification" and cue.name == method and not cue.is_served:
                cue.is_served = True
                self._run(_Running(cue, cue.following, ""))
                return

    def _response(self, message: dict[str, Any], scrubbed: dict[str, Any]) -> None:
        asks = self._asked.pop(id_key(message.get("id")), None)
        if asks is not None:
            self._responses[asks] = scrubbed
            waiting, self._running = self._running, []
            for one in waiting:
                self._run(one)

    # --- what is said --------------------------------------------------------------------

    def _run(self, running: _Running) -> None:
        """Go through the steps of a cue, up to one that waits for the client."""
        while running.at < len(running.steps):
            step = running.steps[running.at]
            if step.kind == "wait" and step.asks not in self._responses:
                self._running.append(running)
                return
            running.at += 1
            if not self._step(step, running):
                return
        if running.steps is running.cue.following:
            return
        if any(step.kind in ("response", "end") for step in running.steps):
            self._run(_Running(running.cue, running.cue.following, ""))
        else:
            self._running.append(running)  # held, until the client gives up on it

    def _step(self, step: CueStep, running: _Running) -> bool:
        """Do one step; return whether to continue."""
        match step.kind:
            case "wait":
                return self._is_as_recorded(step, running)
            case "response" if "failed" in step.data:
                failed = step.data["failed"]
                self._sent.append(Sent(channel=running.channel, is_last=True, failed=failed))
                self._observer.failed(running.channel, "failed", "", failed)
            case "response":
                self._send({"id": running.id, **step.data}, running.channel, is_last=True)
            case "text":
                content = bytes_of(step.data)
                self._observer.text("server", content, running.channel)
                self._sent.append(Sent(content=content, channel=running.channel))
            case "end":
                self._ends = step.data.get("exit_code", 0)
            case "request" | "notification":
                self._send(self._message(step, running), running.channel)
        return True

    def _message(self, step: CueStep, running: _Running) -> dict[str, Any]:
        message: dict[str, Any] = {"method": step.data["method"]}
        if step.kind == "request":
            number = len(self._ids) + 1
            self._ids[step.seq], self._asked[id_key(number)] = number, step.seq
            message["id"] = number
        if "params" in step.data:
            params = messages.given(step.data["params"])
            if isinstance(params, dict):
                params = self._tied(params, step, running)
            message["params"] = params
        return message

    def _tied(self, params: dict[str, Any], step: CueStep, running: _Running) -> dict[str, Any]:
        """Return parameters with the ids of now."""
        method = step.data["method"]
        if method == "notifications/progress" and "progressToken" not in params:
            return {"progressToken": running.token, **params}
        if method == "notifications/cancelled" and step.asks in self._ids:
            return {"requestId": self._ids[step.asks], **params}
        if step.data.get("subscribed"):
            return messages.with_subscription(params, running.id)
        return params

    def _is_as_recorded(self, step: CueStep, running: _Running) -> bool:
        """Return whether the client answers the server as it did; refuse the rest if not."""
        said = self._responses[step.asks or 0]
        before: dict[str, Any] = {
            str(name): messages.given(value)
            for name, value in step.data.items()
            if name in ("result", "error")
        }
        recorded, now = (
            McpRequest("mcp.response", {"said": messages.compared(each)}, {})
            for each in (before, said)
        )
        if self._serving.binds(recorded, now):
            return True
        divergence = answered_otherwise(
            self._serving.record, self._server, running.cue, step, (recorded, now)
        )
        self._missed(divergence, running.id, running.channel)
        return False

    def _send(self, message: dict[str, Any], channel: str, *, is_last: bool = False) -> None:
        whole = self._serving.bindings.as_now({"jsonrpc": "2.0", **message})
        self._observer.server(self._secrets.scrubbed(whole), channel)
        content = self._secrets.shown(json.dumps(whole).encode())
        self._sent.append(Sent(content=content, channel=channel, is_last=is_last))


def _refusal(divergence: Divergence) -> str:
    text = f"refold replay: {divergence.where}: {divergence.cause}"
    recorded: Any = divergence.recorded
    if recorded is not None and recorded.get("name"):
        shown = json.dumps(recorded["arguments"], ensure_ascii=False)[:_SHOWN]
        text += f". The most similar recorded call: {recorded['name']} {shown} ({recorded['call']})"
    return text
