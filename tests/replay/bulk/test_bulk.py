"""Many logs, one report: which logs are meant, which program each gets, what a row says."""

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import refold
from refold.engine.errors import Diverged, LogMissing, ProgramNotFound, UsageError
from refold.engine.log.pack import pack
from refold.engine.ports.ports import Reference
from refold.replay.bulk.bulk import find_logs, program_for, replay_logs
from refold.replay.bulk.processes import Schedule
from refold.replay.bulk.report import BulkReport
from tests.support import bulk_programs as programs
from tests.support import resumable_session
from tests.support.loops import some
from tests.support.resumable import step

Record = Callable[[str, int], Path]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Return what records one run of `doubling` in `tmp_path`."""

    def make(name: str, number: int) -> Path:
        log = tmp_path / f"{name}.jsonl"
        log.parent.mkdir(parents=True, exist_ok=True)
        return refold.record(programs.doubling, number, log=log, tools=[programs.double]).log

    return make


async def tripling(run: refold.Run, number: int) -> Any:
    """Do otherwise than `doubling`."""
    return await run.tool("double", number=number + 1)


HERE: Final = functools.partial(programs.doubling)
"""No other process can import it, so none is started for it."""


def _results(report: BulkReport) -> list[str]:
    return [log.result for log in report.logs]


def test_every_root_below_a_folder_is_replayed(record: Record, tmp_path: Path) -> None:
    """At any depth, packed logs included; children belong to their roots."""
    logs = [record("a", 1), record("deep/er/b", 2)]
    logs.append(pack(logs[0], tmp_path / "deep" / "c.refold"))

    report = refold.reexecute([tmp_path], HERE)

    assert report.identical, report
    assert sorted(log.log for log in report.logs) == sorted(map(str, logs))
    assert {log.program for log in report.logs} == {"doubling"}
    assert all(log.entries == 4 and log.seconds > 0 for log in report.logs)


@pytest.mark.parametrize("left", ["a.1.jsonl", "a.2.1.jsonl", "a.blobs"])
def test_a_root_log_that_is_gone_is_no_all_clear(record: Record, tmp_path: Path, left: str) -> None:
    """Whatever is left of its run, and whichever function reads the folder."""
    sound = record("deep/b", 2)
    if left.endswith(".blobs"):
        (sound.parent / left).mkdir()
    else:
        shutil.copy(sound, sound.with_name(left))

    report, (gone, kept) = refold.reexecute([tmp_path], HERE), refold.verify([tmp_path])

    assert _results(report) == ["damaged", "identical"]
    assert "other files of its run exist" in report.logs[0].message
    assert (gone.intact, kept.intact) == (False, True)
    assert gone.root.path == str(sound.with_name("a.jsonl"))


@pytest.mark.parametrize(
    "factory",
    [
        Reference(resumable_session.__name__, "session", {}),
        pytest.param(Reference(resumable_session.__name__, "session"), marks=pytest.mark.long),
        None,
    ],
)
def test_each_run_that_had_a_session_gets_one(
    record: Record, tmp_path: Path, factory: Reference | None
) -> None:
    """An empty one with the reducers of what is passed, which is left alone; others get none."""
    given = resumable_session.session()
    given.factory = factory
    noting = resumable_session.noting
    for name in ("one", "two"):
        refold.record(
            noting, 2, log=tmp_path / f"{name}.jsonl", tools=[step], session=given.empty()
        )
    record("without", 1)
    both = {"noting": noting, "doubling": programs.doubling}

    report = refold.reexecute([tmp_path], both, session=given, jobs=2)

    assert report.identical, report
    assert report.jobs == (1 if factory is None else 2)
    assert not given.select_all(resumable_session.Finding)
    here = functools.partial(noting)
    assert _results(refold.reexecute([tmp_path / "one.jsonl"], here)) == ["refused"]


def test_failing_slow_reports_every_log(record: Record) -> None:
    """Case 7: all of them, whatever one says, and two logs of one run each for itself."""
    good = record("a", 1)
    same = good.with_name("same.jsonl")
    shutil.copy(good, same)
    bad = record("b", 2)
    bad.write_bytes(bad.read_bytes().replace(b'"number":2', b'"number":3'))

    report = refold.reexecute([good, bad, same], HERE)

    assert _results(report) == ["identical", "damaged", "identical"]
    assert report.counts == {"identical": 2, "damaged": 1}
    assert report.logs[1].message


@pytest.mark.parametrize("is_apart", [True, False])
def test_failing_fast_starts_nothing_more(record: Record, *, is_apart: bool) -> None:
    """Case 6: nothing is started after the first log that is not identical."""
    logs = [record(name, 1) for name in ("a", "b", "c", "d")]
    program: Any = (
        "tests.support.bulk_programs:counting" if is_apart else functools.partial(tripling)
    )
    given = {"doubling": program}

    report = refold.reexecute(logs, given, jobs=1, fail_fast=True)

    assert _results(report) == ["diverged", "not run", "not run", "not run"]
    assert not report.identical


def test_a_program_that_nobody_named_is_a_row(record: Record, tmp_path: Path) -> None:
    """Case 8: the row says which; the other logs are replayed all the same."""
    record("a", 1)
    refold.record(programs.counting, None, log=tmp_path / "b.jsonl")

    report = refold.reexecute([tmp_path], HERE)

    assert _results(report) == ["identical", "program needed"]
    assert "FILE.py:counting" in report.logs[1].message


def test_a_program_that_cannot_be_imported_is_an_error_at_once(record: Record) -> None:
    """Case 8: a name that leads nowhere is a wrong call, and no log's fault."""
    with pytest.raises(ProgramNotFound):
        refold.reexecute(record("a", 1), "no.such.module:doubling")


def test_programs_go_by_the_names_of_the_logs(record: Record) -> None:
    """One alone by its own; what Refold ships needs none."""
    log = record("a", 1)
    shipped = refold.record("agent", log=log.with_name("agent.jsonl")).log

    assert program_for(log, "a", {"a": "m:b"}) == "m:b"
    assert program_for(shipped, "agent", {}) is None
    with pytest.raises(ProgramNotFound, match=r"pass --program FILE\.py:b"):
        program_for(log, "b", {"a": "m:b"})

    report = refold.reexecute([log], {"doubling": functools.partial(programs.counting)})

    assert _results(report) == ["diverged"]


def test_a_divergence_has_its_place_and_can_be_raised(record: Record) -> None:
    """The row has the category, the report the whole divergence."""
    log = record("a", 1)

    report = refold.reexecute([log], {"doubling": functools.partial(tripling)})

    (row,) = report.logs
    assert (row.category, row.where) == ("args_changed", "doubling > double#1")
    assert row.divergences[0].log == str(log)
    with pytest.raises(Diverged) as caught:
        report.check()
    assert caught.value.divergence == row.divergences[0]
    assert "args_changed" in row.text


def test_a_report_without_a_divergence_says_why_it_fails(record: Record, tmp_path: Path) -> None:
    """A log that is no log, a program that nobody named."""
    record("a", 1)
    (tmp_path / "b.jsonl").write_text("no log\n")

    report = refold.reexecute([tmp_path], {"another": HERE})

    assert _results(report) == ["program needed", "damaged"]
    with pytest.raises(UsageError, match="program needed"):
        report.check()
    assert str(report).startswith("2 logs: 1 damaged, 1 program needed\n")


def test_what_no_other_process_can_import_is_replayed_here(record: Record) -> None:
    """A function of a test, a tool of a test: one after the other, and no helper."""
    logs = [record("a", 1), record("b", 2)]

    async def doubling(run: refold.Run, number: int) -> Any:
        return await run.tool("double", number=number)

    report = refold.reexecute(logs, doubling, jobs=2)

    assert report.identical, report
    assert report.jobs == 1


@pytest.mark.long
def test_what_only_this_process_can_import_is_executed_here(
    record: Record, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that needs its arguments, say."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom refold.replay.bulk.report import LogResult\nWORD = sys.argv[1]\n"
        "def execute(log):\n    return LogResult(log=str(log), result='identical', program=WORD)\n"
    )
    monkeypatch.setattr("sys.argv", ["it", "word"])

    report = replay_logs([record("a", 1)], Reference(str(script), "execute"), Schedule())

    assert [log.program for log in report.logs] == ["word"]


def test_logs_are_found_once_and_in_order(record: Record, tmp_path: Path) -> None:
    """Given twice, a log is one; hidden ones, links and children are none."""
    first, second = record("z", 1), record("below/a", 1)
    (tmp_path / "a.jsonl").symlink_to(first)
    (tmp_path / "z.1.jsonl").write_bytes(first.read_bytes())
    (tmp_path / ".hidden.jsonl").write_bytes(first.read_bytes())
    (tmp_path / "notes.txt").write_text("no log")
    (tmp_path / "again").symlink_to(tmp_path)

    assert find_logs([tmp_path]) == [first, second]
    assert find_logs([second, tmp_path]) == [second, first]


def test_a_hidden_log_that_is_named_is_judged(record: Record) -> None:
    """In a folder it stands for nothing; named and left out, all that was asked for looked fine."""
    hidden = record("a", 1)
    hidden = hidden.replace(hidden.with_name(".hidden.jsonl"))

    assert find_logs([hidden]) == [hidden]
    assert _results(refold.reexecute([hidden], HERE)) == ["identical"]


def test_nothing_to_replay_is_a_wrong_call(tmp_path: Path) -> None:
    """An empty folder, a path that is not there, less than one at a time."""
    with pytest.raises(LogMissing, match="no root logs"):
        find_logs([tmp_path])
    with pytest.raises(LogMissing, match="no such file"):
        find_logs([tmp_path / "gone"])
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(UsageError, match="jobs"):
        refold.reexecute([tmp_path], jobs=0)


def test_a_limit_of_time_is_kept_or_refused(record: Record) -> None:
    """§14.13: nothing can end a program that is re-executed in this process."""
    log = record("a", 1)

    async def of_this_process(run: refold.Run, number: int) -> Any:
        return await programs.doubling(run, number)

    with pytest.raises(UsageError, match="more than 0, found 0"):
        refold.reexecute([log], programs.doubling, timeout_seconds=0)
    with pytest.raises(UsageError, match="another process can import"):
        refold.reexecute([log], {"doubling": of_this_process}, timeout_seconds=60)
    assert refold.reexecute([log], programs.doubling, timeout_seconds=60).identical


def test_no_log_is_identical_that_is_not_intact(record: Record) -> None:
    """Entries that replay, after them bytes that nobody hashed."""
    log = record("a", 1)
    log.write_bytes(log.read_bytes() + b'{"seq":4,"kind":"note.added"}\n')

    assert _results(refold.reexecute([log], HERE)) == ["damaged"]


@pytest.mark.parametrize("is_apart", some(1, [False, True]))
def test_volatile_places_are_counted_and_not_compared(record: Record, *, is_apart: bool) -> None:
    """For all logs alike, in this process and in others."""
    logs = [record("a", 1), record("b", 2)]
    program: Any = (
        "tests.support.bulk_programs:doubling_more" if is_apart else functools.partial(tripling)
    )

    report = refold.reexecute(
        logs, {"doubling": program}, volatile=["tool:double/arguments/number"]
    )

    assert [log.ignored for log in report.logs] == [1, 1], report
    assert report.identical


def test_a_report_is_a_suite_of_junit(record: Record, tmp_path: Path) -> None:
    """A failure where a log differs, an error where it could not be looked at, or skipped."""
    record("a", 1)
    (tmp_path / "b.jsonl").write_text("no log\n")
    refold.record(programs.counting, None, log=tmp_path / "c.jsonl")
    logs = [tmp_path / f"{name}.jsonl" for name in "acb"]

    suite = refold.reexecute(logs, HERE).suite()
    stopped = refold.reexecute(logs[::-1], HERE, jobs=1, fail_fast=True).suite()

    assert [bool(case.failure) for case in suite.cases] == [False, False, True]
    assert [bool(case.error) for case in suite.cases] == [False, True, False]
    assert [bool(case.skipped) for case in stopped.cases] == [False, True, True]
