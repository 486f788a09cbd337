"""One row a tool: what it grants its children, and what the tool itself asks for, agree."""

from typing import get_args

from refold.engine.events.limits import Limits
from refold.tools.contract.policy import POLICIES, Isolation, ToolScope
from refold.tools.delegation.subagent import SubagentOptions


def test_the_five_documents_have_a_row_each() -> None:
    assert POLICIES.keys() >= {
        "dispatch_subagent",
        "dispatch_subagents",
        "spawn",
        "subagent",
        "subagent_dispatch",
    }


def test_the_row_of_subagent_is_what_the_tool_does_by_default() -> None:
    row, options = POLICIES["subagent"], SubagentOptions()

    assert row.levels == options.max_depth
    assert row.policy == options.policy
    assert row.limits == Limits(
        timeout_seconds=options.timeout_seconds, max_iterations=options.max_iterations
    )
    assert row.caps == Limits(
        timeout_seconds=options.timeout_seconds_cap, max_iterations=options.max_iterations_cap
    )


def test_rows_say_what_their_documents_say() -> None:
    """Nesting is bounded by `subagent` alone; `spawn` alone is deferred; one is addressable."""
    assert [name for name, row in POLICIES.items() if row.levels is not None] == ["subagent"]
    assert [name for name, row in POLICIES.items() if row.deferred] == ["spawn"]
    assert [name for name, row in POLICIES.items() if row.addressable] == ["subagent_dispatch"]
    assert [name for name, row in POLICIES.items() if row.fanout is None] == ["dispatch_subagents"]
    assert POLICIES["dispatch_subagents"].isolation == ("fork", "shared")


def test_rows_use_the_closed_sets() -> None:
    for row in POLICIES.values():
        assert set(row.isolation) <= set(get_args(Isolation))
        assert row.tools in get_args(ToolScope)
        assert row.policy.artifact_kinds == row.artifact_kinds
