"""`refold push`: runs into a store, and what became of each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.support.stores import folder_store, record_run

Invoke = Callable[..., Result]


def test_runs_are_pushed_listed_shown_and_pulled(tmp_path: Path, invoke: Invoke) -> None:
    """The whole way, as documented."""
    log = record_run(tmp_path / "runs" / "audit.jsonl")
    record_run(tmp_path / "runs" / "other.jsonl", 2)
    url = folder_store(tmp_path / "store")

    first, again = invoke("push", log.parent, url), invoke("push", log, url)
    listed, shown = invoke("ls", url), invoke("show", f"{url}/audit.jsonl")
    got = invoke("pull", url, "audit", "--to", tmp_path / "got")

    assert {each.exit_code for each in (first, again, listed, shown, got)} == {0}
    assert "2 pushed" in first.stdout
    assert "already there  audit.jsonl" in again.stdout
    assert "stored  other.jsonl" in listed.stdout
    assert "measure" in shown.stdout
    assert (tmp_path / "got" / "audit.jsonl").read_bytes() == log.read_bytes()
    assert not (tmp_path / "got" / "other.jsonl").exists()


def test_the_exit_code_is_the_worst_and_each_refusal_is_told(
    tmp_path: Path, invoke: Invoke
) -> None:
    url = folder_store(tmp_path / "store")
    log = record_run(tmp_path / "runs" / "audit.jsonl")
    assert invoke("push", log, url).exit_code == 0
    other = record_run(tmp_path / "others" / "audit.jsonl", 2)
    cut = record_run(tmp_path / "others" / "cut.jsonl", 3)
    cut.write_bytes(cut.read_bytes()[:-1])

    taken, damaged = invoke("push", other, url), invoke("push", other.parent, url, "--json")

    assert taken.exit_code == 2
    assert "already has a different audit.jsonl" in taken.stderr
    assert damaged.exit_code == 3
    rows = {row["run"]: row for row in json.loads(damaged.stdout)["runs"]}
    assert {row["status"] for row in rows.values()} == {"refused"}
    assert "torn tail" in rows["cut.jsonl"]["problem"]


@pytest.mark.parametrize(
    "store", ["STORE/audit.jsonl", "runs", "s3://key:s3cr3t@bucket/x", "memory:///"]
)
def test_what_is_no_store_is_usage(store: str, tmp_path: Path, invoke: Invoke) -> None:
    log = record_run(tmp_path / "runs" / "audit.jsonl")

    said = invoke("push", log, store.replace("STORE", folder_store(tmp_path / "store")))

    assert said.exit_code == 2
    assert "s3cr3t" not in said.output


def test_a_store_that_fails_ends_the_command_with_what_to_do(
    tmp_path: Path, invoke: Invoke
) -> None:
    log = record_run(tmp_path / "runs" / "audit.jsonl")
    (tmp_path / "file").touch()

    said = invoke("push", log, (tmp_path / "file" / "store").as_uri())

    assert said.exit_code == 2
    assert "To continue from here, run the command again" in said.stderr
