"""`refold export --to refold` makes one new file, which commands read as a log."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.runners.recording import record

Invoke = Callable[..., Result]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_file_is_named_after_the_log_and_is_never_overwritten(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    log = tmp_path / "runs" / survey_log.name

    said = invoke("export", "--to", "refold", log)

    assert said.exit_code == 0
    assert Path("survey.refold").exists()
    assert "4 logs" in said.stdout
    assert invoke("export", "--to", "refold", log).exit_code == 2


def test_a_child_is_packed_with_what_lies_below_it(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = invoke(
        "export",
        "--to",
        "refold",
        survey_log.with_name("survey.1.jsonl"),
        "-o",
        tmp_path / "one.refold",
    )

    assert said.exit_code == 0
    assert "1 log," in said.stdout
    assert invoke("verify", tmp_path / "one.refold").exit_code == 0
    assert invoke("show", tmp_path / "one.refold").stdout.startswith("completed survey_package")


def test_a_pack_of_a_pack_is_the_same_file(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    one, two = tmp_path / "one.refold", tmp_path / "two.refold"

    assert invoke("export", "--to", "refold", survey_log, "-o", one).exit_code == 0
    assert invoke("export", "--to", "refold", one, "-o", two).exit_code == 0
    assert two.read_bytes() == one.read_bytes()
    assert invoke("export", "--to", "refold", one).exit_code == 2, "it is there"


def test_what_is_missing_is_said_and_the_rest_is_packed(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """A child's log and a large text; what the file lacks is known to whoever sends it."""
    log = tmp_path / "runs" / survey_log.name
    shutil.copytree(survey_log.parent, log.parent)
    log.with_name("survey.2.jsonl").unlink()
    large = record(echo, "x" * 40_000, log=tmp_path / "large.jsonl").log
    next((tmp_path / "large.blobs").glob("*/*")).unlink()

    child, blob = invoke("export", "--to", "refold", log), invoke("export", "--to", "refold", large)

    assert (child.exit_code, blob.exit_code) == (3, 3)
    assert "survey.2.jsonl:1: child log missing" in child.stderr
    assert "large.jsonl:1: blob missing" in blob.stderr
    assert Path("survey.refold").exists()
    assert "3 logs" in child.stdout


async def echo(_: Any, text: str) -> int:
    """Return how long a text is."""
    return len(text)


def test_a_folder_that_is_not_there_is_usage(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = invoke("export", "--to", "refold", survey_log, "-o", tmp_path / "no" / "x.refold")

    assert said.exit_code == 2
    assert f"{tmp_path / 'no'}: no such folder" in said.stderr


def test_what_is_damaged_is_packed_as_it_is_and_said(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """To attach it to a report; whoever thinks it is whole should know."""
    log = tmp_path / "runs" / survey_log.name
    shutil.copytree(survey_log.parent, log.parent)
    child = log.with_name("survey.2.jsonl")
    child.write_bytes(child.read_bytes().replace(b'"seq":2', b'"seq":3'))

    said = invoke("export", "--to", "refold", log)

    assert said.exit_code == 3
    assert "survey.2.jsonl:3: seq" in said.stderr
    assert Path("survey.refold").exists()


def test_a_log_without_a_folder_has_no_files_to_pack(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    said = invoke("export", "--to", "refold", survey_log, "-o", tmp_path / "one.refold", "--files")

    assert said.exit_code == 2
    assert "the log does not contain a folder" in said.stderr
    assert not (tmp_path / "one.refold").exists()
