"""Replay: what can be done with a log again.  Imports `refold.engine`, never `refold.tools`.

    verify, causal                     is the log true?  executes nothing
    refold, session_fold               the log folded back into state
    tree, run_node, tree_text, walk    the delegation tree; `why`: what led to an entry
    reexecute, world, cursor, apart,   the program against its log, line by line
      ends
    excuses, volatile, measured        what is not compared: by rule, by the nature of a field, as
                                         what wrote it declares
    comparison, divergence, causes,    the first difference, and all that is said of it
      fingerprints, items, text_diff
    naming, run_on, scopes             which category it has: the program is let run on, and aligned
    diff, calls, pairing, align,       two logs, scope by scope; `pointer_diff`: two JSON values
      log_diff, pointer_diff
    resume, standing                   going on in the log of an unfinished run
    book, sources, rerun               a record served out of its order, the rest live or stubs
    drift: compare, drift_rows,        what answers otherwise now than when it was recorded
      drift_report
    fork, fork_place, transplant       the beginning of a log, edited, and the run that goes on
    rehearsal, matcher, outstanding,   the program with recorded outcomes and no log at all:
      stage                              in other orders (`explore`, `orders`, `order_report`),
                                         with other outcomes (`sensitivity`, `alter`)
    observed                           logs of watched commands: their requests are matched
    bulk, bulk_report, bulk_process,   many logs at once
      junit
    selfcheck, tripwire                right after recording: does the program do it again?
    snapshot, log_text, recordings,    for tests; the plugin itself is `refold.pytest_plugin`
      network

Three worlds can stand behind a kernel here (`engine.world`): `world.Replayed` compares with a log,
`rehearsal.Rehearsal` is served from a book and writes nothing, and a recorder with a supply
(`engine.supplied`, `sources.BookSupply`) writes a log of its own.

What is public is loaded when it is first asked for: pytest imports this package at every start.
Functions that share their file's name (`verify`, `reexecute`, `diff`) are found there, and under
`refold`: no submodule shares a name with an export of its package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.replay.bulk_report import BulkReport, LogResult
    from refold.replay.diff import LogDiff, LogDifference
    from refold.replay.pointer_diff import Difference, differences
    from refold.replay.refold import Refolded, refold_log, state
    from refold.replay.session_fold import refold_session
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
    "refold_session",
    "render_text",
    "state",
]

_HOMES = {
    "BulkReport": "bulk_report",
    "Cause": "why",
    "Difference": "pointer_diff",
    "LogDiff": "diff",
    "LogDifference": "diff",
    "LogReport": "verify",
    "LogResult": "bulk_report",
    "Refolded": "refold",
    "RunNode": "tree",
    "Verification": "verify",
    "delegation_tree": "tree",
    "differences": "pointer_diff",
    "refold_log": "refold",
    "refold_session": "session_fold",
    "render_text": "tree",
    "state": "refold",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
