"""The sums of a tree."""

import attrs

from refold.replay.run.run_node import RunNode, ToolUse, below, totals


def test_runs_and_calls_below_are_counted() -> None:
    """A run that is unfinished has not failed."""
    use = ToolUse("find", called=3, failed=1)
    child = RunNode(name="c", status="completed", tools=(use,))
    failed, open_ = (attrs.evolve(child, status=each) for each in ("failed", "unfinished"))
    tree = RunNode(
        name="p", status="completed", children=(attrs.evolve(child, children=(failed,)), open_)
    )

    found = totals(tree)

    assert [node.status for node in below(tree)] == [
        "completed",
        "completed",
        "unfinished",
        "failed",
    ]
    assert (found["runs"], found["subagents"], found["completed"], found["failed"]) == (4, 3, 1, 1)
    assert (found["tools"], found["tools_failed"]) == (9, 3)
