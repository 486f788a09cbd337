"""CPython's own tests of asyncio, imported from the interpreter that runs, on the kernel's loop.

Its tasks, futures, gather, sleep, locks, queues, groups, time limits and `wait_for` are held to
what the interpreter says of them.  Some distributions leave the package `test` out: then nothing is
tested here.  What cannot apply is listed below, each case with its reason.
"""

import asyncio
import importlib.util
import sys
import unittest
import warnings
from typing import Any, Final

import pytest

from tests.support.cpython_loop import (
    PumpedFuture,
    PumpedTask,
    on_kernels_loop,
    results_of,
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("test.test_asyncio") is None,
        reason="this Python has no package test.test_asyncio",
    ),
]

CASES: Final = {
    "test_tasks": (
        "BaseTaskTests SetMethodsTest",
        "BaseCurrentLoopTests",
        "GenericTaskTests",
        "FutureGatherTests",
        "CoroutineGatherTests",
        "SleepTests",
        "CTask_Future_Tests",
    ),
    "test_futures": (
        "DuckTests",
        "BaseFutureTests",
        "BaseFutureDoneCallbackTests",
        "BaseFutureInheritanceTests",
    ),
    "test_futures2": ("FutureTests", "FutureReprTests"),
    "test_locks": (
        "LockTests",
        "EventTests",
        "ConditionTests",
        "SemaphoreTests",
        "BarrierTests",
    ),
    "test_queues": (
        "QueueBasicTests",
        "QueueGetTests",
        "QueuePutTests",
        "LifoQueueTests",
        "PriorityQueueTests",
        "QueueJoinTests",
        "LifoQueueJoinTests",
        "PriorityQueueJoinTests",
        "QueueShutdownTests",
        "LifoQueueShutdownTests",
        "PriorityQueueShutdownTests",
    ),
    "test_taskgroups": ("TestTaskGroup",),
    "test_timeouts": ("TimeoutTests",),
    "test_waitfor": ("AsyncioWaitForTest", "WaitForShieldTests"),
}
"""Of each module, the classes of tests, some put together as it does.  Not those of Python's own
tasks and futures without C, of asyncio's registers of tasks (`_register_task` and the like) and of
other threads."""

_DEBUG: Final = "of debug mode, which reads clocks and is off (CONTRACT.md §9.11)"
_PRIVATE: Final = "looks at private parts of asyncio's own loop"
_OUTSIDE: Final = "leaves the loop for another thread, which is refused (CONTRACT.md §9.5)"
_NO_TASK: Final = "the task that wait_for had before Python 3.12 (CONTRACT.md §9.11)"

NOT_APPLICABLE: Final = {
    "test_log_destroyed_pending_task": "a task that nobody keeps is kept: it goes on (§9.4)",
    "test_sleep_cancel": _PRIVATE,
    "test_issue46672": _PRIVATE,
    "test_stop_while_run_in_complete": "asyncio's test loop lets time go on once after `stop`",
    "test_task_source_traceback": _DEBUG,
    "test_future_source_traceback": _DEBUG,
    "test_future_repr": _DEBUG,
    "test_future_exception_never_retrieved_debug": _DEBUG,
    "test_wrap_future": _OUTSIDE,
    "test_wrap_future_cancel": _OUTSIDE,
    "test_wrap_future_cancel2": _OUTSIDE,
    "test_wrap_future_use_running_loop": _OUTSIDE,
    "test_cancel_gather_1": "a generator is no call: `gather` takes calls one by one",
    "test_nested_timeouts": "timers that are due at once fire one at a time (CONTRACT.md §9.11)",
} | (
    {
        "test_recursive_repr_for_pending_tasks": _NO_TASK,
        "test_wait_for_self_cancellation": _NO_TASK,
    }
    if sys.version_info < (3, 12)
    else {}
)
"""Cases that cannot apply to the kernel's loop, and why."""

_MADE_OF: Final[dict[str, dict[str, Any]]] = {
    "BaseTaskTests SetMethodsTest": {"Task": PumpedTask, "Future": PumpedFuture},
    "BaseCurrentLoopTests": {
        "new_task": lambda case, coro: PumpedTask(coro, loop=case.loop),
        "current_task": staticmethod(asyncio.current_task),
    },
    "BaseFutureTests": {"cls": PumpedFuture},
    "BaseFutureDoneCallbackTests": {"_new_future": lambda case: PumpedFuture(loop=case.loop)},
    "BaseFutureInheritanceTests": {"_get_future_cls": lambda _case: PumpedFuture},
    "FutureTests": {"cls": PumpedTask},
}
"""What is to be tested, where a class leaves that to those that inherit it."""


@pytest.mark.parametrize(
    ("module", "names"), [(module, names) for module, all_ in CASES.items() for names in all_]
)
def test_the_kernels_loop_is_as_the_interpreter_says(module: str, names: str) -> None:
    """Every case that can apply passes, under each supported version of Python."""
    tests = importlib.import_module(f"test.test_asyncio.{module}")
    utils = importlib.import_module("test.test_asyncio.utils")
    if not all(hasattr(tests, name) for name in names.split()):
        pytest.skip(f"{names} came with a later Python")
    bases = tuple(getattr(tests, name) for name in names.split())
    if names in _MADE_OF:
        is_async = module == "test_futures2"
        bases = (*bases, unittest.IsolatedAsyncioTestCase if is_async else utils.TestCase)

    with on_kernels_loop(utils), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about other things
        case = type(bases[0].__name__, bases, _MADE_OF.get(names, {}))
        result = results_of(case, frozenset(NOT_APPLICABLE))

    assert not [text for _, text in (*result.failures, *result.errors)]
    if not result.testsRun:
        pytest.skip("none of them can apply")


def test_what_cannot_apply_is_a_case_of_cpythons() -> None:
    """The list names no case that is not there."""
    modules = [importlib.import_module(f"test.test_asyncio.{name}") for name in CASES]
    classes = [each for module in modules for each in vars(module).values()]

    known = {name for each in classes if isinstance(each, type) for name in dir(each)}

    assert set(NOT_APPLICABLE) <= known
