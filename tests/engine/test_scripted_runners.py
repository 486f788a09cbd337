"""Runners for tests: one that answers from a script, one that cannot run anything."""

from refold.engine.events.outcome import Outcome
from refold.engine.ports.ports import Policy
from tests.engine.conftest import Make
from tests.support.scripted_runners import Scripted, Unavailable

FINE = b'{"status": "completed", "summary": "fine"}'


def test_a_script_answers_by_brief(request_for: Make) -> None:
    """A frame, an outcome, what makes one; `*` is every other brief."""
    ready = Outcome(status="completed", summary="ready")
    runner = Scripted(
        {"frame": FINE, "ready": ready, "made": lambda request: request.brief.encode()}
    )

    found = [
        runner.run(request_for("works", brief=brief)) for brief in ("frame", "ready", "made", "?")
    ]

    assert [outcome.status for outcome in found] == [
        "completed",
        "completed",
        "malformed",
        "failed",
    ]
    assert found[1] is ready
    assert found[3].error is not None
    assert "no reply for '?'" in found[3].error.message
    assert [request.brief for request in runner.requests] == ["frame", "ready", "made", "?"]


def test_one_reply_for_all_is_capped_as_a_real_one(request_for: Make) -> None:
    """By the policy of the request."""
    runner = Scripted(FINE)

    assert runner.run(request_for("works")).summary == "fine"
    assert runner.run(request_for("works", policy=Policy(frame_bytes=3))).status == "limit"


def test_an_unavailable_runner_says_why(request_for: Make) -> None:
    outcome = Unavailable("no room").run(request_for("works"))

    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("runner_unavailable", "no room")
