"""`refold export`: one file of a run."""

from collections.abc import Callable
from pathlib import Path

from click.testing import Result

Invoke = Callable[..., Result]


def test_a_page_is_made_where_it_is_asked_for(
    survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    said = invoke("export", survey_log, "--to", "html", "-o", tmp_path / "run.html")

    assert said.exit_code == 0
    assert str(tmp_path / "run.html") in said.stdout
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


def test_a_folder_that_is_not_there_is_a_question_of_usage(
    survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    said = invoke("export", survey_log, "--to", "html", "-o", tmp_path / "no" / "run.html")

    assert said.exit_code == 2
    assert "no such folder" in said.stderr


def test_it_is_printed_where_that_is_asked_for(
    survey_log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """As a step of CI appends it to a summary; it was a file named `-`."""
    made = tmp_path / "run.md"
    invoke("export", survey_log, "--to", "markdown", "-o", made)

    printed = invoke("export", survey_log, "--to", "markdown", "-o", "-")
    refused = invoke("export", survey_log, "--to", "markdown", "-o", "-", "--json")

    assert printed.stdout == made.read_text(encoding="utf-8") + "\n"
    assert not Path("-").exists()
    assert refused.exit_code == 2
    assert "leave out one" in refused.stderr


def test_the_choices_of_an_option_that_is_missing_are_told_in_one_line(
    survey_log: Path, invoke: Invoke
) -> None:
    """And not with escaped line ends."""
    said = invoke("export", survey_log)

    assert said.exit_code == 2
    assert "Choose from: html, perfetto, markdown" in said.stderr
