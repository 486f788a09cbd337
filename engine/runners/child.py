"""The child's side of a subprocess: one envelope in, one run recorded, one frame out."""

import os

import attrs

from refold.engine.children.envelope import unpack
from refold.engine.children.reply import reply_frame
from refold.engine.encoding.canonical import encode
from refold.engine.errors import ProgramNotFound, RefoldError
from refold.engine.log.descriptors import write_all
from refold.engine.log.writer import hold_writers
from refold.engine.process.watchdog import apply_rlimits, leave_with_parent, take_protocol
from refold.engine.recording.host import Host
from refold.engine.runners.child_run import ADVICE, recorder_of, suspended, why_stopped
from refold.engine.runners.shipped import Runners


def run_on_ray(line: bytes) -> None:
    """Run the envelope's child in a process on a node of Ray."""
    run_envelope(line, "ray")


def run_envelope(line: bytes, runner_name: str = "subprocess") -> None:
    """Run the envelope's child and write the reply; ends this process when the parent ends."""
    protocol = take_protocol()
    if protocol is None:
        raise SystemExit("this is the child side of a subprocess run; `refold run` starts one")
    request_fd, reply_fd = protocol
    leave_with_parent(request_fd, hold_writers)
    apply_rlimits()
    write_all(reply_fd, _run(line, runner_name) + b"\n")
    os.close(reply_fd)


def _run(line: bytes, runner_name: str) -> bytes:
    host, request = Host(), None
    try:
        request = attrs.evolve(unpack(line), runners=Runners())
        recorded = recorder_of(request, host, runner_name=runner_name).record()
        if recorded.questions:
            return encode(attrs.asdict(suspended(recorded, request)))
        return reply_frame(recorded.finished, recorded.fold)
    except RefoldError as error:
        if request is not None and request.resume is not None:
            code, message = why_stopped(error)
            return encode({"stopped": {"code": code, "message": message}})
        is_far = runner_name == "ray" and isinstance(error, ProgramNotFound)
        told = f"{error}; {ADVICE}" if is_far else str(error)
        fault = {"code": type(error).__name__, "message": told}
        return encode({"status": "failed", "summary": "", "error": fault})
    finally:
        host.close()
