"""`refold replay` of several logs: a row each, the worst exit code, one document, JUnit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest
from click.testing import Result

from refold.cli.arguments.loading import programs_of
from refold.cli.commands.check.replay import replay_many, tell_many
from refold.engine.errors import UsageError
from refold.engine.log.pack import pack
from refold.engine.runners.recording import record
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import BulkReport, LogResult
from refold.replay.explain.divergence import Divergence
from tests.support.schemas import validate
from tests.support.unfinished import cut

Invoke = Callable[..., Result]

PROGRAM_NAME = "two.py"
PROGRAM = """
async def first(run, given):
    run.annotate("first", given)

async def second(run, given):
    run.annotate("second", given)
"""
CHANGED = PROGRAM.replace('"second"', '"another"')


@pytest.fixture
def runs(program: Path, tmp_path: Path) -> Path:
    for name, number in (("first", 1), ("second", 2), ("second", 3)):
        record(f"{program}:{name}", number, log=tmp_path / "runs" / f"{name}-{number}x.jsonl")
    return tmp_path / "runs"


def _rows(said: str) -> list[list[str]]:
    return [line.split() for line in said.partition("\n\n")[0].splitlines()[1:]]


@pytest.mark.long
def test_a_folder_is_a_row_a_log(runs: Path, program: Path, invoke: Invoke) -> None:
    said = invoke("replay", runs, "--program", f"{program}:first", "--program", f"{program}:second")

    assert said.exit_code == 0
    assert [row[0] for row in _rows(said.stdout)] == ["identical"] * 3
    assert [Path(row[-1]).name for row in _rows(said.stdout)] == [
        "first-1x.jsonl", "second-2x.jsonl", "second-3x.jsonl",
    ]  # fmt: skip
    assert "3 identical  3 logs in" in said.stdout


def test_a_log_without_an_end_is_identical_only_up_to_there(
    runs: Path, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its row and below the table, however many there are."""
    cut(runs / "second-2x.jsonl", runs / "second-2x.jsonl", 2)
    programs = {name: f"{program}:{name}" for name in ("first", "second")}

    report = replay_many(
        [runs], {"programs": programs, "tools": "", "volatile": ()}, Schedule(jobs=1)
    )
    tell_many(report, None, is_all=False)

    said = capsys.readouterr().out
    assert [row[:3] for row in _rows(said)][1] == ["identical,", "no", "end"]
    assert "3 identical (1 without an end: up to that point)  3 logs in" in said
    rows = report.as_json()["logs"]
    assert [row["ends_early"] for row in rows] == [[], ["second-2x.jsonl"], []]


def test_a_row_without_its_program_says_which(runs: Path, program: Path, invoke: Invoke) -> None:
    """Case 8: two for the logs that can be replayed, and 2 at the end."""
    said = invoke("replay", runs, "--program", f"{program}:second")

    assert said.exit_code == 2
    assert "program needed" in said.stdout
    assert "--program FILE.py:first" in " ".join(said.stdout.split())
    assert "2 identical, 1 program needed" in said.stdout


def test_the_worst_row_decides(runs: Path, program: Path, invoke: Invoke) -> None:
    """Damaged before diverged before what was not looked at."""
    now = program.with_name("now.py")
    now.write_text(CHANGED)
    names = ("--program", f"{now}:first", "--program", f"{now}:second")

    diverged = invoke("replay", runs, *names, "--all")
    log = runs / "first-1x.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"first"', b'"firzt"'))
    damaged = invoke("replay", runs, *names)

    assert (diverged.exit_code, damaged.exit_code) == (1, 3)
    assert "1 identical, 2 diverged" in diverged.stdout
    assert '/arguments/text: "second" → "another"' in diverged.stdout
    assert "args_changed: a call is made with different arguments" in damaged.stdout
    assert "2 diverged, 1 damaged" in damaged.stdout


@pytest.mark.long
@pytest.mark.parametrize("words", [("LOG",), pytest.param(("FOLDER",), marks=pytest.mark.long)])
def test_a_log_may_have_so_much_time(
    program: Path, tmp_path: Path, invoke: Invoke, words: tuple[str, ...]
) -> None:
    """§14.13: 1, as for a divergence, of one log, too; 2 where it could not be kept."""
    program.write_text("async def first(run, given):\n    run.annotate('first', given)\n")
    log = record(f"{program}:first", 1, log=tmp_path / "runs" / "a.jsonl").log
    now = program.with_name("now.py")
    now.write_text("import time\n" + program.read_text() + "    time.sleep(600)\n")
    paths = [log if word == "LOG" else log.parent for word in words]

    slow = invoke("replay", *paths, "--program", f"{now}:first", "--limit", "timeout=1")
    fine = invoke("replay", *paths, "--program", f"{program}:first", "--limit", "timeout=inf")

    assert slow.exit_code == 1, slow.output
    assert "timed out: its re-execution was stopped because it took more than 1 s" in slow.stdout
    assert fine.exit_code == 0, fine.output
    assert invoke("replay", *paths, "--limit", "timeout=0").exit_code == 2
    assert invoke("replay", *paths, "--limit", "timeout=nan").exit_code == 2
    assert invoke("replay", log, "--limit", "timeout=1", "--tripwire").exit_code == 2


@pytest.mark.long
def test_the_document_of_what_takes_too_long_is_as_its_schema_says(
    tmp_path: Path, invoke: Invoke
) -> None:
    """§14.13."""
    now = tmp_path / "now.py"
    now.write_text("def first(run, given):\n    pass\n")
    log = record(f"{now}:first", 1, log=tmp_path / "a.jsonl").log
    now.write_text("import time\n\ndef first(run, given):\n    time.sleep(600)\n")

    said = invoke("replay", log, "--program", f"{now}:first", "--limit", "timeout=0.5", "--json")

    document = json.loads(said.stdout)
    validate(document, "replays")
    assert [row["result"] for row in document["logs"]] == ["timed out"]


@pytest.mark.long
def test_the_document_is_as_its_schema_says(runs: Path, program: Path, invoke: Invoke) -> None:
    """For what is identical, what differs, what is damaged, and a packed log."""
    pack(runs / "second-2x.jsonl", runs / "p.refold")
    (runs / "broken.jsonl").write_text("no log")
    now = program.with_name("now.py")
    now.write_text(CHANGED)

    said = invoke("replay", runs, "--program", f"second={now}:second", "--json")

    document: dict[str, Any] = json.loads(said.stdout)
    validate(document, "replays")
    found = {Path(row["log"]).name: row["result"] for row in document["logs"]}
    assert found == {
        "broken.jsonl": "damaged",
        "first-1x.jsonl": "program needed",
        "p.refold": "diverged",
        "second-2x.jsonl": "diverged",
        "second-3x.jsonl": "diverged",
    }
    (packed,) = [row for row in document["logs"] if row["log"].endswith("p.refold")]
    assert packed["divergences"][0]["log"].endswith("p.refold:second-2x.jsonl")


@pytest.mark.long
def test_what_is_said_of_many_logs_is_said_once(program: Path, invoke: Invoke) -> None:
    """With the first of them named; each has its row."""
    runs = program.with_name("more")
    for number in range(5):
        record(f"{program}:first", 1, log=runs / f"{number}-log.jsonl")

    said = invoke("replay", runs)

    assert len(_rows(said.stdout)) == 5
    assert said.stdout.count("does not name code to import") == 1
    assert "… and 2 more" in said.stdout


@pytest.mark.long
def test_junit_is_written_beside_the_table(runs: Path, program: Path, invoke: Invoke) -> None:
    """Also of a single log, whose program needs no name then either."""
    out = runs.parent / "replay.xml"
    now = program.with_name("now.py")
    now.write_text(CHANGED)

    many = invoke("replay", runs, "--program", f"{now}:second", "--junit", out)
    root = ET.parse(out).getroot()
    one = invoke(
        "replay", runs / "first-1x.jsonl", "--program", f"{program}:second", "--junit", out
    )

    assert many.exit_code == 1
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "1")
    failure = root.find(".//failure")
    assert failure is not None
    assert "args_changed" in (failure.text or "")
    assert one.exit_code == 1
    assert ET.parse(out).getroot().get("failures") == "1"


def test_a_report_that_cannot_be_written_is_usage(
    runs: Path, tmp_path: Path, invoke: Invoke
) -> None:
    """Said before anything is replayed."""
    said = invoke("replay", runs, "--junit", tmp_path / "no" / "such.xml")

    assert said.exit_code == 2
    assert said.stdout == ""
    assert f"{tmp_path / 'no'}: no such folder" in said.stderr


def test_one_log_may_be_given_its_program_by_name(
    runs: Path, program: Path, invoke: Invoke
) -> None:
    """With several, the one of its name is taken."""
    names = ("--program", f"first={program}:first", "--program", f"second={program}:second")

    assert invoke("replay", runs / "first-1x.jsonl", *names).exit_code == 0
    assert invoke("replay", runs / "second-2x.jsonl", *names[:2]).exit_code == 2


def test_names_of_programs_are_read_exactly() -> None:
    """A path may hold an equals sign; two programs of one name have to be told apart."""
    assert programs_of(["a=m:b", "/x=y/p.py:c", "m:d"]) == {
        "a": "m:b", "c": "/x=y/p.py:c", "d": "m:d",
    }  # fmt: skip
    with pytest.raises(UsageError, match="have the name c"):
        programs_of(["m:c", "n:c"])


def test_a_folder_without_logs_is_usage(tmp_path: Path, invoke: Invoke) -> None:
    said = invoke("replay", tmp_path)

    assert said.exit_code == 2
    assert "no root logs in this folder or below" in said.stderr
    assert invoke("replay").exit_code == 2


def test_what_was_not_compared_is_said_of_a_few_logs_or_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And how many places of all of them were ignored, and what the programs printed."""
    logs = tuple(
        LogResult(log=f"{n}.jsonl", result="identical", ignored=n, not_compared=("a timer", "b"))
        for n in range(5)
    )
    report = BulkReport(logs=logs, seconds=1.0, jobs=1, printed="hello\n\n")

    codes = (
        tell_many(report, None, is_all=False),
        tell_many(attrs.evolve(report, logs=logs[:3]), None, is_all=False),
    )
    few, hints = capsys.readouterr()
    tell_many(report, None, is_all=True)
    everything = capsys.readouterr().out

    assert codes == (0, 0)
    assert hints == "hello\n" * 2
    assert few.count("jsonl: not compared: a timer, b\n") == 6
    assert few.count("left out") == 1
    assert "left out: 2 lines; to list everything, add --all\n" in few
    assert "10 volatile values changed\n" in few
    assert everything.count(": not compared: a timer, b\n") == 5
    assert "left out" not in everything


def test_equal_divergences_of_several_logs_are_one_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Below the names of their logs; another one is another cause."""
    one = Divergence(category="args_changed", log="a.jsonl", where="root")
    other = attrs.evolve(one, category="reordered")
    rows = [
        LogResult(log=f"{name}.jsonl", result="diverged", divergences=(each,), message="other")
        for name, each in (("a", one), ("b", attrs.evolve(one)), ("c", other))
    ]
    report = BulkReport(logs=tuple(rows), seconds=1.0, jobs=1)

    code = tell_many(report, None, is_all=False)

    said = capsys.readouterr().out
    assert code == 1
    assert "\na.jsonl\nb.jsonl\n2 times: args_changed: " in said
    assert "\nc.jsonl\nreordered: " in said
