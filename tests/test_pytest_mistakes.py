"""Usual mistakes of tests that record and replay: each message says what, where and what to do."""

import re
import shlex
from collections.abc import Callable
from typing import Final

import pytest

from tests.support.loops import some
from tests.support.suites import Suite, one_line

pytest_plugins = ["pytester"]

HEAD: Final = """
import pytest
from agent import dig, fails, search
"""
CALLS: Final[dict[str, tuple[str, str]]] = {
    "one_tool": (
        "refold_run(dig, ['tin'], tools=search)",
        "refold_run(tools=…): expected a list: tools=[search]; found one tool",
    ),
    "two_tools": (
        "refold_run(dig, ['tin'], limits=3)",
        "refold_run(limits=…): expected refold.Limits(timeout_seconds=…); found int 3",
    ),
    "misspelled": (
        "refold_run(dig, ['tin'], modle=3)",
        "neither refold_run nor refold.record has an argument 'modle'",
    ),
    "input_by_name": (
        "refold_run(dig, input=['tin'])",
        "refold_run takes the input as its second positional argument",
    ),
    "own_log": (
        "refold_run(dig, ['tin'], log='a.jsonl')",
        "refold_run names the log after the test; use name=… to name its runs",
    ),
    "number_for_a_name": (
        "refold_run(dig, ['tin'], tools=[search], name='2')",
        "name='2': expected letters, digits and _, not starting with a digit",
    ),
    "name_twice": (
        "refold_run(dig, [], name='a', tools=[search]); refold_run(dig, [], name='a')",
        "name='a': another run of this test has the same name",
    ),
    "no_json": (
        "refold_run(dig, object(), tools=[search])",
        "input: expected a JSON value, an attrs class or a dataclass, found object",
    ),
    "no_program": (
        "refold_run(None, ['tin'])",
        "expected a function, module:name or file.py:name; found NoneType None",
    ),
    "output_as_tree": (
        "assert 'a text' == delegation_snapshot",
        "the path of a log or a delegation tree, found the text 'a text'; for other values",
    ),
    "number_as_tree": (
        "assert 3 == delegation_snapshot",
        "expected a recording, the path of a log or a delegation tree, found int; for other values",
    ),
    "recording_as_value": (
        "assert refold_run(dig, [], tools=[search]) == snapshot",
        "compare only its output, or use delegation_snapshot or log_snapshot",
    ),
    "models_asked_nothing": (
        "assert refold_models == delegation_snapshot",
        "there is no log before the first model request",
    ),
    "asserts_that_it_went_well": (
        "assert refold_run(fails, []).ok",
        "refold: failed: LookupError: nothing there (",
    ),
}


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    return Suite(pytester)


def failures(text: str) -> dict[str, str]:
    """Return what is told of each test that failed, by its name."""
    told = re.split(r"^_{3,} (?:ERROR at setup of )?test_(\w+) _{3,}$", text, flags=re.MULTILINE)
    return dict(zip(told[1::2], map(one_line, told[2::2]), strict=True))


def test_a_call_that_is_wrong_says_what_is_wrong_and_where(suite: Suite) -> None:
    """In the test's own line, and below it a command that shows the same again."""
    fixtures = "refold_run, refold_models, delegation_snapshot, snapshot"
    tests = [f"def test_{name}({fixtures}):\n    {call}\n" for name, (call, _) in CALLS.items()]
    suite.write(test_it="\n".join([HEAD, *tests]))

    found = failures(suite.run("--refold-record=once").stdout.str())

    assert set(found) == set(CALLS)
    for name, (call, message) in CALLS.items():
        assert message in found[name]
        assert f"> {call}" in found[name]
        assert "Restore the recording" not in found[name]
        again = "none" if name.startswith("recording") else "once"
        assert f"pytest test_it.py::test_{name} --refold-record={again}" in found[name]
        if "snapshot" not in call and "models" not in call:
            assert "/refold/" not in found[name].partition("Captured")[0]


def test_a_failed_run_is_told_with_the_log_that_there_is(suite: Suite) -> None:
    """The name under which it was written is gone by then."""
    suite.write(test_it=f"{HEAD}\ndef test_it(refold_run):\n    assert refold_run(fails, []).ok\n")

    said = suite.fails("--refold-record=once")

    (line,) = re.findall(r"refold: failed: \S+ nothing there \(\S+\) (\S+)", said)
    assert line == str(suite.recordings / "test_it.failed.jsonl")


def test_a_model_may_be_told_as_text(suite: Suite) -> None:
    """A replay opens none: it compares the name alone."""
    suite.write(script="", test_it=TEXT_MODEL.replace("MODEL", "scripted:replies.yaml"))
    (suite.folder / "replies.yaml").write_text("[Twice a day.]\n", encoding="utf-8")
    suite.passes("--refold-record=once")
    (suite.folder / "replies.yaml").unlink()

    suite.passes()

    suite.write(test_it=TEXT_MODEL.replace("MODEL", "openai:none-such"))
    assert '/models/: "scripted" → "openai:none-such"' in suite.fails()


TEXT_MODEL: Final = """
async def ask(run, question):
    return (await run.model([{"role": "user", "content": question}])).message["content"]

def test_it(refold_run):
    assert refold_run(ask, "How often?", model="MODEL").output == "Twice a day."
"""


@pytest.mark.parametrize(
    ("damage", "problem"),
    some(
        2,
        [
            (lambda log: log[:0], "the recording stops in the middle"),
            (lambda log: log[:400], "the recording stops in the middle"),
            (lambda log: log.replace(b"tin", b"ore"), "the line was altered or replaced"),
            (lambda log: log.replace(b"\n", b"\r\n"), "expected a line that ends in"),
            (lambda log: b"<<<<<<< HEAD\n" + log, "not a log: expected"),
        ],
    ),
)
def test_a_recording_that_is_damaged_says_how_to_get_one_again(
    suite: Suite, damage: Callable[[bytes], bytes], problem: str
) -> None:
    """Line ends that git changed are damage, too."""
    suite.record()
    log = suite.recordings / "test_dig.jsonl"
    log.write_bytes(damage(log.read_bytes()))

    said = suite.fails()

    assert f"{log}:" in said
    assert problem in said
    assert "Restore the recording from version control, with `recordings/** -text`" in said
    assert "or record it again: pytest test_it.py::test_dig --refold-accept" in said


TWICE: Final = """
from agent import dig, search

def test_it(refold_run, delegation_snapshot, log_snapshot):
    one = refold_run(dig, ["tin"], tools=[search], name="a")
    two = refold_run(dig, ["a", "b"], tools=[search], name="b")
    assert one == FIXTURE(name="one")
    assert ASSERTED
"""


@pytest.mark.parametrize("fixture", some(1, ["delegation_snapshot", "log_snapshot"]))
def test_a_name_for_two_snapshots_is_named(suite: Suite, fixture: str) -> None:
    """An update kept the last one alone. The same value twice, and `!=`, are meant so."""
    twice = TWICE.replace("FIXTURE", fixture)
    two = twice.replace("ASSERTED", f"two == {fixture}(name='one')")
    message = f"{fixture}: test_it[one] is the name of two different snapshots: pass a name"
    suite.write(test_it=twice.replace("ASSERTED", f"one == {fixture}(name='one')"))
    suite.passes("--refold-record=once", "--snapshot-update")

    suite.write(test_it=twice.replace("ASSERTED", f"two != {fixture}(name='one')"))
    suite.passes()
    suite.write(test_it=two)
    said = one_line(suite.fails())
    updated = one_line(suite.fails("--snapshot-update"))

    assert message in said
    assert message in updated
    assert "update the snapshot" not in said


def test_an_unknown_mode_is_a_usage_error(suite: Suite) -> None:
    """On the command line and in an ini file; the known ones are listed."""
    (suite.folder / "pytest.ini").write_text("[pytest]\nrefold_record = new\n")
    for result in (suite.run("--refold-record=new"), suite.run()):
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert re.search("'new'.*new_episodes", result.stderr.str())


@pytest.mark.long
def test_a_case_of_any_name_can_be_typed_again(suite: Suite) -> None:
    """What is printed is quoted for a shell, and finds the same test."""
    cases = ["a/b", "", "é", "a::b", "new\nline", "-k", "$HOME", "'q'", "x" * 300]
    suite.write(
        test_it=f"{HEAD}\n@pytest.mark.parametrize('case', {cases!r})\n"
        "def test_it(refold_run, case):\n    refold_run(dig, [case], tools=[search])\n"
    )
    suite.passes("--refold-record=once")
    suite.edit("agent", 'brief="Dig."', 'brief="Dig deeper."')
    said = suite.run().stdout.str()
    (command,) = [line for line in said.splitlines() if line.startswith("  pytest ")]

    suite.passes(*shlex.split(command)[1:])

    suite.passes()
