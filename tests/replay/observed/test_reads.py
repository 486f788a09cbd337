"""What only reads is served as often as it is asked for, and listed (CONTRACT.md §16.6)."""

from pathlib import Path
from typing import Any

import pytest

from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.matching import Matcher, Miss
from refold.replay.observed.reads import only_reads
from refold.replay.observed.record import read_record
from tests.support.watched import Exchange, ask, record, replayed, says, user

ALIKE = "all of its recorded answers are the same, so this is not a difference"


def read(method: str = "GET", path: str = "/v1/models", body: Any = None) -> Asked:
    """Return a request that no interface reads."""
    return Asked(api="other", model="", parameters={"method": method, "path": path, "body": body})


READS = [
    read(),
    read(path="/v1/models?limit=1000"),
    read(path="/v1beta/models/gemini-2.5-pro"),
    read("HEAD", "/"),
    read("POST", "/v1/messages/count_tokens?beta=true", {"messages": []}),
    read("POST", "/v1beta/models/gemini-2.5-pro:countTokens", {"contents": []}),
]
OTHERS = [
    read("DELETE", "/v1/models/mine"),
    read(path="/v1/responses/resp_1"),
    read(path="/v1/models/a/b"),
    read("POST", "/v1/embeddings", {"input": "a"}),
    read("POST", "/v1/models", {}),
    ask(user("Hello")),
]


@pytest.mark.parametrize("asked", READS, ids=str)
@pytest.mark.parametrize("now", [1, 2, 4])
def test_what_only_reads_is_read_as_often_as_a_client_likes(
    tmp_path: Path, asked: Asked, now: int
) -> None:
    """Lists of models, counts of tokens, probes: their number hangs on the client's timing."""
    log = record(tmp_path / "a.jsonl", [Exchange(asked, None)] * 2)

    report = replayed(log, [asked] * now)

    assert only_reads(asked)
    assert report.identical, report
    assert (report.served, report.requests) == (min(now, 2), 2)
    title = f"{asked.parameters['method']} {asked.parameters['path']}"
    times = "once" if now == 1 else f"{now} times"
    note = f"{title} was requested {times}, recorded 2 times; {ALIKE}"
    assert report.notes == ((note,) if now != 2 else ())


@pytest.mark.parametrize("asked", OTHERS, ids=str)
@pytest.mark.parametrize("now", [1, 3])
def test_all_else_is_served_as_often_as_recorded(tmp_path: Path, asked: Asked, now: int) -> None:
    """What is polled may be ready the next time; what changes something happened so often."""
    log = record(tmp_path / "a.jsonl", [Exchange(asked, None)] * 2)

    report = replayed(log, [asked] * now)

    assert not only_reads(asked)
    (one,) = report.divergences
    assert one.category == ("extra_call" if now == 3 else "unconsumed")


@pytest.mark.parametrize("now", [1, 3])
def test_what_was_answered_otherwise_is_read_as_often_as_recorded(tmp_path: Path, now: int) -> None:
    """Which of its answers one more would be, nothing says."""
    exchanges = [Exchange(read(), says(text)) for text in ("[]", "[1]")]
    log = record(tmp_path / "a.jsonl", exchanges)

    assert not replayed(log, [read()] * now).identical


@pytest.mark.parametrize("now", [1, 3])
def test_what_was_given_up_is_read_as_often_as_recorded(tmp_path: Path, now: int) -> None:
    """A client that did not wait for an answer may do something else when it gets one."""
    exchanges = [Exchange(read(), None), Exchange(read(), None, is_gone=True)]
    log = record(tmp_path / "a.jsonl", exchanges)

    assert not replayed(log, [read()] * now).identical


def test_what_is_not_read_at_all_is_told(tmp_path: Path) -> None:
    """That is no matter of timing."""
    hello = Exchange(ask(user("Hello")), says("Hi"))
    log = record(tmp_path / "a.jsonl", [Exchange(read(), None), hello])

    report = replayed(log, [hello.asked])

    (one,) = report.divergences
    assert report.notes == ()
    assert (one.category, one.call) == ("unconsumed", "0/1#1")


def test_what_goes_on_live_is_read_there(tmp_path: Path) -> None:
    """A fork is answered from the record up to one entry, and by the server from there on."""
    log = record(tmp_path / "a.jsonl", [Exchange(read(), None)])
    matcher = Matcher(read_record(log), reads_again=False)

    found = [matcher.take(read(), "0/1") for _ in range(2)]

    assert [isinstance(each, Miss) for each in found] == [False, True]
