"""A child as a recording of its own: its log, and its runner's reply.

The same for every runner: where the recording runs, and how it is bounded, is each runner's.
Rules: CONTRACT.md §7.1 (outcomes and runners), §4.7 (children that are resumed).
"""

from typing import Final

from refold.engine.children.reply import outcome_of, reply_frame
from refold.engine.errors import ChildStopped, OutcomeMissing, RefoldError, UsageError
from refold.engine.events.outcome import ChildRef, Outcome, failed
from refold.engine.ports.ports import ChildRequest, Suspended
from refold.engine.ports.programs import load, load_program
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RecordedRun, RunRequest, by_name
from refold.engine.recording.supplied import recorder_for
from refold.engine.secrets.vault import Vault

ADVICE: Final = (
    "send its requirements to the nodes, for example with "
    "ray.init(runtime_env={'working_dir': '.'}), or install them on each node"
)
"""The advice for code that a node of a cluster cannot import."""


def recorder_of(request: ChildRequest, host: Host, *, runner_name: str) -> Recorder:
    """Return what records a child: from its beginning, or from where its log breaks off."""
    wanted = child_run_request(request, runner_name=runner_name)
    if request.resume is None:
        return recorder_for(wanted, host)
    return load(request.resume)(wanted, host)  # type: ignore[no-any-return]  # the port says so


def child_run_request(request: ChildRequest, *, runner_name: str) -> RunRequest:
    """Return the recording of a child, as its runner was asked for it.

    Raises:
        ProgramNotFound: the child's program cannot be imported.
        UsageError: there is nowhere to write its log.
    """
    if request.log is None:
        raise UsageError("a child run needs a place for its log")
    return RunRequest(
        **request.terms(),
        program=load_program(request.program),
        log=request.log,
        tools=by_name(request.tools),
        meta={"runner": runner_name},
        vault=request.vault or Vault(),
    )


def outcome_of_recorded(recorded: RecordedRun, request: ChildRequest) -> Outcome:
    """Return a child's outcome, capped by its policy."""
    return outcome_of(
        reply_frame(recorded.finished, recorded.fold),
        request.policy,
        duration_ms=recorded.duration_ms,
        child=ChildRef(run=request.identity.run_id, head=recorded.head, events=recorded.entries),
    )


def suspended(recorded: RecordedRun, request: ChildRequest) -> Suspended:
    """Return the reply of a child's runner for a run that waits for a person."""
    child = ChildRef(run=request.identity.run_id, head=recorded.head, events=recorded.entries)
    return Suspended(questions=recorded.questions, child=child)


def outcome_of_error(error: RefoldError) -> Outcome:
    """Return the outcome of a child that could not be recorded."""
    return failed("failed", type(error).__name__, str(error))


def stopped_or_failed(error: RefoldError, request: ChildRequest) -> Outcome:
    """Return the outcome of a child that could not be recorded, unless its parent stops with it.

    Raises:
        ChildStopped: it was to be resumed, or an outcome was missing, in it or below; its log stays
            as it is, and so does its parent's.
    """
    if request.resume is not None or isinstance(error, ChildStopped | OutcomeMissing):
        raise ChildStopped(str(request.log), *why_stopped(error))
    return outcome_of_error(error)


def why_stopped(error: RefoldError) -> tuple[str, str]:
    """Return code and message of what keeps a child, or one below it, from being resumed."""
    if isinstance(error, ChildStopped):
        return error.code, error.message
    return type(error).__name__, str(error)
