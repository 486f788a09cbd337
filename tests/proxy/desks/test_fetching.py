"""What is fetched later is the answer to the request that got its id (CONTRACT.md §16.10)."""

import json
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from refold.engine.log.reader import read_entries
from refold.proxy.desks.caps import Caps
from refold.replay.audit.verify import verify
from refold.replay.run.opened_run import delegation_tree
from tests.support.proxied import data_of, recorded, replayed, resumed, said

_USAGE: Final = {"input_tokens": 1100, "output_tokens": 700, "total_tokens": 1800}
_CALL: Final = {
    "type": "function_call", "id": "fc_1", "call_id": "call_9", "name": "lookup",
    "arguments": '{"q":"tides"}', "status": "completed",
}  # fmt: skip
_TEXT: Final = {
    "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Twice a day.", "annotations": []}],
}  # fmt: skip
_OUTPUT: Final = {"resp_1": [_CALL], "resp_2": [_TEXT], "resp_3": [_TEXT]}


def _response(name: str, status: str) -> dict[str, Any]:
    output = _OUTPUT[name] if status in ("completed", "in_progress") else []
    usage = _USAGE if status == "completed" else None
    return {"id": name, "object": "response", "status": status, "output": output, "usage": usage}


def _stream(name: str, *events: str) -> bytes:
    said = [{"type": f"response.{each}", "response": _response(name, each)} for each in events]
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in said)


def _batch(status: str) -> dict[str, Any]:
    return {"id": "msgbatch_1", "type": "message_batch", "processing_status": status}


def _line(number: int) -> bytes:
    said = {
        "id": f"msg_{number}", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": f"answer {number}"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 500},
    }  # fmt: skip
    line = {"custom_id": f"r{number}", "result": {"type": "succeeded", "message": said}}
    return json.dumps(line).encode() + b"\n"


class _Handler(BaseHTTPRequestHandler):
    """Answers in the background: `resp_N` is whole at the third look."""

    protocol_version = "HTTP/1.1"
    looks: dict[str, int]

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _say(self, content: bytes, kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Take a question, or cancel it."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)) or b"{}")
        if self.path.endswith("/batches"):
            return self._say(json.dumps(_batch("in_progress")).encode())
        if self.path.endswith("/cancel"):
            return self._say(json.dumps(_response("resp_1", "cancelled")).encode())
        if body.get("stream"):
            events = _stream("resp_3", "created", "queued")
            return self._say(events, "text/event-stream")
        name = "resp_2" if body.get("previous_response_id") else "resp_1"
        return self._say(json.dumps(_response(name, "queued")).encode())

    def do_GET(self) -> None:
        """Give an answer, as far as it is."""
        if self.path.endswith("/results"):
            return self._say(b"".join(map(_line, range(3))), "application/x-jsonl")
        if "/batches/" in self.path:
            return self._say(json.dumps(_batch("ended")).encode())
        found = re.search(r"/responses/(\w+)", self.path)
        assert found is not None
        if "stream=true" in self.path:
            events = _stream(found[1], "in_progress", "completed")
            return self._say(events, "text/event-stream")
        self.looks[found[1]] = looks = self.looks.get(found[1], 0) + 1
        status = ["queued", "in_progress"][looks - 1] if looks < 3 else "completed"
        return self._say(json.dumps(_response(found[1], status)).encode())


@pytest.fixture
def upstream() -> Generator[str]:
    """A server of background answers."""
    handler = type("Handler", (_Handler,), {"looks": {}})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()
        thread.join()


def _ask(base: str, **more: Any) -> dict[str, Any]:
    body = {"model": "gpt-5-mini", "input": "How often is high tide?", "background": True, **more}
    found: dict[str, Any] = json.loads(said(base, body, path="/openai/responses")[1])
    return found


def _fetch(base: str, name: str, query: str = "") -> bytes:
    return said(base, None, path=f"/openai/responses/{name}{query}", method="GET")[1]


def _loop(base: str) -> list[str]:
    """Ask, look until there is an answer, return the call's result, and look again."""
    statuses = []
    for more in ({}, {"previous_response_id": "resp_1", "input": [_RESULT]}):
        answer = _ask(base, **more)
        while answer["status"] in ("queued", "in_progress"):
            statuses.append(answer["status"])
            answer = json.loads(_fetch(base, answer["id"]))
    return [*statuses, answer["status"]]


_RESULT: Final = {"type": "function_call_output", "call_id": "call_9", "output": "12h25m"}


def test_a_tool_loop_in_the_background_is_one_conversation(tmp_path: Path, upstream: str) -> None:
    """With its calls, texts, tokens and costs: each once, though looked at three times."""
    log = tmp_path / "run.jsonl"
    with recorded(log, upstream) as base:
        statuses = _loop(base)
    with replayed(log) as (base, desk):
        again = _loop(base)

    (node,) = delegation_tree(log).children
    kinds = [
        (entry.kind, entry.call)
        for entry in read_entries(log)
        if entry.kind.startswith(("model.", "tool."))
    ]
    answers = [each for each in data_of(log, "model.answered") if each.get("message")]

    assert (node.status, node.requests, node.beside, len(node.tools)) == ("completed", 8, 6, 1)
    assert (node.own_usage.input_tokens, node.own_usage.requests) == (2200, 2)
    assert node.own_priced.unpriced == 0
    assert node.models == ("gpt-5-mini",)
    assert [kind for kind, _ in kinds if kind.startswith("tool.")] == [
        "tool.called",
        "tool.returned",
    ]
    assert {call.partition("#")[0] for _, call in kinds if call} == {"0/1"}
    assert [each["stop_reason"] for each in answers] == ["tool_calls", "stop"]
    assert (again, desk.served, desk.matcher.misses) == (statuses, 8, [])
    assert verify(log).intact


def test_a_cap_counts_what_is_fetched(tmp_path: Path, upstream: str) -> None:
    """And no cap but the time refuses to fetch what was asked."""
    log = tmp_path / "run.jsonl"
    with recorded(log, upstream, caps=Caps(max_tokens=500, max_requests=9)) as base:
        _ask(base)
        looks = [json.loads(_fetch(base, "resp_1"))["status"] for _ in range(4)]
        refused = _ask(base, previous_response_id="resp_1")

    assert looks == ["queued", "in_progress", "completed", "completed"]
    assert "--limit max_tokens=500 is reached: 1800 spent" in refused["error"]["message"]


def test_an_answer_that_was_not_fetched_is_open(tmp_path: Path, upstream: str) -> None:
    log = tmp_path / "run.jsonl"
    with recorded(log, upstream) as base:
        _ask(base)
        _fetch(base, "resp_1")

    (node,) = delegation_tree(log).children

    assert (node.status, node.own_usage.requests) == ("unfinished", 0)


def test_a_stream_that_is_taken_up_is_the_answer(tmp_path: Path, upstream: str) -> None:
    """It counts as one request, and the conversation has ended well."""
    log = tmp_path / "run.jsonl"

    def run(base: str) -> None:
        body = {"model": "m", "input": "x", "background": True, "stream": True}
        said(base, body, path="/openai/responses")
        _fetch(base, "resp_3", "?stream=true&starting_after=1")

    with recorded(log, upstream) as base:
        run(base)
    with replayed(log) as (base, desk):
        run(base)

    (node,) = delegation_tree(log).children

    assert (node.status, node.requests_failed) == ("completed", {"cut": 1})
    assert (node.own_usage.output_tokens, node.own_usage.requests) == (700, 1)
    assert desk.matcher.misses == []


def test_the_lines_of_a_batch_are_answers(tmp_path: Path, upstream: str) -> None:
    """It is open until then, and caps count the tokens of the lines, once."""
    log, answers = tmp_path / "run.jsonl", "/anthropic/v1/messages/batches/msgbatch_1/results"
    with recorded(log, upstream, caps=Caps(max_tokens=4500)) as base:
        said(base, {"requests": []}, path="/anthropic/v1/messages/batches")
        said(base, None, path="/anthropic/v1/messages/batches/msgbatch_1", method="GET")
        (waiting,) = delegation_tree(log).children
        for _ in range(2):
            said(base, None, path=answers, method="GET")
        status, _ = said(base, {"model": "m", "input": "x"}, path="/openai/responses")

    node = delegation_tree(log).children[0]
    texts = [each["message"]["content"] for each in data_of(log, "model.answered")[2:4]]

    assert (waiting.status, node.status) == ("unfinished", "completed")
    assert (node.own_usage.input_tokens, node.own_usage.requests) == (3000, 3)
    assert texts == ["answer 0\nanswer 1\nanswer 2\n"] * 2
    assert status == 400


def test_a_resumed_command_fetches_what_was_asked_before(tmp_path: Path, upstream: str) -> None:
    """The request is served, with its id, and the looks go on where they ended."""
    log, into = tmp_path / "run.jsonl", tmp_path / "resumed.jsonl"
    with recorded(log, upstream, exit_code=1) as base:
        _ask(base)
        _fetch(base, "resp_1")
    with resumed(log, upstream, into) as (base, desk):
        _ask(base)
        looks = [json.loads(_fetch(base, "resp_1"))["status"] for _ in range(3)]

    (node,) = delegation_tree(into).children

    assert looks == ["queued", "in_progress", "completed"]
    assert (desk.served, desk.live, desk.different) == (2, 2, [])
    assert (node.requests, node.own_usage.output_tokens) == (4, 700)
