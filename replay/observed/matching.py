"""Finds the recorded answer to a request, or says which recorded request it was likely to be.

A request is served the first recorded answer, in the order of the record, of a request that asked
exactly the same: of its own conversation where there is one.  Nothing like it is ever served in its
place.  Pure.  Rules: CONTRACT.md §16.6.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import attrs

from refold.engine.canonical import encode
from refold.engine.observed.exchange import Asked
from refold.engine.observed.volatile import match_key
from refold.replay.divergence import Category, Divergence, between
from refold.replay.observed.record import ObservedRecord, RecordedTurn
from refold.replay.pointer_diff import Difference
from refold.replay.text_diff import TextChange, message_changes, text_changes


@attrs.frozen
class Miss:
    """A request that the record has no answer to."""

    asked: Asked
    nearest: RecordedTurn | None
    """The recorded request that was likely meant."""


class Matcher:
    """The answers of one record, each served once."""

    def __init__(self, record: ObservedRecord, *, until: int | None = None) -> None:
        self._record = record
        self._by_key: dict[str, list[RecordedTurn]] = {}
        self._scopes: dict[str, str] = {}
        """By conversation of this run: the recorded one that it is."""
        for turn in record.turns:
            if until is None or turn.seq < until:
                self._by_key.setdefault(turn.key, []).append(turn)

    def take(self, asked: Asked, scope: str) -> RecordedTurn | Miss:
        """Return the recorded request that is asked again, once; `scope` is the conversation."""
        waiting = self._by_key.get(match_key(self._record.rules.applied(asked)), [])
        same = self._scopes.get(scope)
        turn = next((one for one in waiting if one.scope == same), waiting[0] if waiting else None)
        if turn is None:
            return Miss(asked, self._nearest(asked, scope))
        waiting.remove(turn)
        turn.is_served = True
        self._scopes.setdefault(scope, turn.scope)
        return turn

    def left(self) -> list[RecordedTurn]:
        """Return the recorded requests that nobody has asked again, in the order of the record."""
        return [turn for turn in self._record.turns if not turn.is_served]

    def _nearest(self, asked: Asked, scope: str) -> RecordedTurn | None:
        """Return the unserved request that is nearest: the next of its conversation, if known."""
        following: dict[str, RecordedTurn] = {}
        for turn in self.left():
            following.setdefault(turn.scope, turn)
        if scope in self._scopes:
            return following.get(self._scopes[scope])
        known = set(self._scopes.values())
        free = [turn for turn in following.values() if turn.scope not in known]
        return max(free, key=lambda turn: _likeness(turn.asked, asked), default=None)


def _likeness(recorded: Asked, asked: Asked) -> float:
    """Return how much two requests have in common: from 0 to 1."""
    pairs = zip(recorded.messages, asked.messages, strict=False)
    alike = [_alike(before, after) for before, after in pairs]
    longest = max(len(recorded.messages), len(asked.messages), 1)
    return sum(alike) / longest + (recorded.model == asked.model) / 10


def _alike(before: Any, after: Any) -> float:
    if before == after:
        return 1.0
    old, new = (encode(each).decode()[:_COMPARED] for each in (before, after))
    return difflib.SequenceMatcher(None, old, new, autojunk=False).quick_ratio()


_COMPARED = 4000
"""Characters of a message by which likeness is judged."""


def divergence_of(record: ObservedRecord, miss: Miss, scope: str) -> Divergence:
    """Return what a request that was not recorded differs in."""
    near, asked = miss.nearest, miss.asked
    category: Category = "extra_call" if near is None else "args_changed"
    recorded = item_of(near.asked, near.call) if near is not None else None
    now = item_of(asked, near.call if near is not None else "")
    diff: tuple[Difference, ...] = ()
    texts: tuple[TextChange, ...] = ()
    if near is not None:
        found = between(recorded, now)
        diff = tuple(one for one in found if not one.pointer.startswith("/arguments/added"))
        texts = text_changes(diff) + message_changes(near.asked.messages, asked.messages)
    return Divergence(
        category=category,
        where=place_of(record, near.call if near is not None else scope, asked),
        log=str(record.path),
        call=near.call if near is not None else "",
        seq=near.seq if near is not None else None,
        recorded=recorded,
        now=now,
        diff=diff,
        texts=texts,
        cause=_cause(miss),
    )


def _cause(miss: Miss) -> str:
    near = miss.nearest
    if near is None:
        return "the program goes on where its record ended, or asks in a conversation of its own"
    before, after = near.asked, miss.asked
    if before.messages and after.messages and before.messages[0] != after.messages[0]:
        return "the system prompt was changed"
    if before.model != after.model:
        return "another model is asked"
    if before.tools != after.tools:
        return "the tools offered were changed"
    if before.messages != after.messages:
        return "a message is another one: a prompt was changed, or a tool returned something else"
    return "the request has other parameters"


def unconsumed(record: ObservedRecord, left: Iterable[RecordedTurn]) -> list[Divergence]:
    """Return a divergence for each conversation that was not gone through to its end."""
    first: dict[str, RecordedTurn] = {}
    counts: dict[str, int] = {}
    for turn in left:
        first.setdefault(turn.scope, turn)
        counts[turn.scope] = counts.get(turn.scope, 0) + 1
    return [
        Divergence(
            category="unconsumed",
            where=place_of(record, turn.call, turn.asked),
            log=str(record.path),
            call=turn.call,
            seq=turn.seq,
            recorded=item_of(turn.asked, turn.call),
            cause=f"{counts[turn.scope]} recorded requests of this conversation were not made",
        )
        for turn in first.values()
    ]


def item_of(asked: Asked, call: str) -> dict[str, Any]:
    """Return a request as divergences show them: {kind, name, call, arguments}."""
    plain = asked.as_json()
    arguments = {
        "added": plain["messages"],
        "api": plain["api"],
        "parameters": plain["parameters"],
        "tools": plain["tools"],
    }
    return {"kind": "model", "name": asked.model, "call": call, "arguments": arguments}


def place_of(record: ObservedRecord, call: str, asked: Asked) -> str:
    """Return where a request stands, in words: `agent.py > billing > gpt-5#3`."""
    scope, _, ordinal = call.partition("#")
    names = []
    parts = scope.split("/")
    for depth in range(2, len(parts) + 1):
        above = "/".join(parts[:depth])
        names.append(record.agents.get(above) or f"conversation {above}")
    return " > ".join(
        (record.started.program, *names, f"{asked.model or asked.api}#{ordinal or '?'}")
    )
