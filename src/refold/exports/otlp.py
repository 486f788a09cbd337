"""Spans as OpenTelemetry's own packages write them: lines of OTLP/JSON, or sent to a collector.

No tracer provider is set, and nothing of the host or the environment is read into a resource.
Rules: CONTRACT.md §14.19.
"""

import contextlib
import functools
import json
import logging
from base64 import b64decode
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Final

import attrs
import requests
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from refold import __version__
from refold.exports.conventions import VERSION
from refold.exports.spans import Spans, TraceSpan

_BATCH: Final = 256
"""Spans of a line, or of a request to a collector."""
_TIMEOUT_SECONDS: Final = 10
"""How long a batch is tried."""
_ANSWER_BYTES: Final = 64 * 1024
"""Of a collector's answer that are read."""
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def lines(spans: Spans) -> Iterator[bytes]:
    """Yield each line of a file of OTLP/JSON: one `TracesData`, ids in hexadecimal."""
    for batch in _batches(spans):
        document = MessageToDict(encode_spans(batch), use_integers_for_enums=True)
        for each in document["resourceSpans"]:
            for scope in each["scopeSpans"]:
                for span in scope["spans"]:
                    for one in (span, *span.get("links", ())):
                        one |= {name: b64decode(one[name]).hex() for name in _IDS if name in one}
        yield json.dumps(document, separators=(",", ":")).encode() + b"\n"


@attrs.define
class Delivery:
    """What became of spans that were sent."""

    lost: int = 0
    """How many the collector did not take."""
    why: str = ""
    """Why not, if the collector's answer says it."""


def send(spans: Spans, endpoint: str) -> Delivery:
    """Send spans to a collector at a URL, whole with its path.

    A batch is tried for 10 s.  After one that was not taken, the others are only counted.
    """
    sent = Delivery()
    session = requests.Session()
    session.stream = True  # an answer is read below, and not whole
    session.hooks["response"].append(functools.partial(_answered, sent))
    exporter = OTLPSpanExporter(endpoint, timeout=_TIMEOUT_SECONDS, session=session)
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # what is lost is counted here
    for batch in _batches(spans):
        if sent.lost or exporter.export(batch) is not SpanExportResult.SUCCESS:
            sent.lost += len(batch)
    exporter.shutdown()  # type: ignore[no-untyped-call]
    return sent


def _answered(sent: Delivery, response: requests.Response, **_: object) -> None:
    """Read the beginning of an answer; the exporter takes any status below 400 for a success."""
    with contextlib.closing(response):
        body = response.raw.read(_ANSWER_BYTES, decode_content=True)
    response.raw = BytesIO(body)
    kind = response.headers.get("content-type", "")
    if 300 <= response.status_code < 400:  # noqa: PLR2004 - a redirect
        where = response.headers.get("location", "nowhere")
        sent.why = f"it answers {response.status_code} and redirects to {where:.200}"
    elif response.ok and body and kind.startswith("text/"):
        sent.why = f"it answers with {kind:.80}, as a page does and a collector does not"
    elif response.ok:
        with contextlib.suppress(DecodeError):
            partly = ExportTraceServiceResponse.FromString(body).partial_success
            sent.lost += partly.rejected_spans
            sent.why = partly.error_message[:200]
        return
    else:
        sent.why = f"it answers {response.status_code} {response.reason:.80}"
    if response.ok:
        response.status_code = 400


def _batches(spans: Spans) -> Iterator[list[ReadableSpan]]:
    scope = InstrumentationScope(
        "refold", __version__, f"https://opentelemetry.io/schemas/{VERSION}"
    )
    resource = Resource({"refold.run": spans.run, "service.name": spans.tree.name or "refold"})
    rest = iter(spans)
    while batch := [_readable(each, resource, scope) for each in islice(rest, _BATCH)]:
        yield batch


def _readable(span: TraceSpan, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    is_model = span.attributes.get("gen_ai.operation.name") == "chat"
    return ReadableSpan(
        span.name,
        _context(span.trace, span.id),
        _context(span.trace, span.parent) if span.parent else None,
        resource,
        span.attributes,
        links=[Link(_context(*each)) for each in span.links],
        kind=SpanKind.CLIENT if is_model else SpanKind.INTERNAL,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
        start_time=span.start_us * 1000,
        end_time=span.end_us * 1000,
        instrumentation_scope=scope,
    )


def _context(trace: bytes, span: bytes) -> SpanContext:
    number = int.from_bytes
    return SpanContext(number(trace), number(span), is_remote=False, trace_flags=TraceFlags(1))
