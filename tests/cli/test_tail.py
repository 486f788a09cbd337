"""`refold tail`: the last entries, and with `--follow` those written meanwhile, to the end."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Invoke = Callable[..., Result]


def test_it_shows_as_many_as_asked_for(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("tail", survey_log, "-n", "3").stdout.splitlines()

    assert len(said) == 4
    assert "run.finished" in said[-1]
    assert invoke("tail", survey_log, "-n", "0").exit_code == 2


def test_the_document_holds_the_entries_as_logged(survey_log: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("tail", survey_log, "-n", "1", "--json").stdout)

    assert document["entries"] == [json.loads(survey_log.read_bytes().splitlines()[-1])]


def test_following_a_run_that_has_finished_ends_at_once(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("tail", "--follow", survey_log).exit_code == 0


def test_following_and_one_document_exclude_each_other(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("tail", "--follow", "--json", survey_log).exit_code == 2


def test_following_shows_what_is_written_until_the_run_has_finished(
    survey_log: Path, tmp_path: Path
) -> None:
    """The end is written, in two pieces, only after all that came before it has been shown."""
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(lines[:-2]))
    command = [sys.executable, "-u", "-m", "refold", "tail", "-f", "-n", "1", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        shown = [following.stdout.readline() for _ in range(2)]
        with log.open("ab", buffering=0) as file:
            file.write(lines[-2])
            shown.append(following.stdout.readline())
            file.write(lines[-1][:20])
            file.write(lines[-1][20:])
        shown += following.stdout.readlines()

        assert following.wait(timeout=60) == 0

    assert [line.split()[0] for line in shown[1:]] == [str(len(lines) - at) for at in (3, 2, 1)]
    assert "run.finished" in shown[-1]


@pytest.mark.parametrize("written", [b"no entry\n", b'{"seq":1}\n', b"[]\n", b"\x00\n"])
def test_following_stops_at_what_is_no_entry(
    written: bytes, survey_log: Path, tmp_path: Path
) -> None:
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(survey_log.read_bytes().splitlines(keepends=True)[:2]))
    command = [sys.executable, "-u", "-m", "refold", "tail", "-f", str(log)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as following:
        assert following.stdout is not None
        assert following.stderr is not None
        for _ in range(3):
            following.stdout.readline()
        with log.open("ab", buffering=0) as file:
            file.write(written)

        assert following.wait(timeout=60) == 3
        assert "no entry" in following.stderr.read()
