"""Random programs, run three ways: on the fast path, the general way, and on asyncio itself.

A program is a tree, `[kind, number, inner nodes]`; numbers are unique, so that no two calls take
equally long.  It keeps a trace of all that happens in it, in order.  Time is virtual in all three
ways: `tests.support.simulated` records, and a loop of asyncio's own jumps from timer to timer.
"""

import asyncio
import contextlib
import contextvars
import functools
import random
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from refold.engine.errors import ToolError
from refold.engine.loop.loop import Scope
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recorded import Recording
from refold.replay.reexecute.reexecute import replay_tree
from refold.replay.reexecute.report import ReplayReport, RunAgain, Watch
from refold.tools.contract.tool_types import tool
from tests.support.simulated import latency_us, record_simulated

Node = list[Any]
_TENANT: contextvars.ContextVar[int] = contextvars.ContextVar("tenant", default=0)


# --- tools -------------------------------------------------------------------------------------


@tool(effect="pure")
def twice(ms: int) -> int:
    """Double."""
    return 2 * ms


@tool(effect="reads")
async def work(ms: int) -> dict[str, int]:
    """Add one, on a loop."""
    return {"value": ms + 1}


@tool(effect="changes")
def pay(ms: int) -> list[int]:
    """Change something."""
    return [ms]


@tool(effect="idempotent")
async def fails(ms: int) -> int:
    """Fail."""
    raise ValueError(f"no {ms}")


@tool(effect="reads")
def handles(ms: int) -> str:
    """Say which exception its caller handles: a tool sees none of the program's."""
    return f"{ms} {type(sys.exception()).__name__}"


@tool(effect="reads")
def drives(ms: int) -> int:
    """Drive an asynchronous generator to its first value, and drop it."""

    async def numbers() -> AsyncIterator[int]:
        yield ms

    with contextlib.suppress(StopIteration):
        numbers().__anext__().__await__().__next__()
    return ms


TOOLS: Final = (twice, work, pay, fails, handles, drives)
_CALLS: Final = tuple(one.name for one in TOOLS)


# --- trees -------------------------------------------------------------------------------------

_LEAVES: Final = (
    *_CALLS * 3,
    "sleep",
    "zero",
    "cancel_self",
    "cancel_all",
    "uncancel",
    "time",
    "tenant",
)
_INNER: Final = (
    "sequence",
    "gather",
    "gather_all",
    "group",
    "failing_group",
    "as_completed",
    "first",
    "timeout",
    "timeout_at",
    "wait_for",
    "queue",
    "lock",
    "barrier",
    "condition",
    "event",
    "shield",
    "cancel_other",
    "caught",
    "finally",
    "handled",
    "generator",
    "thrown",
    "task",
    "soon",
    "later",
    "done",
    "by_hand",
)
_OURS: Final = ("child", "drawn", "dropped", "polls", "leaves")
"""What asyncio does not have, or has in no fixed order."""


def random_tree(seed: int, *, ours: bool = False, size: int = 14) -> Node:
    """Return a tree of about `size` nodes; `ours` says whether asyncio need not know its kinds."""
    rng = random.Random(seed)
    numbers = iter(rng.sample(range(1, 1000), 999))
    left = size

    def node(depth: int) -> Node:
        nonlocal left
        left -= 1
        kinds = _LEAVES
        if left > 0 and depth < 5 and rng.random() < 0.65:
            kinds = (*_INNER, *_OURS) if ours else _INNER
        kind = rng.choice(kinds)
        many = 0 if kind in _LEAVES else rng.randint(1, 3)
        return [kind, next(numbers), [node(depth + 1) for _ in range(many)]]

    return ["sequence", 0, [["caught", next(numbers), [node(0)]] for _ in range(4)]]


# --- programs ----------------------------------------------------------------------------------


class Face(Protocol):
    """What a tree asks of the world."""

    async def tool(self, name: str, ms: int) -> Any:
        """Call a tool."""

    def note(self, text: str) -> None:
        """Note something."""

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Return all tasks, in the order of their creation."""

    async def ours(self, kind: str, number: int, inner: Node) -> Any:
        """Do what asyncio does not have."""


@attrs.frozen
class _Recorded:
    run: Run

    async def tool(self, name: str, ms: int) -> Any:
        return await self.run.tool(name, ms=ms)

    def note(self, text: str) -> None:
        self.run.annotate(text)

    def tasks(self) -> list[asyncio.Task[Any]]:
        return list(asyncio.all_tasks())

    async def ours(self, kind: str, number: int, inner: Node) -> Any:
        if kind == "child":
            outcome = await self.run.delegate(Delegation(program=child, input=inner))
            return [outcome.status, outcome.output]
        return [self.run.now().isoformat(), self.run.uuid(), self.run.random("s").random(), number]


@attrs.frozen
class Tree:
    """A program made of nodes, and what happens in it."""

    face: Face
    trace: list[str]

    def say(self, text: str) -> None:
        """Keep that something happened, and note it."""
        self.trace.append(text)
        self.face.note(text)

    async def run(self, node: Node) -> Any:
        """Run a node, and return what came of it."""
        kind, number, inner = node
        self.trace.append(f"{kind} {number}")
        if kind in _CALLS:
            return await self._call(kind, number)
        if kind in _LEAVES:
            return await self._leaf(kind, number)
        result = await _KINDS[kind](self, number, inner)
        self.trace.append(f"{kind} {number}: {result!r}")
        return result

    async def _call(self, name: str, number: int) -> Any:
        try:
            result = await self.face.tool(name, number)
        except ToolError as error:
            result = f"{error.message}, {type(error.__context__).__name__}"
        self.trace.append(repr(result))
        return result

    async def _leaf(self, kind: str, number: int) -> Any:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        match kind:
            case "sleep":
                await asyncio.sleep(number * 331e-6)
            case "zero":
                await asyncio.sleep(0)
            case "cancel_self":
                task.cancel(f"by {number}")
            case "cancel_all":
                for each in self.face.tasks():
                    each.cancel(f"all by {number}")
            case "uncancel":
                return task.uncancel()
            case "time":
                return round(loop.time() * 1_000_000)
            case _:
                before = _TENANT.get()
                _TENANT.set(number)
                return before
        return None

    async def all(self, inner: list[Node]) -> list[Any]:
        """Run nodes one after the other."""
        return [await self.run(one) for one in inner]

    def begun(self, inner: list[Node]) -> list[asyncio.Task[Any]]:
        """Run each node in a task of its own."""
        return [asyncio.create_task(self.run(one)) for one in inner]


Kind = Callable[[Tree, int, list[Node]], Awaitable[Any]]


async def _sequence(tree: Tree, _number: int, inner: list[Node]) -> Any:
    return await tree.all(inner)


async def _gather(tree: Tree, _number: int, inner: list[Node]) -> Any:
    return await asyncio.gather(*(tree.run(one) for one in inner))


async def _gather_all(tree: Tree, _number: int, inner: list[Node]) -> Any:
    found = await asyncio.gather(*(tree.run(one) for one in inner), return_exceptions=True)
    return [str(one) for one in found]


async def _group(tree: Tree, _number: int, inner: list[Node]) -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(tree.run(one)) for one in inner]
    return [task.result() for task in tasks]


async def _failing_group(tree: Tree, number: int, inner: list[Node]) -> Any:
    async def tidy(one: Node) -> None:
        try:
            await tree.run(one)
        finally:
            tree.say(f"tidies {one[1]}")
            await tree.face.tool("pay", one[1])

    async def fail() -> None:
        await tree.face.tool("work", number)
        raise RuntimeError(str(number))

    failed = 0
    try:
        async with asyncio.TaskGroup() as group:
            for one in inner:
                group.create_task(tidy(one))
            group.create_task(fail())
    except* RuntimeError as errors:
        failed = len(errors.exceptions)
    return failed


async def _as_completed(tree: Tree, number: int, inner: list[Node]) -> Any:
    results = []
    for future in asyncio.as_completed(tree.begun(inner)):
        results.append(await future)
        if len(results) == 1:
            await tree.face.tool("twice", number)
    return results


async def _first(tree: Tree, number: int, inner: list[Node]) -> Any:
    tasks = tree.begun(inner)
    limit = number * 499e-6 if number % 3 == 0 else None
    done, rest = await asyncio.wait(tasks, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        if task in rest:
            task.cancel(f"late {number}")
    if rest:
        await asyncio.wait(rest)
    return [sorted(map(tasks.index, done)), *map(_end_of, tasks)]


def _end_of(task: asyncio.Task[Any]) -> str:
    if task.cancelled():
        return "cancelled"
    return repr(task.exception() or task.result())


async def _timeout(tree: Tree, number: int, inner: list[Node]) -> Any:
    try:
        async with asyncio.timeout(number * 661e-6):
            return await tree.all(inner)
    except TimeoutError:
        return ["late", await tree.face.tool("twice", number)]


async def _timeout_at(tree: Tree, number: int, inner: list[Node]) -> Any:
    until = asyncio.get_running_loop().time() + number * 661e-6
    try:
        async with asyncio.timeout_at(until) as limit:
            result = await tree.all(inner)
            limit.reschedule(until + 1)
            return [result, await tree.face.tool("work", number)]
    except TimeoutError:
        return "too late"


async def _wait_for(tree: Tree, number: int, inner: list[Node]) -> Any:
    try:
        if hasattr(asyncio, "eager_task_factory"):
            return await asyncio.wait_for(tree.run(inner[0]), number * 661e-6)
        async with asyncio.timeout(number * 661e-6):  # as `wait_for` does from Python 3.12 on
            return await tree.run(inner[0])
    except TimeoutError:
        return "late"


async def _queue(tree: Tree, number: int, inner: list[Node]) -> Any:
    queue: asyncio.Queue[Any] = asyncio.Queue(1 + number % 2)

    async def puts() -> None:
        for one in inner:
            await queue.put(await tree.run(one))
        await queue.put(None)

    producer, found = asyncio.create_task(puts()), []
    while (value := await queue.get()) is not None:
        found.append([value, await tree.face.tool("twice", number)])
    await producer
    return found


async def _lock(tree: Tree, number: int, inner: list[Node]) -> Any:
    lock = asyncio.Lock() if number % 2 else asyncio.Semaphore(1 + number % 3)

    async def locked(one: Node) -> Any:
        async with lock:
            return await tree.run(one)

    return await asyncio.gather(*map(locked, inner))


async def _barrier(tree: Tree, _number: int, inner: list[Node]) -> Any:
    barrier = asyncio.Barrier(len(inner))

    async def meets(one: Node) -> Any:
        try:
            return [await tree.run(one), await barrier.wait()]
        except asyncio.CancelledError:
            await barrier.abort()
            raise
        except asyncio.BrokenBarrierError:
            return "broken"

    return await asyncio.gather(*map(meets, inner))


async def _condition(tree: Tree, number: int, inner: list[Node]) -> Any:
    ready: list[Any] = []
    condition = asyncio.Condition()

    async def waits() -> Any:
        async with condition:
            await condition.wait_for(lambda: len(ready) >= len(inner))
            return await tree.face.tool("work", number)

    task = asyncio.create_task(waits())
    for one in inner:
        ready.append(await tree.run(one))
        async with condition:
            condition.notify_all()
    return [ready, await task]


async def _event(tree: Tree, number: int, inner: list[Node]) -> Any:
    event = asyncio.Event()

    async def waits() -> Any:
        await event.wait()
        return await tree.face.tool("twice", number)

    task = asyncio.create_task(waits())
    try:
        result = await tree.all(inner)
    finally:
        event.set()
    return [result, await task]


async def _shield(tree: Tree, number: int, inner: list[Node]) -> Any:
    task = asyncio.create_task(tree.run(inner[0]))
    try:
        async with asyncio.timeout(number * 331e-6):
            return await asyncio.shield(task)
    except TimeoutError:
        return ["shielded", await task]


async def _cancel_other(tree: Tree, number: int, inner: list[Node]) -> Any:
    tasks = tree.begun(inner)
    await asyncio.sleep(0)
    await tree.face.tool("work", number)
    for task in tasks[::-1]:
        task.cancel(f"other {number}")
    await asyncio.wait(tasks)
    return [*map(_end_of, tasks)]


async def _caught(tree: Tree, number: int, inner: list[Node]) -> Any:
    try:
        return await tree.all(inner)
    except asyncio.CancelledError as error:
        tree.say(f"caught {error.args}")
        task = asyncio.current_task()
        if number % 2 and task is not None:
            task.uncancel()
        return await tree.face.tool("twice", number)


async def _finally(tree: Tree, number: int, inner: list[Node]) -> Any:
    try:
        return await tree.all(inner)
    finally:
        tree.say(f"finally {number}")
        await tree.face.tool("pay", number)


async def _handled(tree: Tree, number: int, inner: list[Node]) -> Any:
    try:
        [][number]
    except IndexError:
        return [await tree.face.tool("handles", number), await tree.all(inner)]


async def _pages(tree: Tree, number: int, inner: list[Node]) -> AsyncIterator[Any]:
    try:
        for one in inner:
            try:
                yield await tree.run(one)
            except KeyError:
                yield "thrown"
    finally:
        tree.say(f"closes {number}")
        await tree.face.tool("pay", number)


async def _generator(tree: Tree, number: int, inner: list[Node]) -> Any:
    async with contextlib.aclosing(_pages(tree, number, inner)) as pages:  # type: ignore[type-var]  # it is a generator
        async for page in pages:
            if number % 2:
                return page
        return await tree.face.tool("twice", number)


async def _thrown(tree: Tree, number: int, inner: list[Node]) -> Any:
    pages: Any = _pages(tree, number, inner)
    async with contextlib.aclosing(pages):
        return [await anext(pages), await pages.athrow(KeyError(number))]


async def _task(tree: Tree, _number: int, inner: list[Node]) -> Any:
    return [await task for task in tree.begun(inner)]


async def _soon(tree: Tree, number: int, inner: list[Node]) -> Any:
    loop = asyncio.get_running_loop()
    made: asyncio.Future[list[asyncio.Task[Any]]] = loop.create_future()

    def call() -> None:
        tree.say(f"called {number}")
        _set(made, [] if made.done() else tree.begun(inner))

    (loop.call_soon_threadsafe if number % 2 else loop.call_soon)(call)
    return [await task for task in await made]


def _set(future: asyncio.Future[Any], value: Any) -> None:
    if not future.done():
        future.set_result(value)


async def _later(tree: Tree, number: int, inner: list[Node]) -> Any:
    loop = asyncio.get_running_loop()
    made: asyncio.Future[Any] = loop.create_future()
    timer = loop.call_later(number * 499e-6, _set, made, number)
    try:
        return [await tree.all(inner), await made]
    finally:
        timer.cancel()


async def _done(tree: Tree, number: int, inner: list[Node]) -> Any:
    tasks = tree.begun(inner)
    for task in tasks:
        task.add_done_callback(lambda done: tree.say(f"done {number}: {_end_of(done)}"))
    return [await tree.face.tool("work", number), *(await asyncio.gather(*tasks))]


def _driven(coroutine: Coroutine[Any, Any, Any], tree: Tree, number: int) -> tuple[bool, Any]:
    """Drive a coroutine to where it first waits; return whether it has ended, and what it gave."""
    try:
        return False, coroutine.send(None)
    except StopIteration as stop:
        return True, stop.value
    finally:
        tree.say(f"the driver goes on {number}")


@types.coroutine
def _rest(coroutine: Coroutine[Any, Any, Any], waits: Any) -> Any:
    while True:
        try:
            sent = yield waits
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's
            step = functools.partial(coroutine.throw, error)
        else:
            step = functools.partial(coroutine.send, sent)
        try:
            waits = step()
        except StopIteration as stop:
            return stop.value


async def _by_hand(tree: Tree, number: int, inner: list[Node]) -> Any:
    coroutine = tree.all(inner)
    has_ended, given = _driven(coroutine, tree, number)
    return given if has_ended else await _rest(coroutine, given)


async def _ours(tree: Tree, number: int, inner: list[Node], kind: str) -> Any:
    return await tree.face.ours(kind, number, inner[0])


async def _dropped(tree: Tree, number: int, inner: list[Node]) -> Any:
    async for page in _pages(tree, number, inner):
        return page
    return None


async def _polls(tree: Tree, _number: int, inner: list[Node]) -> Any:
    task, rounds = asyncio.create_task(tree.run(inner[0])), 0
    while not task.done():
        await asyncio.sleep(0)
        rounds += 1
    return [rounds, _end_of(task)]


async def _leaves(tree: Tree, number: int, inner: list[Node]) -> Any:
    async def leaves() -> None:
        await tree.face.tool("work", number)
        sys.exit(number)

    task = asyncio.create_task(leaves())
    try:
        return await tree.all(inner)
    finally:
        tree.say(f"left {number} {task.done()}")


async def _child(tree: Tree, number: int, inner: list[Node]) -> Any:
    return await _ours(tree, number, inner, "child")


async def _drawn(tree: Tree, number: int, inner: list[Node]) -> Any:
    return [await _ours(tree, number, inner, "drawn"), await tree.all(inner)]


_KINDS: Final[dict[str, Kind]] = {
    "sequence": _sequence,
    "gather": _gather,
    "gather_all": _gather_all,
    "group": _group,
    "failing_group": _failing_group,
    "as_completed": _as_completed,
    "first": _first,
    "timeout": _timeout,
    "timeout_at": _timeout_at,
    "wait_for": _wait_for,
    "queue": _queue,
    "lock": _lock,
    "barrier": _barrier,
    "condition": _condition,
    "event": _event,
    "shield": _shield,
    "cancel_other": _cancel_other,
    "caught": _caught,
    "finally": _finally,
    "handled": _handled,
    "generator": _generator,
    "thrown": _thrown,
    "task": _task,
    "soon": _soon,
    "later": _later,
    "done": _done,
    "by_hand": _by_hand,
    "child": _child,
    "drawn": _drawn,
    "dropped": _dropped,
    "polls": _polls,
    "leaves": _leaves,
}


async def child(run: Run, node: Node) -> Any:
    """Run a node in a run of its own."""
    return await Tree(_Recorded(run), []).run(node)


def is_eager(node: Node) -> bool:
    """Return whether the tasks of a tree start eagerly, from Python 3.12 on."""
    return len(str(node)) % 3 == 0 and hasattr(asyncio, "eager_task_factory")


def program_of(node: Node, trace: list[str]) -> Callable[[Run, Any], Awaitable[Any]]:
    """Return the program of a tree, which keeps its trace in `trace`."""

    async def program(run: Run, _input: Any) -> Any:
        if is_eager(node):
            asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined, unused-ignore]  # of 3.12
        trace.clear()
        return await Tree(_Recorded(run), trace).run(node)

    return program


def plain_program_of(seed: int, trace: list[str]) -> Callable[[PlainRun, Any], Any]:
    """Return a plain program: random calls, waits, draws and failures, one after the other."""

    def program(run: PlainRun, _input: Any) -> Any:
        trace.clear()
        for kind, number in _steps(seed):
            match kind:
                case "sleep":
                    run.sleep(number / 1000)
                case "now" | "uuid" | "raises":
                    trace.append(_at_once(run, kind, number))
                case _:
                    try:
                        trace.append(repr(run.tool(kind, ms=number)))
                    except ToolError as error:
                        trace.append(error.message)
        return len(trace)

    return program


def same_program_of(seed: int, trace: list[str]) -> Callable[[Run, Any], Awaitable[Any]]:
    """Return the asynchronous program that does what `plain_program_of` does."""

    async def program(run: Run, _input: Any) -> Any:
        trace.clear()
        for kind, number in _steps(seed):
            match kind:
                case "sleep":
                    await run.sleep(number / 1000)
                case "now" | "uuid" | "raises":
                    trace.append(_at_once(run, kind, number))
                case _:
                    try:
                        trace.append(repr(await run.tool(kind, ms=number)))
                    except ToolError as error:
                        trace.append(error.message)
        return len(trace)

    return program


def _steps(seed: int) -> list[tuple[str, int]]:
    rng = random.Random(seed)
    kinds = (*_CALLS, *_CALLS, "now", "uuid", "sleep", "raises")
    return [(rng.choice(kinds), number) for number in rng.sample(range(1, 1000), 12)]


def _at_once(run: Run | PlainRun, kind: str, number: int) -> str:
    """Do what needs no wait in either kind of program."""
    if kind != "raises":
        return str(getattr(run, kind)())
    if number % 5 == 0:
        raise LookupError(number)
    run.annotate(str(number))
    return "noted"


# --- the three ways ----------------------------------------------------------------------------


def recorded(program: Any, log: Path, *, fast: bool) -> Recording:
    """Record a program in virtual time."""
    return record_simulated(program, None, log, tools=TOOLS, seed=1, fast=fast)


def replayed(program: Any, log: Path, *, fast: bool) -> ReplayReport:
    """Re-execute a program; whoever is watched goes the general way."""
    again = RunAgain(log=log, program=program, tools={each.name: each for each in TOOLS})
    watch = None if fast else Watch(lambda: None, lambda _divergence: None, lambda: None)
    return replay_tree(again, watch)


class _StockTask(asyncio.Task[Any]):
    """A task of asyncio's that hashes as the kernel's do, so that sets of them iterate alike."""

    def __init__(self, coroutine: Any, *, loop: "_StockLoop", **options: Any) -> None:
        above = asyncio.current_task() if asyncio._get_running_loop() else None
        self.scope: Scope = above.scope.child() if isinstance(above, _StockTask) else Scope("0")
        loop.starting.append(self)
        super().__init__(coroutine, loop=loop, **options)

    def __hash__(self) -> int:
        return self.scope.hash


class Stuck(Exception):
    """The program waits for what can never come."""


class _Jumps:
    """Stands for a selector: nothing ever comes, and waiting moves the time."""

    def __init__(self) -> None:
        self.now = 0.0

    def select(self, seconds: float | None) -> list[Any]:
        if seconds is None:
            raise Stuck
        self.now = round(self.now + seconds, 6)
        return []


class _StockLoop(asyncio.BaseEventLoop):
    """A loop of asyncio's own, in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _Jumps()
        self._clock_resolution = 5e-7
        self.made: list[_StockTask] = []
        self.starting: list[_StockTask] = []
        """Tasks that start eagerly, inside one another."""
        self.options: dict[str, Any] = {}
        self.set_task_factory(self._make)

    def _make(self, _loop: Any, coroutine: Any, **given: Any) -> _StockTask:
        task = _StockTask(coroutine, loop=self, **given, **self.options)
        self.starting.remove(task)
        self.made.append(task)
        return task

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, _events: list[Any]) -> None:
        """Do nothing: there are none."""

    def _write_to_self(self) -> None:
        """Do nothing: nobody waits for long."""


def _end(ended: asyncio.Future[Any], name: str, ms: int) -> None:
    """Let a tool end as the one of that name does."""
    results = {"twice": 2 * ms, "work": {"value": ms + 1}, "pay": [ms], "drives": ms}
    if ended.cancelled():
        return
    if name == "fails":
        ended.set_exception(ToolError(name, f"no {ms}", "raised"))
    else:
        ended.set_result(results.get(name, f"{ms} NoneType"))


@attrs.frozen
class _Stock:
    loop: _StockLoop

    async def tool(self, name: str, ms: int) -> Any:
        ended: asyncio.Future[Any] = self.loop.create_future()
        self.loop.call_later(latency_us({"ms": ms}) / 1_000_000, _end, ended, name, ms)
        return await ended

    def note(self, text: str) -> None:
        """Do nothing: there is no log."""

    def tasks(self) -> list[asyncio.Task[Any]]:
        made = [task for task in self.loop.made if not task.done()]
        return [*made, *sorted(self.loop.starting, key=hash)]

    async def ours(self, kind: str, number: int, inner: Node) -> Any:
        raise AssertionError(f"asyncio has no {kind}: {number}, {inner}")


def on_asyncio(node: Node) -> tuple[str, Any, list[str]]:
    """Run a tree on asyncio's own loop; return how it ended, its output, and its trace."""
    trace: list[str] = []
    loop = _StockLoop()
    main: asyncio.Task[Any] = loop.create_task(Tree(_Stock(loop), trace).run(node))
    if is_eager(node):
        loop.options["eager_start"] = True
    ended, output = "completed", None
    try:
        output = loop.run_until_complete(main)
    except asyncio.CancelledError:
        ended = "cancelled"
    except Stuck:
        ended = "stuck"
    except Exception as error:  # noqa: BLE001 - as a program fails
        ended = f"raised {type(error).__name__}"
    seen = [*trace]
    if not _is_clear(loop):  # there `asyncio.run` would wait for ever
        ended, output = "stuck", None
    while not _is_clear(loop):
        pass
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
    return ended, output, seen


def _is_clear(loop: _StockLoop) -> bool:
    """Cancel all tasks, and return whether all have come to their end."""
    left = [task for task in loop.made if not task.done()]
    for task in left:
        task.cancel()
    try:
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    except Stuck:
        return False
    return True
