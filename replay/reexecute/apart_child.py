"""The process in which an unfinished run is re-executed; `replay.reexecute.apart` starts it."""

import os
import threading
from pathlib import Path
from typing import Any

import orjson

from refold.engine.encoding.canonical import loads
from refold.engine.log.descriptors import write_all
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import load, load_program
from refold.engine.process.watchdog import take_protocol
from refold.replay.explain.divergence import Divergence
from refold.replay.reexecute.apart import BEGUN, REACHED, STILL_SECONDS
from refold.replay.reexecute.reexecute import replay_tree
from refold.replay.reexecute.report import ReplayReport, RunAgain, Watch


def answer(line: bytes) -> None:
    """Run as the child process: re-execute the envelope's log, and write the result."""
    envelope: dict[str, Any] = loads(line)
    protocol = take_protocol()
    if protocol is None:
        raise SystemExit("this module is started by a re-execution")
    reply, log = protocol[1], Path(envelope["log"])
    returned = threading.Event()

    def leave() -> None:
        if not returned.is_set():
            os._exit(0)

    def reached() -> None:
        os.write(reply, REACHED + b"\n")
        still = threading.Timer(STILL_SECONDS, leave)
        still.daemon = True
        still.start()

    def differed(divergence: Divergence) -> None:
        told = ReplayReport(log=log, divergences=(divergence,))
        write_all(reply, orjson.dumps(told.as_json()) + b"\n")

    tools = [load(Reference(**each)) for each in envelope["tools"]]
    program = load_program(Reference(**envelope["program"]))
    write_all(reply, BEGUN + b"\n")
    again = RunAgain(
        log=log,
        program=program,
        tools={tool.name: tool for tool in tools},
        names=tuple(envelope["names"]),
        volatile=tuple(envelope["volatile"]),
    )
    report = replay_tree(again, Watch(reached, differed, returned.set))
    write_all(reply, orjson.dumps(report.as_json()) + b"\n")
    os._exit(0)  # the program may have left threads behind
