"""Record agent runs to log files, replay them for audit, snapshot-test delegation behaviour.

    import refold

    recording = refold.record(program, input, tools=[…])    # runs it, writes a log
    refold.reexecute(recording.log, program)                # runs it again: no tool, no model
    refold.verify(recording.log)                            # is the log true?
    refold.diff(one_log, other_log)                         # what differs?
    refold.resume(log, program, tools=[…])                  # goes on after a crash

Names load on first use.  The rules are in CONTRACT.md.
"""

import refold.adapters  # noqa: F401 - says which frameworks have one
from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.api import (
        drift as drift,
        explore as explore,
        fork as fork,
        record as record,
        record_async as record_async,
        reexecute as reexecute,
        resume as resume,
        sensitivity as sensitivity,
        verify as verify,
    )
    from refold.engine.encoding.secret import Secret as Secret
    from refold.engine.errors import (
        ChildFailed as ChildFailed,
        Diverged as Diverged,
        LimitReached as LimitReached,
        ModelError as ModelError,
        RefoldError as RefoldError,
        RunFailed as RunFailed,
        ToolError as ToolError,
        Unanswered as Unanswered,
        UsageError as UsageError,
    )
    from refold.engine.events.limits import Limits as Limits
    from refold.engine.events.outcome import (
        Artifact as Artifact,
        Outcome as Outcome,
        Report as Report,
    )
    from refold.engine.ports.ports import Delegation as Delegation
    from refold.engine.ports.ports import (
        Question as Question,
    )
    from refold.engine.program.run import PlainRun as PlainRun, Run as Run
    from refold.engine.runners.recorded import Recording as Recording
    from refold.engine.secrets.redaction import Redaction as Redaction
    from refold.engine.session import Session as Session
    from refold.replay.audit.refolding import state as state
    from refold.replay.audit.why import why as why
    from refold.replay.compare.diff import diff as diff
    from refold.replay.partial.sources import Sources as Sources
    from refold.replay.run.opened_run import delegation_tree as delegation_tree
    from refold.tools.contract.tool_types import tool as tool
    from refold.tools.delegation.shipped import subagents as subagents
else:
    __getattr__, __dir__, __all__ = names(__name__, "__version__")

__version__ = "1.0.0"
