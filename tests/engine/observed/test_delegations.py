"""Tool calls that hand work to another agent are known by their names (CONTRACT.md §16.5)."""

from typing import Any

import pytest

from refold.engine.observed.delegations import delegated


@pytest.mark.parametrize(
    ("tool", "arguments", "framework", "manner", "agent"),
    [
        ("transfer_to_billing", {}, "OpenAI Agents", "handoff", "billing"),
        ("transfer_to_agent", {"agent_name": "greeter"}, "Google ADK", "handoff", "greeter"),
        ("transfer_to_agent", {}, "Google ADK", "handoff", "transfer_to_agent"),
        ("Task", {"subagent_type": "explore", "prompt": "…"}, "Claude", "delegation", "explore"),
        ("Agent", {"description": "find it"}, "Claude", "delegation", "find it"),
        (
            "delegate_work_to_coworker",
            {"coworker": "Writer", "task": "…"},
            "crewAI",
            "delegation",
            "Writer",
        ),
        ("Delegate work to coworker", {"coworker": "Writer"}, "crewAI", "delegation", "Writer"),
        ("ask_question_to_coworker", {"coworker": "Editor"}, "crewAI", "delegation", "Editor"),
        ("delegate_to_researcher", {}, "", "delegation", "researcher"),
    ],
)
def test_a_convention_says_whom(
    tool: str, arguments: dict[str, Any], framework: str, manner: str, agent: str
) -> None:
    """By the name of the tool, or where its arguments say it."""
    found = delegated(tool, arguments)

    assert found is not None
    assert (found.framework, found.manner, found.agent) == (framework, manner, agent)


@pytest.mark.parametrize(
    "tool", ["search", "task", "Tasks", "my_transfer_to_x", "delegate", "Agents"]
)
def test_other_tools_hand_nothing_over(tool: str) -> None:
    """A name that only looks like one is none."""
    assert delegated(tool, {"prompt": "transfer_to_billing"}) is None


def test_what_names_nobody_in_text_is_named_by_the_tool() -> None:
    """Whatever a model passes."""
    found = delegated("Task", {"subagent_type": 3})

    assert found is not None
    assert found.agent == "Task"
