"""A survey delegates every part of a tree, keeps to the order of names, and replays without it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from refold.engine.ports.clock import FixedClock
from refold.engine.ports.programs import load
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.programs import survey
from refold.programs.survey import counts, merged, parse_tool, survey_tools
from refold.replay.audit.verify import verify
from refold.replay.compare.diff import diff
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools.files.rooted import FileEntry
from tests.support.loops import for_each

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


# --- the leaf tool ---------------------------------------------------------------------------


def _parse(root: Path, *paths: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_tool(root=str(root))(paths=list(paths))
    return found


def test_it_counts_files_lines_functions_classes_and_imports(sources: Path) -> None:
    found = _parse(sources, "alpha.py", "beta/__init__.py", "beta/deep.py")

    assert {name: found[name] for name in ("files", "lines", "functions", "classes")} == {
        "files": 3,
        "lines": 13,
        "functions": 2,
        "classes": 1,
    }
    assert found["imports"] == {"json": 1, "os": 2}
    assert found["largest"][0] == {"name": "A.long", "file": "beta/deep.py", "line": 2, "lines": 4}


@for_each(
    "source",
    ["if x:\n    {}", "try:\n    {}\nexcept E:\n    pass", "match x:\n    case 1:\n        {}",
     "for a in b:\n    pass\nelse:\n    {}", "with a:\n    {}", "class B:\n    {}"],
)  # fmt: skip
def test_functions_are_found_wherever_a_statement_may_stand(source: str, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(source.format("def inner(): pass"))

    assert _parse(tmp_path, "m.py")["functions"] == 1


@for_each(
    "name, content, why",
    [
        ("broken.py", b"def (:\n", "SyntaxError"),
        ("nul.py", b"a = 1\0\n", ""),
        ("deep.py", b"(" * 100_000, ""),
        ("bytes.py", b"# coding: nonsense\n", "SyntaxError"),
    ],
)
def test_what_cannot_be_parsed_is_said_and_stops_nothing(
    name: str, content: bytes, why: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "good.py").write_text("def f(): pass\n")

    found = _parse(tmp_path, name, "good.py")

    assert found["functions"] == 1
    assert [each["file"] for each in found["unparsed"]] == [name]
    assert why in found["unparsed"][0]["why"]


@for_each("path", ["../secret.py", "/etc/passwd", "link.py"])
def test_nothing_outside_the_root_is_read(path: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.py").write_text("def secret(): pass\n")
    (root / "link.py").symlink_to(tmp_path / "secret.py")

    found = _parse(root, path)

    assert found["functions"] == 0
    assert len(found["unparsed"]) == 1


def test_another_process_finds_the_same_tool(sources: Path) -> None:
    tool = parse_tool(root=str(sources))
    assert tool.reference is not None

    again = load(tool.reference)

    assert again(paths=["alpha.py"]) == tool(paths=["alpha.py"])
