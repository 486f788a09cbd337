"""What the first difference is called (CONTRACT.md §12.4): one change a case, one name."""

import asyncio
import contextlib
import functools
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import ToolError, ToolUnknown
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.naming import RULES, named
from refold.replay.reexecute.comparison import Comparison
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.report import RunAgain
from refold.tools.contract.tool_types import tool
from tests.support.loops import for_each, table
from tests.support.simulated import record_simulated
from tests.support.steps import Step, fetch, program_of, recorded, search

A: Step = ("tool", "search", {"q": "a"})
B: Step = ("tool", "fetch", {"q": "b"})
C: Step = ("tool", "search", {"q": "c"})
X: Step = ("tool", "search", {"q": "x"})
NAP: Step = ("sleep", 0.001)
LONG: Step = ("sleep", 0.002)
UUID: Step = ("uuid",)


def both(*branches: list[Step]) -> Step:
    return ("both", *branches)


@attrs.frozen
class Case:
    """A program, the same program changed, and what the change is called."""

    name: str
    before: list[Step]
    after: list[Step]
    category: str
    where: str
    seq: int | tuple[int, ...] | None
    later: tuple[str, ...] = ()
    """What differs besides, in its order, and whether it cannot have followed from the first.

    Without the output, which follows from most changes.
    """


CASES = [
    # a changed argument, at each place
    Case("argument first", [A, B, C], [X, B, C], "args_changed", "search#1", 1),
    Case("argument middle", [A, C, B], [A, X, B], "args_changed", "search#2", 3),
    Case("argument last", [A, B, C], [A, B, X], "args_changed", "search#3", 5),
    Case("model text", [("model", "hi")], [("model", "ho")], "args_changed", "scripted#1", 1),
    Case("note text", [("note", "hi")], [("note", "ho")], "args_changed", "note#1", 1),
    # a call that was not there
    Case("extra at start", [A, B, C], [X, A, B, C], "extra_call", "search#1", None),
    Case("extra in the middle", [A, B, C], [A, X, B, C], "extra_call", "search#2", None),
    Case("extra at the end", [A, B, C], [A, B, C, X], "extra_call", "search#4", None),
    Case("one more of the same", [A, A], [A, A, A], "extra_call", "search#3", None),
    Case("call before a uuid", [A, UUID, B], [A, X, UUID, B], "extra_call", "search#2", None),
    Case("note before a uuid", [UUID, B], [("note", "n"), UUID, B], "extra_call", "note#1", None),
    Case(
        "one more of the same, before a look",
        [A, ("now",), UUID],
        [A, UUID, ("now",), UUID],
        "extra_call",
        "uuid#2",
        None,
    ),
    Case("sleep added", [A, B], [A, NAP, B], "extra_call", "timer@1", None),
    Case("sleep added at the end", [A], [A, NAP], "extra_call", "timer@1", None),
    Case("look added", [A, B], [A, ("now",), B], "extra_call", "clock", None),
    # a call that is gone
    Case("first dropped", [A, B, C], [B, C], "missing_call", "search#1", 1),
    Case("middle dropped", [A, B, C], [A, C], "missing_call", "fetch#2", 3),
    Case("last dropped", [A, B, C], [A, B], "unconsumed", "search#3", 5),
    Case(
        "all dropped",
        [A, B, C],
        [],
        "unconsumed",
        "search#1",
        1,
        ("unconsumed 0#2", "unconsumed 0#3"),
    ),
    Case("one fewer of the same", [A, A], [A], "unconsumed", "search#2", 3),
    Case("sleep removed", [A, NAP, B], [A, B], "missing_call", "timer@1", 3),
    Case("sleep removed at the end", [A, NAP], [A], "unconsumed", "timer@1", 3),
    Case("look removed", [A, ("now",), B], [A, B], "missing_call", "clock", 3),
    Case("look removed at the end", [A, ("now",)], [A], "unconsumed", "clock", 3),
    Case(
        "early return",
        [A, B, C],
        [A, ("return", 1)],
        "unconsumed",
        "fetch#2",
        3,
        ("unconsumed 0#3",),
    ),
    Case(
        "early return of the same value",
        [A, ("note", "n"), ("return", 1)],
        [A, ("return", 1)],
        "unconsumed",
        "note#2",
        3,
    ),
    # another order
    Case("pair swapped", [A, B, C], [B, A, C], "reordered", "fetch#1", 1),
    Case("later pair swapped", [A, B, C], [A, C, B], "reordered", "search#2", 3),
    Case(
        "all reversed",
        [A, B, C],
        [C, B, A],
        "reordered",
        "search#1",
        1,
        ("reordered 0#1",),
    ),
    # another kind, another name
    Case("call for a note", [A, B, C], [A, ("note", "b"), C], "kind_changed", "note#2", 3),
    Case("call for a draw", [A, B, C], [A, ("uuid",), C], "kind_changed", "uuid#2", 3),
    Case("call for a model", [A, B, C], [A, ("model", "b"), C], "kind_changed", "scripted#2", 3),
    Case("call for a child", [A, B, C], [A, ("child", []), C], "kind_changed", "stepwise#2", 3),
    Case("call for a sleep", [A, B, C], [A, NAP, C], "kind_changed", "timer@1", 3),
    Case("sleep for a call", [A, NAP, C], [A, B, C], "kind_changed", "fetch#2", 3),
    Case("call for a look", [A, B, C], [A, ("now",), C], "kind_changed", "fetch#2", 3),
    Case("look for a call", [A, ("now",), C], [A, B, C], "kind_changed", "fetch#2", 3),
    Case(
        "renamed tool",
        [A, B, C],
        [A, ("tool", "search", {"q": "b"}), C],
        "name_changed",
        "search#2",
        3,
    ),
    # another end
    Case("another value", [A, ("return", 1)], [A, ("return", 2)], "output_changed", "", 3),
    Case("raise for return", [A, ("return", 1)], [A, ("raise", "no")], "output_changed", "", 3),
    Case("return for raise", [A, ("raise", "no")], [A, ("return", 1)], "output_changed", "", 3),
    Case("another error", [A, ("raise", "no")], [A, ("raise", "yes")], "output_changed", "", 3),
    # waiting
    Case(
        "await added",
        [("start", [A]), B, ("return", 1)],
        [("start", [A]), ("await",), B, ("return", 1)],
        "unrecorded_await",
        "search#1 in 0/1",
        1,
        ("missing_call 0/1#1",),
    ),
    Case(
        "await moved forward",
        [("start", [A, A]), B, C, ("await",), ("return", 1)],
        [("start", [A, A]), ("await",), B, C, ("return", 1)],
        "unrecorded_await",
        "search#1 in 0/1",
        1,
    ),
    Case(
        "await removed",
        [("start", [A]), ("await",), B, ("return", 1)],
        [("start", [A]), B, ("return", 1)],
        "reordered",
        "fetch#1",
        1,
    ),
    # parallel branches: a change is found in its own branch
    Case(
        "argument in a branch",
        [both([A, B], [C, A])],
        [both([A, B], [C, X])],
        "args_changed",
        "search#2 in 0/2",
        (6, 7),  # whichever branch is answered first
    ),
    Case(
        "extra in a branch",
        [both([A, B], [C, B])],
        [both([A, B], [C, X, B])],
        "extra_call",
        "search#2 in 0/2",
        None,
    ),
    Case(
        "a branch more",
        [both([A], [B])],
        [both([A], [B], [C])],
        "extra_call",
        "search#1 in 0/3",
        None,
    ),
    Case(
        "a branch less",
        [both([A], [B], [C])],
        [both([A], [B])],
        "missing_call",
        "search#1 in 0/3",
        3,
    ),
    Case(
        "branches swapped",
        [both([A], [B])],
        [both([B], [A])],
        "reordered",
        "search#1 in 0/2",
        1,
    ),
    Case(
        "a branch more, in front",
        [both([A], [B])],
        [both([C], [A], [B])],
        "extra_call",
        "search#1 in 0/1",
        None,
    ),
    Case(
        "a branch less, in front",
        [both([A], [B], [C])],
        [both([B], [C])],
        "missing_call",
        "search#1 in 0/1",
        1,
    ),
    Case(
        "pair swapped in a branch",
        [both([A, B, C], [C])],
        [both([B, A, C], [C])],
        "reordered",
        "fetch#1 in 0/1",
        1,
    ),
    # a call that moved into another task
    Case(
        "call wrapped in a task",
        [A, B, C],
        [A, ("start", [B]), ("await",), C],
        "reordered",
        "fetch#1 in 0/1",
        3,
    ),
    Case(
        "sequence gathered",
        [A, B],
        [both([A], [B])],
        "reordered",
        "search#1 in 0/1",
        1,
        ("reordered 0/2#1",),
    ),
    Case(
        "gather undone",
        [both([A], [B])],
        [A, B],
        "reordered",
        "search#1",
        1,
        ("reordered 0#2",),
    ),
    Case(
        "gathered, and one changed",
        [A, B],
        [both([A], [X])],
        "reordered",
        "search#1 in 0/1",
        1,
        ("extra_call 0/2#1", "missing_call 0#2"),
    ),
    # sleeps and time limits
    Case(
        "sleep added in a branch",
        [both([A, B], [C])],
        [both([A, NAP, B], [C])],
        "extra_call",
        "timer@1 in 0/1",
        None,
    ),
    Case(
        "sleep added before a sleep", [A, NAP, B], [NAP, A, NAP, B], "extra_call", "timer@1", None
    ),
    Case(
        "call for a sleep in a branch",
        [both([A, B], [C])],
        [both([A, NAP], [C])],
        "kind_changed",
        "timer@1 in 0/1",
        (4, 5),  # by which of the two calls ended first
    ),
    # two changes: which is told first, and where the other stands
    Case(
        "wrapped in a branch, and another changed",
        [both([A, B], [C])],
        [both([("start", [A]), ("await",), B], [X])],
        "args_changed",
        "search#1 in 0/2",
        2,
        ("reordered 0/1/1#1 beside it",),
    ),
    Case(
        "sleep moved behind a look, and a call wrapped",
        [NAP, ("now",), A],
        [("now",), both([A], []), NAP],
        "unrecorded_await",
        "timer@1",
        1,
        ("reordered 0/1#1",),
    ),
    Case(
        "call dropped, and a sleep put into a task",
        [A, NAP],
        [("start", [NAP]), ("await",)],
        "missing_call",
        "search#1",
        1,
        ("missing_call 0@1", "extra_call 0/1@1"),
    ),
    Case(
        "note text, and a look more",
        [("note", "n")],
        [("note", "m"), ("now",)],
        "args_changed",
        "note#1",
        1,
    ),
    Case("look removed, and nothing left", [("now",)], [], "unconsumed", "clock", 1),
    Case("sleep for a look", [("now",)], [NAP], "missing_call", "clock", 1, ("extra_call 0@1",)),
    Case(
        "call for a sleep, and a call more",
        [A],
        [NAP, ("model", "ho"), B],
        "kind_changed",
        "timer@1",
        1,
        ("extra_call 0#1",),
    ),
    Case(
        "call more, before one that changed",
        [A],
        [("model", "hi"), X],
        "extra_call",
        "scripted#1",
        None,
        ("args_changed 0#2",),
    ),
    Case(
        "sleep more, and a call in a task",
        [NAP, ("start", []), ("now",), ("await",)],
        [NAP, NAP, ("start", [A]), ("now",), ("await",)],
        "extra_call",
        "timer@2",
        None,
        ("extra_call 0/1#1",),
    ),
    Case(
        "branches removed before a sleep",
        [both([A], [("sleep", 0.002), B]), NAP, X],
        [NAP, X],
        "missing_call",
        "search#1 in 0/1",
        1,
        ("missing_call 0/2@1", "missing_call 0/2#1"),
    ),
    # a task beside a sleep
    Case(
        "call added in a task beside a sleep",
        [("start", [UUID]), NAP],
        [("start", [B, UUID]), NAP],
        "extra_call",
        "fetch#1 in 0/1",
        None,
    ),
    Case(
        "sleep added in a task beside a sleep",
        [("start", [A]), NAP],
        [("start", [NAP, A]), NAP],
        "extra_call",
        "timer@1 in 0/1",
        None,
    ),
    Case(
        "sleep added in a branch, and a task beside it",
        [both([], [B])],
        [both([("start", [UUID])], [NAP, B])],
        "extra_call",
        "timer@1 in 0/2",
        None,
        ("extra_call 0/1/1#1 beside it",),
    ),
    Case(
        "call moved into a task, between two new ones",
        [A, B],
        [("start", [X, A, C]), B],
        "reordered",
        "search#2 in 0/1",
        1,
        ("extra_call 0/1#3", "extra_call 0/1#3", "extra_call 0/1#1"),
    ),
    # a tool that the run was not offered
    Case(
        "renamed to an unknown tool",
        [A, B, C],
        [A, ("tool", "fetch_v2", {"q": "b"}), C],
        "name_changed",
        "fetch_v2#2",
        3,
        ("unconsumed 0#3",),
    ),
    Case(
        "unknown tool in a branch",
        [both([A, B], [C])],
        [both([A, ("tool", "fetch_v2", {"q": "b"})], [C])],
        "name_changed",
        "fetch_v2#2 in 0/1",
        (4, 5),  # by which of the two calls ended first
        ("extra_call 0/2#1",),
    ),
    Case(
        "unknown tool at the end",
        [A],
        [A, ("tool", "fetch_v2", {"q": "b"})],
        "extra_call",
        "fetch_v2#2",
        None,
    ),
]


def first_divergence(tmp_path: Path, before: list[Step], after: list[Step]) -> Divergence:
    log = recorded(tmp_path / "a.jsonl", *before).log
    assert reexecute(log, program_of(*before)).identical
    return reexecute(log, program_of(*after)).divergences[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_change_has_its_name_and_its_place(tmp_path: Path, case: Case) -> None:
    """The category, the place in names, and the recorded entry; one change is told once."""
    found = first_divergence(tmp_path, case.before, case.after)

    place = "stepwise > " + case.where if case.where else "stepwise"
    assert (found.category, found.where) == (case.category, place)
    assert found.seq in (case.seq if isinstance(case.seq, tuple) else (case.seq,))
    assert [
        f"{one.category} {one.call}{'' if one.consequence else ' beside it'}"
        for one in found.later
        if one.call
    ] == list(case.later)


OF_RULE: dict[str, list[tuple[list[Step], list[Step]]]] = {
    "timer due": [([NAP], [LONG])],
    "seeded": [],  # of a child, which gets it from its parent: see the tests of reexecute
    "clock": [([A, B], [A, ("now",), B]), ([A, ("now",), C], [A, B, C])],
    "sleep": [([A, B], [A, NAP, B]), ([A, B, C], [A, NAP, C])],
    "one line": [([A, B, C], [X, B, C]), ([A, B, C], [A, C]), ([A, B, C], [B, A, C])],
    "replaced": [([NAP], [A])],
    "put below": [([B], [C, both([B], [LONG])])],
    "asked later": [([C], [both([both([C])], [A])])],
    "moved": [([both([A, B], [C])], [both([("start", [A]), ("await",), B], [X])])],
    "recorded line": [([NAP], [both([C])])],
    "sleep gone": [([LONG, NAP, B], [B, LONG, both([NAP]), B])],
    "twin": [([NAP, NAP, C], [C, NAP, NAP, C])],
    "earlier": [([("now",)], [NAP, ("now",)])],
    "await": [([("now",), NAP], [NAP, ("now",)])],
    "order": [([B, ("now",)], [("now",), B])],
}
"""By rule, in the order in which they are asked: programs, before and after a change."""


def rule_of(tmp_path: Path, before: list[Step], after: list[Step]) -> str:
    """Return the rule that names a change; empty where the end of the run does."""
    log = recorded(tmp_path / "a.jsonl", *before).log
    again = RunAgain(log=log, program=program_of(*after), tools={})
    comparison = Comparison(again, None, verified=True)
    comparison.compare()
    explorer = comparison.replayed.explorer
    return "" if explorer is None else named(explorer, frozenset()).rule


def test_each_rule_has_its_cases_in_the_order_of_the_rules() -> None:
    names = [rule.__name__.strip("_").replace("_", " ") for rule in RULES]
    assert list(OF_RULE) == names


@for_each("rule", OF_RULE)
def test_a_rule_names_its_cases(tmp_path: Path, rule: str) -> None:
    for at, (before, after) in enumerate(OF_RULE[rule]):
        (tmp_path / str(at)).mkdir()
        assert rule_of(tmp_path / str(at), before, after) == rule


@pytest.mark.parametrize("position", range(8), ids=lambda position: f"at {position}")
def test_a_call_dropped_at_each_position(tmp_path: Path, position: int) -> None:
    """Dropping the n-th of eight calls is found at the n-th; only the last is left at the end."""
    steps = [("tool", "search", {"q": str(number)}) for number in range(8)]

    found = first_divergence(tmp_path, steps, steps[:position] + steps[position + 1 :])

    assert found.call == f"0#{position + 1}"
    assert found.category == ("missing_call" if position < 7 else "unconsumed")
    assert found.recorded["arguments"] == {"q": str(position)}


def test_a_program_that_calls_for_ever_is_named_all_the_same(tmp_path: Path) -> None:
    """Naming lets the program run on, and only so far; what it did not come to is not missing."""

    async def tireless(run: object, _input: object) -> None:
        while True:
            await run.tool("search", q="more")  # type: ignore[attr-defined]  # of a Run

    logs = [
        recorded(tmp_path / f"{len(more)}.jsonl", A, *more).log for more in ([], [both([B], [C])])
    ]
    one, other = (reexecute(log, tireless).divergences[0] for log in logs)

    assert (one.category, other.category) == ("args_changed", "args_changed")
    assert one.later_count == other.later_count > 0


async def sleeps_then(run: Run, _input: object) -> None:
    await run.tool("search", q="a")
    await asyncio.sleep(0.001)


async def within_a_limit(run: Run, _input: object) -> None:
    async with asyncio.timeout(60):
        await run.tool("search", q="a")
    await asyncio.sleep(0.001)


def test_a_time_limit_that_is_kept_is_no_timer_more(tmp_path: Path) -> None:
    """It shifts the numbers of the timers that fire, which are told by their lengths."""
    one = recorded(tmp_path / "a.jsonl", program=sleeps_then).log
    other = recorded(tmp_path / "b.jsonl", program=within_a_limit).log

    assert reexecute(one, within_a_limit).identical
    assert reexecute(other, sleeps_then).identical


async def two_tasks(run: Run, _input: object, *, turn: bool = False) -> None:
    """Ask in two tasks, in one of them within a limit and perhaps a turn later."""

    async def one() -> None:
        async with asyncio.timeout(60):
            if turn:
                await asyncio.sleep(0)
            await run.tool("search", q="one")

    await asyncio.gather(one(), run.tool("search", q="other"))


def test_a_turn_given_up_is_no_sleep_of_a_timer(tmp_path: Path) -> None:
    """`asyncio.sleep(0)` in a time limit: the calls are asked in another order, and no timer is."""
    log = recorded(tmp_path / "a.jsonl", program=two_tasks).log

    (found,) = reexecute(log, functools.partial(two_tasks, turn=True)).divergences

    assert (found.category, found.call) == ("reordered", "0/2#1")


def test_a_timer_that_is_due_before_the_recorded_one(tmp_path: Path) -> None:
    """One that is new, or one that the record fired later: in this order they cannot fire."""

    async def waits(run: Run, _input: object, *, more: tuple[float, ...] = ()) -> None:
        loop = asyncio.get_running_loop()
        for seconds in (0.004, *more):
            loop.call_later(seconds, run.annotate, str(seconds))
        await asyncio.sleep(0.006)

    log = recorded(tmp_path / "a.jsonl", program=waits).log

    (found,) = reexecute(log, functools.partial(waits, more=(0.002,))).divergences

    assert (found.category, found.call, found.recorded) == ("extra_call", "0@2", None)
    assert found.now["arguments"] == {"length_us": 2_000}


def test_a_timer_that_the_record_fired_later(tmp_path: Path) -> None:
    """Its length is the same, and it is armed before: it is due before the recorded one."""

    async def waits(run: Run, _input: object, *, before: bool = False) -> None:
        loop = asyncio.get_running_loop()

        def arm() -> None:
            loop.call_later(0.004, run.annotate, "later")

        loop.time()  # so that the record shows when the step was
        if before:
            arm()
        await asyncio.sleep(0.002)
        if not before:
            arm()
        loop.call_later(0.003, run.annotate, "sooner")
        await asyncio.sleep(0.006)

    log = recorded(tmp_path / "a.jsonl", program=waits).log

    (found,) = reexecute(log, functools.partial(waits, before=True)).divergences

    assert (found.category, found.recorded["call"], found.now["call"]) == (
        "reordered", "0@3", "0@1",
    )  # fmt: skip
    assert found.recorded["arguments"] != found.now["arguments"]


def test_a_moved_call_says_from_where_to_where(tmp_path: Path) -> None:
    """The likely cause is the task, and not what else may reorder calls."""
    found = first_divergence(tmp_path, [A, B], [A, ("start", [B]), ("await",)])

    assert "recorded as 0#2, asked now as 0/1#1" in found.cause
    assert found.recorded["arguments"] == found.now["arguments"]


def test_an_unknown_tool_that_is_caught_is_no_difference(tmp_path: Path) -> None:
    """Whoever asked for it when recording, and went on, does so again."""

    async def careful(run: Run, _input: object) -> object:
        try:
            return await run.tool("no_such_tool")
        except ToolUnknown:
            return await run.tool("search", q="a")

    log = recorded(tmp_path / "a.jsonl", program=careful).log

    assert reexecute(log, careful).identical


def test_what_follows_the_first_difference_is_told_too(tmp_path: Path) -> None:
    """In the order of the record; in a task beside the first, it is no consequence."""
    before = [both([A, B], [C, B]), A, ("return", 1)]
    after = [both([X, B], [C, X]), B, ("return", 2)]

    found = first_divergence(tmp_path, before, after)

    assert (found.category, found.call) == ("args_changed", "0/1#1")
    assert [(one.category, one.call, one.consequence) for one in found.later] == [
        ("name_changed", "0/2#2", False),
        ("name_changed", "0#1", True),
        ("output_changed", "", True),
    ]
    assert found.later_count == 3
    assert " more" not in found.in_full()


def test_a_branch_made_after_the_first_difference_may_follow_from_it(tmp_path: Path) -> None:
    """Only tasks that were there already stand beside it."""
    found = first_divergence(tmp_path, [A, both([B], [C])], [X, both([B], [X])])

    assert [(one.call, one.consequence) for one in found.later] == [("0/2#1", True)]


def test_later_differences_are_counted_beyond_what_is_kept(tmp_path: Path) -> None:
    """At most a hundred keep their details."""
    steps = [("note", str(number)) for number in range(150)]

    found = first_divergence(tmp_path, [*steps, A], [A])

    assert found.category == "missing_call"
    assert (len(found.later), found.later_count) == (100, 150)  # the output among them
    assert found.in_full().endswith("… and 50 more")


async def in_time(run: Run, _input: object, *, edit: str) -> None:
    """Ask, then have a child work that takes longer than it may."""
    await run.tool("search", q="a")
    if edit == "sleep before":
        await asyncio.sleep(0.001)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            if edit == "sleep":
                await asyncio.sleep(0.001)
            if edit == "call":
                await run.tool("fetch", q="inserted")
            if edit == "patient":
                await run.start(Delegation(program=slow))
                await asyncio.Event().wait()
            if edit != "dropped":
                await run.delegate(Delegation(program=slow))
    await run.tool("search", q="b")


async def slow(run: Run, _input: object) -> None:
    await run.sleep(60)


@for_each("edit, category, call", table("""
    sleep         extra_call    0@2
    sleep before  extra_call    0@1
    call          extra_call    0#2
    dropped       missing_call  0#2
"""))  # fmt: skip
def test_what_is_new_before_a_call_that_is_given_up(
    tmp_path: Path, edit: str, category: str, call: str
) -> None:
    """It comes to its end when the program is let run on, before the recorded time limit does."""
    log = recorded(tmp_path / "a.jsonl", program=functools.partial(in_time, edit="")).log

    found = reexecute(log, functools.partial(in_time, edit=edit)).divergences[0]

    assert (found.category, found.call) == (category, call)


@tool(effect="reads")
def flaky(number: int) -> int:
    """Fail twice."""
    if number < 2:
        raise ConnectionError("down")
    return number


async def retrying(run: Run, _input: object, *, edit: str) -> int | None:
    """Try until it works, with a pause in between."""
    for number in range(4):
        try:
            if edit == "before":
                await run.tool("search", q="new")
            return int(await run.tool(flaky, number=number))
        except ToolError:
            if edit == "after":
                await run.tool("search", q="new")
            await asyncio.sleep(0.001)
    return None


@pytest.mark.parametrize(("edit", "call"), [("before", "0#1"), ("after", "0#2")])
def test_a_new_call_does_not_fail_as_another_one_did(tmp_path: Path, edit: str, call: str) -> None:
    """What failed in the record says nothing of another tool: it would lead the program astray."""
    log = recorded(tmp_path / "a.jsonl", program=functools.partial(retrying, edit="")).log

    (found,) = reexecute(log, functools.partial(retrying, edit=edit), tools=[flaky]).divergences

    assert (found.category, found.call) == ("extra_call", call)
    assert {one.category for one in found.later} == {"extra_call"}


def test_requests_are_told_in_the_words_of_run(tmp_path: Path) -> None:
    """A value as it was drawn, without the entry's members; what was given up on as that."""
    value = first_divergence(tmp_path, [A, UUID, B], [A, B])
    log = recorded(tmp_path / "b.jsonl", program=functools.partial(in_time, edit="")).log
    cancel = reexecute(log, functools.partial(in_time, edit="patient")).divergences[0]

    assert "recorded  uuid  0#2  (entry 3" in str(value)
    assert cancel.where.endswith("> cancel child#2")


@tool(effect="reads")
async def lasting(q: str) -> str:
    """Wait for ever."""
    await asyncio.Event().wait()
    return q


async def cut_off(run: Run, _input: object, *, edit: str) -> None:
    """Ask one after the other; a limit begins after the first call, and the second keeps none."""
    word = "other" if edit == "words" else "word"
    left: list[asyncio.Task[object]] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(600) as limit:
            if edit == "sleep":
                await run.sleep(0.001)
            if edit == "call":
                await run.tool("search", q="inserted")
            await run.tool("search", q=f"{word} 1")
            limit.reschedule(asyncio.get_running_loop().time() + 0.001)
            for number in range(2, 5):
                name = "fetch" if edit == "name" else "lasting"
                asked = run.tool(name, q=f"{word} {number}")
                if edit == "task":
                    left.append(asyncio.create_task(asked))
                else:
                    await asked
    await run.tool("search", q="after")


@for_each(
    "edit, category, call, recorded_call",
    [
        ("words", "args_changed", "0#1", "0#1"),
        ("name", "name_changed", "0#2", "0#2"),
        ("task", "reordered", "0/1#1", "0#2"),
        ("sleep", "extra_call", "0@2", ""),
        ("call", "extra_call", "0#1", ""),
    ],
)
def test_what_a_time_limit_cut_off_is_cut_off_again(
    tmp_path: Path, edit: str, category: str, call: str, recorded_call: str
) -> None:
    """A call that the record gave up on is not answered: the program asks for no more than then."""
    program = functools.partial(cut_off, edit="")
    log = record(program, log=tmp_path / "a.jsonl", tools=[search, fetch, lasting], seed=1).log

    found = reexecute(log, functools.partial(cut_off, edit=edit)).divergences[0]

    assert (found.category, found.call) == (category, call)
    assert (found.recorded or {}).get("call", "") == recorded_call


async def beside(run: Run, _input: object, *, edit: str) -> object:
    """Ask in a branch beside others, of which one sleeps."""

    async def naps() -> str:
        if edit != "awake":
            await asyncio.sleep(0.001)
        return str(await run.tool("search", q="nap"))

    if edit == "sleep":
        await asyncio.sleep(0.001)
    if edit == "one by one":
        return [await naps(), await run.tool("search", q="a"), await run.tool("search", q="b")]
    extra = [asyncio.sleep(0)] if edit == "task" else []
    branches = [naps(), run.tool("search", q="a"), run.tool("search", q="b")]
    return await asyncio.gather(*extra, *branches)


@for_each(
    "edit, category, call",
    [
        ("sleep", "extra_call", "0@1"),
        ("one by one", "reordered", "0#2"),
        ("awake", "missing_call", "0/1@1"),
        ("task", None, ""),
    ],
)
def test_a_sleep_is_blamed_only_where_it_is_new(
    tmp_path: Path, edit: str, category: str | None, call: str
) -> None:
    """Not one that the record has in another task."""
    log = recorded(tmp_path / "a.jsonl", program=functools.partial(beside, edit="")).log

    found = reexecute(log, functools.partial(beside, edit=edit)).divergences[0]

    assert category is None or (found.category, found.call) == (category, call)
    assert category is not None or found.now is None or found.now["kind"] != "timer"


async def failing(run: Run, _input: object, *, edit: str) -> None:
    """Note a failure."""
    try:
        if edit == "note":
            run.annotate("instead")
        elif edit == "draw":
            run.uuid()
        else:
            await run.tool("flaky", number=0)
    except ToolError as error:
        run.annotate(f"{error.code} at once")
    await run.tool("search", q="after")


@pytest.mark.parametrize("edit", ["note", "draw"])
def test_what_stands_in_the_place_of_a_call_has_replaced_it(tmp_path: Path, edit: str) -> None:
    """Though what followed from the call is gone, too, and is more like it."""
    log = record(
        functools.partial(failing, edit=""), log=tmp_path / "a.jsonl", tools=[flaky, search], seed=1
    ).log

    found = reexecute(log, functools.partial(failing, edit=edit)).divergences[0]

    assert (found.category, found.call) == ("kind_changed", "0#1")
    assert (found.recorded or {})["name"] == "flaky"


async def then_in_time(run: Run, _input: object, *, edit: str) -> None:
    """Ask, and wait for another call within a limit."""
    await (run.sleep(0.001) if edit == "sleep" else run.tool("search", q="a"))
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(run.tool("lasting", q="b"), 0.02)


def test_a_recorded_time_limit_is_no_sleep_of_the_same_number(tmp_path: Path) -> None:
    """It fired while its task waited for a call: the sleep stands in the place of another."""
    program = functools.partial(then_in_time, edit="")
    log = record(program, log=tmp_path / "a.jsonl", tools=[search, lasting], seed=1).log

    found = reexecute(log, functools.partial(then_in_time, edit="sleep")).divergences[0]

    assert (found.category, found.call) == ("kind_changed", "0@1")
    assert (found.recorded or {})["call"] == "0#1"


async def called_in_time(run: Run, _input: object, *, before: bool, q: str = "b") -> None:
    """Wait within a limit for a call that does not come, and perhaps for another before."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.02):
            if before:
                await run.tool("search", q="new")
            await run.tool("lasting", q=q)
    await run.tool("search", q="after")


@pytest.mark.parametrize(
    ("edit", "category"), [({"before": True}, "extra_call"), ({"q": "x"}, "args_changed")]
)
def test_a_call_before_one_that_was_cancelled_is_a_new_one(
    tmp_path: Path, edit: dict[str, Any], category: str
) -> None:
    """It is not cancelled in the place of the recorded one, which has another name."""
    program = functools.partial(called_in_time, before=False)
    log = record(program, log=tmp_path / "a.jsonl", tools=[search, lasting], seed=1).log

    found = reexecute(log, functools.partial(program, **edit)).divergences[0]

    assert (found.category, found.call, found.later_count) == (category, "0#1", 0)


async def cut_short(run: Run, _input: object, *, q: str) -> Any:
    """Ask, and wait for a call that does not come."""
    await run.tool("search", q=q)
    return await run.tool("lasting", q="b")


def test_a_run_that_was_stopped_in_a_call_has_no_later_end(tmp_path: Path) -> None:
    """Nobody knows what the call would have given, so nothing is said of what comes after it."""
    log, limits = tmp_path / "a.jsonl", Limits(timeout_seconds=0.05)
    record(functools.partial(cut_short, q="a"), log=log, tools=[search, lasting], limits=limits)

    (found,) = reexecute(log, functools.partial(cut_short, q="x")).divergences

    assert (found.category, found.call, found.later_count) == ("args_changed", "0#1", 0)


ASLEEP: Step = ("sleep", 600)


@for_each(
    "after, category, call, later",
    [
        ([A, B], "unconsumed", "", 0),
        ([A, ASLEEP], "missing_call", "0#2", 0),
        ([A, B, C, ASLEEP], "extra_call", "0#3", 0),
        ([A, C, B, ASLEEP], "extra_call", "0#2", 0),
        ([A, ASLEEP, B, ASLEEP], "extra_call", "0@1", 0),
        ([A, ASLEEP, ASLEEP], "kind_changed", "0@1", 0),
    ],
)
def test_the_sleep_that_a_stopped_run_was_in_is_no_difference(
    tmp_path: Path, after: list[Step], category: str, call: str, later: int
) -> None:
    """Its log has no line of the timer: the last one of a program may be it."""
    log = tmp_path / "a.jsonl"
    limits = Limits(timeout_seconds=60)  # in simulated time, B is always in time
    record_simulated(program_of(A, B, ASLEEP), None, log, tools=[search, fetch], limits=limits)
    assert reexecute(log, program_of(A, B, ASLEEP)).identical

    (found,) = reexecute(log, program_of(*after)).divergences

    assert (found.category, found.call or "", found.later_count) == (category, call, later)
