"""`refold view`: what is listed, and what is refused before anything is served."""

import contextlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from refold.cli.commands.view import FolderOfRuns
from refold.engine.log.pack import pack

Invoke = Callable[..., Result]


def test_runs_are_listed_with_what_only_their_trees_tell(survey_log: Path, tmp_path: Path) -> None:
    """Packed ones, too; what is no log has no counts, and stops none."""
    shutil.copytree(survey_log.parent, tmp_path, dirs_exist_ok=True)
    pack(survey_log, tmp_path / "packed.refold")
    (tmp_path / "broken.jsonl").write_text("{}\n")

    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(tmp_path, stack)
        rows = {row["id"]: row for row in runs.rows()}
        packed = runs.log("packed.refold").read_bytes()

    assert rows["survey.jsonl"]["subagents"] == rows["packed.refold"]["subagents"] == 3
    assert rows["survey.jsonl"]["status"] == "completed"
    first = json.loads(survey_log.read_bytes().splitlines()[0])
    assert rows["survey.jsonl"]["started_us"] == first["meta"]["wall_us"]
    assert rows["broken.jsonl"]["started_us"] is None
    assert rows["broken.jsonl"]["status"] == "unreadable"
    assert packed == survey_log.read_bytes()


def test_one_log_is_shown_alone(survey_log: Path) -> None:
    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(survey_log, stack)

        assert [row["id"] for row in runs.rows()] == [survey_log.name]
        assert runs.log(survey_log.name) == survey_log


@pytest.mark.parametrize("name", ["../survey.jsonl", "survey.1.jsonl", "nothing"])
def test_what_is_not_listed_is_not_read(survey_log: Path, name: str) -> None:
    with contextlib.ExitStack() as stack, pytest.raises(KeyError):
        FolderOfRuns(survey_log.parent, stack).log(name)


def test_a_place_that_is_not_there_is_a_question_of_usage(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("view", tmp_path / "nothing")

    assert said.exit_code == 2
    assert "no such file or folder" in said.stderr


def test_a_store_is_not_viewed_whole(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("view", tmp_path.as_uri())

    assert said.exit_code == 2
    assert "name one of its runs" in said.stderr


def test_a_stored_log_is_named_as_it_was_given(survey_log: Path) -> None:
    with contextlib.ExitStack() as stack:
        runs = FolderOfRuns(survey_log, stack, "s3://bucket/survey.jsonl")

        assert [row["path"] for row in runs.rows()] == ["s3://bucket/survey.jsonl"]
