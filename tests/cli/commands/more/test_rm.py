"""`refold rm` removes a run whole, and nothing else (CONTRACT.md §14.10)."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from refold.engine.log.pack import pack
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.tools import tool

Invoke = Callable[..., Result]


@pytest.fixture
def folder(survey_log: Path, tmp_path: Path) -> Path:
    shutil.copytree(survey_log.parent, tmp_path / "runs")
    for own in (
        f"survey.blobs/ab/{'ab' * 32}",
        f"survey.blobs/cd/.{'c' * 64}.{'d' * 8}",
        "survey.files/0.pack",
    ):
        path = tmp_path / "runs" / own
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "runs" / "notes.txt").write_text("mine")
    return tmp_path / "runs"


def test_a_run_goes_with_its_children_and_large_texts(folder: Path, invoke: Invoke) -> None:
    async def program(_run: Any, _input: Any) -> None: ...

    record(program, log=folder / "survey2.jsonl.jsonl")

    said = invoke("rm", folder / "survey.jsonl")

    assert said.exit_code == 0, said.output
    assert f"{folder / 'survey.1.jsonl'}\n" in said.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["notes.txt", "survey2.jsonl.jsonl"]
    assert "removed" in said.stdout


def test_a_pattern_names_the_children_of_a_run_too(folder: Path, invoke: Invoke) -> None:
    """A shell gives `*.jsonl`: a child's log beside its root's is no run of its own."""
    alone = invoke("rm", folder / "survey.1.jsonl")
    said = invoke("rm", *sorted(folder.glob("*.jsonl")))

    assert alone.exit_code == 2
    assert said.exit_code == 0, said.output
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


def test_what_was_cut_off_and_marks_of_nodes_go_too(folder: Path, invoke: Invoke) -> None:
    """§4.5, §7.6: nothing else would ever name them; another run's stay."""
    kept = ["survey.jsonl.torn-x", "survey2.jsonl.torn-7-0a1b2c3d", "survey.ray", "survey2.1.ray"]
    gone = ["survey.jsonl.torn-7-0a1b2c3d", "survey.1.2.jsonl.torn-12-0a1b2c3d", "survey.1.ray"]
    for name in (*kept, *gone):
        (folder / name).write_bytes(b"x")

    assert invoke("rm", folder / "survey.jsonl").exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted([*kept, "notes.txt"])


def test_a_dry_run_removes_nothing(folder: Path, invoke: Invoke) -> None:
    before = sorted(folder.rglob("*"))

    document = json.loads(invoke("rm", folder / "survey.jsonl", "--dry-run", "--json").stdout)

    assert sorted(folder.rglob("*")) == before
    files = [path for path in before if path.is_file() and path.name != "notes.txt"]
    assert document["dry_run"]
    assert document["bytes"] == sum(path.stat().st_size for path in files)
    named = {Path(path).name for path in document["removed"]}
    assert named == {path.name for path in folder.iterdir()} - {"notes.txt"}


def test_a_packed_run_is_one_file(folder: Path, invoke: Invoke) -> None:
    pack(folder / "survey.jsonl", folder / "survey.refold")

    assert invoke("rm", folder / "survey.refold").exit_code == 0
    assert not (folder / "survey.refold").exists()
    assert (folder / "survey.jsonl").exists()


def test_what_is_left_of_a_run_is_listed_and_removed_by_its_roots_name(
    folder: Path, invoke: Invoke
) -> None:
    (folder / "survey.jsonl").unlink()

    listed = invoke("ls", folder)
    assert "survey.jsonl is missing" in listed.stdout
    assert f"refold rm {folder / 'survey.jsonl'}" in listed.stdout
    assert json.loads(invoke("ls", folder, "--json").stdout)["orphans"] == [
        str(folder / "survey.jsonl")
    ]

    assert invoke("rm", folder / "survey.jsonl").exit_code == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("survey.1.jsonl", "which is removed with its run: refold rm "),
        ("none.jsonl", "no such run"),
        ("none.refold", "no such run"),
        ("notes.txt", "must end in .jsonl"),
        ("folder.jsonl", "a folder, not a log"),
        ("folder.refold", "a folder, not a log"),
        ("", "to remove runs of it, add --older-than or --status"),
        ("data.jsonl", "data.jsonl: not a log, so nothing was removed; to remove it, use rm"),
        ("pipe.jsonl", "pipe.jsonl: not a log, so nothing was removed; to remove it, use rm"),
    ],
)
def test_what_is_no_run_is_refused(folder: Path, invoke: Invoke, name: str, said: str) -> None:
    for each in ("folder.jsonl", "folder.refold"):
        (folder / each / "mine").mkdir(parents=True)
    (folder / "data.jsonl").write_text('{"text": "of a data set"}\n')
    os.mkfifo(folder / "pipe.jsonl")
    before = sorted(folder.rglob("*"))

    refused = invoke("rm", folder / name)

    assert refused.exit_code != 0
    assert said in refused.output.replace("\n", " ")
    assert sorted(folder.rglob("*")) == before


def test_in_a_folder_that_may_not_be_written_to_nothing_is_removed(
    folder: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose contents alone were removed could not be replayed. Root may write anywhere."""
    before, above = sorted(folder.rglob("*")), folder / "survey.blobs" / "cd"
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != above)

    said = invoke("rm", folder / "survey.jsonl")

    assert (said.exit_code, said.stderr) == (2, f"refold: {above}: Permission denied\n")
    assert sorted(folder.rglob("*")) == before


def test_a_run_that_is_written_is_refused(tmp_path: Path, invoke: Invoke) -> None:
    log = tmp_path / "live.jsonl"

    @tool
    def remove() -> int:
        return invoke("rm", log).exit_code

    async def program(run: Run, _input: Any) -> int:
        return await run.tool(remove)

    assert record(program, log=log).output != 0
    assert log.exists()


def test_with_force_there_need_be_no_run(folder: Path, invoke: Invoke) -> None:
    log = folder / "survey.jsonl"

    for _ in range(2):
        removed = invoke("rm", "--force", log)
        assert removed.exit_code == 0, removed.output
        assert not log.exists()
    assert "0 files removed" in removed.stdout
    assert invoke("rm", "--force", folder / "none" / "a.jsonl").exit_code == 0


def test_of_a_link_the_link_goes(folder: Path, invoke: Invoke) -> None:
    """In the place of large texts, or of the log; what it leads to stays. It was a crash."""
    shutil.move(folder / "survey.blobs", folder / "elsewhere")
    (folder / "survey.blobs").symlink_to("elsewhere")
    (folder / "linked.jsonl").symlink_to("survey.jsonl")
    (folder / "lost.blobs").symlink_to("nowhere")

    linked = invoke("rm", folder / "linked.jsonl")
    lost = invoke("rm", folder / "lost.jsonl")
    size = json.loads(invoke("rm", folder / "survey.jsonl", "--dry-run", "--json").stdout)["bytes"]
    own = [*folder.glob("survey*.jsonl"), folder / "survey.files" / "0.pack"]
    own_size = sum(path.stat().st_size for path in own)
    whole = invoke("rm", folder / "survey.jsonl")

    assert (linked.exit_code, lost.exit_code, whole.exit_code) == (0, 0, 0), whole.output
    assert size == own_size
    assert sorted(path.name for path in folder.iterdir()) == ["elsewhere", "notes.txt"]
    assert (folder / "elsewhere" / "ab" / ("ab" * 32)).read_text() == "x"


def test_files_of_others_stay(folder: Path, invoke: Invoke) -> None:
    """A data set with the name of a child's log, and what is beside large texts."""
    others = [
        "survey.9.jsonl",
        "survey.blobs/mine",
        f"survey.blobs/ab/{'e' * 64}",
        "survey.files/x.pack",
    ]
    for name in others:
        (folder / name).write_text('{"x":1}\n')

    assert invoke("rm", folder / "survey.jsonl").exit_code == 0
    left = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    assert left == sorted([*others, "notes.txt"])


async def ends_as_told(run: Run, how: str) -> str:
    """Complete, fail or wait for a person."""
    if how == "failed":
        raise ValueError(how)
    return str(await run.ask("Well?")) if how == "waits_for_you" else how


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """Return a folder with a run of each kind; one broke off, and one is a stranger."""
    runs = tmp_path / "many"
    for how in ("completed", "failed", "waits_for_you", "broke_off"):
        record(ends_as_told, how, log=runs / f"{how}.jsonl")
    log = runs / "broke_off.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    (runs / "unreadable.jsonl").write_text("{}")
    return runs


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (("--older-than", "0s"), {"completed", "failed"}),
        (("--older-than", "1d"), set()),
        (("--older-than", "2000-01-31", "--status", "failed"), set()),
        (("--status", "failed"), {"failed"}),
        (("--older-than", "0s", "--status", "broke_off"), {"broke_off"}),
        (("--status", "unreadable", "--status", "failed"), {"unreadable", "failed"}),
    ],
)
def test_runs_are_removed_by_age_and_status(
    many: Path, invoke: Invoke, options: tuple[str, ...], gone: set[str]
) -> None:
    """After they were listed, and only if somebody agrees; a dry run says the same."""
    before = {path.stem for path in many.iterdir()}
    asked = invoke("rm", *options, many)

    assert asked.exit_code == (2 if gone else 0), asked.output
    assert {path.stem for path in many.iterdir()} == before
    assert all(f"{name}.jsonl" in asked.stderr for name in gone)

    tried = json.loads(invoke("rm", "--json", "--dry-run", *options, many).stdout)
    done = json.loads(invoke("rm", "--json", "--yes", *options, many).stdout)

    assert tried == done | {"dry_run": True}
    assert before - {path.stem for path in many.iterdir()} == gone


@pytest.mark.parametrize("options", [(), ("--status", "running"), ("--older-than", "soon", ".")])
def test_what_chooses_no_runs_is_refused(invoke: Invoke, options: tuple[str, ...]) -> None:
    assert invoke("rm", *options).exit_code == 2


def test_a_file_is_no_folder_of_runs(folder: Path, invoke: Invoke) -> None:
    said = invoke("rm", "--older-than", "0s", "--yes", folder / "survey.jsonl")

    assert said.exit_code == 2
    assert "is not a folder" in said.stderr
    assert (folder / "survey.jsonl").exists()


def test_what_commands_kept_of_a_run_goes_with_it(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its texts are in there."""

    async def notes(run: Run, count: int) -> None:
        for _ in range(count):
            run.annotate("x" * 1000)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = record(notes, 1100, log=tmp_path / "a.jsonl").log
    invoke("show", log)
    assert [*tmp_path.glob("cache/refold/folds/*")]

    invoke("rm", log)
    assert not [*tmp_path.glob("cache/refold/folds/*")]


def test_the_newest_run_is_not_removed_by_that_name(invoke: Invoke) -> None:
    assert "@last: a run is removed by its full name only" in invoke("rm", "@last").stderr
