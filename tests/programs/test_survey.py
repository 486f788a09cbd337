"""A survey delegates every part of a tree, keeps to the order of names, and replays without it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from refold.engine.ports.clock import FixedClock
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.programs import survey
from refold.programs.survey import counts, merged, survey_package, survey_tools
from refold.replay.audit.verify import verify
from refold.replay.compare.diff import diff
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools.files.rooted import FileEntry

TASK = {"title": "a tree", "skip": ["test"], "jobs": 2, "parts": 3}


def _survey(root: Path, log: Path, **more: Any) -> Recording:
    task = {**TASK, **more}
    return record(
        "survey_tree", task, log=log, tools=survey_tools(root), seed=1, clock=FixedClock()
    )


def test_each_part_is_delegated_once_and_nothing_that_is_skipped(survey_log: Path) -> None:
    tree = delegation_tree(survey_log)

    parts = [child.input for child in tree.children]
    assert [name for part in parts for name in part["packages"]] == ["beta", "gamma"]
    assert [name for part in parts for name in part["modules"]] == ["alpha.py"]
    assert {child.status for child in tree.children} == {"completed"}


def test_the_report_adds_up_what_the_parts_found(sources: Path, tmp_path: Path) -> None:
    recording = _survey(sources, tmp_path / "a.jsonl")

    output = recording.output
    assert (output["files"], output["functions"], output["classes"]) == (4, 2, 1)
    assert output["largest"][0]["name"] == "A.long"
    assert output["imports"] == {"json": 1, "os": 2}
    assert output["unparsed"] == [{"file": "gamma/broken.py", "why": "SyntaxError"}]
    assert recording.summary == "a tree: 4 files, 14 lines, 2 functions, 1 not parsed in 3 parts"
    assert [artifact.name for artifact in recording.artifacts] == ["largest functions", "imports"]


def test_a_package_says_what_it_is_in_its_own_words(sources: Path, tmp_path: Path) -> None:
    part = {"name": "beta", "packages": ["beta"], "modules": [], "skip": ["test"]}

    recording = record(survey_package, part, log=tmp_path / "p.jsonl", tools=survey_tools(sources))

    assert recording.summary.endswith("· Beta counts.")


def test_only_names_restrict_a_survey(sources: Path, tmp_path: Path) -> None:
    recording = _survey(sources, tmp_path / "a.jsonl", only=["beta"])

    assert [part["name"] for part in recording.output["parts"]] == ["package beta"]
    assert recording.summary.endswith(" in 1 part")


def test_a_folder_without_python_is_a_failure_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    recording = _survey(tmp_path / "empty", tmp_path / "a.jsonl")

    assert (recording.status, recording.reason) == ("failed", "nothing_found")


def test_its_log_verifies_and_replays_when_the_tree_is_gone(tmp_path: Path, sources: Path) -> None:
    root = tmp_path / "copy"
    shutil.copytree(sources, root)
    log = _survey(root, tmp_path / "a.jsonl").log
    shutil.rmtree(root)

    report = reexecute(log, tools=survey_tools(tmp_path))

    found = verify(log)
    assert found.intact
    assert found.complete
    assert report.identical
    assert (report.children, report.tools_executed) == (3, 0)


def test_two_surveys_of_one_tree_are_the_same_whatever_the_interleaving(
    sources: Path, tmp_path: Path
) -> None:
    one = _survey(sources, tmp_path / "a.jsonl", jobs=3)
    other = _survey(sources, tmp_path / "b.jsonl", jobs=3)

    assert one.data_digest == other.data_digest
    assert one.tree_digest == other.tree_digest != ""
    assert one.head != other.head
    assert diff(one.log, other.log).identical


def test_no_path_of_this_machine_is_in_its_logs(sources: Path, survey_log: Path) -> None:
    for log in survey_log.parent.glob("*.jsonl"):
        assert str(sources) not in log.read_text()


def test_files_in_folders_that_are_skipped_are_no_sources() -> None:
    paths = ["a/b.py", "a/test/c.py", "a/.git/d.py", "tests.py"]
    entries = [FileEntry(path=path, kind="file", size_bytes=1) for path in paths]

    found = _paths_of(entries)

    assert found == ["a/b.py", "tests.py"]


def _paths_of(entries: list[FileEntry]) -> list[str]:
    return [entry.path for entry in survey.sources(entries, ["test"])]


def test_nothing_merged_is_nothing_found() -> None:
    found = merged([])

    assert counts(found) == "0 files, 0 lines, 0 functions"
    assert counts(found | {"lines": 1}) == "0 files, 1 line, 0 functions"


@pytest.mark.long
def test_four_faults_are_four_outcomes_beside_a_survey_that_completes(
    sources: Path, tmp_path: Path
) -> None:
    recording = record(
        "survey_with_faults", TASK, log=tmp_path / "f.jsonl", tools=survey_tools(sources)
    )

    assert recording.ok
    assert list(recording.output["faults"].values()) == ["timed_out", "limit", "failed", "rejected"]
