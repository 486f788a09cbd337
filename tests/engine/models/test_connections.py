"""Bytes after an answer do not answer the next request; the proxy's client has its own law."""

import json
import socket
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.models import AnthropicModel, OpenAICompatibleModel
from refold.engine.ports.ports import ModelRequest
from tests.support.proxied import RawServer

Adapter = type[AnthropicModel] | type[OpenAICompatibleModel]
ASKED: Final = ModelRequest(messages=({"role": "user", "content": "Tides?"},))
HEAD: Final = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "


def _answer(text: str) -> bytes:
    """Return an answer that both protocols read."""
    body: dict[str, Any] = {
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "choices": [{"message": {"content": text}, "finish_reason": "stop"}],
    }
    content = json.dumps(body)
    return f"{HEAD}{len(content)}\r\n\r\n{content}".encode()


@pytest.mark.parametrize("adapter", [OpenAICompatibleModel, AnthropicModel])
@given(more=st.sampled_from([_answer("Wrong."), b"}", b"\r\n"]) | st.binary(min_size=1))
def test_bytes_after_an_answer_do_not_answer_the_next_request(
    adapter: Adapter, more: bytes
) -> None:
    """A server counted too few, and keeps the connection open."""

    def too_long(connection: socket.socket, head: bytes) -> None:
        while not head.endswith(b"}") and (came := connection.recv(65536)):
            head += came
        connection.sendall(_answer("Moon.") + more)
        connection.recv(65536)

    with RawServer(too_long) as server:
        model = adapter("m", base_url=server.url, max_retries=0)
        said = [model.complete(ASKED).message["content"] for _ in range(2)]
        model.close()
        connections = len(server.heads)

    assert said == ["Moon."] * 2
    assert connections == 2
