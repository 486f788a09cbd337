"""Finds the recorded answer to a request, or else the most similar recorded request.

A request gets the first recorded answer, in the order of the record, to exactly the same request:
first in its own conversation, else in one with the same history. A similar request is never used,
unless it is lent (`Matcher.lend`). Redacted values match any text. Each answer is served once,
except to requests that only read (`observed.reads`). `observed.explaining` describes differences.
Pure. Rules: CONTRACT.md §16.6.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import text_of_json
from refold.engine.events.events import scope_above
from refold.engine.observed.binding import Bindings, Joined
from refold.engine.wire.parts.exchange import OTHER, Asked
from refold.replay.observed.ignoring import Ignoring, same_but_for_redaction
from refold.replay.observed.reads import ReadCount, are_answered_alike, only_reads
from refold.replay.observed.record import ObservedRecord, RecordedTurn
from refold.replay.observed.titles import title_of

_WORDS_MAX: Final = 1000
"""Words of a message by which likeness is judged."""
_CHARACTERS_MAX: Final = 8000
LIKE_MIN: Final = 0.3
"""From this similarity on, one request counts as a changed form of the other."""
_ELSEWHERE: Final = 0.8
"""The weight of equal text at a different place."""


@attrs.define(eq=False)
class Miss:
    """A request that the record has no answer to."""

    asked: Asked
    nearest: RecordedTurn | None
    """The recorded request that was probably meant, as far as is known this early."""
    scope: str = ""
    """The conversation, as this run numbers it."""
    is_known: bool = False
    """Whether that conversation had been served something before."""
    count: int = 1
    """How often the same was asked by then."""
    recorded: int = 0
    """How often it was recorded."""
    unserved: RecordedTurn | None = None
    """The equal recorded request, if its answer cannot be served to a client."""
    past: RecordedTurn | None = None
    """The last request of its conversation, if all recorded requests of that have been made."""
    answered_as: RecordedTurn | None = None
    """The recorded request whose answer it was lent; `None` if it had none."""


@attrs.define(eq=False)
class _Equal:
    """Recorded requests that ask the same, in the order of the record."""

    recorded: list[RecordedTurn] = attrs.field(factory=list)
    waiting: list[RecordedTurn] = attrs.field(factory=list)
    """Those that nobody has asked again."""
    asked: int = 0
    """How often this run asked."""
    served: int = 0
    is_read_alike: bool | None = None
    """Whether it only reads, and all answers are the same; `None` until somebody wants to know."""


class Matcher:
    """The answers of one record, each served once but for what only reads."""

    def __init__(
        self, record: ObservedRecord, *, reads_again: bool = True, bindings: Bindings | None = None
    ) -> None:
        """Without `reads_again`, read-only requests are also served only as often as recorded.

        `bindings` map current values to recorded ones; the default assumes a run in the same place.
        """
        self._record = record
        self.bindings = bindings or record.bindings()
        self._keys: dict[str, str] = {}
        """By call: `Bindings.key` of the recorded request."""
        self._equal: defaultdict[str, _Equal] = defaultdict(_Equal)
        """By key."""
        self._reads_again = reads_again
        self.scopes: dict[str, str] = {}
        """By conversation of this run: the recorded one that it is."""
        self.misses: list[Miss] = []
        """In the order of asking."""
        self.ignoring = Ignoring(record, self.bindings)
        self.by_order = 0
        """Requests that were served by their order alone: at the same time, another conversation
        asked the same, and was answered otherwise."""
        self.lent: dict[str, Miss] = {}
        """By call: the request that was lent its answer, until the exact request is made."""
        self.unread: list[RecordedTurn] = []
        """Those whose answer the program read to its end, and now leaves long before."""
        self._reached: dict[str, RecordedTurn] = {}
        """By conversation of this run: the last recorded request whose answer it has."""
        for turn in record.turns:
            self._keys[turn.call] = self.bindings.key(self._settled(turn.asked))
            self._equal_to(turn).recorded.append(turn)
            self._equal_to(turn).waiting.append(turn)

    def _settled(self, asked: Asked) -> Asked:
        return self._record.rules.applied(asked, self.bindings.line_key)

    def _equal_to(self, turn: RecordedTurn) -> _Equal:
        return self._equal[self._keys[turn.call]]

    def _joined(
        self, turns: Iterable[RecordedTurn], plain: Asked
    ) -> Iterator[tuple[RecordedTurn, Joined]]:
        """Yield the recorded requests that equal this one, with the bindings that this needs."""
        for turn in turns:
            joined = self.bindings.joined(self._settled(turn.asked), plain)
            if joined is not None:
                yield turn, joined

    def bound(self, asked: Asked) -> Asked:
        """Bind the values of a request as its first match does; return it with recorded values.

        A match that headers call another caller's comes after all others.
        """
        plain = self._settled(asked)
        equal = self._equal[self.bindings.key(plain)]
        found = (join for _, join in self._joined((*equal.waiting, *equal.recorded), plain))
        first = next(found, None)
        if first is not None:
            others = found if first.is_crossed else ()
            self.bindings.commit(next((one for one in others if not one.is_crossed), first))
        return self.bindings.as_recorded(asked)

    def has(self, asked: Asked) -> bool:
        """Return whether `take` has an answer to a request."""
        plain = self._settled(asked)
        equal = self._equal[self.bindings.key(plain)]
        waiting = any(self._joined(equal.waiting, plain)) or self._but_for_redaction(plain)
        is_read = self._reads_again and self._is_read_alike(equal)
        return bool(waiting or (is_read and any(self._joined(equal.recorded[-1:], plain))))

    def take(self, asked: Asked, scope: str, agent: str = "") -> RecordedTurn | Miss:
        """Return the recorded request that is asked again: each once, what only reads ever again.

        `scope` is the conversation, and `agent` whose it is.  What this request binds is bound.
        """
        plain = self._settled(asked)
        equal = self._equal[self.bindings.key(plain)]
        joined = {turn.call: join for turn, join in self._joined(equal.recorded, plain)}
        equal.asked += bool(joined)
        free = [turn for turn in equal.waiting if turn.call in joined]
        waiting = free or self._but_for_redaction(plain)
        if waiting:
            crossed = {call for call, join in joined.items() if join.is_crossed}
            turn = self._likeliest(waiting, scope, agent, crossed)
        elif joined and self._reads_again and self._is_read_alike(equal):
            turn = equal.recorded[-1]
        else:
            return self._missed(asked, scope, equal if joined else _Equal())
        if turn.why_unserved:
            return self._missed(asked, scope, equal, turn)
        if waiting:
            self._equal_to(turn).waiting.remove(turn)
        turn.is_served = True
        self.lent.pop(turn.call, None)
        self._equal_to(turn).served += 1
        self._reach(scope, turn)
        if turn.call in joined:
            self.bindings.commit(joined[turn.call])
        if turn.asked != asked:
            passed = joined[turn.call].passed if turn.call in joined else ()
            self.ignoring.served(turn, asked, passed)
        return turn

    def lend(self, miss: Miss, beside: Sequence[Miss] = ()) -> RecordedTurn | None:
        """Answer a changed request like the same turn of its conversation; `None` without one.

        The answer stays available for a request that equals the recorded one. `beside` are the
        changed requests that begin conversations and are waiting: each gets the most similar one's
        answer.
        """
        if miss.recorded or miss.unserved is not None:
            return None
        if (last := self._reached.get(miss.scope)) is not None:
            later = (turn for turn in self.left() if turn.seq > last.seq)
            found = next((turn for turn in later if turn.scope == last.scope), None)
        else:
            found = self.paired(beside or [miss]).get(id(miss))
        if found is None or found.answer is None or not _is_same_place(found.asked, miss.asked):
            return None
        miss.answered_as, self.lent[found.call] = found, miss
        self._reach(miss.scope, found)
        self.bindings.learn(self._settled(found.asked), self._settled(miss.asked))
        return found

    def _reach(self, scope: str, turn: RecordedTurn) -> None:
        self.scopes.setdefault(scope, turn.scope)
        self._reached[scope] = turn

    def paired(self, misses: Iterable[Miss]) -> dict[int, RecordedTurn]:
        """Return what each was likely to be, by id: the likest pairs first, each request once."""
        free = self.following()
        paired: dict[int, RecordedTurn] = {}
        waiting: list[Miss] = []
        for miss in misses:
            near = miss.nearest
            if miss.is_known and near is not None and free.get(near.scope) is near:
                paired[id(miss)] = free.pop(near.scope)
            elif not miss.is_known:
                waiting.append(miss)
        known = set(self.scopes.values())
        while waiting and free:
            best = max(waiting, key=lambda miss: _best(miss, free.values()))
            turn = likest(best.asked, free.values(), known=known)
            if turn is None:
                break
            paired[id(best)] = free.pop(turn.scope)
            waiting.remove(best)
        return paired

    def _likeliest(
        self, waiting: list[RecordedTurn], scope: str, agent: str, crossed: AbstractSet[str]
    ) -> RecordedTurn:
        """Return the one of several equal requests that matches this one's place.

        It is in the same conversation, or in an unused one of the same agent below the same
        conversation, and not `crossed`. The first of equally good ones is returned.
        """
        if len(waiting) == 1:
            return waiting[0]
        ours, above = self.scopes.get(scope), self.scopes.get(_above(scope))
        taken = set(self.scopes.values())

        def alike(turn: RecordedTurn) -> tuple[bool, ...]:
            return (
                turn.scope == ours,
                turn.call not in crossed,
                turn.scope not in taken,
                self._record.agents.get(turn.scope, "") == agent,
                _above(turn.scope) == above,
            )

        best = max(map(alike, waiting))
        first, *others = [turn for turn in waiting if alike(turn) == best]
        self.by_order += any(_is_twin(first, other) for other in others)
        return first

    def _but_for_redaction(self, asked: Asked) -> list[RecordedTurn]:
        marked = [turn for turn in self._record.turns if turn.is_marked and not turn.is_served]
        if not marked:
            return []
        plain = self.bindings.as_recorded(asked)
        return [turn for turn in marked if same_but_for_redaction(self._settled(turn.asked), plain)]

    def left(self) -> list[RecordedTurn]:
        """Return the recorded requests that have not been made again, in the order of the record.

        Lent requests are left out, as are read-only ones that were made at least once.
        """
        return [
            turn
            for turn in self._record.turns
            if not turn.is_served
            and turn.call not in self.lent
            and not (self._equal_to(turn).served and self._is_read_alike(self._equal_to(turn)))
        ]

    def reads(self) -> list[ReadCount]:
        """Return how often each was read whose recorded answers are all the same."""
        return [
            ReadCount(title_of(each.recorded[0].asked), each.served, len(each.recorded))
            for each in self._equal.values()
            if each.served and self._is_read_alike(each)
        ]

    def _is_read_alike(self, equal: "_Equal") -> bool:
        if equal.is_read_alike is None:
            only = bool(equal.recorded) and only_reads(equal.recorded[0].asked)
            equal.is_read_alike = only and are_answered_alike(self._record, equal.recorded)
        return equal.is_read_alike

    def following(self) -> dict[str, RecordedTurn]:
        """Return the next request of each unfinished recorded conversation, by conversation."""
        found: dict[str, RecordedTurn] = {}
        for turn in self.left():
            found.setdefault(turn.scope, turn)
        return found

    def _missed(
        self, asked: Asked, scope: str, equal: "_Equal", unserved: RecordedTurn | None = None
    ) -> Miss:
        asked = self.bindings.as_recorded(asked)
        miss = Miss(
            asked,
            unserved or self._nearest(asked, scope),
            scope,
            scope in self.scopes,
            equal.asked,
            len(equal.recorded),
            unserved,
            self._past(scope),
        )
        self.misses.append(miss)
        return miss

    def _past(self, scope: str) -> RecordedTurn | None:
        """Return the last recorded request of a conversation that has been asked to its end."""
        turns = [turn for turn in self._record.turns if turn.scope == self.scopes.get(scope)]
        return turns[-1] if turns and all(turn.is_served for turn in turns) else None

    def _nearest(self, asked: Asked, scope: str) -> RecordedTurn | None:
        """Return the unserved request that is nearest: the next of its conversation, if known."""
        following = self.following()
        if scope in self.scopes:
            return following.get(self.scopes[scope])
        return likest(asked, following.values(), known=set(self.scopes.values()))


def _best(miss: Miss, turns: Iterable[RecordedTurn]) -> float:
    return max((likeness(turn.asked, miss.asked) for turn in turns), default=LIKE_MIN)


def _is_same_place(recorded: Asked, now: Asked) -> bool:
    """Return whether two requests speak one interface; of `other`, by one method and path."""
    if recorded.api != OTHER or now.api != OTHER:
        return recorded.api == now.api
    places = [
        (each.parameters.get("method"), str(each.parameters.get("path")).partition("?")[0])
        for each in (recorded, now)
    ]
    return places[0] == places[1]


def _above(scope: str) -> str:
    """Return the conversation above one; empty for none."""
    above = scope_above(scope)
    return above if "/" in above else ""


def _is_twin(one: RecordedTurn, other: RecordedTurn) -> bool:
    """Return whether two equal requests were on their way together, and answered otherwise."""
    first, second = sorted((one, other), key=lambda turn: turn.seq)
    is_together = first.over is None or second.seq < first.over
    return is_together and _answer_key(one) != _answer_key(other)


def _answer_key(turn: RecordedTurn) -> Any:
    answer = turn.answer
    return (turn.how, answer and (answer.status, answer.message, answer.error))


def likest(
    asked: Asked, turns: Iterable[RecordedTurn], *, known: AbstractSet[str]
) -> RecordedTurn | None:
    """Return the most similar request, preferring conversations that are not `known`."""
    rated = [(_rated(turn, asked, known), turn) for turn in turns]
    best = max(rated, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and best[0] >= LIKE_MIN else None


def _rated(turn: RecordedTurn, asked: Asked, known: AbstractSet[str]) -> float:
    return likeness(turn.asked, asked) - (0.1 if turn.scope in known else 0.0)


def likeness(recorded: Asked, asked: Asked) -> float:
    """Return how much two requests have in common: from 0 to about 1."""
    if recorded.api != asked.api:
        return 0.0
    if not recorded.messages and not asked.messages:
        return _share(_words(recorded.parameters), _words(asked.parameters))
    pairs = list(zip(recorded.messages, asked.messages, strict=False))
    alike = [_alike(before, after) for before, after in pairs]
    longest = max(len(recorded.messages), len(asked.messages), 1)
    found = sum(alike) / longest
    if found < LIKE_MIN:  # the same in another order?
        found = _ELSEWHERE * _share(*(_words(list(each.messages)) for each in (recorded, asked)))
    return found + (recorded.model == asked.model) / 20


def _alike(before: Any, after: Any) -> float:
    if before == after:
        return 1.0
    if before.get("role") != after.get("role"):
        return 0.0
    return _share(_words(before.get("content")), _words(after.get("content")))


def _words(value: Any) -> Counter[str]:
    return Counter(text_of_json(value)[:_CHARACTERS_MAX].split()[:_WORDS_MAX])


def _share(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 1.0
