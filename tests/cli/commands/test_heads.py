"""`refold heads` lists heads, and `verify --heads FILE` expects them (CONTRACT.md §5.6)."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


@pytest.fixture
def runs(survey_log: Path, tmp_path: Path) -> Path:
    """Return a folder with a run, and the same in a folder below it."""
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    shutil.copytree(survey_log.parent, tmp_path / "runs" / "july")
    return tmp_path / "runs"


def test_each_finished_log_has_a_line(runs: Path, invoke: Invoke) -> None:
    said = invoke("heads", runs)
    verified = json.loads(invoke("verify", runs / "survey.jsonl", "--json").stdout)["logs"][0]
    rows = [json.loads(line) for line in said.stdout.splitlines()]

    assert said.exit_code == 0, said.output
    assert [row["log"] for row in rows] == ["survey.jsonl", "july/survey.jsonl"]
    assert (rows[0]["head"], rows[0]["entries"]) == (verified["head"], verified["entries"])
    assert json.loads(invoke("heads", runs, "--json").stdout)["heads"] == rows


def test_logs_that_are_replaced_gone_or_new_are_found(runs: Path, invoke: Invoke) -> None:
    heads = runs.parent / "heads.txt"
    invoke("heads", runs, "-o", heads)
    same = invoke("verify", runs, "--heads", heads)
    twice = invoke("verify", runs / "survey.jsonl", "--heads", heads)
    shutil.rmtree(runs / "july")
    gone = invoke("verify", runs, "--heads", heads)
    own = invoke("verify", runs / "survey.jsonl", "--heads", heads)
    heads.write_text(heads.read_text().replace('"head":"', '"head":"0').replace('0"}', '"}', 1))

    assert same.exit_code == 0, same.output
    assert twice.exit_code == 2, "two logs of that name are listed"
    assert gone.exit_code == 3
    assert "july/survey.jsonl" in gone.stdout
    assert own.exit_code == 2
    assert "verify the folder" in own.output


def test_a_replaced_log_has_another_head(runs: Path, invoke: Invoke) -> None:
    shutil.rmtree(runs / "july")
    heads = runs.parent / "heads.txt"
    invoke("heads", runs / "survey.jsonl", "-o", heads)
    row = json.loads(heads.read_text())
    heads.write_text(heads.read_text().replace(row["head"], row["head"][::-1]))

    said = invoke("verify", runs / "survey.jsonl", "--heads", heads)
    unknown = invoke(
        "verify", shutil.copy(runs / "survey.jsonl", runs / "x.jsonl"), "--heads", heads
    )

    assert said.exit_code == 3
    assert "its head differs from the expected one" in said.stdout
    assert "does not contain its head" in unknown.output


def test_a_log_without_an_end_is_left_out_and_named(runs: Path, invoke: Invoke) -> None:
    log = runs / "survey.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    said = invoke("heads", runs)

    assert said.exit_code == 3
    assert "left out: " in said.stderr
    assert [json.loads(line)["log"] for line in said.stdout.splitlines()] == ["july/survey.jsonl"]


@pytest.mark.parametrize("line", ["x", "{}", '{"log":"a.jsonl","run":"b","entries":1,"head":"c"}'])
def test_a_file_that_is_no_list_of_heads_is_refused(runs: Path, invoke: Invoke, line: str) -> None:
    heads = runs.parent / "heads.txt"
    heads.write_text(f"{line}\n")

    said = invoke("verify", runs, "--heads", heads)

    assert said.exit_code == 2
    assert f"{heads}:1: expected a line printed by `refold heads`" in " ".join(said.output.split())
