"""Lets recorded answers go out in the recorded order, for a while.

Some agents write into their next prompt which of several subagents ended first, so an answer waits
for those that were whole before it.  It waits at most `HELD_SECONDS`; after that, and after the
first request that was not recorded, answers go out as asked.  Rules: CONTRACT.md §16.6.
"""

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from refold.replay.observed.record import RecordedTool, RecordedTurn
from refold.replay.observed.titles import text_of

HELD_SECONDS: Final = 2.0
_APART_SECONDS: Final = 0.05
"""Between answers that were on their way together: two connections are read in no certain order,
and what a program makes of the first takes its time."""
_NOTED_SECONDS: Final = 0.25
"""Likewise where an agent is told of an answer while it does something else: from its end to the
note it took Codex 20 to 65 ms, and an answer that it interrupts must not be there before."""


class Order:
    """The order in which the answers of one record were whole."""

    def __init__(self, turns: Iterable[RecordedTurn], tools: Mapping[str, RecordedTool]) -> None:
        self._after: dict[str, str] = {}
        """By call: the request that is to have come first, for it was interrupted."""
        self._together: dict[str, frozenset[str]] = {}
        """By call: all the requests whose answers the agent above took note of at once."""
        self._asked: set[str] = set()
        self._at_last: set[str] = set()
        """Answers of which nothing but the end is to come."""
        answered = [turn for turn in turns if turn.how == "answered"]
        self._rank = _ranks(answered, tools, self._after, self._together)
        self._left = dict(self._rank)
        self._is_kept = True
        self._changed = asyncio.Event()
        self._last: tuple[RecordedTurn, float] | None = None
        """What went out last, and when."""
        self.given_up = 0
        """Answers that were held in vain, and went out before those that were whole earlier."""

    async def ready(self, turn: RecordedTurn) -> None:
        """Return when all answers are out that were whole before this one."""
        rank = self._rank.get(turn.call, 0)
        self._asked.add(turn.call)
        await self._until(lambda: not self._is_early(turn, rank))
        await asyncio.sleep(self._too_near(turn))

    async def last(self, turn: RecordedTurn) -> None:
        """Return when an answer may end: with those that the agent above took note of at once.

        Codex wakes at the first, and looks at what is there some 20 ms later.
        """
        together = self._together.get(turn.call, frozenset())
        self._at_last.add(turn.call)
        await self._until(lambda: together <= self._at_last)

    async def _until(self, is_time: Callable[[], bool]) -> None:
        """Wait, at most for `HELD_SECONDS`; in vain, nothing waits any more."""
        self._tell()
        until = time.monotonic() + HELD_SECONDS
        while self._is_kept and not is_time():
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), until - time.monotonic())
            except TimeoutError:
                self.given_up += 1
                self.stop()

    def _is_early(self, turn: RecordedTurn, rank: float) -> bool:
        needed = self._together.get(turn.call, frozenset()) | {
            self._after.get(turn.call, turn.call)
        }
        return min(self._left.values(), default=rank) < rank or not needed <= self._asked

    def _too_near(self, turn: RecordedTurn) -> float:
        """Return how long an answer waits yet that was on its way together with the last one."""
        if not self._is_kept or self._last is None:
            return 0
        last, at = self._last
        was_together = last.scope != turn.scope and self._rank.get(last.call, 0) > turn.seq
        is_noted = last.call in self._after or turn.call in self._after
        apart = _NOTED_SECONDS if is_noted else _APART_SECONDS
        return max(0, at + apart - time.monotonic()) if was_together else 0

    def done(self, turn: RecordedTurn) -> None:
        """Take note that an answer is out."""
        self._left.pop(turn.call, None)
        self._last = (turn, time.monotonic())
        self._tell()

    def stop(self) -> None:
        """Hold nothing any more: the program does not do what it did."""
        self._is_kept = False
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def notes(self) -> list[str]:
        """Return where the order was not kept, in words."""
        if not self.given_up:
            return []
        note = (
            f"an answer was held for {HELD_SECONDS:.0f} s for those that were whole before it when "
            "it was recorded, and they were not asked for: from there on, answers went out as asked"
        )
        return [note]


def _ranks(
    turns: Sequence[RecordedTurn],
    tools: Mapping[str, RecordedTool],
    after: dict[str, str],
    together: dict[str, frozenset[str]],
) -> dict[str, float]:
    """Return the order in which answers go out, by call: that in which they were whole.

    When an agent took note of the last answer of one below it, its requests say better: not before
    the last request that does not show it; before the answer whose calls it did not make, for it
    was interrupted (Codex), after the one whose it did.  Which request has to be there is put into
    `after`; what it took note of at once, into `together`.
    """
    rank = {turn.call: float(turn.over or 0) for turn in turns}
    scopes: dict[str, list[RecordedTurn]] = defaultdict(list)
    for turn in turns:
        scopes[turn.scope].append(turn)
    taken: Counter[tuple[str, str]] = Counter()
    notes: dict[str, list[RecordedTurn]] = defaultdict(list)
    for last in sorted((each[-1] for each in scopes.values()), key=lambda turn: rank[turn.call]):
        above = scopes.get(last.scope.rpartition("/")[0], [])
        said = text_of(last.answer.message or {}) if last.answer is not None else ""
        for before, turn in itertools.pairwise(above):
            added = turn.asked.messages[len(before.asked.messages) :]
            roles = [each["role"] for each in added if said in text_of(each)]
            shown = len(roles) - roles.count("assistant")
            if not said or turn.seq < (last.over or 0) or shown <= taken[turn.call, said]:
                continue
            taken[turn.call, said] += 1
            if "user" in roles:  # it came as a message, while the agent did something else
                notes[turn.call].append(last)
                after[last.call] = before.call
            calls = [
                tools[key]
                for at in range(before.ordinal + 1, turn.ordinal)
                if (key := f"{turn.scope}#{at}") in tools
            ]
            if calls and (before.over or 0) > last.seq:
                is_made = any(each.end is not None for each in calls)
                rank[last.call] = rank[before.call] + (0.5 if is_made else -0.5)
                if not is_made:
                    after[last.call] = before.call
            break
    for found in notes.values():
        began = max(scopes[each.scope][0].seq for each in found)
        if len(found) > 1 and began < min(each.over or 0 for each in found):
            latest = max(rank[each.call] for each in found)
            for each in found:
                rank[each.call] = latest
                together[each.call] = frozenset(one.call for one in found)
    return rank
