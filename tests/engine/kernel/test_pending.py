"""What a program waits for is delivered in the order that it asked for (CONTRACT.md §9.2)."""

import asyncio

import pytest

from refold.engine.events.outcome import Outcome
from refold.engine.kernel.pending import Child, Join, Pending

DONE = Outcome(status="completed")


def children() -> tuple[Child, Child]:
    """Return two children that still run."""
    return Child("0#1", 1, "a"), Child("0#2", 2, "b")


def test_a_join_takes_outcomes_in_the_order_asked() -> None:
    """Whatever ended first waits until it is its turn."""
    one, two = children()
    join = Join((two, one), first=False, pending=Pending("", "join", ""))
    before = (join.awaits("0#1"), join.awaits("0#2"))

    two.outcome = DONE

    assert before == (False, True)
    assert (join.awaits("0#1"), join.awaits("0#2")) == (True, False)
    assert not join.is_settled()


def test_a_join_is_settled_when_all_have_ended() -> None:
    """And takes nothing more."""
    one, two = children()
    join = Join((one, two), first=False, pending=Pending("", "join", ""))

    one.outcome = two.outcome = DONE

    assert join.is_settled()
    assert not join.awaits("0#1")


def test_whichever_is_first_settles_a_join_first() -> None:
    """It would take any of its children, and none of others."""
    one, two = children()
    join = Join((one, two), first=True, pending=Pending("", "join", ""))

    assert [join.awaits(call) for call in ("0#1", "0#2", "0#3")] == [True, True, False]
    two.outcome = DONE
    assert join.is_settled()


def test_sets_of_children_are_in_the_order_of_their_starts() -> None:
    """A program may keep them in one, and cancel or join all that are left, in any process."""
    made = [Child(f"0#{number}", number, "") for number in range(40)]

    assert [child.number for child in {*made[20:], *made[:20]}] == list(range(40))
    assert made[1] != Child("0#1", 1, "")


def test_a_result_wakes_who_waits_for_it() -> None:
    """A value or an error; and who asks later gets the same."""
    loop = asyncio.new_event_loop()
    good, bad = Pending("0#1", "tool", "t"), Pending("0#2", "tool", "t")
    good.future, bad.future = loop.create_future(), loop.create_future()

    good.resolve(7, None)
    bad.resolve(None, LookupError("no"))

    assert (good.future.result(), good.take(), good.is_done) == (7, 7, True)
    assert isinstance(bad.future.exception(), LookupError)
    with pytest.raises(LookupError):
        bad.take()
    loop.close()


def test_a_result_for_nobody_is_kept() -> None:
    """Its waiter was cancelled: resolving is no error."""
    loop = asyncio.new_event_loop()
    pending = Pending("0#1", "tool", "t")
    pending.future = loop.create_future()
    pending.future.cancel()

    pending.resolve(7, None)

    assert pending.take() == 7
    loop.close()
