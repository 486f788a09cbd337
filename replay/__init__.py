"""Replay: everything that reads or re-executes a log.

Input: logs and their programs. Output: reports, trees, differences and new logs. Imports
`refold.engine`, never `refold.tools`. Each folder may import the folders above it in this list.

    difference/    differences of two values, texts or sequences, and rules that ignore some
    index/         a log's entries, indexed for look-ups
    explain/       a difference's category, cause and text
    reexecute/     the program against its log, line by line
    what_if/       the program with its record, in different orders or with changed outcomes
    partial/       some outcomes from the record, the rest live or stubs; drift
    observed/      logs of watched commands: their requests are matched
    resume/        continues a run, in the same log or in a fork
    audit/         reads a log without executing anything: verification, state, causes
    run/           a run as people see it: its agents, turns and totals
    compare/       two logs, scope by scope
    testing/       recordings, snapshots and self-replay, for tests
    bulk/          many logs at once

A kernel has one of four worlds here (`engine.kernel.world`): `reexecute.world.Replayed` compares
with a log, `explain.run_on.Explorer` takes over from it at the first line that differs,
`what_if.rehearsal.Rehearsal` is served from an index and writes nothing, and a recorder with a
supply (`engine.recording.supplied`, `partial.sources.BookSupply`) writes a log of its own.

Public names are loaded on first use, because pytest imports this package at every start. No
submodule shares a name with an export of its package.
"""

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.replay.audit.refolding import (
        Refolded as Refolded,
        refold_log as refold_log,
        state as state,
    )
    from refold.replay.audit.session_fold import refold_session as refold_session
    from refold.replay.audit.verify import LogReport as LogReport, Verification as Verification
    from refold.replay.audit.why import Cause as Cause
    from refold.replay.bulk.report import BulkReport as BulkReport, LogResult as LogResult
    from refold.replay.compare.log_diff import LogDiff as LogDiff, LogDifference as LogDifference
    from refold.replay.difference.pointer_diff import (
        Difference as Difference,
        differences as differences,
    )
    from refold.replay.partial.drift_report import DriftReport as DriftReport
    from refold.replay.reexecute.report import ReplayReport as ReplayReport
    from refold.replay.resume.fork import Fork as Fork
    from refold.replay.resume.open_ends import OpenEnds as OpenEnds, open_ends as open_ends
    from refold.replay.run.opened_run import delegation_tree as delegation_tree
    from refold.replay.run.run_node import RunNode as RunNode
    from refold.replay.run.tree_text import render_text as render_text
    from refold.replay.what_if.order_report import ExploreReport as ExploreReport
    from refold.replay.what_if.sensitivity import SensitivityReport as SensitivityReport
else:
    __getattr__, __dir__, __all__ = names(__name__)
