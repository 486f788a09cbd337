import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from tests.support.delegating import child, recorded

TEST = """
from pathlib import Path

def test_delegation(delegation_snapshot):
    assert Path({log!r}) == delegation_snapshot
    assert {log!r} == delegation_snapshot(name="again")
"""


@attrs.frozen
class Suite:
    """A suite of one test, that takes a snapshot of the log `a.jsonl` beside it."""

    folder: Path

    def record(self, brief: str) -> None:
        """Put a recording in the place of the last one."""
        for log in self.folder.glob("a*.jsonl"):
            log.unlink()
        recorded(self.folder / "a.jsonl", [child("dig", [("search", "x")], brief=brief)])

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Run it in a process of its own."""
        argv = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",  # slow to load, and of no use there
            "-q",
            *options,
            "test_one.py",
        ]
        return subprocess.run(
            argv, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120
        )

    def texts(self) -> list[str]:
        """Return what was stored, by the names of the files."""
        stored = sorted((self.folder / "__snapshots__").rglob("*.delegation.txt"))
        return [path.read_text() for path in stored]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "test_one.py").write_text(TEST.format(log=str(tmp_path / "a.jsonl")))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    suite = Suite(tmp_path)
    suite.record("Dig.")
    return suite


def test_a_changed_delegation_fails_the_test_and_shows_the_line(suite: Suite) -> None:
    """What was stored passes; a change is shown as a line of text."""
    assert suite.run("--snapshot-update").returncode == 0
    assert len(suite.texts()) == 2
    assert "  → dig: completed\n        brief: Dig.\n" in suite.texts()[0]

    suite.record("Dig.")
    assert suite.run().returncode == 0

    suite.record("Dig deeper.")
    changed = suite.run()
    assert changed.returncode == 1
    assert "brief: Dig deeper." in changed.stdout


def test_what_changed_is_shown_without_being_asked_for(suite: Suite) -> None:
    """A section has the whole difference, in plain text; pytest's explanation is cut at 8 lines."""
    suite.run("--snapshot-update")
    suite.record("Dig deeper.")

    shown = suite.run("--color=yes").stdout.partition("delegation: what changed")[2]

    changed = "-        brief: Dig.\n+        brief: Dig deeper.\n"
    assert "--- the snapshot\n+++ this run\n" in shown
    assert changed in shown


def test_a_first_run_says_how_to_store_the_snapshot(suite: Suite) -> None:
    """And nothing is stored by itself."""
    first = suite.run()

    assert first.returncode == 1
    assert "run `pytest --snapshot-update` once and review the file" in first.stdout
    assert not (suite.folder / "__snapshots__").exists()


def test_a_failure_that_is_no_snapshots_has_no_section(suite: Suite) -> None:
    """A test may fail after its snapshot was right."""
    test = suite.folder / "test_one.py"
    test.write_text(test.read_text() + "    assert not 'another'\n")
    suite.run("--snapshot-update")

    failed = suite.run()

    assert failed.returncode == 1
    assert "what changed" not in failed.stdout


def test_without_syrupy_it_says_what_to_install(suite: Suite) -> None:
    failed = suite.run("-p", "no:syrupy")

    assert failed.returncode == 1
    assert "pip install 'refold[pytest]'" in failed.stdout


def test_a_start_of_pytest_imports_nothing_of_ours_but_the_plugin() -> None:
    """Nor syrupy: whoever does not ask for the fixture does not pay for it."""
    code = (
        "import sys, pytest; before = set(sys.modules); import refold.replay.pytest_plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    ours = {name for name in done.stdout.split() if name.startswith("refold")}
    assert ours == {"refold", "refold.replay", "refold.replay.pytest_plugin"}
    assert "syrupy" not in done.stdout
