"""Records in simulated time: the same program always leaves the same log, on any machine.

The recorder, the kernel and the log are the real ones.  Simulated is the world: a tool or model
answers after a time that follows from what it was asked, timers fire when they are due, and a
child runs in a time of its own.  Nothing waits, so that a minute costs nothing.
"""

import heapq
import itertools
import queue
import zlib
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.events.events import ToolReturned
from refold.engine.events.outcome import Outcome
from refold.engine.log.names import child_path
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.effects import AskModel, CallTool
from refold.engine.ports.ports import CallContext, ChildRequest, ChildRunner, Tool
from refold.engine.recording.driver import (
    Arrival,
    CancelRun,
    Driver,
    Flight,
    ask_model,
    await_tool,
    call_tool,
)
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RunRequest
from refold.engine.recording.timers import Timers
from refold.engine.runners.child_run import child_run_request, outcome_of_recorded
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import recording_of, root_request

LATENCY_US_MAX: Final = 30_000


def record_simulated(
    program: Any, given: Any, log: Path, *, fast: bool = False, **options: Any
) -> Recording:
    """Record a program as `refold.record` does, in simulated time.

    With `fast`, a tool that is called alone runs in place, as it does outside of simulations.
    """
    request = root_request(program, given, log=log, durability="fast", **options)
    return recording_of(Simulated(request, fast=fast).record())


class _Now:
    """The time of one run, in microseconds since it began."""

    def __init__(self) -> None:
        self.us = 0


class _Timers(Timers):
    """Timers by simulated time, which is virtual time as well."""

    def __init__(self, now: _Now) -> None:
        super().__init__(FixedClock())
        self._now = now

    def now_us(self) -> int:
        return self._now.us

    def virtual_us(self, now: int | None = None) -> int:
        return self._now.us if now is None else now


class _Arrivals:
    """What comes back from the world, each at its time; waiting for it moves the time."""

    def __init__(self, now: _Now) -> None:
        self._now = now
        self._numbers = itertools.count()
        self._due: list[tuple[int, int, Any]] = []

    def put(self, arrival: Any, after_us: int = 0) -> None:
        heapq.heappush(self._due, (self._now.us + after_us, next(self._numbers), arrival))

    def drop(self, call: str) -> None:
        """Let what was to come of a call never come."""
        self._due = [one for one in self._due if getattr(one[2], "call", None) != call]
        heapq.heapify(self._due)

    def empty(self) -> bool:
        return not self._due or self._due[0][0] > self._now.us

    def get(self, timeout: float | None) -> Any:
        # At least a microsecond, for the grace of a stopped run ends after its moment.
        waits_us = 1 << 60 if timeout is None else max(1, round(timeout * 1_000_000))
        until = self._now.us + waits_us
        if not self._due:
            assert timeout is not None, "the run would wait for ever"
        if not self._due or self._due[0][0] > until:
            self._now.us = until
            raise queue.Empty
        due, _, arrival = heapq.heappop(self._due)
        self._now.us = max(self._now.us, due)
        return arrival


class _Driver(Driver):
    """Does the work at once, and lets it arrive when it is due."""

    def __init__(self, now: _Now, arrivals: _Arrivals, *, fast: bool) -> None:
        super().__init__(arrivals, host=Host())  # type: ignore[arg-type]  # it is asked for the same
        self._now, self._coming = now, arrivals
        self._fast = fast
        self._delegated: dict[str, tuple[int, ChildRequest]] = {}
        self._given_up: set[str] = set()

    def has_place(self, _tool: Any) -> bool:
        return self._fast

    def in_place(
        self, call: str, tool: Tool, arguments: dict[str, Json], context: CallContext
    ) -> ToolReturned | None:
        self._now.us += latency_us(arguments)
        if not tool.is_async:
            return super().in_place(call, tool, arguments, context)
        return _awaited(await_tool(tool, arguments, context))  # type: ignore[no-any-return]  # of this kind

    def call_tool(self, effect: CallTool, context: CallContext) -> None:
        self.flights[effect.call] = Flight(effect)
        if effect.tool.is_async:
            event = _awaited(await_tool(effect.tool, effect.arguments, context))
        else:
            event = call_tool(effect.tool, effect.arguments, context)
        self._coming.put(Arrival(effect.call, event), latency_us(effect.arguments))

    def ask_model(self, effect: AskModel) -> None:
        self.flights[effect.call] = Flight(effect)
        said = [dict(message) for message in effect.request.messages]
        self._coming.put(Arrival(effect.call, ask_model(effect)), latency_us(said))

    def run_child(self, call: str, _runner: ChildRunner, request: ChildRequest) -> None:
        self.flights[call] = Flight(request, request.cancel)
        self._delegated[call] = (self._now.us, request)
        outcome, took_us = _run_child(request, None, fast=self._fast)
        self._coming.put(Arrival(call, outcome), took_us)

    def give_up(self, call: str, *, is_lost: bool = False) -> None:  # noqa: ARG002 - as a Driver
        """End an effect; a child that has not ended yet is run again, and cancelled in time."""
        flight = self.flights.get(call)
        if flight is None or call in self._given_up:
            return
        self._given_up.add(call)
        self._coming.drop(call)
        if call in self._delegated:
            began_us, request = self._delegated.pop(call)
            outcome, took_us = _run_child(request, self._now.us - began_us, fast=self._fast)
            self._coming.put(Arrival(call, outcome), max(0, began_us + took_us - self._now.us))


class Simulated(Recorder):
    """A recorder whose world is simulated."""

    def __init__(
        self, request: RunRequest, *, cancelled_us: int | None = None, fast: bool = False
    ) -> None:
        super().__init__(request, Host())
        self.now = _Now()
        arrivals = _Arrivals(self.now)
        if cancelled_us is not None:
            arrivals.put(CancelRun(), cancelled_us)
        self._has_place = fast
        self._timers = _Timers(self.now)
        self._arrivals = arrivals  # type: ignore[assignment]  # it is asked for the same
        self._driver = _Driver(self.now, arrivals, fast=fast)


def _run_child(
    request: ChildRequest, cancelled_us: int | None, *, fast: bool
) -> tuple[Outcome, int]:
    """Record a child from its beginning; return its outcome, and how long it took."""
    assert request.log is not None
    _forget(request.log)
    simulated = Simulated(
        child_run_request(request, runner_name="in-process"),
        cancelled_us=cancelled_us,
        fast=fast and cancelled_us is None,  # a tool in place would outlast the cancellation
    )
    recorded = simulated.record()
    outcome = outcome_of_recorded(recorded, request)
    return attrs.evolve(outcome, duration_ms=0), simulated.now.us


def _forget(log: Path) -> None:
    log.unlink(missing_ok=True)
    for number in itertools.count(1):
        below = child_path(log, number)
        if not below.exists():
            return
        _forget(below)


def _awaited(coroutine: Any) -> Any:
    """Return what a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("a tool of a simulated run waits for nothing")


def latency_us(asked: Any) -> int:
    """Return how long the world takes to answer: the same for the same question, never a tie."""
    if isinstance(asked, dict) and isinstance(asked.get("ms"), int):
        return int(asked["ms"]) * 1000 + zlib.crc32(encode(asked)) % 1000
    return 500 + zlib.crc32(encode(asked)) % LATENCY_US_MAX
