"""`refold export`: one file of a run."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from click.testing import Result
from pyarrow.parquet import read_table

from refold.cli.commands.inspect import export
from refold.exports import otlp

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

    assert printed.stdout == made.read_text(encoding="utf-8")
    assert not Path("-").exists()
    assert refused.exit_code == 2
    assert "use only one of them" in refused.stderr


def test_the_choices_of_an_option_that_is_missing_are_told_in_one_line(
    survey_log: Path, invoke: Invoke
) -> None:
    """And not with escaped line ends."""
    said = invoke("export", survey_log)

    assert said.exit_code == 2
    assert "Choose from: html, perfetto, markdown, otlp, atif, parquet" in said.stderr


@pytest.fixture
def log(survey_log: Path, tmp_path: Path) -> Path:
    """Return a copy of the survey's logs, to be damaged."""
    shutil.copytree(survey_log.parent, tmp_path / "logs")
    return tmp_path / "logs" / survey_log.name


def _gone(log: Path) -> None:
    log.with_name("survey.1.jsonl").unlink()


def _a_folder(log: Path) -> None:
    _gone(log)
    log.with_name("survey.1.jsonl").mkdir()


def _altered(log: Path) -> None:
    child = log.with_name("survey.1.jsonl")
    child.write_bytes(child.read_bytes().replace(b'"wall_us":1', b'"wall_us":2', 1))


@pytest.mark.parametrize("to", ["html", "markdown", "perfetto", "refold"])
@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_gone, "survey.1.jsonl:1: child log missing"),
        (_a_folder, "survey.1.jsonl:1: child log unreadable"),
        (_altered, "survey.1.jsonl:1: hash"),
    ],
)
def test_what_a_file_is_without_is_said_and_is_its_exit_code(
    spoil: Callable[[Path], None], told: str, to: str, log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """The file is made all the same."""
    spoil(log)
    out = tmp_path / ("run.refold" if to == "refold" else "run.out")

    said = invoke("export", log, "--to", to, "-o", out)

    assert out.is_file()
    assert told in said.stderr
    assert said.exit_code == 3


@pytest.mark.parametrize("to", ["html", "refold", "otlp", "atif"])
def test_a_torn_tail_is_said_and_is_no_damage(
    to: str, log: Path, invoke: Invoke, tmp_path: Path
) -> None:
    """In every form: a crash leaves one, and the entries before it are whole."""
    log.write_bytes(log.read_bytes()[:-9])
    out = tmp_path / ("run.refold" if to == "refold" else "run.out")

    said = invoke("export", log, "--to", to, "-o", out)

    assert (said.exit_code, out.is_file()) == (0, True)
    assert re.search(r"survey\.jsonl(:\d+)?: torn tail", said.stderr)


def test_what_a_large_run_takes_is_said_first(
    log: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("export", log, "--to", "html", "-o", tmp_path / "run.html")
    assert invoke(*arguments).stderr == ""
    monkeypatch.setattr(export, "_LARGE", 1000)

    (tmp_path / "run.html").unlink()
    refused = invoke(*arguments)
    is_there = (tmp_path / "run.html").exists()
    said = invoke(*arguments, "--large")

    assert (refused.exit_code, is_there) == (2, False)
    assert "of memory; add --large" in " ".join(refused.stderr.split())
    assert "reading logs of" in said.stderr
    assert "of memory" in said.stderr
    assert said.exit_code == 0

    summary = (*arguments[:3], "markdown", "-o", tmp_path / "run.md")
    one, many = (
        re.findall(r"([\d.]+) k?B", invoke(*way, "--large").stderr) for way in (summary, arguments)
    )
    assert [float(many[1]), *one] == [pytest.approx(7 * float(one[0]), rel=0.1), one[0], one[0]]


SPANS: Final = Path(__file__).parents[4] / "fixtures" / "logs" / "engine-2"


def test_a_collector_that_does_not_answer_is_counted(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "_TIMEOUT_SECONDS", 0.5)
    log = SPANS / "delegating.jsonl"
    said = invoke("export", log, "--to", "otlp", "--endpoint", "http://127.0.0.1:9/v1/traces")

    assert said.exit_code == 2
    assert "did not accept 15 of 15 spans: check that a collector listens" in said.stderr
    assert "Traceback" not in said.stderr


def test_the_extra_of_an_exporter_is_named_by_what_it_is_for(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by the part of it that is imported first."""
    monkeypatch.setitem(sys.modules, "google.protobuf.json_format", None)
    monkeypatch.delitem(sys.modules, "refold.exports.otlp")
    monkeypatch.delattr("refold.exports.otlp")

    said = invoke("export", SPANS / "delegating.jsonl", "--to", "otlp")

    assert said.exit_code == 2
    assert "opentelemetry is not installed: pip install 'refold[otel]'" in said.stderr


def test_an_endpoint_without_a_scheme_is_refused_before_it_is_tried(invoke: Invoke) -> None:
    """The client refuses it as well, and its reason was not shown."""
    log = SPANS / "delegating.jsonl"
    said = invoke("export", log, "--to", "otlp", "--endpoint", "localhost:4318/v1/traces")

    assert said.exit_code == 2
    assert "--endpoint localhost:4318/v1/traces: expected a URL, such as http" in said.stderr


def test_what_spans_cannot_hold_is_reported(invoke: Invoke, tmp_path: Path) -> None:
    log, file = SPANS / "delegating.jsonl", tmp_path / "a.otlp.json"
    said = invoke("export", log, "--to", "otlp", "-o", file, "--json")
    told = json.loads(said.stdout)

    assert told["spans"] == 15
    assert told["left_out"]["texts"] == 29
    assert told["left_out"]["value.drawn"] == 6
    assert file.read_bytes().count(b'"spanId"') == 15


def test_tables_are_reported_with_what_they_leave_out(invoke: Invoke, tmp_path: Path) -> None:
    said = invoke("export", SPANS / "delegating.jsonl", "--to", "parquet", "-o", tmp_path / "t")
    told = json.loads(
        invoke(
            "export", SPANS / "delegating.jsonl", "--to", "parquet", "-o", tmp_path / "u", "--json"
        ).stdout
    )

    assert (told["exported"], told["spans"]) == (str(tmp_path / "u"), 15)
    assert told["left_out"]["value.drawn"] == 6
    assert f"{told['left_out']['texts']} texts" in said.stderr
    assert "15 spans" in said.stdout


@pytest.mark.parametrize("to", ["otlp", "atif", "parquet"])
def test_a_text_that_is_missing_is_not_left_out_in_silence(
    to: str, invoke: Invoke, tmp_path: Path
) -> None:
    """The entries from there on are not in the file; it ended with 0."""
    for path in SPANS.glob("watched*"):
        (shutil.copytree if path.is_dir() else shutil.copy)(path, tmp_path / path.name)
    shutil.rmtree(tmp_path / "watched.blobs")
    content = () if to == "atif" else ("--content",)

    words = ("export", tmp_path / "watched.jsonl", "--to", to, "-o", tmp_path / "out", "--json")
    said = invoke(*words, *content)

    assert said.exit_code == 3
    assert "watched.jsonl:28: blob missing" in said.stderr
    assert json.loads(said.stdout)["left_out"]["entries from a missing or damaged text on"] == 15


def test_options_of_other_forms_are_refused(invoke: Invoke) -> None:
    log = SPANS / "delegating.jsonl"

    assert invoke("export", log, "--to", "html", "--content").exit_code == 2
    assert invoke("export", log, "--to", "otlp", "--without-content").exit_code == 2
    assert invoke("export", log, "--to", "parquet", "--diff", log).exit_code == 2
    assert invoke("export", log, "--to", "parquet", "--endpoint", "http://x").exit_code == 2
    assert invoke("export", log, "--to", "perfetto", "--diff", log).exit_code == 2


def test_tables_have_many_runs_and_leave_out_what_is_not_one(
    survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """It is reported, and ends nothing."""
    for name in ("runs", "runs/july"):
        shutil.copytree(survey_log.parent, tmp_path / name)
    (tmp_path / "runs" / "bad.jsonl").write_text("no log\n")

    said = invoke("export", tmp_path / "runs", "--to", "parquet", "-o", tmp_path / "tables")

    assert said.exit_code == 3
    assert "bad.jsonl is left out: " in said.stderr
    runs = read_table(tmp_path / "tables" / "runs.parquet")
    agents = read_table(tmp_path / "tables" / "agents.parquet")
    assert (runs.num_rows, agents.num_rows) == (2, 8)
    assert runs["agents"].to_pylist() == [4, 4]


FORMS: Final = ["html", "perfetto", "markdown", "otlp", "atif", "refold"]


@pytest.mark.parametrize("to", FORMS)
def test_several_runs_are_the_files_of_each(
    to: str, survey_log: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """In their places below the folder that was named; what is no log ends no other's export."""
    for name in ("runs", "runs/july"):
        shutil.copytree(survey_log.parent, tmp_path / name)
    alone = tmp_path / f"one{'.refold' * (to == 'refold')}"
    invoke("export", survey_log, "--to", to, "-o", alone)
    (tmp_path / "runs" / "bad.jsonl").write_text("no log\n")

    said = invoke("export", tmp_path / "runs", "--to", to, "-o", tmp_path / "made", "--json")

    made = json.loads(said.stdout)
    assert (made["exported"], made["to"]) == (str(tmp_path / "made"), to)
    whole = {Path(row["log"]).relative_to(tmp_path / "runs"): row for row in made["runs"]}
    for place in (Path("survey.jsonl"), Path("july/survey.jsonl")):
        file = Path(whole[place]["exported"])
        assert file.parent == tmp_path / "made" / place.parent
        assert file.read_bytes()[:60] == alone.read_bytes()[:60]
    assert said.exit_code == 3
    assert "bad.jsonl" in said.stderr


def test_several_runs_are_not_one_file(
    survey_log: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        shutil.copytree(survey_log.parent, name)
    logs = ("a/survey.jsonl", "b/survey.jsonl")
    Path("file").write_text("x")

    same = invoke("export", *logs, "--to", "html")
    printed = invoke("export", *logs, "--to", "markdown", "-o", "-")
    onto = invoke("export", "a", *logs[1:], "--to", "html", "-o", "file")

    assert {each.exit_code for each in (same, printed, onto)} == {2}
    assert "a/survey.jsonl and b/survey.jsonl would be one file, survey.html" in same.stderr
    assert "-o - needs exactly one LOG" in printed.stderr
    assert not list(Path().glob("*.html"))
