"""A run as spans: one for each run or conversation, and for each call, nested as they happened.

Each log is read once, parents first; only open calls are kept.  Ids are derived from the root's
run id and the place in its tree, so that two exports name a span alike.  Rules: CONTRACT.md §14.19.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import encode
from refold.engine.events.events import (
    COMPLETES,
    REQUEST_KINDS,
    TOOLS,
    scope_above,
    scope_of,
    with_above,
)
from refold.engine.events.outcome import Fault
from refold.engine.log.reader import Entry
from refold.exports.conventions import answer_of, definitions_of, message_of, request_parameters
from refold.page.entries import sound
from refold.replay.index.asked_items import named
from refold.replay.index.times import LogTimes, origin_of
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode, below

EARLIER: Final = "earlier messages of requests"
"""Messages that a request repeats from the one before."""
UNTOLD: Final = "tool definitions that the log does not hold"
UNREAD: Final = "entries from a missing or damaged text on"
_ROOT: Final = "root"
"""The place of the run that is exported."""
_FINE: Final = ("completed", "ok", "running", "waits_for_you")
_NOT_ENDED: Final = ("cancelled", "unfinished", "broke_off", "open")
_PROVIDERS: Final = {
    "chat": "openai",
    "responses": "openai",
    "messages": "anthropic",
    "generate": "gcp.gemini",
}
"""The provider of each wire format (CONTRACT.md §16.9), as the conventions name it."""
USAGE: Final = {
    "gen_ai.usage.input_tokens": "input_tokens",
    "gen_ai.usage.output_tokens": "output_tokens",
    "gen_ai.usage.cache_read.input_tokens": "cache_read_tokens",
    "gen_ai.usage.cache_creation.input_tokens": "cache_write_tokens",
    "gen_ai.usage.reasoning.output_tokens": "reasoning_tokens",
    "refold.cost_usd_micros": "cost_usd_micros",
}
"""Attributes of a request's usage, each with its name in a log."""
_NO_SPAN: Final = ("run.started", "run.finished", "child.started", "child.finished", TOOLS)
"""Entries that the spans of runs hold, and no span of their own."""

_HELD: Final = {"role", "content", "tool_calls", "tool_call_id"}
"""Members of a message that spans and rows have."""

_Above = tuple[bytes | None, bytes | None]
"""The run or conversation that a span is part of, and the span that it is nested in."""


@attrs.define(kw_only=True)
class TraceSpan:
    """One operation."""

    trace: bytes
    id: bytes
    parent: bytes | None
    name: str
    start_us: int
    """In microseconds since 1970, as is its end; until it ends, both count from the first entry."""
    end_us: int = 0
    attributes: dict[str, Any]
    error: str = ""
    """The code of its error; empty if it did not fail."""
    links: tuple[tuple[bytes, bytes], ...] = ()
    """Trace and span of each run that this one was made of."""
    agent: bytes | None
    """The span of the run or conversation that it is part of; `None` for the first."""
    messages: tuple[tuple[bool, dict[str, Any]], ...] = ()
    """Messages that a request added, and its answer (True), without texts that are left out."""
    tools: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Definitions of the tools that a run or conversation offered its models, by name."""


class Spans:
    """The spans of the run at `log` and all below it, with a count of omitted entries."""

    def __init__(self, log: Path, *, content: bool = False) -> None:
        """Prepare to read `log`; with `content`, spans have the texts of tools and models.

        Raises:
            LogMissing: it does not exist.
            LogDamaged: its first entry does not verify.
            LogUnsupported: it was written by a newer version.
        """
        self.opened = OpenedRun(log)
        self.tree = self.opened.tree
        self.left_out: Counter[str] = Counter()
        """Entries without a span, by kind, and texts that were left out, under `texts`."""
        self.content = content
        self.made = 0
        """Spans that were yielded so far."""
        first = next(iter(sound(log)))
        self.origin = origin_of(first)
        self.run = str(first.data.get("nonce") or first.data.get("run_id"))
        """What all ids of spans are derived from: the nonce of the run."""
        self._trace = _digest(self.run)[:16]

    def id_of(self, *place: object) -> bytes:
        """Return the id of the span at a place of this run."""
        return _digest(" ".join(map(str, (self.run, *place))))[:8]

    def __iter__(self) -> Iterator[TraceSpan]:
        """Yield each span when its end is read, and at the end runs and conversations."""
        waiting: list[tuple[RunNode, _Above]] = [(self.tree, (None, None))]
        for node, above in waiting:
            path = Path(node.log) if node.log else None
            if path is None or node.scope or node.log_state in ("missing", "foreign", "none"):
                continue
            log = _OneLog(self, node, path, above)
            for span in log.spans():
                self.made += 1
                yield span
            waiting.extend(log.below)

    def begun(
        self, name: str, own: bytes, above: _Above, start_us: int, attributes: dict[str, Any]
    ) -> TraceSpan:
        """Return a span that begins."""
        agent, parent = above
        told: dict[str, Any] = {"trace": self._trace, "id": own, "agent": agent, "parent": parent}
        return TraceSpan(name=name, start_us=start_us, attributes=attributes, **told)

    def ended(self, span: TraceSpan, status: str, error: str = "", **more: Any) -> TraceSpan:
        """Return a span that has ended with `status`."""
        failed = status not in _FINE and status not in _NOT_ENDED
        code = error or (status if failed else "")
        known = {"error.type": code or None, "refold.status": status} | more
        span.attributes = {k: v for k, v in (span.attributes | known).items() if v is not None}
        span.end_us = self.origin[0] + max(span.start_us, span.end_us)
        span.start_us += self.origin[0]
        span.error = code
        return span

    def text(self, name: str, value: Any) -> dict[str, Any]:
        """Return content as an attribute, as JSON; if it is left out, only count it."""
        if value in (None, "", [], {}):
            return {}
        if not self.content:
            self.left_out["texts"] += 1
            return {}
        return {name: value if isinstance(value, str) else encode(value).decode()}

    def message(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message of a log, without its texts where they are left out."""
        self.left_out["other members of messages"] += len(message.keys() - _HELD)
        if self.content:
            return message
        calls = [
            {"id": one.get("id"), "name": one.get("name")}
            for one in message.get("tool_calls") or ()
        ]
        return {name: message.get(name) for name in ("role", "tool_call_id")} | {
            "tool_calls": calls
        }

    def _conversation(self, node: RunNode) -> str | None:
        """Return an id that no other run's conversation has: scopes count from 1 in each log."""
        if not node.scope:
            return node.run_id or None
        return f"{node.run_id or self.tree.run_id or self.run} {node.scope}"

    def run_span(self, node: RunNode, above: _Above, start_us: int, place: str = "") -> TraceSpan:
        """Return the span of a run or conversation that begins; `place` names one without an id."""
        place = place or (_ROOT if node is self.tree else f"{node.run_id} {node.scope}")
        agent = node.name or node.program
        usage = {"refold.usage": node.usage, "refold.own_usage": node.own_usage}
        facts = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": agent,
            "gen_ai.conversation.id": self._conversation(node),
            "refold.run_id": node.run_id or None,
            "refold.head": node.head or None,
            "refold.log_state": node.log_state,
            "refold.requests": node.requests,
            "refold.guarantee": node.guarantee or None,
            "refold.how": node.how or None,
            "refold.is_provisional": node.is_provisional or None,
        }
        spent = {
            f"{kind}.{name}": value
            for kind, each in usage.items()
            for name, value in attrs.asdict(each).items()
            if value is not None
        }
        limits = {f"refold.limit.{name}": value for name, value in node.limits.items()}
        notable = {"refold.notable": sorted(node.notable) or None}
        content = self.text("refold.brief", node.brief)
        attributes = facts | spent | limits | notable | content
        return self.begun(f"invoke_agent {agent}", self.id_of(place), above, start_us, attributes)

    def run_ended(self, node: RunNode, span: TraceSpan) -> TraceSpan:
        """Return the span of a run or conversation, with the end that its tree has."""
        if node.duration_ms is not None:
            took = node.duration_ms * 1000
            if not took <= span.end_us - span.start_us < took + 1000:
                span.end_us = span.start_us + took
        fault = node.error or Fault(code="", message="")
        told = self.text("refold.error.message", fault.message)
        told |= self.text("gen_ai.tool.definitions", [*span.tools.values()])
        return self.ended(span, node.status, fault.code, **told)


class _OneLog:
    """The spans of one log."""

    def __init__(self, spans: Spans, node: RunNode, path: Path, above: _Above) -> None:
        self.below: list[tuple[RunNode, _Above]] = []
        """Runs that this one started, each with the spans that it is nested in."""
        self._all, self._node, self._path, self._above = spans, node, path, above
        nodes = below(node)[1:] if node.guarantee else node.children
        self._talks = {each.scope: each for each in nodes if each.scope}
        self._started = {each.call: each for each in nodes if each.call and not each.scope}
        self._open: dict[str, TraceSpan] = {}
        self._open_talks: dict[str, TraceSpan] = {}
        self._delegating: dict[str, bytes] = {}
        """Open calls of delegation tools, by task: one task has one open call."""
        self._models: dict[str, str] = {}
        self._offers: dict[str, dict[str, dict[str, Any]]] = {}
        """Definitions of tools by name, by the digest that a request names."""
        self._wanted: dict[str, dict[str, list[dict[str, Any]]]] = {}
        """By each scope with an answer in it or below: of each of these scopes, the calls that its
        last answer asked for and nobody made yet."""
        self._answered: set[str] = set()
        """Scopes with an answer: a call in one is of its own answers."""

    def spans(self) -> Iterator[TraceSpan]:
        """Yield them, and at the end the run itself."""
        clock, node = LogTimes(self._all.origin), self._node
        own: TraceSpan | None = None
        links: tuple[tuple[bytes, bytes], ...] = ()
        left, kind = node.entries, ""
        for entry in sound(self._path, node.entries, resolve=self._all.content):
            at, left, kind = clock.at(entry), left - 1, entry.kind
            if own is None:
                own = self._all.run_span(node, self._above, at)
                self._models, links = entry.data.get("models") or {}, _links(entry)
                self._offer([_defined(tool) for tool in entry.data.get("tools") or ()])
            own.end_us = at
            above = self._talk(entry, at, own)
            run = self._open_talks.get(scope_of(entry.call or ""), own)
            if entry.kind in REQUEST_KINDS:
                self._begin(entry, at, above, run)
            elif entry.kind in COMPLETES or entry.kind == "effect.cancelled":
                yield from self._end(entry, at, above, clock, run)
            elif entry.kind == TOOLS:
                self._offer(entry.data.get("tools"))
            elif entry.kind not in _NO_SPAN:
                self._all.left_out[entry.kind] += 1
        self._all.left_out[UNREAD] += left
        if own is None and node is self._all.tree:  # a text of its first entry cannot be read
            own = self._all.run_span(node, self._above, 0)
        if own is None:
            return
        yield from self._left_open(own)
        for scope, span in self._open_talks.items():
            yield self._all.run_ended(self._talks[scope], span)
        if kind != "run.finished" and node.ended_us is not None:  # its parent knows when
            own.end_us = max(own.end_us, node.ended_us - self._all.origin[0])
            own.start_us = min(own.start_us, own.end_us - (node.duration_ms or 0) * 1000)
        own.links = links
        yield self._all.run_ended(node, own)

    def _left_open(self, own: TraceSpan) -> Iterator[TraceSpan]:
        """Yield calls without an end, and what they were to start."""
        for call, span in self._open.items():
            span.end_us = own.end_us
            child = self._started.get(call)
            if child is not None and span.attributes.get("gen_ai.operation.name") == "invoke_agent":
                above = span.agent, span.parent  # it has no log yet
                whole = self._all.run_span(child, above, span.start_us)
                span.attributes = whole.attributes | span.attributes
                child = None
            begun = span.start_us
            yield self._all.ended(span, "open")
            if child is not None:  # of a watched command: nothing of it was seen
                yield self._unseen(child, (span.agent, span.id), begun, own.end_us)

    def _talk(self, entry: Entry, at: int, own: TraceSpan) -> _Above:
        """Return the spans around an entry's call; a new conversation begins."""
        scope = scope_of(entry.call or "")
        if node := self._talks.get(scope):
            if scope not in self._open_talks:
                above = self._open_talks.get(self._all.opened.by_key[scope].parent or "") or own
                call = self._open.get(node.call) or above
                agent = above.id if call is above else call.agent
                self._open_talks[scope] = self._all.run_span(node, (agent, call.id), at)
            self._open_talks[scope].end_us = at
            return (self._open_talks[scope].id,) * 2
        while scope := scope_above(scope):  # a delegation tool works in tasks below its caller's
            if scope in self._delegating:
                return own.id, self._delegating[scope]
        return own.id, own.id

    def _offer(self, tools: Any) -> None:
        if not isinstance(tools, list):
            return  # nonsense: no writer of ours
        named = {tool["name"]: tool for tool in definitions_of(tools)}
        self._offers[digest.of_value(digest.VALUE, tools)] = named

    def _id_asked(self, scope: str, tool: str, arguments: Any) -> str | None:
        """Return the id that a model gave a call, which counts as made from now on.

        It is one of the same tool with these arguments, or with fewer, where a framework adds
        defaults; of the answers that are nearest in the tree of tasks, the last first.
        """
        near = next((self._wanted[each] for each in with_above(scope) if each in self._wanted), {})
        if scope in self._answered:
            near = {scope: near.get(scope, [])}
        fits: list[tuple[bool, list[dict[str, Any]], dict[str, Any]]] = []
        for asked in [*reversed(near)]:
            calls = near[asked]
            for call in calls:
                given = _given(call, arguments)
                if call.get("name") == tool and given.items() <= arguments.items():
                    fits.append((given != arguments, calls, call))
            if not calls:
                del near[asked]
        if not fits:
            return None
        _, calls, call = min(fits, key=itemgetter(0))
        calls.remove(call)
        return call.get("id") or None

    def _begin(self, entry: Entry, at: int, above: _Above, run: TraceSpan) -> None:
        call, data = entry.call or "", entry.data
        name = named(entry.kind, data)[1]
        facts: dict[str, Any] = {"refold.entry": entry.seq, "refold.call": call}
        added = data.get("added") or ()
        span = self._all.id_of(self._node.run_id, entry.seq)
        match entry.kind:
            case "tool.called":
                does = "execute_tool"
                asked = self._id_asked(scope_of(call), name, data.get("arguments") or {})
                facts |= {"gen_ai.tool.name": name, "gen_ai.tool.call.id": asked}
                facts |= self._all.text("gen_ai.tool.call.arguments", data.get("arguments"))
                if data.get("delegates"):
                    self._delegating[scope_of(call)] = span
            case "model.asked":
                does = "chat"
                shown = [*map(message_of, added)] if self._all.content else added
                said = self._all.text("gen_ai.input.messages", shown)
                facts |= self._asked(data) | said
                run.attributes = said | run.attributes
                if offered := data.get("tools"):
                    run.tools |= self._offers.get(offered, {})
                    self._all.left_out[UNTOLD] += offered not in self._offers
            case "child.started":
                if (child := self._started.get(call)) is not None and child.log:
                    self.below.append((child, above))
                    return
                does = "invoke_agent"
            case _:
                does, name = "ask", "person"
                facts |= self._all.text("refold.question", data.get("question"))
        if does != "ask":
            facts["gen_ai.operation.name"] = does
        what = f"{does} {name}".strip()
        opened = self._open[call] = self._all.begun(what, span, above, at, facts)
        opened.messages = tuple((False, self._all.message(each)) for each in added)

    def _asked(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of a request to a model."""
        model, parameters = str(data.get("model") or ""), data.get("parameters") or {}
        asked = str(self._models.get(model) or model).removeprefix("pydantic:")
        provider, colon, rest = asked.partition(":")
        known = _PROVIDERS.get(str(parameters.get("api")), provider if colon else "unknown")
        facts: dict[str, Any] = {
            "gen_ai.request.model": rest or model or None,
            "gen_ai.provider.name": known,
        }
        self._all.left_out[EARLIER] += int(data.get("base") or 0)
        return facts | request_parameters(parameters)

    def _end(
        self, entry: Entry, at: int, above: _Above, clock: LogTimes, run: TraceSpan
    ) -> Iterator[TraceSpan]:
        call = entry.call or ""
        if entry.kind == "effect.cancelled" and entry.data.get("kind") == "child":
            return  # it ends with its outcome
        node, span = self._started.get(call), self._open.pop(call, None)
        begun = at if span is None else span.start_us
        if span is not None and entry.kind != "child.finished":
            span.end_us = at
            status, code, more = self._answer(entry)
            if answer := entry.data.get("message"):
                span.messages += ((True, self._all.message(answer)),)
                said = more.get("gen_ai.output.messages")
                run.attributes |= {"gen_ai.output.messages": said} if said else {}
                scope, calls = scope_of(call), list(answer.get("tool_calls") or ())
                self._answered.add(scope)
                for each in with_above(scope):
                    asked = self._wanted.setdefault(each, {})
                    asked.pop(scope, None)
                    asked |= {scope: calls} if calls else {}
            yield self._all.ended(span, status, code, **more)
            if self._delegating.get(scope_of(call)) == span.id:
                del self._delegating[scope_of(call)]
            above = above[0], span.id
        if node is not None and not node.log:  # rejected, or nothing of it was seen
            yield self._unseen(node, above, begun, clock.ended(entry) or at)

    def _unseen(self, node: RunNode, above: _Above, begun: int, ended: int) -> TraceSpan:
        """Return the span of a run without entries, or of a delegation that was not seen."""
        told = self._all.run_span(node, above, begun, f"{self._node.run_id} {node.call}")
        told.end_us = ended
        return self._all.run_ended(node, told)

    def _answer(self, entry: Entry) -> tuple[str, str, dict[str, Any]]:
        """Return the status, the code of the error and the attributes of an answer."""
        data, text = entry.data, self._all.text
        error = data.get("error") or {}
        more: dict[str, Any] = {"refold.answer_entry": entry.seq}
        more |= text("refold.error.message", error.get("message"))
        match entry.kind:
            case "effect.cancelled":
                return "cancelled", "", more
            case "tool.returned":
                more |= text("gen_ai.tool.call.result", data.get("result"))
            case "model.answered":
                message, reason = data.get("message"), data.get("stop_reason") or ""
                why = "error" if error else reason
                shown = message and self._all.content and [answer_of(message, why)]
                more |= text("gen_ai.output.messages", shown or message)
                used = data.get("usage") or {}
                if "untold" not in used:
                    more |= {name: used.get(of) for name, of in USAGE.items()}
                if reason:
                    more["gen_ai.response.finish_reasons"] = [reason]
            case _:
                more |= text("refold.answer", data.get("answer"))
        return str(data.get("status") or "ok"), str(error.get("code") or ""), more


def _links(first: Entry) -> tuple[tuple[bytes, bytes], ...]:
    """Return the run that this one was forked or resumed from."""
    run = (first.data.get("origin") or {}).get("nonce")
    return ((_digest(run)[:16], _digest(f"{run} {_ROOT}")[:8]),) if run else ()


def _defined(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool of a run as its requests define it."""
    told = {"name": tool.get("name"), "description": tool.get("description")}
    return told | {"parameters": tool.get("schema")}


def _given(call: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what an asked call gives its tool, as a call with these arguments has it in the log.

    Arguments that are not JSON are one text there, under a name of the caller's choice.
    """
    if "invalid" in call:
        return dict.fromkeys(arguments, call["invalid"])
    return call.get("arguments") or {}


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
