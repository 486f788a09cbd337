"""A proxy that reports to the process that has the log (CONTRACT.md §16.11)."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import refold
from refold.engine.errors import RecordingGone
from refold.engine.log.reader import read_entries
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.desks.keys import Secrets
from refold.proxy.http.server import served
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.proxy.mcp.hub import RECORDING, ROUTE, Hub
from refold.proxy.mcp.parties import Hello
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.remote import Remote, recording_here
from refold.proxy.mcp.serving import McpServing
from refold.proxy.mcp.sessions import Passed, report_of, serving_of
from tests.support.mcp_clients import client as stdio_client
from tests.support.mcp_clients import kinds, told
from tests.support.mcp_streams import mcp_http, proxied

HELLO = Hello(server="tiny", how={"transport": "stdio", "command": []})


class Nobody:
    """A desk that nobody comes to."""

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Fail."""
        raise AssertionError(incoming)


@contextlib.contextmanager
def recording(log: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """Record what is reported in this environment."""
    secrets = Secrets()
    with ObservedLog(log, program="x", input={}, vault=secrets) as written:
        hub = Hub(Nobody(), McpRecording(written, secrets).connect)
        with served(hub, [ROUTE]) as base:
            for name, value in hub.variables(base).items():
                monkeypatch.setenv(name, value)
            yield base
        written.seal("completed", "done")


@contextlib.contextmanager
def replaying(log: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[McpServing]:
    """Serve a record in this environment."""
    serving = serving_of(log, VolatileRules(), None, Secrets())
    hub = Hub(Nobody(), serving.connect)
    with served(hub, [ROUTE]) as base:
        for name, value in hub.variables(base).items():
            monkeypatch.setenv(name, value)
        yield serving


def test_what_is_reported_is_one_log_and_is_served_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers of one command; none is started in the replay, and no log of its own made."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log.jsonl"

    with (
        recording(log, monkeypatch),
        stdio_client(name="one") as one,
        stdio_client(name="two") as two,
    ):
        before = [one.called("echo", text="a"), two.called("echo", text="b")]
    absent = ("no-such-server",)
    with replaying(log, monkeypatch) as serving:
        with stdio_client(absent, name="two") as two:
            now = [two.called("echo", text="b")]
        with stdio_client(absent, name="one") as one:
            now.insert(0, one.called("echo", text="a"))

    assert now == before
    assert report_of(serving).identical
    assert refold.verify(log).complete
    assert kinds(log) == ["tool.called", "tool.returned"] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_server_is_not_told_of_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by its variable, nor by those that lead to models."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with recording(tmp_path / "log.jsonl", monkeypatch), stdio_client(name="tiny") as each:
        said = each.called("environment", variable=RECORDING)

    assert said["result"]["content"][0]["text"] == "no"


def test_a_recording_that_has_ended_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the middle, too: nothing passes that is not written down."""
    with recording(tmp_path / "log.jsonl", monkeypatch):
        address = os.environ[RECORDING]
        remote = Remote(address, HELLO)
        remote.client(b'{"id":1,"method":"ping"}')

    with pytest.raises(RecordingGone) as caught:
        remote.client(b'{"id":2,"method":"ping"}')
    with pytest.raises(RecordingGone):
        Remote(address, HELLO)

    token = address.rpartition("/")[2]
    assert token not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_whoever_has_another_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the log has nothing of it."""
    log = tmp_path / "log.jsonl"
    with recording(log, monkeypatch), pytest.raises(RecordingGone, match="status 404"):
        Remote(f"{os.environ[RECORDING]}x", HELLO)

    assert told(log) == []


def test_the_variable_is_found_in_a_process_above() -> None:
    """Clients pass few variables on to servers."""
    look = "from refold.proxy.mcp.remote import recording_here as r; print(r())"
    bare = f"exec env -i {sys.executable} -c '{look}'"
    above = ["sh", "-c", f'sh -c "{bare}"; true']

    done = subprocess.run(
        above,
        env={**os.environ, RECORDING: "http://127.0.0.1:9/refold/x"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )

    assert done.stdout == "http://127.0.0.1:9/refold/x\n"


def test_without_the_variable_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then a log of its own is written."""
    monkeypatch.delenv(RECORDING, raising=False)

    assert recording_here() is None


def test_what_becomes_of_calls_of_a_server_on_http_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is given up, one is answered, one cannot be made; what authorises is in no log."""
    log = tmp_path / "log.jsonl"

    with recording(log, monkeypatch):
        with mcp_http() as server, proxied(server.url) as (client, passed):
            with client.tool("never") as answer:
                assert answer.status == 200
            said, _ = client.called("echo", text="it is token-1234567890")
        with proxied("http://127.0.0.1:9/mcp") as (client, _):
            failed, _ = client.called("echo", text="b")

    assert (said, failed, passed) == (200, 502, [Passed(exit_code=0)])
    assert kinds(log).count("effect.cancelled") == 1
    ended = [each.data for each in read_entries(log) if each.kind == "tool.returned"]
    assert [each["status"] for each in ended] == ["ok", "error"]
    assert ended[1]["error"]["code"] == "connection"
    assert b"token-1234567890" not in log.read_bytes()
