"""Replay: what can be done with a log again.  Imports `refold.engine`, never `refold.tools`.

What is public is loaded when it is first asked for: pytest imports this package at every start.
Functions that share their file's name (`verify`, `reexecute`, `diff`) are found there, and under
`refold`: no submodule shares a name with an export of its package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.replay.bulk import BulkReport, LogResult
    from refold.replay.diff import LogDiff, LogDifference
    from refold.replay.pointer_diff import Difference, differences
    from refold.replay.refold import Refolded, refold_log, state
    from refold.replay.tree import RunNode, delegation_tree, render_text
    from refold.replay.verify import LogReport, Verification
    from refold.replay.why import Cause

__all__ = [
    "BulkReport",
    "Cause",
    "Difference",
    "LogDiff",
    "LogDifference",
    "LogReport",
    "LogResult",
    "Refolded",
    "RunNode",
    "Verification",
    "delegation_tree",
    "differences",
    "refold_log",
    "render_text",
    "state",
]

_HOMES = {
    "BulkReport": "bulk",
    "Cause": "why",
    "Difference": "pointer_diff",
    "LogDiff": "diff",
    "LogDifference": "diff",
    "LogReport": "verify",
    "LogResult": "bulk",
    "Refolded": "refold",
    "RunNode": "tree",
    "Verification": "verify",
    "delegation_tree": "tree",
    "differences": "pointer_diff",
    "refold_log": "refold",
    "render_text": "tree",
    "state": "refold",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
