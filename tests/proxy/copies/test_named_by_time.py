"""A command that names its files by a time or an id leaves the same files in a replay."""

from pathlib import Path

import pytest

from refold.proxy.sessions import record_command, replay_command
from refold.replay.compare.diff import diff
from refold.replay.observed.folder import FileDifference
from tests.proxy.test_sessions import program
from tests.support.folders import repository
from tests.support.loops import some
from tests.support.upstream import Upstream

AGENT = """
    import datetime, pathlib, uuid
    now, drawn = datetime.datetime.now(), uuid.uuid4()
    report = pathlib.Path(f"reports/report-{now:%Y%m%d-%H%M%S-%f}.md")
    trace = pathlib.Path(f"out/{now:%Y-%m-%d}/{now:%H-%M-%S}/run-{drawn}.json")
    for file, text in ((report, f"# {report.stem}\\n"), (trace, f'{{"id": "{drawn}"}}\\n')):
        file.parent.mkdir(parents=True)
        file.write_text(text + text_of(ask("Hello")))
    report.with_suffix(".sh").write_text("echo\\n")
    pathlib.Path("drawn.bin").write_bytes(b"\\xff" + str(drawn).encode())
    print(f"Log: {report}, {trace}")
"""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command that was recorded as `a.jsonl` and `b.jsonl` in its folder."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    found = program(tmp_path, AGENT)
    for name in ("a", "b"):
        monkeypatch.chdir(repository(tmp_path / name, {"f": "one\n"}))
        with Upstream() as upstream:
            upstream.lead(monkeypatch)
            record_command(found, log=tmp_path / f"{name}.jsonl")
    return found


@pytest.mark.long
def test_its_replay_is_identical_and_names_the_pairs(tmp_path: Path, command: list[str]) -> None:
    """In the output and in the files, too; and two recordings do not differ."""
    report = replay_command(tmp_path / "a.jsonl", command)

    assert report.identical, str(report)
    assert any("3 file names" in note for note in report.notes)
    files: list[FileDifference] = []
    found = diff(tmp_path / "a.jsonl", tmp_path / "b.jsonl", files=files)
    assert (found.differences, files) == ((), [])


@pytest.mark.parametrize(
    ("old", "new"), some(1, [("# {report.stem}", "- {report.stem}"), ("echo", "exit 1")])
)
def test_a_changed_content_is_a_difference(
    tmp_path: Path, command: list[str], old: str, new: str
) -> None:
    """And the report has the pattern that ignores the file."""
    agent = tmp_path / "agent.py"
    agent.write_text(agent.read_text().replace(old, new))

    report = replay_command(tmp_path / "a.jsonl", command)

    assert any("files" in str(found.diff) for found in report.divergences)
    assert "--volatile 'file:reports/report-*." in str(report), str(report)
