"""Conversations are called by their agent, else by how they begin; requests are counted."""

from pathlib import Path

from refold.engine.observed.profile import Profile
from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.record import read_record
from refold.replay.observed.titles import beginning, place_of, title_of
from tests.support.watched import ask, record, result, says, system, talk, user

BRIEFS = ("Find a place to eat near the harbour", "Find a place to walk above the city")


def test_a_title_is_the_beginning_of_what_the_user_said_first() -> None:
    """On one line, cut where it is long; of another request, its path."""
    other = Asked(api="other", model="", parameters={"method": "GET", "path": "/v1/models"})
    known = Profile(name="x", left_out=("note: 1;",))

    assert (
        title_of(ask(system("You are brief."), user("Count\n  the  words."))) == "Count the words."
    )
    assert title_of(ask(user("Hello"))) == "Hello"
    assert title_of(other) == "GET /v1/models"
    assert title_of(ask()) == ""
    assert title_of(ask(user("note: 1;"), user("note: 1; Go\n on.")), known) == "Go on."
    assert title_of(ask(path="/v1/models")) == ""
    assert beginning("word " * 30) == "word word word word word word word word word wo…"


def test_a_place_leads_from_the_command_to_the_request(tmp_path: Path) -> None:
    """Agents of one name are numbered; requests count within their conversation."""
    calls = [
        (f"t{at}", "Task", {"subagent_type": "scout", "prompt": brief})
        for at, brief in enumerate(BRIEFS)
    ]
    lead = talk(
        system("You lead."),
        user("Plan."),
        says("", *calls),
        result("t0", "hall"),
        result("t1", "hill"),
        says("Done."),
    )
    scouts = [talk(system("You scout."), user(brief), says("x")) for brief in BRIEFS]
    log = record(tmp_path / "a.jsonl", [lead[0], *scouts[0], *scouts[1], lead[1]])

    found = read_record(log)

    assert [place_of(found, turn) for turn in found.turns] == [
        "agent.py > main > request 1 (gpt-5)",
        "agent.py > main > scout[1] > request 1 (gpt-5)",
        "agent.py > main > scout[2] > request 1 (gpt-5)",
        "agent.py > main > request 2 (gpt-5)",
    ]
