"""Logs on a cluster of Dask's, as it is published: the same report (CONTRACT.md §14.13).

Needs the extra `dask`.  Scheduler and workers are processes on loopback.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.replay.bulk.report import LogResult
from tests.support import bulk_programs as programs
from tests.support.audits import logs_of

distributed = pytest.importorskip("distributed", reason="needs the extra dask")
dask = pytest.importorskip("dask", reason="needs the extra dask")

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("default"),  # its own are no business of ours
]


@pytest.fixture
def deaths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with a file for each time that a worker is to be killed."""
    folder = tmp_path / "deaths"
    folder.mkdir()
    monkeypatch.setenv("BULK_DEATHS", str(folder))
    return folder


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Return what starts two workers, in whose environment some programs misbehave.

    Each is restarted when it dies, and a chunk is lost with the first that it kills.
    """

    def start() -> Any:
        monkeypatch.setenv("BULK_LEAVES", "go")
        monkeypatch.setenv("BULK_STANDS", f"stand:{tmp_path / 'pid'}")
        dask.config.set({"distributed.scheduler.allowed-failures": 0})
        return distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        )

    return start


def _rows(logs: Any, program: Any, executor: Any = None, **options: Any) -> list[LogResult]:
    report = refold.reexecute(logs, program, executor=executor, **options)
    return [attrs.evolve(row, seconds=0) for row in report.logs]


def _on(cluster: Callable[[], Any], logs: Any, program: Any, **options: Any) -> list[LogResult]:
    with cluster() as started, distributed.Client(started) as client:
        return _rows(logs, program, client.get_executor(), **options)


def test_the_report_is_the_same(cluster: Callable[[], Any], tmp_path: Path) -> None:
    """Of two thousand logs, a damaged one and one that ends its process among them."""
    logs = logs_of(tmp_path, programs.leaving, ["stay"] * 700 + ["go"] + ["stay"] * 1299)
    logs[1200].write_text("no log")
    told: list[str] = []

    with cluster() as started, distributed.Client(started) as client:
        executor = client.get_executor()
        found = _rows(logs, programs.leaving, executor, on_verdict=lambda row: told.append(row.log))
        trees = refold.verify(logs, executor=executor)

    assert found == _rows(logs, programs.leaving)
    assert [row.result for row in found if row.result != "identical"] == ["diverged", "damaged"]
    assert sorted(told) == sorted(map(str, logs))
    assert trees == refold.verify(logs, jobs=1)


def test_a_worker_killed_three_times_in_mid_run_changes_nothing(
    cluster: Callable[[], Any], deaths: Path, tmp_path: Path
) -> None:
    """Its chunks are done again, each log counted once."""
    logs = logs_of(tmp_path, programs.killing_worker, [*["stay"] * 50, "kill", *["stay"] * 49])
    for number in range(3):
        (deaths / str(number)).touch()
    told: list[str] = []

    rows = _on(cluster, logs, programs.killing_worker, on_verdict=lambda row: told.append(row.log))

    assert not list(deaths.iterdir())
    assert [row.result for row in rows] == ["identical"] * 100
    assert sorted(told) == sorted(map(str, logs))


def test_a_log_that_always_kills_its_worker_is_named(
    cluster: Callable[[], Any], deaths: Path, tmp_path: Path
) -> None:
    """And the rest goes on."""
    logs = logs_of(tmp_path, programs.killing_worker, [*["stay"] * 5, "kill", *["stay"] * 4])
    for number in range(100):
        (deaths / str(number)).touch()

    rows = _on(cluster, logs, programs.killing_worker)

    assert [row.log for row in rows if row.result != "identical"] == [str(logs[5])]
    assert rows[5].result == "fault"
    assert "KilledWorker" in rows[5].message


def test_a_log_that_hangs_is_named(cluster: Callable[[], Any], tmp_path: Path) -> None:
    """And the rest goes on."""
    logs = logs_of(tmp_path, programs.standing, [*["go"] * 4, "stand", *["go"] * 4])

    rows = _on(cluster, logs, programs.standing, timeout_seconds=10)

    assert [row.log for row in rows if row.result != "identical"] == [str(logs[4])]
    assert rows[4].result == "timed out"
