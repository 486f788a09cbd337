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

Four worlds can stand behind a kernel here (`engine.kernel.world`): `reexecute.world.Replayed`
compares with a log, `explain.run_on.Explorer` takes over from it at the first line that differs,
`what_if.rehearsal.Rehearsal` is served from an index and writes nothing, and a recorder with a
supply (`engine.recording.supplied`, `partial.sources.BookSupply`) writes a log of its own.

What is public is loaded when it is first asked for: pytest imports this package at every start.
No submodule shares a name with an export of its package.
"""

from refold.engine.lazy import lazily

with lazily(__name__):
    from refold.replay.audit.refolding import (
        Refolded as Refolded,
        refold_log as refold_log,
        state as state,
    )
    from refold.replay.audit.session_fold import refold_session as refold_session
    from refold.replay.audit.verify import LogReport as LogReport, Verification as Verification
    from refold.replay.audit.why import Cause as Cause
    from refold.replay.bulk.report import BulkReport as BulkReport, LogResult as LogResult
    from refold.replay.compare.diff import LogDiff as LogDiff, LogDifference as LogDifference
    from refold.replay.difference.pointer_diff import (
        Difference as Difference,
        differences as differences,
    )
    from refold.replay.tree.delegation_tree import (
        RunNode as RunNode,
        delegation_tree as delegation_tree,
        render_text as render_text,
    )
