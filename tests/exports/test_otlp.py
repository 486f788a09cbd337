"""OTLP as OpenTelemetry's own messages read it (CONTRACT.md §14.19)."""

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from refold.exports.otlp import lines, send
from refold.exports.spans import Spans
from tests.support.collecting import Collected

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "0.1.0"


def parsed(line: bytes) -> ExportTraceServiceRequest:
    """Return a line as a message; OTLP/JSON has ids in hexadecimal, which protobuf's has not."""

    def of(members: dict[str, Any]) -> dict[str, Any]:
        ids = ("traceId", "spanId", "parentSpanId")
        hexed = {name: b64encode(bytes.fromhex(members[name])) for name in ids if name in members}
        return members | {name: value.decode() for name, value in hexed.items()}

    text = json.dumps(json.loads(line, object_hook=of))
    return Parse(text, ExportTraceServiceRequest())


@pytest.mark.parametrize("name", ["watched", "delegating", "forked", "aborting"])
def test_a_file_and_a_collector_get_the_same_spans(name: str, collector: Collected) -> None:
    log = LOGS / f"{name}.jsonl"
    assert send(Spans(log), collector.url) == 0

    assert collector.got == [parsed(line) for line in lines(Spans(log))]
    spans = [
        each
        for one in collector.got
        for it in one.resource_spans
        for each in it.scope_spans[0].spans
    ]
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
