"""What a child hands back: checked, capped, and the same for the same bytes (CONTRACT.md §7.2)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.children.reply import cut, frame_of, outcome_of, reply_frame
from refold.engine.events.events import RunFinished
from refold.engine.events.outcome import Artifact, ChildRef, Fault, Outcome, Usage
from refold.engine.ports.ports import Policy
from refold.engine.state.folding import Fold
from tests.support.loops import for_each

GOOD: dict[str, Any] = {"status": "completed", "summary": "s"}


def outcome_from(reply: Any, policy: Policy | None = None) -> Outcome:
    return outcome_of(json.dumps(reply).encode(), policy or Policy())


def test_a_reply_survives_the_frame() -> None:
    """What a run ended with is what its parent gets."""
    artifacts = [{"kind": "note", "value": "v", "name": "n"}]
    finished = RunFinished("completed", "done", {"x": [1]}, summary="in short", artifacts=artifacts)
    usage = Usage(input_tokens=1, output_tokens=2, requests=3, cost_usd_micros=4, prices="table 1")
    child = ChildRef(run="r", head="h", events=4)

    frame = frame_of(finished, tools_used=("a", "b"), usage=usage)
    outcome = outcome_of(frame, Policy(), duration_ms=5, child=child)

    assert outcome == Outcome(
        status="completed",
        summary="in short",
        output={"x": [1]},
        artifacts=(Artifact(kind="note", value="v", name="n"),),
        tools_used=("a", "b"),
        usage=usage,
        duration_ms=5,
        child=child,
    )


@for_each("output, summary", [("text", "text"), ({"a": 1}, '{"a":1}'), (None, ""), (0, "0")])
def test_the_summary_is_the_output_where_there_is_no_other(output: Any, summary: str) -> None:
    """Text as it is, any other value as JSON."""
    finished = RunFinished("completed", "done", output)

    assert outcome_of(frame_of(finished, tools_used=(), usage=Usage()), Policy()).summary == summary


def test_a_failure_keeps_its_fault() -> None:
    """And one without a reason is given one."""
    finished = RunFinished("failed", "error", error=Fault(code="raised", message="m"))

    outcome = outcome_of(frame_of(finished, tools_used=(), usage=Usage()), Policy())

    assert outcome.error == Fault(code="raised", message="m")
    assert outcome_from({**GOOD, "status": "failed"}).error == Fault(
        code="failed", message="the child ended as failed and gave no reason"
    )


MALFORMED: list[tuple[Any, str]] = [
    ([], "/"),
    ("text", "/"),
    ({}, "/status"),
    ({"status": "completed"}, "/summary"),
    ({**GOOD, "status": "perhaps"}, "/status"),
    ({**GOOD, "status": 1}, "/status"),
    ({**GOOD, "summary": None}, "/summary"),
    ({**GOOD, "surprise": 1}, "/surprise"),
    ({**GOOD, "artifacts": {}}, "/artifacts"),
    ({**GOOD, "artifacts": [1]}, "/artifacts/0"),
    ({**GOOD, "artifacts": [{"kind": "note"}]}, "/artifacts/0/value"),
    ({**GOOD, "artifacts": [{"kind": "note", "value": 1}]}, "/artifacts/0/value"),
    ({**GOOD, "artifacts": [{"kind": "note", "value": "", "x": 1}]}, "/artifacts/0/x"),
    ({**GOOD, "artifacts": [{"kind": "exe", "value": ""}]}, "/artifacts/0/kind"),
    ({**GOOD, "error": "text"}, "/error"),
    ({**GOOD, "error": {"code": "x"}}, "/error/message"),
    ({**GOOD, "tools_used": [1]}, "/tools_used/0"),
    ({**GOOD, "usage": {"input_tokens": -1}}, "/usage/input_tokens"),
    ({**GOOD, "usage": {"input_tokens": 1.5}}, "/usage/input_tokens"),
    ({**GOOD, "usage": {"cost": 1}}, "/usage/cost"),
]


@pytest.mark.parametrize(("reply", "pointer"), MALFORMED, ids=[where for _, where in MALFORMED])
def test_another_shape_is_malformed_and_says_where(reply: Any, pointer: str) -> None:
    """Nothing is coerced, nothing unknown is passed over."""
    outcome = outcome_from(reply)

    assert outcome.status == "malformed"
    assert outcome.error is not None
    assert f"at {pointer}:" in outcome.error.message


@for_each(
    "more, said",
    [
        ({"summary": 1}, "/summary: expected text, found an integer"),
        ({"error": {"code": "x"}}, "/error/message: expected text, found nothing"),
        (
            {"usage": {"input_tokens": -1}},
            "/usage/input_tokens: expected an integer of at least 0, found -1",
        ),
        (
            {"artifacts": [{"kind": "note", "value": "", "x": 1}]},
            "/artifacts/0/x: expected one of kind, value, name, found an unknown member",
        ),
        (
            {"artifacts": [{"kind": "exe", "value": ""}]},
            "/artifacts/0/kind: expected one of note, path, diff, json, found 'exe'",
        ),
    ],
)
def test_it_says_what_was_expected_and_what_was_found(more: dict[str, Any], said: str) -> None:
    """The child's author reads it, and has the reply before him."""
    outcome = outcome_from(GOOD | more)

    assert outcome.error is not None
    assert outcome.error.message == f"the reply at {said}"


@for_each("frame", [b"", b"{", b"\xff", b'{"a":1} x', b"NaN"])
def test_what_is_no_json_is_malformed(frame: bytes) -> None:
    """Code `json`."""
    outcome = outcome_of(frame, Policy())

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("malformed", "json")


def test_too_long_a_frame_is_a_limit_whatever_it_holds() -> None:
    """It is not even parsed."""
    outcome = outcome_of(b"x" * 101, Policy(frame_bytes=100))

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("limit", "frame_bytes")
    just = outcome_of(b"x" * 100, Policy(frame_bytes=100))
    assert just.status == "malformed"


def test_artifacts_are_capped() -> None:
    """In number, in size, in kind."""
    note = {"kind": "note", "value": "é"}

    assert outcome_from({**GOOD, "artifacts": [note]}, Policy(artifact_bytes=2, max_artifacts=1)).ok
    for policy in (
        Policy(artifact_bytes=1),
        Policy(max_artifacts=0),
        Policy(artifact_kinds=("path",)),
    ):
        outcome = outcome_from({**GOOD, "artifacts": [note]}, policy)
        assert outcome.error is not None
        assert (outcome.status, outcome.error.code) == ("malformed", "artifacts")


@given(st.text(), st.integers(1, 40))
def test_a_cut_keeps_whole_characters(text: str, most: int) -> None:
    """At most so many bytes, a prefix, and never half a character."""
    kept, truncated = cut(text, most)

    assert text.startswith(kept)
    assert len(kept.encode()) <= most
    assert (truncated is None) == (kept == text)
    if truncated is not None:
        assert most - len(kept.encode()) < 4
        assert truncated.seen_bytes == len(text.encode())


@given(st.binary(max_size=200))
def test_any_bytes_give_an_outcome(frame: bytes) -> None:
    """And the same bytes the same one."""
    assert outcome_of(frame, Policy()) == outcome_of(frame, Policy())


def test_a_reply_that_cannot_be_written_says_so() -> None:
    """Raises nothing: a child's reply must be recordable."""
    finished = RunFinished("completed", "done", {"x": float("nan")})

    outcome = outcome_of(reply_frame(finished, Fold()), Policy())

    assert outcome.error is not None
    assert (outcome.status, outcome.error.code) == ("malformed", "output")
