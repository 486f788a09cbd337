"""A record holds each request whole, though the log stores each message once."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import LogDamaged
from refold.engine.events.events import WIRE, Extension, ModelAsked, RunFinished
from refold.engine.log.writer import LogWriter
from refold.engine.observed.volatile import VolatileRules
from refold.replay.observed.record import read_record
from tests.support.kept_watched import EXCHANGES
from tests.support.watched import record, says, talk, user

FAILED = {"exit_code": 1, "stdout": "", "stdout_bytes": 0}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Return a record of all kinds of requests."""
    return record(tmp_path / "a.jsonl", EXCHANGES)


def test_requests_are_read_as_they_were_asked(log: Path) -> None:
    """In the order of asking, large texts and shared beginnings in place."""
    found = read_record(log)

    assert [turn.asked for turn in found.turns] == [one.asked for one in EXCHANGES]
    assert [turn.seq for turn in found.turns] == sorted(turn.seq for turn in found.turns)


def test_answers_are_read_with_how_they_ended(log: Path) -> None:
    """Answered, failed, given up; the entry that ended each."""
    found = read_record(log)

    assert {turn.how for turn in found.turns} == {"answered", "gone"}
    assert [turn.how for turn in found.turns].count("gone") == 1
    statuses = [turn.answer.status for turn in found.turns if turn.answer]
    assert statuses.count("error") == 1
    assert all(turn.over is not None and turn.over > turn.seq for turn in found.turns)


@pytest.mark.parametrize(("output", "code"), [({"exit_code": 3}, 3), ({}, 0), ("x", 0), (None, 0)])
def test_the_exit_code_is_a_number_whatever_the_end_says(log: Path, output: Any, code: int) -> None:
    """0 where the record has no end, or one of another program."""
    found = read_record(log)
    ended = None if output is None else RunFinished("completed", "done", output)

    assert attrs.evolve(found, finished=ended).exit_code == code


def test_tool_calls_are_read_with_their_results(log: Path) -> None:
    """By call key; a result is what a later request showed."""
    tools = read_record(log).tools

    assert [tool.tool for tool in tools.values()] == ["Task", "Task", "weather"]
    ends = [tool.end for tool in tools.values() if tool.end]
    assert [end["status"] for end in ends] == ["ok", "ok", "error"]


def test_the_wire_is_read_chunk_by_chunk(log: Path) -> None:
    """Only when it is asked for."""
    found = read_record(log)
    turn = found.turns[0]

    body = b"".join(chunk for _, chunk in found.pieces(turn))

    assert b"I ask around." in body


def test_what_lies_behind_an_entry_can_be_left_out(log: Path) -> None:
    """A request whose answer lies there is open."""
    whole = read_record(log)
    first = whole.turns[0]
    assert first.over is not None

    cut = read_record(log, until=first.over)

    assert [turn.how for turn in cut.turns] == ["open"]
    assert cut.entries == first.over


def test_rules_of_the_log_hold_and_more_are_added(tmp_path: Path) -> None:
    """Each once."""
    exchanges = talk(user("x"), says("y"))
    log = record(tmp_path / "a.jsonl", exchanges, rules=VolatileRules(texts=["a+"]))

    found = read_record(log, VolatileRules(texts=["a+", "b+"]))

    assert found.rules.texts == ("a+", "b+")


def test_a_damaged_log_is_no_record(log: Path) -> None:
    """A torn tail is passed over: the command was killed."""
    content = log.read_bytes()
    log.write_bytes(content[:-5])
    assert read_record(log).finished is None

    log.write_bytes(content.replace(b"I ask around.", b"I ask nobody."))
    with pytest.raises(LogDamaged):
        read_record(log)


def test_nonsense_whose_chain_holds_is_damage(tmp_path: Path, log: Path) -> None:
    """Whoever can hash can write an answer to nothing; it is said which line does so."""
    started = read_record(log).started
    from refold.engine.events.events import ModelAnswered  # noqa: PLC0415 - here alone

    writer = LogWriter.create(tmp_path / "b.jsonl", started)
    writer.append(ModelAnswered("ok"), "0/1#1", 0)
    writer.close()

    with pytest.raises(LogDamaged, match="entries before") as caught:
        read_record(tmp_path / "b.jsonl")

    assert caught.value.line == 2


@pytest.mark.parametrize(
    "part",
    [
        {"text": "abc", "sizes": [2], "at_ms": [1]},
        {"text": "abc", "sizes": [3], "at_ms": []},
        {"text": "abc", "sizes": [4, -1], "at_ms": [1, 1]},
        {"text": "abc", "sizes": [3], "at_ms": [1], "status": None, "headers": {}},
        {"text": "abc", "sizes": [3], "at_ms": [1], "status": 200, "headers": {"a": 1}},
        {"text": {"a": 1}, "sizes": [3], "at_ms": [1], "status": 200, "headers": {}},
        {},
    ],
)
def test_a_wire_that_cannot_be_served_is_damage(
    tmp_path: Path, log: Path, part: dict[str, Any]
) -> None:
    """Before the command is started, and not while it waits for that answer."""
    record = read_record(log)
    writer = LogWriter.create(tmp_path / "b.jsonl", record.started)
    writer.append(ModelAsked("m", "", 0, [], {"api": "chat"}, ""), "0/1#1", 0)
    head = {"status": 200, "headers": {}} if "status" not in part and part else {}
    writer.append(Extension(WIRE, {**head, **part}), "0/1#1", 1)
    writer.close()

    with pytest.raises(LogDamaged, match=r"schema: expected x-refold\.wire"):
        read_record(tmp_path / "b.jsonl")


@pytest.mark.parametrize("kept_bytes", [0, 100])
def test_a_log_without_a_first_line_is_damaged(log: Path, kept_bytes: int) -> None:
    """Nothing can be replayed of a command that was killed before its log began."""
    log.write_bytes(log.read_bytes()[:kept_bytes])

    with pytest.raises(LogDamaged, match="torn tail"):
        read_record(log)


def test_a_blob_that_is_not_what_it_was_is_damage(tmp_path: Path) -> None:
    """Its place is that of the entry that names it, of the wire, too: no answer lacks a piece."""
    log = record(tmp_path / "a.jsonl", talk(user("x" * 40_000), says("y")))
    for blob in (tmp_path / "a.blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()

    with pytest.raises(LogDamaged, match="blob missing"):
        read_record(log)


def test_what_was_taken_out_of_a_request_is_known(tmp_path: Path) -> None:
    """From the first message that lacks something on; and of parameters and tools."""
    exchanges = [
        *talk(user("Plain"), says("x")),
        *talk(
            user("Hello"), says("a"), user("Use [redacted:KEY]"), says("b"), user("c"), says("d")
        ),
        *talk(user("Hello"), says("a"), metadata={"user": "[redacted]"}),
    ]

    found = read_record(record(tmp_path / "a.jsonl", exchanges))

    assert [turn.is_marked for turn in found.turns] == [False, False, True, True, True]
    assert [turn.asked for turn in found.turns] == [one.asked for one in exchanges]


def test_a_link_that_the_caller_dropped_names_nobody(tmp_path: Path) -> None:
    """Neither in a report of a replay nor in a diff."""
    brief = "Look into the old cellar."
    task = says("", ("c", "Task", {"subagent_type": "scout", "prompt": brief}))
    begun = [*talk(user("Go."), task), *talk(user(brief), says("Dust."))]
    kept = read_record(record(tmp_path / "a.jsonl", begun, output=FAILED))
    dropped = read_record(record(tmp_path / "b.jsonl", begun))

    assert kept.agents["0/1/1"] == "scout"
    assert (dropped.agents["0/1/1"], dropped.started_by["0/1/1"]) == ("", "")
