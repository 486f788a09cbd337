"""What a model is told of a child, for each tool and each end: read as prompt text."""

import re
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import refold
from tests.support.tool_ends import ENDS, TOOLS, recorded, told, tools

SHA = re.compile(r"sha256=[0-9a-f]{64}")


def readable(text: str) -> str:
    """Return a text without what differs in each run, its long repetition shortened."""
    text = re.sub(r'"duration_ms":\d+', '"duration_ms":0', text)
    return SHA.sub("sha256=…", re.sub(r"(long ){10,}", "long long … ", text))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", TOOLS)
def test_what_a_model_is_told(
    name: str, end: str, tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """45 texts: each says what happened, and what to do next if it failed."""
    log = recorded(name, end, tmp_path / "run.jsonl").log

    text, is_error = told(log)

    assert (readable(text), is_error) == snapshot
    assert refold.reexecute(log, tools=tools()).identical


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", TOOLS)
def test_both_runners_tell_the_same(name: str, end: str, tmp_path: Path) -> None:
    """§10.4.4, but for durations."""
    here = told(recorded(name, end, tmp_path / "here.jsonl").log)
    there = told(recorded(name, end, tmp_path / "there.jsonl", "subprocess").log)

    assert readable(there[0]) == readable(here[0])
    assert there[1] == here[1]
