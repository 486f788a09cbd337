"""The deterministic loop: order, scopes, timers, and nothing from outside (CONTRACT.md §9)."""

import asyncio
import contextvars
import gc
import itertools
import math
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from refold.engine.errors import OutsideLoop
from refold.engine.loop.loop import Future, Loop, Scope, Task, Timer, frames


class Bench:
    """A loop without a world: its clock is a number, its timers fire when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.armed: list[Timer] = []
        self.loop = Loop(  # type: ignore[abstract]  # what it lacks is refused, by name
            read_clock=self._look, peek_clock=lambda: self.now, arm=self.armed.append
        )

    def _look(self) -> float:
        self.looks += 1
        return self.now

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> Task:
        task = self.loop.spawn(coroutine, self.loop.root)
        self.loop.step()
        return task

    def fire(self, key: str) -> bool:
        fired = self.loop.fire(key)
        self.loop.step()
        return fired


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_callbacks_run_in_the_order_of_their_calls(bench: Bench) -> None:
    """One after the other, those that they add included, until none is ready."""
    seen: list[int] = []

    def first() -> None:
        seen.append(1)
        bench.loop.call_soon(seen.append, 3)

    bench.loop.call_soon(first)
    bench.loop.call_soon(seen.append, 2)
    cancelled = bench.loop.call_soon(seen.append, 9)
    cancelled.cancel()
    bench.loop.step()

    assert seen == [1, 2, 3]
    assert cancelled.cancelled()
    assert bench.loop.is_idle()


def test_sets_of_tasks_and_futures_iterate_alike_in_every_process(bench: Bench) -> None:
    """Case 49: `TaskGroup` and `wait` iterate sets; small ones of siblings keep their order."""

    async def program() -> list[list[str]]:
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(50)]
        names = [task.get_name() for task in set(tasks[25:] + tasks[:25])]
        await asyncio.wait(tasks)
        return [names, [task.get_name() for task in tasks]]

    task = bench.start(program())

    assert hash(task) == task.number
    found, created = task.result()
    assert found == created
    one, _unused, two = (bench.loop.create_future() for _ in range(3))
    assert isinstance(one, Future)
    drawn = [hash(one), hash(two)]
    assert drawn == [drawn[0], drawn[0] + 1]


def test_the_hash_of_a_task_follows_from_its_place() -> None:
    """As it did when logs were written: below the root 1, 2 …; elsewhere from the place above."""
    root = Scope("0")
    tasks = [root.child(), root.child()]
    below = [task.child() for task in tasks]

    assert [task.hash for task in tasks] == [1, 2]
    assert [each.hash & 0xFFFF for each in below] == [1, 1]
    assert len({each.hash for each in (*tasks, *below)}) == 4


def test_scopes_are_places_in_the_tree_of_tasks(bench: Bench) -> None:
    """Counted by the parent; a task's name is its scope where it has none of its own."""

    async def inner() -> str:
        return bench.loop.scope().path

    async def outer() -> list[str]:
        return [await asyncio.create_task(inner()), await asyncio.create_task(inner())]

    async def program() -> Any:
        named = asyncio.create_task(inner(), name="mine")
        results = await asyncio.gather(outer(), outer())
        return [named.get_name(), await named, *results, bench.loop.scope().path]

    assert bench.start(program()).result() == [
        "mine",
        "0/1",
        ["0/2/1", "0/2/2"],
        ["0/3/1", "0/3/2"],
        "0",
    ]


def test_calls_timers_and_tasks_are_counted_apart() -> None:
    """An added timer shifts no call key."""
    scope = Scope("0/2")

    keys = [scope.next_call(), scope.next_timer(), scope.next_call(), scope.next_timer()]

    assert keys == ["0/2#1", "0/2@1", "0/2#2", "0/2@2"]
    assert [scope.child().path, scope.child().path] == ["0/2/1", "0/2/2"]


def test_a_shared_context_does_not_share_a_scope(bench: Bench) -> None:
    """Frameworks pass one context to many tasks; the scope is the task's own."""
    context = contextvars.copy_context()

    async def where() -> str:
        return bench.loop.scope().path

    async def program() -> list[str]:
        tasks = [bench.loop.create_task(where(), context=context) for _ in range(3)]
        return [await task for task in tasks]

    assert bench.start(program()).result() == ["0/1", "0/2", "0/3"]


def test_a_task_made_past_the_loop_has_a_scope_of_its_own(bench: Bench) -> None:
    """Some frameworks construct `asyncio.Task` themselves."""

    async def where() -> list[str]:
        return [bench.loop.scope().path, bench.loop.scope().path]

    async def program() -> list[list[str]]:
        tasks = [asyncio.Task(where(), loop=bench.loop) for _ in range(2)]
        return [await task for task in tasks]

    assert bench.start(program()).result() == [["0/1", "0/1"], ["0/2", "0/2"]]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_are_ours_too(bench: Bench) -> None:
    """Asyncio's eager factory becomes an option of our own tasks."""

    async def at_once() -> str:
        return bench.loop.scope().path

    async def program() -> Any:
        bench.loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009 - a name that 3.11 lacks
        task = asyncio.create_task(at_once())
        return [task.done(), task.result(), type(task) is Task]

    assert bench.start(program()).result() == [True, "0/1", True]


def test_timers_fire_when_the_pump_says_so(bench: Bench) -> None:
    """One at a time, by key; the pump is told of each, and of its delay in microseconds."""

    async def program() -> list[str]:
        seen: list[str] = []
        bench.loop.call_later(2, seen.append, "late")
        bench.loop.call_later(1, seen.append, "soon")
        await asyncio.sleep(0.5)
        return seen

    task = bench.start(program())

    assert [(t.key, t.delay_us) for t in bench.armed] == [
        ("0@1", 2_000_000),
        ("0@2", 1_000_000),
        ("0@3", 500_000),
    ]
    assert not bench.loop.is_idle()
    assert bench.fire("0@1")
    assert not bench.fire("0@1")
    assert bench.fire("0@3")
    assert task.result() == ["late"]


def test_a_cancelled_timer_is_forgotten(bench: Bench) -> None:
    """Twenty thousand timeouts that never struck leave nothing behind."""

    async def program() -> None:
        for _ in range(1000):
            async with asyncio.timeout(5):
                await asyncio.sleep(0)

    bench.start(program())

    assert len(bench.armed) == 1000
    assert not bench.loop.timers
    assert not bench.fire("0@1")


def test_only_the_program_looks_at_the_clock(bench: Bench) -> None:
    """`asyncio.timeout`, `sleep` and `wait_for` arm by delay, and count as no look."""

    async def program() -> Any:
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        await asyncio.wait_for(asyncio.sleep(0), 5)
        looks = bench.looks
        return [looks, bench.loop.time(), bench.looks]

    assert bench.start(program()).result() == [0, 0.0, 1]


def test_call_at_waits_from_the_last_time_that_was_seen(bench: Bench) -> None:
    """A time in the past is due at once."""

    async def program() -> None:
        now = bench.loop.time()
        bench.loop.call_at(now + 3, print)
        timer = bench.loop.call_at(now - 3, print)
        assert timer.when() == now - 3

    bench.now = 10.0
    bench.start(program())

    assert [timer.delay_us for timer in bench.armed] == [3_000_000, 0]


def test_a_time_that_the_program_says_is_told_from_a_delay(bench: Bench) -> None:
    """`timeout_at` and `call_at` have a moment; `timeout` waits from wherever the clock is now."""

    async def program() -> None:
        now = bench.loop.time()
        async with asyncio.timeout_at(now + 3), asyncio.timeout(2) as timeout:
            timeout.reschedule(now + 4)
            await asyncio.sleep(0)
        bench.loop.call_at(now + 5, print)

    bench.now = 10.0
    bench.start(program())

    assert [timer.at_us for timer in bench.armed] == [13_000_000, None, 14_000_000, 15_000_000]


async def _limited(limit: Any) -> None:
    async with limit:
        await asyncio.sleep(0)


def _at(seconds: float) -> Callable[[Any], Any]:
    async def arm(loop: Any) -> None:
        loop.call_at(loop.time() + seconds, print)

    return arm


async def _plainly(loop: Any) -> None:
    loop.call_at(5.0, print)


async def _until(loop: Any) -> None:
    await _limited(asyncio.timeout_at(1 + loop.time()))


async def _moved(loop: Any) -> None:
    async with asyncio.timeout(None) as limit:
        limit.reschedule(loop.time() + 1)
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("arm", "length"),
    [
        (lambda _: _limited(asyncio.timeout(1)), 1_000_000),
        (_at(1), 1_000_000),
        (_at(0), 0),
        (_until, 1_000_000),
        (_moved, 1_000_000),
        (_plainly, None),
    ],
)
def test_a_length_is_what_the_program_said(
    bench: Bench, arm: Callable[[Any], Any], length: int | None
) -> None:
    """And never a time less a look at the clock, which is another one in each run."""

    async def program() -> None:
        for _ in range(2):
            await arm(bench.loop)
            bench.now += 0.3

    bench.start(program())

    assert [(timer.length_us, timer.nth) for timer in bench.armed] == [(length, 1), (length, 2)]


def test_a_timer_may_wait_for_ever(bench: Bench) -> None:
    """`math.inf` is how frameworks sleep until they are cancelled."""

    async def program() -> str:
        waits = asyncio.ensure_future(asyncio.sleep(math.inf))
        await asyncio.sleep(0)
        async with asyncio.timeout(math.inf), asyncio.timeout_at(math.inf):
            await asyncio.sleep(0)
        return "cancelled" if waits.cancel() else "ended before"

    assert bench.start(program()).result() == "cancelled"


def test_an_exception_that_nobody_awaits_goes_to_the_programs_handler(bench: Bench) -> None:
    """Asyncio would print it, which is no business of a recorded run."""
    seen: list[dict[str, Any]] = []
    bench.loop.call_soon(lambda: 1 / 0)
    bench.loop.step()
    bench.loop.set_exception_handler(lambda _loop, context: seen.append(context))
    bench.loop.call_soon(lambda: 1 / 0)
    bench.loop.step()

    assert [type(context["exception"]) for context in seen] == [ZeroDivisionError]
    assert bench.loop.get_exception_handler() is not None


def test_the_host_loop_is_back_after_a_step(bench: Bench) -> None:
    """A step in a thread where a loop runs leaves that one as it was."""

    async def inside() -> bool:
        return asyncio.get_running_loop() is bench.loop

    async def host() -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        done = bench.start(inside())
        assert not bench.loop.is_running()
        return [done.result(), asyncio.get_running_loop() is loop, asyncio.current_task() is task]

    async def callback() -> Any:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_soon(lambda: done.set_result(bench.start(inside()).result()))
        return [await done, asyncio.get_running_loop() is loop]

    if sys.version_info < (3, 14):
        assert asyncio.run(host()) == [True, True, True]
    assert asyncio.run(callback()) == [True, True]


def test_unfinished_tasks_are_kept_alive(bench: Bench) -> None:
    """Asyncio's references are weak; a lost task would be closed at a random time."""

    async def waits() -> None:
        await bench.loop.create_future()

    async def program() -> None:
        asyncio.create_task(waits())  # noqa: RUF006 - nobody keeps it, on purpose
        await asyncio.sleep(0)

    bench.start(program())
    gc.collect()

    assert [task.get_name() for task in bench.loop.unfinished] == ["0/1"]


def test_generators_left_open_are_known_in_the_order_of_their_start(bench: Bench) -> None:
    """The kernel closes them at the end of the run."""

    async def numbers(name: str) -> AsyncIterator[str]:
        yield name

    held = [numbers(name) for name in "abc"]

    async def program() -> None:
        for generator in (held[1], held[0]):
            await anext(generator)

    bench.start(program())

    assert bench.loop.open_generators() == [held[1], held[0]]
    assert bench.loop.open_generators() == []


def test_a_generator_dropped_in_a_step_is_closed_at_once(bench: Bench) -> None:
    """As asyncio does; not so one that the collector finds, at a time of its own."""
    seen: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            seen.append("closed")

    async def program() -> list[str]:
        async for _ in numbers():
            break
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return list(seen)

    assert bench.start(program()).result() == ["closed"]


def test_a_generator_in_a_cycle_is_closed_at_the_end_whether_it_was_collected_or_not(
    bench: Bench,
) -> None:
    """When the collector comes by is no matter of the program."""

    async def numbers(held: list[Any]) -> AsyncIterator[int]:
        yield len(held)

    async def begin(*, collects: bool) -> None:
        for _ in range(2):
            held: list[Any] = []
            held.append(numbers(held))
            await anext(held[0])
            del held
            if collects:
                gc.collect()
                collects = False

    for collects in (True, False):
        bench.start(begin(collects=collects))

        opened = bench.loop.open_generators()
        firsts = [generator.ag_frame.f_lineno for generator in opened]  # type: ignore[attr-defined]  # ours
        assert len(firsts) == 2


def test_a_generator_that_has_ended_is_not_open(bench: Bench) -> None:
    """It may be in memory yet, or not: nobody can tell, and the scopes of others do not shift."""

    async def numbers() -> AsyncIterator[int]:
        yield 1

    ended = numbers()

    async def program() -> list[int]:
        return [number async for number in ended]

    assert bench.start(program()).result() == [1]
    assert bench.loop.open_generators() == []


def test_a_failed_task_that_is_still_held_is_told_of_when_it_is_asked_for() -> None:
    """Once; one whose exception somebody has had is not."""
    told: list[tuple[str, str]] = []
    loop = Loop(  # type: ignore[abstract]  # what it lacks is refused, by name
        read_clock=float,
        peek_clock=float,
        arm=lambda _timer: None,
        unheard=lambda text, error: told.append((text, str(error))),
    )

    async def fails(name: str) -> None:
        raise ValueError(name)

    tasks = [loop.spawn(fails(name), loop.root.child()) for name in ("held", "heard")]
    loop.step()
    assert str(tasks[1].exception()) == "heard"
    for _ in range(2):
        loop.report_failed_tasks()

    assert told == [("Task exception was never retrieved", "held")]
    assert str(tasks[0].exception()) == "held"


def test_a_failed_task_goes_with_its_last_reference(bench: Bench) -> None:
    """From Python 3.12 on, its traceback leads to the loop's frames: none may lead back."""
    gone: list[str] = []

    async def fails() -> None:
        raise ValueError

    async def program() -> list[str]:
        task = asyncio.create_task(fails())
        weakref.finalize(task, gone.append, "gone")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        del task
        return list(gone)

    gc.disable()
    try:
        assert bench.start(program()).result() == ["gone"]
    finally:
        gc.enable()


def test_every_other_method_is_refused_by_its_name(bench: Bench) -> None:
    """Whatever asyncio adds to its loops, too: nothing falls through to an outside."""
    ours = {name for name in vars(Loop) if not name.startswith("_")}
    others = {name for name in dir(asyncio.AbstractEventLoop) if not name.startswith("_")}

    assert others <= ours
    with pytest.raises(OutsideLoop, match=r"loop\.sock_connect"):
        bench.loop.sock_connect(None, None)  # type: ignore[arg-type,unused-coroutine]  # refused
    assert bench.loop.refusal is not None
    with pytest.raises(OutsideLoop):
        bench.loop.stop()
    assert bench.loop.refusal.method == "loop.sock_connect"


def test_the_loop_takes_part_in_no_debugging(bench: Bench) -> None:
    """Debug mode reads clocks."""
    bench.loop.set_debug(True)

    assert not bench.loop.get_debug()
    assert not bench.loop.is_closed()
    asyncio.run(bench.loop.shutdown_asyncgens())
    asyncio.run(bench.loop.shutdown_default_executor())


def order_of(make: Callable[[], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    """Run a program that sleeps, firing timers in order; return what it returns."""
    bench = Bench()
    task = bench.start(make())
    for _ in itertools.takewhile(lambda _: not task.done(), range(100)):
        timer = min(bench.loop.timers.values(), key=lambda one: (one.delay_us, one.number))
        bench.fire(timer.key)
    result: list[Any] = task.result()
    return result


def test_the_primitives_of_asyncio_work() -> None:
    """Queue, Lock, Semaphore, Event, shield, groups, barriers: unmodified."""

    async def program() -> list[Any]:
        queue: asyncio.Queue[int] = asyncio.Queue(1)
        lock, semaphore, event = asyncio.Lock(), asyncio.Semaphore(2), asyncio.Event()
        seen: list[Any] = []

        async def produce() -> None:
            for number in range(3):
                await queue.put(number)
            event.set()

        async def consume() -> None:
            for _ in range(3):
                async with lock, semaphore:
                    seen.append(await queue.get())

        async with asyncio.TaskGroup() as group:
            group.create_task(produce())
            group.create_task(consume())
            group.create_task(event.wait())
        seen.append(await asyncio.shield(asyncio.sleep(0.1, "slept")))
        try:
            async with asyncio.timeout(0.1):
                await asyncio.sleep(1)
        except TimeoutError:
            seen.append("late")
        return seen

    assert order_of(program) == [0, 1, 2, "slept", "late"]


def test_it_can_be_imported_while_the_collector_comes_by() -> None:
    """Who collects is told of an exception on standard error, whatever runs just then."""
    code = "import gc; gc.set_threshold(1, 1000, 1000); import refold.engine.loop.loop"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)

    assert ran.stderr == b""


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_the_frames_of_threads_are_taken(
    collects: bool,  # noqa: FBT001 - of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And whoever has turned collection off finds it so."""
    seen: list[bool] = []
    take = sys._current_frames

    def looked() -> dict[int, Any]:
        seen.append(gc.isenabled())
        return take()

    monkeypatch.setattr(sys, "_current_frames", looked)
    if not collects:
        gc.disable()
    try:
        found = frames()
        assert (seen, gc.isenabled()) == ([False], collects)
    finally:
        gc.enable()
    assert found.keys() >= {threading.get_ident()}
