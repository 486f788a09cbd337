"""`refold show --events`: all entries, the last ones, or those that are still to come."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from tests.support.loops import some

Invoke = Callable[..., Result]


def test_it_shows_as_many_as_asked_for(survey_log: Path, invoke: Invoke) -> None:
    said = invoke("show", "--events", survey_log, "-n", "3").stdout.splitlines()

    assert len(said) == 4
    assert "run.finished" in said[-1]
    assert invoke("show", "--events", survey_log, "-n", "0").exit_code == 2
    whole = invoke("show", "--events", survey_log, "-n", "999").stdout
    assert invoke("show", "--events", survey_log, "-n", 10**30).stdout == whole


def test_the_document_holds_the_entries_as_logged(survey_log: Path, invoke: Invoke) -> None:
    document = json.loads(invoke("show", "--events", survey_log, "-n", "1", "--json").stdout)

    assert document["entries"] == [json.loads(survey_log.read_bytes().splitlines()[-1])]


@pytest.mark.parametrize("command", [("show", "--events", "-n", 10), ("show", "--events")])
def test_what_is_torn_behind_the_last_entry_is_said(
    survey_log: Path, tmp_path: Path, invoke: Invoke, command: tuple[object, ...]
) -> None:
    """Or a crash would read as a run that goes on."""
    log = tmp_path / "torn.jsonl"
    log.write_bytes(survey_log.read_bytes()[:-9])

    lines = len(survey_log.read_bytes().splitlines())
    assert f"torn.jsonl:{lines} (byte " in invoke(*command, log).stderr
    assert "torn tail" in invoke(*command, log, "--json").stderr
    assert invoke(*command, survey_log).stderr == ""


@pytest.fixture
def long_log(tmp_path: Path) -> Path:
    """A log of 4,000 entries: more than is read from its end."""

    async def program(run: Run, _input: object) -> None:
        for number in range(4000):
            run.annotate(f"note {number}")

    record(program, log=tmp_path / "long.jsonl")
    return tmp_path / "long.jsonl"


@pytest.mark.parametrize("count", some(1, [1000, 3999, 1, 10, 10_000]))
def test_of_a_long_log_the_end_is_read_and_said_not_to_be_verified(
    long_log: Path, invoke: Invoke, count: int
) -> None:
    """The same entries as a look at all of it shows; nothing unverified reads as verified."""
    quick = invoke("show", "--events", long_log, "-n", count, "--json")
    whole = invoke("show", "--events", long_log, "--json")

    found, checked = json.loads(quick.stdout), json.loads(whole.stdout)
    assert found["entries"] == checked["entries"][-count:]
    assert len(found["entries"]) == min(count, 4002)
    assert (found.get("verified") is False) is ("not verified" in quick.stderr) is (count <= 1000)
    assert "verified" not in checked
    assert whole.stderr == ""
    assert [quick.exit_code, whole.exit_code] == [0, 0]


@pytest.mark.parametrize(
    ("cut", "whats"),
    some(
        2,
        [
            (lambda log: log.replace(b"note 7", b"note x", 1), ("not verified", "hash")),
            (lambda log: log + b"no entry\n", ("no entry", "no entry")),
            (lambda log: log.replace(b"note 3995", b"note 3xx5"), ("hash", "hash")),
            (lambda log: log[:-9], ("torn tail", "torn tail")),
            (lambda log: log + b"\0" * 600, ("torn tail", "torn tail")),
        ],
    ),
)
def test_damage_is_found_in_what_is_shown_and_before_it_when_asked(
    long_log: Path, invoke: Invoke, cut: Callable[[bytes], bytes], whats: tuple[str, str]
) -> None:
    """With the words, the place and the exit code of a look at all of it."""
    long_log.write_bytes(cut(long_log.read_bytes()))

    found = [invoke("show", "--events", long_log, *more) for more in (("-n", 10), ())]

    for each, what in zip(found, whats, strict=True):
        assert what in each.stderr
        assert each.exit_code == (0 if what in ("torn tail", "not verified") else 3)


def test_following_a_run_that_has_finished_ends_at_once(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", "--events", "--follow", survey_log).exit_code == 0


def test_following_and_one_document_exclude_each_other(survey_log: Path, invoke: Invoke) -> None:
    assert invoke("show", "--events", "--follow", "--json", survey_log).exit_code == 2


def test_following_shows_what_is_written_until_the_run_has_finished(
    survey_log: Path, tmp_path: Path
) -> None:
    """The end is written, in two pieces, only after all that came before it has been shown."""
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(lines[:-2]))
    command = [sys.executable, "-u", "-m", "refold", "show", "--events", "-f", "-n", "1", str(log)]
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


@contextlib.contextmanager
def _followed(log: Path, entries: int) -> Iterator[subprocess.Popen[str]]:
    """Follow a log, and go on once so many entries were shown."""
    command = [sys.executable, "-u", "-m", "refold", "show", "--events", "-f", str(log)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as following:
        assert following.stdout is not None
        for _ in range(entries + 1):
            following.stdout.readline()
        try:
            yield following
        finally:
            following.kill()


def _complaint(following: subprocess.Popen[str]) -> tuple[int, str]:
    assert following.stderr is not None
    return following.wait(timeout=60), following.stderr.read()


@pytest.mark.parametrize(
    ("written", "what"),
    some(
        1,
        [
            (b"no entry\n", "no entry"),
            (b'{"seq":1}\n', "no entry"),
            (b"[]\n", "no entry"),
            (b"\x00\n", "NUL bytes"),
        ],
    ),
)
def test_following_stops_at_what_is_no_entry(
    written: bytes, what: str, survey_log: Path, tmp_path: Path
) -> None:
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(survey_log.read_bytes().splitlines(keepends=True)[:2]))
    with _followed(log, 2) as following:
        with log.open("ab", buffering=0) as file:
            file.write(written)

        code, said = _complaint(following)

    assert code == 3
    assert what in said


def test_following_shows_no_entry_that_does_not_verify(survey_log: Path, tmp_path: Path) -> None:
    """One that is altered and one that does not follow are located, and nothing of them shown."""
    lines = survey_log.read_bytes().splitlines(keepends=True)
    for written, what in (
        (lines[2].replace(b'"wall_us":1', b'"wall_us":2'), "hash"),
        (lines[3], "line deleted"),
    ):
        log = tmp_path / "open.jsonl"
        log.write_bytes(b"".join(lines[:2]))
        with _followed(log, 2) as following:
            with log.open("ab", buffering=0) as file:
                file.write(written)

            code, said = _complaint(following)
            assert following.stdout is not None
            assert following.stdout.read() == ""

        assert code == 3
        assert f"{log}:3 " in said
        assert what in said


def test_following_goes_on_where_a_torn_tail_was_taken_off(
    survey_log: Path, tmp_path: Path
) -> None:
    """As a resume does: what is written in its place is an entry like any other."""
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(lines[:-1]) + b'{"seq":99,"kind":"torn')
    with _followed(log, len(lines) - 1) as following:
        with log.open("rb+", buffering=0) as file:
            file.truncate(sum(map(len, lines[:-1])))
            file.seek(0, 2)
            file.write(lines[-1])

        assert _complaint(following) == (0, "")


def test_following_tells_that_entries_were_cut_off(survey_log: Path, tmp_path: Path) -> None:
    """No resume does that."""
    lines = survey_log.read_bytes().splitlines(keepends=True)
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(lines[:3]))
    with _followed(log, 3) as following:
        with log.open("rb+", buffering=0) as file:
            file.truncate(len(lines[0]))

        code, said = _complaint(following)

    assert code == 3
    assert "it was truncated in the meantime" in said
