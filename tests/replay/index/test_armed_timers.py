"""Which timer of a program a recorded firing is of (CONTRACT.md §12.2)."""

from typing import Any

import pytest

from refold.engine.events.events import TimerFired
from refold.engine.loop.loop import Loop, Timer
from refold.replay.index.armed_timers import ArmedTimers

SECOND = 1_000_000


class Bench:
    """A program whose timers are armed step by step, at times that the test says."""

    def __init__(self, *, in_order: bool = True) -> None:
        self.armed: list[Timer] = []
        self.loop: Any = Loop(read_clock=lambda: 0.0, peek_clock=lambda: 0.0, arm=self._arm)  # type: ignore[abstract]  # as the kernel does
        self.due = ArmedTimers(self.loop.timers, in_order=in_order)
        self._step, self._mono_us = 0, 0

    def _arm(self, timer: Timer) -> None:
        self.armed.append(timer)
        self.due.arm(timer, self._step, self._mono_us)

    def step(self, *seconds: float, step: int = 0, mono_us: int = 0) -> list[Timer]:
        """Arm timers in one step of the main task; a negative one is a time and no length."""
        self._step, self._mono_us = step, mono_us
        before = len(self.armed)

        async def program() -> None:
            for each in seconds:
                if each < 0:
                    self.loop.call_at(-each, print)
                else:
                    self.loop.call_later(each, print)

        self.loop.spawn(program(), self.loop.root)
        self.loop.step()
        return self.armed[before:]

    def of(self, call: str, virtual: float, length_us: int | None, nth: int) -> Timer | None:
        """Return the timer of a firing at a time, with its length and number."""
        return self.due.of(call, TimerFired(round(virtual * SECOND), length_us, nth=nth))


def test_a_firing_goes_to_the_first_timer_of_its_length() -> None:
    """Whatever its number: a limit that was put in, and a timer that was cancelled, shift it."""
    bench = Bench()
    limit, cancelled, one, other = bench.step(900, 2, 2, 2)
    cancelled.cancel()

    assert bench.of("0@1", 2, 2 * SECOND, 1) is one
    one.cancel()
    assert bench.of("0@2", 2, 2 * SECOND, 2) is other
    other.cancel()
    assert bench.of("0@3", 2, 2 * SECOND, 3) is None
    assert bench.of("0/1@1", 900, 900 * SECOND, 1) is None
    assert not limit.is_cancelled


def test_where_the_order_says_nothing_it_goes_to_the_number_among_its_length() -> None:
    """A fork fires its recorded timers as they come; one that did not fire may be armed before."""
    bench = Bench(in_order=False)
    first, second = bench.step(2, 2)

    assert bench.of("0@2", 0, 2 * SECOND, 2) is second
    assert bench.of("0@9", 0, 2 * SECOND, 9) is first


def test_a_time_without_a_length_goes_by_what_is_due() -> None:
    """None fires before its time; of two that are past, the one of the recorded number."""
    bench = Bench()
    late, early = bench.step(-5, -3)

    assert bench.of("0@1", 3.1, None, 1) is early
    assert bench.of("0@2", 6, None, 2) is early
    assert bench.of("0@1", 6, None, 1) is late
    assert bench.of("0@1", 2, None, 1) is None


def test_of_one_step_the_shorter_one_fires_first() -> None:
    """And of two that are equally long, the one that was armed first."""
    bench = Bench()
    long, short, same = bench.step(2, 1, 1)

    assert bench.due.before(long, 2 * SECOND) is short
    assert bench.due.before(same, 2 * SECOND) is short
    assert bench.due.before(short, 2 * SECOND) is None


def test_one_that_was_armed_before_and_is_no_longer_fires_first() -> None:
    """When the later step was need not be known."""
    bench = Bench()
    (first,) = bench.step(1)
    (later,) = bench.step(2, step=7)

    assert bench.due.before(later, 9 * SECOND) is first


def test_one_that_was_armed_later_may_be_due_before_or_not() -> None:
    """Unless the record shows when its step was, nothing is said."""
    bench = Bench()
    (long,) = bench.step(5)
    (short,) = bench.step(1, step=7)
    assert bench.due.before(long, 6 * SECOND) is None

    bench.due.saw(7, 3 * SECOND)  # a look at the clock in the step

    assert bench.due.before(long, 6 * SECOND) is short
    short.cancel()
    assert bench.due.before(long, 6 * SECOND) is None


def test_a_step_that_is_past_by_a_known_time_was_before_it() -> None:
    bench = Bench()
    (long,) = bench.step(5)
    (short,) = bench.step(1, step=7)

    bench.due.saw(9, 2 * SECOND)

    assert bench.due.before(long, 6 * SECOND) is short


def test_without_order_nothing_is_due_before() -> None:
    """Logs of a given clock have true orders that look impossible."""
    bench = Bench(in_order=False)
    long, _short = bench.step(2, 1)

    assert bench.due.before(long, 2 * SECOND) is None


@pytest.mark.parametrize(("at", "overdue"), [(2.05, []), (2.2, ["0@1"])])
def test_a_timer_is_overdue_where_a_line_comes_much_later(at: float, overdue: list[str]) -> None:
    """Not one that was cancelled, nor one that waits for a plain time, nor one that fires yet."""
    bench = Bench()
    _, cancelled, _, _, fires = bench.step(2, 1, 60, -1, 1.5)
    cancelled.cancel()

    bench.due.pass_by(round(at * SECOND))
    bench.due.pass_by(round(at * SECOND))
    assert bench.of("0@5", at, 1_500_000, 1) is fires

    assert [*bench.due.overdue] == overdue


def test_timers_that_are_gone_are_not_kept() -> None:
    """A program may arm and disarm one around every call."""
    bench = Bench()
    (kept,) = bench.step(3)
    for _ in range(300):
        bench.step(60)[0].cancel()

    assert len(bench.due._by_key) < 100
    assert bench.of("0@1", 3, 3 * SECOND, 1) is kept
