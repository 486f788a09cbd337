"""What was not recorded is told server by server, the first of each (CONTRACT.md §16.11)."""

from pathlib import Path

from refold.engine.observed.mcp_messages import McpRequest
from refold.proxy.mcp.misses import first_of_each, item_of, place_of
from refold.proxy.mcp.record import Connection, McpRecord
from refold.replay.explain.divergence import Category, Divergence

PATH = Path("x.jsonl")
CONNECTION = Connection(scope="0/mcp-tiny", server="tiny", number=1, cues=[])


def divergence(where: str, category: Category = "extra_call") -> Divergence:
    """Return a divergence of that place."""
    return Divergence(category=category, where=where, log="x.jsonl")


def test_of_each_server_the_first_is_told() -> None:
    """With how many follow; servers are apart."""
    found = first_of_each(
        [
            divergence("a.py > mcp one > x#1"),
            divergence("a.py > mcp two > x#1"),
            divergence("a.py > mcp one > y#?", "unconsumed"),
        ]
    )

    assert [(one.where, one.later_count) for one in found] == [
        ("a.py > mcp one > x#1", 1),
        ("a.py > mcp two > x#1", 0),
    ]


def test_a_place_names_program_server_and_call() -> None:
    """Of a server that was recorded alone, there is no program."""
    record = McpRecord(path=PATH, program="agent.py")
    alone = McpRecord(path=PATH, program="tiny", connections=[CONNECTION])

    call = "0/mcp-tiny#3"
    assert place_of(record, "tiny", "mcp.tools/list", call) == "agent.py > mcp tiny > tools/list#3"
    assert place_of(alone, "tiny", "echo", "") == "mcp tiny > echo#?"


def test_a_request_is_shown_with_all_that_it_has() -> None:
    """Arguments, and other parameters beside them."""
    request = McpRequest("echo", {"a": 1}, {"requestState": "s"})

    assert item_of(request, "0/mcp-tiny#1") == {
        "kind": "tool",
        "name": "echo",
        "call": "0/mcp-tiny#1",
        "arguments": {"a": 1, "params": {"requestState": "s"}},
    }
