"""A link is provisional until the caller shows the call's result (CONTRACT.md §16.5)."""

from typing import Any

import pytest

from refold.engine.observed.links import Links, delegated, observation_in, written
from refold.engine.observed.profile import Profile
from tests.support.loops import for_each

BEGAN = ("x-refold.conversation", "", {"scope": "0/1/1", "how": "prompt", "call": "0/1#2"})
ASKED: tuple[str, str, dict[str, str]] = ("model.asked", "0/1#3", {})
RETURNED: tuple[str, str, dict[str, str]] = ("tool.returned", "0/1#2", {})
COMPLETED = ("run.finished", "", {"status": "completed"})
BROKE_OFF = ("run.finished", "", {"status": "failed"})


@pytest.mark.parametrize(
    ("entries", "standing"),
    [
        ([BEGAN], "provisional"),
        ([BEGAN, BROKE_OFF], "provisional"),
        ([BEGAN, RETURNED, ASKED, COMPLETED], "confirmed"),
        ([RETURNED, ASKED, BEGAN, COMPLETED], "confirmed"),
        ([BEGAN, ASKED, RETURNED], "confirmed"),
        ([BEGAN, ASKED], "dropped"),
        ([BEGAN, COMPLETED], "dropped"),
        ([("model.asked", "0/1#1", {}), BEGAN], "provisional"),
        ([("model.asked", "0/2#1", {}), BEGAN], "provisional"),
    ],
)
@pytest.mark.parametrize("how", ["prompt", "delegation", "header", "handoff"])
def test_what_comes_later_confirms_or_drops_it(
    entries: list[tuple[str, str, dict[str, str]]], standing: str, how: str
) -> None:
    """Unless an id, a header or a handoff is the evidence."""
    links = Links()
    for seq, (kind, call, data) in enumerate(entries):
        links.take(kind, call, seq, data | ({"how": how} if "how" in data else {}))

    assert links.standing("0/1/1") == (standing if how in ("prompt", "delegation") else "confirmed")
    assert links.above("0/1/1") == ("0" if links.standing("0/1/1") == "dropped" else "0/1")


def test_a_conversation_that_continues_under_another_scope_shows_no_results() -> None:
    """So that its links cannot be confirmed, and are kept."""
    links = Links()
    links.take(BEGAN[0], BEGAN[1], 3, BEGAN[2])
    links.take("model.answered", "0/1#3", 4, {})
    links.take("x-refold.conversation", "", 5, {"scope": "0/2", "how": "continues"}, 4)
    links.take(COMPLETED[0], COMPLETED[1], 6, COMPLETED[2])

    assert links.standing("0/1/1") == "provisional"


def test_a_link_by_the_result_is_below_the_call_wherever_it_began() -> None:
    links = Links()
    links.take("x-refold.conversation", "", 1, {"scope": "0/2", "agent": ""})
    links.take(*RETURNED[:2], 2, RETURNED[2])
    links.take("x-refold.conversation", "", 3, {"scope": "0/2", "how": "result", "call": "0/1#2"})

    assert (links.standing("0/2"), links.above("0/2")) == ("confirmed", "0/1")


def test_what_fetches_an_answer_does_not_continue_its_conversation() -> None:
    links = Links()
    links.take(*BEGAN[:2], 1, BEGAN[2])
    links.take("model.asked", "0/1#4", 2, {"parameters": {"$method": "GET"}})

    assert links.standing("0/1/1") == "provisional"


@for_each(
    "tool, arguments, agent",
    [
        ("transfer_to_billing", {}, "billing"),
        ("transfer_to_agent", {"agent_name": "greeter"}, "greeter"),
        ("transfer_to_agent", {}, "transfer_to_agent"),
        ("Task", {"subagent_type": "explore", "prompt": "…"}, "explore"),
        ("Agent", {"description": "find it"}, "find it"),
        ("Task", {"subagent_type": "", "description": "find it"}, "find it"),
        ("delegate_work_to_coworker", {"co_worker": "Writer"}, "Writer"),
        ("ask_question_to_coworker", {"co_worker": "Editor"}, "Editor"),
        (
            "delegate_work_to_coworker",
            {"coworker": "Writer", "task": "…"},
            "Writer",
        ),
        ("Delegate work to coworker", {"coworker": "Writer"}, "Writer"),
        ("ask_question_to_coworker", {"coworker": "Editor"}, "Editor"),
        ("handoff", {"to_agent": "writer", "reason": "…"}, "writer"),
        ("delegate_task_to_member", {"member_id": "alpha"}, "alpha"),
        ("delegate_to_researcher", {"description": "find it"}, "researcher"),
        ("delegate_to_any", {"agent": "ann"}, "ann"),
        ("task", {"description": "Find it.", "subagent_type": "critic"}, "critic"),
        ("spawn", {"subagent": "critic", "name": "x"}, "critic"),
        ("handoff", {"agent": "ann"}, "ann"),
        ("Agent", {"subagent_name": "ann"}, "ann"),
    ],
)
def test_a_convention_says_whom(tool: str, arguments: dict[str, Any], agent: str) -> None:
    """By the name of the tool, or where its arguments say it."""
    assert delegated(tool, arguments) == agent


@for_each("tool", ["search", "task", "Tasks", "my_transfer_to_x", "delegate", "Agents"])
def test_other_tools_hand_nothing_over(tool: str) -> None:
    """A name that only looks like one is none."""
    assert delegated(tool, {"prompt": "transfer_to_billing"}) is None


@for_each(
    "arguments, agent",
    [
        ({"who": "ann", "what": "bob"}, "ann"),
        ({"who": "", "what": "bob"}, "bob"),
        ({"who": 3, "what": "bob"}, "bob"),
        ({}, "hire"),
    ],
)
def test_a_profile_says_where_the_name_stands(arguments: dict[str, Any], agent: str) -> None:
    """The first text that is there."""
    profile = Profile(name="p", hands_over={"hire": ("who", "what")})

    assert delegated("hire", arguments, profile) == agent


def test_what_names_nobody_in_text_is_named_by_the_tool() -> None:
    """Whatever a model passes."""
    assert delegated("Task", {"subagent_type": 3}) == "Task"


ACTION = 'Thought: x\nAction: Delegate work to coworker \nAction Input: {"coworker": "Writer"}\n'


def test_a_call_may_be_written_as_text() -> None:
    """By a model that is told to; only what hands work over is of interest."""
    assert written(ACTION) == ("Delegate work to coworker", {"coworker": "Writer"})


@for_each(
    "content",
    [
        None,
        ["Action:"],
        "",
        ACTION.replace("Delegate work to coworker", "Search"),
        ACTION.replace('{"coworker": "Writer"}', "{nothing}"),
        ACTION.replace('{"coworker": "Writer"}', '{"a": 1e999}'),
        ACTION.replace("\nAction Input", " Action Input"),
    ],
)
def test_other_text_is_none(content: Any) -> None:
    """Nor is what is no object that a log can hold."""
    assert written(content) is None


@for_each(
    "content, said",
    [
        (None, None),
        ("no Observation: here", None),
        ("Observation: sun", "sun"),
        (f"{ACTION}Observation: one\nAction: x\nObservation: two\n", "two"),
        ("\nObservation:", ""),
    ],
)
def test_a_result_is_written_below(content: Any, said: str | None) -> None:
    """The last one is the newest."""
    assert observation_in(content) == said
