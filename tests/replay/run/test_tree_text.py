from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Fault, Truncated, Usage
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode, ToolUse
from refold.replay.run.tree_text import printable, render_text, scrubbed
from tests.support.delegating import child, recorded

ARTIFACTS = (Artifact(kind="note", value="n", name="plan"), Artifact(kind="diff", value="d"))
PLAN = [
    ("search", "x"),
    (
        "both",
        [
            child(
                "dig",
                [("try", "nothing"), ("report", "s", ARTIFACTS)],
                agent="digger",
                brief="Dig.\nDeep.",
            )
        ],
        [child("fail", [("give up", "no_progress")], limits=Limits(timeout_seconds=30))],
        [
            child(
                "go", [child("on", [("ask", "?"), child("deeper", [])])], levels=2, tools=("read",)
            )
        ],
    ),
]
EVERYTHING = RunNode(
    name="lead",
    status="completed",
    reason="max_iterations",
    input={"a": [1]},
    tools=(ToolUse("z", 3, failed=1, cancelled=1), ToolUse("a", 1)),
    requests=2,
    usage=Usage(input_tokens=10, output_tokens=5, requests=3),
    truncated=Truncated(kept_bytes=10, seen_bytes=99, sha256="0" * 64),
    run_id="0123456789abcdef",
    log="/some/where/a.jsonl",
    entries=9,
    head="f" * 64,
    duration_ms=12,
    children=(
        RunNode(
            name="ten", call="0#10", status="failed", error=Fault(code="x", message="/tmp/a/b\nwas")
        ),
        RunNode(name="two", call="0#2", tool="subagent", log_state="missing", log="/x/a.2.jsonl"),
        RunNode(name="", call="0#1", status="rejected", tools_granted=()),
        RunNode(name="late", call="0/1#1", status="completed", is_joined=False),
    ),
)


def test_a_reviewer_reads_what_was_delegated(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    log = recorded(tmp_path / "a.jsonl", PLAN).log

    assert render_text(delegation_tree(log)) == snapshot


def test_every_fact_has_its_line(snapshot: SnapshotAssertion) -> None:
    assert render_text(EVERYTHING) == snapshot


def test_two_recordings_of_the_same_read_the_same(tmp_path: Path) -> None:
    """Whatever the seed, the place and the interleaving of what ran at the same time."""
    first = recorded(tmp_path / "a.jsonl", PLAN, seed=1).log
    (tmp_path / "b").mkdir()
    second = recorded(tmp_path / "b" / "c.jsonl", [PLAN[0], PLAN[1]], seed=2).log

    texts = [render_text(delegation_tree(log)) for log in (first, second)]

    assert texts[0] == texts[1]


@pytest.mark.parametrize("plan", [[child("dig", [], brief="a" * 9_999 + "c")], [child("dug", [])]])
def test_two_recordings_of_something_else_do_not(tmp_path: Path, plan: Any) -> None:
    """However far behind in a brief the change stands: a snapshot cuts nothing."""
    first = recorded(tmp_path / "a.jsonl", [child("dig", [], brief="a" * 9_999 + "b")]).log
    second = recorded(tmp_path / "b.jsonl", plan).log

    texts = [render_text(delegation_tree(log)) for log in (first, second)]

    assert texts[0] != texts[1]


def test_nothing_from_a_log_moves_the_cursor() -> None:
    node = RunNode(name="a\x1b[2Jb", brief="c\u202ed\re\U000e0041", tool="f\x07g", input=None)

    text = render_text(node)

    assert printable("a\x1b\n\u200b\U000e0041") == "a\\u001b\n\\u200b\\U000e0041"
    assert text.replace("\n", "").isprintable()


def test_messages_lose_paths_and_hashes_and_nothing_else() -> None:
    message = f"/tmp/x1/y.py:3 of {'ab' * 32}: 1/2 and/or https://a.b/c/d at /query is 0.2 s"

    assert scrubbed(message) == ("<path>:3 of <hex>: 1/2 and/or https://a.b/c/d at /query is 0.2 s")
