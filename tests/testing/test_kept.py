"""Recordings that no test uses, and old ones, are named (CONTRACT.md §13.12)."""

import re
import shlex
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from refold.cli.group import refold
from refold.engine.log.line import NO_HASH, TRAILER, trailer
from tests.support.suites import TEST, Suite

pytest_plugins = ["pytester"]

TITLE = "refold: unused recordings"
TESTS = """
import pytest
from click.testing import CliRunner

from refold.cli.group import refold
from refold.engine.log.line import NO_HASH, TRAILER, trailer
from agent import dig, search

@pytest.mark.parametrize("what", ["tin", "a b-2"])
def test_dig(refold_run, what):
    refold_run(dig, [what], tools=[search])
    refold_run(dig, [what], tools=[search])
    refold_run(dig, [what], tools=[search], name="named")

class TestOther:
    class TestIt:
        def test_dig(self, refold_run):
            refold_run(dig, ["ore"], tools=[search])

class TestIt:
    @pytest.mark.refold(recordings="taped")
    def test_dig(self, refold_run):
        refold_run(dig, ["coal"], tools=[search])

def test_other():
    pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    suite = Suite(pytester)
    suite.write(test_it=TESTS, test_gone=TESTS, test_other="def test_other():\n    pass\n")
    suite.passes("--refold-record=once")
    return suite


def named(suite: Suite, *options: str) -> list[str]:
    """Return what is named, after its folder."""
    _, _, below = suite.run(*options).stdout.str().partition(f"= {TITLE} =")
    lines = below.partition("To remove them:")[0].splitlines()[1:]
    return [name for line in lines for name in shlex.split(line)]


@pytest.mark.long
def test_what_every_test_uses_is_not_named(suite: Suite) -> None:
    """Second and named runs, cases, classes, other folders."""
    assert named(suite) == []


@pytest.mark.long
def test_recordings_of_tests_that_are_gone_are_named(suite: Suite) -> None:
    """Of a case, of a test, of a file; nothing is removed, and the command that does is printed."""
    suite.edit("test_it", '"tin", ', "")
    suite.edit("test_it", "\nclass TestIt", "\nclass TestThat")
    (suite.folder / "test_gone.py").unlink()
    before = sorted(suite.folder.rglob("*.jsonl"))

    found = named(suite, ".")

    assert found == [
        "recordings/test_gone/TestOther.TestIt.test_dig.jsonl",
        "recordings/test_gone/test_dig[a_b-2~53774014]-2.jsonl",
        "recordings/test_gone/test_dig[a_b-2~53774014]-named.jsonl",
        "recordings/test_gone/test_dig[a_b-2~53774014].jsonl",
        "recordings/test_gone/test_dig[tin]-2.jsonl",
        "recordings/test_gone/test_dig[tin]-named.jsonl",
        "recordings/test_gone/test_dig[tin].jsonl",
        "recordings/test_it/test_dig[tin]-2.jsonl",
        "recordings/test_it/test_dig[tin]-named.jsonl",
        "recordings/test_it/test_dig[tin].jsonl",
        "taped/test_gone/TestIt.test_dig.jsonl",
        "taped/test_it/TestIt.test_dig.jsonl",
    ]
    assert sorted(suite.folder.rglob("*.jsonl")) == before
    suite.passes("--refold-record=once")


@pytest.mark.parametrize("where", ["../recordings", "{}/recordings"])
def test_a_folder_that_tests_share_is_left_out(pytester: pytest.Pytester, where: str) -> None:
    """`pytest one` collects not all tests whose recordings lie there."""
    suite = Suite(pytester)
    suite.write(conftest="")  # so that the tests find the agent
    mark = f"pytestmark = __import__('pytest').mark.refold(recordings={where!r})\n"
    for name in ("one", "two"):
        (suite.folder / name).mkdir()
        suite.write(**{f"{name}/test_{name}": mark.format(suite.folder) + TEST})
    suite.passes("--refold-record=once", "one", "two")

    assert named(suite, "one") == []


@pytest.mark.long
def test_the_command_that_is_printed_removes_them(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.edit("test_it", '"tin", ', "")
    said = suite.run().stdout.str()
    (command,) = [line for line in said.splitlines() if line.startswith("  refold rm ")]

    monkeypatch.chdir(suite.folder)
    assert CliRunner().invoke(refold, shlex.split(command)[1:]).exit_code == 0

    assert named(suite) == []
    assert not list(suite.recordings.glob("*tin*"))


@pytest.mark.long
def test_a_run_of_some_tests_names_none(suite: Suite) -> None:
    """What the others use is not known; a file that is left out is there all the same."""
    suite.edit("test_it", '"tin", ', "")

    for options in (
        ("-k", "other"),
        ("test_it.py::test_other",),
        ("test_other.py",),
        ("--deselect", "test_it.py::test_dig"),
        ("--ignore", "test_it.py"),
        ("-m", "refold"),
    ):
        assert named(suite, *options) == [], options
    assert named(suite) != []


@pytest.mark.long
def test_a_run_of_those_that_failed_names_none(suite: Suite, pytester: pytest.Pytester) -> None:
    """The cache leaves out files of tests that passed, and says nothing of it."""
    suite.edit("test_other", "pass", "assert False")
    plain = ("-p", "no:hypothesispytest", "-p", "no:xdist")
    pytester.runpytest_inprocess(*plain)
    suite.edit("test_it", '"tin", ', "")

    assert TITLE not in pytester.runpytest_inprocess(*plain, "--lf").stdout.str()
    assert TITLE in pytester.runpytest_inprocess(*plain, "--ff").stdout.str()


@pytest.mark.long
def test_a_file_that_is_skipped_or_broken_keeps_its_recordings(suite: Suite) -> None:
    suite.write(test_it="import pytest\npytest.importorskip('nothing_of_that_name')\n")
    assert named(suite) == []

    suite.write(test_it="1 / 0\n")
    assert named(suite, "--continue-on-collection-errors") == []


@pytest.mark.long
def test_what_failed_of_a_test_that_is_gone_is_named_and_what_is_no_log_is_not(
    suite: Suite,
) -> None:
    (suite.recordings / "test_dig[tin].failed.jsonl").write_bytes(
        (suite.recordings / "test_dig[tin].jsonl").read_bytes()
    )
    (suite.recordings / ".test_was~12ab.jsonl").write_bytes(  # that another process is writing
        (suite.recordings / "test_dig[tin].jsonl").read_bytes()
    )
    (suite.recordings / "cassette.jsonl").write_text('{"request": 1}\n', encoding="utf-8")
    assert named(suite) == []

    (suite.recordings / "test_dig[tin].failed.jsonl").rename(
        suite.recordings / "test_was.failed.jsonl"
    )
    assert named(suite) == ["recordings/test_it/test_was.failed.jsonl"]


@pytest.mark.long
def test_what_models_were_asked_is_its_tests(suite: Suite) -> None:
    """`refold_models` calls its recordings otherwise."""
    source = suite.recordings / "test_dig[tin].jsonl"
    (suite.recordings / "test_asks.models.jsonl").write_bytes(source.read_bytes())
    suite.write(test_it=f"{TESTS}\ndef test_asks(refold_models):\n    pass\n")
    assert named(suite) == []

    suite.write(test_it=TESTS)
    assert named(suite) == ["recordings/test_it/test_asks.models.jsonl"]


@pytest.mark.long
def test_a_test_that_may_ask_for_the_fixture_keeps_its_recording(suite: Suite) -> None:
    """By name, which only its run shows; another that has no use for it does not."""
    suite.edit("test_it", "def test_dig(refold_run, what):", "def test_dig(request, what):")
    assert named(suite) == []

    suite.edit("test_it", "def test_dig(request, what):", "def test_dig(what):")
    assert len(named(suite)) == 6


@pytest.mark.long
def test_workers_name_them_once(suite: Suite, pytester: pytest.Pytester) -> None:
    suite.edit("test_it", '"tin", ', "")
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2")

    said = pytester.runpytest_subprocess(
        *options, "--refold-older-than=0", timeout=120
    ).stdout.str()

    _, _, below = said.partition(f"= {TITLE} =")
    assert below.count("\n'recordings/test_it/test_dig[tin].jsonl'\n") == 1
    assert said.count("0 days  ") == 13


@pytest.mark.long
def test_old_recordings_are_listed_with_their_age(suite: Suite) -> None:
    """Those of the selected tests, by when the run began: the file's own time is another's."""
    log = suite.recordings / "test_dig[tin].jsonl"
    aged(log, days=40.5)
    aged(suite.recordings / "test_dig[tin]-2.jsonl", days=1.5)

    said = suite.run("--refold-older-than=1", "--collect-only").stdout.str()
    _, _, below = said.partition("= refold: old recordings =")
    assert below.splitlines()[1:3] == [
        "40 days  recordings/test_it/test_dig[tin].jsonl",
        "1 day  recordings/test_it/test_dig[tin]-2.jsonl",
    ]
    assert "days  " not in suite.run("--refold-older-than=41").stdout.str()
    assert "days  " not in suite.run("--refold-older-than=1", "-k", "test_other").stdout.str()
    assert "refold: old recordings" not in suite.run().stdout.str()


def aged(log: Path, *, days: float) -> None:
    """Have a log say that it was begun so long ago."""
    at = int((time.time() - days * 86_400) * 1e6)
    first, rest = log.read_bytes().split(b"\n", 1)
    body = re.sub(rb'"wall_us":\d+', b'"wall_us":%d' % at, first)[: 1 - TRAILER]
    log.write_bytes(body + trailer(NO_HASH, body) + rest)
