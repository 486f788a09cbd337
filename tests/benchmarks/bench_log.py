"""What writing and reading a log costs, against the bare JSON library."""

import os
from hashlib import sha256
from pathlib import Path

import attrs
import orjson

from refold.engine.events.codec import structure
from refold.engine.events.events import Event, NoteAdded, ToolCalled, ToolReturned
from refold.engine.log.reader import read_entries, scan
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import Durability
from refold.replay.audit.refolding import refold_log
from refold.replay.audit.verify import verify
from tests.benchmarks.measure import WALL, Job
from tests.support import started

EVENTS = 2_000
STRICT_EVENTS = 20
STARTED = attrs.evolve(started.STARTED, program="bench", run_id="bench", root_id="bench")
ARGUMENTS = {"query": "durable execution " * 6, "limit": 5, "flags": [True, False, 1.5]}
RESULT = {"hits": [1, 2, 3], "text": "found it " * 12}

_BARE_WRITE = "bare orjson.dumps + os.write"
_BARE_READ = "bare read + orjson.loads"


def jobs(folder: Path) -> list[Job]:
    """Return what is timed; readers read a log that is written here."""
    path = _write(folder / "read.jsonl", "fast", EVENTS)
    return [*_writers(folder), *_readers(path)]


def _writers(folder: Path) -> list[Job]:
    place, base = folder / "written.jsonl", _BARE_WRITE
    return [
        Job(name=base, run=lambda: _bare_write(folder / "bare"), count=EVENTS),
        Job(
            name="append, fast",
            run=lambda: _write(place, "fast", EVENTS),
            base=base,
            count=EVENTS,
            goal="at most 3.5x",
        ),
        Job(
            name="append, group",
            run=lambda: _write(place, "group", EVENTS),
            base=base,
            count=EVENTS,
            clock=WALL,
        ),
        Job(
            name="append, strict",
            run=lambda: _write(place, "strict", STRICT_EVENTS),
            base=base,
            count=STRICT_EVENTS,
            clock=WALL,
        ),
    ]


def _readers(path: Path) -> list[Job]:
    base, count = _BARE_READ, EVENTS
    return [
        Job(name=base, run=lambda: _bare_read(path), count=count),
        Job(name="bare read + sha256", run=lambda: _bare_hash(path), base=base, count=count),
        Job(
            name="verify the chain",
            run=lambda: scan(path),
            base=base,
            count=count,
            goal="at most 1.0x",
        ),
        Job(name="… and parse", run=lambda: _parse(path), base=base, count=count),
        Job(name="… and make events", run=lambda: _load(path), base=base, count=count),
        Job(
            name="… and fold",
            run=lambda: refold_log(path),
            base=base,
            count=count,
            goal="at most 3.3x",
        ),
        Job(name="verify, all rules", run=lambda: verify(path), base=base, count=count),
    ]


def _event(at: int) -> tuple[Event, str]:
    """Return the event `at` and its call key, built anew: its construction is part of the price."""
    turn, part = divmod(at, 3)
    match part:
        case 0:
            return ToolCalled("search", ARGUMENTS, "reads"), f"0#{2 * turn + 1}"
        case 1:
            return ToolReturned("ok", RESULT), f"0#{2 * turn + 1}"
        case _:
            return NoteAdded("remark " * 20, {"at": at}), f"0#{2 * turn + 2}"


def _plain(at: int) -> dict[str, object]:
    """Return the same line as a dict; its hash is made up."""
    turn, part = divmod(at, 3)
    line: dict[str, object] = {"seq": at}
    match part:
        case 0:
            line |= {"kind": "tool.called", "call": f"0#{2 * turn + 1}", "cause": at}
            line["data"] = {"tool": "search", "arguments": ARGUMENTS, "effect": "reads"}
        case 1:
            line |= {"kind": "tool.returned", "call": f"0#{2 * turn + 1}", "cause": at}
            line["data"] = {"status": "ok", "result": RESULT}
        case _:
            line |= {"kind": "note.added", "call": f"0#{2 * turn + 2}", "cause": at}
            line["data"] = {"text": "remark " * 20, "data": {"at": at}}
    meta = {"wall_us": 1_700_000_000_000_000, "mono_us": 1_000_000_000 + at}
    return line | {"meta": meta, "hash": "0" * 64}


def _bare_write(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for at in range(EVENTS):
        os.write(descriptor, orjson.dumps(_plain(at), None, orjson.OPT_APPEND_NEWLINE))
    os.close(descriptor)


def _write(path: Path, durability: Durability, events: int) -> Path:
    path.unlink(missing_ok=True)
    with LogWriter.create(path, STARTED, durability=durability) as log:
        for at in range(events):
            event, call = _event(at)
            log.append(event, call, at)
    return path


def _bare_read(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _bare_hash(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            sha256(line).digest()


def _parse(path: Path) -> None:
    for _ in read_entries(path):
        pass


def _load(path: Path) -> None:
    for entry in read_entries(path):
        structure(entry.kind, entry.data)
