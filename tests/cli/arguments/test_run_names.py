"""A run is named by its file, by its place in a folder, or by how its name begins."""

import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from refold.cli.arguments.run_names import RUN
from refold.cli.group import refold
from refold.engine.runners.recording import record


@pytest.fixture
def three(survey_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with three runs below `runs/`, recorded in this order, and a broken file."""
    monkeypatch.chdir(tmp_path)
    for name in ("beta", "alpha", "alto"):
        record(_nothing, log=tmp_path / "runs" / f"{name}.jsonl")
    (tmp_path / "runs" / "broken.jsonl").write_text("no log")
    shutil.copy(survey_log, tmp_path / "runs" / "zero.3.jsonl")
    return tmp_path


async def _nothing(_run: Any, _input: Any) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("@last", "runs/alto.jsonl"),
        ("@-1", "runs/alto.jsonl"),
        ("@-3", "runs/beta.jsonl"),
        ("runs/@-2", "runs/alpha.jsonl"),
        ("be", "runs/beta.jsonl"),
        ("runs/alp", "runs/alpha.jsonl"),
        ("alpha.jsonl", "runs/alpha.jsonl"),
        ("zero", "zero"),
        ("runs/gone", "runs/gone"),
        ("none/@last", "none/@last"),
    ],
)
def test_a_run_is_named_by_its_place_or_the_beginning_of_its_name(
    said: str, meant: str, three: Path
) -> None:
    assert RUN.convert(said, None, None) == Path(meant), three


def test_a_file_of_that_name_comes_first(three: Path) -> None:
    (three / "@last").touch()
    (three / "be").touch()

    assert [RUN.convert(name, None, None) for name in ("@last", "be")] == [
        Path("@last"),
        Path("be"),
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("@-4", "@-4: runs has 3 runs"),
        ("./@last", "./@last: . has no run"),
        ("al", "al is the beginning of 2 runs: alpha.jsonl"),
    ],
)
def test_what_names_no_run_or_several_is_refused(said: str, why: str, three: Path) -> None:
    assert three.is_dir()
    with pytest.raises(click.UsageError, match=re.escape(why)):
        RUN.convert(said, None, None)


def test_commands_read_what_is_meant(three: Path) -> None:
    """And say on standard error which run that is."""
    shown, listed, removed = (
        CliRunner().invoke(refold, words.split())
        for words in ("show @last", "ls --last 2", "rm be")
    )

    assert shown.stderr == "@last is runs/alto.jsonl\n"
    assert shown.exit_code == 0
    assert [line.split()[3] for line in listed.stdout.splitlines()[:2]] == [
        "runs/alpha.jsonl", "runs/alto.jsonl",
    ]  # fmt: skip
    assert removed.exit_code == 2, "a typing mistake is not to remove a run"
    assert (three / "runs" / "beta.jsonl").is_file()
