"""Record agent runs to log files, replay them for audit, snapshot-test delegation behaviour.

    import refold

    recording = refold.record(program, input, tools=[…])    # runs it, writes a log
    refold.reexecute(recording.log, program)                # runs it again: no tool, no model
    refold.verify(recording.log)                            # is the log true?
    refold.diff(one_log, other_log)                         # what differs?
    refold.resume(log, program, tools=[…])                  # goes on after a crash

Names load on first use.  The rules are in CONTRACT.md.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than all that is here
if TYPE_CHECKING:
    from refold.api import (
        drift,
        explore,
        fork,
        open_ends,
        record,
        record_async,
        reexecute,
        replay_all,
        resume,
        sensitivity,
    )
    from refold.engine.encoding.secret import Secret
    from refold.engine.errors import (
        AnswerRefused,
        AttemptsExhausted,
        ChildStopped,
        Diverged,
        InDoubt,
        LimitReached,
        LogDamaged,
        LogError,
        LogExists,
        LogSealed,
        ModelError,
        Nondeterministic,
        NotCanonical,
        OutsideLoop,
        RefoldError,
        RunEnded,
        ToolError,
        Unanswered,
        UsageError,
    )
    from refold.engine.events.limits import Limits
    from refold.engine.events.outcome import Artifact, Outcome, Report
    from refold.engine.ports.clock import FixedClock
    from refold.engine.ports.delegation import Delegation
    from refold.engine.ports.ports import (
        CallContext,
        ChildRunner,
        Model,
        ModelReply,
        ModelRequest,
        Policy,
        Question,
        Reference,
        Tool,
    )
    from refold.engine.program.run import PlainRun, Run
    from refold.engine.runners.recording import Recording
    from refold.engine.secrets.redaction import Redaction
    from refold.engine.session import Session
    from refold.replay.audit.refolding import state, state_diff
    from refold.replay.audit.verify import verify
    from refold.replay.audit.why import why
    from refold.replay.compare.diff import diff
    from refold.replay.partial.sources import Sources
    from refold.replay.tree.delegation_tree import delegation_tree
    from refold.tools.contract.tool_types import DelegationTool, tool
    from refold.tools.files.file_tools import file_tools

__version__ = "0.1.0"

__all__ = [
    "AnswerRefused",
    "Artifact",
    "AttemptsExhausted",
    "CallContext",
    "ChildRunner",
    "ChildStopped",
    "Delegation",
    "DelegationTool",
    "Diverged",
    "FixedClock",
    "InDoubt",
    "LimitReached",
    "Limits",
    "LogDamaged",
    "LogError",
    "LogExists",
    "LogSealed",
    "Model",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "Nondeterministic",
    "NotCanonical",
    "Outcome",
    "OutsideLoop",
    "PlainRun",
    "Policy",
    "Question",
    "Recording",
    "Redaction",
    "Reference",
    "RefoldError",
    "Report",
    "Run",
    "RunEnded",
    "Secret",
    "Session",
    "Sources",
    "Tool",
    "ToolError",
    "Unanswered",
    "UsageError",
    "__version__",
    "delegation_tree",
    "diff",
    "drift",
    "explore",
    "file_tools",
    "fork",
    "open_ends",
    "record",
    "record_async",
    "reexecute",
    "replay_all",
    "resume",
    "sensitivity",
    "state",
    "state_diff",
    "tool",
    "verify",
    "why",
]

_HOMES = {
    "engine.ports.clock": ("FixedClock",),
    "engine.ports.delegation": ("Delegation",),
    "engine.errors": (
        "AnswerRefused",
        "AttemptsExhausted",
        "ChildStopped",
        "Diverged",
        "InDoubt",
        "LimitReached",
        "LogDamaged",
        "LogError",
        "LogExists",
        "LogSealed",
        "ModelError",
        "Nondeterministic",
        "NotCanonical",
        "OutsideLoop",
        "RefoldError",
        "RunEnded",
        "ToolError",
        "Unanswered",
        "UsageError",
    ),
    "engine.events.limits": ("Limits",),
    "engine.events.outcome": ("Artifact", "Outcome", "Report"),
    "engine.ports.ports": (
        "CallContext",
        "ChildRunner",
        "Model",
        "ModelReply",
        "ModelRequest",
        "Policy",
        "Question",
        "Reference",
        "Tool",
    ),
    "engine.runners.recording": ("Recording",),
    "engine.secrets.redaction": ("Redaction",),
    "engine.program.run": ("PlainRun", "Run"),
    "engine.encoding.secret": ("Secret",),
    "engine.session": ("Session",),
    "api": (
        "drift",
        "explore",
        "fork",
        "open_ends",
        "record",
        "record_async",
        "reexecute",
        "replay_all",
        "resume",
        "sensitivity",
    ),
    "replay.compare.diff": ("diff",),
    "replay.audit.refolding": ("state", "state_diff"),
    "replay.partial.sources": ("Sources",),
    "replay.tree.delegation_tree": ("delegation_tree",),
    "replay.audit.verify": ("verify",),
    "replay.audit.why": ("why",),
    "tools.contract.tool_types": ("DelegationTool", "tool"),
    "tools.files.file_tools": ("file_tools",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *globals()})
