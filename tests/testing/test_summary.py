"""What stops several tests is said once (CONTRACT.md §13.12)."""

import re
from xml.etree import ElementTree as ET

import pytest

from tests.support.loops import some
from tests.support.suites import Suite

pytest_plugins = ["pytester"]

TESTS = """
import pytest
from agent import dig, search

@pytest.mark.parametrize("what", ["tin", "lead", "a b"])
def test_dig(refold_run, what):
    refold_run(dig, [what], tools=[search])

def test_own(refold_run):
    output = None

    output = refold_run(dig, ["coal"], tools=[search]).output
    assert output == ["found coal", "found gold"]

def test_another():
    pass
"""
DIFFERENCE = '/arguments/brief: "Dig." → "Dig deeper."'
POINTER = 'see "refold: one change breaks 4 tests" below'
COMMAND = (
    "  pytest 'test_it.py::test_dig[a b]' 'test_it.py::test_dig[lead]' "
    "'test_it.py::test_dig[tin]' test_it.py::test_own --refold-accept\n"
)


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    suite = Suite(pytester)
    suite.write(test_it=TESTS)
    suite.passes("--refold-record=once")
    return suite


@pytest.mark.parametrize("style", some(1, ["auto", "short", "line"]))
def test_what_stops_several_tests_is_explained_once(
    suite: Suite, style: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failure has the category and points there; one command accepts it for all of them."""
    monkeypatch.setenv("CI", "true")  # where pytest's last lines have whole messages
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    said = suite.run(f"--tb={style}").stdout.str()

    failures, _, below = said.partition("= refold: one change breaks 4 tests =")
    assert "FAILURES" in failures
    assert failures.count("args_changed: a call is made with different arguments\n") >= 4
    assert failures.count(POINTER) == 4
    assert "/arguments/brief" not in failures
    assert "--refold-accept" not in failures
    if style == "auto":
        assert re.search(r"    output = None\n *\n>   +output =", failures)  # as pytest shows it
    assert below.count(DIFFERENCE) == 1
    assert below.count("--refold-accept") == 1
    assert "\nIt stops:\n  'test_it.py::test_dig[a b]'\n" in below
    assert COMMAND in below
    assert below.index(COMMAND) < below.index("short test summary")


def test_a_change_that_stops_one_test_is_explained_there(suite: Suite) -> None:
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    said = suite.run("-k", "own").stdout.str()

    assert said.partition("short test summary")[0].count(DIFFERENCE) == 1
    assert "refold: one change" not in said


@pytest.mark.long
def test_two_changes_are_two(suite: Suite) -> None:
    """Each with its tests."""
    source = TESTS.replace('["tin", "lead", "a b"]', '["tin", "lead", "a b", "ore", "clay"]')
    suite.write(test_it=source)
    suite.passes("--refold-record=once")
    deeper = 'brief="Dig deeper." if {"tin", "lead"} & {*queries} else "Dig wider."'
    suite.edit("agent", 'brief="Dig."', deeper)

    said = suite.run().stdout.str()

    titles = re.findall(r"= (refold: change .+?) =", said)
    assert titles == ["refold: change 1 breaks 2 tests", "refold: change 2 breaks 4 tests"]
    assert said.count('see "refold: change 1 breaks 2 tests" below') == 2


def test_other_failures_are_left_alone(suite: Suite) -> None:
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    suite.edit("test_it", "    pass", "    assert 'one' == 'two'")

    said = suite.run().stdout.str()

    assert "E       AssertionError: assert 'one' == 'two'" in said
    assert POINTER in said


def test_a_report_for_machines_has_each_failure_whole(suite: Suite) -> None:
    """It shows one test at a time."""
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')

    suite.run("--junitxml=report.xml")

    cases = ET.parse(suite.folder / "report.xml").findall(".//testcase/failure")
    assert len(cases) == 4
    assert all(DIFFERENCE in (case.text or "") for case in cases)


@pytest.mark.long
def test_workers_explain_it_once(suite: Suite, pytester: pytest.Pytester) -> None:
    """Whichever of them ran a test (xdist)."""
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-n", "2")

    said = pytester.runpytest_subprocess(*options, timeout=120).stdout.str()

    assert said.count(DIFFERENCE) == 1
    assert said.count(POINTER) == 4
    assert COMMAND in said
