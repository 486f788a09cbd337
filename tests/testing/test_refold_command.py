"""`refold_command`: a command of a test is recorded, and answered from its recording (§16.12)."""

from typing import Final

import pytest

from refold.engine.log.reader import read_entries
from tests.support.suites import one_line
from tests.support.upstream import Upstream
from tests.test_pytest_models import Watched, suite

pytest_plugins = ["pytester"]
__all__ = ["suite"]

AGENT: Final = """
import http.client, json, os, sys, urllib.parse

def ask(text, system):
    base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = http.client.HTTPConnection(base.netloc, timeout=60)
    asked = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    headers = {"authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    body = json.dumps({"model": "gpt-5-mini", "messages": asked})
    connection.request("POST", base.path + "/chat/completions", body, headers)
    return json.load(connection.getresponse())["choices"][0]["message"]["content"]

print(ask("Hello!", f"You are the weather desk of {os.getcwd()}{sys.stdin.read()}."))
"""
TEST: Final = """
import sys
from pathlib import Path
AGENT = [sys.executable, Path(__file__).with_name("agent.py")]

def test_ask(refold_command, tmp_path):
    done = refold_command(AGENT, cwd=tmp_path, env={"PYTHONPATH": str(Path(__file__).parent)})
    assert (done.exit_code, done.stdout) == (0, "Hello! Which city do you ask about?\\n")
"""
LOG: Final = "recordings/test_it/test_ask.command.jsonl"
NAMED: Final = "profile=str(Path(__file__).with_name('known.py')) + ':P', cwd=tmp_path"
KNOWN: Final = """
from refold.engine.observed.profile import Profile
P = Profile(name="P")
"""


@pytest.fixture
def commands(suite: Watched) -> Watched:
    suite.write(agent=AGENT, test_it=TEST.replace("cwd=tmp_path", NAMED), known=KNOWN)
    return suite


def test_a_command_is_recorded_once_and_replayed_with_the_model_off(commands: Watched) -> None:
    """In another folder each time; the recording verifies, and has what the command printed."""
    commands.record()
    assert (commands.asked, commands.logs()) == (1, ["test_ask.command.jsonl"])
    *_, end = read_entries(commands.folder / LOG)
    assert end.data["output"]["stdout"] == "Hello! Which city do you ask about?\n"

    commands.passes()


@pytest.mark.long
def test_a_changed_prompt_or_output_fails_with_what_changed(commands: Watched) -> None:
    """And the commands that show it again."""
    commands.record()
    commands.edit("agent", "weather desk of", "weather desk in")

    said = commands.fails()

    assert "[-of-]{+in+}" in said
    assert "pytest test_it.py::test_ask --refold-accept" in said
    assert f"refold replay {LOG} -- " in said

    commands.edit("agent", "weather desk in", "weather desk of")
    commands.edit("agent", "print(ask", "print('!', ask")
    assert "output_changed" in commands.fails()


@pytest.mark.long
def test_a_change_that_is_meant_is_accepted(commands: Watched) -> None:
    """What still replays is not asked again."""
    commands.record()
    assert commands.live("--refold-accept").ret == 0
    assert commands.asked == 0

    commands.edit("agent", "weather desk of", "weather desk in")
    assert commands.live("--refold-accept").ret == 0
    assert commands.asked == 1
    commands.passes()


@pytest.mark.long
def test_standard_input_and_variables_are_given(commands: Watched) -> None:
    """A replay sees another input; a terminal is never the command's."""
    commands.edit("test_it", "env={", "input=' of Oslo', env={")
    commands.record()
    commands.passes("-s")

    commands.edit("test_it", "of Oslo", "of Bergen")
    assert "[-Oslo.-]{+Bergen.+}" in commands.fails()


@pytest.mark.long
def test_several_commands_have_a_recording_each(commands: Watched) -> None:
    """By number, or by name; one that is not used fails the test."""
    again = "    env = {'PYTHONPATH': str(Path(__file__).parent)}\n"
    again += "    refold_command(AGENT, name='second', cwd=tmp_path, env=env)\n"
    source = (commands.folder / "test_it.py").read_text(encoding="utf-8")
    commands.write(test_it=source + again)
    commands.record()
    assert commands.logs() == ["test_ask.command-second.jsonl", "test_ask.command.jsonl"]

    commands.write(test_it=source)
    assert "recordings that this test did not use" in commands.fails()


@pytest.mark.long
def test_a_command_that_fails_is_a_recording_if_the_test_passes(commands: Watched) -> None:
    commands.edit("agent", "print(ask", "sys.exit(3 * len(ask")
    commands.edit("agent", '."))', '.")) // 35)')
    commands.edit("test_it", 'done.stdout) == (0, "Hello! Which city do you ask about?\\n")',
                  'done.stdout) == (3, "")')  # fmt: skip
    commands.record()
    assert commands.logs() == ["test_ask.command.jsonl"]

    commands.passes()

    commands.edit("test_it", "(3, ", "(4, ")
    assert commands.live("--refold-record=rewrite").ret == 1
    assert commands.logs() == ["test_ask.command.failed.jsonl", "test_ask.command.jsonl"]


@pytest.mark.long
def test_a_command_that_asks_nothing_is_no_recording(commands: Watched) -> None:
    """With what is likely to be why; a replay of it fails, too."""
    commands.record()
    commands.write(agent="print('Hello! Which city do you ask about?')")
    assert "unconsumed" in commands.fails()

    result = commands.live("--refold-record=all")

    assert result.ret == 1
    assert "sent no model requests, and exited with status 0: nothing connected" in one_line(
        result.stdout.str()
    )


@pytest.mark.long
@pytest.mark.parametrize("mode", ["none", "once"])
def test_without_a_recording_it_is_recorded_only_where_that_is_asked(
    mode: str, commands: Watched
) -> None:
    result = commands.live(f"--refold-record={mode}")

    assert (result.ret, commands.asked) == ((1, 0) if mode == "none" else (0, 1))
    if mode == "none":
        assert "no recording of this run" in one_line(result.stdout.str())


@pytest.mark.long
def test_what_it_returns_is_a_snapshot(commands: Watched) -> None:
    """Who asked what, of a recording and of its replay."""
    commands.edit("test_it", "tmp_path):", "tmp_path, delegation_snapshot):")
    source = (commands.folder / "test_it.py").read_text(encoding="utf-8")
    commands.write(test_it=source + "    assert done == delegation_snapshot\n")
    commands.record("once", "--snapshot-update")
    assert "(matched): completed" in commands.snapshots()

    commands.passes()


@pytest.mark.long
def test_a_command_is_not_led_through_the_proxy_of_the_session(commands: Watched) -> None:
    """Where a file of it names `refold_models`: requests go to where they went without that."""
    commands.write(test_other="def test_other(refold_models): pass\n")
    with Upstream() as upstream, pytest.MonkeyPatch.context() as patch:
        for name, value in upstream.environment().items():
            patch.setenv(name, value)
        result = commands.run("--refold-record=once", "-k", "ask")
        assert result.ret == 0, result.stdout.str()
        assert [each.headers["host"] for each in upstream.received] == [upstream.url[7:]]
