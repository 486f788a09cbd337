"""Snapshots of tests that fail, and `--refold-accept` (CONTRACT.md §13.10 to §13.13)."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support.suites import Suite

pytest_plugins = ["pytester"]

SNAPSHOTS = """
import pytest
from agent import dig, search

@pytest.mark.parametrize("what", ["tin", "a b"])
def test_dig(refold_run, delegation_snapshot, snapshot, what):
    recording = refold_run(dig, [what], tools=[search])
    assert recording == delegation_snapshot
    assert recording == delegation_snapshot(name="again")
    assert recording.output == snapshot
    assert len(recording.output) == 2

def test_another(refold_run, snapshot):
    assert refold_run(dig, ["coal"], tools=[search]).output == snapshot
"""
UNUSED = re.compile(r"\bsnapshots? unused\b")  # syrupy's own words


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # or syrupy has no report of its own
    suite = Suite(pytester)
    suite.write(test_it=SNAPSHOTS)
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.calls()
    return suite


def stored(suite: Suite) -> dict[str, str]:
    """Return all that lies in the suite's folders of snapshots and recordings."""
    files = [
        path
        for folder in ("__snapshots__", "recordings")
        for path in (suite.folder / folder).rglob("*")
        if path.is_file() and ".failed." not in path.name
    ]
    return {str(path.relative_to(suite.folder)): path.read_text("utf-8") for path in files}


def test_a_snapshot_without_words_survives_a_new_recording(suite: Suite) -> None:
    """And no other delegation."""
    suite.write(
        test_it=SNAPSHOTS.replace("(name=", "(words=False, name=").replace(
            "recording == delegation_snapshot\n", "recording\n"
        ).replace("    assert recording.output == snapshot\n", "")
    )  # fmt: skip
    suite.passes("--refold-record=all", "--snapshot-update")

    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    suite.passes("--refold-record=all")

    suite.edit("agent", "program=digger", "program=digger, limits=refold.Limits(max_children=3)")
    assert "limits: max_children 3" in suite.fails("--refold-record=all")


# --- snapshots of tests that fail ------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        (),
        *(
            pytest.param(words, marks=pytest.mark.long)
            for words in [("-k", "test_dig"), ("test_it.py::test_dig",), ("-x",)]
        ),
    ],
)
def test_a_replay_that_fails_leaves_no_snapshot_unused(
    suite: Suite, options: tuple[str, ...]
) -> None:
    """Of parametrised tests and named snapshots, in files of their own or in one of all tests."""
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    said = suite.fails(*options)

    assert not UNUSED.search(said)


def test_what_fails_keeps_its_snapshots_when_others_are_updated(suite: Suite) -> None:
    """A user who did as he was told lost them."""
    before = stored(suite)
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    suite.fails("--snapshot-update")

    assert stored(suite) == before


ODD = """
import pytest
from agent import dig, search

@pytest.mark.parametrize("what", ["a/b", "a:b", "ab", "\u00fc" * 120, "\u00fc" * 120 + "x"])
def test_odd(refold_run, delegation_snapshot, log_snapshot, what):
    recording = refold_run(dig, [what], tools=[search])
    assert recording == delegation_snapshot
    assert recording == log_snapshot
"""


@pytest.mark.long
def test_cases_whose_names_no_file_may_have_keep_snapshots_of_their_own(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§13.10: two shared a file, and `--snapshot-update` removed those of a test that fails."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    suite = Suite(pytester)
    suite.write(test_odd=ODD)
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.passes()
    before = stored(suite)
    assert len([name for name in before if name.startswith("__snapshots__")]) == 10
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    suite.fails("--snapshot-update")
    assert stored(suite) == before

    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2")
    pytester.runpytest_subprocess(*options, "--snapshot-update", timeout=120)
    assert stored(suite) == before


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    [
        ("    recording = refold_run", "    assert what == 'lead'\n    recording = refold_run"),
        ("def test_dig(", "@pytest.fixture\ndef broken():\n    1 / 0\n\ndef test_dig(broken, "),
    ],
)
def test_what_fails_before_or_when_it_is_set_up_keeps_them_too(
    suite: Suite, change: tuple[str, str]
) -> None:
    if "broken" in change[1]:
        suite.edit("test_it", '\n@pytest.mark.parametrize("what", ["tin", "a b"])', "")
        suite.edit("test_it", "snapshot, what)", "snapshot, what=None)")
    suite.edit("test_it", *change)

    assert not UNUSED.search(suite.run().stdout.str())


FIXTURE = """
import pytest
from agent import dig, search

@pytest.fixture
def recording(refold_run):
    made = refold_run(dig, ["tin"], tools=[search])
    return made

def test_it(recording, delegation_snapshot, log_snapshot):
    assert recording == delegation_snapshot
    assert recording == log_snapshot
"""
LOST = {
    "its set-up fails": ("test_it", "    return made", "    1 / 0"),
    "it no longer replays": ("agent", 'brief="Dig."', 'brief="Dig deeper."'),
    "it is skipped": ("test_it", "def test_it", "@pytest.mark.skip\ndef test_it"),
    "it is not run": ("test_it", "def test_it", "@pytest.mark.xfail(run=False)\ndef test_it"),
    "its set-up skips": ("test_it", "    return made", "    pytest.skip()"),
    "it fails before its snapshots": ("test_it", "    assert rec", "    1 / 0\n    assert rec"),
    "its file cannot be imported": ("test_it", "import dig,", "import no_such_name, dig,"),
    "its marker is wrong": ("test_it", "def test_it", "@pytest.mark.refold(a=1)\ndef test_it"),
    "its tear-down fails": ("test_it", "    return made", "    yield made\n    1 / 0"),
}


@pytest.mark.long
@pytest.mark.parametrize("change", LOST.values(), ids=LOST)
def test_snapshots_that_no_assertion_reads_are_kept(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, str, str],
) -> None:
    """§13.12: of a fixture's recording, where no other test tells syrupy of such snapshots."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    suite = Suite(pytester)
    suite.write(test_it=FIXTURE)
    suite.passes("--refold-record=once", "--snapshot-update")
    before = stored(suite)
    suite.edit(*change)

    said = suite.run("--snapshot-update", "--continue-on-collection-errors").stdout.str()

    assert stored(suite) == before
    assert not re.search(r"snapshots? (unused|deleted)|refold rm", said)


def test_a_file_that_skips_itself_costs_no_snapshot(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§13.12: such as one whose library is not installed here."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    suite = Suite(pytester)
    suite.write(test_it=FIXTURE, test_two=FIXTURE)
    suite.passes("--refold-record=once", "--snapshot-update")
    before = stored(suite)
    suite.edit("test_two", "import pytest", "import pytest; pytest.importorskip('none')")

    suite.passes("--snapshot-update")

    assert stored(suite) == before


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--continue-on-collection-errors",)])
def test_a_file_that_cannot_be_imported_costs_no_snapshot(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    """§13.12: neither its own nor those of the others, whether pytest runs these or not."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    suite = Suite(pytester)
    suite.write(test_it=FIXTURE, test_two=FIXTURE)
    suite.passes("--refold-record=once", "--snapshot-update")
    before = stored(suite)
    suite.edit("test_two", "import pytest", "import no_such_module")

    said = suite.run("--snapshot-update", *options).stdout.str()

    assert "No module named 'no_such_module'" in said
    assert "refold rm" not in said
    assert stored(suite) == before


def test_a_test_whose_tear_down_fails_is_not_accepted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """§13.13: neither its recording nor its snapshot."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    suite = Suite(pytester)
    suite.write(
        test_it="""
import pytest
from agent import dig, search

@pytest.fixture
def broken():
    yield

def test_it(refold_run, broken, delegation_snapshot):
    assert refold_run(dig, ["tin"], tools=[search]) == delegation_snapshot
"""
    )
    suite.passes("--refold-record=once", "--snapshot-update")
    before = stored(suite)
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    suite.edit("test_it", "    yield", "    yield\n    1 / 0")

    said = suite.run("--refold-accept").stdout.str()

    assert stored(suite) == before
    assert (
        "not used, because the test did not pass: recordings/test_it/test_it.failed.jsonl" in said
    )
    suite.edit("test_it", "    1 / 0", "")
    suite.passes("--refold-accept")
    assert stored(suite) != before


def test_a_snapshot_that_nobody_reads_any_more_is_still_unused(suite: Suite) -> None:
    """Of a test that passes."""
    suite.edit("test_it", '    assert recording == delegation_snapshot(name="again")\n', "")

    said = suite.fails()

    assert "2 snapshots unused" in said


@pytest.mark.long
def test_workers_leave_no_snapshot_unused(suite: Suite, pytester: pytest.Pytester) -> None:
    """Their reports are put together by another process (xdist)."""
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    for more in ((), ("-x",)):
        options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2", *more)
        said = pytester.runpytest_subprocess(*options, timeout=120).stdout.str()

        assert "failed" in said
        assert not UNUSED.search(said)


# --- one command accepts a change ------------------------------------------------------------


@pytest.mark.long
def test_the_command_that_is_printed_accepts_recording_and_snapshots(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of that test alone, and it can be copied: a case with a space, from another folder."""
    (suite.folder / "pytest.ini").write_text("[pytest]\n")
    (suite.folder / "sub").mkdir()
    monkeypatch.chdir(suite.folder / "sub")
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    before = stored(suite)
    said = suite.run("../test_it.py::test_dig[a b]").stdout.str()
    (line,) = {
        each.strip() for each in said.splitlines() if "a b]" in each and "--refold-accept" in each
    }

    words = shlex.split(line.removeprefix("E").strip())
    assert words[0] == "pytest"
    suite.passes(*words[1:])

    after = stored(suite)
    changed = {name for name in before if before[name] != after.get(name)}
    assert changed
    assert all("[a b]" in name or "[a_b~" in name for name in changed)
    assert sum("__snapshots__" in name for name in changed) == 2
    suite.passes(words[1])


def test_what_still_replays_is_not_recorded_anew(suite: Suite) -> None:
    """A snapshot that changed by itself is updated all the same: no model is asked for it."""
    before = stored(suite)
    name = "__snapshots__/test_it/test_dig[tin].delegation.txt"
    (suite.folder / name).write_text("another\n", encoding="utf-8")

    suite.passes("--refold-accept")

    assert stored(suite) == before
    assert suite.calls() == []


@pytest.mark.long
@pytest.mark.parametrize("at", ["    assert len(recording.output) == 2", "    assert recording =="])
def test_a_test_that_fails_for_another_reason_keeps_recording_and_snapshots(
    suite: Suite, at: str
) -> None:
    """Neither is written, and neither is said to be."""
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    suite.edit("agent", 'return f"found {query}"', 'return f"saw {query}"')
    source = (suite.folder / "test_it.py").read_text(encoding="utf-8")
    suite.write(test_it=source.replace(at, f"    assert not recording\n{at}", 1))
    before = stored(suite)

    said = suite.fails("--refold-accept", "-k", "test_dig")

    assert stored(suite) == before
    assert "updated" not in said
    assert ("6 snapshots failed" in said) == ("len" in at)
    assert "one change breaks" not in said
    assert "pytest 'test_it.py::test_dig[a b]' --refold-accept" in said
    assert (
        "not used, because the test did not pass: recordings/test_it/test_dig[tin].failed" in said
    )


def test_snapshots_of_tests_without_recordings_are_not_touched(suite: Suite) -> None:
    source = (suite.folder / "test_it.py").read_text(encoding="utf-8")
    suite.write(test_it=source + "\ndef test_own(snapshot):\n    assert 'another' == snapshot\n")

    assert "1 snapshot failed" in suite.fails("--refold-accept")


def test_a_mode_beside_it_is_a_usage_error(suite: Suite) -> None:
    result = suite.run("--refold-accept", "--refold-record=once")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "cannot be used with --refold-record" in result.stderr.str()


@pytest.mark.long
def test_a_recording_that_is_damaged_is_accepted_anew(suite: Suite) -> None:
    log = suite.recordings / "test_another.jsonl"
    log.write_bytes(log.read_bytes().replace(b"coal", b"goal"))

    suite.passes("--refold-accept")

    assert suite.calls() == ["search coal", "search gold"]
    suite.passes()


def test_a_test_case_that_fails_is_not_recorded(suite: Suite) -> None:
    """Its failure is not raised: unittest keeps it."""
    suite.write(
        test_it="""
import unittest
import pytest
from agent import fails

class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def runs(self, refold_run):
        self.refold_run = refold_run

    def test_it(self):
        self.refold_run(fails, [])
        self.fail("another reason")
"""
    )

    suite.fails("--refold-record=once")

    assert [name for name in suite.logs() if name.startswith("TestIt")] == [
        "TestIt.test_it.failed.jsonl"
    ]
    assert not Path(suite.recordings / "TestIt.test_it.jsonl").exists()


def test_a_test_with_a_subtest_that_fails_is_not_accepted(pytester: pytest.Pytester) -> None:
    """Each subtest has a report of its own, and that of the test says that it passed."""
    suite = Suite(pytester)
    suite.write(
        test_it="""
import pytest
from agent import dig, search

@pytest.mark.parametrize("what", ["coal", "tin"])
def test_it(refold_run, subtests, what):
    recording = refold_run(dig, [what], tools=[search])
    with subtests.test("the first"):
        assert recording.output[0] in (f"found {what}", "saw tin")
    with subtests.test("another"):
        pytest.skip("nothing")
"""
    )
    suite.passes("--refold-record=once")
    before = stored(suite)
    suite.edit("agent", 'return f"found {query}"', 'return f"saw {query}"')
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    suite.fails("--refold-accept")

    changed = {name for name, text in stored(suite).items() if before.get(name) != text}
    assert changed == {f"recordings/test_it/test_it[tin]{end}.jsonl" for end in ("", ".1")}


@pytest.mark.long
def test_a_run_with_a_session_is_accepted_anew(suite: Suite) -> None:
    """A replay would have filled its session."""
    suite.write(
        test_it="""
import refold
from agent import dig, search

def test_it(refold_run):
    assert refold_run(dig, ["tin"], tools=[search], session=refold.Session()).ok
"""
    )
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.calls()

    suite.passes("--refold-accept")

    assert suite.calls() == ["search tin", "search gold"]
    suite.passes()
