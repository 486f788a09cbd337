"""How a run without an end stands: by its lock, and by what it asked (CONTRACT.md §14.10)."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refold.engine.log.lock import lock
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.replay.index.standing import question_of, stood
from refold.replay.resume.open_ends import open_ends
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode
from tests.support.unfinished import cut, lines_of, rows_of


async def asks(run: Run, text: str) -> str:
    return str(await run.ask(text))


async def asks_by_a_child(run: Run, text: str) -> str:
    outcome = await run.delegate(Delegation(program=asks, input=text, brief="ask"))
    return outcome.status


async def answers(_run: Run, number: int) -> int:
    return number


async def has_two(run: Run, _input: None) -> None:
    first = await run.start(Delegation(program=answers, input=1, brief="one"))
    second = await run.start(Delegation(program=answers, input=2, brief="two"))
    await run.join(first, second)


async def gives_up(run: Run, text: str) -> str:
    """Cancel a child that waits for a person, and a child of it that does."""
    asked = Delegation(program=asks_by_a_child, input=text, brief="ask")
    task = asyncio.create_task(run.delegate(asked))
    await run.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])
    return "went on"


@contextlib.contextmanager
def _written(log: Path) -> Iterator[None]:
    """Hold the lock of a log, as its writer does."""
    descriptor = os.open(log, os.O_RDWR)
    lock(descriptor, log)
    try:
        yield
    finally:
        os.close(descriptor)


def _statuses(tree: RunNode) -> list[str]:
    return [tree.status, *(each for child in tree.children for each in _statuses(child))]


@pytest.mark.parametrize("program", [asks, asks_by_a_child])
def test_a_run_that_asked_waits_until_somebody_writes_its_log(tmp_path: Path, program: Any) -> None:
    """Also when a child of it asked: the child's log says so."""
    log = record(program, "may I?", log=tmp_path / "a.jsonl").log

    assert stood(log, question_of(log))[0] == "waits_for_you"
    assert set(_statuses(OpenedRun(log).tree)) == {"waits_for_you"}
    with _written(log):
        assert stood(log, question_of(log))[0] == "running"
        assert set(_statuses(OpenedRun(log).tree)) == {"running"}


@pytest.mark.parametrize("ends", ["cancelled", "joined"])
def test_nobody_waits_for_what_a_child_asked_that_was_given_up(tmp_path: Path, ends: str) -> None:
    """Its process was killed, so its own log ends with the question; then the run broke off."""
    whole = record(gives_up, "may I?", log=tmp_path / "whole" / "a.jsonl").log
    log, kinds = tmp_path / "a.jsonl", [row["kind"] for row in rows_of(whole)]
    last = "effect.cancelled" if ends == "cancelled" else "child.finished"
    cut(whole, log, kinds.index(last) + 1)
    for below in (log.with_name("a.1.jsonl"), log.with_name("a.1.1.jsonl")):
        kept = [row["kind"] for row in rows_of(whole.with_name(below.name))][:2]
        assert kept[1] in ("child.started", "input.asked")
        below.write_bytes(b"".join(lines_of(whole.with_name(below.name))[:2]))

    run = OpenedRun(log)
    status = "broke_off" if ends == "cancelled" else "cancelled"
    assert _statuses(run.tree) == ["broke_off", status, "broke_off"]
    assert (question_of(log), run.question, open_ends(log).questions) == (None, None, ())


def test_a_run_without_an_end_that_asks_nothing_broke_off(tmp_path: Path) -> None:
    """Its children did, too, unless their own logs have an end, or are still written."""
    log = record(has_two, None, log=tmp_path / "there" / "a.jsonl").log
    broken = cut(
        log, tmp_path / "a.jsonl", 3, lambda child, lines: lines if ".1." in child.name else 1
    )

    assert stood(broken, question_of(broken))[0] == "broke_off"
    assert _statuses(OpenedRun(broken).tree) == [
        "broke_off", "completed", "broke_off",
    ]  # fmt: skip
    with _written(tmp_path / "a.2.jsonl"):
        assert _statuses(OpenedRun(broken).tree)[2] == "running"


async def gives_up_on_a_tree(run: Run, _input: None) -> str:
    child = await run.start(Delegation(program=asks_by_a_child, input="may I?"))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.2):  # by then, usually, the grandchild waits for an answer
            await run.join(child)
    run.cancel(child)
    (outcome,) = await run.join(child)
    return outcome.status


def test_below_a_run_that_has_ended_nobody_waits_for_an_answer(tmp_path: Path) -> None:
    log = record(gives_up_on_a_tree, None, log=tmp_path / "a.jsonl").log

    root, child, grandchild = _statuses(OpenedRun(log).tree)
    assert (root, child) == ("completed", "cancelled")
    assert grandchild in ("broke_off", "cancelled")


def test_a_line_that_is_just_being_written_is_no_torn_tail(tmp_path: Path) -> None:
    log = record(answers, 1, log=tmp_path / "a.jsonl").log
    log.write_bytes(log.read_bytes()[:-9])

    torn = OpenedRun(log).tree
    with _written(log):
        growing = OpenedRun(log).tree

    assert (torn.status, torn.log_state) == ("broke_off", "torn")
    assert (growing.status, growing.log_state) == ("running", "read")


def test_what_a_damaged_log_ends_with_is_not_known(tmp_path: Path) -> None:
    log = record(answers, 1, log=tmp_path / "a.jsonl").log
    log.write_bytes(log.read_bytes().replace(b"run.finished", b"run.finishee"))

    tree = OpenedRun(log).tree

    assert (tree.status, tree.log_state) == ("unfinished", "damaged")


def test_a_child_may_have_no_log_yet_when_its_run_breaks_off(tmp_path: Path) -> None:
    log = record(asks_by_a_child, "may I?", log=tmp_path / "a.jsonl").log
    (tmp_path / "a.1.jsonl").unlink()

    assert stood(log, question_of(log))[0] == "broke_off"
    assert _statuses(OpenedRun(log).tree) == ["broke_off", "broke_off"]
