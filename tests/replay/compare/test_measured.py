"""What is not compared is declared by what writes it, and listed (CONTRACT.md §13.2)."""

import json
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.engine.ports.clock import FixedClock
from refold.replay.compare import measured
from refold.replay.compare.measured import Declared
from refold.replay.testing.snapshot import delegation_text, log_text
from refold.tools.contract.tool_types import DelegationTool
from tests.support import five_tools
from tests.support.loops import for_each
from tests.support.unfinished import cut

RUNNERS = ["in-process", pytest.param("subprocess", marks=pytest.mark.long)]


@pytest.mark.parametrize("runner", RUNNERS)
def test_two_recordings_with_all_delegation_tools_are_alike(runner: str, tmp_path: Path) -> None:
    """With other seeds, ids and times, though what they gave is handed on and returned."""
    logs = [five_tools.recorded(tmp_path / f"{name}.jsonl", runner).log for name in "ab"]

    found = refold.diff(*logs)

    assert found.identical, found
    assert found.runs == 13
    assert log_text(logs[0]) == log_text(logs[1])
    assert delegation_text(logs[0]) == delegation_text(logs[1])
    assert refold.reexecute(logs[0], five_tools.lead, session=five_tools.session()).identical
    assert refold.verify(logs[0]).complete


@pytest.mark.long
def test_under_one_seed_and_a_fixed_clock_their_digests_are_equal(tmp_path: Path) -> None:
    """Whatever the runner; nothing that is declared needs to be left out for it."""
    options: dict[str, Any] = {"seed": 1, "clock": FixedClock()}
    made = [
        five_tools.recorded(tmp_path / f"{number}.jsonl", runner, **options)
        for number, runner in enumerate(("in-process", "in-process", "subprocess", "subprocess"))
    ]

    assert len({one.data_digest for one in made}) == 1
    assert refold.diff(made[0].log, made[2].log).identical


def _noting(order: str, **declared: Any) -> Any:
    async def charging(run: refold.Run, _input: Any) -> None:
        note = {"correlation_id": order, "started_at": order, "duration_ms": 1, "amount": 1}
        run.annotate("charge", note, **declared)

    return charging


def test_a_note_that_looks_like_a_tools_is_compared(tmp_path: Path) -> None:
    """Its names say nothing: what it does not declare is compared whole."""
    a = refold.record(_noting("order-1"), log=tmp_path / "a.jsonl", seed=1)
    b = refold.record(_noting("order-2"), log=tmp_path / "b.jsonl", seed=1)

    (found,) = refold.diff(a.log, b.log).differences

    assert [each.pointer for each in found.differences] == [
        "/data/correlation_id",
        "/data/started_at",
    ]
    assert log_text(a.log) != log_text(b.log)


def test_what_a_note_declares_is_left_out_and_listed(tmp_path: Path) -> None:
    """Of that note alone, and by its place; a replay compares it all the same."""
    declared = {"measured": ("/correlation_id", "/started_at")}
    a = refold.record(_noting("one", **declared), log=tmp_path / "a.jsonl", seed=1)
    b = refold.record(_noting("two", **declared), log=tmp_path / "b.jsonl", seed=1)

    found = refold.diff(a.log, b.log)

    assert found.identical
    assert found.notes == (
        "not compared (as declared): note:charge ×1: /data/correlation_id, /data/started_at",
    )
    assert log_text(a.log) == log_text(b.log)
    line = json.loads(log_text(a.log).splitlines()[1])
    assert line["data"]["data"] == {"duration_ms": 1, "amount": 1}
    assert line["not_compared"] == ["/data/correlation_id", "/data/started_at"]
    assert not refold.reexecute(a.log, _noting("two", **declared)).identical


def test_what_is_no_pointer_is_refused(tmp_path: Path) -> None:
    """Or a place would be declared that is none, and the note compared after all."""
    failed = refold.record(_noting("x", measured=("correlation_id",)), log=tmp_path / "a.jsonl")

    assert failed.error is not None
    assert "expected a JSON pointer" in failed.error.message


def _timing(took: int, measured: tuple[str, ...], said: str) -> Any:
    async def handler(_run: Any, arguments: Any) -> Any:
        return {**arguments, "timed_out": False, "took": took, "said": said}

    timed = DelegationTool(
        name="timed", description="", parameters={}, handler=handler, measured=measured
    )

    async def lead(run: refold.Run, _input: Any) -> Any:
        result = await run.tool(timed, task="t")
        text = json.dumps(result, separators=(",", ":"))
        told = {"role": "tool", "tool_call_id": "c", "name": "timed", "content": text}
        await run.model([{"role": "user", "content": "go"}, told])
        return {"all": [result]}

    return lead


def _timed(log: Path, took: int, measured: tuple[str, ...] = (), said: str = "") -> Path:
    model = refold.engine.models.ScriptedModel(["done"])
    return refold.record(_timing(took, measured, said), log=log, seed=1, model=model).log


def test_a_result_is_left_out_wherever_it_stands(tmp_path: Path) -> None:
    """Where the tool returned it, where a model is told it, where the program returns it."""
    logs = [_timed(tmp_path / f"{took}.jsonl", took, ("/took",)) for took in (1, 2)]
    plain = [_timed(tmp_path / f"plain-{took}.jsonl", took) for took in (1, 2)]

    assert refold.diff(*logs).identical
    assert log_text(logs[0]) == log_text(logs[1])
    assert sorted(one.category for one in refold.diff(*plain).differences) == [
        "arguments",
        "output",
        "result",
    ]


def test_a_result_with_a_large_text_is_left_out_too(tmp_path: Path) -> None:
    """The text lies beside the log; what was measured is not in it."""
    said = "so it is said " * 10_000
    logs = [_timed(tmp_path / f"{took}.jsonl", took, ("/took",), said) for took in (1, 2)]

    assert refold.diff(*logs).identical


def test_a_line_may_be_as_long_as_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result in it is known wherever else it stands."""
    logs = [_timed(tmp_path / f"{took}.jsonl", took, ("/took",), "t" * 4000) for took in (1, 2)]
    lines = logs[0].read_bytes().splitlines(keepends=True)
    (returned,) = (len(line) for line in lines if b'"kind":"tool.returned"' in line)
    monkeypatch.setattr(measured, "LINE_MAX", returned)

    assert refold.diff(*logs).identical


def test_ids_are_told_by_their_place(tmp_path: Path) -> None:
    """As whole words, in any text and in names of members; another one there is a difference."""

    def using(ids: list[str], order: tuple[int, int]) -> Any:
        async def lead(run: refold.Run, _input: Any) -> Any:
            run.annotate("made", None, ids=ids)
            first, second = (ids[at] for at in order)
            return {first: f"[{second}: OK] {first}x"}

        return lead

    def made(name: str, ids: list[str], order: tuple[int, int] = (0, 1)) -> Path:
        return refold.record(using(ids, order), log=tmp_path / f"{name}.jsonl", seed=1).log

    a, b = made("a", ["a1", "a2"]), made("b", ["b1", "b2"])
    swapped = made("c", ["c1", "c2"], (1, 0))

    declared = Declared(a)
    assert declared.value({"a1": "[a2: OK] a1x"}) == {"[id 1]": "[[id 2]: OK] a1x"}
    assert [each.pointer for one in refold.diff(a, b).differences for each in one.differences] == [
        "/output/[id 1]"
    ]
    assert len(refold.diff(a, swapped).differences[0].differences) == 2


def test_without_a_log_nothing_is_declared() -> None:
    """And nothing is copied."""
    data = {"text": "a"}

    assert Declared().without(Path("a"), "note.added", "0#1", data) is data
    assert list(Declared().listed()) == []


@for_each("entries", range(1, 6))
def test_a_run_that_goes_on_declares_what_it_lacks_and_nothing_twice(
    entries: int, tmp_path: Path
) -> None:
    """Wherever it broke off, the log has each declaration once, before its entry."""
    program = _noting_twice
    whole = refold.record(program, log=tmp_path / "whole.jsonl", seed=1)
    log = cut(whole.log, tmp_path / "a.jsonl", entries)

    resumed = refold.resume(log, program)

    kinds = [entry.kind for entry in read_entries(log) if entry.kind != "run.resumed"]
    assert kinds == [entry.kind for entry in read_entries(whole.log)]
    assert resumed.data_digest == whole.data_digest
    assert refold.diff(log, whole.log).identical
    assert refold.reexecute(log, program).identical


async def _noting_twice(run: refold.Run, _input: Any) -> None:
    run.annotate("first", {"at": 1}, measured=("/at",))
    await run.sleep(0)
    run.annotate("second", {"at": 2, "id": "r1"}, measured=("/at",), ids=["r1"])
    await run.sleep(0)
