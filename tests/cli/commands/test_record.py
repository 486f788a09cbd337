"""`refold record` as it is typed: what it says, and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.support.proxied import data_of
from tests.support.upstream import Upstream

ASKS = """
import http.client, json, os, urllib.parse
base = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
connection = http.client.HTTPConnection(base.netloc, timeout=60)
body = {"model": "m", "messages": [
    {"role": "system", "content": "the weather desk"}, {"role": "user", "content": "Hello"}]}
connection.request(
    "POST", base.path + "/chat/completions", json.dumps(body), {"authorization": "Bearer k"})
print(connection.getresponse().status)
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def test_it_says_where_it_recorded(invoke: Invoke, tmp_path: Path) -> None:
    """On standard error: standard output is the command's."""
    with Upstream() as upstream:
        done = invoke("record", "--upstream", upstream.openai_url, "--", sys.executable, "-c", ASKS)
    (log,) = (tmp_path / "runs").glob("*.jsonl")

    assert (done.exit_code, done.stdout) == (0, "200\n")
    assert f"recorded in runs/{log.name}" in done.stderr
    assert "no request came by" not in done.stderr


def test_it_ends_as_the_command_does(invoke: Invoke) -> None:
    assert invoke("record", "--log", "run.jsonl", "--", "sh", "-c", "exit 9").exit_code == 9


def test_options_of_the_command_are_the_commands(invoke: Invoke) -> None:
    """With and without `--` before it."""
    for dashes in (["--"], []):
        done = invoke("record", "--log", f"run{len(dashes)}x.jsonl", *dashes, "echo", "--log", "-n")
        assert done.stdout == "--log -n\n"


def test_a_command_that_asks_nobody_is_told_how_it_would(invoke: Invoke) -> None:
    """A client that reads another variable, or has a URL in its code, is the likely reason."""
    done = invoke("record", "--log", "run.jsonl", "--", "true")

    assert done.exit_code == 0
    assert "set no base URL of its own" in done.stderr
    assert "no request came by" in done.stderr
    assert "--upstream VARIABLE=URL" in done.stderr


def test_a_variable_that_led_past_the_proxy_is_named(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the option that would have recorded what goes there."""
    monkeypatch.setenv("GROQ_BASE_URL", "https://api.groq.com/openai/v1")
    done = invoke("record", "--log", "run.jsonl", "--", "true")

    assert "--upstream GROQ_BASE_URL=$GROQ_BASE_URL records it" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--"], "COMMAND"),
        (["--upstream", "foo", "--", "true"], "expected http://… or https://…"),
        (["--volatile", "foo", "--", "true"], "volatile path 'foo'"),
        (["--volatile-text", "(", "--", "true"], "no regular expression"),
        (["--log", "a.1.jsonl", "--", "true"], "may not end in a number"),
        (["--", "no-such-command"], "no-such-command: command not found"),
    ],
)
def test_what_is_wrong_is_said(arguments: list[str], says: str, invoke: Invoke) -> None:
    """And nothing is recorded."""
    done = invoke("record", *arguments)

    assert done.exit_code == 2
    assert says in done.stderr
    assert not list(Path().rglob("*.jsonl"))


def test_volatile_rules_are_kept_with_the_record(invoke: Invoke, tmp_path: Path) -> None:
    """They hold in every replay."""
    rules = ["--volatile", "model:*/parameters/user", "--volatile-text", "[0-9]{4}"]
    invoke("record", "--log", "run.jsonl", *rules, "--", "true")

    (started,) = data_of(tmp_path / "run.jsonl", "run.started")
    told = json.dumps(started["rules"])
    assert "model:*/parameters/user" in told
    assert "[0-9]{4}" in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_what_standard_output_did_not_take_is_told(tmp_path: Path) -> None:
    """The exit code is the command's."""
    words = [sys.executable, "-m", "refold", "record", "--log", str(tmp_path / "run.jsonl")]
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [*words, "--", "echo", "a"], stdout=full, stderr=subprocess.PIPE, check=False
        )

    assert ran.returncode == 0
    assert b"No space left on device: some of what was printed is lost" in ran.stderr
