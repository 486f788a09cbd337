"""Functions of asyncio that are adapted to the kernel's loop; on any other they are unchanged.

- `as_completed` over bare coroutines puts them into a set before they are tasks: in the order of
  memory addresses.
- `wait_for` makes a task of its own before Python 3.12, and so shifts scopes between versions.
- `all_tasks` reads a set of weak references that all loops of the process share: its order
  depends on the tasks of other loops.
- `gather` returns a future of a private class that hashes to its address; and of a list that was
  passed for its items, Python says only that it is unhashable.
- `run` reports only that a loop is already running; here it is refused as leaving the loop.
- `Thread.start` is refused to anyio and aiosqlite: their threads answer the loop, and that refusal
  would be an error in a thread, while the program waits for ever.
- `input` waits for a person, and nothing of it would be in the log; a debugger may ask.
- `wrap_future` would leave the loop in another thread, whose refusal could name no line of the
  program; it is refused where the program calls it.

Installed once, when the first kernel is made.
"""

import asyncio
import builtins
import sys
import threading
from asyncio import futures, runners, tasks
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final

from refold.engine.loop.loop import Loop

plain_loop: Final = ContextVar[Loop | None]("refold_plain", default=None)
"""The loop of the plain program that runs in this context; its tools have another context."""
_DEBUGGERS: Final = frozenset({"cmd", "code", "pdb"})
"""Modules that ask the person who debugs the program."""


def install() -> None:
    """Put the wrappers in place; calling it again does nothing."""
    if getattr(asyncio.as_completed, "refold", False):
        return
    _replace(tasks, "as_completed", _ordered_as_completed)
    _replace(tasks, "all_tasks", _ordered_all_tasks)
    _replace(tasks, "gather", _checked_gather)
    _replace(runners, "run", _refused_run)
    _replace(futures, "wrap_future", _refused_wrap_future)
    _replace(threading.Thread, "start", _refused_start)
    _replace(builtins, "input", _refused_input)
    if not hasattr(asyncio, "eager_task_factory"):  # before Python 3.12
        _replace(tasks, "wait_for", _taskless_wait_for)
    gathering = getattr(tasks, "_GatheringFuture", None)
    if gathering is not None:
        gathering.__hash__ = _numbered_hash


def _replace(home: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    original = getattr(home, name)
    function = wrapped(original)
    function.__doc__ = original.__doc__
    function.refold = True  # the mark that `install` looks for
    for place in (home, asyncio):
        if hasattr(place, name):
            setattr(place, name, function)


def _our_loop() -> Loop | None:
    """Return the loop that runs in this thread, if it is ours."""
    loop = asyncio._get_running_loop()  # noqa: SLF001 - exported for loops
    return loop if isinstance(loop, Loop) else None


def _ordered_as_completed(original: Callable[..., Any]) -> Callable[..., Any]:
    def as_completed(fs: Any, *, timeout: float | None = None) -> Any:
        if _our_loop() and not isawaitable(fs):  # a single one is refused in there
            fs = [asyncio.ensure_future(one) for one in dict.fromkeys(fs)]
        return original(fs, timeout=timeout)

    return as_completed


def _checked_gather(original: Callable[..., Any]) -> Callable[..., Any]:
    def gather(*calls: Any, **options: Any) -> Any:
        for each in calls:
            if isinstance(each, Iterable) and not (isinstance(each, str) or isawaitable(each)):
                wanted = "asyncio.gather takes calls one by one: asyncio.gather(*calls)"
                raise TypeError(f"{wanted}; found a {type(each).__name__}")
        return original(*calls, **options)

    return gather


def _ordered_all_tasks(original: Callable[..., Any]) -> Callable[..., Any]:
    def all_tasks(loop: Any = None) -> Any:
        on = asyncio.get_running_loop() if loop is None else loop
        found = original(on)
        return on.all_tasks(found) if isinstance(on, Loop) else found

    return all_tasks


def _taskless_wait_for(original: Callable[..., Any]) -> Callable[..., Any]:
    async def wait_for(fut: Any, timeout: float | None) -> Any:  # noqa: ASYNC109 - asyncio's own
        if _our_loop() is None:
            return await original(fut, timeout)
        if timeout is not None and timeout <= 0:
            return await _at_once(fut)
        async with asyncio.timeout(timeout):
            return await fut

    return wait_for


def _refused_run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(main: Any, **options: Any) -> Any:
        if (loop := _our_loop()) is None:
            return original(main, **options)
        if asyncio.iscoroutine(main):
            main.close()
        return loop.refuse("asyncio.run")

    return run


def _refused_wrap_future(original: Callable[..., Any]) -> Callable[..., Any]:
    def wrap_future(future: Any, *, loop: Any = None) -> Any:
        on = loop or _our_loop()
        if isinstance(on, Loop) and not asyncio.isfuture(future):  # one of a thread
            on.refuse("asyncio.wrap_future")
        return original(future, loop=loop)

    return wrap_future


def _refused_start(original: Callable[[threading.Thread], None]) -> Callable[..., None]:
    def start(self: threading.Thread) -> None:
        work = getattr(self, "_target", None)
        home = (getattr(work, "__module__", None) or type(self).__module__).partition(".")[0]
        if home in ("anyio", "aiosqlite") and (loop := _our_loop()) is not None:
            if home == "anyio":
                loop.refuse("anyio.to_thread (and open_file, and Path)")
            else:
                loop.refuse("the thread of aiosqlite")
        original(self)

    return start


def _refused_input(original: Callable[..., str]) -> Callable[..., str]:
    def input(prompt: object = "", /) -> str:  # noqa: A001 - the builtin
        loop = plain_loop.get()
        call = "await run.ask(question)" if loop is None else "run.ask(question)"
        loop = loop or _our_loop()
        asker = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - who calls it
        if loop is not None and asker not in _DEBUGGERS:
            loop.refuse("input()", f"Use `{call}`: the answer is recorded")
        return original(prompt)

    return input


async def _at_once(fut: Any) -> Any:
    future = asyncio.ensure_future(fut)
    if not future.done():
        future.cancel()
        await asyncio.wait([future])
    try:
        return future.result()
    except asyncio.CancelledError as error:
        raise TimeoutError from error


def _numbered_hash(future: Any) -> int:
    loop = future.get_loop()
    if not isinstance(loop, Loop):
        return object.__hash__(future)
    number: int | None = getattr(future, "number", None)
    if number is None:
        number = future.number = loop.next_hash()
    return number
