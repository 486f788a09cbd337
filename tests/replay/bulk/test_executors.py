"""Logs on other executors: the same rows, whatever becomes of a worker (CONTRACT.md §14.13)."""

from collections import Counter
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import OptionRefused, ProgramNotFound, UsageError
from refold.engine.ports.ports import Reference
from refold.replay.bulk.bulk import replay_logs
from refold.replay.bulk.executors import _Judged, _Pace, judge, slots
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import LogResult
from tests.support import bulk_programs as programs
from tests.support.executors import Losing
from tests.support.loops import some

PROGRAM = "tests.support.bulk_programs:leaving"


def _logs(folder: Path, inputs: list[str], program: Any = programs.leaving) -> list[Path]:
    return [
        refold.record(program, given, log=folder / f"{number}-log.jsonl").log
        for number, given in enumerate(inputs)
    ]


def _rows(logs: Any, executor: Executor | None = None, **options: Any) -> list[LogResult]:
    report = refold.reexecute(logs, PROGRAM, executor=executor, **options)
    return [attrs.evolve(row, seconds=0) for row in report.logs]


@pytest.mark.long
@pytest.mark.parametrize("pool", some(1, [ThreadPoolExecutor, ProcessPoolExecutor]))
def test_the_rows_are_the_same_on_any_executor(
    pool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Identical, damaged and deadly ones, in the same order; each told once."""
    logs = _logs(tmp_path, ["stay", "go", "stay", "stay"])
    logs[3].write_text("no log")
    monkeypatch.setenv("BULK_LEAVES", "go")
    told: list[LogResult] = []

    with pool(1) as executor:
        rows = _rows(tmp_path, executor, on_verdict=told.append)

    assert rows == _rows(tmp_path)
    assert [row.result for row in rows] == ["identical", "diverged", "identical", "damaged"]
    assert sorted(row.log for row in told) == [str(log) for log in logs]


@pytest.mark.long
def test_what_a_lost_worker_had_is_done_again_and_counted_once(tmp_path: Path) -> None:
    """A worker is killed three times in mid-run, and nothing of it shows."""
    logs = _logs(tmp_path, ["stay"] * 4)
    lost = Losing(lambda _: len(lost.chunks) in (1, 2, 4))
    told: list[str] = []

    rows = _rows(logs, lost, jobs=1, on_verdict=lambda row: told.append(row.log))

    assert len(lost.chunks) > 4
    assert [row.result for row in rows] == ["identical"] * 4
    assert Counter(told) == Counter(map(str, logs))


@pytest.mark.long
def test_a_log_that_no_worker_survives_is_named(tmp_path: Path) -> None:
    """And the rest goes on: of a chunk that is lost, the pieces are done again."""
    logs = _logs(tmp_path, ["stay"] * 4)
    losing = Losing(lambda chunk: "2-log.jsonl" in chunk)

    rows = _rows(logs, losing, jobs=1)

    results = ["identical", "identical", "fault", "identical"]
    assert [row.result for row in rows] == results
    assert rows[2].message == ("the executor lost a worker 3 times: OSError: the worker is gone")
    assert losing.chunks[-3:] == [["2-log.jsonl"]] * 3


@pytest.mark.long
def test_an_executor_that_loses_everything_is_left(tmp_path: Path) -> None:
    """The rest is done here: a report without them would be none."""
    logs = _logs(tmp_path, ["stay"] * 12)
    losing = Losing(lambda _: True)

    assert [row.result for row in _rows(logs, losing, jobs=1)] == ["identical"] * 12


@pytest.mark.long
def test_a_pool_that_breaks_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log kills the worker itself, once: the pool takes no more, and the rest is done here."""
    logs = _logs(tmp_path, ["stay", "kill", "stay"], programs.killing_worker)
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    (deaths / "1").touch()
    monkeypatch.setenv("BULK_DEATHS", str(deaths))

    with ProcessPoolExecutor(1) as executor:
        report = refold.reexecute(logs, programs.killing_worker, executor=executor)

    assert report.identical, report
    assert not list(deaths.iterdir())


def test_failing_fast_starts_no_chunk_behind_the_first_that_differs(tmp_path: Path) -> None:
    logs = _logs(tmp_path, ["stay"] * 6)
    logs[0].write_text("no log")

    rows = _rows(logs, Losing(lambda _: False), jobs=1, fail_fast=True)

    assert [row.result for row in rows] == ["damaged", *["not run"] * 5]


def test_what_no_worker_could_import_is_refused(tmp_path: Path) -> None:
    """With what to do; so is what is no executor, and one that was shut down."""
    logs = _logs(tmp_path, ["stay"])

    async def leaving(run: refold.Run, how: str) -> None:
        await programs.leaving(run, how)

    executor = ThreadPoolExecutor(1)
    with pytest.raises(UsageError, match=r"executor: this needs programs, .* file\.py:name"):
        refold.reexecute(logs, leaving, executor=executor)
    executor.shutdown()
    with pytest.raises(UsageError, match="executor: cannot schedule new futures after shutdown"):
        refold.reexecute(logs, PROGRAM, executor=executor)
    with pytest.raises(OptionRefused, match="executor"):
        refold.reexecute(logs, PROGRAM, executor="dask")  # type: ignore[call-overload]


def test_a_program_that_records_when_it_is_imported_is_refused(tmp_path: Path) -> None:
    """With the reason that the worker's process gave."""
    logs = _logs(tmp_path, ["stay"])
    script = tmp_path / "script.py"
    script.write_text(
        "import refold\n"
        "async def leaving(run, how):\n    run.annotate('here', None)\n"
        f"refold.record(leaving, 'stay', log={str(tmp_path / 'other.jsonl')!r})\n"
    )
    execute = Reference("refold.api", "replayer", {
        "programs": {"leaving": {"source": str(script), "name": "leaving", "arguments": None}},
        "tools": [], "volatile": [],
    })  # fmt: skip

    with ThreadPoolExecutor(1) as executor, pytest.raises(ProgramNotFound) as caught:
        replay_logs(logs, execute, Schedule(), executor)

    assert "RecordingRefused" in str(caught.value)


def test_workers_without_refold_are_a_refusal(tmp_path: Path) -> None:
    """Nothing was lost, and no other worker would do."""
    losing = Losing(lambda _: True, ModuleNotFoundError)

    with pytest.raises(UsageError, match="they need the same version of Refold"):
        _rows(_logs(tmp_path, ["stay"]), losing, jobs=1)


def test_a_worker_that_does_not_see_the_logs_says_so(tmp_path: Path) -> None:
    """A cluster whose machines share no folder: no log is called missing for that."""
    request = {"logs": ["a.jsonl", "b.jsonl"], "cwd": str(tmp_path)}

    for cwd in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(
            UsageError, match=rf"cannot find {cwd}/a\.jsonl: store logs in a folder"
        ):
            judge(request | {"cwd": str(cwd)})


def test_a_chunk_repays_what_it_costs() -> None:
    """Half a second beside logs of a millisecond, then beside logs of ten seconds."""
    pace = _Pace()
    assert pace.count(10_000, 2) == 64
    assert pace.count(10, 2) == 3

    pace.note(_Judged(rows=[{"seconds": 0.001}] * 100, printed="", seconds=0.6))
    assert [pace.count(waiting, 2) for waiting in (100_000, 20_000, 1_000)] == [
        10_000,
        5_000,
        1_000,
    ]

    slow = _Pace()
    slow.note(_Judged(rows=[{"seconds": 10.0}], printed="", seconds=10.5))
    assert slow.count(1_000, 2) == 1


def test_how_many_chunks_an_executor_takes() -> None:
    with ThreadPoolExecutor(3) as threads:
        assert slots(threads) == 3
    assert slots(Losing(lambda _: False)) is None
