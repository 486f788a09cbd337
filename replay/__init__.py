"""Replay: what can be done with a log again.

Logs flow in, and the programs that made them; reports, trees, differences and new logs flow out.
Imports `refold.engine`, never `refold.tools`.  Each room may import those above it in this list.

    difference/    what differs between two values, texts or sequences, and what is not compared
    index/         what a log holds, laid out to be looked up
    explain/       a difference found: its name, its cause, how it reads
    reexecute/     the program against its log, line by line
    what_if/       the program with its record, in other orders or with other outcomes
    partial/       some outcomes from the record, the rest live or stubs; what drifted
    observed/      logs of watched commands: their requests are matched
    resume/        going on: in the same log, or in a fork of it
    audit/         what a log says, with nothing executed: is it true, what state, why
    tree/          the delegation tree
    compare/       two logs, scope by scope
    testing/       recordings, snapshots and self-replay, for tests
    bulk/          many logs at once

Three worlds can stand behind a kernel here (`engine.kernel.world`): `reexecute.world.Replayed`
compares with a log, `what_if.rehearsal.Rehearsal` is served from an index and writes nothing, and a
recorder with a supply (`engine.recording.supplied`, `partial.sources.BookSupply`) writes a log of
its own.

What is public is loaded when it is first asked for: pytest imports this package at every start.
No submodule shares a name with an export of its package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.replay.audit.refolding import Refolded, refold_log, state
    from refold.replay.audit.session_fold import refold_session
    from refold.replay.audit.verify import LogReport, Verification
    from refold.replay.audit.why import Cause
    from refold.replay.bulk.report import BulkReport, LogResult
    from refold.replay.compare.diff import LogDiff, LogDifference
    from refold.replay.difference.pointer_diff import Difference, differences
    from refold.replay.tree.delegation_tree import RunNode, delegation_tree, render_text

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
    "refold_session",
    "render_text",
    "state",
]

_HOMES = {
    "BulkReport": "bulk.report",
    "Cause": "audit.why",
    "Difference": "difference.pointer_diff",
    "LogDiff": "compare.diff",
    "LogDifference": "compare.diff",
    "LogReport": "audit.verify",
    "LogResult": "bulk.report",
    "Refolded": "audit.refolding",
    "RunNode": "tree.delegation_tree",
    "Verification": "audit.verify",
    "delegation_tree": "tree.delegation_tree",
    "differences": "difference.pointer_diff",
    "refold_log": "audit.refolding",
    "refold_session": "audit.session_fold",
    "render_text": "tree.delegation_tree",
    "state": "audit.refolding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
