"""Recorded answers go out in the recorded order, for a while (CONTRACT.md §16.14)."""

import asyncio
import itertools

import attrs
import pytest

from refold.engine.events.events import ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.wire.parts.exchange import Asked
from refold.proxy.desks import ordering
from refold.proxy.desks.ordering import Order
from refold.replay.observed.record import RecordedTool, RecordedTurn


def turn(call: str, seq: int, over: int, said: str = "x", *shown: str) -> RecordedTurn:
    """Return a recorded request whose messages are `shown`, answered at `over`."""
    messages = tuple({"role": "user", "content": each} for each in shown)
    answer = ModelAnswered("ok", {"role": "assistant", "content": said}, Usage(), "stop", None)
    asked = Asked(api="chat", model="m", messages=messages)
    return RecordedTurn(call, seq, asked, "", how="answered", answer=answer, over=over)


def given(order: Order, *turns: RecordedTurn) -> list[str]:
    """Ask for the answers of these requests at once, and return the order in which they went."""
    went: list[str] = []

    async def one(each: RecordedTurn) -> None:
        await order.ready(each)
        went.append(each.call)
        order.done(each)

    async def both() -> None:
        await asyncio.gather(*map(one, turns))

    asyncio.run(both())
    return went


def test_an_answer_waits_for_those_that_were_whole_before_it() -> None:
    one, two = turn("0/1#1", 1, 4), turn("0/2#1", 2, 3)

    assert given(Order([one, two], {}), one, two) == ["0/2#1", "0/1#1"]


def test_it_waits_in_vain_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then answers go out as asked, and that is told."""
    monkeypatch.setattr(ordering, "HELD_SECONDS", 0.05)
    never, one, two = turn("0/3#1", 1, 2), turn("0/1#1", 3, 5), turn("0/2#1", 4, 6)
    order = Order([never, one, two], {})

    assert sorted(given(order, two, one)) == ["0/1#1", "0/2#1"]
    assert (order.given_up > 0, len(order.notes())) == (True, 1)


def test_nothing_is_held_after_a_request_that_was_not_recorded() -> None:
    never, one = turn("0/3#1", 1, 2), turn("0/1#1", 3, 5)
    order = Order([never, one], {})
    order.stop()

    assert given(order, one) == ["0/1#1"]
    assert order.notes() == []


@pytest.mark.parametrize(("end", "expected"), [({"status": "ok"}, 0), (None, 1)])
def test_what_an_agent_took_note_of_says_which_came_first(
    end: dict[str, str] | None, expected: int
) -> None:
    """Its calls were made before the answer of one below it came, or were not, for it came."""
    above = turn("0/1#1", 1, 5, "wait", "go")
    below = turn("0/1/1#1", 2, 4, "found it")
    after = turn("0/1#3", 6, 7, "done", "go", "found it")
    order = Order([above, below, after], {"0/1#2": RecordedTool("wait", {}, end)})

    assert given(order, above, below)[expected] == "0/1#1"


def noted(*seqs: tuple[str, int, int, str]) -> list[RecordedTurn]:
    """Return two agents below one that looks at both at once, as messages."""
    root = turn("0/1#1", 1, 2, "wait", "go")
    last = turn("0/1#3", 20, 21, "done", "go", *(said for *_, said in seqs))
    return [root, *(turn(call, seq, over, said) for call, seq, over, said in seqs), last]


def served(order: Order, *turns: RecordedTurn) -> list[str]:
    """Ask for the answers of these requests at once; return when each begins and ends."""
    went: list[str] = []

    async def one(each: RecordedTurn) -> None:
        await order.ready(each)
        went.append(f"{each.call} begins")
        await order.last(each)
        went.append(f"{each.call} ends")
        order.done(each)

    async def both() -> None:
        await asyncio.gather(*map(one, turns))

    asyncio.run(both())
    return went


def test_an_answer_ends_after_those_that_the_next_request_shows_at_once() -> None:
    """The agent asks again when it has been answered to the end, and then both are there."""
    root, one, two, _ = turns = noted(("0/1/1#1", 3, 5, "six"), ("0/1/2#1", 4, 12, "four"))
    order = Order(turns, {"0/1#2": RecordedTool("wait", {}, {"status": "ok"})})

    assert order.ends_late(root)
    assert not order.ends_late(one)
    assert served(order, two, one, root) == [
        "0/1#1 begins",
        *("0/1/1#1 begins", "0/1/1#1 ends"),
        *("0/1/2#1 begins", "0/1/2#1 ends"),
        "0/1#1 ends",
    ]
    assert order.given_up == 0


@pytest.mark.parametrize(
    ("started_by", "end"),
    [({"0/1/2": "0/1#2"}, {"status": "ok"}), ({"0/1/2": "0/1#0"}, None)],
)
def test_an_answer_does_not_wait_for_those_that_need_its_end(
    started_by: dict[str, str], end: dict[str, str] | None
) -> None:
    """What it asks for starts one of them, or was interrupted by them."""
    turns = noted(("0/1/1#1", 3, 5, "six"), ("0/1/2#1", 4, 12, "four"))
    order = Order(turns, {"0/1#2": RecordedTool("wait", {}, end)}, started_by)

    assert not order.ends_late(turns[0])


def test_an_answer_is_held_as_long_as_the_command_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: on a busy machine, what is waited for comes late."""
    monkeypatch.setattr(ordering, "HELD_SECONDS", 0.04)
    looks = [1.0] * 20
    one, two = turn("0/1#1", 1, 3), turn("0/2#1", 2, 4)

    async def late() -> list[str]:
        is_over = asyncio.Event()

        def work() -> float | None:
            if looks:
                return looks.pop()
            is_over.set()
            return None

        order = Order([one, two], {}, work=work)
        waiting = asyncio.create_task(order.ready(two))
        await is_over.wait()
        assert not waiting.done()
        await order.ready(one)
        order.done(one)
        await waiting
        return list(order.notes())

    assert asyncio.run(late()) == []


def test_an_answer_is_held_as_long_as_others_go_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for long before it was answered, and what came between takes its time again."""
    monkeypatch.setattr(ordering, "HELD_SECONDS", 0.1)
    *others, last = [turn(f"0/{at}#1", at, 20 + at) for at in range(1, 9)]

    async def slowly() -> list[str]:
        looked = asyncio.Event()

        def work() -> None:
            looked.set()

        order = Order([*others, last], {}, work=work)
        waiting = asyncio.create_task(order.ready(last))
        for each in others:
            for _ in range(2):
                looked.clear()
                await looked.wait()
            await order.ready(each)
            order.done(each)
        await waiting
        return order.notes()

    assert asyncio.run(slowly()) == []


def test_it_gives_up_on_a_command_that_works_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "HELD_MAX_SECONDS", 0.05)
    one, two = turn("0/1#1", 1, 3), turn("0/2#1", 2, 4)
    order = Order([one, two], {}, work=lambda: 1.0)

    assert given(order, two) == ["0/2#1"]
    assert len(order.notes()) == 1


def test_what_goes_out_next_waits_for_the_work_of_the_last() -> None:
    """Two connections are read in no certain order: the program is to have read the first."""
    looks = iter([7.0] * 20)
    root, one, two, _ = turns = noted(("0/1/1#1", 3, 5, "six"), ("0/1/2#1", 4, 12, "four"))
    order = Order(turns, {}, work=lambda: next(looks, None))

    assert given(order, root, one, two)[0] == root.call
    assert next(looks, None) is None


def test_what_goes_out_next_does_not_wait_for_the_work_of_others() -> None:
    """An agent that has had a processor for so long has read what it was sent."""
    seconds = itertools.count(1, 0.02)
    root, one, _, _ = turns = noted(("0/1/1#1", 3, 5, "six"), ("0/1/2#1", 6, 12, "four"))
    order = Order(turns, {}, work=lambda: next(seconds))

    assert given(order, root, one) == [root.call, one.call]
    assert next(seconds) < 1.5


def test_what_interrupted_an_answer_comes_before_it() -> None:
    """Codex looks for messages while it is answered, gives up on that, and asks again at once."""
    root, one = turn("0/1#1", 1, 2, "wait", "go"), turn("0/1/1#1", 3, 5, "six")
    two = turn("0/1/2#1", 4, 8, "four")
    given_up = attrs.evolve(turn("0/1#3", 6, 9, "", "go", "six"), how="gone", answer=None)
    last = turn("0/1#4", 10, 11, "done", "go", "six", "four")
    order = Order([root, one, two, given_up, last], {})

    assert not order.ends_late(root)
    assert given(order, given_up, two, one, root) == [
        *("0/1#1", "0/1/1#1", "0/1/2#1", "0/1#3"),
    ]


def test_an_agent_that_began_after_another_ended_is_not_waited_for() -> None:
    """It may have begun because that ended."""
    turns = noted(("0/1/1#1", 3, 5, "six"), ("0/1/2#1", 6, 12, "four"))
    order = Order(turns, {"0/1#2": RecordedTool("wait", {}, {"status": "ok"})})

    assert given(order, *turns[:2]) == ["0/1#1", "0/1/1#1"]
    assert not order.ends_late(turns[0])


def test_what_an_agent_did_not_take_note_of_yet_waits_for_its_request() -> None:
    """The answer was whole before, and came after the request had been made."""
    root, child = turn("0/1#1", 1, 2, "wait", "go"), turn("0/1/1#1", 3, 4, "six")
    other = turn("0/1#3", 5, 6, "wait more", "go")
    last = turn("0/1#5", 7, 8, "done", "go", "six")
    order = Order([root, child, other, last], {})

    assert given(order, root, child, other) == ["0/1#1", "0/1/1#1", "0/1#3"]

    async def alone() -> bool:
        order = Order([root, child, other, last], {})
        order.done(root)
        waiting = asyncio.create_task(order.ready(child))
        done, _ = await asyncio.wait([waiting], timeout=0.1)
        waiting.cancel()
        return bool(done)

    assert not asyncio.run(alone())
