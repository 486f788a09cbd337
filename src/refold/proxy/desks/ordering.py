"""Lets recorded answers go out in the recorded order, for a while.

Some agents write into their next prompt which of several subagents ended first, so an answer waits
for those that were whole before it.  It waits at most `HELD_SECONDS`; after that, and after the
first request that was not recorded, answers go out as asked.  Rules: CONTRACT.md §16.6.
"""

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from refold.replay.observed.record import RecordedTool, RecordedTurn
from refold.replay.observed.titles import text_of

HELD_SECONDS: Final = 2.0
_APART_SECONDS: Final = 0.05
"""Between answers that were on their way together: two connections are read in no certain order,
and what a program makes of the first takes its time."""


class Order:
    """The order in which the answers of one record were whole."""

    def __init__(self, turns: Iterable[RecordedTurn], tools: Mapping[str, RecordedTool]) -> None:
        self._after: dict[str, str] = {}
        """By call: the request that is to have come first, for it was interrupted."""
        self._asked: set[str] = set()
        answered = [turn for turn in turns if turn.how == "answered"]
        self._rank = _ranks(answered, tools, self._after)
        self._left = set(self._rank.values())
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
        self._tell()
        until = time.monotonic() + HELD_SECONDS
        while self._is_kept and self._is_early(turn, rank):
            changed = self._changed
            try:
                await asyncio.wait_for(changed.wait(), until - time.monotonic())
            except TimeoutError:
                self.given_up += 1
                self.stop()
        await asyncio.sleep(self._too_near(turn))

    def _is_early(self, turn: RecordedTurn, rank: float) -> bool:
        first = self._after.get(turn.call)
        return min(self._left, default=rank) < rank or not (first is None or first in self._asked)

    def _too_near(self, turn: RecordedTurn) -> float:
        """Return how long an answer waits yet that was on its way together with the last one."""
        if not self._is_kept or self._last is None:
            return 0
        last, at = self._last
        was_together = last.scope != turn.scope and self._rank.get(last.call, 0) > turn.seq
        return max(0, at + _APART_SECONDS - time.monotonic()) if was_together else 0

    def done(self, turn: RecordedTurn) -> None:
        """Take note that an answer is out."""
        self._left.discard(self._rank.get(turn.call, 0))
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
    turns: Sequence[RecordedTurn], tools: Mapping[str, RecordedTool], after: dict[str, str]
) -> dict[str, float]:
    """Return the order in which answers go out, by call: that in which they were whole.

    When an agent took note of the last answer of one below it, its requests say better: before the
    answer whose calls it did not make, for it was interrupted (Codex), after the one whose it did.
    Who interrupts is put into `after`, with the request that has to be there to be interrupted.
    """
    rank = {turn.call: float(turn.over or 0) for turn in turns}
    scopes: dict[str, list[RecordedTurn]] = defaultdict(list)
    for turn in turns:
        scopes[turn.scope].append(turn)
    taken: Counter[tuple[str, str]] = Counter()
    for last in sorted((each[-1] for each in scopes.values()), key=lambda turn: rank[turn.call]):
        above = scopes.get(last.scope.rpartition("/")[0], [])
        said = text_of(last.answer.message or {}) if last.answer is not None else ""
        for before, turn in itertools.pairwise(above):
            added = turn.asked.messages[len(before.asked.messages) :]
            shown = sum(said in text_of(each) for each in added if each["role"] != "assistant")
            if not said or turn.seq < (last.over or 0) or shown <= taken[turn.call, said]:
                continue
            taken[turn.call, said] += 1
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
    return rank
