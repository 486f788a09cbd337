"""Threads that take jobs in order, and end with the process (CONTRACT.md §9.2)."""

import asyncio
import contextvars
import os
import queue
import signal
import threading
from pathlib import Path

import anyio
import pytest
import trio

from refold.engine.program.run import Run
from refold.engine.recording import workers
from refold.engine.recording.workers import (
    Lookout,
    Mailbox,
    Workers,
    beside_loop,
    in_thread,
    is_loop_here,
    on_spare,
    on_thread,
)
from refold.engine.runners.recording import record
from refold.replay.reexecute.reexecute import reexecute

PATIENCE_SECONDS = 10


@pytest.mark.parametrize("together", [True, False])
def test_workers_grow_to_their_cap_and_take_turns(together: bool) -> None:  # noqa: FBT001 - a case
    """More jobs than threads wait; none is lost, whether they are handed in together or not."""
    crew = Workers(3)
    barrier, done = threading.Barrier(3), threading.Semaphore(0)
    names: set[str] = set()

    def job() -> None:
        barrier.wait(60)
        names.add(str(threading.get_ident()))
        done.release()

    for _ in range(3 if together else 9):
        crew.submit(*[job] * (3 if together else 1))

    assert all(done.acquire(timeout=60) for _ in range(9))
    assert len(names) <= 3
    crew.close()


def test_a_job_that_lets_go_of_the_interpreter_lets_the_next_one_begin() -> None:
    """The first waits until the last has run, and a job hands in another one."""
    crew = Workers(2)
    last, ended = threading.Event(), threading.Event()

    def first() -> None:
        crew.submit(last.set)
        if last.wait(60):
            ended.set()

    def between() -> None:
        """End at once."""

    for _ in range(20):
        last.clear()
        ended.clear()
        crew.submit(between, first, between)
        assert ended.wait(60)
    crew.close()


def test_an_idle_worker_is_used_again() -> None:
    """No thread is started where one is free."""
    crew = Workers(64)
    names: list[int] = []
    for _ in range(20):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            names.append(threading.get_ident())
            done.set()

        crew.submit(job)
        assert done.wait(60)

    assert len(set(names)) < 20
    crew.close()


def test_work_on_a_thread_has_a_copy_of_the_context() -> None:
    """What it sets is its own."""
    place = contextvars.ContextVar("place", default=-1)

    def work() -> tuple[str, int]:
        found = place.get()
        place.set(-2)
        return threading.current_thread().name, found

    place.set(3)
    assert on_thread(work, "number-3").result(60) == ("number-3", 3)
    assert place.get() == 3


def test_a_thread_that_has_done_its_work_is_used_again() -> None:
    """Under the name that comes with the next work."""
    seen: set[int] = set()

    for number in range(20):
        done: queue.SimpleQueue[str] = queue.SimpleQueue()

        def work(done: queue.SimpleQueue[str] = done) -> bool:
            seen.add(threading.get_ident())
            done.put(threading.current_thread().name)
            return True

        on_spare(work, f"number-{number}")
        assert done.get(timeout=60) == f"number-{number}"

    assert len(seen) < 20


def test_a_thread_that_was_given_up_is_never_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its work says so at its end."""
    monkeypatch.setattr(workers, "_IDLE_SECONDS", 600.0)  # or an idle one would end by itself
    threads: queue.SimpleQueue[threading.Thread] = queue.SimpleQueue()

    def work() -> bool:
        threads.put(threading.current_thread())
        return False

    on_spare(work, "given-up")
    thread = threads.get(timeout=60)
    thread.join(60)

    assert not thread.is_alive()


class Counted:
    """Counts how often it was looked at."""

    def __init__(self) -> None:
        self.looks = 0
        self.again = threading.Event()

    def check(self) -> None:
        """Count a look."""
        self.looks += 1
        self.again.set()


def test_one_thread_looks_at_all_again_and_again() -> None:
    """It ends when there is nothing left, and begins again with the next."""
    watch, first, second = Lookout("refold-test", 0.001), Counted(), Counted()
    for _ in range(2):
        with watch.over(first), watch.over(second):
            for each in (first, second, first):
                each.again.clear()
                assert each.again.wait(60)
            named = [each for each in threading.enumerate() if each.name == "refold-test"]
            assert len(named) == 1
        named[0].join(60)
        assert not named[0].is_alive()


def test_a_job_is_done_where_no_thread_can_be_started() -> None:
    """By whoever hands it in, or nothing would ever come of it."""
    before = threading.stack_size()
    crew, done = Workers(3), threading.Event()
    threading.stack_size(1 << 46)  # more than there is
    try:
        crew.submit(done.set)
    finally:
        threading.stack_size(before)

    assert done.is_set()


def test_in_thread_gives_back_what_came(tmp_path: Path) -> None:
    """A value, or the exception itself."""
    assert in_thread(threading.get_ident) != threading.get_ident()
    with pytest.raises(FileNotFoundError):
        in_thread((tmp_path / "none").read_text)


def test_no_thread_keeps_the_process_from_ending() -> None:
    """And each says whose it is."""
    thread = on_thread(threading.current_thread, "refold-mine").result()

    assert (thread.name, thread.daemon) == ("refold-mine", True)


def test_ctrl_c_gives_the_work_up_and_waits_for_its_end() -> None:
    """What it is about to write when it is given up is written before the caller goes on."""
    given_up, told = threading.Event(), []

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        told.append(given_up.wait(PATIENCE_SECONDS))

    with pytest.raises(KeyboardInterrupt):
        in_thread(work, given_up.set)

    assert told == [True]


@pytest.mark.parametrize("seconds", [0, 1e-9, 1e-6])
def test_a_wait_ends_though_it_is_over_before_it_begins(seconds: float) -> None:
    for _ in range(1_000):
        box: Mailbox[int] = Mailbox()
        with pytest.raises(queue.Empty):
            box.get(timeout=seconds)
        box.put(1)
        assert box.get(timeout=seconds) == 1
        with pytest.raises(queue.Empty):  # what woke it was taken
            box.get(timeout=seconds)


def test_what_any_thread_puts_in_is_taken_once_and_in_its_order() -> None:
    box: Mailbox[tuple[int, int]] = Mailbox()

    def puts(who: int) -> None:
        for n in range(500):
            box.put((who, n))

    threads = [threading.Thread(target=puts, args=(who,)) for who in range(4)]
    for each in threads:
        each.start()

    taken = [box.get(timeout=60) for _ in range(2_000)]

    for each in threads:
        each.join()
    assert box.empty()
    assert all([n for who, n in taken if who == one] == [*range(500)] for one in range(4))


def test_a_loop_is_noticed_whichever_library_runs_it() -> None:
    async def here() -> bool:
        return is_loop_here()

    assert [is_loop_here(), asyncio.run(here()), trio.run(here)] == [False, True, True]
    assert beside_loop(threading.get_ident) == threading.get_ident()


def test_a_program_that_uses_anyio_runs_beside_a_host_that_is_not_asyncio(tmp_path: Path) -> None:
    """On a thread of its own: anyio goes by the library that runs in the thread."""

    async def grouped(run: Run, n: int) -> int:
        async with anyio.create_task_group() as group:
            for _ in range(n):
                group.start_soon(run.sleep, 0.001)
        return n

    async def host() -> tuple[str, bool]:
        ended = record(grouped, 3, log=tmp_path / "a.jsonl")
        return ended.status, reexecute(ended.log, grouped).identical

    assert trio.run(host) == ("completed", True)
