"""A child run in a process of its own, with hard limits (CONTRACT.md §7.3).

`engine.process` starts and bounds the process; this file chooses the command, and interprets the
end. It contains accidents; it is not a sandbox against hostile code.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from refold.engine.children.anchor import anchored
from refold.engine.children.envelope import pack
from refold.engine.children.reply import outcome_of
from refold.engine.children.tokens import served
from refold.engine.encoding.canonical import loads
from refold.engine.errors import ChildStopped, RefoldError
from refold.engine.events.outcome import ChildRef, Outcome, Status, Truncated, failed
from refold.engine.ports.ports import CancelSignal, ChildRequest, Question, Suspended
from refold.engine.process.bounded import run_bounded
from refold.engine.process.bounds import Bounds, Captured, Ended, How
from refold.engine.process.start import child_environment
from refold.engine.runners.child_run import outcome_of_error
from refold.engine.secrets.vault import Vault

STUB: Final = Path(__file__).with_name("stub.py")
"""The file that a process of ours executes first."""
_MODEL_KEYS: Final = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
)
_RAY: Final = ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR", "REFOLD_ON_RAY")
"""How children of the child find the cluster that their parent runs on, if it does."""
_SLACK_SECONDS: Final = 2.0
"""After its deadline, for the child's own kernel to stop the program and to seal: as long as in
process, and the child's clock begins only when its interpreter is up."""

_KILL_SECONDS: Final = 1.0
"""Between TERM and KILL."""


class InSubprocess:
    """Runs each child in a process of its own.

    Args:
        environment: Names of variables that children get beyond the allowlist.
        memory_bytes: Resident bytes that a child and its descendants may use together.
    """

    name = "subprocess"
    needs_references = True
    """What its children get is imported again, by another process."""
    entry = "refold.engine.runners.child:run_envelope"
    """The function that the stub calls with the envelope."""

    def __init__(self, *, environment: Iterable[str] = (), memory_bytes: int | None = None) -> None:
        self._environment = tuple(environment)
        self._memory_bytes = memory_bytes

    def run(self, request: ChildRequest, /) -> Outcome | Suspended:
        """Return how the child ended, or that it waits for a person; blocks."""
        with served(request.tokens) as tokens_fd:
            return self._run(request, tokens_fd)

    def _run(self, request: ChildRequest, tokens_fd: int | None) -> Outcome | Suspended:
        try:
            envelope = pack(request, entry=self.entry, tokens_fd=tokens_fd)
        except RefoldError as error:
            return outcome_of_error(error)
        began_us = request.clock.time_us() if request.clock else 0
        ended = self._bounded(envelope, request, tokens_fd)
        if ended.reply.startswith(_SUSPENDED) and ended.reply.endswith(b"\n"):
            return _suspended(ended.reply)
        if ended.reply.startswith(_STOPPED) and ended.reply.endswith(b"\n"):
            raise ChildStopped(str(request.log), **loads(ended.reply)["stopped"])
        duration_ms = round(ended.duration_seconds * 1000)
        if request.clock:
            duration_ms = (request.clock.time_us() - began_us) // 1000
        return anchored(_outcome(ended, request, duration_ms), request)

    def _bounded(self, envelope: bytes, request: ChildRequest, tokens_fd: int | None) -> Ended:
        """Run the envelope's process to its end: here, or as a subclass decides."""
        environment = child_environment(self._names(request))
        return run_stub(envelope, environment, self._bounds(request), request.cancel, tokens_fd)

    def _names(self, request: ChildRequest) -> tuple[str, ...]:
        names = self._environment + _RAY + (_MODEL_KEYS if request.models else ())
        return names + (request.vault.key_variables if request.vault else ())

    def _bounds(self, request: ChildRequest) -> Bounds:
        policy, seconds = request.policy, request.limits.timeout_seconds
        return Bounds(
            deadline_seconds=None if seconds is None else seconds + _SLACK_SECONDS,
            grace_seconds=_KILL_SECONDS,
            stream_bytes=policy.stream_bytes,
            streams="kill",
            frame_bytes=policy.frame_bytes + 1,  # the newline
            memory_bytes=self._memory_bytes,
        )


def run_stub(
    envelope: bytes,
    environment: dict[str, str],
    bounds: Bounds,
    cancel: CancelSignal,
    tokens_fd: int | None,
) -> Ended:
    """Run the process of an envelope to its end, on this machine."""
    return run_bounded(
        [sys.executable, "-I", os.fspath(STUB)],
        env=environment,
        cwd=Path.cwd(),
        request=envelope,
        bounds=bounds,
        cancel=cancel,
        pass_fds=() if tokens_fd is None else (tokens_fd,),
    )


_SUSPENDED: Final = b'{"questions":['
_STOPPED: Final = b'{"stopped":{'


def _suspended(reply: bytes) -> Suspended:
    """Return that the child waits for a person, by its own reply."""
    said = loads(reply)
    questions = tuple(Question(**each) for each in said["questions"])
    return Suspended(questions=questions, child=ChildRef(**said["child"]))


def _outcome(ended: Ended, request: ChildRequest, duration_ms: int) -> Outcome:
    """Interpret the end of the process: a whole reply counts, even if more follows."""
    policy = request.policy
    if ended.reply.endswith(b"\n"):
        return outcome_of(ended.reply[:-1], policy, duration_ms=duration_ms)
    status, code, message = _ENDS[ended.how]
    said = message.format(
        seconds=request.limits.timeout_seconds or 0,
        policy=policy,
        ended=ended,
        words=_last_words(ended.stderr, request.vault),
    )
    return failed(status, code, said, duration_ms=duration_ms, truncated=_truncated(ended))


_ENDS: Final[dict[How, tuple[Status, str, str]]] = {
    "timed_out": ("timed_out", "timeout_seconds", "it did not end within {seconds:g} s"),
    "cancelled": ("cancelled", "cancelled", "cancelled by its parent"),
    "spawn_failed": ("failed", "spawn_failed", "{ended.error}"),
    "lost": ("failed", "node_lost", "its node was lost, and it is not run again: {ended.error}"),
    "frame_overflow": (
        "limit",
        "frame_bytes",
        "the reply has more than the {policy.frame_bytes} bytes allowed",
    ),
    "stream_overflow": (
        "limit",
        "stream_bytes",
        "it printed more than the {policy.stream_bytes} bytes allowed",
    ),
    "memory": ("limit", "memory_bytes", "it used more memory than allowed"),
    "signalled": ("failed", "crashed", "ended by signal {ended.signal}{words}"),
    "exited": ("failed", "crashed", "exit code {ended.code} without a reply{words}"),
}
"""Status, code and message of the outcome, by how a process ended that handed back nothing."""


def _truncated(ended: Ended) -> Truncated | None:
    if ended.how != "stream_overflow":
        return None
    stream = ended.stdout if ended.stdout.truncated else ended.stderr
    return Truncated(
        kept_bytes=len(stream.kept), seen_bytes=stream.seen_bytes, sha256=stream.sha256
    )


def _last_words(stderr: Captured, vault: Vault | None) -> str:
    """Return the end of a crashed child's standard error, for the message.

    Secrets are taken out before lines are cut: half of a secret would not be found.
    """
    said = stderr.kept.decode(errors="backslashreplace").strip()
    lines = (vault.scrubbed(said) if vault else said).splitlines()
    return ": " + " | ".join(line.strip()[:200] for line in lines[-2:]) if lines else ""
