"""Lets recorded answers go out in the recorded order, for a while.

Some agents write into their next prompt which of several subagents ended first, so an answer waits
for those that were whole before it. It waits as long as the command is at work, however slow the
machine is, and stops waiting when nothing has moved for `HELD_SECONDS`; after that, and after the
first request that was not recorded, answers go out as asked. Rules: CONTRACT.md §16.14.
"""

import asyncio
import itertools
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from refold.engine.events.events import number_of, scope_of
from refold.replay.observed.record import RecordedTool, RecordedTurn
from refold.replay.observed.titles import text_of

HELD_SECONDS: Final = 2.0
"""In which nothing moves: nothing is asked, nothing goes out, the command does not work."""
HELD_MAX_SECONDS: Final = 60.0
"""Seconds in which a command works, and asks nothing: it may be waiting for the held answer."""
_NEXT: Final = 1e-6
"""Between the ranks of answers that are beside the same one."""
_LOOK_SECONDS: Final = 0.02
_APART_SECONDS: Final = 0.05
"""Between answers that were in flight together: two connections are read in no certain order,
and a program takes time to process the first."""
_NOTED_SECONDS: Final = 0.25
"""At least, likewise if an agent receives an answer while it does something else: Codex took 20
to 65 ms from its end to the note, and an answer that it interrupts must not be there before."""
_CALM_LOOKS: Final = 3
"""Looks in a row that find no work: then the agent has taken note, however long that took."""
_WORKED_SECONDS: Final = 0.1
"""Of a processor, after which it has done so too: others of the command may work on for long."""
_BROKEN_WORKED_SECONDS: Final = 0.5
"""Likewise before a connection breaks: opencode then forgets text that it has not stored yet."""

Work = Callable[[], float | None]
"""Says how many seconds of a processor a command has used by now; `None` while it does nothing."""


class Order:
    """The order in which the answers of one record were whole."""

    def __init__(
        self,
        turns: Iterable[RecordedTurn],
        tools: Mapping[str, RecordedTool],
        started_by: Mapping[str, str] | None = None,
        work: Work = lambda: None,
    ) -> None:
        """Take answers, tool calls, by conversation the call that started it, and how to look."""
        self._after: dict[str, str] = {}
        """By call: the request that is to have come first, for it was interrupted."""
        self._noted: dict[str, frozenset[str]] = {}
        """By call: all the requests whose answers the agent took note of at once, after this."""
        self._asked: set[str] = set()
        self._open: set[str] = set()
        """Asked, and not answered yet."""
        self._rank = _ranks(list(turns), tools, started_by or {}, self._after, self._noted)
        self._left = dict(self._rank)
        self._is_kept = True
        self._work = work
        self._changed = asyncio.Event()
        self._last: _Sent | None = None
        self._last_to: dict[str, _Sent] = {}
        """By who takes note of it: a conversation."""
        self.given_up = 0
        """Answers that were held in vain, and went out before those that were whole earlier."""

    def came(self, turn: RecordedTurn) -> None:
        """Take note that a request was made."""
        self._asked.add(turn.call)
        self._open.add(turn.call)
        self._tell()

    async def ready(self, turn: RecordedTurn) -> None:
        """Return when all answers are out that were whole before this one."""
        rank = self._rank.get(turn.call, 0)
        first = self._after.get(turn.call, turn.call)
        self.came(turn)
        await self._until(
            lambda: min(self._left.values(), default=rank) >= rank and first in self._asked
        )
        await self._apart(turn)

    def ends_late(self, turn: RecordedTurn) -> bool:
        """Return whether an answer waits with its end."""
        return turn.call in self._noted

    async def last(self, turn: RecordedTurn) -> None:
        """Return when an answer may end: when all are out that the next request shows at once.

        Codex wakes at the first, and reads the messages some 20 ms later; but it asks again only
        when it has been answered to the end.
        """
        if (noted := self._noted.get(turn.call)) is None:
            return
        self.done(turn)
        await self._until(lambda: not noted & self._left.keys())
        if self._is_kept:
            await self._calm(self._last_to[turn.scope].at)

    async def broken(self) -> None:
        """Return when an answer may break off: when the program has read what came of it.

        Clients drop unread data (Bun, of which opencode is made).
        """
        await self._calm(time.monotonic(), _BROKEN_WORKED_SECONDS)

    async def calm(self) -> None:
        """Return when the command seems to have sent all requests that it sends at once."""
        await self._calm(time.monotonic())

    async def _until(self, is_time: Callable[[], bool]) -> None:
        """Wait while anything moves; in vain, nothing waits any more."""
        while self._is_kept and not is_time():
            if not await self._is_moved() and self._is_kept:
                self.given_up += 1
                self.stop()

    async def _is_moved(self) -> bool:
        """Wait until something is asked or goes out; return whether it was.

        Counted are looks and not time: on a busy machine this process, too, is late.
        """
        changed = self._changed
        still = at_all = 0.0
        while still < HELD_SECONDS and at_all < HELD_MAX_SECONDS:
            try:
                await asyncio.wait_for(changed.wait(), _LOOK_SECONDS)
            except TimeoutError:
                at_all += _LOOK_SECONDS
                still += _LOOK_SECONDS if self._work() is None else 0
            else:
                return True
        return False

    async def _apart(self, turn: RecordedTurn) -> None:
        """Wait where an answer before was on its way together with this one."""
        last, before = self._last, self._last_to.get(self._reader(turn))
        is_noted = before is not None and before.turn.call in self._after
        if not self._is_kept:
            return
        if before and (turn.call in self._after or (is_noted and turn.call in before.beside)):
            await self._calm(before.at)
        elif (
            last and last.turn.scope != turn.scope and self._rank.get(last.turn.call, 0) > turn.seq
        ):
            await asyncio.sleep(max(0, last.at + _APART_SECONDS - time.monotonic()))

    def _reader(self, turn: RecordedTurn) -> str:
        """Return the conversation that takes note of an answer: one's own, or that above."""
        return turn.scope.rpartition("/")[0] if turn.call in self._after else turn.scope

    async def _calm(self, sent: float, enough: float = _WORKED_SECONDS) -> None:
        """Wait until the command has taken note of the answers sent at a time."""
        await asyncio.sleep(max(0, sent + _NOTED_SECONDS - time.monotonic()))
        until, looks, worked = time.monotonic() + HELD_MAX_SECONDS, 0, 0.0
        used = self._work()
        while looks < _CALM_LOOKS and worked < enough:
            if time.monotonic() > until:
                return
            changed = self._changed
            await asyncio.sleep(_LOOK_SECONDS)
            before, used = used, self._work()
            looks = looks + 1 if used is None and not changed.is_set() else 0
            worked += max(0, used - before) if used is not None and before is not None else 0

    def done(self, turn: RecordedTurn) -> None:
        """Take note that an answer is out."""
        self._left.pop(turn.call, None)
        self._open.discard(turn.call)
        self._last = _Sent(turn, time.monotonic(), frozenset(self._open))
        self._last_to[self._reader(turn)] = self._last
        self._tell()

    def stop(self) -> None:
        """Hold nothing any more: the program differs from its record."""
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
            "an answer was held for those that were whole before it when it was recorded, until "
            f"nothing had moved for {HELD_SECONDS:.0f} s: they were not asked for; from there on, "
            "answers went out as asked"
        )
        return [note]


class _Sent(NamedTuple):
    """An answer that is out."""

    turn: RecordedTurn
    at: float
    """On the monotonic clock."""
    beside: frozenset[str]
    """What waited for its answer then."""


def _ranks(
    turns: Sequence[RecordedTurn],
    tools: Mapping[str, RecordedTool],
    started_by: Mapping[str, str],
    after: dict[str, str],
    noted: dict[str, frozenset[str]],
) -> dict[str, float]:
    """Return the order in which answers go out, by call: that in which they were whole.

    An agent's requests show best when it took note of the last answer of one below it: not before
    the last request that does not show it; before the answer whose calls it did not make, for it
    was interrupted (Codex), after the one whose it did. `after` gets the request that has to be
    there; `noted`, by the answer before, the answers that it noted at once. One that it gave up on
    when it took note waits likewise: so much of it came that it looked.
    """
    rank = {turn.call: float(turn.over or 0) for turn in turns if turn.how == "answered"}
    scopes: dict[str, list[RecordedTurn]] = defaultdict(list)
    for turn in turns:
        scopes[turn.scope].append(turn)
    taken: Counter[tuple[str, str]] = Counter()
    notes: dict[str, list[RecordedTurn]] = defaultdict(list)
    lasts = sorted((each[-1] for each in scopes.values()), key=lambda turn: turn.over or 0)
    for at, last in enumerate(lasts):
        above = scopes.get(last.scope.rpartition("/")[0], [])
        said = text_of(last.answer.message or {}) if last.answer is not None else ""
        for before, turn in itertools.pairwise(above):
            added = turn.asked.messages[len(before.asked.messages) :]
            roles = [each["role"] for each in added if said in text_of(each)]
            shown = len(roles) - roles.count("assistant")
            if not said or turn.seq < (last.over or 0) or shown <= taken[turn.call, said]:
                continue
            taken[turn.call, said] += 1
            calls = [
                tools[key]
                for number in range(before.ordinal + 1, turn.ordinal)
                if (key := f"{turn.scope}#{number}") in tools
            ]
            is_made = any(each.end is not None for each in calls)
            if "user" in roles and before.how == "gone":
                after[last.call] = before.call
                rank[before.call] = max(rank.get(before.call, 0), rank[last.call] + 0.5)
                break
            if "user" in roles:  # it came as a message, while the agent did something else
                after[last.call] = before.call
                if is_made:
                    notes[before.call].append(last)
            if calls and before.call in rank and (before.over or 0) > last.seq:
                rank[last.call] = rank[before.call] + (0.5 if is_made else -0.5) + at * _NEXT
                if not is_made:
                    after[last.call] = before.call
            break
    for call, found in notes.items():
        began = max(scopes[each.scope][0].seq for each in found)
        is_its = any(_asked_in(started_by.get(each.scope, ""), call) for each in found)
        # One that began after another ended may have begun because that ended.
        if len(found) > 1 and not is_its and began < min(each.over or 0 for each in found):
            noted[call] = frozenset(each.call for each in found)
    return rank


def _asked_in(call: str, turn: str) -> bool:
    """Return whether a tool call was asked for in the answer to this request, or later."""
    return scope_of(call) == scope_of(turn) and number_of(call) > number_of(turn)
