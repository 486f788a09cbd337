"""A collector of OpenTelemetry's on loopback, which keeps what it gets."""

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import attrs
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@attrs.define
class Collected:
    """What came to a collector, and where it listens."""

    url: str
    got: list[ExportTraceServiceRequest] = attrs.field(factory=list)
    came: threading.Condition = attrs.field(factory=threading.Condition)

    def ids(self) -> list[bytes]:
        """Return the ids of all spans, in the order in which they came."""
        scopes = [
            scope for one in self.got for it in one.resource_spans for scope in it.scope_spans
        ]
        return [span.span_id for scope in scopes for span in scope.spans]

    def wait(self, spans: int) -> None:
        """Wait until that many spans are there."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.ids()) >= spans, timeout=60)


@contextlib.contextmanager
def collecting(*, answers: threading.Event | None = None) -> Iterator[Collected]:
    """Run a collector; with `answers`, it answers once that is set."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if answers is not None and not answers.wait(60):
                return
            with collected.came:
                collected.got.append(ExportTraceServiceRequest.FromString(body))
                collected.came.notify_all()
            with contextlib.suppress(OSError):  # the sender may have left
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        collected = Collected(f"http://127.0.0.1:{server.server_port}/v1/traces")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collected
        finally:
            if answers is not None:
                answers.set()
            server.shutdown()
            thread.join()
