"""`refold mcp-proxy`: what it says, where, and what it ends with (CONTRACT.md §16.11)."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from refold.cli.group import refold
from tests.cli.conftest import Invoke
from tests.support.mcp_clients import DEADLINE_SECONDS, TINY, Client

PROXY = (sys.executable, "-m", "refold", "mcp-proxy")


def ran(*arguments: str | Path, said: list[object]) -> subprocess.CompletedProcess[str]:
    """Run it with a client that says all at once and leaves."""
    return subprocess.run(
        [*PROXY, *map(str, arguments)],
        input="".join(f"{json.dumps(each)}\n" for each in said),
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_SECONDS,
        check=False,
    )


def call(text: str) -> object:
    """Return a request."""
    params = {"name": "echo", "arguments": {"text": text}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.long
def test_standard_output_is_the_protocols(tmp_path: Path) -> None:
    """What is told stands on standard error; 0 where all is as recorded, 1 where it is not."""
    log = tmp_path / "log.jsonl"

    recorded = ran("--log", log, "--", *TINY, said=[call("a")])
    same = ran("--replay", log, "--", "gone", said=[call("a")])
    other = ran("--replay", log, "--", "gone", said=[call("b")])

    assert (recorded.returncode, same.returncode, other.returncode) == (0, 0, 1)
    assert recorded.stderr.startswith(f"recorded in {log}: 6 entries")
    assert json.loads(same.stdout) == json.loads(recorded.stdout)
    assert same.stderr == (
        "identical: 1 of 1 recorded request served; the server was not started\n"
    )
    assert json.loads(other.stdout)["error"]["code"] == -32000
    assert "args_changed: a call is made with different arguments" in other.stderr
    assert 'differs   /arguments/text: "a" → "b"' in other.stderr
    assert "Traceback" not in recorded.stderr + same.stderr + other.stderr


def test_the_exit_code_is_the_servers(tmp_path: Path, invoke: Invoke) -> None:
    """As a client that looks at it would find."""
    log = tmp_path / "log.jsonl"

    assert invoke("mcp-proxy", "--log", log, "--", "sh", "-c", "exit 7").exit_code == 7


def test_a_port_that_is_taken_leaves_no_log(tmp_path: Path, invoke: Invoke) -> None:
    """The error says what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = ("--url", "http://127.0.0.1:9/mcp", "--log", tmp_path / "log.jsonl")
        done = invoke("mcp-proxy", *said, "--port", port)

    assert (done.exit_code, list(tmp_path.iterdir())) == (2, []), done.output
    assert f"--port {port}: Address already in use: use another port, or omit" in done.stderr


def test_it_wants_a_server_or_a_url(invoke: Invoke) -> None:
    """One of them; and it records or serves, not both."""
    for arguments in ((), ("--url", "http://x", "--", "y"), ("--",)):
        said = invoke("mcp-proxy", *arguments)
        assert said.exit_code == 2
        assert said.stdout == ""
    both = invoke("mcp-proxy", "--log", "a.jsonl", "--replay", "b.jsonl", "--", "x")
    short = invoke("mcp-proxy", "--url", "http://x", "--word", "short")
    assert (short.exit_code, "at least 16" in short.stderr) == (2, True)
    assert both.exit_code == 2
    for option in (("--port", "8900"), ("--word", "a-secret-word-of-an-url")):
        said = invoke("mcp-proxy", *option, "--", "no-such-server")
        assert (said.exit_code, "--port and --word need --url" in said.stderr) == (2, True)
    assert "either --log, to record, or --replay" in both.stderr


def test_a_server_that_is_not_there_is_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names it."""
    with pytest.raises(SystemExit, match="2"):
        refold.main(["mcp-proxy", "--log", str(tmp_path / "x.jsonl"), "--", "no-such-server"])

    assert capsys.readouterr().err == "refold: no-such-server: No such file or directory\n"


def test_a_server_is_shown_with_its_tools(tmp_path: Path, invoke: Invoke) -> None:
    """Under its name, with how often each was called."""
    log = tmp_path / "log.jsonl"
    with Client(log=log, name="tiny").running(TINY) as client:
        client.called("echo", text="a")

    shown = invoke("show", str(log)).stdout

    assert "completed mcp-tiny\n" in shown
    assert "tools: echo ×1\n" in shown
