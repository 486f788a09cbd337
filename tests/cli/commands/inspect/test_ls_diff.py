"""`refold ls --diff`: a row for each run, with its first difference from one of them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record

Invoke = Callable[..., Result]


async def notes(run: Run, text: str) -> None:
    run.annotate("said", text)


def _logs(folder: Path) -> list[Path]:
    texts = {"a": "one", "b": "one", "c": "two"}
    return [record(notes, text, log=folder / f"{name}.jsonl").log for name, text in texts.items()]


def test_each_run_is_compared_with_the_first(tmp_path: Path, invoke: Invoke) -> None:
    logs = _logs(tmp_path)
    said = invoke("ls", tmp_path, "--diff", logs[0], "--json")

    rows = json.loads(said.stdout)["runs"]
    assert said.exit_code == 1
    assert [row["first_difference"] for row in rows] == ["", "", "root: input"]
    assert [row["status"] for row in rows] == ["completed"] * 3
    assert rows[2]["differences"] > 0


def test_a_childs_log_has_no_row_beside_its_roots(survey_log: Path, invoke: Invoke) -> None:
    """A shell gives `*.jsonl`."""
    logs = sorted(survey_log.parent.glob("*.jsonl"))

    assert len(logs) > 1
    said = invoke("ls", *logs, "--diff", survey_log, "--json")
    assert len(json.loads(said.stdout)["runs"]) == 1


def test_runs_that_are_the_same_end_with_0(tmp_path: Path, invoke: Invoke) -> None:
    logs = _logs(tmp_path)[:2]
    said = invoke("ls", *logs, "--diff", logs[0])

    heading, *rows = said.stdout.splitlines()
    assert said.exit_code == 0
    assert heading.split()[:2] == ["status", "subagents"]
    assert [row.split()[0] for row in rows] == ["completed", "completed"]


def test_a_run_whose_childs_log_is_gone_is_no_equal(tmp_path: Path, invoke: Invoke) -> None:
    """Its sums are without that log: the row says so, and the exit code is that of `show`."""

    async def parent(run: Run, text: str) -> None:
        await run.delegate(Delegation(program=notes, input=text))

    logs = [record(parent, "one", log=tmp_path / f"{name}.jsonl").log for name in "ab"]
    (tmp_path / "b.1.jsonl").unlink()

    said = invoke("ls", *logs, "--diff", logs[0])
    rows = json.loads(invoke("ls", *logs, "--diff", logs[0], "--json").stdout)["runs"]

    assert said.exit_code == 3
    assert "b.1.jsonl: its log is missing" in said.stderr
    assert [len(row["gaps"]) for row in rows] == [0, 1]


def test_a_damaged_run_has_a_row_and_ends_nothing(tmp_path: Path, invoke: Invoke) -> None:
    """§14.16: 3, and which it is; the others are compared all the same."""
    logs = _logs(tmp_path)
    logs[1].write_bytes(logs[1].read_bytes().replace(b'"said"', b'"sold"', 1))

    said = invoke("ls", tmp_path, "--diff", logs[0])
    rows = json.loads(invoke("ls", tmp_path, "--diff", logs[0], "--json").stdout)["runs"]

    assert said.exit_code == 3
    assert "b.jsonl:2 (byte" in said.stderr
    assert [row["first_difference"] for row in rows if not row["gaps"]] == ["", "root: input"]
    assert "c.jsonl" in said.stdout


def test_a_run_that_is_not_there_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("ls", tmp_path / "no.jsonl", "--diff", tmp_path / "no.jsonl").exit_code == 2


@pytest.mark.parametrize(("line", "code"), [(None, 2), (0, 3), (1, 3)])
def test_a_run_to_compare_with_that_cannot_be_read_gives_no_rows(
    line: int | None, code: int, tmp_path: Path, invoke: Invoke
) -> None:
    """The others are not damaged, so no row says so."""
    other, *_ = _logs(tmp_path)
    lines = other.read_bytes().splitlines(keepends=True)
    other.unlink()
    if line is not None:
        lines[line] = lines[line].replace(b'"data":{', b'"data":{"x":1,', 1)
        other.write_bytes(b"".join(lines))

    said = invoke("ls", tmp_path, "--diff", other)

    assert (said.exit_code, said.stdout) == (code, "")
    assert "a.jsonl" in said.stderr
