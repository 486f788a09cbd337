"""Where the MCP proxies of a command report to: by token, in one order (CONTRACT.md §16.11)."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.engine.observed.journal import ObservedLog
from refold.proxy.desks.keys import Secrets
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.proxy.mcp.hub import RECORDING, ROUTE, Hub, packed, unpacked
from refold.proxy.mcp.parties import Reply, Sent
from refold.proxy.mcp.recording import McpRecording
from tests.support.loops import for_each
from tests.support.mcp_clients import kinds

BASE = "http://127.0.0.1:4711"
OTHER = Serve(status=418, headers={}, pieces=())


class Other:
    """The desk of all else."""

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Be a teapot."""
        del incoming
        return OTHER


def posted(hub: Hub, path: str, body: Any = b"", *, token: str | None = None) -> Any:
    """Return the status and what is answered to a report."""
    place = hub.variables(BASE)[RECORDING].rpartition("/")[2] if token is None else token
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    target = f"/{place}/{path}"
    incoming = Incoming(route=ROUTE, method="POST", target=target, headers=(), body=content)
    answer = hub.begin(incoming)
    assert isinstance(answer, Serve)
    return answer.status, json.loads(b"".join(chunk for _, chunk in answer.pieces))


HELLO = {"server": "tiny", "how": {"transport": "stdio", "command": ["x"]}, "environment": {}}


def test_reports_become_entries_in_their_order(tmp_path: Path) -> None:
    """Of all connections, in one log."""
    log, secrets = tmp_path / "log.jsonl", Secrets()
    with ObservedLog(log, program="x", input={}, vault=secrets) as written:
        hub = Hub(Other(), McpRecording(written, secrets).connect)
        numbers = [posted(hub, "open", HELLO)[1]["number"] for _ in range(2)]
        call = b'{"id":1,"method":"ping"}'
        assert posted(hub, "1/client", call) == (200, {"sent": [], "ends": None})
        posted(hub, "0/client", call)
        posted(hub, "0/server", b'{"id":1,"result":{}}')
        posted(hub, "1/failed", {"code": "cut", "message": "cut", "result": None})
        posted(hub, "0/gone")
        posted(hub, "0/learn", [["x-api-key", "header-12345"]])
        posted(hub, "0/ended", {"left": "client", "exit_code": 0})
        written.seal("completed", "done")

    assert numbers == [0, 1]
    assert kinds(log) == ["tool.called", "tool.called", "tool.returned", "tool.returned"]


@for_each("token", ["", "x", "ø"])
def test_whoever_has_no_token_is_nobody(token: str) -> None:
    """And learns nothing."""

    def connect(_: Any) -> Any:
        raise AssertionError

    assert posted(Hub(Other(), connect), "open", HELLO, token=token) == (404, {})


@for_each("path", ["0/client", "x/client", "-1/ended", ""])
def test_what_was_not_opened_is_nothing(path: str) -> None:
    """Status 404."""
    assert posted(Hub(Other(), lambda _: None), path)[0] == 404  # type: ignore[arg-type,return-value]  # never called


def test_tokens_are_drawn() -> None:
    """Each hub has one of its own."""
    addresses = {Hub(Other(), lambda _: None).variables(BASE)[RECORDING] for _ in range(3)}  # type: ignore[arg-type,return-value]  # never called

    assert len(addresses) == 3
    assert all(each.startswith(f"{BASE}/refold/") for each in addresses)


def test_all_other_requests_are_the_other_desks() -> None:
    """By their route."""
    hub = Hub(Other(), lambda _: None)  # type: ignore[arg-type,return-value]  # never called

    incoming = Incoming(route="openai", method="GET", target="/", headers=(), body=b"")
    assert hub.begin(incoming) is OTHER


def test_variables_that_lead_here_are_told_as_they_are_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a server asks of models is its own affair, for in a replay it does not run."""
    monkeypatch.setenv("OPENAI_BASE_URL", "http://mine/v1")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    environment = {
        "OPENAI_BASE_URL": f"{BASE}/openai",
        "ANTHROPIC_BASE_URL": f"{BASE}/anthropic",
        "PATH": "/bin",
    }
    secrets = Secrets()
    with ObservedLog(tmp_path / "x.jsonl", program="x", input={}, vault=secrets) as written:
        hub = Hub(Other(), McpRecording(written, secrets).connect)
        hub.variables(BASE)

        told = posted(hub, "open", {**HELLO, "environment": environment})[1]

    assert told["before"] == {"OPENAI_BASE_URL": "http://mine/v1", "ANTHROPIC_BASE_URL": None}


def test_a_reply_passes_as_json() -> None:
    """Bytes that are no text, too."""
    sent = [Sent(content=b"\xff x", channel="c"), Sent(is_last=True, failed={"status": 401})]
    reply = Reply(sent=sent, ends=3)

    assert unpacked(json.loads(json.dumps(packed(reply)))) == reply
