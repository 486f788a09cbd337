"""The runs of a folder: the newest last, and what is no log says so."""

import shutil
from pathlib import Path

from refold.cli.arguments.run_list import listed_runs


def test_a_folder_s_roots_are_listed_and_no_child(survey_log: Path, tmp_path: Path) -> None:
    shutil.copytree(survey_log.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "other.jsonl").write_text("no log\n")

    found = listed_runs(tmp_path)

    assert [each.path.name for each in found] == ["other.jsonl", "survey.jsonl"]
    assert [each.row["status"] for each in found] == ["unreadable", "completed"]
    assert found[1].row["runs"] == 4
