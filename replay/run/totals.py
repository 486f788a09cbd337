"""Sums over a delegation tree, for the command line and the page."""

from collections import Counter
from typing import Any, Final

from refold.engine.events.outcome import Usage
from refold.replay.index.standing import STANDINGS
from refold.replay.run.run_node import OBSERVED, UNFINISHED, RunNode

_NOT_FAILED: Final = ("completed", UNFINISHED, *STANDINGS)


def totals(tree: RunNode) -> dict[str, Any]:
    """Return the sums of a tree: runs by status, tool calls, requests, tokens and cost.

    `own` is the root's, `all` with all runs below it; a cost that is not known is `None`.
    `unseen` are delegations of a watched command of which no conversation is known, by status.
    """
    nodes = below(tree)
    runs = [node.status for node in nodes[1:] if node.how != OBSERVED]
    unseen = [node.status for node in nodes if node.how == OBSERVED]
    statuses, all_of = Counter(runs), Counter(runs + unseen)
    uses = [use for node in nodes for use in node.tools]
    return {
        "runs": len(runs) + 1,
        "subagents": len(runs),
        "statuses": dict(statuses),
        "unseen": dict(Counter(unseen)),
        "completed": statuses["completed"],
        "failed": sum(all_of.values()) - sum(all_of[each] for each in _NOT_FAILED),
        "notable": sum(bool(node.notable) for node in nodes),
        "tools": sum(use.called for use in uses),
        "tools_failed": sum(use.failed for use in uses),
        "requests": sum(node.requests for node in nodes),
        "requests_failed": dict(sum((Counter(node.requests_failed) for node in nodes), Counter())),
        "own": _spent(tree.own_usage),
        "all": _spent(tree.usage),
    }


def _spent(usage: Usage) -> dict[str, int | None]:
    names = ("input_tokens", "output_tokens", "cost_usd_micros")
    untold = {"untold": usage.untold} if usage.untold else {}
    return {name: getattr(usage, name) for name in names} | untold


def below(tree: RunNode) -> list[RunNode]:
    """Return a node and all below it, parents first."""
    nodes = [tree]
    for node in nodes:
        nodes.extend(node.children)
    return nodes
