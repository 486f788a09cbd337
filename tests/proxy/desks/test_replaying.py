"""Requests are served what was recorded for them, and nothing else."""

import contextlib
import http.client
import json
import select
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer, RequestUnderway
from refold.engine.secrets.vault import Vault
from refold.engine.wire.apis import read_request
from refold.proxy.bookends import again_rules
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.replaying import Replaying
from refold.proxy.http.server import served
from refold.proxy.http.turns import Pace
from refold.replay.observed.record import read_record
from refold.replay.resume.observed_fork import kept_record
from tests.support.proxied import (
    RawServer,
    answering,
    asked,
    data_of,
    kinds,
    question,
    recorded,
    replayed,
    said,
    sent,
)
from tests.support.upstream import Upstream
from tests.support.watched import Exchange, record, result, says, system, talk, user, wire

NUMBERS = [10**17] * 60_000
CHAT = "/openai/chat/completions"
"""More than an entry can hold: only texts are kept apart."""


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """Return a record of one request, streamed."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        said(base, question("Hello", stream=True))
    return log


def test_an_answer_is_served_once(hello: Path) -> None:
    """The same request again is one that was not recorded."""
    with replayed(hello) as (base, desk):
        first = said(base, question("Hello", stream=True))[0]
        second = said(base, question("Hello", stream=True))[0]

    assert (first, second) == (200, 400)
    assert desk.served == 1


@pytest.mark.parametrize(
    ("path", "member"),
    [
        ("/openai/chat/completions", "error"),
        ("/openai/messages", "error"),
        ("/openai/any", "error"),
    ],
)
def test_what_was_not_recorded_is_refused_and_not_to_be_retried(
    path: str, member: str, hello: Path
) -> None:
    """In the form of the interface, saying who refuses, and what differs."""
    body = question("Something else", max_tokens=9)
    with replayed(hello) as (base, _), asked(base, body, path=path) as response:
        found = json.loads(response.read())

    assert (response.status, response.getheader("x-should-retry")) == (400, "false")
    assert "refold replay" in found[member]["message"]


def test_no_answer_waits_for_what_only_reads(tmp_path: Path) -> None:
    """How often that is asked for hangs on timing; the order of all else is kept."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        for _ in range(2):
            with asked(base, path="/openai/models", method="GET") as response:
                models = response.read()
        said(base, question("Hello"))

    with replayed(log) as (base, desk):
        said(base, question("Hello"))
        for _ in range(3):
            with asked(base, path="/openai/models", method="GET") as response:
                assert response.read() == models

    assert (desk.matcher.left(), desk.order.notes()) == ([], [])


def test_what_was_not_recorded_may_go_on_live(hello: Path) -> None:
    with Upstream() as upstream:
        with replayed(hello, upstream.openai_url, on_miss="live") as (base, desk):
            status, body = said(base, question("Hello there"))
        received = len(upstream.received)

    assert (status, received, desk.live) == (200, 1, 1)
    assert b"Which city" in body


def test_a_changed_request_gets_the_answer_to_the_same_turn(tmp_path: Path) -> None:
    """It waits for those that ask what was recorded, and takes none of their answers."""
    texts = ["Look at the harbour", "Look at the museum"]
    said_first = [system("You are the weather desk."), user(texts[0]), says("ships")]
    log = record(tmp_path / "a.jsonl", talk(*said_first, model="small"))
    bodies = {text: question(text) for text in (*texts, "Bake a cake for nine, please")}
    found: dict[str, int] = {}
    with replayed(log, on_miss="recorded") as (base, desk):

        def ask(text: str) -> None:
            found[text] = said(base, bodies[text])[0]

        changed = [threading.Thread(target=ask, args=[text]) for text in [*bodies][1:]]
        for each in changed:
            each.start()
        while len(desk.matcher.misses) < len(changed):
            time.sleep(0)
        ask(texts[0])
        for each in changed:
            each.join()
    with replayed(log, on_miss="recorded") as (base, desk):
        streamed = said(base, question(texts[1], stream=True))

    assert [found[text] for text in bodies] == [200, 400, 400]
    assert (streamed[0], b"data: " in streamed[1], b"ships" in streamed[1]) == (200, True, True)
    assert desk.matcher.misses[0].answered_as is not None


def test_a_program_may_leave_before_it_is_known_what_a_request_was(hello: Path) -> None:
    with replayed(hello, on_miss="recorded") as (base, desk):
        with sent(base, question("Hello there")):
            while not desk.matcher.misses:
                time.sleep(0)
        status = said(base, question("Hello there all"))[0]

    assert status == 200
    assert [one.answered_as is not None for one in desk.matcher.misses] == [False, True]


@pytest.mark.long
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/openai/embeddings", {"input": [NUMBERS]}),
        pytest.param(CHAT, question("Hello", seed=NUMBERS), marks=pytest.mark.long),
        pytest.param(CHAT, question("Hello", tools=[{"x": NUMBERS}]), marks=pytest.mark.long),
    ],
)
def test_a_request_that_no_entry_can_hold_is_served_again(
    path: str, body: dict[str, object], tmp_path: Path
) -> None:
    """It is recorded as its text, and is the same text when it comes again."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, f"{upstream.url}/v1") as base:
        live = said(base, body, path=path)
    with replayed(log) as (base, desk):
        again = said(base, body, path=path)
        other = said(base, {**body, "user": "x"}, path=path)

    assert live[0] == 200
    assert again == live
    assert (other[0], desk.served, len(desk.matcher.misses)) == (400, 1, 1)


def test_pace_may_be_as_recorded(tmp_path: Path) -> None:
    """By default nobody waits: not for an answer that took an hour."""
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello"}]}
    took = {}
    paces: tuple[tuple[Pace, int], ...] = (("full", 3_600_000), ("recorded", 400))
    for pace, ms in paces:
        exchanges = talk(user("Hello"), says("Hi"))
        log = record(tmp_path / f"{pace}.jsonl", exchanges, at_ms=ms)
        with replayed(log, pace=pace) as (base, _):
            started = time.monotonic()
            assert said(base, body)[0] == 200
            took[pace] = time.monotonic() - started

    assert took["recorded"] >= 0.39
    assert took["full"] < 60


def test_at_its_own_pace_an_answer_waits_for_no_other(tmp_path: Path) -> None:
    """Only those that go out at once have an order to keep."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        for text in ("Hello", "Hello again"):
            said(base, question(text))

    with replayed(log, pace="recorded") as (base, desk):
        assert said(base, question("Hello again"))[0] == 200

    assert desk.order.notes() == []


def test_a_replay_may_be_recorded(hello: Path, tmp_path: Path) -> None:
    """The new record can be replayed in its turn."""
    into = tmp_path / "again.jsonl"
    secrets = Secrets()
    with ObservedLog(into, program="x", input={"command": ["x"]}, vault=secrets) as journal:
        desk = Replaying(read_record(hello), secrets, log=journal)
        with served(desk, ["openai"]) as base:
            first = said(base, question("Hello", stream=True))
        journal.seal("completed", "done")
    with replayed(into) as (base, _):
        second = said(base, question("Hello", stream=True))

    assert kinds(into) == kinds(hello)
    assert first == second


@pytest.mark.long
def test_a_large_answer_of_a_recorded_replay_is_whole(tmp_path: Path) -> None:
    """Though its texts are blobs."""
    log, into = tmp_path / "run.jsonl", tmp_path / "again.jsonl"
    body = question("Hello", stream=True)
    with Upstream() as upstream:
        upstream.use("weather", flood_mb=1)
        with recorded(log, upstream.openai_url) as base:
            first = said(base, body)
    secrets = Secrets()
    with ObservedLog(into, program="x", input={"command": ["x"]}, vault=secrets) as journal:
        desk = Replaying(read_record(log), secrets, log=journal)
        with served(desk, ["openai"]) as base:
            said(base, body)
        journal.seal("completed", "done")
    with replayed(into) as (base, _):
        second = said(base, body)

    assert first == second


def test_an_answer_breaks_off_when_the_program_has_read_what_came_of_it(tmp_path: Path) -> None:
    """Clients drop what they have not read when a connection breaks (Bun), and ask otherwise."""
    log = tmp_path / "run.jsonl"
    body = question("Hello", stream=True)
    with Upstream() as upstream:
        upstream.use("weather", cut_after=3)
        with recorded(log, upstream.openai_url) as base, pytest.raises(http.client.IncompleteRead):
            said(base, body)
    looks = [1.0] * 9
    with (
        replayed(log, work=lambda: looks.pop() if looks else None) as (base, _),
        asked(base, body) as response,
    ):
        begun = response.read1()
        with pytest.raises(http.client.IncompleteRead):
            response.read()

    assert begun
    assert looks == []


def test_what_the_command_was_killed_in_breaks_instead_of_hanging(tmp_path: Path) -> None:
    """A record without an end: the program's own end was the reason, and does not come again."""
    log = tmp_path / "run.jsonl"
    body = question("Hello", stream=True)
    with Upstream() as upstream:
        upstream.use("weather", hold_after=2)
        with recorded(log, upstream.openai_url) as base, asked(base, body) as response:
            response.read1()
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-1]))  # without run.finished

    with replayed(log) as (base, _), pytest.raises(http.client.IncompleteRead):
        said(base, body)


def test_a_record_that_ends_before_an_answer_says_so(tmp_path: Path) -> None:
    """Rather than to let the program wait."""
    log = tmp_path / "run.jsonl"
    with Upstream() as upstream, recorded(log, upstream.openai_url) as base:
        said(base, question("Hello"))
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))  # as far as model.asked

    with replayed(log) as (base, _), asked(base, question("Hello")) as answer:
        error = json.loads(answer.read())["error"]

    assert (answer.status, answer.headers["x-should-retry"]) == (504, "false")
    why = "refold replay: the recording ends before the answer to this request"
    assert error == {"message": why, "type": "refold"}


def test_what_a_recorded_replay_refused_is_an_error_in_the_new_record(
    hello: Path, tmp_path: Path
) -> None:
    """With where it was asked; `refold replay` of that refuses it again."""
    into = tmp_path / "again.jsonl"
    secrets = Secrets()
    with ObservedLog(into, program="x", input={"command": ["x"]}, vault=secrets) as journal:
        desk = Replaying(read_record(hello), secrets, log=journal)
        with served(desk, ["openai"]) as base:
            status, _ = said(base, question("Goodbye"))
        journal.seal("completed", "done")

    (answer,) = data_of(into, "model.answered")
    assert (status, answer["status"]) == (400, "error")
    assert answer["error"]["code"] == "not_recorded"
    assert "request 1" in answer["error"]["message"]


def test_an_id_of_a_header_is_that_of_now_wherever_it_stands(tmp_path: Path) -> None:
    """In the request, and in the answer to the first one; in no other's place."""
    uuids = [f"121c6862-7ee5-447c-96ee-78670c7f50f{n}" for n in range(3)]
    log = tmp_path / "run.jsonl"
    answer = json.dumps({"choices": [{"message": {"content": f"in {uuids[0]}"}}]}).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
    with RawServer(answering(head + answer)) as server, recorded(log, server.url) as base:
        for text in ("Hello", f"log {uuids[0]}"):
            said(base, question(text), headers={"x-session-id": uuids[0]})

    assert [each["ids"] for each in data_of(log, "x-refold.wire")] == 2 * [
        {"x-session-id/x-session-id/0": uuids[0]}
    ]
    with replayed(log) as (base, desk):
        told = [
            said(base, question(text), headers={"x-session-id": uuids[1]})
            for text in ("Hello", f"log {uuids[2]}", f"log {uuids[1]}")
        ]

    assert [status for status, _ in told] == [200, 400, 200]
    assert f"in {uuids[1]}" in told[0][1].decode()
    assert desk.bindings.lines() == ["1 bound: 1 id"]


@pytest.mark.parametrize("apart", [True, False])
def test_a_path_that_a_stream_says_in_pieces_is_that_of_now(tmp_path: Path, *, apart: bool) -> None:
    """In whatever pieces; a tool would not find the file of another folder."""
    was, now = {"folder": "/home/ann/work"}, {"folder": "/tmp/copy"}
    pieces = ["/home/an", "n/wo", "rk/a.txt"] if apart else ["/home/ann/work/a.txt"]
    chunks = [{"index": 0, "delta": {"content": piece}} for piece in pieces]
    chunks.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = "".join(f"data: {json.dumps({'choices': [chunk]})}\n\n" for chunk in chunks)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    answer = head + b": caf\xe9\n\n" + events.encode() + b"data: [DONE]\n\n"  # bytes of any kind
    log = tmp_path / "run.jsonl"
    with (
        RawServer(answering(answer)) as server,
        recorded(log, server.url, folders=was) as base,
    ):
        said(base, question("in /home/ann/work", stream=True))

    with replayed(log, folders=now) as (base, desk):
        status, body = said(base, question("in /tmp/copy", stream=True))

    told = [
        json.loads(line[6:]) for line in body.decode("latin-1").splitlines() if line[6:7] == "{"
    ]
    choices = [choice for each in told for choice in each["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    assert (status, text) == (200, "/tmp/copy/a.txt")
    assert desk.bindings.lines() == ["1 bound: folder"]


def calls(*given: tuple[str, str, dict[str, str]]) -> dict[str, Any]:
    """Return an answer of (id, tool, arguments) as chat completions spell it in a request."""
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": id_,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(its)},
            }
            for id_, name, its in given
        ],
    }


SPAWN = [
    ("c1", "Agent", {"prompt": "Count the words of a.txt, please"}),
    ("c2", "Agent", {"prompt": "Count the words of b.txt, please"}),
]
WAIT = [("c3", "wait", {"for": "any"})]


def noted(log: Path) -> list[dict[str, Any]]:
    """Record an agent that waits for any of two, and is told of both in its next request.

    Return what it asks when it is to wait, what the two ask, and what it asks then.
    """
    spawned = [user("Survey"), calls(*SPAWN), result("c1", "is there"), result("c2", "is there")]
    woken = [calls(*WAIT), result("c3", "one ended"), user("a: six words"), user("b: four words")]
    said = [
        spawned[:1],
        spawned,
        [user("Count the words of a.txt, please")],
        [user("Count the words of b.txt, please")],
        [*spawned, *woken],
    ]
    bodies = [{"model": "small", "stream": True, "messages": each} for each in said]
    answers = [
        says("", *SPAWN),
        says("", *WAIT),
        says("six words"),
        says("four words"),
        says("Ten"),
    ]
    with ObservedLog(log, program="agent", input={"command": ["agent"]}, vault=Vault()) as journal:
        observer = Observer(journal)

        def asks(at: int) -> RequestUnderway:
            content = json.dumps(bodies[at]).encode()
            return observer.asked(read_request("POST", "/chat/completions", content))

        def is_told(turn: RequestUnderway, at: int) -> None:
            exchange = Exchange(turn.asked, answers[at])
            observer.wire(turn, wire(exchange))
            observer.answered(turn, exchange.answered())

        is_told(asks(0), 0)
        for at, turn in enumerate([asks(1), asks(2), asks(3)], 1):
            is_told(turn, at)
        is_told(asks(4), 4)
        journal.seal("completed", "done", {"exit_code": 0, "stdout": "", "stdout_bytes": 0})
    return bodies


def test_what_an_agent_is_told_at_once_is_there_when_its_answer_ends(tmp_path: Path) -> None:
    """It begins to wait before, wakes at the first, and looks at what is there when it asks again.

    As Codex does; on a busy machine, two answers that only end at the same time are not both there.
    """
    log = tmp_path / "run.jsonl"
    first, waiting, one, two, then = noted(log)
    with replayed(log) as (base, desk), contextlib.ExitStack() as stack:
        said(base, first)
        below = [stack.enter_context(sent(base, each)) for each in (two, one)]
        with asked(base, waiting) as response:
            body = response.read()
        there, _, _ = select.select([each.sock for each in below], (), (), 0)
        read = [each.getresponse().read() for each in below]
        last = said(base, then)

    assert b"wait" in body
    assert len(there) == 2
    assert [b"four" in read[0], b"six" in read[1], last[0]] == [True, True, 200]
    assert (desk.order.notes(), desk.matcher.left()) == ([], [])


ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/openai/chat/completions", {"model": "m", "messages": [user("Q")]}),
    "responses": ("/openai/responses", {"model": "m", "input": "Q"}),
    "messages": (
        "/anthropic/v1/messages",
        {"model": "m", "max_tokens": 9, "messages": [user("Q")]},
    ),
    "generate": (
        "/google/v1beta/models/m",
        {"contents": [{"role": "user", "parts": [{"text": "Q"}]}]},
    ),
}
LONG = ("responses", "messages")
FAULTS = [
    {"error": {"code": "http_429"}},
    {"error": {"code": "http_529"}},
    {"error": {"code": "http_401", "message": "no such key"}},
    {"error": {"code": "cut"}},
    {"refusal": "I cannot."},
    {"late_seconds": 0.01},
    "",
]


def told(base: str, path: str, body: Any) -> tuple[int, bytes, bool]:
    """Return the status and the body that a client gets, and whether it broke off."""
    with asked(base, body, path=path) as response:
        try:
            return response.status, response.read(), False
        except http.client.IncompleteRead as error:
            return response.status, error.partial, True


def check_fork(requests: list[tuple[str, bool]], faults: list[Any]) -> None:
    """Fork a record of requests (format, streamed) with a fault in each answer; replay the fork."""
    sent_ = []
    for at, (api, is_streamed) in enumerate(requests):
        path, body = ASKED[api]
        if api == "generate":
            path += ":streamGenerateContent?alt=sse" if is_streamed else ":generateContent"
        elif is_streamed:
            body = {**body, "stream": True}
        sent_.append((path, json.loads(json.dumps(body).replace("Q", f"Question {at}"))))
    exchanges = [
        Exchange(
            read_request("POST", path[path.index("/", 1) :], json.dumps(body).encode()),
            says(f"Answer {path}"),
        )
        for path, body in sent_
    ]
    with tempfile.TemporaryDirectory() as folder:
        log, new = Path(folder, "a.jsonl"), Path(folder, "b.jsonl")
        record(log, exchanges)
        calls = [turn.call for turn in read_record(log).turns]
        kept = kept_record(log, -1, dict(zip(calls, faults, strict=True)))
        rules = again_rules(kept.record)
        with ObservedLog(new, program="test", input={}, vault=Secrets(), rules=rules) as journal:
            with replayed(kept.record, log=journal) as (base, _):
                forked = [told(base, *each) for each in sent_]
            journal.seal("completed", "done", {"exit_code": 0, "stdout": "", "stdout_bytes": 0})
        with replayed(new) as (base, desk):
            again = [told(base, *each) for each in sent_]

    assert again == forked
    assert (desk.matcher.misses, desk.matcher.left()) == ([], [])
    for (status, _, is_cut), fault in zip(forked, faults, strict=True):
        code = fault["error"]["code"] if isinstance(fault, dict) and "error" in fault else ""
        assert status == (int(code[5:]) if code.startswith("http_") else 200)
        assert is_cut == (code == "cut")


@pytest.mark.parametrize(
    "api", ["chat", "generate", *(pytest.param(each, marks=pytest.mark.long) for each in LONG)]
)
def test_a_fork_with_faults_replays_as_it_went(api: str) -> None:
    """In each wire format, streamed or not: what a client got, it gets again."""
    check_fork([(api, at % 2 == 0) for at in range(len(FAULTS))], FAULTS)


@pytest.mark.long
@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(st.sampled_from([*ASKED]), st.booleans(), st.sampled_from(FAULTS)),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_any_fork_with_faults_replays_as_it_went(drawn: list[tuple[str, bool, Any]]) -> None:
    check_fork([each[:2] for each in drawn], [each[2] for each in drawn])


def test_a_late_answer_that_the_program_did_not_wait_for_is_one_that_it_gave_up(
    hello: Path, tmp_path: Path
) -> None:
    call = read_record(hello).turns[0].call
    kept, new = kept_record(hello, -1, {call: {"late_seconds": 60}}), tmp_path / "b.jsonl"
    rules = again_rules(kept.record)
    with ObservedLog(new, program="test", input={}, vault=Secrets(), rules=rules) as journal:
        with (
            replayed(kept.record, log=journal) as (base, desk),
            sent(base, question("Hello", stream=True)),
        ):
            while not desk.served:
                time.sleep(0)
        journal.seal("completed", "done", {"exit_code": 0, "stdout": "", "stdout_bytes": 0})

    assert [turn.how for turn in read_record(new).turns] == ["gone"]
