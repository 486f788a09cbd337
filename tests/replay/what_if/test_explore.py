"""Which order of completion changes what a run gives, and the fewest moves to it (§12.8)."""

import asyncio
import contextlib
import functools
import itertools
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import explore
from refold.engine.errors import Diverged, LogUnsealed, UsageError
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import Delegation, ModelReply, ModelRequest
from refold.engine.program.run import PlainRun, Run
from refold.replay.index.by_call import Book
from refold.replay.what_if.order_report import ExploreReport
from refold.tools.contract.tool_types import tool
from tests.support.loops import some
from tests.support.racing import fetch, followed, gathered, raced, recorded, timed


def explored(tmp_path: Path, program: Any, names: Any = None, **options: Any) -> ExploreReport:
    return explore(recorded(tmp_path / "a.jsonl", program, names).log, program, **options)


def test_a_race_is_found_and_shrunk_to_one_move(tmp_path: Path) -> None:
    """Case 32: a decision by the winner; each other winner is one end, and one move away."""
    report = explored(tmp_path, raced)

    assert not report.identical
    assert report.changes
    assert (report.orders, report.as_recorded, report.is_exhaustive) == (6, 2, True)
    assert len(report.findings) == 2
    for finding in report.findings:
        (move,) = finding.moves
        (difference,) = finding.diff
        assert (finding.kind, finding.orders) == ("output", 2)
        assert move.relation == "before"
        assert finding.order[0] == move.call
        assert difference.pointer == "/output/first"
        assert finding.file.endswith("racing.py")


async def mirror(run: Run, name: str) -> str:
    """Fetch a page, at once or very late."""
    if name == "slow":
        await run.sleep(600)
    page: str = await run.tool("fetch", name=name)
    return page


async def first_child(run: Run, names: list[str]) -> str:
    """Take the first of two children, and cancel the other."""
    kids = [await run.start(Delegation(program=mirror, input=name)) for name in names]
    winner = await run.join_first(*kids)
    for kid in kids:
        if kid is not winner:
            run.cancel(kid)
    outcomes = await run.join(*kids)
    return next(str(one.output) for one in outcomes if one.status == "completed")


async def first_delegation(run: Run, names: list[str]) -> str:
    """The same, with tasks that delegate."""
    kids = [
        asyncio.ensure_future(run.delegate(Delegation(program=mirror, input=name)))
        for name in names
    ]
    done, rest = await asyncio.wait(kids, return_when=asyncio.FIRST_COMPLETED)
    for kid in rest:
        kid.cancel()
    return next(str(one.result().output) for one in done)


@pytest.mark.parametrize("program", [first_child, first_delegation])
def test_a_child_that_was_cancelled_cannot_win(program: Any, tmp_path: Path) -> None:
    """It ended so because it had lost; how it would have ended is in no log."""
    report = explored(tmp_path, program, ["slow", "a"], tools=[fetch])

    assert (report.orders, report.findings) == (1, ()), str(report)
    (left,) = report.untried
    assert left.startswith("child mirror#1")
    assert '"slow"' in left


async def raced_later(run: Run, names: list[str]) -> Any:
    """Waits for something else before."""
    await asyncio.sleep(0.001)
    return await raced(run, names)


async def raced_apart(run: Run, names: list[str]) -> Any:
    """Begins its work in a task that ends before it."""
    order: list[str] = []

    async def one(name: str) -> None:
        await run.tool("fetch", name=name)
        order.append(name)

    async def begin() -> list[asyncio.Task[None]]:
        return [asyncio.create_task(one(name)) for name in names]

    begun = await asyncio.create_task(begin())
    await asyncio.gather(*begun)
    return order


@pytest.mark.parametrize("program", [raced, raced_later, raced_apart])
def test_the_place_is_where_both_are_awaited(tmp_path: Path, program: Any) -> None:
    finding = explored(tmp_path, program).findings[0]

    line = Path(finding.file).read_text(encoding="utf-8").splitlines()[finding.line - 1]

    assert "asyncio.gather" in line


def test_a_gather_does_not_care(tmp_path: Path) -> None:
    """Case 36: branches that call the same tool never swap their results."""
    report = explored(tmp_path, gathered, list("abcd"))

    assert report.identical
    assert report.findings == ()
    assert (report.orders, report.is_exhaustive, report.outstanding) == (24, True, 4)


def test_large_and_small_results_come_as_they_are_ordered(tmp_path: Path) -> None:
    """Case 37: how long a result takes to be read plays no part."""
    report = explored(tmp_path, gathered, ["a", "b" * 100_000])

    assert (report.orders, report.identical) == (2, True)


def test_a_call_that_was_never_recorded_is_kept_apart(tmp_path: Path) -> None:
    """It is named, and it is no other output: what comes then is not known."""
    report = explored(tmp_path, followed)

    assert not report.identical
    assert not report.changes
    for finding in report.findings:
        assert (finding.kind, finding.end, finding.diff) == ("missing", {}, ())
        assert finding.missing is not None
        assert finding.missing["call"] == "0#1"
        assert finding.missing["arguments"]["name"].startswith("page ")
        assert len(finding.moves) == 1


async def hedged(run: Run, names: list[str]) -> Any:
    """Goes on with whoever is first, and stops the others."""
    tasks = [asyncio.ensure_future(run.tool("late", name=name)) for name in names]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return [tasks.index(task) for task in done]


async def first_exception(run: Run, names: list[str]) -> Any:
    """Waits for the first failure among what comes back."""

    async def checked(name: str) -> str:
        page: str = await run.tool("fetch", name=name)
        if name == "b":
            raise ValueError(page)
        return page

    tasks = [asyncio.ensure_future(checked(name)) for name in names]
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    await asyncio.gather(*rest)
    return sorted(tasks.index(task) for task in done)


async def first_error(run: Run, names: list[str]) -> Any:
    """Returns the words of whoever fails first."""

    async def fails(name: str) -> None:
        await run.tool("late", name=name)
        raise ValueError(name)

    try:
        await asyncio.gather(*(fails(name) for name in names))
    except ValueError as error:
        return str(error)


async def whoever_comes(run: Run, names: list[str]) -> Any:
    """Does not look at what the first gave, nor at who it was."""
    tasks = [asyncio.ensure_future(run.tool("late", name=name)) for name in names]
    _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return "somebody"


async def too_late(run: Run, names: list[str]) -> Any:
    """Gives up on a call by the clock."""
    try:
        async with asyncio.timeout(0.001):
            return await run.tool("late", name=names[-1])
    except TimeoutError:
        return "late"


def recorded_with_late(tmp_path: Path, program: Any) -> Path:
    """Record with a tool that comes to an end for `a`, and for nobody else."""

    @tool(effect="reads")
    async def late(name: str) -> str:
        """Get something, or wait."""
        if name != "a":
            await asyncio.Event().wait()
        return f"page {name}"

    return recorded(tmp_path / "a.jsonl", program, ["a", "b"], tools=[fetch, late]).log


@pytest.mark.parametrize("program", [hedged, first_error])
def test_whoever_was_given_up_may_have_been_first(tmp_path: Path, program: Any) -> None:
    """Case 33: an outcome stands in for it; that the end hangs on it is all that is said."""
    report = explore(recorded_with_late(tmp_path, program), program)

    (finding,) = report.findings
    assert (finding.kind, finding.is_given_up, finding.end) == ("missing", True, {})
    assert (finding.missing or {})["call"] == "0/2#1"
    assert [move.call for move in finding.moves] == ["0/2#1"]
    assert not report.changes
    assert (report.orders, report.outstanding, report.untried) == (2, 2, ())
    assert "with some order, the program needs an outcome that was never recorded" in str(report)
    assert "never were two outcomes outstanding" not in str(report)


def test_who_was_given_up_may_be_all_the_same(tmp_path: Path) -> None:
    """A run that ends as recorded whoever is first has no race."""
    report = explore(recorded_with_late(tmp_path, whoever_comes), whoever_comes)

    assert (report.orders, report.identical, len(report.given_up)) == (2, True, 1)


def test_what_a_timer_gave_up_on_races_where_timers_do(tmp_path: Path) -> None:
    """Otherwise it is listed, and the report does not read as an all-clear."""
    log = recorded_with_late(tmp_path, too_late)

    bound, free = explore(log, too_late), explore(log, too_late, timers=True)

    assert (bound.orders, bound.findings) == (1, ())
    assert bound.headline() == "no other order of the raced outcomes is possible"
    assert bound.left_out() == [
        'cancelled in the recording, and therefore left out: late#1 (name="b")',
        "not varied: 1 timer; to vary them, use timers=True (--timers)",
    ]
    (finding,) = free.findings
    assert finding.is_given_up
    assert free.left_out() == []


async def order_of(run: Run, names: list[str]) -> list[str]:
    """Fetch all at once, and return the order in which they came."""
    order: list[str] = []

    async def one(name: str) -> None:
        await run.tool("fetch", name=name)
        order.append(name)

    await asyncio.gather(*(one(name) for name in names))
    return order


async def reversed_order(run: Run, names: list[str]) -> Any:
    """Goes wrong only where all come in the opposite order."""
    order = await order_of(run, names)
    return order == names[::-1]


async def one_of_many(run: Run, names: list[str]) -> Any:
    """Goes on with whoever is first, and asks for one thing more."""
    tasks = [asyncio.ensure_future(run.tool("fetch", name=name)) for name in names]
    _, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in rest:
        task.cancel()
    return await run.tool("fetch", name="z")


def test_choices_that_are_not_tried_are_not_forgotten(tmp_path: Path) -> None:
    """Of thirty that may come first, some are left out: what comes later changes nothing."""
    report = explored(tmp_path, one_of_many, [str(number) for number in range(30)], orders=60)

    assert not report.is_exhaustive


async def one_is_last(run: Run, names: list[str]) -> Any:
    """Goes wrong only where the second comes after all others, and these in their order."""
    order = await order_of(run, names)
    return order == [names[0], *names[2:], names[1]]


def test_each_is_tried_after_all_others(tmp_path: Path) -> None:
    """One move, and many places: no other way of choosing comes there so soon."""
    names = [str(number) for number in range(7)]
    log = recorded(tmp_path / "a.jsonl", one_is_last, names).log
    in_order = Book(log).delivered == tuple(f"0/{number + 1}#1" for number in range(7))

    report = explore(log, one_is_last, orders=24)

    assert report.changes or not in_order


@pytest.mark.parametrize("count", some(1, [3, 5, 7]))
def test_the_opposite_order_is_among_the_first_ten(tmp_path: Path, count: int) -> None:
    """Of seven calls there are 5,040 orders."""
    names = [str(number) for number in range(count)]
    log = recorded(tmp_path / "a.jsonl", reversed_order, names).log
    in_order = Book(log).delivered == tuple(f"0/{number + 1}#1" for number in range(count))

    report = explore(log, reversed_order, orders=10)

    assert report.changes or not in_order


@pytest.mark.parametrize("orders", some(1, [40, 121, 150]))
def test_all_orders_are_all_there_are(tmp_path: Path, orders: int) -> None:
    """A search says so only where it tried every one, whatever it tried out of turn."""
    report = explored(tmp_path, gathered, list("abcde"), orders=orders)

    assert report.orders == min(orders, 120)
    assert report.is_exhaustive == (orders > 120)
    assert ("there are more" in str(report)) == (orders < 120)


def test_first_exception_depends_on_who_was_before_it(tmp_path: Path) -> None:
    """Case 33: how many were done when the first one failed."""
    report = explored(tmp_path, first_exception)

    assert report.changes
    assert all(len(finding.moves) in (1, 2) for finding in report.findings)


async def all_or_late(run: Run, names: list[str]) -> Any:
    """Fetches all, for an hour at most."""
    work = asyncio.gather(*(run.tool("fetch", name=name) for name in names))
    alarm = asyncio.ensure_future(asyncio.sleep(3600, "late"))
    both: list[asyncio.Future[Any]] = [work, alarm]
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if work in done:
        alarm.cancel()
        return work.result()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work
    return alarm.result()


def test_timers_race_only_where_they_are_let(tmp_path: Path) -> None:
    """Case 34: all children against a sleep; the move names the timer."""
    log = recorded(tmp_path / "a.jsonl", all_or_late).log

    bound, free = explore(log, all_or_late), explore(log, all_or_late, timers=True)

    assert bound.identical
    (finding,) = free.findings
    assert finding.end["output"] == "late"
    (move,) = finding.moves
    assert str(move).startswith("fire timer 0/")
    assert move.relation == "before"


def test_a_timeout_is_found_by_letting_timers_race(tmp_path: Path) -> None:
    report = explored(tmp_path, timed, timers=True)

    assert (report.orders, report.is_exhaustive) == (2, True)
    assert [finding.end["output"] for finding in report.findings] == ["late"]


async def decided(run: Run, names: list[str]) -> Any:
    """Decides by the first; asks for the rest in any order."""
    order: list[str] = []

    async def one(name: str) -> None:
        await run.tool("fetch", name=name)
        order.append(name)

    await asyncio.gather(*(one(name) for name in names))
    return order[0] == names[0]


async def paced(run: Run, names: list[str], *, within: float | None = None) -> Any:
    """Sleeps between two calls, within a limit that is never reached."""
    async with asyncio.timeout(within):
        first = await run.tool("fetch", name=names[0])
        await asyncio.sleep(0.001)
        return [first, await run.tool("fetch", name=names[1])]


def test_a_limit_that_is_put_around_a_recorded_sleep_is_not_that_sleep(tmp_path: Path) -> None:
    """Timers are told by scope and length: the record fired the sleep, and not the limit."""
    log = recorded(tmp_path / "a.jsonl", paced).log

    report = explore(log, functools.partial(paced, within=900))

    assert report.identical, report


def test_what_comes_after_the_decision_changes_nothing(tmp_path: Path) -> None:
    """Case 35: late events do not change the branch: half of all orders are as recorded."""
    report = explored(tmp_path, decided)

    (finding,) = report.findings
    assert (report.orders, report.as_recorded + finding.orders) == (6, 6)
    assert report.as_recorded in (2, 4)
    assert len(finding.moves) == 1


async def deadlocked(run: Run, names: list[str]) -> Any:
    """Gets stuck where the second is first."""
    order: list[str] = []
    opened = asyncio.Event()

    async def one(name: str) -> None:
        await run.tool("fetch", name=name)
        order.append(name)
        if order[0] == "first":
            opened.set()
        await opened.wait()

    await asyncio.gather(*(one(name) for name in names))


def test_an_order_that_gets_stuck_is_an_error(tmp_path: Path) -> None:
    """A lost wake-up shows as what it is, with the tasks that wait."""
    one = recorded(tmp_path / "a.jsonl", deadlocked, ["first", "second"])
    report = explore(one.log, deadlocked)

    (finding,) = report.findings
    assert finding.kind == "error"
    assert {one.status, finding.end["status"]} == {"completed", "failed"}
    assert len(finding.moves) == 1


async def buggy(run: Run, names: list[str]) -> Any:
    """Loses an update where two reads come before the writes."""
    total = {"n": 0}

    async def add(name: str) -> None:
        before = total["n"]
        await run.tool("fetch", name=name)
        total["n"] = before + 1

    await asyncio.gather(*(add(name) for name in names))
    return total["n"]


def test_a_lost_update_is_lost_in_every_order(tmp_path: Path) -> None:
    assert explored(tmp_path, buggy).identical


def test_models_and_children_are_reordered_too(tmp_path: Path) -> None:
    """And of two conversations, either may be the first that the log has."""

    def answer(request: ModelRequest) -> ModelReply:
        return ModelReply(message={"role": "assistant", "content": str(len(request.messages))})

    async def program(run: Run, names: list[str]) -> Any:
        system = {"role": "system", "content": "be brief"}

        async def talk(name: str) -> Any:
            messages = [system, {"role": "user", "content": name}]
            reply = await run.model(messages)
            messages += [reply.message, {"role": "user", "content": "and?"}]
            return (await run.model(messages)).message["content"]

        child = run.delegate(Delegation(program=gathered, input=names, brief="go"))
        return await asyncio.gather(talk("a"), talk("b"), child)

    log = recorded(tmp_path / "a.jsonl", program, model=FunctionModel(answer)).log

    report = explore(log, program)

    assert report.identical
    assert report.orders > 6


def test_a_child_is_explored_by_its_own_log(tmp_path: Path) -> None:
    """The report of its parent counts it."""

    async def parent(run: Run, names: list[str]) -> Any:
        outcome = await run.delegate(Delegation(program=raced, input=names, brief="race"))
        return outcome.status

    log = recorded(tmp_path / "a.jsonl", parent).log

    alone, child = explore(log, parent), explore(tmp_path / "a.1.jsonl", raced)

    assert (alone.identical, alone.children_left) == (True, 1)
    assert child.changes
    assert child.orders == 6


def test_a_plain_program_has_one_order(tmp_path: Path) -> None:
    def plain(run: PlainRun, names: list[str]) -> Any:
        return [run.tool(fetch, name=name) for name in names]

    report = explored(tmp_path, plain)

    assert (report.orders, report.is_exhaustive, report.identical) == (1, True, True)


def test_a_program_that_draws_by_itself_is_refused(tmp_path: Path) -> None:
    """What an order changes could not be told from what it draws."""
    drawn = itertools.count()

    async def drawing(run: Run, names: list[str]) -> Any:
        pages = await asyncio.gather(*(run.tool("fetch", name=name) for name in names))
        return [pages, next(drawn) > 3]

    with pytest.raises(UsageError, match="ends differently"):
        explored(tmp_path, drawing)


@pytest.mark.long
def test_an_order_under_which_it_stands_still_ends_the_search(tmp_path: Path) -> None:
    """Nothing but the wall limit notices; the thread is left behind."""
    goes_on = threading.Event()

    async def standing(run: Run, names: list[str]) -> Any:
        order: list[str] = []

        async def one(name: str) -> None:
            await run.tool("fetch", name=name)
            order.append(name)
            if order[0] != first[0]:
                goes_on.wait(60)

        await asyncio.gather(*(one(name) for name in names))
        return None

    first: list[str] = []
    log = recorded(tmp_path / "a.jsonl", learning, ["a", "b"]).log
    first.append(Book(log).end["output"])

    async def learnt(run: Run, names: list[str]) -> Any:
        await standing(run, names)
        return first[0]

    report = explore(log, learnt)
    goes_on.set()

    (finding,) = report.findings
    assert (finding.kind, report.is_exhaustive) == ("endless", False)


async def learning(run: Run, names: list[str]) -> Any:
    """Returns who was first."""
    return (await raced(run, names))["first"]


def test_each_order_is_told(tmp_path: Path) -> None:
    told: list[int] = []

    explored(tmp_path, gathered, on_order=told.append)

    assert told == [2, 3, 4, 5, 6]


def test_what_cannot_be_explored_is_refused(tmp_path: Path) -> None:
    """Another program, no orders, no end."""
    log = recorded(tmp_path / "a.jsonl", gathered).log
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    with pytest.raises(Diverged):
        explore(log, raced)
    with pytest.raises(UsageError):
        explore(log, gathered, orders=0)
    with pytest.raises(LogUnsealed):
        explore(cut, gathered)


Node = list[Any]
NODES: st.SearchStrategy[Node] = st.recursive(
    st.integers(0, 9).map(lambda number: ["fetch", str(number)]),
    lambda inner: st.tuples(
        st.sampled_from(["all", "then", "group"]), st.lists(inner, min_size=1, max_size=3)
    ).map(list),
    max_leaves=7,
)


async def independent(run: Run, node: Node) -> Any:
    """Puts results together by their place, never by their time."""
    kind, rest = node
    if kind == "fetch":
        return await run.tool("fetch", name=rest)
    if kind == "then":
        return [await independent(run, one) for one in rest]
    if kind == "all":
        return await asyncio.gather(*(independent(run, one) for one in rest))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(independent(run, one)) for one in rest]
    return [task.result() for task in tasks]


@pytest.mark.long
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(NODES)
def test_what_is_independent_by_construction_has_no_finding(
    tmp_path_factory: pytest.TempPathFactory, node: Node
) -> None:
    """Case 46: whatever the shape of the program, under whatever order."""
    log = recorded(tmp_path_factory.mktemp("any") / "a.jsonl", independent, node).log

    report = explore(log, independent, orders=15)

    assert report.identical, str(report)
