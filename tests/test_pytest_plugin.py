"""The plugin's options, marker, fixtures and reports (CONTRACT.md §13.11 to §13.15)."""

import os
import shlex
import stat
import subprocess
import sys
from typing import Final

import pytest
from click.testing import CliRunner

from refold.cli.group import refold as cli
from tests.support.suites import TEST, Suite, one_line, run_here

pytest_plugins = ["pytester"]

SNAPSHOTS = """
from agent import dig, search

def test_dig(refold_run, delegation_snapshot, log_snapshot):
    recording = refold_run(dig, ["tin"], tools=[search])
    assert recording == delegation_snapshot
    assert recording.log == log_snapshot
    assert str(recording.log) == delegation_snapshot(name="again")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


# --- options and markers ---------------------------------------------------------------------


def test_a_mode_that_there_is_not_is_a_usage_error(suite: Suite) -> None:
    """The known ones are listed; nothing runs."""
    result = suite.run("--refold-record=onec")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "choose from" in result.stderr.str()
    assert suite.calls() == []


WRONG: Final = {
    "recrod='once'": "unknown argument 'recrod'; known: files, network, on_miss, record",
    "record='onec'": "record='onec': expected one of none, once, new_episodes, all, rewrite",
    "network=True": "network=True: expected one of none, loopback, any",
    "'once'": "only takes named arguments: files, network, on_miss, record",
    "tools=search": "tools: expected a list of tools",
    "tokens='no'": "tokens='no': expected one of True, False",
    "recordings=3": "recordings: expected a folder",
}


def test_a_wrong_marker_is_an_error_of_the_collection(suite: Suite) -> None:
    """Test and argument are named, and nothing runs."""
    for number, arguments in enumerate(WRONG):
        marked = f"import pytest\n\n@pytest.mark.refold({arguments})\ndef test"
        suite.write(**{f"test_{number}": TEST.replace("\ndef test", marked)})

    result = suite.run()

    assert result.ret == pytest.ExitCode.INTERRUPTED
    said = result.stdout.str()
    for number, problem in enumerate(WRONG.values()):
        assert f"test_{number}.py::test_dig: @pytest.mark.refold: {problem}" in said
    assert suite.calls() == []


def test_a_marker_says_how_a_test_is_recorded(suite: Suite) -> None:
    """Mode, tools for each run, and the folder; the nearest marker wins."""
    suite.write(
        test_it="""
import pytest
from agent import dig, search

pytestmark = pytest.mark.refold(record="none", recordings="taped")

@pytest.mark.refold(record="once", tools=[search])
def test_dig(refold_run):
    assert refold_run(dig, ["tin"]).ok
"""
    )

    suite.passes()

    assert (suite.folder / "taped" / "test_it" / "test_dig.jsonl").is_file()
    assert suite.calls() == ["search tin", "search gold"]


def test_an_ini_file_has_the_defaults_of_markers(suite: Suite) -> None:
    """The folder of recordings, too, where recordings that no test uses are listed."""
    ini = "[pytest]\nrefold_record = new_episodes\nrefold_recordings = taped\n"
    (suite.folder / "pytest.ini").write_text(ini)
    suite.passes()
    assert (suite.folder / "taped" / "test_it" / "test_dig.jsonl").is_file()

    suite.edit("test_it", "test_dig", "test_other")
    said = one_line(suite.run().stdout.str())

    assert "refold: unused recordings" in said
    assert "taped/test_it/test_dig.jsonl" in said


def test_the_command_line_has_the_last_word(suite: Suite) -> None:
    """A machine that must not record says so once."""
    suite.edit(
        "test_it", "\ndef test", "import pytest\n\n@pytest.mark.refold(record='all')\ndef test"
    )

    said = suite.fails("--refold-record=none")
    assert "no recording of this run" in said
    assert "renamed or moved, move its recording instead." in said
    assert suite.calls() == []


def test_the_marker_is_known_to_pytest(suite: Suite) -> None:
    """`--markers` explains it, and `--strict-markers` lets it pass."""
    assert "@pytest.mark.refold(record=None, tools=()," in suite.run("--markers").stdout.str()


# --- reports ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("suite")
def test_what_may_be_live_is_said_before_and_what_was_recorded_after(
    pytester: pytest.Pytester,
) -> None:
    """Nobody records without seeing it; a replay says nothing."""
    recording = run_here(pytester, "-pno:xdist", "--refold-record=once").stdout.str()
    replaying = run_here(pytester, "-pno:xdist").stdout.str()

    assert "refold: --refold-record=once, runs are live" in recording
    assert one_line(recording).count("recordings/test_it/test_dig.jsonl") == 1
    assert "refold:" not in replaying


def test_a_failing_test_prints_commands_that_reproduce_it(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case 108: the log stays, and each printed command does again what the test saw."""
    suite.record()
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    said = suite.run().stdout.str()

    _, _, section = said.partition("refold: reproduce")
    commands = [line for line in section.splitlines() if line.startswith(("pytest ", "refold "))]

    log = "recordings/test_it/test_dig.jsonl"
    assert commands == [
        "pytest test_it.py::test_dig --refold-record=none",
        f"refold show {log}",
        f"refold replay {log} --program agent.py:dig",
    ]
    _, *words = shlex.split(commands[0])
    again = suite.run(*words)
    monkeypatch.chdir(suite.folder)
    shown, replayed = (CliRunner().invoke(cli, shlex.split(each)[1:]) for each in commands[1:])
    assert (again.ret, shown.exit_code, replayed.exit_code) == (1, 0, 1)
    assert "args_changed" in again.stdout.str()
    assert "args_changed" in replayed.stdout


def test_a_test_that_fails_for_another_reason_says_how_to_reproduce_it_too(suite: Suite) -> None:
    """What it looked at is in its log."""
    suite.record()
    suite.edit("test_it", "assert recording.output", "assert not recording.output")

    assert "refold show recordings/test_it/test_dig.jsonl" in suite.fails()


def test_paths_are_those_of_where_pytest_was_started(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder the test is in, and whatever it does; a path is whole that leads up."""
    (suite.folder / "pytest.ini").write_text("[pytest]\n")
    (suite.folder / "sub").mkdir()
    monkeypatch.chdir(suite.folder / "sub")
    suite.edit("test_it", "(refold_run):", "(refold_run, monkeypatch):\n    monkeypatch.chdir('/')")

    said = one_line(suite.run("..").stdout.str())

    assert f"pytest {suite.folder}/test_it.py::test_dig --refold-record=once" in said


def test_a_test_that_passes_has_no_report(suite: Suite) -> None:
    """And one without recordings never has."""
    suite.write(test_it="def test_it(refold_run):\n    pass\n")

    assert "refold" not in suite.run("-rA").stdout.str().replace("refold-", "")


@pytest.mark.long
@pytest.mark.parametrize("workers", ["0", "2"])
def test_workers_record_side_by_side(workers: str, pytester: pytest.Pytester) -> None:
    """Each test has files of its own; the one report at the end lists them all (xdist)."""
    suite = Suite(pytester)
    suite.write(
        test_it="""
import pytest
from agent import dig, search

@pytest.mark.parametrize("number", range(6))
def test_dig(refold_run, number):
    assert refold_run(dig, [f"{number}"], tools=[search]).ok
"""
    )
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n")

    recorded = pytester.runpytest_subprocess(*options, "2", "--refold-record=once", timeout=120)
    old = ("--refold-older-than", "0")
    replayed = pytester.runpytest_subprocess(*options, workers, *old, timeout=120)

    roots = [f"recordings/test_it/test_dig[{number}].jsonl" for number in range(6)]
    recorded.assert_outcomes(passed=6)
    recorded.stdout.fnmatch_lines([root.replace("[", "[[]") for root in roots])
    replayed.assert_outcomes(passed=6)
    replayed.stdout.fnmatch_lines([f"0 days  {root.replace('[', '[[]')}" for root in roots])
    assert len(suite.logs()) == 12
    assert len(suite.calls()) == 12


# --- snapshots -------------------------------------------------------------------------------


def _stored(suite: Suite, suffix: str) -> list[str]:
    """Return what was stored, by the names of the files."""
    stored = sorted((suite.folder / "__snapshots__").rglob(f"*.{suffix}"))
    return [path.read_text(encoding="utf-8") for path in stored]


def test_snapshots_are_stored_when_asked_for_and_compared_from_then_on(suite: Suite) -> None:
    """A recording, its log and the log's path as text read the same."""
    suite.write(test_it=SNAPSHOTS)

    first = suite.fails("--refold-record=once")
    assert "there is no snapshot yet: create one, and review it: pytest test_it.py" in first
    assert not (suite.folder / "__snapshots__").exists()

    suite.passes("--snapshot-update")
    one, again = _stored(suite, "delegation.txt")
    assert one == again
    assert "  → digger: completed\n        brief: Dig.\n" in one
    (log,) = _stored(suite, "log.jsonl")
    assert (
        '{"call":"0#1","kind":"tool.returned","data":{"status":"ok","result":"found tin"}}' in log
    )
    suite.passes()


def test_two_recordings_that_did_the_same_have_one_snapshot(suite: Suite) -> None:
    """Times, ids, hashes and seeds differ, and are in neither text."""
    suite.write(test_it=SNAPSHOTS)
    suite.passes("--refold-record=once", "--snapshot-update")

    suite.passes("--refold-record=all")


def test_what_changed_is_shown_line_by_line(suite: Suite) -> None:
    """A section has the whole difference in plain text; pytest's explanation is cut at 8 lines."""
    suite.write(test_it=SNAPSHOTS.replace("    assert recording.log == log_snapshot\n", ""))
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    result = suite.run("--refold-record=rewrite", "--color=yes")

    shown = result.stdout.str().partition("delegation: what changed")[2]
    assert "--- the snapshot\n+++ this run\n" in shown
    assert "-        brief: Dig.\n+        brief: Dig deeper.\n" in shown


def test_a_changed_log_shows_the_entry(suite: Suite) -> None:
    """The log's snapshot has a section of its own; that clean-up fails, too, adds no other."""
    test = SNAPSHOTS.replace("    assert recording == delegation_snapshot\n", "")
    suite.write(test_it=test)
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.edit("agent", 'return f"found {query}"', 'return f"saw {query}"')
    suite.write(test_it=f"def teardown_function():\n    assert not 'clean'\n{test}")

    said = suite.run("--refold-record=rewrite").stdout.str()

    assert "assert not 'clean'" in said
    _, shown = said.split("log: what changed")
    assert (
        '-{"call":"0#1","kind":"tool.returned","data":{"status":"ok","result":"found tin"}}'
        in shown
    )
    assert (
        '+{"call":"0#1","kind":"tool.returned","data":{"status":"ok","result":"saw tin"}}' in shown
    )


ENDING = """
import pytest
from agent import digger, search

@pytest.fixture
def dug(refold_run):
    yield
    assert refold_run(digger, "tin", tools=[search]).ok
    assert refold_run(digger, "ore", tools=[search], name="last").ok

def test_it(dug, refold_run):
    refold_run(digger, "zinc", tools=[search])
"""


def test_runs_of_a_tear_down_are_replayed(suite: Suite) -> None:
    """§13.12: they are named apart, and one that is not made any more fails the test."""
    suite.write(test_it=ENDING)
    suite.record()
    names = ("test_it", "test_it-teardown_1", "test_it-teardown_last")
    assert suite.logs() == sorted(f"{name}.jsonl" for name in names)
    suite.calls()

    suite.passes()

    assert suite.calls() == []
    last = '    assert refold_run(digger, "ore", tools=[search], name="last").ok\n'
    suite.edit("test_it", last, "")
    assert "recordings that this test did not use:" in suite.fails()
    suite.passes("--refold-accept")
    assert suite.logs() == ["test_it-teardown_1.jsonl", "test_it.jsonl"]


SWALLOWING = """
import threading
import pytest
from agent import dig, search

def test_raises(refold_run):
    with pytest.raises(BaseException):
        refold_run(dig, ["tin"], tools=[search])
        raise ValueError

def test_thread(refold_run):
    thread = threading.Thread(target=lambda: refold_run(dig, ["tin"], tools=[search]))
    thread.start()
    thread.join()
"""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_test_that_swallows_a_divergence_fails_all_the_same(suite: Suite) -> None:
    """§13.12: also if it runs the program in a thread."""
    suite.write(test_it=SWALLOWING)
    suite.record()
    suite.edit("agent", "query=query)", "query=query + '!')")

    suite.run().assert_outcomes(failed=2)


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):  # as other plugins do
    if any(each.failed for each in runtestprotocol(item, log=False, nextitem=nextitem)):
        item._initrequest()
        runtestprotocol(item, nextitem=nextitem)
    return True
"""


def test_a_test_that_passes_at_its_second_attempt_is_recorded(suite: Suite) -> None:
    """§13.13: of the attempt that failed, nothing is left."""
    test = "from agent import digger, fails, search\n\ntried = []\n\ndef test_it(refold_run):\n"
    test += "    program = digger if tried else fails\n    tried.append(1)\n"
    test += "    assert refold_run(program, 'tin', tools=[search]).ok\n"
    suite.write(conftest=AGAIN, test_it=test)

    suite.record()

    assert suite.logs() == ["test_it.jsonl"]
    suite.edit("test_it", "if tried ", "if True ")
    suite.passes()


def test_a_failure_that_is_no_snapshots_has_no_section(suite: Suite) -> None:
    """A test may fail after its snapshots were right."""
    suite.write(test_it=SNAPSHOTS)
    suite.passes("--refold-record=once", "--snapshot-update")
    suite.write(test_it=SNAPSHOTS + "    assert not 'another'\n")

    said = suite.fails()

    assert "what changed" not in said


@pytest.mark.parametrize("fixture", ["delegation_snapshot", "log_snapshot"])
def test_a_syrupy_that_was_left_out_is_not_said_to_be_missing(fixture: str, suite: Suite) -> None:
    """The rest of the plugin needs none."""
    suite.write(test_it=f"def test_it(refold_run, {fixture}):\n    pass\n")

    said = one_line(suite.run("-p", "no:syrupy").stdout.str())

    assert f"{fixture} needs syrupy, but pytest has not loaded it: remove -p no:syrupy" in said


# --- what it costs ---------------------------------------------------------------------------


def test_a_start_of_pytest_imports_nothing_of_ours_but_the_plugin(suite: Suite) -> None:
    """Nor a library that we need: a run that uses nothing of Refold pays for one small file."""
    suite.write(test_it="import sys\n\ndef test_it():\n    print('loaded', *sys.modules)\n")
    argv = [sys.executable, "-m", "pytest", "-s", "-p", "refold.pytest_plugin", "test_it.py"]

    done = subprocess.run(
        argv,
        cwd=suite.folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    (line,) = [line for line in done.stdout.splitlines() if "loaded " in line]
    loaded = set(line.split())
    ours = {name for name in loaded if name.startswith("refold")}
    names = {"refold", "refold.engine", "refold.engine.lazy", "refold.pytest_plugin"}
    adapters = {"refold.adapters", "refold.engine.loop", "refold.engine.loop.frameworks"}
    assert ours == names | adapters  # names alone, that load later: no module that does anything
    heavy = {"attrs", "attr", "cattrs", "orjson", "syrupy", "structlog"}
    assert not loaded & (heavy | {"asyncio"} if sys.version_info < (3, 14) else heavy)  # for pdb


# --- pages of what failed --------------------------------------------------------------------


def test_a_failed_test_leaves_the_pages_of_its_logs(suite: Suite) -> None:
    """A replay that differs: of the recording. One that passes leaves none."""
    suite.record()
    suite.passes("--refold-html=pages")
    assert not (suite.folder / "pages").exists()
    suite.edit("agent", 'input="gold"', 'input="silver"')

    said = suite.fails("--refold-html=pages")

    (page,) = (suite.folder / "pages").iterdir()
    assert page.name in said
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    suite.fails("--refold-html=pages")
    assert [path.name for path in (suite.folder / "pages").iterdir()] == [page.name]


def test_a_page_that_cannot_be_written_is_said(suite: Suite) -> None:
    """A file of one's own stays; the report goes on where the folder is a file."""
    suite.record()
    suite.edit("agent", 'input="gold"', 'input="silver"')
    suite.fails("--refold-html=pages")
    (page,) = (suite.folder / "pages").iterdir()
    page.write_text("mine")

    foreign = suite.fails("--refold-html=pages")
    no_folder = suite.fails("--refold-html=agent.py")

    assert "this file is not html written by Refold" in foreign
    assert page.read_text() == "mine"
    assert "cannot write a page for" in no_folder
    assert "File exists" in no_folder


def test_the_page_of_a_run_recorded_anew_has_the_old_one_beside_it(suite: Suite) -> None:
    suite.record()
    suite.edit("agent", "return [*found, outcome.output]", 'raise LookupError("nothing")')

    suite.fails("--refold-record=rewrite", "--refold-html=pages")

    (page,) = (suite.folder / "pages").iterdir()
    assert "↔" in page.read_text(encoding="utf-8").partition("</title>")[0]
