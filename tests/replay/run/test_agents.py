"""Agents: what each was told, did and answered, for both kinds of log (CONTRACT.md §13.9)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import UsageError
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel
from refold.engine.wire.parts.exchange import Asked
from refold.proxy.profiles.claude_code import PROFILE
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import below
from refold.replay.run.turns import task_in
from tests.support.delegating import child, recorded
from tests.support.fixtures import LOGS
from tests.support.loops import for_each
from tests.support.watched import Exchange, record, result, says, system, talk, user

_HEADER = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli; "
_TITLE = "You are Claude Code.\nGenerate a concise, sentence-case title (3-7 words)."
_CALL = {"subagent_type": "review", "prompt": "Review cart.py"}


@pytest.fixture
def watched(tmp_path: Path) -> OpenedRun:
    """A command that looks whether the server is there, wants a title, works, and delegates."""
    head = Asked(api="other", model="", parameters={"method": "HEAD", "path": "/", "body": None})
    title = talk(system(_HEADER + _TITLE), user("Tidy the shop."), says('{"title":"Tidy"}'))
    main = talk(
        system(_HEADER + "You are Claude Code."),
        user("Tidy the shop."),
        says("One reviews.", ("a1", "Agent", _CALL)),
        result("a1", "cart is fine"),
        says("All done."),
    )
    review = talk(system("You review."), user("Review cart.py"), says("cart is fine"))
    asked = [Exchange(head, None, error="http_404"), main[0], *title, *review, main[1]]
    return OpenedRun(record(tmp_path / "a.jsonl", asked, profile=PROFILE))


def test_a_watched_run_is_told_in_the_words_of_its_user(watched: OpenedRun) -> None:
    """Not in those of a system prompt, a header, a health check or a request for a title."""
    root, main, review = watched.agents

    assert (watched.title, watched.standing, watched.main) == ("Tidy the shop.", "completed", main)
    assert [each.name for each in (main, review)] == ["main", "review"]
    assert (root.task_text, main.task_text, review.task_text) == (
        "python agent.py",
        watched.title,
        _CALL["prompt"],
    )
    assert (main.answered, review.answered) == ("All done.", "cart is fine")
    assert [(turn.n, turn.says) for turn in main.turns] == [(1, "One reviews."), (2, "All done.")]
    asides = [s for a in watched.agents for t in a.turns for s in t.steps if s.kind == "aside"]
    assert [(each.name, each.status) for each in asides] == [("HEAD /", "error"), ("gpt-5", "ok")]


def test_a_step_leads_to_the_agent_that_it_started(watched: OpenedRun) -> None:
    _, main, review = watched.agents
    (step,) = (step for step in main.turns[0].steps if step.kind == "tool")

    assert (step.name, step.about, step.result) == ("Agent", _CALL, "cart is fine")
    assert watched.by_key[step.child] is review
    assert review.parent == main.key
    kinds = [each.kind for each in read_entries(watched.log) if each.seq in step.entries]
    assert kinds == ["tool.called", "tool.returned"]
    (start, end), (began, ended) = step.interval, review.interval or (0, None)
    assert start <= began <= (ended or 0) <= (end or 0)


def test_a_task_and_an_output_that_are_values_are_told_whole(tmp_path: Path) -> None:
    """A number named `parts` is not a message, and a list of values not the parts of one."""

    async def program(_run: refold.Run, given: Any) -> Any:
        return {"parts": [given, 3]}

    told: dict[str, dict[str, Any]] = {
        '{"jobs":2,"parts":16}': {"jobs": 2, "parts": 16},
        "count the words": {"parts": 16, "title": "count the words"},
        "count them": {"n": 1, "text": "count them"},
    }
    for number, (task, given) in enumerate(told.items()):
        run = OpenedRun(refold.record(program, given, log=tmp_path / f"{number}.jsonl").log)
        assert run.main.task_text == task
        assert json.loads(run.main.answered) == {"parts": [given, 3]}


def test_a_program_without_a_model_has_steps_before_any_turn() -> None:
    """And the path of a child's starts is its key."""
    run = OpenedRun(LOGS / "everything.jsonl")

    turns = run.agents[0].turns
    assert [each.n for each in turns] == [0, 1, 2]
    kinds = [step.kind for turn in turns for step in turn.steps]
    assert kinds == [
        "clock",
        *["tool"] * 3,
        *["child"] * 2,
        "tool",
        "note",
        "timer",
        *["value"] * 2,
    ]
    assert [each.key for each in run.agents] == ["0", "0#1", "0#2"]
    assert [each.answered for each in run.agents[1:]] == ["13", "68000"]
    assert run.title == "short long"


def test_tasks_at_once_are_compared_each_with_its_own_turn_before(tmp_path: Path) -> None:
    async def program(run: refold.Run, _input: Any) -> None:
        async def one(name: str) -> None:
            said = [{"role": "user", "content": name}]
            for _ in range(2):
                said += [(await run.model(said)).message, {"role": "user", "content": "more"}]

        await asyncio.gather(one("a"), one("b"))

    model = FunctionModel(lambda _: "ok")
    log = refold.record(program, "both", log=tmp_path / "a.jsonl", model=model).log

    turns = OpenedRun(log).main.turns
    firsts = {each.messages[0]["content"]: each.n for each in turns[:2]}
    assert [(each.against, each.kept, len(each.added), each.dropped) for each in turns] == [
        (0, 0, 1, ()), (0, 0, 1, ()),
        *((firsts[each.messages[0]["content"]], 2, 1, ()) for each in turns[2:]),
    ]  # fmt: skip
    assert {each.against for each in turns[2:]} == {1, 2}


def test_a_run_that_waits_says_what_for(tmp_path: Path) -> None:
    def program(run: refold.PlainRun, _input: Any) -> None:
        run.ask("May I?")

    run = OpenedRun(refold.record(program, {"task": "tidy up"}, log=tmp_path / "a.jsonl").log)

    assert (run.title, run.standing) == ("tidy up", "waits for you: May I?")
    assert run.question == {"agent": "0", "call": "0#1", "question": "May I?"}


def test_each_node_of_the_tree_is_an_agent(watched: OpenedRun) -> None:
    assert [each.node for each in watched.agents] == below(watched.tree)


@for_each(
    "given, told",
    [
        (None, ""),
        ("tidy", "tidy"),
        ({"task": "tidy", "n": 1}, "tidy"),
        ({"command": ["claude", "-p", "a b"]}, "claude -p 'a b'"),
        (["a", {"text": "b"}], "a\nb"),
        ({"n": 1}, '{"n":1}'),
    ],
)
def test_the_task_is_what_was_given(given: Any, told: str) -> None:
    assert task_in(given) == told


def test_the_first_child_of_two_agents_is_named_by_its_key_if_both_have_one_name(
    tmp_path: Path,
) -> None:
    """Neither is taken for the other."""
    log = recorded(tmp_path / "a.jsonl", [child("dig", [child("dig", [("return", "deep")])])]).log
    run = OpenedRun(log)
    outer, inner = run.agents[1:]

    for name in ("dig", "dig 1"):
        with pytest.raises(UsageError, match="several agents have this name") as refused:
            run.agent(name, "--agent")
        assert all(f"{each.key} (dig)" in str(refused.value) for each in (outer, inner))
    assert [run.agent(each.key, "--agent") for each in (outer, inner)] == [outer, inner]
