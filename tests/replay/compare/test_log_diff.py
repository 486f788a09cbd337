import re
from pathlib import Path
from typing import Any

import orjson
from syrupy.assertion import SnapshotAssertion

from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import LogDiff, LogDifference
from refold.replay.difference.pointer_diff import Difference
from tests.support.delegating import child, recorded

X, Y = ("search", "x"), ("search", "y")
DONE = ("return", "done")


def compared(folder: Path, a: Any, b: Any) -> LogDiff:
    """Record two plans under two seeds, and compare them."""
    one, other = recorded(folder / "a.jsonl", a), recorded(folder / "b.jsonl", b, seed=2)
    return diff(one.log, other.log)


def test_many_places_of_one_difference_are_counted() -> None:
    places = tuple(Difference(f"/{at}", "changed", 1, 2) for at in range(11))

    text = str(LogDifference(category="output", run="root", differences=places))

    assert text.splitlines()[0] == "root: output"
    assert text.splitlines()[-1] == "    and 3 places more"


def test_equal_differences_of_many_runs_are_one_cause(tmp_path: Path) -> None:
    """Other words are another cause; what follows in the same run, or from it, is counted."""
    found = compared(
        tmp_path,
        [
            (
                "both",
                *([child("dig", [("search", "one old"), X])] for _ in range(3)),
                [("read", "p")],
            ),
            DONE,
        ],
        [
            (
                "both",
                *([child("dig", [("search", "one new"), Y])] for _ in range(3)),
                [("read", "q")],
            ),
            ("return", "new"),
        ],
    )

    first, other = found.causes

    assert first.where == "root > dig[1] > search#1"
    assert first.alike == ("root > dig[2] > search#1", "root > dig[3] > search#1")
    assert (first.agent, first.was, first.now) == ("root > dig", "one old", "one new")
    assert first.words == ('/arguments/query: "one old" → "one new"',)
    assert other.run == "root"
    assert first.follows + other.follows == found.count - 4


def test_context_is_told_last_and_does_not_count(tmp_path: Path) -> None:
    found = compared(tmp_path, [DONE], [DONE])

    assert found.identical
    assert str(found).splitlines()[0].startswith("no differences: 2 entries in 1 run compared")
    told = str(found).splitlines()[1]
    assert told.startswith("not compared: root: /seed: ")
    assert re.fullmatch(r'.*: "[0-9a-f]{16}" → "[0-9a-f]{16}"', told)


def test_it_reads_well(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    inner, other = [X, ("read", "f"), ("ask", "why?")], [X, Y, ("read", "f", 9), ("ask", "how?")]
    found = compared(
        tmp_path,
        [("both", [X], [child("dig", inner, brief="Dig.")]), DONE],
        [("both", [X], [child("dig", other, brief="Dig\x1b[2J.")]), DONE],
    )

    text = str(found)
    assert text[: text.index("\nnot compared: ")] == snapshot


def test_it_is_plain_data(tmp_path: Path) -> None:
    found = compared(tmp_path, [X], [Y])

    document = orjson.loads(orjson.dumps(found.as_json()))

    assert document["identical"] is False
    assert document["count"] == len(document["differences"]) == 3
    assert document["differences"][0] == {
        "where": "root > search#1",
        "category": "arguments",
        "run": "root",
        "what": "search#1",
        "scope": "0",
        "turn": None,
        "call_a": "0#1",
        "call_b": "0#1",
        "seq_a": 1,
        "seq_b": 1,
        "differences": [
            {"pointer": "/arguments/query", "kind": "changed", "before": "x", "after": "y"}
        ],
    }
    assert document["context"][0]["run"] == "root"
