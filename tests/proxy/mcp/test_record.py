"""What a log says of MCP servers is read back: connections, cues, steps (CONTRACT.md §16.11)."""

from pathlib import Path

import pytest

from refold.engine.observed.mcp_messages import McpRequest
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.mcp.record import compared_key, read_mcp
from tests.support.mcp_clients import entries, recording


def test_each_message_of_the_client_is_a_cue(tmp_path: Path) -> None:
    """What the server said from then on stands below it, in order."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        client.tool("progress", {"progressToken": 1})
        for _ in range(3):
            client.read()
        client.say(method="notifications/roots/list_changed")
        client.tool("chatty")
        client.read()
        client.read()

    record = read_mcp(log, VolatileRules())

    (connection,) = record.connections
    assert (connection.server, connection.number, record.servers()) == ("tiny", 1, ["tiny"])
    assert [(cue.kind, [step.kind for step in cue.steps]) for cue in connection.cues] == [
        ("begin", []),
        ("request", ["notification", "notification", "response"]),
        ("notification", []),
        ("request", ["response"]),
    ]
    assert [step.data["method"] for step in connection.cues[-1].following] == [
        "notifications/tools/list_changed"
    ]


def test_a_call_whose_response_is_cut_off_is_open(tmp_path: Path) -> None:
    """It was asked, and nothing is known to have come."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        client.called("echo", text="a")
        client.called("echo", text="b")
    returned = [each.seq for each in entries(log) if each.kind == "tool.returned"]

    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[: returned[1]]))

    record = read_mcp(log, VolatileRules())

    assert [len(cue.steps) for cue in record.counted()] == [1, 0]


def test_a_log_without_servers_has_none(tmp_path: Path) -> None:
    """Nothing is recorded, and nothing left."""
    log = tmp_path / "log.jsonl"
    with recording(log):
        pass

    record = read_mcp(log, VolatileRules())

    assert record.counted() == []
    assert record.left() == []


def key(rules: VolatileRules, name: str = "echo", **arguments: object) -> str:
    """Return what a call is compared by."""
    return compared_key(McpRequest(name, arguments, {}), rules)


def test_nothing_is_ignored_by_default() -> None:
    """Calls differ by any argument."""
    assert key(VolatileRules(), at=1) != key(VolatileRules(), at=2)


@pytest.mark.parametrize("path", ["tool:echo/arguments/at", "tool:*/arguments/at"])
def test_a_place_that_is_volatile_is_not_compared(path: str) -> None:
    """Of the tools that the rule names; all others are."""
    rules = VolatileRules((path,))

    assert key(rules, at=1, text="a") == key(rules, at=2, text="a")
    assert key(rules, at=1, text="a") != key(rules, at=1, text="b")
    assert (key(rules, "other", at=1) == key(rules, "other", at=2)) is ("*" in path)


def test_other_requests_are_named_by_their_method() -> None:
    """`tool:mcp.*`: a method may have a slash in it."""
    rules = VolatileRules(("tool:mcp.*/arguments/cursor",))

    assert key(rules, "mcp.tools/list", cursor=1) == key(rules, "mcp.tools/list", cursor=2)


def test_a_text_that_is_volatile_is_the_same_wherever_it_stands() -> None:
    """In lists and objects, too."""
    rules = VolatileRules((), (r"\d{4}-\d\d-\d\d",))

    one, other = (key(rules, a=[{"b": f"on {day}"}]) for day in ("2026-11-21", "2025-01-02"))

    assert one == other
