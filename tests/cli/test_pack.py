"""`refold pack` makes one new file, beside the log unless told otherwise."""

import shutil
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_the_file_lies_beside_the_log_and_is_never_overwritten(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    log = tmp_path / "runs" / survey_log.name

    said = invoke("pack", log)

    assert said.exit_code == 0
    assert log.with_suffix(".refold").exists()
    assert "4 logs" in said.stdout
    assert invoke("pack", log).exit_code == 2


def test_a_child_alone_is_not_packed(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("pack", survey_log.with_name("survey.1.jsonl")).exit_code == 2
