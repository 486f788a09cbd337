"""OTLP as OpenTelemetry's own messages read it (CONTRACT.md §14.19)."""

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
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from refold.exports.otlp import lines, send
from refold.exports.spans import Spans

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"


def parsed(line: bytes) -> ExportTraceServiceRequest:
    """Return a line as a message; OTLP/JSON has ids in hexadecimal, which protobuf's has not."""

    def of(members: dict[str, Any]) -> dict[str, Any]:
        ids = ("traceId", "spanId", "parentSpanId")
        hexed = {name: b64encode(bytes.fromhex(members[name])) for name in ids if name in members}
        return members | {name: value.decode() for name, value in hexed.items()}

    text = json.dumps(json.loads(line, object_hook=of))
    return Parse(text, ExportTraceServiceRequest())


@pytest.fixture
def collector() -> Iterator[tuple[str, list[ExportTraceServiceRequest]]]:
    """A receiver on loopback, and what it got."""
    got: list[ExportTraceServiceRequest] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            got.append(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1/traces", got
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("name", ["watched", "delegating", "timing", "aborting"])
def test_a_file_and_a_collector_get_the_same_spans(
    name: str, collector: tuple[str, list[ExportTraceServiceRequest]]
) -> None:
    log = LOGS / f"{name}.jsonl"
    url, got = collector

    assert send(Spans(log), url) == 0

    assert got == [parsed(line) for line in lines(Spans(log))]
    spans = [each for one in got for it in one.resource_spans for each in it.scope_spans[0].spans]
    assert len(spans) == len(list(Spans(log)))


def test_nothing_of_the_environment_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = b"".join(lines(Spans(LOGS / "watched.jsonl")))
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "host.name=secret")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "secret")
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "1")
    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert b"".join(lines(Spans(LOGS / "watched.jsonl"))) == before
    (resource,) = parsed(before).resource_spans
    assert [each.key for each in resource.resource.attributes] == ["refold.run", "service.name"]
    assert resource.scope_spans[0].schema_url.endswith("/1.44.0")
