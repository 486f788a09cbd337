"""A record is served exactly, each answer once, and nothing like it (CONTRACT.md §16.11)."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.engine.observed.binding import Bindings
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.mcp_messages import LISTEN, SUBSCRIPTION
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.desks.keys import Secrets
from refold.proxy.mcp.parties import Hello, Party
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.sessions import McpReport, serving_of
from tests.support.loops import some
from tests.support.mcp_clients import Client, entries, recording, replaying
from tests.support.watched import ask, user


def reported(client: Client) -> McpReport:
    """Return the report of a replay."""
    assert client.passed is not None
    assert client.passed.report is not None
    return client.passed.report


def recorded(log: Path, *texts: str) -> Path:
    """Record a call of `echo` for each text."""
    with recording(log) as client:
        for text in texts:
            client.called("echo", text=text)
    return log


def text_of(answer: Any) -> str:
    """Return what a tool said."""
    said: str = answer["result"]["content"][0]["text"]
    return said


def test_an_answer_is_served_once(tmp_path: Path) -> None:
    """The third of two equal calls is refused, and counted."""
    log = recorded(tmp_path / "log.jsonl", "a", "a")

    with replaying(log) as client:
        first, second, third = (client.called("echo", text="a") for _ in range(3))

    assert [text_of(first), text_of(second)] == ["a", "a"]
    assert third["error"]["code"] == -32000
    (one,) = reported(client).divergences
    assert one.category == "extra_call"
    assert one.cause == "echo was called 3 times like this, but recorded 2"


def test_nothing_like_it_is_served(tmp_path: Path) -> None:
    """The error names the nearest call; the divergence says what differs."""
    log = recorded(tmp_path / "log.jsonl", "the one", "the other")

    with replaying(log) as client:
        refused = client.called("echo", text="the othre")

    assert (
        'The most similar recorded call: echo {"text": "the other"}' in refused["error"]["message"]
    )
    (one,) = reported(client).divergences
    assert (one.category, one.where) == ("args_changed", "mcp tiny > echo#2")
    assert (one.log, one.call) == (str(log), "0/mcp-tiny#2")
    called = [each.seq for each in entries(log) if each.kind == "tool.called"]
    assert one.seq == called[1]
    assert one.cause == "echo was not recorded with these arguments"
    assert [each.pointer for each in one.diff] == ["/arguments/text"]
    assert one.later_count == 1
    assert not reported(client).identical


def test_what_is_not_asked_is_told(tmp_path: Path) -> None:
    """With how much of it there is."""
    log = recorded(tmp_path / "log.jsonl", "a", "b", "c")

    with replaying(log) as client:
        client.called("echo", text="a")

    (one,) = reported(client).divergences
    assert (one.category, one.call) == ("unconsumed", "0/mcp-tiny#2")
    assert one.cause.startswith("2 recorded requests")
    assert (reported(client).served, reported(client).requests) == (1, 3)


def test_a_name_that_was_not_recorded_is_said(tmp_path: Path) -> None:
    """With those that were, and how to say which one is meant."""
    log = recorded(tmp_path / "log.jsonl", "a")

    with replaying(log, name="other") as client:
        refused = client.called("echo", text="a")

    assert "no MCP server named other was recorded (recorded: tiny)" in str(refused)
    assert "--name NAME" in str(refused)


def test_another_tool_than_the_next_is_said(tmp_path: Path) -> None:
    """Where the record goes on with something else."""
    log = recorded(tmp_path / "log.jsonl", "a")

    with replaying(log) as client:
        client.called("fail")

    first = reported(client).divergences[0]
    assert first.category == "name_changed"
    assert first.cause == "fail is called, but the recording continues with echo"


@pytest.mark.parametrize("now", [0, 1, 5])
def test_pings_are_answered_and_not_counted(tmp_path: Path, now: int) -> None:
    """How many there are hangs on time alone."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        client.ask("ping")
        client.read()
        client.ask("ping")
        client.read()

    with replaying(log) as client:
        for _ in range(now):
            client.ask("ping")
            assert client.read()["result"] == {}

    assert reported(client).identical
    assert reported(client).requests == 0


def test_a_second_connection_gets_its_own_answers(tmp_path: Path) -> None:
    """By number: of two that ask the same, each goes on with what it was told."""
    log = tmp_path / "log.jsonl"
    command = ("sh", "-c", 'read line; printf \'{"jsonrpc":"2.0","id":1,"result":{"n":1}}\\n\'')
    with recording(log, command=command) as client:
        client.ask("any/thing")
        before = client.read()
        assert client.line() == b""  # the server leaves first: who does is recorded

    with replaying(log) as client:
        client.ask("any/thing")
        assert client.read() == before
        assert client.line() == b""  # it left then, and leaves now

    assert reported(client).identical


def test_what_a_server_takes_back_is_what_it_asked_now(tmp_path: Path) -> None:
    """By the number that its request has in the replay."""
    log = tmp_path / "log.jsonl"
    messages: list[dict[str, Any]] = [
        {"id": 70, "method": "elicitation/create", "params": {"message": "which?"}},
        {"method": "notifications/cancelled", "params": {"requestId": 70}},
        {"id": 1, "result": {}},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\\n" for each in messages)
    with recording(log, command=("sh", "-c", f"read line; printf '{lines}'; read line")) as client:
        client.ask("any/thing")
        for _ in messages:
            client.read()

    with replaying(log) as client:
        client.ask("any/thing")
        asked, taken_back, answered = (client.read() for _ in messages)

    assert asked["id"] != 70
    assert taken_back["params"] == {"requestId": asked["id"]}
    assert answered["result"] == {}


def test_volatile_arguments_are_not_compared(tmp_path: Path) -> None:
    """Rules of the record, and those of the replay."""
    log = tmp_path / "log.jsonl"
    rules = VolatileRules(("tool:echo/arguments/text",))
    with recording(log, rules=rules) as client:
        client.called("echo", text="monday")

    with replaying(log) as client:
        said = client.called("echo", text="tuesday")

    assert text_of(said) == "monday"
    assert reported(client).identical


LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


def listed(client: Client, method: str = "tools/list", times: int = 1) -> list[Any]:
    """Return what a list was, each time."""
    found = []
    for _ in range(times):
        client.ask(method)
        found.append({name: value for name, value in client.read().items() if name != "id"})
    return found


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("now", some(1, [5, 1, 2]))
def test_a_list_is_read_as_often_as_a_client_likes(tmp_path: Path, method: str, now: int) -> None:
    """A client whose cache does not have it yet asks once or often, as its threads run."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        before = listed(client, method, 2)

    with replaying(log) as client:
        assert listed(client, method, now) == [before[0]] * now

    report = reported(client)
    assert report.identical
    assert (report.served, report.requests) == (min(now, 2), 2)
    asked = "once" if now == 1 else f"{now} times"
    said = (
        f"mcp tiny > {method} was requested {asked}, recorded 2 times; all of its recorded answers"
    )
    assert [note.startswith(said) for note in report.notes] == [True] * (now != 2)


def test_a_list_that_is_not_read_at_all_is_told(tmp_path: Path) -> None:
    """That is no matter of timing."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        listed(client)

    with replaying(log) as client:
        pass

    (one,) = reported(client).divergences
    assert one.category == "unconsumed"


def test_another_list_is_another_request(tmp_path: Path) -> None:
    """With a cursor that was not recorded, say."""
    log = tmp_path / "log.jsonl"
    with recording(log) as client:
        listed(client)

    with replaying(log) as client:
        listed(client)
        client.ask("tools/list", {"cursor": "2"})
        assert client.read()["error"]["code"] == -32000

    assert not reported(client).identical


COUNTING = """
n=0
while read line; do
    n=$((n+1))
    printf '{"jsonrpc":"2.0","id":%s,"result":{"n":%s}}\\n' $n $n
done
"""
"""A server whose every answer is another."""
TELLING = """
for n in 1 2; do
    read line
    printf '{"jsonrpc":"2.0","id":%s,"result":{}}\\n' $n
done
printf '{"jsonrpc":"2.0","method":"notifications/message"}\\n'
read line
"""
"""A server that says something after its second answer."""


@pytest.mark.parametrize("now", [1, 3])
def test_a_list_that_was_another_each_time_is_read_as_often_as_recorded(
    tmp_path: Path, now: int
) -> None:
    """Which of its answers one more would be, nothing says."""
    log = tmp_path / "log.jsonl"
    with recording(log, command=("sh", "-c", COUNTING)) as client:
        listed(client, times=2)

    with replaying(log) as client:
        found = listed(client, times=now)

    assert [each["result"] for each in found[:2]] == [{"n": 1}, {"n": 2}][:now]
    (one,) = reported(client).divergences
    assert one.category == ("unconsumed" if now == 1 else "extra_call")


@pytest.mark.parametrize(("is_changed_first", "is_identical"), [(True, True), (False, False)])
def test_a_list_that_changed_is_read_as_often_as_recorded(
    tmp_path: Path, *, is_changed_first: bool, is_identical: bool
) -> None:
    """`chatty` says that it did; what it said before the first reading tells nothing of it."""
    log = tmp_path / "log.jsonl"

    def talk(client: Client, times: int) -> None:
        for does_list in (not is_changed_first, is_changed_first):
            if does_list:
                listed(client, times=times)
            else:
                client.called("chatty")
                assert client.read()["method"] == "notifications/tools/list_changed"

    with recording(log) as client:
        talk(client, 1)
    with replaying(log) as client:
        talk(client, 2)

    assert reported(client).identical is is_identical


def test_what_came_with_a_list_is_said_once_and_missed_where_it_is_not(tmp_path: Path) -> None:
    """A list that is not read again may be left out only where nothing is left out with it."""
    log = tmp_path / "log.jsonl"
    with recording(log, command=("sh", "-c", TELLING)) as client:
        listed(client, times=2)
        assert client.read()["method"] == "notifications/message"

    with replaying(log) as client:
        listed(client, times=2)
        assert client.read()["method"] == "notifications/message"
        listed(client, times=2)  # with nothing between them
    again = reported(client)
    with replaying(log) as client:
        listed(client)

    assert again.identical
    assert [one.category for one in reported(client).divergences] == ["unconsumed"]


HELLO = Hello(server="tiny", how={"transport": "http", "url": "http://127.0.0.1:9"})
Said = tuple[str, dict[str, Any]]
"""Who says a message, and the message; `client A` says it in the channel A."""


def _served(log: Path, *said: Said) -> Party:
    """Record one connection in which this is said; return what serves it."""
    secrets = Secrets()
    with ObservedLog(log, program="tiny", input={}, vault=secrets) as written:
        party = McpRecording(written, secrets).connect(HELLO)
        for who, message in said:
            side, _, channel = who.partition(" ")
            getattr(party, side)(json.dumps({"jsonrpc": "2.0", **message}).encode(), channel)
        party.ended("client")
        written.seal("completed", "done")
    return serving_of(log, VolatileRules(), None, Secrets()).connect(HELLO)


def _answers(party: Party, channel: str = "", **message: Any) -> list[dict[str, Any]]:
    """Return the messages that come of one of the client."""
    reply = party.client(json.dumps({"jsonrpc": "2.0", **message}).encode(), channel)
    return [_plain(each.content) for each in reply.sent]


def _plain(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(content)
    assert found.pop("jsonrpc") == "2.0"
    return found


def _note(number: int) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"data": number}}


def test_what_follows_a_notification_follows_it_again(tmp_path: Path) -> None:
    """Once for each that was recorded of its method."""
    party = _served(
        tmp_path / "log.jsonl",
        ("client", {"method": "a"}), ("server", _note(1)),
        ("client", {"method": "b"}), ("server", _note(2)),
        ("client", {"method": "a"}), ("server", _note(3)),
    )  # fmt: skip

    told = [_answers(party, method=method) for method in "baaab"]

    assert told == [[_note(2)], [_note(1)], [_note(3)], [], []]


def test_what_a_server_takes_back_of_a_call_comes_when_that_is_given_up(tmp_path: Path) -> None:
    """Of the call that is meant: another that is given up has no part in it."""
    gone = {"method": "notifications/cancelled", "params": {"requestId": 1}}
    back = {"method": "notifications/cancelled", "params": {"requestId": 70}}
    party = _served(
        tmp_path / "log.jsonl",
        ("client", {"id": 1, "method": "slow"}), ("server", {"id": 70, "method": "roots/list"}),
        ("client", gone), ("server", back),
    )  # fmt: skip

    (asked,) = _answers(party, id=5, method="slow")
    other = _answers(party, method="notifications/cancelled", params={"requestId": 6})
    mine = _answers(party, method="notifications/cancelled", params={"requestId": 5})

    assert (asked["method"], other) == ("roots/list", [])
    assert mine == [back | {"params": {"requestId": asked["id"]}}]


def test_who_gives_up_a_call_is_not_answered_though_the_server_is(tmp_path: Path) -> None:
    """Late, what it was asked within that call; as recorded, it was answered."""
    party = _served(
        tmp_path / "log.jsonl",
        ("client", {"id": 1, "method": "slow"}), ("server", {"id": 70, "method": "roots/list"}),
        ("client", {"id": 70, "result": {}}), ("server", {"id": 1, "result": {}}),
    )  # fmt: skip

    (asked,) = _answers(party, id=5, method="slow")
    given_up = _answers(party, method="notifications/cancelled", params={"requestId": 5})

    assert [given_up, _answers(party, id=asked["id"], result={})] == [[], []]


def test_a_connection_more_than_were_recorded_is_told_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    _served(log, ("server", _note(1)), ("client", {"method": "a"}), ("server", _note(2)))
    serving = serving_of(log, VolatileRules(), None, Secrets())
    first, second = serving.connect(HELLO), serving.connect(HELLO)

    assert [len(each.begin().sent) for each in (first, second)] == [1, 0]
    assert [_answers(each, method="a") for each in (first, second)] == [[_note(2)], []]


def test_who_gives_up_nothing_stops_no_one_that_waits(tmp_path: Path) -> None:
    """What the server asks at the beginning belongs to no request, and has no id."""
    asks = {"id": 70, "method": "roots/list"}
    party = _served(
        tmp_path / "log.jsonl",
        ("server", asks), ("client", {"id": 70, "result": {}}), ("server", _note(1)),
    )  # fmt: skip

    (asked,) = party.begin().sent
    given_up = _answers(party, method="notifications/cancelled")
    number = _plain(asked.content)["id"]

    assert given_up == []
    assert _answers(party, id=number, result={}) == [_note(1)]


def test_who_has_left_is_answered_no_more(tmp_path: Path) -> None:
    """Of two channels, the other is."""
    said = [
        each
        for name, number in (("A", 70), ("B", 71))
        for each in (
            (f"client {name}", {"id": number, "method": f"ask/{name}"}),
            (f"server {name}", {"id": number, "method": "roots/list"}),
            ("client", {"id": number, "result": {}}),
            (f"server {name}", {"id": number, "result": {"of": name}}),
        )
    ]
    party = _served(tmp_path / "log.jsonl", *said)

    (one,) = _answers(party, "A", id=1, method="ask/A")
    (two,) = _answers(party, "B", id=2, method="ask/B")
    party.gone("A")

    assert _answers(party, id=one["id"], result={}) == []
    assert _answers(party, id=two["id"], result={}) == [{"id": 2, "result": {"of": "B"}}]


def test_what_was_subscribed_to_names_the_request_of_now(tmp_path: Path) -> None:
    named = {"uri": "file:///a", "_meta": {SUBSCRIPTION: 1}}
    party = _served(
        tmp_path / "log.jsonl",
        ("client", {"id": 1, "method": LISTEN}),
        ("server", {"method": "notifications/resources/updated", "params": named}),
    )

    (told,) = _answers(party, id="now", method=LISTEN)

    assert told["params"] == {"uri": "file:///a", "_meta": {SUBSCRIPTION: "now"}}


def test_values_that_are_bound_are_those_of_now_in_what_a_server_is_asked_and_says(
    tmp_path: Path,
) -> None:
    """A folder, and an id that was introduced elsewhere; the look-alike is refused."""
    uuids = [f"121c6862-7ee5-447c-96ee-78670c7f50f{n}" for n in range(2)]
    call = {"name": "read", "arguments": {"path": f"/home/ann/work/{uuids[0]}", "n": "/tmp/it"}}
    log = tmp_path / "log.jsonl"
    _served(
        log,
        ("client", {"id": 1, "method": "tools/call", "params": call}),
        ("server", {"id": 1, "method": "roots/list"}),
        ("client", {"id": 1, "result": {"roots": [{"uri": "file:///home/ann/work"}]}}),
        ("server", {"id": 1, "result": {"content": f"read /home/ann/work/{uuids[0]}"}}),
    )
    bindings = Bindings((), {"folder": "/home/ann/work"}, {"folder": "/tmp/it"})
    asked = [ask(user(""), metadata={"session": each}) for each in uuids]
    bindings.learn(asked[0], asked[1])
    serving = serving_of(log, VolatileRules(), None, Secrets(), bindings)
    party = serving.connect(HELLO)
    now = {"path": f"/tmp/it/{uuids[1]}", "n": "/tmp/it"}
    changed = now | {"path": f"/tmp/it-2/{uuids[1]}"}

    (other,) = _answers(party, id=5, method="tools/call", params=call | {"arguments": changed})
    (wanted,) = _answers(party, id=6, method="tools/call", params=call | {"arguments": now})
    roots = {"roots": [{"uri": "file:///tmp/it"}]}
    (same,) = _answers(party, id=wanted["id"], result=roots)

    assert other["error"]["code"] == -32000
    assert "/arguments/path" in [each.pointer for each in serving.divergences[0].diff]
    assert same["result"] == {"content": f"read /tmp/it/{uuids[1]}"}


def test_what_a_call_has_besides_its_arguments_is_compared(tmp_path: Path) -> None:
    """But for what a client says of itself, and of no call."""
    call = {"name": "echo", "arguments": {"text": "a"}, "task": {"ttl": 5}}
    party = _served(
        tmp_path / "log.jsonl",
        ("client", {"id": 1, "method": "tools/call", "params": call | {"_meta": {"x": 1}}}),
        ("server", {"id": 1, "result": {}}),
    )

    (other,) = _answers(party, id=1, method="tools/call", params=call | {"task": {"ttl": 6}})
    (same,) = _answers(party, id=2, method="tools/call", params=call | {"_meta": {"x": 2}})

    assert other["error"]["code"] == -32000
    assert same == {"id": 2, "result": {}}


def test_more_than_was_recorded_is_nothing_like_it(tmp_path: Path) -> None:
    """Where all was served, there is no nearest."""
    log = tmp_path / "log.jsonl"
    _served(log, ("client", {"id": 1, "method": "a"}), ("server", {"id": 1, "result": {}}))
    serving = serving_of(log, VolatileRules(), None, Secrets())
    party = serving.connect(HELLO)

    served, refused = (_answers(party, id=number, method=name) for number, name in enumerate("ab"))

    (one,) = serving.divergences
    assert (served[0]["id"], served[0]["result"]) == (0, {})
    assert refused[0]["id"] == 1
    assert (one.category, one.call, one.seq) == ("extra_call", "", None)
    assert one.cause == "the program makes more calls than were recorded"
