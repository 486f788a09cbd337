"""Whoever wakes the loop may do so at any time, from any thread (CONTRACT.md §7.3)."""

import selectors
import threading

from refold.engine.process.bounded import Waker


def test_a_wake_is_told_once_and_after_the_end_not_at_all() -> None:
    told: list[str] = []
    with selectors.DefaultSelector() as selector, Waker() as waker:
        waker.register(selector, lambda: told.append("woken"))
        thread = threading.Thread(target=waker.wake)
        thread.start()
        for key, _ in selector.select(30):
            key.data()
        thread.join()

        assert told == ["woken"]
        assert not selector.get_map()

    waker.wake()
