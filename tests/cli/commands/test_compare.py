"""`refold compare`: a row a run, and where it differs first from the first."""

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from refold.engine.program.run import Run
from refold.engine.runners.recording import record

Invoke = Callable[..., Result]


async def notes(run: Run, text: str) -> None:
    run.annotate("said", text)


def _logs(folder: Path) -> list[Path]:
    texts = {"a": "one", "b": "one", "c": "two"}
    return [record(notes, text, log=folder / f"{name}.jsonl").log for name, text in texts.items()]


def test_each_run_is_compared_with_the_first(tmp_path: Path, invoke: Invoke) -> None:
    said = invoke("compare", *_logs(tmp_path), "--json")

    rows = json.loads(said.stdout)["runs"]
    assert said.exit_code == 1
    assert [row["first_difference"] for row in rows] == ["", "", "root: input"]
    assert [row["status"] for row in rows] == ["completed"] * 3
    assert rows[2]["differences"] > 0


def test_runs_that_are_the_same_end_with_0(tmp_path: Path, invoke: Invoke) -> None:
    said = invoke("compare", *_logs(tmp_path)[:2])

    heading, *rows = said.stdout.splitlines()
    assert said.exit_code == 0
    assert heading.split()[:2] == ["status", "subagents"]
    assert [row.split()[0] for row in rows] == ["completed", "completed"]


def test_a_run_that_is_not_there_is_said(tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("compare", tmp_path / "no.jsonl").exit_code == 2
