"""Re-executes an unfinished run out of harm's way, under a wall limit.

A run that was killed, crashed or stood still will do so again; that must not take the process with
it that replays.  So it goes into a process of its own, or, where its program cannot be imported
there, onto a thread that can be left behind.  Once the last line has matched, dying or standing
still *is* what the record says (CONTRACT.md §12.3).
"""

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import orjson

from refold.engine.encoding.canonical import Json, encode, loads
from refold.engine.errors import ProgramNotFound
from refold.engine.log.descriptors import write_all
from refold.engine.ports.ports import CancelSignal, Program, Reference, SessionPort, Tool
from refold.engine.ports.programs import load, load_program, reference_of
from refold.engine.process import Bounds, child_environment, run_bounded, take_protocol
from refold.engine.runners.in_subprocess import STUB
from refold.replay.difference.excuses import Ignored
from refold.replay.explain.divergence import Divergence

WALL_SECONDS: Final = 60.0
"""For the whole re-execution of one unfinished run and its children."""

STILL_SECONDS: Final = 1.0
"""How long a program that has matched the last line may be silent before it counts as still."""

_FRAME_BYTES: Final = 64 * 1024 * 1024
_ENTRY: Final = "refold.replay.reexecute.apart:answer"
_BEGUN: Final = b'"begun"'
_REACHED: Final = b'"reached"'
_MARKS: Final = (_BEGUN, _REACHED)


@attrs.frozen
class Part:
    """The part of a report that comes from a run which was re-executed apart."""

    divergences: tuple[Divergence, ...] = ()
    ends_early: tuple[str, ...] = ()
    entries: int = 0
    children: int = 0
    tools_executed: int = 0
    ignored: tuple[Ignored, ...] = ()
    ignored_count: int = 0
    timers: int = 0
    unread: tuple[str, ...] = ()


@attrs.frozen
class Answer:
    """What a re-execution apart came to."""

    report: Part | None
    """`None` where it died, or was left behind, before it had one."""
    reached_end: bool
    """Whether the last line of the record had matched."""
    how: str
    """How it ended, for people."""


def reexecute_apart(
    log: Path,
    program: Program | Reference | str,
    tools: Mapping[str, Tool],
    names: tuple[str, ...],
    session: SessionPort | None = None,
    *,
    volatile: tuple[str, ...] = (),
) -> Answer:
    """Re-execute the unfinished record `log` and return what came of it.

    A run with a session stays in this process: its reducers are objects of this one.

    Raises:
        RefoldError: the re-execution refused: a tool has to be passed, a program cannot be found.
    """

    def on_a_thread() -> Answer:
        return _on_a_thread(log, program, tools, names, session, volatile)

    try:
        reference = reference_of(program)
    except ProgramNotFound:
        return on_a_thread()
    if session is not None or any(tool.reference is None for tool in tools.values()):
        return on_a_thread()
    references = [tool.reference for tool in tools.values() if tool.reference is not None]
    envelope: dict[str, Json] = {
        "entry": _ENTRY,
        "log": os.path.abspath(log),  # noqa: PTH100 - links stay as they were given
        "names": list(names),
        "program": attrs.asdict(reference),
        "tools": [attrs.asdict(each) for each in references],
        "volatile": list(volatile),
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
    if _BEGUN not in lines:  # it cannot be imported there: a script that needs its arguments, say
        return on_a_thread()
    report = next((loads(line) for line in reversed(lines) if line not in _MARKS), None)
    how = f"exit code {ended.code}" if ended.how == "exited" else ended.how
    return Answer(_part(report) if report else None, _REACHED in lines, how)


def _part(report: dict[str, Any]) -> Part:
    return Part(
        tuple(Divergence.from_json(one) for one in report["divergences"]),
        tuple(report["ends_early"]),
        report["entries"],
        report["children"],
        report["tools_executed"],
        tuple(Ignored(**one) for one in report["ignored"]),
        report["ignored_count"],
        report["timers"],
        tuple(report["unread"]),
    )


def _on_a_thread(
    log: Path,
    program: Program | Reference | str,
    tools: Mapping[str, Tool],
    names: tuple[str, ...],
    session: SessionPort | None,
    volatile: tuple[str, ...],
) -> Answer:
    from refold.replay.reexecute.reexecute import Watch, replay_tree  # noqa: PLC0415 - it imports this module

    box: list[Any] = []
    seen: list[Divergence] = []
    ended, reached = threading.Event(), threading.Event()
    watch = Watch(reached.set, seen.append)

    def run() -> None:
        try:
            box.append(
                replay_tree(log, program, tools, names, watch, session=session, volatile=volatile)
            )
        except BaseException as error:  # noqa: BLE001 - raised again below
            box.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name="refold-replay", daemon=True).start()
    while not ended.wait(0.02):
        if reached.is_set():
            ended.wait(STILL_SECONDS)
            break
    if not box and seen:
        return Answer(Part((seen[0],)), reached.is_set(), "stood still")
    if not box:
        return Answer(None, reached.is_set(), "stood still")
    if isinstance(box[0], BaseException):
        raise box[0]
    report = box[0]
    part = Part(**{field.name: getattr(report, field.name) for field in attrs.fields(Part)})
    return Answer(part, reached.is_set(), "returned")


def answer(line: bytes) -> None:
    """Be the process: re-execute what the envelope names, and write what came of it."""
    from refold.replay.reexecute.reexecute import Watch, replay_tree  # noqa: PLC0415 - it imports this module

    envelope: dict[str, Any] = loads(line)
    protocol = take_protocol()
    if protocol is None:
        raise SystemExit("only a re-execution starts this")
    reply = protocol[1]

    def reached() -> None:
        os.write(reply, _REACHED + b"\n")
        still = threading.Timer(STILL_SECONDS, os._exit, (0,))
        still.daemon = True
        still.start()

    def differed(divergence: Divergence) -> None:
        told = {
            "divergences": [divergence.as_json()],
            "ends_early": [],
            "entries": 0,
            "children": 0,
            "tools_executed": 0,
            "ignored": [],
            "ignored_count": 0,
            "timers": 0,
            "unread": [],
        }
        write_all(reply, orjson.dumps(told) + b"\n")

    tools = [load(Reference(**each)) for each in envelope["tools"]]
    program = load_program(Reference(**envelope["program"]))
    write_all(reply, _BEGUN + b"\n")
    report = replay_tree(
        Path(envelope["log"]),
        program,
        {tool.name: tool for tool in tools},
        tuple(envelope["names"]),
        Watch(reached, differed),
        volatile=tuple(envelope["volatile"]),
    )
    write_all(reply, orjson.dumps(report.as_json()) + b"\n")
    os._exit(0)  # the program may have left threads behind
