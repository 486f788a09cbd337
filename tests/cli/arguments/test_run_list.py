"""The runs of a folder: the newest last, and what is no log says so."""

import os
import shutil
from pathlib import Path

import orjson

from refold.cli.arguments.run_list import listed_runs
from refold.engine.events.outcome import Usage
from refold.engine.log.reader import scan
from refold.engine.program.run import PlainRun
from refold.engine.runners.recording import record
from tests.support.forks import TOOLS, model, report
from tests.support.loops import for_each


def test_a_folder_s_roots_are_listed_and_no_child(survey_log: Path, tmp_path: Path) -> None:
    shutil.copytree(survey_log.parent, tmp_path, dirs_exist_ok=True)
    (tmp_path / "other.jsonl").write_text("no log\n")

    found = listed_runs(tmp_path)

    assert [each.path.name for each in found] == ["other.jsonl", "survey.jsonl"]
    (tmp_path / "latest.jsonl").symlink_to("survey.jsonl")
    assert listed_runs(tmp_path) == found
    assert [each.status for each in found] == ["unreadable", "completed"]
    assert found[1].runs == 4


def test_a_run_with_a_long_last_line_is_read_to_its_beginning(tmp_path: Path) -> None:
    """Read from the end, in pieces."""

    def counts(_run: PlainRun, most: int) -> list[int]:
        return list(range(most))

    record(counts, 40_000, log=tmp_path / "a.jsonl")

    (found,) = listed_runs(tmp_path)

    assert (found.status, found.entries) == ("completed", 2)


def test_a_run_with_a_long_torn_tail_is_listed_as_one(survey_log: Path, tmp_path: Path) -> None:
    """A loss of power leaves zeros at the end of what was being written (§4.5)."""
    log = tmp_path / "open.jsonl"
    log.write_bytes(b"".join(survey_log.read_bytes().splitlines(keepends=True)[:-1]))
    os.truncate(log, 2**23)

    (found,) = listed_runs(tmp_path)

    assert (found.status, found.entries) == ("broke_off", scan(log).entries)


def test_what_a_run_without_an_end_spent_is_not_known(tmp_path: Path) -> None:
    """Its last line may be an answer, with what that one cost."""
    path = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    lines = path.read_bytes().splitlines(keepends=True)
    last = max(at for at, line in enumerate(lines) if b'"kind":"model.answered"' in line)
    path.write_bytes(b"".join(lines[: last + 1]))

    (found,) = listed_runs(tmp_path)

    assert b'"usage"' in lines[last]
    assert (found.status, found.usage) == ("broke_off", None)


@for_each("later_us, duration_ms", [(1_001_999, 1001), (0, 0), (-5, 0)])
def test_the_ends_of_a_log_say_when_it_was_and_what_it_took(
    later_us: int, duration_ms: int, tmp_path: Path
) -> None:
    """A clock that was set back in between makes no negative time; a folder is no run."""
    path = record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    (tmp_path / "b.jsonl").mkdir()
    *lines, last = map(orjson.loads, path.read_bytes().splitlines())
    last["meta"]["wall_us"] = lines[0]["meta"]["wall_us"] + later_us
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in (*lines, last)))

    (found,) = listed_runs(tmp_path)

    assert (found.wall_us, found.duration_ms) == (lines[0]["meta"]["wall_us"], duration_ms)
    assert found.models == tuple(last["data"]["models"])
    assert found.models != ()
    assert found.usage == Usage(**last["data"]["usage"])
    assert (found.failed_children, found.refused) == (0, 0)
