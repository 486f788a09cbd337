"""Reports how a replay of a watched command differed, conversation by conversation.

Only after the command has ended is it known which recorded requests were not made. So a request
without an answer is compared with the most similar of these. For each conversation, the first
difference is reported and the later ones are counted. Pure. Rules: CONTRACT.md §16.6.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import text_of_json
from refold.engine.events.events import scope_above
from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference.pointer_diff import same
from refold.replay.explain.divergence import Category, Divergence
from refold.replay.observed.changes import Change, ReportedChanges, change_of, item_of
from refold.replay.observed.matching import Matcher, Miss
from refold.replay.observed.reads import times
from refold.replay.observed.record import ObservedRecord, RecordedTurn
from refold.replay.observed.titles import number_of, place_of, title_of

REFUSAL: Final = "refold replay: no recorded answer to this request"
"""How a request is refused that the record has no answer to."""
ANSWERED: Final = "answered as recorded, although the request changed"
"""The text for a request that `--on-miss recorded` answers."""
_UNREAD: Final = "the command leaves long before the end of this answer, which it had read"
_BY_SIGNAL: Final = 128
"""With the number of a signal: the exit code of a command that it ended."""


def divergence_of(record: ObservedRecord, matcher: Matcher, miss: Miss) -> Divergence:
    """Return how a request differs, as far as that is known while the command runs."""
    return _explained(record, matcher, miss, miss.nearest)


def all_divergences(record: ObservedRecord, matcher: Matcher) -> list[Divergence]:
    """Return the first difference of each conversation, once the command has ended.

    Requests that differed and still got the recorded answer come first, without the changes that
    earlier ones have reported. Then come changed requests in the order asked, then requests that
    were not made.
    """
    telling = _Telling(record, matcher)
    telling.answered()
    telling.unread()
    telling.misses()
    telling.left_over()
    return list(telling.found.values())


def asked_otherwise(record: ObservedRecord, matcher: Matcher) -> tuple[Divergence, ...]:
    """Return recorded requests that were changed or not made, without new requests."""
    return tuple(one for one in all_divergences(record, matcher) if one.seq is not None)


class _Telling:
    """Puts together what differs in one replay."""

    def __init__(self, record: ObservedRecord, matcher: Matcher) -> None:
        self._record = record
        self._matcher = matcher
        self.found: dict[str | int, Divergence] = {}
        """By recorded conversation; for a difference without one, by its own key."""
        self._echoes: dict[str, str | int] = {}
        """By recorded conversation: the difference that it was shown in a refusal of ours."""

    def answered(self) -> None:
        """Report changed requests that got the recorded answer; repetitions are only counted."""
        changes = ReportedChanges()
        for turn, miss in self._reused_answers():
            recorded, now = _plain(self._record, self._matcher, turn.asked, miss.asked)
            carried, cause = changes.carried(miss.scope, recorded, now)
            if cause is not None and same(carried.as_json(), now.as_json()):
                self._follows(cause, 1)
            else:
                cause = turn.call
                told = _changed(self._record, turn, miss, change_of(carried, now, turn.call))
                self.found[cause] = attrs.evolve(told, cause=f"{told.cause}; {ANSWERED}")
            changes.remember(miss.scope, recorded, now, cause)

    def _reused_answers(self) -> list[tuple[RecordedTurn, Miss]]:
        """Return requests that were lent an answer whose own request was not made."""
        lent, misses = self._matcher.lent, self._matcher.misses
        pairs = [(one.answered_as, one) for one in misses if one.answered_as is not None]
        return [(turn, miss) for turn, miss in pairs if lent.get(turn.call) is miss]

    def unread(self) -> None:
        """Report answers that the program no longer reads to their end."""
        for turn in self._matcher.unread:
            if turn.scope not in self.found:
                self.found[turn.scope] = _at(self._record, turn, "not_served", _UNREAD)

    def misses(self) -> None:
        """Report requests that were not recorded."""
        by_scope: dict[str, list[Miss]] = {}
        lent = [miss for _, miss in self._reused_answers()]
        for miss in (each for each in self._matcher.misses if each not in lent):
            by_scope.setdefault(miss.scope, []).append(miss)
        first = [misses[0] for misses in by_scope.values()]
        near = self._matcher.paired(first)
        for miss in first:
            turn, more = near.get(id(miss)), len(by_scope[miss.scope]) - 1
            if self.found and repeats_refusal(miss.asked.messages):
                cause = next(reversed(self.found))  # a subagent's, of which it was told
                if turn is None:
                    self._follows(cause, more + 1)
                else:
                    self._echoes[turn.scope] = cause
                continue
            if turn is not None and turn.scope in self.found:
                self._follows(turn.scope, more + 1)
                continue
            told = _explained(self._record, self._matcher, miss, turn)
            if turn is not None:
                left = sum(each.scope == turn.scope for each in self._matcher.left())
                more = max(more, left - 1)
            at = id(miss) if turn is None else turn.scope
            self.found[at] = attrs.evolve(told, later_count=more)

    def _follows(self, scope: str | int, count: int) -> None:
        one = self.found[scope]
        self.found[scope] = attrs.evolve(one, later_count=one.later_count + count)

    def left_over(self) -> None:
        """Report requests that were not made, in conversations without a reported difference."""
        left = self._matcher.left()
        counts = Counter(turn.scope for turn in left)
        told = dict(self.found)
        for scope, turn in self._matcher.following().items():
            above = next((each for each in _above(scope) if each in told), None)
            if scope in told:
                continue
            if scope in self._echoes:
                self._follows(self._echoes[scope], counts[scope])
                continue
            if above is not None and (told[above].seq or 0) < turn.seq:
                self._follows(above, counts[scope])
            else:
                self.found[scope] = self._unconsumed(turn, counts[scope])

    def _unconsumed(self, turn: RecordedTurn, count: int) -> Divergence:
        later = [each for each in self._record.turns if each.scope == turn.scope]
        goes_on = any(each.is_served for each in later if each.seq > turn.seq)
        is_begun = any(each.is_served for each in later)
        cause = self._why_left(turn, is_begun=is_begun, count=count)
        told = _at(self._record, turn, "missing_call" if goes_on else "unconsumed", cause)
        return attrs.evolve(told, later_count=count - 1)

    def _why_left(self, turn: RecordedTurn, *, is_begun: bool, count: int) -> str:
        retried = [each.failure for each in self._record.retries().get(turn.call, ())]
        if retried and count == 1:
            return f"the request was repeated after {retried[-1]}, and is not repeated now"
        requests = "1 recorded request was" if count == 1 else f"{count} recorded requests were"
        what = f"{requests} not made" if is_begun else "this conversation did not start"
        if self._matcher.misses:
            return f"{what}; this may follow from the first difference"
        return f"{what}: the command ended earlier, or took a different path"


def repeats_refusal(value: Any) -> bool:
    """Return whether a value repeats how a replay refuses a request: what follows is an echo."""
    return REFUSAL in text_of_json(value)


def _above(scope: str) -> Iterator[str]:
    while scope.count("/") > 1:
        scope = scope_above(scope)
        yield scope


def _explained(
    record: ObservedRecord, matcher: Matcher, miss: Miss, near: RecordedTurn | None
) -> Divergence:
    if (turn := miss.unserved) is not None:
        cause = f"this answer is not served: {turn.why_unserved}"
        told = _at(record, turn, "not_served", cause)
        return attrs.evolve(told, now=item_of(miss.asked, turn.call))
    if near is None or miss.recorded:
        return Divergence(
            category="extra_call",
            where=_where(record, miss, near),
            log=str(record.path),
            now=item_of(miss.asked, ""),
            cause=_why_extra(record, miss),
        )
    recorded, now = _plain(record, matcher, near.asked, miss.asked)
    return _changed(record, near, miss, change_of(recorded, now, near.call))


def _plain(record: ObservedRecord, matcher: Matcher, *both: Asked) -> list[Asked]:
    """Return requests without values that are not compared."""
    bindings = matcher.bindings
    return [bindings.plain(record.rules.applied(each, bindings.line_key)) for each in both]


def _changed(record: ObservedRecord, near: RecordedTurn, miss: Miss, change: Change) -> Divergence:
    told = _at(record, near, change.category, change.cause)
    now = item_of(miss.asked, near.call)
    return attrs.evolve(told, now=now, diff=change.diff, texts=change.texts)


def _at(record: ObservedRecord, turn: RecordedTurn, category: Category, cause: str) -> Divergence:
    """Return a difference at a recorded request."""
    return Divergence(
        category=category,
        where=place_of(record, turn),
        turn=number_of(record, turn),
        log=str(record.path),
        call=turn.call,
        seq=turn.seq,
        recorded=item_of(turn.asked, turn.call),
        cause=cause,
    )


def _where(record: ObservedRecord, miss: Miss, near: RecordedTurn | None) -> str:
    if near is not None:
        return place_of(record, near)
    if miss.past is not None:
        return f"{place_of(record, miss.past)} > a request after the end of its recording"
    title = title_of(miss.asked, record.profile)
    said = f"a conversation that was not recorded ({title})" if title else "a new conversation"
    return f"{record.started.program} > {said}"


def _why_extra(record: ObservedRecord, miss: Miss) -> str:
    if miss.recorded:
        counts = f"made {times(miss.count)}, recorded {times(miss.recorded)}"
        last = next((e for e in reversed(record.turns) if e.asked == miss.asked), None)
        if last is not None and last.failure:
            return (
                f"the request is repeated after {last.failure} more often than in the "
                f"recording: {counts}"
            )
        return f"the same request is made more often than in the recording: {counts}"
    if miss.is_known:
        return "the conversation continues after the end of its recording"
    if record.finished is None:
        return "the recording has no end, and no such request"
    if record.exit_code > _BY_SIGNAL:
        stopped = f"the recorded command was stopped (exit code {record.exit_code})"
        return f"no recorded request is similar; {stopped}, maybe before it made this request"
    return "no recorded request is similar: an agent, or one of its calls, is new"
