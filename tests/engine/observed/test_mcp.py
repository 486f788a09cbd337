"""What passes between an MCP client and its server becomes events (CONTRACT.md §16.11)."""

from typing import Any

from refold.engine.events.codec import kind_of, unstructure
from refold.engine.events.events import Recorded
from refold.engine.observed.mcp import MCP, McpObserver
from refold.engine.observed.mcp_messages import scope_of
from tests.support.loops import for_each


class Kept:
    """A journal in memory."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str | None, int | None, Any]] = []

    def append(self, event: Recorded, call: str | None = None, cause: int | None = None) -> int:
        """Keep an entry."""
        self.entries.append((kind_of(event), call, cause, unstructure(event)))
        return len(self.entries)

    def kinds(self) -> list[str]:
        """Return the kinds, those beside with what they are."""
        return [
            kind if kind != MCP else f"{data['from']} {data['kind']}"
            for kind, _, _, data in self.entries
        ]

    def last(self) -> Any:
        """Return the data of the last entry."""
        return self.entries[-1][3]


def watched(number: int = 1) -> tuple[McpObserver, Kept]:
    """Return an observer of a connection, and what it writes."""
    kept = Kept()
    return McpObserver(kept, "tiny", number, {"transport": "stdio", "command": ["x"]}), kept


def request(number: Any, method: str = "tools/call", **params: Any) -> dict[str, Any]:
    """Return a request."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, **params: Any) -> dict[str, Any]:
    """Return a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(number: Any, **said: Any) -> dict[str, Any]:
    """Return a response."""
    return {"jsonrpc": "2.0", "id": number, "result": said}


def test_what_a_server_prints_beside_an_answer_stands_with_the_newest_request() -> None:
    """What a client says out of turn belongs to none: to the connection."""
    observer, kept = watched()
    observer.client(request(1, name="a"))
    observer.client(request(2, name="b"))

    observer.text("server", b"traceback")
    observer.text("client", b"hello?")

    newest = max(seq for seq, entry in enumerate(kept.entries, 1) if entry[0] == "tool.called")
    assert [cause for _, _, cause, _ in kept.entries[-2:]] == [newest, 1]
    assert [data["text"] for _, _, _, data in kept.entries[-2:]] == ["traceback", "hello?"]


def test_a_connection_says_how_it_began_and_ended() -> None:
    """The second to one server has a scope below the first's."""
    observer, kept = watched(2)

    observer.ended("server", 4)

    assert [data for _, _, _, data in kept.entries] == [
        {
            "scope": "0/mcp-tiny/2",
            "from": "client",
            "kind": "started",
            "server": "tiny",
            "transport": "stdio",
            "command": ["x"],
        },
        {
            "scope": "0/mcp-tiny/2",
            "from": "server",
            "kind": "ended",
            "left": "server",
            "exit_code": 4,
        },
    ]


@for_each(
    "name, plain",
    [("weather", "weather"), ("@a/b c", "a-b-c"), ("…", "server"), ("../x", "x")],
)
def test_a_name_is_made_fit_for_a_call_key(name: str, plain: str) -> None:
    """Letters, digits, dots, underscores and hyphens."""
    assert scope_of(name, 1) == f"0/mcp-{plain}"


def test_a_response_belongs_to_the_request_of_its_id() -> None:
    """1 and "1" are two ids."""
    observer, kept = watched()
    observer.client(request(1, name="a"))
    observer.client(request("1", name="b"))

    observer.server(result("1", said="b"))
    observer.server(result(1, said="a"))

    returned = [(call, data["result"]) for kind, call, _, data in kept.entries if "ret" in kind]
    assert returned == [("0/mcp-tiny#2", {"said": "b"}), ("0/mcp-tiny#1", {"said": "a"})]


def test_what_a_server_says_of_its_tools_is_their_class() -> None:
    """Hints that a tool reads, or may be called twice; without one, it changes the world."""
    observer, kept = watched()
    observer.client(request(1, "tools/list"))
    tools = [
        {"name": "look", "annotations": {"readOnlyHint": True}},
        {"name": "set", "annotations": {"idempotentHint": True}},
        {"name": "add", "annotations": {}},
        "nonsense",
    ]
    observer.server(result(1, tools=tools))

    for name in ("look", "set", "add", "unheard"):
        observer.client(request(name, name=name))

    effects = [data["effect"] for kind, _, _, data in kept.entries if kind == "tool.called"]
    assert effects == ["reads", "reads", "idempotent", "changes", "changes"]


def test_meta_is_written_where_it_changes() -> None:
    """What is another each time is left out: tokens, traces."""
    observer, kept = watched()

    for number, client in ((1, "a"), (2, "a"), (3, "b")):
        meta = {"client": client, "progressToken": number, "traceparent": f"00-{number}"}
        observer.client(request(number, name="x", _meta=meta))

    told = [data["params"] for _, _, _, data in kept.entries if "params" in data]
    assert told == [{"_meta": {"client": "a"}}, {"_meta": {"client": "b"}}]


def test_so_is_what_is_another_each_time_of_a_server() -> None:
    """Its requests and notifications have such members as well; the rest is its own."""
    observer, kept = watched()
    observer.client(request(1, name="a"))
    meta = {"progressToken": 7, "traceparent": "00-1", "io.modelcontextprotocol/subscriptionId": 9}

    observer.server(request("s-1", "sampling/createMessage", _meta={**meta, "mine": 1}, max=5))
    observer.server(notification("notifications/message", _meta=meta))

    told = [data["params"] for _, _, _, data in kept.entries[-2:]]
    assert told == [{"max": 5, "_meta": {"mine": 1}}, {}]


def test_progress_belongs_to_the_call_of_its_token() -> None:
    """Whatever else is open; one of no known token belongs to none."""
    observer, kept = watched()
    observer.client(request(1, name="a", _meta={"progressToken": "t"}))
    observer.client(request(2, name="b"))

    observer.server(notification("notifications/progress", progressToken="t", progress=1))
    observer.server(notification("notifications/progress", progressToken="u", progress=1))

    assert [entry[1] for entry in kept.entries[-2:]] == ["0/mcp-tiny#1", None]
    assert kept.entries[-2][3]["params"] == {"progress": 1}


def test_what_was_subscribed_to_belongs_to_the_request_that_listens() -> None:
    """What names none belongs to the newest call, and never to one that listens beside it."""
    observer, kept = watched()
    observer.client(request(1, "tools/call", name="a"))
    observer.client(request(2, "subscriptions/listen"))
    subscribed = {"io.modelcontextprotocol/subscriptionId": 2}

    observer.server(notification("notifications/tools/list_changed", _meta=subscribed))
    observer.server(notification("notifications/message", data="x"))

    first, second = kept.entries[-2:]
    assert (first[1], first[3]["subscribed"], first[3]["params"]) == ("0/mcp-tiny#2", True, {})
    assert second[1] == "0/mcp-tiny#1"


def test_what_a_server_says_by_the_way_is_not_about_a_list() -> None:
    """It belongs to the newest call, and to one that lists where nothing else is open."""
    observer, kept = watched()
    observer.client(request(1, name="echo"))
    observer.client(request(2, "tools/list"))

    observer.server(notification("notifications/message", data="by the call"))
    by_call = kept.entries[-1][1]
    observer.server(result(1))
    observer.server(notification("notifications/message", data="by the list"))

    assert (by_call, kept.entries[-1][1]) == ("0/mcp-tiny#1", "0/mcp-tiny#2")


def test_a_response_after_a_cancellation_is_late() -> None:
    """`effect.late`: the client does not get it from the record."""
    observer, kept = watched()
    observer.client(request(1, name="a"))

    observer.client(notification("notifications/cancelled", requestId=1, reason="slow"))
    observer.server(result(1, said="after all"))

    assert kept.kinds()[1:] == [
        "tool.called",
        "client notification",
        "effect.cancelled",
        "effect.late",
    ]


def test_the_answer_to_a_server_follows_from_its_request() -> None:
    """By the cause; a request that the server takes back, too."""
    observer, kept = watched()
    observer.client(request(1, name="a"))

    observer.server(request("s-1", "elicitation/create", message="?"))
    observer.client(result("s-1", action="accept"))
    observer.server(request("s-2", "sampling/createMessage"))
    observer.server(notification("notifications/cancelled", requestId="s-2"))

    causes = [(data["kind"], cause) for _, _, cause, data in kept.entries[2:]]
    assert causes == [("request", 2), ("response", 3), ("request", 2), ("notification", 5)]
    assert {call for _, call, _, _ in kept.entries[1:]} == {"0/mcp-tiny#1"}


def test_a_response_to_nothing_is_kept_beside() -> None:
    """And what is no message of JSON-RPC, too."""
    observer, kept = watched()

    observer.server(result(9))
    observer.client(result(9))
    observer.server({"jsonrpc": "2.0"})
    observer.client({"jsonrpc": "2.0"})

    assert kept.kinds()[1:] == ["server response", "client response", "server text", "client text"]


def test_a_stream_that_ends_otherwise_fails_its_calls() -> None:
    """Of that stream, and of no other."""
    observer, kept = watched()
    observer.client(request(1, name="a"), "post-1")
    observer.client(request(1, name="b"), "post-2")

    observer.failed("post-2", "http_401", "who?", {"status": 401})
    observer.gone("post-1")

    assert [(kind, call) for kind, call, _, _ in kept.entries[-2:]] == [
        ("tool.returned", "0/mcp-tiny#2"),
        ("effect.cancelled", "0/mcp-tiny#1"),
    ]
