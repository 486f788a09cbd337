"""Random programs whose timers fire, and edits of them.

A program is a list of steps, as data, so that an edit is an edit of data.  Every request says a
text of its own, and every timer has a length of its own, in milliseconds: what a log has of it can
be found again.
"""

import asyncio
import contextlib
import copy
import random
import re
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

import attrs

from refold import Run, tool
from refold.engine.events.events import scope_of
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.reader import read_entries
from refold.engine.ports.ports import Program
from refold.replay.difference.volatile import stable
from tests.support.simulated import record_simulated

Step = list[Any]
NEVER: Final = 900_000
"""Milliseconds that no program of these takes."""
MOMENTS: Final = ("sleep", "later", "at", "plainly")
TIMED: Final = ("sleep", "limit", "wait_for", "wait", "later", "at", "until")


@tool(effect="reads")
async def get(q: str, ms: int) -> str:
    """Get something, after as many milliseconds of simulated time."""
    return f"{q} in {ms} ms"


def program_of(steps: list[Step]) -> Program:
    """Return the program that takes these steps."""

    async def timed(run: Run, _input: Any) -> list[str]:
        said: list[str] = []
        await _walk(run, steps, said)
        return said

    return timed


async def _walk(run: Run, steps: list[Step], said: list[str]) -> None:
    for step in steps:
        await _take(run, step, said)


async def _take(run: Run, step: Step, said: list[str]) -> None:
    loop = asyncio.get_running_loop()

    def tell(name: str) -> None:
        said.append(name)
        run.annotate(name)

    match step:
        case ["tool", name, ms]:
            said.append(await run.tool(get, q=name, ms=ms))
        case ["sleep", _, ms]:
            await asyncio.sleep(ms / 1000)
        case ["later", name, ms]:
            loop.call_later(ms / 1000, tell, name)
        case ["at", name, ms]:
            loop.call_at(loop.time() + ms / 1000, tell, name)
        case ["plainly", name, ms]:
            loop.call_at(ms / 1000, tell, name)
        case ["cancelled", _, ms]:
            loop.call_later(ms / 1000, tell, "never").cancel()
        case ["both", *branches]:
            await asyncio.gather(*(_walk(run, branch, said) for branch in branches))
        case [kind, name, ms, inner]:
            try:
                await _within(kind, ms / 1000, _walk(run, inner, said))
            except TimeoutError:
                tell(name)


async def _within(kind: str, seconds: float, inner: Coroutine[Any, Any, None]) -> None:
    """Wait for what is inside a limit of a kind."""
    match kind:
        case "limit":
            async with asyncio.timeout(seconds):
                await inner
        case "until":
            end = asyncio.get_running_loop().time() + seconds
            async with asyncio.timeout_at(end):
                await inner
        case "wait_for":
            await asyncio.wait_for(inner, seconds)
        case _:
            task = asyncio.create_task(inner)
            _, rest = await asyncio.wait([task], timeout=seconds)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            if rest:
                raise TimeoutError


class Author:
    """Writes random programs, and edits them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._names = 0
        self._lengths = self.rng.sample(range(1, 60), 40)

    def steps(self, depth: int = 0) -> list[Step]:
        """Return a few steps, a branch of which may have more."""
        return [self._step(depth) for _ in range(self.rng.randint(2, 4))]

    def length(self) -> int:
        """Return milliseconds that no other timer of the program has."""
        return self._lengths.pop()

    def _name(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _step(self, depth: int) -> Step:
        kinds = ["tool", *MOMENTS]
        if depth < 2 and len(self._lengths) > 20:
            kinds += ["both", "both", "limit", "until", "wait_for", "wait"]
        kind = self.rng.choice(kinds)
        if kind == "tool":
            return [kind, self._name("k"), self.rng.randint(1, 40)]
        if kind == "both":
            return [kind, *(self.steps(depth + 1) for _ in range(self.rng.randint(2, 3)))]
        if len(self._lengths) < 4:
            return ["tool", self._name("k"), self.rng.randint(1, 40)]
        step: Step = [kind, self._name("t"), self.length()]
        return step if kind in MOMENTS else [*step, self.steps(depth + 1)]

    def with_neutral(self, steps: list[Step]) -> list[Step]:
        """Put in a limit that is never reached, or a timer that is cancelled at once."""
        edited = copy.deepcopy(steps)
        body = self.rng.choice(bodies_of(edited))
        begin = self.rng.randrange(len(body))
        if self.rng.random() < 0.5:
            body.insert(begin, ["cancelled", "", self.rng.choice([NEVER, 5])])
        else:
            end = self.rng.randint(begin + 1, len(body))
            kind = self.rng.choice(["limit", "wait_for"])
            body[begin:end] = [[kind, "never", NEVER, body[begin:end]]]
        return edited

    def edit(self, steps: list[Step], fired: set[int]) -> "tuple[str, list[Step]] | None":
        """Return an edit of a timer that fired, and what it is called; `None` where none is."""
        edited = copy.deepcopy(steps)
        timers = [one for body in bodies_of(edited) for one in body if one[0] in TIMED]
        those = [one for one in timers if one[2] * 1000 in fired]
        if not those:
            return None
        what = self.rng.choice(["longer", "shorter", "swapped", "added", "wrong limit"])
        one = self.rng.choice(those)
        limits = [each for each in those if len(each) == _OF_LIMIT]
        match what:
            case "longer":
                one[2] += self.rng.choice([1, 7, 40, NEVER])
            case "shorter":
                one[2] = max(0, one[2] - self.rng.choice([1, 7, 20, 60]))
            case "swapped" if len(timers) > 1:
                other = self.rng.choice([each for each in timers if each is not one])
                one[2], other[2] = other[2], one[2]
            case "wrong limit" if limits:
                self.rng.choice(limits)[2] = NEVER
            case _:
                what = "added"
                body = self.rng.choice(bodies_of(edited))
                kind = self.rng.choice(["sleep", "later", "at"])
                body.insert(self.rng.randrange(len(body) + 1), [kind, "added", self.length()])
        return what, edited


_OF_LIMIT: Final = 4


def bodies_of(steps: list[Step]) -> list[list[Step]]:
    """Return the lists of steps of a program, itself first."""
    found = [steps]
    for step in steps:
        inner = step[1:] if step[0] == "both" else step[3:]
        for each in inner:
            found += bodies_of(each)
    return found


@attrs.frozen
class Done:
    """A program that was recorded in simulated time."""

    log: Path
    lines: list[Any]
    """What it did, in order: its requests and results; of timers, scope and length."""
    fired: set[int]
    """Lengths of the timers that fired, in microseconds."""

    @property
    def without_timers(self) -> list[Any]:
        """What it did, but for timers."""
        return [line for line in self.lines if line[0] != "timer.fired"]


_OF_ITS_OWN: Final = ("fingerprint", "virtual_us", "time_us")


def recorded(steps: list[Step], log: Path) -> Done:
    """Record a program."""
    record_simulated(program_of(steps), None, log, tools=[get], seed=7)
    lines: list[Any] = []
    fired: set[int] = set()
    for entry in read_entries(log):
        data, call = stable(entry.kind, entry.data), entry.call
        if entry.kind == "timer.fired":
            length = entry.data.get("length_us")
            fired.add(length or 0)
            call, data = scope_of(entry.call or ""), {"length_us": length}
        data = {name: value for name, value in data.items() if name not in _OF_ITS_OWN}
        lines.append((entry.kind, call, data))
    return Done(log, lines, fired)


def spread(log: Path, apart_us: int) -> None:
    """Write a log anew whose lines were written so far apart, by the clock of `meta`."""
    previous, lines = NO_HASH, []
    for number, line in enumerate(log.read_bytes().splitlines(keepends=True)):
        at = b'"mono_us":%d' % (1 + number * apart_us)
        body = re.sub(rb'"mono_us":[0-9]+', at, line[: line.rindex(b',"hash":"')])
        lines.append(body + trailer(previous, body))
        previous = stored_hash(lines[-1]) or b""
    log.write_bytes(b"".join(lines))
