"""The log side that records MCP: connections, secrets, order (CONTRACT.md §16.11)."""

from pathlib import Path

import refold
from refold.engine.errors import LogPoisoned
from refold.engine.observed.journal import ObservedLog
from refold.proxy.desks.keys import Secrets
from refold.proxy.mcp.parties import NOTHING, Hello
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.sessions import own_log
from tests.support.mcp_clients import entries, recording, told

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'
HELLO = Hello(server="tiny", how={"transport": "stdio", "command": ["tiny"]})


def journal(log: Path, secrets: Secrets) -> ObservedLog:
    """Return a new log."""
    return ObservedLog(log, program="tiny", input={}, vault=secrets)


def test_each_connection_has_a_scope(tmp_path: Path) -> None:
    """Equal ids in two connections are two calls; the log verifies."""
    log, secrets = tmp_path / "log.jsonl", Secrets()
    with journal(log, secrets) as written:
        desk = McpRecording(written, secrets)
        first, second = desk.connect(HELLO), desk.connect(HELLO)
        assert first.begin() == NOTHING
        assert first.client(CALL) == second.client(CALL) == NOTHING
        second.server(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        written.seal("completed", "done")

    calls = [each.call for each in entries(log) if each.kind.startswith("tool.")]
    assert calls == ["0/mcp-tiny#1", "0/mcp-tiny/2#1", "0/mcp-tiny/2#1"]
    assert entries(log)[-1].data["in_doubt"] == ["0/mcp-tiny#1"]
    assert refold.verify(log).complete


def test_what_a_server_is_given_is_secret(tmp_path: Path) -> None:
    """Variables, arguments and headers, wherever they come back."""
    log, secrets = tmp_path / "log.jsonl", Secrets()
    keys = ["variable-1a2b3c", "argument-1a2b3c", "header-1a2b3c"]
    how = {"transport": "stdio", "command": ["tiny", "--api-key", keys[1]]}
    hello = Hello(server="tiny", how=how, environment={"TINY_TOKEN": keys[0]})
    with journal(log, secrets) as written:
        party = McpRecording(written, secrets).connect(hello)
        party.learn([("x-api-key", keys[2])])
        party.server(f"not json: {' '.join(keys)}\n".encode())

    url = "http://127.0.0.1:9/mcp?api_key=url-1a2b3c4d5e"
    alone, desk = own_log(tmp_path / "b.jsonl", Hello(server="b", how={"url": url}), None)
    with alone:
        desk.connect(HELLO).server(b"not json: url-1a2b3c4d5e\n")

    assert b"url-1a2b3c4d5e" not in (tmp_path / "b.jsonl").read_bytes()
    assert not any(key.encode() in log.read_bytes() for key in keys)
    assert told(log)[0]["command"] == ["tiny", "--api-key", "[redacted:api-key]"]


def test_nothing_passes_that_cannot_be_written(tmp_path: Path) -> None:
    """Where the log takes no more, the server is stopped, and the client is left with that."""
    log = tmp_path / "log.jsonl"

    with recording(log) as client:
        client.called("echo", text="a")
        log.unlink()
        client.tool("echo", text="b")
        assert client.line() == b""

    assert isinstance(client.error, LogPoisoned)
