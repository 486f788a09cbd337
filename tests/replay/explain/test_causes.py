"""What is likely behind a divergence (CONTRACT.md §12.5): a guess by looks and by what changed."""

from typing import Any

import pytest

from refold.replay.difference.pointer_diff import differences
from refold.replay.explain.causes import likely_cause
from tests.support.loops import for_each

UUIDS = ("0b7c44a1-52f0-4c3e-9a55-1c2d3e4f5a6b", "8d3f1b22-0a4b-4b7d-8e0f-aabbccddeeff")


@pytest.mark.parametrize(
    ("recorded_value", "now", "advice"),
    [
        ({"id": UUIDS[0]}, {"id": UUIDS[1]}, "run.uuid()"),
        ({"at": "2026-01-01T10:00:00"}, {"at": "2026-01-02T11:30:00"}, "run.now()"),
        ({"at": 1767225600.25}, {"at": 1767225601.5}, "run.now()"),
        ({"of": "<X object at 0x7f0012345678>"}, {"of": "<X object at 0x7f0087654321>"}, "repr"),
        (["a", "b", "c"], ["c", "a", "b"], "sort"),
        ({"q": "a, b"}, {"q": "b, a"}, "sort"),
        ({"q": "{'a', 'b'}"}, {"q": "{'b', 'a'}"}, "sort"),
        ("one", "two", "depends on something outside run"),
        ({"id": "none"}, {"id": UUIDS[1]}, "depends on something outside run"),
        ({"id": UUIDS[0]}, {"id": "none"}, "depends on something outside run"),
        ({"id": UUIDS[0], "n": 1}, {"id": UUIDS[1], "n": 2}, "depends on something outside run"),
    ],
    ids=[
        "uuid",
        "clock as text",
        "clock as number",
        "address",
        "order of a set",
        "order of a set in a text",
        "a set as a text",
        "no idea",
        "uuid now",
        "uuid before",
        "uuid and more",
    ],
)
def test_the_likely_cause_of_what_differs(recorded_value: Any, now: Any, advice: str) -> None:
    """What the two values look like says what to do about it."""
    assert advice in likely_cause("args_changed", differences(recorded_value, now), {})


def test_what_the_program_raises_is_the_cause() -> None:
    """It is known; what values look like and what has changed are guesses."""
    said = likely_cause("unconsumed", (), {"source": ("1", "2")}, "KeyError: 'x' (a.py:3)")

    assert "KeyError: 'x' (a.py:3)" in said
    assert "'b', but 'c'" in likely_cause("unconsumed", (), {"program": ("b", "c")}, "KeyError")


def test_a_changed_program_explains_another_order_before_a_set_does() -> None:
    """Which of both it was, nobody can tell from the values; that the source changed is known."""
    diff = differences(["a", "b"], ["b", "a"])

    assert "has changed" in likely_cause("output_changed", diff, {"source": ("1", "2")})


@for_each(
    "kind, fingerprints, advice",
    [
        ("args_changed", {"source": ("1", "2")}, "the program has changed"),
        ("args_changed", {"python": ("3.11", "3.12")}, "a different version of Python"),
        ("args_changed", {"prompt, message 0 (system)": ("", "")}, "the prompt has changed"),
        ("args_changed", {"tool search": ("1", "2")}, "the definition of tool search"),
        ("args_changed", {"input /style": ("", "1")}, "has /style, which the recorded input lacks"),
        ("reordered", {}, "sort"),
        ("unrecorded_await", {}, "await"),
        ("log_damaged", {}, "refold verify"),
    ],
)
def test_the_likely_cause_of_what_changed(
    kind: str, fingerprints: dict[str, tuple[str, str]], advice: str
) -> None:
    """A fingerprint explains a divergence, and never decides one."""
    assert advice in likely_cause(kind, (), fingerprints)


@pytest.mark.parametrize(
    ("kind", "cause"), [("timer", "randomness or a clock outside run"), ("due", "recorded order")]
)
def test_a_timer_that_differs_says_so(kind: str, cause: str) -> None:
    """Unless the program has changed: then that is it."""
    assert cause in likely_cause(kind, (), {})
    assert cause not in likely_cause(kind, (), {"source": ("a", "b")})
