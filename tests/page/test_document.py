"""The page whole: what is in it, and what `--without-content` leaves out."""

import json
import shutil
from pathlib import Path

from refold.engine.log.names import blobs_of
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.html import page_html

SECRET_WORDS = "what nobody else may read"


async def talks(run: Run, text: str) -> str:
    run.annotate("heard", text)
    if len(text) > 60_000:
        raise ValueError(text[:40])
    return text


def test_large_texts_are_in_the_page_by_their_digests(tmp_path: Path) -> None:
    log = record(talks, "é" * 20_000, log=tmp_path / "a.jsonl").log

    shown = page(log)

    (content,) = shown.blobs.values()
    assert content.decode() == "é" * 20_000
    assert f'data-blob="{next(iter(shown.blobs))}"' in page_html(shown)


def test_a_large_text_that_is_gone_is_not_in_the_page(tmp_path: Path) -> None:
    log = record(talks, "x" * 40_000, log=tmp_path / "a.jsonl").log
    shutil.rmtree(blobs_of(log))

    assert page(log).blobs == {}


def test_without_content_no_word_of_it_is_in_the_page(tmp_path: Path) -> None:
    """Neither of a run that completed nor of one that raised; entries are rows without data."""
    logs = [
        record(talks, SECRET_WORDS * times, log=tmp_path / f"{name}.jsonl").log
        for name, times in (("a", 1), ("b", 3000))
    ]

    shown = page(logs[0], logs[1], content=False)

    parts = [shown.part(name) for name in ("links", "states")]
    assert "what nobody" not in json.dumps([shown.document, *parts])
    assert not shown.logs
    assert not shown.blobs
    assert shown.document["agents"][0]["told"] == f"({len(SECRET_WORDS)} bytes left out)"
    (rows,) = shown.document["entries"].values()
    assert [row[1] for row in rows] == ["run.started", "note.added", "run.finished"]
    (others,) = shown.document["diff"]["other"]["entries"].values()
    assert len(others) == 3
