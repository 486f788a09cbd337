"""Splits an interrupted watched command's record into served and repeated requests.

A successful recorded answer is served, and so is a failure after which its conversation continued
with another request: the client mends it again. Any other request that failed, was cut off or has
no answer is asked again, and so are the requests that follow from it. Any other new request is a
difference. Pure.
Rules: CONTRACT.md §16.21.
"""

from os import PathLike
from typing import Any, Final

import attrs

from refold.engine.errors import NothingToResume
from refold.engine.events.events import scope_of
from refold.engine.observed.observer import RequestUnderway
from refold.engine.observed.openers import is_answer
from refold.engine.observed.profile import Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.exchange import LATER, Asked
from refold.replay.difference.pointer_diff import counted
from refold.replay.observed.effects import effects_of
from refold.replay.observed.matching import Matcher, Miss
from refold.replay.observed.reads import only_reads
from refold.replay.observed.record import ObservedRecord, RecordedTurn, read_record
from refold.replay.observed.titles import text_of
from refold.replay.run.opened_run import OpenedRun

_SAID_MIN: Final = 8
"""Characters of an answer from which on a request that has them is taken to show it."""


@attrs.frozen
class ResumableRecord:
    """A record, split into served answers and requests that are asked again."""

    served: ObservedRecord
    again: ObservedRecord
    to_ask: frozenset[tuple[str, str]]
    """Requests to be asked again, by conversation and key; a retry is the same request."""
    is_cut: bool
    """Whether its next requests were never made: it was interrupted, or left calls without results
    or answers in the background."""

    @property
    def origin(self) -> dict[str, Any]:
        """The origin in the new log: {nonce, head, at, edits}."""
        record = self.served
        at = record.entries - 1
        return {"nonce": record.started.nonce, "head": record.head, "at": at, "edits": []}

    def __str__(self) -> str:
        """Return what will happen, in one line."""
        answers = sum(not only_reads(turn.asked) for turn in self.served.turns)
        then = " before it goes on" if self.is_cut else ""
        plan = f"{counted(answers, 'answer')} from the log, {len(self.to_ask)} to request{then}"
        calls = effects_of(self.served)
        if not calls.calls:
            return plan
        made = counted(len(calls.calls), "tool call")
        return f"{plan}; {made} will be executed again ({calls.tools()})"


def resumable_record(
    log: str | PathLike[str],
    rules: VolatileRules | None = None,
    *,
    profile: Profile | None = None,
    retry: str = "",
) -> ResumableRecord:
    """Split a log into served answers and requests to repeat; `retry` repeats only that agent.

    Raises:
        LogObserved: the log is a program's.
        NothingToResume: the command ended well, all its requests were answered, and all its calls
            have results.
        UsageError: no agent, or several, have the name `retry`.
    """
    record = read_record(log, rules, profile=profile)
    scope = OpenedRun(record.path).agent(retry, "--again").node.scope if retry else None
    if scope is None:
        well = {(turn.scope, turn.key) for turn in record.turns if _ended_well(turn)}
        last = {turn.scope: turn.seq for turn in record.turns if _ended_well(turn)}
        kept = [
            turn
            for turn in record.turns
            if _ended_well(turn)
            or ((turn.scope, turn.key) not in well and _is_mended(turn, last.get(turn.scope, 0)))
        ]
    else:
        kept = [turn for turn in record.turns if turn.scope != scope and turn.how != "open"]
    calls = {turn.call for turn in kept}
    again = [turn for turn in record.turns if turn.call not in calls]
    answered = {(turn.scope, turn.key) for turn in kept}
    to_ask = {(turn.scope, turn.key) for turn in again if not only_reads(turn.asked)} - answered
    is_completed = record.finished is not None and record.finished.status == "completed"
    is_cut = not is_completed or _is_waiting(record)
    if not is_cut and not to_ask:
        raise NothingToResume(str(log))
    served, asked = (attrs.evolve(record, turns=turns) for turns in (kept, again))
    for each in (served, asked):
        each.entries, each.head = record.entries, record.head
    return ResumableRecord(served, asked, frozenset(to_ask), is_cut)


def _ended_well(turn: RecordedTurn) -> bool:
    said = turn.answer
    return said is not None and said.status == "ok" and not turn.why_unserved


def _is_waiting(record: ObservedRecord) -> bool:
    """Return whether a conversation ended with a call without a result, or in the background."""
    last = {turn.scope: turn for turn in record.turns}
    if any(turn.answer and turn.answer.stop_reason in LATER for turn in last.values()):
        return True
    return any(
        tool.end is None
        and (turn := last.get(scope_of(key))) is not None
        and record.seqs[key] > turn.seq
        and not is_answer(turn.asked, tool.tool)
        for key, tool in record.tools.items()
    )


def _is_mended(turn: RecordedTurn, last: int) -> bool:
    """Return whether a failure was served and its conversation continued after it.

    The client has mended it by another request, `last` or before: so it does again.
    """
    is_served = turn.how == "answered" and bool(turn.parts) and not turn.why_unserved
    return is_served and turn.over is not None and turn.over < last


class Continuation:
    """Says which questions that have no answer may be asked; none after a difference."""

    def __init__(self, resumed: ResumableRecord, matcher: Matcher) -> None:
        """Take the record, and what matches the requests that are served."""
        self._resumed = resumed
        self._again = Matcher(resumed.again, bindings=matcher.bindings)
        due = [turn for turn in resumed.again.turns if (turn.scope, turn.key) in resumed.to_ask]
        self._expected = [*resumed.served.turns, *due]
        self._new: list[RequestUnderway] = []
        """Those that are answered otherwise than on record."""
        self._last: dict[str, RecordedTurn] = {}
        """By conversation of this run: the recorded request that it made last."""

    def may_ask(self, miss: Miss, turn: RequestUnderway) -> bool:
        """Return whether a question was not answered on record, or follows from one of those."""
        return self._again.has(miss.asked) or self._follows(miss, turn.thread.scope)

    def asked(self, turn: RequestUnderway) -> None:
        """Take note that a question is asked."""
        self._new.append(turn)

    def served(self, turn: RequestUnderway, found: RecordedTurn) -> None:
        """Note that a request got a recorded answer.

        If the same request also got an error, this request and later ones may be new to the client.
        """
        self._last[turn.thread.scope] = found
        is_after = any(turn.thread is other.thread for other in self._new)
        if is_after or self._again.has(found.asked):
            self._new.append(turn)

    def _follows(self, miss: Miss, scope: str) -> bool:
        over = [turn for turn in self._new if turn.is_over]
        if any(_is_related(turn.thread.scope, scope) for turn in over):
            return True
        if any(_shows(miss.asked, turn) for turn in over):
            return True
        if (last := self._last.get(scope)) is not None and any(
            turn.scope == last.scope and turn.ordinal > last.ordinal and not turn.is_served
            for turn in self._expected
        ):
            return False  # its next question is on record, and another one
        is_begun = bool(self._last or self._new) or not self._expected
        return is_begun and (self._resumed.is_cut or bool(over))


def _is_related(one: str, other: str) -> bool:
    """Return whether two conversations are equal, or one is below the other."""
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")


def _shows(asked: Asked, turn: RequestUnderway) -> bool:
    """Return whether a request contains an answer's text."""
    message = turn.answer.message if turn.answer is not None else None
    said = text_of(message) if message else ""
    return len(said) >= _SAID_MIN and any(said in text_of(each) for each in asked.messages)
