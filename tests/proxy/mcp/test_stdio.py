"""What passes between an MCP client and its server passes as it came, and is written down before.

(CONTRACT.md §16.11.)  What it is served from the record afterwards is what it was told.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.errors import LogExists, UsageError
from tests.support.loops import some
from tests.support.mcp_clients import (
    DEADLINE_SECONDS,
    TINY,
    Client,
    client,
    entries,
    kinds,
    recording,
    replaying,
    told,
)

REFOLD = (sys.executable, "-m", "refold", "mcp-proxy")


def twice(log: Path, use: Any) -> tuple[Any, Any]:
    """Return what a client is told while it is recorded, and from the record."""
    with recording(log) as first:
        before = use(first)
    with replaying(log) as second:
        now = use(second)
    assert first.error is None
    assert second.error is None
    assert second.passed is not None
    assert second.passed.report is not None
    assert [str(one) for one in second.passed.report.divergences] == []
    answer = refold.verify(log)
    assert answer.intact
    assert answer.complete
    return before, now


def test_a_call_is_a_tool_call_in_the_scope_of_its_server(tmp_path: Path) -> None:
    """`tool.called` with name and arguments, `tool.returned` with the whole result."""
    log = tmp_path / "log.jsonl"

    before, now = twice(log, lambda each: each.called("echo", text="høy"))

    assert before == now == {"result": {"content": [{"type": "text", "text": "høy"}]}}
    called, returned = [each for each in entries(log) if each.kind.startswith("tool.")]
    assert (called.call, returned.call) == ("0/mcp-tiny#1", "0/mcp-tiny#1")
    assert called.data == {"tool": "echo", "arguments": {"text": "høy"}, "effect": "changes"}
    assert returned.data == {"status": "ok", "result": before["result"]}


def test_a_failure_says_so_and_stays_whole(tmp_path: Path) -> None:
    """`isError` and errors of JSON-RPC are errors in the log, and the same to the client."""
    log = tmp_path / "log.jsonl"

    before, now = twice(log, lambda each: [each.called("fail"), each.called("nothing")])

    assert before == now
    assert before[0]["result"]["isError"] is True
    assert before[1] == {"error": {"code": -32602, "message": "no tool nothing"}}
    errors = [each.data["error"] for each in entries(log) if each.kind == "tool.returned"]
    assert errors == [
        {"code": "is_error", "message": "it is broken", "type": ""},
        {"code": "json_rpc", "message": "no tool nothing", "type": "-32602"},
    ]


def test_any_other_request_is_a_tool_of_its_method(tmp_path: Path) -> None:
    """`mcp.resources/read`, with its parameters; `_meta` is not compared."""
    log = tmp_path / "log.jsonl"

    with recording(log) as first:
        first.ask("resources/read", {"uri": "a:b", "_meta": {"traceparent": "00-1"}})
        before = first.read()
    with replaying(log) as second:
        second.ask("resources/read", {"uri": "a:b", "_meta": {"other": 1}})
        now = second.read()

    assert now == before
    called = next(each.data for each in entries(log) if each.kind == "tool.called")
    assert called == {
        "tool": "mcp.resources/read",
        "arguments": {"uri": "a:b"},
        "effect": "reads",
    }


def test_bytes_pass_as_they_are(tmp_path: Path) -> None:
    """Spaces, escapes, line ends and lines that are no message, in both directions."""
    log = tmp_path / "log.jsonl"
    odd = b'{ "jsonrpc":"2.0" , "id":"\\u00e5" ,\t"method":"x", "params":{"b":1.0,"a":[ ]} }\r\n'
    command = ("sh", "-c", "cat")

    with client(command, log=log) as each:
        each.write(odd)
        came = [each.line()]
        each.write(b"not json \xff\n\n")
        came += [each.line(), each.line()]
        each.write(b"the last has no end")
        each.leave()
        came.append(each.line())

    assert came == [odd, b"not json \xff\n", b"\n", b"the last has no end"]
    texts = [each for each in told(log) if each["kind"] == "text" and each["from"] == "server"]
    assert [each.get("base64") or each["text"] for each in texts] == [
        "bm90IGpzb24g/w==",
        "the last has no end",
    ]


def test_progress_comes_again_with_the_token_of_now(tmp_path: Path) -> None:
    """Before the response; the token is the client's, and not written."""
    log = tmp_path / "log.jsonl"

    def use(token: str) -> Any:
        def go(each: Client) -> Any:
            each.tool("progress", {"progressToken": token})
            return [each.read() for _ in range(3)]

        return go

    with recording(log) as first:
        before = use("t-1")(first)
    with replaying(log) as second:
        now = use("t-2")(second)

    assert [each.get("params") for each in before[:2]] == [
        {"progressToken": "t-1", "progress": 1},
        {"progressToken": "t-1", "progress": 2},
    ]
    assert json.loads(json.dumps(before).replace("t-1", "t-2")) == now
    assert b"t-1" not in log.read_bytes()
    assert kinds(log) == ["tool.called", *["server notification"] * 2, "tool.returned"]


def test_what_comes_after_a_response_comes_after_it_again(tmp_path: Path) -> None:
    """A notification that belongs to no call follows what the client said last."""

    def use(each: Client) -> Any:
        each.tool("chatty")
        return [each.read(), each.read()]

    before, now = twice(tmp_path / "log.jsonl", use)

    assert now == before
    assert before[1]["method"] == "notifications/tools/list_changed"


def test_a_line_that_is_no_message_comes_again(tmp_path: Path) -> None:
    """What a server prints by mistake stands where it stood."""

    def use(each: Client) -> Any:
        each.tool("noise")
        return [each.line(), each.read()]

    before, now = twice(tmp_path / "log.jsonl", use)

    assert now == before
    assert before[0] == "warming up …\n".encode()


def asking(answer: Any) -> Any:
    """Return what uses a tool that asks back, and answers it."""

    def use(each: Client) -> Any:
        each.tool("ask")
        asked = each.read()
        each.say(id=asked["id"], result=answer)
        return [asked["method"], asked["params"], each.read()]

    return use


def test_a_server_asks_again_and_waits_for_the_same_answer(tmp_path: Path) -> None:
    """A request of the server is made with an id of now; the response comes after the answer."""
    before, now = twice(tmp_path / "log.jsonl", asking({"action": "accept", "_meta": {"n": 1}}))

    assert now == before
    assert before[:2] == ["elicitation/create", {"message": "which?"}]


def test_another_answer_to_a_server_is_a_divergence(tmp_path: Path) -> None:
    """What it would have said to that is not known: the call is refused."""
    log = tmp_path / "log.jsonl"
    with recording(log) as first:
        asking({"action": "accept"})(first)

    with replaying(log) as second:
        refused = asking({"action": "decline"})(second)[2]

    assert refused["error"]["code"] == -32000
    assert second.passed is not None
    assert second.passed.report is not None
    (one,) = second.passed.report.divergences
    assert (one.category, one.call) == ("result_changed", "0/mcp-tiny#1")
    assert one.cause.startswith("the client answers a request of the server differently, and the ")
    assert [str(each) for each in one.diff] == [
        '/arguments/said/result/action: "accept" → "decline"'
    ]


def test_parallel_calls_get_each_its_own(tmp_path: Path) -> None:
    """Ids are echoed and never matched on; of equal calls each is served once."""
    log = tmp_path / "log.jsonl"

    def use(order: list[str]) -> Any:
        def go(each: Client) -> Any:
            asked = {each.tool("echo", text=text): text for text in order}
            got = [each.read() for _ in order]
            return {asked[one["id"]]: one["result"]["content"][0]["text"] for one in got}

        return go

    with recording(log) as first:
        before = use(["a", "b", "c"])(first)
    with replaying(log) as second:
        now = use(["c", "a", "b"])(second)

    assert before == now == {"a": "a", "b": "b", "c": "c"}


def test_a_server_that_a_signal_ended_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with recording(log, command=("sh", "-c", "kill -KILL $$")) as client:
        assert client.line() == b""

    assert client.passed is not None
    assert client.passed.exit_code == told(log)[-1]["exit_code"] == 137


def test_a_server_that_falls_over_does_so_again(tmp_path: Path) -> None:
    """The call stays open, in doubt; in a replay the client meets the same end."""
    log = tmp_path / "log.jsonl"

    def use(each: Client) -> Any:
        each.tool("crash")
        return each.line()

    with recording(log) as first:
        before = use(first)
    with replaying(log) as second:
        now = use(second)

    assert before == now == b""
    assert first.passed is not None
    assert second.passed is not None
    assert (first.passed.exit_code, second.passed.exit_code) == (3, 3)
    last = entries(log)[-1].data
    assert (last["status"], last["in_doubt"]) == ("failed", ["0/mcp-tiny#1"])
    assert told(log)[-1]["left"] == "server"


def test_a_client_that_leaves_leaves_its_call_open(tmp_path: Path) -> None:
    """The server is told by the end of its input; what it owes is in doubt."""
    log = tmp_path / "log.jsonl"

    with recording(log) as first:
        first.tool("never")
        first.leave()
        assert first.line() == b""

    last = entries(log)[-1].data
    assert (last["status"], last["in_doubt"]) == ("completed", ["0/mcp-tiny#1"])
    assert told(log)[-1] == {
        "scope": "0/mcp-tiny",
        "from": "server",
        "kind": "ended",
        "left": "client",
        "exit_code": 0,
    }


def test_a_call_that_was_given_up_is_cancelled_and_held(tmp_path: Path) -> None:
    """`effect.cancelled`; in a replay nothing comes, and the client gives up again."""
    log = tmp_path / "log.jsonl"

    def use(each: Client) -> Any:
        number = each.tool("never")
        given_up = {"requestId": number, "reason": "too slow"}
        each.say(method="notifications/cancelled", params=given_up)
        return each.called("echo", text="on")

    before, now = twice(log, use)

    assert now == before
    assert kinds(log)[:3] == ["tool.called", "client notification", "effect.cancelled"]


@pytest.mark.parametrize("letters", some(1, [40_000, 5_000_000]))
def test_a_large_result_is_kept_whole(tmp_path: Path, letters: int) -> None:
    """In a blob, and served from there."""
    log = tmp_path / "log.jsonl"

    before, now = twice(log, lambda each: each.called("big", letters=letters))

    assert now == before
    assert len(before["result"]["content"][0]["text"]) == letters
    assert log.stat().st_size < 32_000


def test_what_a_log_cannot_hold_is_kept_as_text(tmp_path: Path) -> None:
    """An integer of more than 64 bits passes, is recorded and served exactly."""
    log = tmp_path / "log.jsonl"

    def use(each: Client) -> Any:
        each.ask("any/thing", {"number": 2**80})
        return each.read()

    before, now = twice(log, use)

    assert now == before
    assert before["result"] == {"number": 2**80}


def test_a_batch_is_its_messages(tmp_path: Path) -> None:
    """Recorded one by one, and answered one by one."""
    log = tmp_path / "log.jsonl"
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": "any/thing", "params": {"n": number}}
        for number in (1, 2)
    ]
    command = ("sh", "-c", "cat > /dev/null")

    with client(command, log=log, name="tiny") as first:
        first.write(json.dumps(batch).encode() + b"\n")

    assert kinds(log) == ["tool.called", "tool.called"]


def test_the_environment_of_a_server_is_in_no_log(tmp_path: Path, monkeypatch: Any) -> None:
    """It has its key; wherever the key comes back, it is taken out."""
    key = "station-key-9f8e7d6c"
    monkeypatch.setenv("STATION_API_KEY", key)
    log = tmp_path / "log.jsonl"

    with recording(log) as each:
        said = each.called("environment", variable="STATION_API_KEY")

    assert said["result"]["content"][0]["text"] == key
    assert key.encode() not in log.read_bytes()
    assert b"[redacted:STATION_API_KEY]" in log.read_bytes()


def test_a_server_that_cannot_be_started_leaves_no_log(tmp_path: Path) -> None:
    """A typed error that names it."""
    log = tmp_path / "log.jsonl"

    with client(("no-such-server",), log=log) as each:
        assert each.line() == b""

    assert isinstance(each.error, UsageError)
    assert "no-such-server" in str(each.error)
    assert not log.exists()


def test_a_log_is_never_overwritten(tmp_path: Path) -> None:
    """The server is stopped before it hears a word."""
    log = tmp_path / "log.jsonl"
    log.write_text("mine")

    with recording(log) as each:
        assert each.line() == b""

    assert isinstance(each.error, LogExists)
    assert log.read_text() == "mine"


def test_a_signal_goes_to_the_server_and_the_log_is_sealed(tmp_path: Path) -> None:
    """A client that ends us ends the server, and nothing is lost."""
    log = tmp_path / "log.jsonl"
    command = [*REFOLD, "--log", str(log), "--name", "tiny", "--", *TINY]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    call = {"jsonrpc": "2.0", "id": 1, "method": "any/thing"}
    with process.stdin, process.stdout:
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        assert process.stdout.readline()

        process.send_signal(signal.SIGTERM)

        assert process.wait(DEADLINE_SECONDS) == 128 + signal.SIGTERM
    assert refold.verify(log).complete
    assert entries(log)[-1].data["status"] == "completed"


HEARD = """
import runpy, signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, ())
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""The server below a proxy that does not hear signals itself."""
UNHEARD = """
import runpy
from tests.support.interrupted import leave_signals_elsewhere
leave_signals_elsewhere()
runpy.run_module("refold", run_name="__main__")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    "server", [("--", sys.executable, "-c", HEARD, TINY[-1]), ("--url", "http://127.0.0.1:9/mcp")]
)
def test_a_signal_is_obeyed_though_it_ends_no_wait(tmp_path: Path, server: tuple[str, ...]) -> None:
    """It may come right before a wait begins, and the next line may never come."""
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", UNHEARD, "mcp-proxy", "--log", str(log), *server]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        if "--url" not in server:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "any/thing"}\n')
            process.stdin.flush()
        assert process.stdout.readline()  # an answer, or where the proxy is

        process.send_signal(signal.SIGTERM)

        process.wait(DEADLINE_SECONDS)
    assert refold.verify(log).complete
