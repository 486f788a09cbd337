"""`--executor dask:ADDRESS`: what cannot be had is told, what is had says the same."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.support import bulk_programs as programs
from tests.support.audits import logs_of

Invoke = Callable[..., Result]
PROGRAM = ("--program", "tests.support.bulk_programs:leaving")


@pytest.mark.parametrize("given", ["dask", "dask:", "ray:auto", ""])
def test_an_executor_that_is_none_is_refused(given: str, tmp_path: Path, invoke: Invoke) -> None:
    logs = logs_of(tmp_path, programs.leaving, ["stay"])

    said = invoke("verify", logs[0], "--executor", given)

    assert said.exit_code == 2
    assert "expected dask:ADDRESS, such as dask:tcp://scheduler:8786" in said.stderr


def test_a_missing_extra_is_told_as_such(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = logs_of(tmp_path, programs.leaving, ["stay"])
    monkeypatch.setitem(sys.modules, "distributed", None)

    said = invoke("replay", logs[0], *PROGRAM, "--executor", "dask:tcp://127.0.0.1:1")

    assert said.exit_code == 2
    assert "pip install 'refold[dask]'" in said.stderr


def test_what_an_executor_cannot_do_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    """Live calls, the tripwire, a page, heads of a store."""
    (log,) = logs_of(tmp_path, programs.leaving, ["stay"])
    executor = ("--executor", "dask:tcp://127.0.0.1:1")

    for more in (["--source", "tools=live"], ["--tripwire"], ["--html", tmp_path / "a.html"]):
        said = invoke("replay", log, *PROGRAM, *executor, *more)
        assert said.exit_code == 2
        assert "--executor" in said.stderr
    said = invoke("verify", log, *executor, "--heads", "s3://bucket/heads")
    assert said.exit_code == 2
    assert "cannot be used with --heads" in said.stderr


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_the_commands_say_the_same_on_a_cluster(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`refold replay` and `refold verify`; without a scheduler or workers, that is said."""
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    logs = logs_of(tmp_path, programs.leaving, ["stay", "go", "stay"])
    logs[0].write_text("no log")
    monkeypatch.setenv("BULK_LEAVES", "go")
    local: dict[str, Any] = {"host": "127.0.0.1", "dashboard_address": None}

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster:
        executor = ("--executor", f"dask:{cluster.scheduler_address}")
        replayed = [
            invoke("replay", tmp_path / "logs", *PROGRAM, "--json", *more)
            for more in ((), executor)
        ]
        verified = [invoke("verify", tmp_path / "logs", "--json", *more) for more in ((), executor)]
    with distributed.LocalCluster(n_workers=0, **local) as empty:
        idle = invoke("verify", logs[2], "--executor", f"dask:{empty.scheduler_address}")
    nobody = invoke("replay", logs[2], *PROGRAM, "--executor", "dask:tcp://127.0.0.1:1")

    assert [said.exit_code for said in replayed + verified] == [3] * 4
    assert _timeless(replayed[0].stdout) == _timeless(replayed[1].stdout)
    assert verified[0].stdout == verified[1].stdout
    assert idle.exit_code == nobody.exit_code == 2
    assert "does not have any workers: start one with dask worker" in idle.stderr
    assert "cannot reach a Dask scheduler at tcp://127.0.0.1:1" in nobody.stderr


def _timeless(document: str) -> Any:
    """Return a report without how long it took, and how many at a time."""
    report = json.loads(document)
    del report["seconds"], report["jobs"]
    for row in report["logs"]:
        del row["seconds"]
    return report
