"""Spans that are sent while a run is recorded are those of its export (CONTRACT.md §14.19)."""

import shutil
import socket
import threading
from pathlib import Path

import pytest

from refold.engine.log.names import parent_of
from refold.exports.live import Sending, SentSpans
from refold.exports.spans import Spans
from tests.support.collecting import Collected, collecting

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "0.1.0"
ROOTS = sorted(path.name for path in LOGS.glob("*.jsonl") if parent_of(path) is None)
CUTS = 8
"""Places at which each log is looked at before its end."""


def copied(name: str, to: Path) -> Path:
    """Copy a run, with the logs and texts that belong to it."""
    stem = name.removesuffix(".jsonl")
    for each in LOGS.glob(f"{stem}.*"):
        copy = shutil.copytree if each.is_dir() else shutil.copy
        copy(each, to / each.name)
    return to / name


@pytest.mark.parametrize("name", ROOTS)
def test_spans_of_a_growing_log_never_change(name: str, tmp_path: Path) -> None:
    final = {each.id: each for each in Spans(LOGS / name)}
    log = copied(name, tmp_path)
    lines = log.read_bytes().splitlines(keepends=True)

    seen = set[bytes]()
    for cut in range(1, len(lines) + 1, max(1, len(lines) // CUTS)):
        log.write_bytes(b"".join(lines[:cut]) + lines[min(cut, len(lines) - 1)][:5])
        growing = {each.id: each for each in Spans(log, is_growing=True)}
        assert growing.items() <= final.items()
        assert seen <= growing.keys()
        seen = growing.keys() | seen


def test_calls_are_sent_when_they_end_and_the_rest_at_the_end(
    collector: Collected, tmp_path: Path
) -> None:
    """Each span once; and a log that is made after the sender started."""
    final = [each.id for each in Spans(LOGS / "watched.jsonl")]
    whole = copied("watched.jsonl", tmp_path)
    lines = whole.read_bytes().splitlines(keepends=True)
    whole.unlink()

    sending = Sending(whole, collector.url, end_seconds=60)
    whole.write_bytes(b"".join(lines[: len(lines) // 2]))
    early = len(list(Spans(whole, is_growing=True)))
    assert early
    collector.wait(early)
    whole.write_bytes(b"".join(lines))

    assert sending.end() == SentSpans(spans=len(final), taken=len(final))
    assert sorted(collector.ids()) == sorted(final)


def test_a_collector_that_is_not_there_or_does_not_answer_does_not_stop_the_end() -> None:
    log = LOGS / "watched.jsonl"
    spans = len(list(Spans(log)))
    with socket.socket() as nobody, collecting(answers=threading.Event()) as slow:
        nobody.bind(("127.0.0.1", 0))
        absent = f"http://127.0.0.1:{nobody.getsockname()[1]}/v1/traces"
        for sending in [Sending(log, url) for url in (absent, slow.url)]:
            sent = sending.end()
            assert sent in (SentSpans(spans=spans, taken=0), SentSpans(spans=0, taken=0))
            assert not sent.is_whole
