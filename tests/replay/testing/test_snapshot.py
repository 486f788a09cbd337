from pathlib import Path
from pydoc import locate
from typing import Any

import pytest

from refold.engine.errors import LogMissing, UsageError
from refold.engine.models.scripted import ScriptedModel
from refold.engine.runners.recording import record
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.tree_text import render_text
from refold.replay.testing.snapshot import (
    DelegationSnapshotExtension,
    LogSnapshotExtension,
    delegation_extension,
    delegation_text,
    log_text,
    what_changed,
)
from tests.support.delegating import child, recorded
from tests.support.loops import for_each

PLAN = [child("dig", [("search", "x")], brief="Dig.")]


def test_a_recording_its_path_and_its_tree_read_the_same(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "a.jsonl", PLAN)
    tree = delegation_tree(recording.log)
    expected = render_text(tree)

    forms: list[Any] = [recording, recording.log, str(recording.log), tree]

    assert [delegation_text(form) for form in forms] == [expected] * 4


def test_an_extension_serialises_whatever_else_syrupy_passes(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", PLAN).log

    text = DelegationSnapshotExtension().serialize(log, exclude=None, matcher=None, include=None)

    assert text == delegation_text(log)


def test_a_log_is_serialised_from_the_same_three(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "a.jsonl", PLAN)
    forms: list[Any] = [
        recording,
        recording.log,
        str(recording.log),
        delegation_tree(recording.log),
    ]

    texts = [LogSnapshotExtension().serialize(form, matcher=None) for form in forms]

    assert texts == [log_text(recording.log)] * 4
    with pytest.raises(UsageError):
        LogSnapshotExtension().serialize(3)


def test_tokens_are_left_out_unless_they_are_asked_for(tmp_path: Path) -> None:
    """Providers change how they count: a snapshot would fail for no change of the program."""
    used = {"usage": {"input_tokens": 12, "output_tokens": 3}}
    model = ScriptedModel({"agent": [{"text": "done", **used}]})
    log = record("agent", {"task": "x"}, log=tmp_path / "a.jsonl", model=model).log

    plain, counted = delegation_text(log), delegation_text(log, tokens=True)

    assert "tokens" not in plain
    assert "tokens: 12 in, 3 out\n" in counted
    assert DelegationSnapshotExtension().serialize(log) == plain
    with_tokens = delegation_extension(tokens=True, files=False)
    assert with_tokens().serialize(log) == counted
    assert locate(f"{with_tokens.__module__}.{with_tokens.__qualname__}")  # as syrupy does


@for_each("other", [None, 3, {"log": "a.jsonl"}])
def test_what_is_no_recording_is_refused(other: Any) -> None:
    with pytest.raises(UsageError) as refused:
        delegation_text(other)

    assert f", found {type(other).__name__};" in str(refused.value)


def test_a_path_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogMissing):
        delegation_text(tmp_path / "none.jsonl")


def test_a_long_difference_says_how_much_is_left_out() -> None:
    stored, found = ("".join(f"{word} {number}\n" for number in range(100)) for word in "ab")

    *lines, left, meant, command = what_changed(stored, found, "pytest x").split("\n")

    assert len(lines) == 100
    assert left == "… 103 more lines: pytest -vv"
    assert (meant, command) == ("If this is intended, update the snapshot:", "  pytest x")
