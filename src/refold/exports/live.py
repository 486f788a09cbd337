"""Sends the spans of a run to a collector while the run is recorded, from a process of its own.

The recording process never waits for the collector: it starts this module, and closes its standard
input when the run is over.  Calls are sent once they have ended, runs and conversations at the end.
Each pass reads the logs again, so that the spans are those of an export.

Rules: CONTRACT.md §14.19.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import attrs

from refold.engine.errors import ExtraMissing, RefoldError

_PAUSE_SECONDS: Final = 1
_PAUSES_PER_PASS: Final = 10
"""How many times longer than a pass the pause after it is: passes over a long log are rare."""
_END_SECONDS: Final = 2
"""How long the end of a run waits for the collector."""
_SENDS: Final = 0.75
"""The part of this time in which the rest is sent: then there is time to say how much was not."""


@attrs.frozen
class SentSpans:
    """What a collector got of a run."""

    spans: int
    """Spans that the run has; 0 if they could not be counted in time."""
    taken: int
    """Those that the collector took."""

    @property
    def is_whole(self) -> bool:
        """Whether the collector has the whole run."""
        return 0 < self.spans == self.taken


class Sending:
    """Sends the spans of a log that is about to be made."""

    def __init__(self, log: Path, endpoint: str, *, end_seconds: float = _END_SECONDS) -> None:
        """Start the process that sends; `end_seconds` is how long `end` waits for it.

        Raises:
            ExtraMissing: OpenTelemetry's packages are not installed.
        """
        if find_spec("opentelemetry.exporter") is None:
            raise ExtraMissing("opentelemetry", "otel")
        self._end_seconds = end_seconds
        self._answer = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, os.fspath(log), endpoint, str(end_seconds)],
            stdin=subprocess.PIPE,
            stdout=self._answer,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the run, and then this
        )

    def end(self) -> SentSpans:
        """Wait a limited time until the rest is sent; return what the collector got."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self._end_seconds)
        self._process.kill()
        self._process.wait()
        with self._answer as answer:
            answer.seek(0)
            return SentSpans(**json.loads(answer.read() or b'{"spans": 0, "taken": 0}'))


def _main(log: Path, endpoint: str, end_seconds: float) -> None:
    """Send spans until standard input is closed, and a little longer; print how many there are."""
    from refold.exports.spans import Spans  # noqa: PLC0415 - not in the recording process

    taken, is_over = set[bytes](), threading.Event()
    arguments = log, endpoint, taken, is_over
    sender = threading.Thread(target=_send_until, args=arguments, daemon=True)
    sender.start()
    sys.stdin.buffer.read()
    until = time.monotonic() + end_seconds * _SENDS
    is_over.set()
    spans = 0
    with contextlib.suppress(RefoldError):
        spans = sum(1 for _ in Spans(log))
    sender.join(max(0, until - time.monotonic()))
    sys.stdout.write(json.dumps({"spans": spans, "taken": len(taken)}))
    sys.stdout.flush()
    os._exit(0)  # a request to a collector that does not answer would be waited for


def _send_until(log: Path, endpoint: str, taken: set[bytes], is_over: threading.Event) -> None:
    from refold.exports import otlp  # noqa: PLC0415 - an extra
    from refold.exports.spans import Spans  # noqa: PLC0415 - not in the recording process

    with contextlib.closing(otlp.Collector(endpoint)) as collector:
        while True:
            began, is_last = time.monotonic(), is_over.is_set()
            with contextlib.suppress(RefoldError):  # there is no log yet, or no whole line
                spans = Spans(log, is_growing=not is_last)
                for batch in otlp.batches(spans, but=taken):
                    if not collector.takes(batch):
                        break
                    taken.update(otlp.ids(batch))
            if is_last:
                return
            is_over.wait(max(_PAUSE_SECONDS, (time.monotonic() - began) * _PAUSES_PER_PASS))


if __name__ == "__main__":
    _main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
