"""Whether entries make sense together (CONTRACT.md §5.2)."""

from pathlib import Path
from typing import Any

import attrs

from refold.engine.events.events import (
    ChildFinished,
    ChildStarted,
    ClockRead,
    EffectCancelled,
    EffectLate,
    InputAsked,
    InputGiven,
    LimitHit,
    ModelAnswered,
    ModelAsked,
    NoteAdded,
    Recorded,
    RunFinished,
    TimerFired,
    ToolCalled,
    ToolReturned,
)
from refold.engine.events.outcome import Outcome
from refold.engine.log.line import parts_of
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.replay.audit.causal import Causality, Problem
from tests.support.loops import for_each
from tests.support.started import STARTED

ROOT = attrs.evolve(
    STARTED,
    depth=1,
    limits={"max_depth": 1, "max_children": 1},
    run_id="root",
    root_id="root",
    parent={"run": "r", "call": "0#1", "hash": "0" * 64},
)

CALL = ToolCalled("t", {}, "pure")
PROGRAM = ToolCalled("t", {}, "pure", delegates=True)
BACK = ToolReturned("ok")
START = ChildStarted({}, 1, "c")
END = ChildFinished(Outcome(status="completed"))
REJECTED = ChildFinished(Outcome(status="rejected"))
CLOCK = ClockRead(1, 1)
NOTE = NoteAdded("n")
TIMEOUT = LimitHit("timeout_seconds", 1, "run", 1)

Line = tuple[Recorded, str | None]


def problems(tmp_path: Path, lines: list[Line], **changed: Any) -> list[str]:
    """Return what is wrong with a log of these lines after its first."""
    path = tmp_path / "a.jsonl"
    with LogWriter.create(path, attrs.evolve(ROOT, **changed), durability="fast") as log:
        for event, call in lines:
            log.append(event, call)
    return [what for _, (what, _, _) in _found(path)]


def _found(path: Path) -> list[tuple[int, Problem]]:
    """Return the problems of a log, with the numbers of their entries."""
    causality = Causality()
    return [
        (entry.seq, problem)
        for entry in read_entries(path)
        for parts in parts_of([entry.line]) or ()
        for problem in causality.take(entry.seq, parts, entry.event, entry.line)
    ]


@for_each(
    "lines",
    [
        [(CALL, "0#1"), (BACK, "0#1")],
        [(CALL, "0#1"), (CALL, "0/1#1"), (BACK, "0/1#1"), (CALL, "0#2")],
        [(CALL, "0#1"), (EffectCancelled("tool"), "0#1"), (EffectLate("tool", "ok"), "0#1")],
        [(START, "0#1"), (EffectCancelled("child"), "0#1"), (END, "0#1")],
        [(START, "0#1"), (EffectLate("child", "ok"), "0#1")],
        [(REJECTED, "0#1"), (CALL, "0#2")],
        [(LimitHit("max_children", 1, "child", 2), "0#1"), (REJECTED, "0#1")],
        [(ModelAsked("m", "", 0, [], {}), "0#1"), (ModelAnswered("ok"), "0#1")],
        [(InputAsked("q"), "0#1"), (InputGiven("a"), "0#1")],
        [(TimerFired(1, nth=1), "0@3"), (TimerFired(2, nth=1), "0@1")],
        [(CLOCK, None), (TimerFired(1, nth=1), "0@1"), (CLOCK, None)],
        [(CLOCK, None), (TIMEOUT, None), (CLOCK, None)],
        [(CLOCK, None), (EffectCancelled("run"), None), (CLOCK, None)],
        [(NOTE, "0#1"), (NOTE, "0#2"), (NOTE, None)],
    ],
)
def test_what_a_run_can_do_is_accepted(tmp_path: Path, lines: list[Line]) -> None:
    """Concurrency, cancellation, rejections, timers that were disarmed."""
    assert problems(tmp_path, lines) == []


@for_each(
    "lines, what",
    [
        ([(BACK, "0#1")], "request"),
        ([(CALL, "0#1"), (BACK, "0#1"), (BACK, "0#1")], "request"),
        ([(CALL, "0#1"), (ModelAnswered("ok"), "0#1")], "request"),
        ([(CALL, "0#1"), (CALL, "0#2"), (BACK, "0/1#1")], "request"),
        ([(END, "0#1")], "request"),
        ([(CALL, "0#1"), (EffectCancelled("tool"), "0#1"), (BACK, "0#1")], "request"),
        ([(CALL, "0#1"), (EffectCancelled("model"), "0#1")], "request"),
        ([(EffectCancelled("tool"), "0#1")], "request"),
        ([(CALL, "0#1"), (EffectLate("tool", "ok"), "0#1")], "request"),
        ([(CALL, "0#2")], "call key"),
        ([(CALL, "0#1"), (CALL, "0#3")], "call key"),
        ([(CALL, "0#1"), (BACK, "0#1"), (CALL, "0#1")], "call key"),
        ([(CALL, None)], "call key"),
        ([(NOTE, "0")], "call key"),
        ([(NOTE, "0#0")], "call key"),
        ([(NOTE, "0@1")], "call key"),
        ([(TimerFired(1, nth=1), "0#1")], "call key"),
        ([(CLOCK, None), (NOTE, "0#1"), (CLOCK, None)], "clock"),
        ([(CLOCK, None), (REJECTED, "0#1"), (CLOCK, None)], "clock"),
        ([(PROGRAM, "0#1"), (CLOCK, None), (BACK, "0#1"), (CLOCK, None)], "clock"),
        ([(ROOT, None)], "order"),
        ([(attrs.evolve(START, number=2), "0#1")], "child number"),
        ([(START, "0#1"), (attrs.evolve(START, number=2), "0#2")], "limit"),
        ([(RunFinished("completed", "done"), None)], "entries"),
    ],
)
def test_what_no_run_can_do_is_reported(tmp_path: Path, lines: list[Line], what: str) -> None:
    """By one word each, at the entry that cannot be."""
    assert what in problems(tmp_path, lines)


def test_a_run_deeper_than_its_limit_is_reported(tmp_path: Path) -> None:
    """A run at `max_depth` may exist; one below may not."""
    assert problems(tmp_path, [], depth=2) == ["limit"]


def test_a_cause_comes_before_its_effect(tmp_path: Path) -> None:
    """An entry cannot follow from itself or from what comes later."""
    path = tmp_path / "a.jsonl"
    with LogWriter.create(path, ROOT, durability="fast") as log:
        log.append(NOTE, "0#1", 0)
        log.append(NOTE, "0#2", 2)

    assert [(seq, what) for seq, (what, _, _) in _found(path)] == [(2, "cause")]
