"""A fork serves the record up to an entry, with answers as they are edited."""

import re
from pathlib import Path
from typing import Any

import pytest

from refold.engine.errors import EntryMissing, ForkRefused, LogObserved, UsageError
from refold.engine.runners.recording import record as record_program
from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.record import read_record
from refold.replay.resume.observed_fork import kept_record
from tests.support.watched import Exchange, record, result, says, system, talk, user

TALK = talk(
    system("You are the weather desk."),
    user("How is it in Oslo?"),
    says("I look.", ("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Bergen"})),
    result("c1", "snow"),
    result("c2", "rain"),
    says("It snows."),
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return the record of one conversation."""
    return record(tmp_path / "a.jsonl", TALK)


def answer_at(log: Path, call: str) -> int:
    """Return the entry of the answer to a request."""
    (turn,) = [one for one in read_record(log).turns if one.call == call]
    assert turn.over is not None
    return turn.over


def test_requests_answered_up_to_the_entry_are_kept(log: Path) -> None:
    """One that was asked before it, and answered after it, goes on live."""
    first, last = answer_at(log, "0/1#1"), answer_at(log, "0/1#4")

    assert [turn.call for turn in kept_record(log, first, {}).record.turns] == ["0/1#1"]
    assert [turn.call for turn in kept_record(log, last - 1, {}).record.turns] == ["0/1#1"]
    assert [turn.call for turn in kept_record(log, -1, {}).record.turns] == ["0/1#1", "0/1#4"]
    assert kept_record(log, first - 1, {}).record.turns == []


def test_an_edit_of_an_answer_is_where_the_fork_leaves(log: Path) -> None:
    """Its text, in the message and on the wire; the origin is named with the entry's hash."""
    kept = kept_record(log, None, {"0/1#1": "No idea."})

    (turn,) = kept.record.turns
    assert turn.answer is not None
    assert turn.answer.message == says("No idea.")
    assert "No idea." in turn.parts[0]["text"]
    assert kept.at == answer_at(log, "0/1#1")
    assert kept.origin["at"] == kept.at
    assert kept.origin["edits"] == ["0/1#1"]
    assert kept.origin["head"] == kept.record.head
    assert kept.origin["nonce"] == read_record(log).started.nonce


def test_an_edit_of_a_tool_call_changes_its_arguments(log: Path) -> None:
    """In the answer that asked for it, and of that call alone."""
    (turn,) = kept_record(log, None, {"0/1#3": {"city": "Rome"}}).record.turns

    assert turn.answer is not None
    assert turn.answer.message is not None
    cities = [call["arguments"]["city"] for call in turn.answer.message["tool_calls"]]
    assert cities == ["Oslo", "Rome"]
    assert "Rome" in turn.parts[0]["text"]


def test_so_does_one_of_a_later_answer(tmp_path: Path) -> None:
    """Calls are counted from the answer that asked for them."""
    looks = [("c1", "weather", {"city": "Oslo"}), ("c2", "weather", {"city": "Bergen"})]
    messages = [user("How is it?")]
    for call in looks:
        messages += [says("I look.", call), result(call[0], "snow")]
    log = record(tmp_path / "b.jsonl", talk(*messages, says("It snows.")))

    turns = kept_record(log, None, {"0/1#4": {"city": "Rome"}}).record.turns

    answers = [turn.answer.message or {} for turn in turns if turn.answer is not None]
    cities = [each["tool_calls"][0]["arguments"]["city"] for each in answers]
    assert cities == ["Oslo", "Rome"]


def test_what_is_not_edited_is_served_as_it_came(tmp_path: Path) -> None:
    log = record(tmp_path / "b.jsonl", TALK, at_ms=7)
    first, last = read_record(log).turns

    kept = kept_record(log, None, {last.call: "It rains."}).record.turns

    assert kept[0].parts == first.parts
    assert kept[1].parts != last.parts


def test_a_call_that_another_edit_took_away_cannot_be_edited(log: Path) -> None:
    with pytest.raises(UsageError, match="removed this call"):
        kept_record(
            log, None, {"0/1#1": says("", ("c1", "weather", {})), "0/1#3": {"city": "Rome"}}
        )


def test_an_error_makes_a_request_fail(log: Path) -> None:
    """As the server's."""
    (turn,) = kept_record(log, None, {"0/1#1": {"error": {"message": "no"}}}).record.turns

    assert turn.answer is not None
    assert turn.answer.status == "error"
    assert turn.parts[0]["status"] == 500


@pytest.mark.parametrize(
    ("value", "status", "code"),
    [
        ({"error": {"code": "http_429"}}, 429, "http_429"),
        ({"error": {"code": "http_529", "message": "Busy"}}, 529, "http_529"),
        ({"error": {"code": "cut"}}, 200, "cut"),
        ({"refusal": "I cannot."}, 200, ""),
        ("", 200, ""),
    ],
)
def test_an_answer_fails_as_a_fault_says(value: Any, status: int, code: str, log: Path) -> None:
    (turn,) = kept_record(log, None, {"0/1#1": value}).record.turns

    assert turn.answer is not None
    assert (turn.parts[0]["status"], (turn.answer.error or {}).get("code", "")) == (status, code)
    assert turn.why_unserved == ""
    if code == "http_529":
        assert turn.answer.error == {"code": code, "message": "Busy"}


def test_a_cut_answer_has_the_first_half_of_its_bytes(log: Path) -> None:
    whole = read_record(log)
    body = b"".join(chunk for _, chunk in whole.pieces(whole.turns[0]))
    kept = kept_record(log, None, {"0/1#1": {"error": {"code": "cut"}}}).record

    half = b"".join(chunk for _, chunk in kept.pieces(kept.turns[0]))
    assert half == body[: len(body) // 2]
    assert kept.turns[0].parts[0]["end"] == "cut"


def test_a_late_answer_is_the_recorded_one(log: Path) -> None:
    (turn,) = kept_record(log, None, {"0/1#1": {"late_seconds": 9}}).record.turns

    recorded = read_record(log).turns[0]
    assert (turn.late_seconds, recorded.late_seconds) == (9, 0)
    assert (turn.answer, turn.parts) == (recorded.answer, recorded.parts)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"error": {"code": "htp_429"}}, "did you mean 'http_429'?"),
        ({"error": {"code": "http_200"}}, "expected a code http_400 to http_599, or cut"),
        ({"error": {"code": "http_429", "mesage": "x"}}, "expected a text"),
        ({"refusl": "no"}, "did you mean 'refusal'?"),
        ({"late": 3}, "late_seconds"),
        ({"late_seconds": -1}, "late_seconds"),
        ({"error": "http_429"}, '{"error": {"code": "http_429"}}'),
    ],
)
def test_a_fault_that_is_none_is_refused_with_the_nearest_name(
    value: Any, told: str, log: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        kept_record(log, None, {"0/1#1": value})


def test_a_fork_of_nowhere_is_refused(log: Path, tmp_path: Path) -> None:
    """Without an entry or an edit, of what is no answer, after its end, of a program's log."""
    program = record_program(_nothing, log=tmp_path / "p.jsonl").log

    with pytest.raises(ForkRefused, match="name an answer to change"):
        kept_record(log, None, {})
    with pytest.raises(ForkRefused, match="no answer or tool call has"):
        kept_record(log, None, {"0/7#1": "x"})
    with pytest.raises(ForkRefused, match="a later --at"):
        kept_record(log, 3, {"0/1#4": "x"})
    with pytest.raises(UsageError, match=r"must be an object.*made it is .0/1#"):
        kept_record(log, None, {"0/1#3": "Rome"})
    with pytest.raises(EntryMissing):
        kept_record(log, 99, {})
    with pytest.raises(LogObserved):
        kept_record(program, 1, {})


def test_what_cannot_be_spelled_cannot_be_edited(tmp_path: Path) -> None:
    """A request of no interface."""
    asked = Asked(api="other", model="", parameters={"method": "GET", "path": "/", "body": None})
    log = record(tmp_path / "a.jsonl", [Exchange(asked, None)])

    with pytest.raises(ForkRefused, match="cannot encode"):
        kept_record(log, None, {"0/1#1": "x"})


async def _nothing(_run: object, _input: object) -> None:
    """Do nothing."""
