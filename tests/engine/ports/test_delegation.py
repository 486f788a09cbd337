"""A delegation becomes plain data, and never says what code to import (CONTRACT.md §3.8, §7)."""

from refold.engine.encoding.canonical import encode
from refold.engine.events.limits import Limits
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.ports import Policy, Reference


def test_a_log_holds_the_programs_name_and_not_where_it_is() -> None:
    """The reference is for the runner alone."""
    asked = Delegation(program=Reference("somewhere.secret", "work"), input={"a": 1})

    data = asked.as_json(program="work", limits=Limits(max_depth=1))

    assert data == {"program": "work", "input": {"a": 1}, "limits": {"max_depth": 1}}
    assert b"somewhere" not in encode(data)


def test_only_what_was_said_is_written() -> None:
    """Empty words, tools that were not narrowed and a policy by default are left out."""
    asked = Delegation(
        program="agent",
        brief="dig",
        agent="miner",
        tool="subagent",
        tools=("read_file",),
        policy=Policy(artifact_kinds=("note",), frame_bytes=10),
    )

    data = asked.as_json(program="agent", limits=Limits())

    assert data == {
        "program": "agent",
        "brief": "dig",
        "agent": "miner",
        "tool": "subagent",
        "input": None,
        "tools": ["read_file"],
        "limits": {},
        "policy": {"frame_bytes": 10, "artifact_kinds": ["note"]},
    }
