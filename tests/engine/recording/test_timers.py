"""The time of a run: clocks, timers and what is due (CONTRACT.md §9.3)."""

import time
from typing import Any

from refold.engine.events.events import ClockRead
from refold.engine.loop.loop import Loop, Timer
from refold.engine.ports.clock import FixedClock, fixed_at
from refold.engine.ports.effects import CallTool
from refold.engine.recording.timers import Timers
from refold.tools.contract.tool_types import FunctionTool, tool

HOUR_US = 3_600_000_000


def armed_by(loop: Any, *delays: float) -> list[Timer]:
    """Return timers of one step of a loop."""
    made: list[Timer] = []

    async def program() -> None:
        made.extend(loop.call_later(delay, print) for delay in delays)

    loop.spawn(program(), loop.root)
    loop.step()
    return made


def loop_of(into: Timers) -> Any:
    """Return a loop whose timers go into `into`."""

    def arm(timer: Timer) -> None:
        into.arm(timer, len(loop.timers), 0)

    loop: Any = Loop(read_clock=lambda: 0.0, peek_clock=lambda: 0.0, arm=arm)  # type: ignore[abstract]  # as the kernel does
    return loop


def slow(seconds: float) -> FunctionTool[..., Any]:
    @tool(effect="reads", timeout_seconds=seconds)
    def waits() -> None: ...

    return waits


def test_the_first_that_is_due_is_taken_once() -> None:
    """By time, then in the order of arming; what is not due stays."""
    timers = Timers(None)
    loop = loop_of(timers)

    late, early, same = armed_by(loop, 7200, 10, 10)

    assert timers.take(timers.now_us()) is None
    now = timers.now_us() + HOUR_US
    assert [timers.take(now), timers.take(now), timers.take(now)] == [early, same, None]
    assert timers.next_us() is not None
    assert timers.take(now + 2 * HOUR_US) is late
    assert timers.next_us() is None


def test_what_was_cancelled_is_never_due_and_is_not_kept() -> None:
    """A program may arm and disarm one around every call."""
    timers = Timers(None)
    loop = loop_of(timers)

    for _ in range(200):
        armed_by(loop, 3600)[0].cancel()
    (kept,) = armed_by(loop, 7200)

    due = timers.next_us()
    assert due is not None
    assert due < 2 * HOUR_US + 60_000_000
    assert timers.take(timers.now_us() + 3 * HOUR_US) is kept


def test_a_tool_has_a_deadline_only_if_it_says_so() -> None:
    """It is taken as the effect that it ends."""
    timers = Timers(None)
    timers.watch(CallTool("0#1", slow(60), {}))
    untimed = tool(effect="reads")(test_a_tool_has_a_deadline_only_if_it_says_so)
    timers.watch(CallTool("0#2", untimed, {}))
    timers.watch(CallTool("0#3", slow(1e308), {}))  # in microseconds, that is infinite

    due = timers.take(timers.now_us() + HOUR_US)

    assert isinstance(due, CallTool)
    assert due.call == "0#1"
    assert timers.take(timers.now_us() + 1_000_000 * HOUR_US) is None


def test_a_given_clock_says_the_virtual_time_and_no_deadline() -> None:
    """Time that stands still lets nothing wait for ever."""
    timers = Timers(FixedClock())
    began = time.monotonic_ns()

    read = timers.read(0)
    while time.monotonic_ns() < began + 2_000_000:
        pass

    assert (read.time_us, read.virtual_us) == (FixedClock().time_us(), 0)
    assert timers.virtual_us() == 0
    assert timers.now_us() >= 2_000


def test_a_run_that_goes_on_has_the_time_of_its_record() -> None:
    """What is left of each timer counts from there."""
    timers = Timers(None)
    (timer,) = armed_by(loop_of(Timers(None)), 10)

    timers.go_on(HOUR_US, HOUR_US, [(5_000_000, timer)])

    assert HOUR_US <= timers.now_us() < 2 * HOUR_US
    assert timers.next_us() == HOUR_US + 5_000_000
    fixed = Timers(FixedClock())
    fixed.go_on(HOUR_US, 7, [])
    assert fixed.virtual_us() == 7


def test_a_look_tells_the_time_of_the_machine_or_of_the_clock_that_was_given() -> None:
    before = time.time_ns() // 1000
    read = Timers(None).read(0)
    after = time.time_ns() // 1000

    assert before <= read.time_us <= after
    assert Timers(fixed_at(HOUR_US)).read(0) == ClockRead(HOUR_US, 0)


def test_the_timers_of_a_step_count_from_one_instant() -> None:
    """From its first look or timer on; those that are due at once fire in order of creation."""
    timers = Timers(None)
    read = timers.read(0)
    seen = read.virtual_us / 1_000_000
    loop: Any = Loop(  # type: ignore[abstract]  # as the kernel does
        read_clock=lambda: seen, peek_clock=lambda: seen, arm=lambda one: timers.arm(one, 1, 0)
    )
    made: list[Timer] = []

    async def program() -> None:
        for seconds in (7, 5, 7, 5):
            began = time.monotonic_ns()
            while time.monotonic_ns() < began + 5_000:  # each is armed at a moment of its own
                pass
            made.append(loop.call_later(seconds, print))
            made.append(loop.call_at(loop.time() + seconds, print))

    loop.spawn(program(), loop.root)
    loop.step()

    fired = [timers.take(HOUR_US) for _ in range(9)]
    assert fired == [*(made[at] for at in (2, 3, 6, 7, 0, 1, 4, 5)), None]
    assert timers.read(0).virtual_us == read.virtual_us < timers.read(1).virtual_us


def test_a_step_that_a_timer_began_counts_from_its_firing() -> None:
    timers = Timers(None)

    timers.begin(3, 40)

    assert timers.read(3).virtual_us == 40


def test_virtual_time_may_be_ahead() -> None:
    """Recorded sleeps take no time, and a fork is younger than its beginning."""
    timers = Timers(None)
    timers.reach(HOUR_US)
    timers.reach(5)

    assert HOUR_US <= timers.virtual_us() < 2 * HOUR_US
    assert timers.now_us() < HOUR_US
    timers.go_on(7, 3 * HOUR_US, [])
    assert 3 * HOUR_US <= timers.virtual_us() < 4 * HOUR_US
