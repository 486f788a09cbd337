import asyncio
import contextlib
import shutil
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import EventMalformed, LogDamaged, LogMissing, ToolError
from refold.engine.events import events
from refold.engine.events.limits import CEILINGS, Limits
from refold.engine.events.outcome import Artifact, Outcome, Usage
from refold.engine.log.writer import LogWriter
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode, ToolUse
from refold.replay.run.tree_text import render_text
from refold.tools.contract.tool_types import tool
from tests.support.delegating import child, recorded
from tests.support.each_kind import log_with
from tests.support.loops import for_each

NOTE = Artifact(kind="note", value="n", name="plan")


def tree_of(tmp_path: Path, *plan: Any, **options: Any) -> RunNode:
    return delegation_tree(recorded(tmp_path / "a.jsonl", plan, **options).log)


def written(log: Path, *lines: tuple[events.Event, str | None]) -> Path:
    """Write a log of those entries, without an end."""
    with LogWriter.create(log, _started(), durability="fast") as writer:
        for event, call in lines:
            writer.append(event, call)
    return log


def _started(run_id: str = "r", **limits: Any) -> events.RunStarted:
    return events.RunStarted(
        "p", None, 0, limits, "00", [], {"format": 1}, {}, {}, "", run_id, "r", nonce="0"
    )


def test_a_node_says_who_did_what_in_which_bounds_and_how_it_ended(tmp_path: Path) -> None:
    work = [
        ("search", "x"),
        ("search", "y"),
        ("try", "nothing"),
        ("ask", "?"),
        ("report", "s", (NOTE,)),
    ]
    bounds = Limits(timeout_seconds=30)

    tree = tree_of(tmp_path, child("dig", work, brief="Dig.", agent="digger", limits=bounds))

    (node,) = tree.children
    assert (node.name, node.agent, node.program, node.brief) == ("digger", "digger", "dig", "Dig.")
    assert (node.call, node.number, node.depth, node.status) == ("0#1", 1, 1, "completed")
    assert node.narrowed == {"timeout_seconds": 30}
    assert node.limits == tree.limits | {"timeout_seconds": 30}
    assert node.tools == (ToolUse("search", called=3, failed=1),)
    assert (node.requests, node.usage.requests) == (1, 1)
    assert node.artifacts == (("note", "plan"),)
    assert node.log_state == "read"
    assert node.entries == 10
    assert node.duration_ms is not None


def test_the_root_tells_what_it_left_behind(tmp_path: Path) -> None:
    """Nobody started it, so that its own end says so."""
    assert tree_of(tmp_path, ("report", "s", (NOTE,))).artifacts == (("note", "plan"),)


def test_the_root_tells_its_own_limits_and_what_all_runs_spent(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "a.jsonl", [("ask", "?"), child("dig", [("ask", "?")])])

    tree = delegation_tree(recording.log)

    assert (tree.name, tree.call, tree.depth) == ("lead", "", 0)
    assert tree.narrowed == {"max_depth": 3}
    assert tree.limits == CEILINGS.narrowed(Limits(max_depth=3)).as_json()
    assert tree.usage == recording.usage
    assert (tree.usage.requests, tree.requests) == (2, 1)
    assert (tree.head, tree.entries) == (recording.head, recording.entries)


def test_a_limit_that_follows_from_the_parents_is_none_of_a_childs_own(tmp_path: Path) -> None:
    """How long a parent waits is what a child may take; only another time is told."""
    own, none = child("dig", [], limits=Limits(timeout_seconds=7)), child("dig", [])

    tree = tree_of(tmp_path, own, none, limits=Limits(join_seconds=20))

    assert [node.narrowed for node in tree.children] == [{"timeout_seconds": 7}, {}]
    bounds = Limits(join_seconds=20, timeout_seconds=10)
    (node,) = tree_of(tmp_path / "b", none, limits=bounds).children
    assert node.narrowed == {}


def test_children_stand_in_the_order_of_starts(tmp_path: Path) -> None:
    tree = tree_of(
        tmp_path, child("one", []), child("two", [child("three", [])]), child("four", [])
    )

    assert [node.name for node in tree.children] == ["one", "two", "four"]
    assert [node.name for node in tree.children[1].children] == ["three"]
    assert tree.children[1].children[0].depth == 2


def test_a_rejected_start_is_a_leaf_without_a_log(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, child("dig", []), limits=Limits(max_depth=0))

    (node,) = tree.children
    assert (node.status, node.log_state, node.log, node.number) == ("rejected", "none", "", 0)
    assert node.error is not None
    assert node.error.code == "max_depth"


def test_a_file_that_is_named_as_child_0_is_nobodys_log(tmp_path: Path) -> None:
    """A rejected start has no number: what lies there is another's."""
    log = recorded(tmp_path / "a.jsonl", [child("dig", [])], limits=Limits(max_depth=0)).log
    shutil.copy(log, tmp_path / "a.0.jsonl")

    (node,) = delegation_tree(log).children

    assert (node.log_state, node.entries) == ("none", 0)


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, child("dig", [("give up", "no_progress")]))

    (node,) = tree.children
    assert (node.status, node.reason) == ("failed", "no_progress")
    assert node.error is not None


def test_a_child_that_nobody_waited_for_ended_with_its_parent(tmp_path: Path) -> None:
    async def idle(run: Run, _input: Any) -> None:
        await run.sleep(3600)

    async def lead(run: Run, _input: Any) -> None:
        await run.start(Delegation(program=idle))

    (node,) = delegation_tree(record(lead, log=tmp_path / "a.jsonl").log).children

    assert node.status == "cancelled"


def test_a_child_that_was_never_joined_left_a_log_once_its_parent_has_ended(tmp_path: Path) -> None:
    """Until then, it may not have begun."""
    start = (events.ChildStarted({}, 1, "c"), "0#1")
    states = [
        delegation_tree(written(tmp_path / f"{name}.jsonl", start, *more)).children[0].log_state
        for name, more in (("a", []), ("b", [(events.RunFinished("completed", "done"), None)]))
    ]

    assert states == ["none", "missing"]


def test_calls_that_were_given_up_are_counted(tmp_path: Path) -> None:
    """Beside those that failed; the tree says so."""
    log = written(
        tmp_path / "a.jsonl",
        (events.ToolCalled("search", {}, "reads"), "0#1"),
        (events.EffectCancelled("tool"), "0#1"),
        (events.ToolCalled("search", {}, "reads"), "0#2"),
        (events.ToolReturned("error", error={"code": "x", "message": "", "type": ""}), "0#2"),
    )

    assert delegation_tree(log).tools == (ToolUse("search", called=2, failed=1, cancelled=1),)


def test_an_outcome_that_came_late_was_never_joined(tmp_path: Path) -> None:
    log = written(
        tmp_path / "a.jsonl",
        (events.ChildStarted({"program": "dig"}, 1, "r1"), "0#1"),
        (events.EffectCancelled("child"), "0#1"),
        (events.EffectLate("child", "completed"), "0#1"),
    )

    (node,) = delegation_tree(log).children

    assert (node.name, node.status, node.is_joined) == ("dig", "completed", False)


def test_a_missing_log_of_a_child_is_said_and_the_rest_is_told(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", [child("one", [("search", "x")]), child("two", [])]).log
    (tmp_path / "a.1.jsonl").unlink()

    one, two = delegation_tree(log).children

    assert (one.log_state, one.status, one.name) == ("missing", "completed", "one")
    assert one.log == str(tmp_path / "a.1.jsonl")
    assert two.log_state == "read"


def test_a_log_that_another_run_wrote_is_not_read(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", [child("one", [("search", "x")]), child("two", [])]).log
    shutil.copy(tmp_path / "a.2.jsonl", tmp_path / "a.1.jsonl")

    one, _ = delegation_tree(log).children

    assert (one.log_state, one.log) == ("foreign", str(tmp_path / "a.1.jsonl"))
    assert one.tools == ()


def test_a_link_is_nobodys_child(tmp_path: Path) -> None:
    """So no tree of files can go round in circles."""
    log = recorded(tmp_path / "a.jsonl", [child("one", [])]).log
    (tmp_path / "a.1.jsonl").unlink()
    (tmp_path / "a.1.jsonl").symlink_to(log)

    assert delegation_tree(log).children[0].log_state == "missing"


def test_a_damaged_child_is_told_up_to_the_damage(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", [child("one", [("search", "x"), ("read", "y")])]).log
    damaged = tmp_path / "a.1.jsonl"
    lines = damaged.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"y"', b'"z"')
    damaged.write_bytes(b"".join(lines))

    (node,) = delegation_tree(log).children

    assert (node.log_state, node.entries) == ("damaged", 3)
    assert node.tools == (ToolUse("search", called=1),)


def test_a_root_without_a_sound_first_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"seq":0}\n')

    with pytest.raises(LogDamaged):
        delegation_tree(tmp_path / "a.jsonl")
    with pytest.raises(LogMissing):
        delegation_tree(tmp_path / "b.jsonl")


@for_each(
    "nonsense",
    [
        *(
            events.ChildStarted({name: 5}, 1, "c")
            for name in ("agent", "program", "brief", "tool", "tools", "limits")
        ),
        events.ChildStarted({"limits": {"timeout_seconds": "soon"}}, 1, "c"),
        events.ChildFinished(Outcome(status="rejected"), delegation={"tools": [5]}),
        events.RunFinished("completed", "done", artifacts=[{}]),
    ],
)
def test_nonsense_whose_chain_holds_is_damage(tmp_path: Path, nonsense: events.Event) -> None:
    """The log is told up to there, and no node is made of what stands there."""
    tree = delegation_tree(written(tmp_path / "a.jsonl", (nonsense, "0#1")))

    assert (tree.log_state, tree.entries, tree.children) == ("damaged", 1, ())
    assert tree.status == "unfinished"


def test_an_end_that_counts_nonsense_is_damage(tmp_path: Path) -> None:
    """Of what was refused, by limit; the run reads as one without an end."""
    with LogWriter.create(tmp_path / "b.jsonl", _started(), durability="fast") as writer:
        meta = {"refused_max_depth": "often"}
        writer.append(events.RunFinished("completed", "done"), meta=meta)

    tree = delegation_tree(tmp_path / "b.jsonl")

    assert (tree.log_state, tree.status, tree.refused) == ("damaged", "unfinished", {})


def test_limits_that_are_none_are_no_beginning_of_a_run(tmp_path: Path) -> None:
    """Of a child, its parent tells; of a root, nothing can be told."""
    started = _started("c", join_seconds=[1])
    log = written(tmp_path / "a.jsonl", (events.ChildStarted({"agent": "dig"}, 1, "c"), "0#1"))
    LogWriter.create(tmp_path / "b.jsonl", started, durability="fast").close()
    (tmp_path / "b.jsonl").rename(tmp_path / "a.1.jsonl")

    (node,) = delegation_tree(log).children

    assert (node.name, node.log_state, node.entries) == ("dig", "damaged", 0)
    with pytest.raises(EventMalformed, match="join_seconds: expected a positive number"):
        delegation_tree(tmp_path / "a.1.jsonl")


@for_each("kind", events.KINDS)
def test_each_kind_is_told_or_passed_over(kind: str, tmp_path: Path) -> None:
    """Tools, models, children, questions and ends are told, and nothing else changes the tree."""
    tree = delegation_tree(log_with(tmp_path / "a.jsonl", kind))
    without = delegation_tree(log_with(tmp_path / "b.jsonl", "note.added"))

    is_told = kind.startswith(("run.", "child.", "tool.", "model.", "effect.", "input.asked"))
    told = attrs.evolve(tree, log=without.log, head=without.head)
    assert (told != without) is (is_told and kind != "run.resumed")


def test_a_crashed_run_is_unfinished_and_its_child_may_never_have_begun(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", [child("one", [])]).log
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:2]) + b'{"seq":2,')
    (tmp_path / "a.1.jsonl").unlink()

    tree = delegation_tree(log)

    assert (tree.status, tree.log_state, tree.duration_ms) == ("unfinished", "torn", None)
    assert (tree.children[0].status, tree.children[0].log_state) == ("unfinished", "none")


def test_the_dialect_of_a_rejected_start_is_the_tool_that_it_was_made_in(tmp_path: Path) -> None:
    """A delegation tool runs in a scope of its own, right below the call."""
    rejected = events.ChildFinished(Outcome(status="rejected"))
    log = written(
        tmp_path / "a.jsonl",
        (events.ToolCalled("subagent", {}, "changes", delegates=True), "0#1"),
        (rejected, "0/1#1"),
        (events.ToolReturned("ok"), "0#1"),
        (rejected, "0#2"),
        (events.ToolCalled("subagent", {}, "changes", delegates=True), "0#3"),
        (attrs.evolve(rejected, delegation={"program": "p"}), "0/2#1"),
        (attrs.evolve(rejected, delegation={"program": "p", "tool": "spawn"}), "0/2#2"),
    )

    assert [node.tool for node in delegation_tree(log).children] == ["subagent", "", "", "spawn"]


def asks(run: PlainRun, _given: Any) -> None:
    """Spend something."""
    run.model([{"role": "user", "content": "what?"}])


def hands_over(run: PlainRun, _given: Any) -> None:
    """Spend something, and have a child do so."""
    run.model([{"role": "user", "content": "who?"}])
    run.delegate(Delegation(program=asks))


def test_what_a_child_spent_that_nobody_joined_is_part_of_the_whole(tmp_path: Path) -> None:
    """Of a run that broke off: tokens and cost are those of the logs, and add up."""
    usage = {"input_tokens": 9, "output_tokens": 1, "cost_usd_micros": 70}
    model = ScriptedModel([{"text": "said", "usage": usage}] * 2)
    log = record(hands_over, log=tmp_path / "a.jsonl", model=model).log
    whole = delegation_tree(log).usage
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-2]))  # without the child's end, and the run's

    tree = delegation_tree(log)

    assert (tree.children[0].is_joined, tree.children[0].status) == (False, "completed")
    assert tree.children[0].usage == tree.children[0].own_usage
    assert (tree.own_usage.cost_usd_micros, tree.usage) == (70, whole)


def test_what_a_killed_child_spent_stands_in_its_log(tmp_path: Path) -> None:
    """Its parent was told of nothing; where the log is gone, what it was told counts."""
    log = record(hands_over, log=tmp_path / "a.jsonl", model=ScriptedModel(["said"] * 2)).log
    spent = delegation_tree(log).children[0].usage
    again = written(
        tmp_path / "b.jsonl",
        (events.ChildStarted({}, 1, "r"), "0#1"),
        (events.ChildFinished(Outcome(status="failed")), "0#1"),
    )
    child_log = written(tmp_path / "c.jsonl", (events.ModelAnswered("ok", usage=spent), "0#1"))
    child_log.rename(tmp_path / "b.1.jsonl")

    assert delegation_tree(again).usage == spent != Usage()
    (tmp_path / "b.1.jsonl").write_bytes((tmp_path / "b.1.jsonl").read_bytes()[:-2])
    assert delegation_tree(again).usage == Usage()


async def _acts(run: Run, given: Any) -> Any:
    """Ask a model, call a tool and start children, as `given` says, and return its last."""
    for word in given[:-1]:
        with contextlib.suppress(ToolError):
            if word == "ask":
                await run.model([{"role": "user", "content": "?"}], tools=[_dig])
            elif word == "leave":
                await run.start(Delegation(program=_sleeps))
            else:
                await run.tool(_dig, where=word)
    return given[-1]


async def _sleeps(run: Run, _given: Any) -> None:
    await run.sleep(3600)


@tool(effect="pure")
def _dig(where: str) -> str:
    """Dig somewhere."""
    if where == "rock":
        raise ValueError("too hard")
    if where == "garden":
        raise ToolError("_dig", "not here", "denied")
    return "a worm"


async def _hangs(run: Run, _given: Any) -> None:
    await run.sleep(3600)


async def _races(run: Run, how: str) -> str:
    """Drop a child: by name, in a task, or by ending while a task waits for it."""
    child = Delegation(program=_hangs)
    if how == "cancel":
        kid = await run.start(child)
        await run.tool(_dig, where="sand")
        run.cancel(kid)
        return how
    task = asyncio.ensure_future(run.delegate(child))
    await run.tool(_dig, where="sand")
    if how == "task":
        task.cancel()
        await run.tool(_dig, where="sand")
    return how


@pytest.mark.parametrize(("how", "seen"), [("cancel", False), ("task", False), ("forgotten", True)])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_child_that_its_program_dropped_is_nothing_of_note(
    how: str,
    seen: bool,  # noqa: FBT001 - a parameter of the test
    tmp_path: Path,
) -> None:
    """Such as the loser of a race; one that the program forgot is."""
    tree = delegation_tree(record(_races, how, log=tmp_path / "a.jsonl", tools=[_dig]).log)

    assert tree.status == "completed"
    assert ("outlived" in tree.notable) is seen


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        (["ask", "sand", "done"], {}),
        (["ask", "done"], {"no_call": "made no call; 1 tool offered"}),
        (["done"], {}),
        (["rock", "sand", "done"], {}),
        (["sand", "rock", "done"], {"last_call_failed": "its last call failed: _dig"}),
        (["garden", "sand", "done"], {"refused": "calls were refused: _dig"}),
        (["sand", ""], {"empty_answer": "its answer is empty"}),
        (["sand", None], {}),
        (["ask", "leave", "done"], {"outlived": "ended without the answer of 1 subagent"}),
        (
            ["leave", "garden", ""],
            {
                "refused": "calls were refused: _dig",
                "last_call_failed": "its last call failed: _dig",
                "outlived": "ended without the answer of 1 subagent",
                "empty_answer": "its answer is empty",
            },
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_completed_child_did_is_told_beside_what_it_says(
    given: list[Any], seen: dict[str, str], tmp_path: Path
) -> None:
    """Of what it did itself: its parent, which joins it, did nothing of note."""

    async def lead(run: Run, _given: Any) -> Any:
        return (await run.delegate(Delegation(program=_acts, input=given))).status

    log = record(lead, log=tmp_path / "a.jsonl", tools=[_dig], model=ScriptedModel(["ok"])).log
    tree = delegation_tree(log)

    assert (tree.children[0].notable, tree.notable) == (seen, {})
    shown = render_text(tree)
    assert all(words in shown for words in seen.values())
    assert ("notable: " in shown) is bool(seen)


def test_a_run_that_did_not_complete_is_not_told_twice(tmp_path: Path) -> None:
    """Its status and its error say it."""
    tree = tree_of(tmp_path, child("dig", [("try", "nothing"), ("give up", "no_progress")]))

    assert tree.children[0].last_failed == "search"
    assert tree.children[0].notable == {}
