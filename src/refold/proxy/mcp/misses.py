"""Describes the difference when a client's MCP request was not recorded.

Rules: CONTRACT.md §12.4, §16.11.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.events.events import parts_of
from refold.engine.observed.mcp_messages import PREFIX, McpRequest
from refold.proxy.mcp.record import Connection, Cue, CueStep, McpRecord, is_ping
from refold.replay.difference.text_diff import text_changes
from refold.replay.explain.divergence import Category, Divergence, between

_COMPARED: Final = 4000
"""Characters of arguments by which likeness is judged."""


@attrs.frozen
class McpMiss:
    """A request that the record has no answer to."""

    request: McpRequest
    server: str
    recorded: int
    """How often the same was recorded: all of these were served."""
    connections: Sequence[Connection]
    """Those to the server that were recorded."""


def divergence_of(record: McpRecord, miss: McpMiss) -> Divergence:
    """Return the difference of a request that was not recorded."""
    request = miss.request
    near = None if miss.recorded else _nearest(miss)
    call = near.call if near is not None else ""
    category: Category = "extra_call"
    if near is not None:
        category = "args_changed" if near.name == request.name else "name_changed"
    return _divergence(
        record, category, place_of(record, miss.server, request.name, call), call,
        near.seq if near is not None else None, _cause(record, miss, near),
        near.request if near is not None else None, request,
    )  # fmt: skip


def _divergence(
    record: McpRecord, category: Category, where: str, call: str, seq: int | None, cause: str,
    recorded: McpRequest | None, now: McpRequest | None = None,
) -> Divergence:  # fmt: skip
    before, after = recorded and item_of(recorded, call), now and item_of(now, call)
    diff = between(before, after) if now is not None else ()
    return Divergence(
        category=category, where=where, log=str(record.path), call=call, seq=seq, cause=cause,
        recorded=before, now=after, diff=diff, texts=text_changes(diff),
    )  # fmt: skip


def _nearest(miss: McpMiss) -> Cue | None:
    """Return the unserved request that was likely meant: of the same name, most like it."""
    waiting = [
        cue
        for each in miss.connections
        for cue in each.requests()
        if not cue.is_served and not is_ping(cue)
    ]
    same = [cue for cue in waiting if cue.name == miss.request.name]
    now = encode(miss.request.arguments).decode()[:_COMPARED]

    def likeness(cue: Cue) -> float:
        before = encode(cue.request.arguments if cue.request else {}).decode()[:_COMPARED]
        return difflib.SequenceMatcher(None, before, now, autojunk=False).quick_ratio()

    return max(same, key=likeness) if same else next(iter(waiting), None)


def _cause(record: McpRecord, miss: McpMiss, near: Cue | None) -> str:
    name = miss.request.name
    if not miss.connections:
        known = ", ".join(record.servers()) or "none"
        return (
            f"no MCP server named {miss.server} was recorded (recorded: {known}); to "
            "choose one, use `refold mcp-proxy --name NAME`"
        )
    if miss.recorded:
        return (
            f"{name} was called {miss.recorded + 1} times like this, but recorded {miss.recorded}"
        )
    if near is None:
        return "the program makes more calls than were recorded"
    if near.name == name:
        return f"{name} was not recorded with these arguments"
    return f"{name} is called, but the recording continues with {near.name}"


def answered_otherwise(
    record: McpRecord, server: str, cue: Cue, step: CueStep, pair: tuple[McpRequest, McpRequest]
) -> Divergence:
    """Return a client's changed answer to a request of the server."""
    where = place_of(record, server, cue.name, cue.call)
    cause = (
        "the client answers a request of the server differently, and the server's reaction to "
        "this answer was not recorded"
    )
    return _divergence(record, "result_changed", where, cue.call, step.seq, cause, *pair)


def unconsumed(record: McpRecord) -> list[Divergence]:
    """Return a divergence for each connection with recorded requests that were not made."""
    found = []
    for connection, waiting in record.left():
        first, server = waiting[0], connection.server
        where = place_of(record, server, first.name, first.call)
        cause = f"{len(waiting)} recorded requests to this MCP server were not made"
        found.append(
            _divergence(record, "unconsumed", where, first.call, first.seq, cause, first.request)
        )
    return found


def first_of_each(found: Iterable[Divergence]) -> tuple[Divergence, ...]:
    """Return the first of each server, with how much follows: that may come of it."""
    firsts, later = dict[str, Divergence](), Counter[int]()
    for one in found:
        first = firsts.setdefault(one.where.rpartition(" > ")[0], one)
        later[id(first)] += first is not one
    return tuple(attrs.evolve(one, later_count=later[id(one)]) for one in firsts.values())


def item_of(request: McpRequest, call: str) -> dict[str, Any]:
    """Return a request as divergences show it: {kind, name, call, arguments}."""
    arguments = {**request.arguments, **({"params": request.more} if request.more else {})}
    return {"kind": "tool", "name": request.name, "call": call, "arguments": arguments}


def title_of(server: str, cue: Cue) -> str:
    """Describe a request with its server: `mcp weather > tools/list`."""
    return f"mcp {server} > {cue.name.removeprefix(PREFIX)}"


def place_of(record: McpRecord, server: str, name: str, call: str) -> str:
    """Return the place of a request, in words: `agent.py > mcp weather > forecast#3`."""
    ordinal = parts_of(call)[2] or "?"
    above = () if record.program in record.servers() else (record.program,)
    return " > ".join((*above, f"mcp {server}", f"{name.removeprefix(PREFIX)}#{ordinal}"))
