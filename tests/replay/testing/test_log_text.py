"""An event log as text without what is volatile (CONTRACT.md §13.15)."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import LogMissing
from refold.replay.testing.snapshot import log_text
from tests.support.delegating import child, recorded

PLAN = [
    ("both", [("search", "a")], [("search", "b"), ("sleep", 0.001)]),
    child("dig", [("try", "nothing"), ("ask", "How?")], brief="Dig."),
    ("note", "done"),
]


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_text(log).splitlines()]


def test_two_runs_that_did_the_same_read_the_same(tmp_path: Path) -> None:
    """Under other seeds, at other times, in other files."""
    one = recorded(tmp_path / "a.jsonl", PLAN, seed=1).log
    two = recorded(tmp_path / "deep" / "b.jsonl", PLAN, seed=2).log

    assert log_text(one) == log_text(two)


def test_two_runs_that_did_not_do_not(tmp_path: Path) -> None:
    """One argument, far down."""
    one = recorded(tmp_path / "a.jsonl", PLAN).log
    other = [PLAN[0], child("dig", [("try", "nothing"), ("ask", "Why?")], brief="Dig."), PLAN[2]]
    two = recorded(tmp_path / "b.jsonl", other).log

    assert log_text(one) != log_text(two)


def test_runs_stand_below_each_other_and_entries_in_their_scopes(tmp_path: Path) -> None:
    """The root's first entry to its last, then its children's, whatever the interleaving."""
    lines = _lines(recorded(tmp_path / "a.jsonl", PLAN).log)

    where = [(line.get("run", ""), line.get("call", ""), line["kind"]) for line in lines]
    assert where == [
        ("", "", "run.started"),
        ("", "0#1", "child.started"),
        ("", "0#1", "child.finished"),
        ("", "0#2", "note.added"),
        ("", "0/1#1", "tool.called"),
        ("", "0/1#1", "tool.returned"),
        ("", "0/2#1", "tool.called"),
        ("", "0/2#1", "tool.returned"),
        ("", "0/2@1", "timer.fired"),
        ("", "", "run.finished"),
        ("dig (0#1)", "", "run.started"),
        ("dig (0#1)", "0#1", "tool.called"),
        ("dig (0#1)", "0#1", "tool.returned"),
        ("dig (0#1)", "0#2", "model.asked"),
        ("dig (0#1)", "0#2", "model.answered"),
        ("dig (0#1)", "", "run.finished"),
    ]


def test_what_only_machines_need_is_left_out(tmp_path: Path) -> None:
    """No id, hash, digest or duration; of the tools offered, their names."""
    text = log_text(recorded(tmp_path / "a.jsonl", PLAN).log)

    lines = [json.loads(line) for line in text.splitlines()]
    asked = next(line for line in lines if line["kind"] == "model.asked")
    assert lines[0]["data"]["tools"] == ["read", "search"]
    assert asked["data"].keys() == {"model", "added", "parameters"}
    for word in ("digest", "run_id", "seed", "duration", "hash", "head", "virtual"):
        assert word not in text


def test_messages_of_errors_lose_paths(tmp_path: Path) -> None:
    """They differ from machine to machine; a child's stands in what it returned, too."""
    lines = _lines(recorded(tmp_path / "a.jsonl", [child("dig", [("give up", "tired")])]).log)

    returned = next(line["data"]["outcome"] for line in lines if line["kind"] == "child.finished")
    assert lines[-1]["data"]["error"]["message"] == "gave up at <path>"
    assert returned["error"]["message"] == "gave up at <path>"


def test_what_a_terminal_could_obey_is_escaped(tmp_path: Path) -> None:
    """A review prints the file."""
    text = log_text(recorded(tmp_path / "a.jsonl", [("search", "\x1b[31m\u202e")]).log)

    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_childs_log_that_is_missing_is_said(tmp_path: Path) -> None:
    """And everything else is shown."""
    log = recorded(tmp_path / "a.jsonl", PLAN).log
    (tmp_path / "a.1.jsonl").unlink()

    assert _lines(log)[-1] == {"run": "dig (0#1)", "log": "missing"}


def test_there_has_to_be_a_log(tmp_path: Path) -> None:
    with pytest.raises(LogMissing):
        log_text(tmp_path / "none.jsonl")
