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
        replay_all as replay_all,
        resume as resume,
        sensitivity as sensitivity,
        verify_all as verify_all,
    )
    from refold.engine.encoding.secret import Secret as Secret
    from refold.engine.errors import (
        AnswerRefused as AnswerRefused,
        AttemptsExhausted as AttemptsExhausted,
        ChildFailed as ChildFailed,
        ChildStopped as ChildStopped,
        Diverged as Diverged,
        InDoubt as InDoubt,
        LimitReached as LimitReached,
        LogDamaged as LogDamaged,
        LogError as LogError,
        LogExists as LogExists,
        LogSealed as LogSealed,
        ModelError as ModelError,
        NestedRun as NestedRun,
        Nondeterministic as Nondeterministic,
        NotCanonical as NotCanonical,
        NotReady as NotReady,
        OutsideLoop as OutsideLoop,
        RefoldError as RefoldError,
        RunEnded as RunEnded,
        RunFailed as RunFailed,
        ToolError as ToolError,
        ToolNeeded as ToolNeeded,
        TypeRefused as TypeRefused,
        Unanswered as Unanswered,
        UsageError as UsageError,
        ValueRefused as ValueRefused,
    )
    from refold.engine.events.limits import Limits as Limits
    from refold.engine.events.outcome import (
        Artifact as Artifact,
        Outcome as Outcome,
        Report as Report,
    )
    from refold.engine.ports.clock import FixedClock as FixedClock
    from refold.engine.ports.delegation import Delegation as Delegation
    from refold.engine.ports.ports import (
        CallContext as CallContext,
        ChildRunner as ChildRunner,
        Model as Model,
        ModelReply as ModelReply,
        ModelRequest as ModelRequest,
        Policy as Policy,
        Question as Question,
        Reference as Reference,
        Tool as Tool,
    )
    from refold.engine.program.run import PlainRun as PlainRun, Run as Run
    from refold.engine.runners.recorded import Recording as Recording
    from refold.engine.secrets.redaction import Redaction as Redaction
    from refold.engine.session import Session as Session
    from refold.replay.audit.refolding import state as state, state_diff as state_diff
    from refold.replay.audit.verify import verify as verify
    from refold.replay.audit.why import why as why
    from refold.replay.compare.diff import diff as diff
    from refold.replay.partial.sources import Sources as Sources
    from refold.replay.resume.open_ends import open_ends as open_ends
    from refold.replay.run.opened_run import delegation_tree as delegation_tree
    from refold.tools.contract.tool_types import DelegationTool as DelegationTool, tool as tool
    from refold.tools.delegation.shipped import subagents as subagents
    from refold.tools.files.file_tools import file_tools as file_tools
else:
    __getattr__, __dir__, __all__ = names(__name__, "__version__")

__version__ = "0.1.0"
