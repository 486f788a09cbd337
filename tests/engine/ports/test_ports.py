"""The one port with behaviour: a cancel signal is given once, and nobody misses it."""

import threading
from functools import partial

from refold.engine.encoding.canonical import encode
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import CancelSignal, Delegation, Policy, Reference


def test_a_signal_that_was_given_stays_given() -> None:
    """For whoever polls it and for whoever waits."""
    signal = CancelSignal()
    before = signal.is_set()

    signal.set()

    assert (before, signal.is_set(), signal.wait(0)) == (False, True, True)


def test_callbacks_run_once_however_often_it_is_given() -> None:
    """In the order in which they were hung on."""
    signal, called = CancelSignal(), list[str]()
    signal.on_set(lambda: called.append("first"))
    signal.on_set(lambda: called.append("second"))

    signal.set()
    signal.set()

    assert called == ["first", "second"]


def test_a_callback_that_comes_late_runs_at_once() -> None:
    """Whoever asks after the end has come learns of it."""
    signal, called = CancelSignal(), list[str]()
    signal.set()

    signal.on_set(lambda: called.append("late"))

    assert called == ["late"]


def test_a_waiter_on_another_thread_is_woken() -> None:
    """A runner blocks on it."""
    signal, woken = CancelSignal(), list[bool]()
    waiter = threading.Thread(target=lambda: woken.append(signal.wait(60)))
    waiter.start()

    signal.set()
    waiter.join(60)

    assert woken == [True]


def test_a_waiter_gives_up_in_time() -> None:
    """And says that nothing came."""
    assert CancelSignal().wait(0) is False


def test_each_callback_runs_once_whoever_is_faster() -> None:
    """It is given on one thread while others hang callbacks on it."""
    for _ in range(50):
        signal, called, barrier = CancelSignal(), list[int](), threading.Barrier(4)

        def hang(
            first: int,
            signal: CancelSignal = signal,
            called: list[int] = called,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait(60)
            for number in range(first, first + 9):
                signal.on_set(partial(called.append, number))

        threads = [threading.Thread(target=hang, args=(100 * at,)) for at in range(3)]
        for thread in threads:
            thread.start()
        barrier.wait(60)
        signal.set()
        for thread in threads:
            thread.join(60)

        assert sorted(called) == [100 * at + n for at in range(3) for n in range(9)]


def test_a_log_holds_the_programs_name_and_not_where_it_is() -> None:
    """The reference is for the runner alone."""
    asked = Delegation(program=Reference("somewhere.secret", "work"), input={"a": 1})

    data = asked.as_json(program="work", limits=Limits(max_depth=1))

    assert data == {"program": "work", "input": {"a": 1}, "limits": {"max_depth": 1}}
    assert b"somewhere" not in encode(data)


def test_only_what_was_said_is_written() -> None:
    """Empty words, tools that were not narrowed and a policy by default are left out."""
    asked = Delegation(
        program="agent",
        brief="dig",
        agent="miner",
        tool="subagent",
        tools=("read_file",),
        policy=Policy(artifact_kinds=("note",), frame_bytes=10),
    )

    data = asked.as_json(program="agent", limits=Limits())

    assert data == {
        "program": "agent",
        "brief": "dig",
        "agent": "miner",
        "tool": "subagent",
        "input": None,
        "tools": ["read_file"],
        "limits": {},
        "policy": {"frame_bytes": 10, "artifact_kinds": ["note"]},
    }
