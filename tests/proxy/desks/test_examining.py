"""Each request is answered here, with one short text (CONTRACT.md §16.15)."""

import json
from typing import Any

import pytest

from refold.proxy.desks.examining import SAID, Examining
from refold.proxy.http.turns import Incoming
from tests.support.loops import for_each

PATHS: dict[str, dict[str, Any]] = {
    "/openai/chat/completions": {"model": "m", "messages": []},
    "/openai/responses": {"model": "m", "input": "Hello"},
    "/anthropic/v1/messages": {"model": "m", "max_tokens": 9, "messages": []},
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_format_is_answered_with_one_text(path: str, *, stream: bool) -> None:
    """In that format, streamed where it is asked for."""
    desk = Examining()
    _, route, rest = path.split("/", 2)
    body = json.dumps({**PATHS[path], "stream": stream}).encode()
    given = Incoming(route=route, method="POST", target=f"/{rest}", headers=(), body=body)

    served = desk.begin(given)

    assert served.status == 200
    assert SAID in b"".join(chunk for _, chunk in served.pieces).decode()
    assert ("event-stream" in served.headers["content-type"]) == stream
    assert desk.models() == 1


@for_each(
    "method, target, status",
    [("GET", "/v1/models", 200), ("GET", "/v1/files", 404), ("POST", "/v1/models", 404)],
)
def test_of_the_rest_only_the_list_of_models_is_there(
    method: str, target: str, status: int
) -> None:
    desk = Examining()

    served = desk.begin(
        Incoming(route="openai", method=method, target=target, headers=(), body=b"")
    )

    assert served.status == status
    assert [at for at, _ in served.pieces] == [0]
    assert "x-should-retry" not in served.headers
    assert desk.models() == 0
