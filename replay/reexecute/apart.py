"""Re-executes an unfinished run in isolation, with a wall-clock limit.

A run that was killed, crashed or hung will do so again, and must not harm the replaying process. So
it runs in a separate process, or, if its program cannot be imported there, on a thread that can be
abandoned. Once the last line has matched, crashing or hanging *is* the recorded behaviour
(CONTRACT.md §12.3).
"""

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.errors import ProgramNotFound
from refold.engine.ports.ports import CancelSignal
from refold.engine.ports.programs import elsewhere, reference_of
from refold.engine.process.bounded import run_bounded
from refold.engine.process.bounds import Bounds
from refold.engine.process.start import child_environment
from refold.engine.recording.workers import on_thread
from refold.engine.runners.in_subprocess import STUB
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.report import ReplayReport, RunAgain, Watch

WALL_SECONDS: Final = 60.0
"""For the whole re-execution of one unfinished run and its children."""

STILL_SECONDS: Final = 1.0
"""How long a program that has matched the last line may be silent before it counts as still."""

_FRAME_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = "refold.replay.reexecute.apart_child:answer"
BEGUN: Final = b'"begun"'
REACHED: Final = b'"reached"'
_MARKS: Final = (BEGUN, REACHED)


@attrs.frozen
class Reexecuted:
    """The result of an isolated re-execution."""

    report: ReplayReport | None
    """`None` where it died, or was left behind, before it had one."""
    reached_end: bool
    """Whether the last line of the record had matched."""
    how: str
    """How it ended, for people."""


def reexecute_apart(again: RunAgain, here: Callable[[Watch], ReplayReport]) -> Reexecuted:
    """Re-execute a run whose record is unfinished, and return what came of it.

    `here` does so in this process: a run with a session may not leave it, for its reducers are
    objects of this one.

    Raises:
        RefoldError: the re-execution refused: a tool has to be passed, a program cannot be found.
    """
    assert again.program is not None  # the log's was looked up
    tools, log = again.tools.values(), again.log
    known = [tool.reference for tool in tools if tool.reference is not None]
    if again.session is not None or len(known) < len(tools):
        return on_a_thread(here, log)
    try:
        reference = reference_of(again.program)
        references = [elsewhere(each) for each in known]
    except ProgramNotFound:
        return on_a_thread(here, log)
    envelope: dict[str, Json] = {
        "entry": _ENTRY,
        "log": os.path.abspath(log),  # noqa: PTH100 - links stay as they were given
        "names": list(again.names),
        "program": attrs.asdict(reference),
        "tools": [attrs.asdict(each) for each in references],
        "volatile": list(again.volatile),
        "sys_path": [os.path.abspath(entry) for entry in sys.path],  # noqa: PTH100 - the same
        "cwd": os.getcwd(),  # noqa: PTH109 - the same
    }
    ended = run_bounded(
        [sys.executable, "-I", os.fspath(STUB)],
        env=child_environment(),
        cwd=Path.cwd(),
        request=encode(envelope) + b"\n",
        bounds=Bounds(deadline_seconds=WALL_SECONDS, grace_seconds=0.5, frame_bytes=_FRAME_BYTES),
        cancel=CancelSignal(),
    )
    lines = ended.reply.split(b"\n")[:-1]
    if BEGUN not in lines:  # it cannot be imported there: a script that needs its arguments, say
        return on_a_thread(here, log)
    report = next((loads(line) for line in reversed(lines) if line not in _MARKS), None)
    how = f"exit code {ended.code}" if ended.how == "exited" else ended.how
    told = ReplayReport.from_json(report) if report else None
    return Reexecuted(told, REACHED in lines, how)


def on_a_thread(here: Callable[[Watch], ReplayReport], log: Path) -> Reexecuted:
    """Re-execute on a thread of this process, which is abandoned if the program hangs."""
    seen: list[Divergence] = []
    reached, returned = threading.Event(), threading.Event()
    watch = Watch(reached.set, seen.append, returned.set)
    ended = on_thread(lambda: here(watch), "refold-replay")
    while not wait([ended], 0.02).done:
        if reached.is_set() and not returned.wait(STILL_SECONDS):
            break
    if ended.done():
        return Reexecuted(ended.result(), reached.is_set(), "returned")
    report = ReplayReport(log=log, divergences=(seen[0],)) if seen else None
    return Reexecuted(report, reached.is_set(), "stood still")
