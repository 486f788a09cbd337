"""`refold pull`: runs out of a store, each whole or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.stores import content_of, folder_store, record_run

Invoke = Callable[..., Result]


@pytest.fixture
def url(tmp_path: Path, invoke: Invoke) -> str:
    """A store with two runs."""
    found = folder_store(tmp_path / "store")
    record_run(tmp_path / "runs" / "audit.jsonl")
    record_run(tmp_path / "runs" / "other.jsonl", 2)
    assert invoke("push", tmp_path / "runs", found).exit_code == 0
    return found


def test_all_runs_or_those_that_are_named(url: str, tmp_path: Path, invoke: Invoke) -> None:
    """By name, with or without its ending, or by the URL of one."""
    assert invoke("pull", url, "--to", tmp_path / "all").exit_code == 0
    assert invoke("pull", url, "other", "--to", tmp_path / "some").exit_code == 0
    assert invoke("pull", f"{url}/audit.jsonl", "--to", tmp_path / "some").exit_code == 0

    assert content_of(tmp_path / "all") == content_of(tmp_path / "runs")
    assert content_of(tmp_path / "some") == content_of(tmp_path / "runs")


def test_a_damaged_run_stops_no_other(url: str, tmp_path: Path, invoke: Invoke) -> None:
    (tmp_path / "store" / "runs" / "audit.json").write_bytes(b"{}")

    said = invoke("pull", url, "--to", tmp_path / "got")
    missing = invoke("pull", url, "none", "--to", tmp_path / "got")

    assert said.exit_code == 3
    assert "runs/audit.json: expected the manifest of a run" in said.stderr
    assert "1 pulled, 1 refused" in said.stdout or "1 refused, 1 pulled" in said.stdout
    assert missing.exit_code == 2
    assert "no such run is stored" in missing.stderr


def test_a_folder_is_no_store(tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("pull", tmp_path, "--to", tmp_path / "got").exit_code == 2
    said = invoke("pull", tmp_path.as_uri(), "--to", tmp_path / "got")
    assert said.exit_code == 2
    assert "no runs are stored there" in said.stderr
