"""OTLP as OpenTelemetry's own messages read it (CONTRACT.md §14.19)."""

import contextlib
import gzip
import json
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from refold.exports.otlp import Delivery, lines, send
from refold.exports.spans import Spans
from tests.support.loops import for_each

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"


def parsed(line: bytes) -> ExportTraceServiceRequest:
    """Return a line as a message; OTLP/JSON has ids in hexadecimal, which protobuf's has not."""

    def of(members: dict[str, Any]) -> dict[str, Any]:
        ids = ("traceId", "spanId", "parentSpanId")
        hexed = {name: b64encode(bytes.fromhex(members[name])) for name in ids if name in members}
        return members | {name: value.decode() for name, value in hexed.items()}

    text = json.dumps(json.loads(line, object_hook=of))
    return Parse(text, ExportTraceServiceRequest())


@contextlib.contextmanager
def collecting(
    status: int = 200, kind: str = "application/x-protobuf", body: bytes = b"", length: int = 0
) -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A receiver on loopback that gives one answer, and what it got."""
    got: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                said = gzip.decompress(said)
            got.append(ExportTraceServiceRequest.FromString(said))
            self.send_response(status)
            self.send_header("location", "https://example.org/login")
            self.send_header("content-type", kind)
            self.send_header("content-length", str(length or len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", got
        server.shutdown()
        thread.join()


def rejecting(count: int) -> bytes:
    """Return the answer of a collector that took all but some spans."""
    partly = ExportTracePartialSuccess(rejected_spans=count, error_message="too old")
    return ExportTraceServiceResponse(partial_success=partly).SerializeToString()


@for_each(
    "answer, lost, why",
    [
        *[({"status": each}, None, "example.org/login") for each in (301, 302, 304, 307, 308)],
        ({"status": 404}, None, "404"),
        ({"kind": "text/html; charset=utf-8", "body": b"<html>"}, None, "text/html"),
        ({"body": rejecting(2)}, 2, "too old"),
        ({"kind": "application/json", "body": b"{}"}, 0, ""),
        ({"body": b"x" * 70_000, "length": 500_000_000}, 0, ""),  # the rest is never waited for
    ],
)
def test_what_a_collector_did_not_take_is_lost(
    answer: dict[str, Any], lost: int | None, why: str
) -> None:
    """All spans, the number of them that it rejected, or none."""
    spans = Spans(LOGS / "watched.jsonl")
    with collecting(**answer) as (url, got):
        sent = send(spans, url)

    assert len(got) == 1
    assert sent.lost == (spans.made if lost is None else lost)
    assert why in sent.why


@pytest.mark.parametrize("name", ["watched", "delegating", "timing", "aborting"])
def test_a_file_and_a_collector_get_the_same_spans(
    name: str,
) -> None:
    log = LOGS / f"{name}.jsonl"
    with collecting() as (url, got):
        assert send(Spans(log), url) == Delivery()

    assert got == [parsed(line) for line in lines(Spans(log))]
    spans = [each for one in got for it in one.resource_spans for each in it.scope_spans[0].spans]
    assert len(spans) == len(list(Spans(log)))


def test_a_conversation_has_an_id_of_its_run_and_an_answer_its_reason() -> None:
    """Backends join by these; scopes begin at 0/1 in each log."""
    names, answers = list[set[str]](), list[dict[str, Any]]()
    for log in ("watched", "delegating", "aborting"):
        spans = list(Spans(LOGS / f"{log}.jsonl", content=True))
        names.append(
            {str(one.attributes.get("gen_ai.conversation.id")) for one in spans} - {"None"}
        )
        said = [str(one.attributes.get("gen_ai.output.messages", "[]")) for one in spans]
        answers += [message for one in said for message in json.loads(one)]

    assert all(names)
    assert sum(map(len, names)) == len(set().union(*names))
    assert answers
    assert {one["finish_reason"] for one in answers} <= {
        "stop",
        "length",
        "content_filter",
        "tool_call",
        "error",
    }


def test_nothing_of_the_environment_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = b"".join(lines(Spans(LOGS / "watched.jsonl")))
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=secret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "secret")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert b"".join(lines(Spans(LOGS / "watched.jsonl"))) == before
    (resource,) = parsed(before).resource_spans
    assert [each.key for each in resource.resource.attributes] == ["refold.run", "service.name"]
    assert resource.scope_spans[0].schema_url.endswith("/gen-ai/0.1.0")
