"""The page whole: what is in it, and what `--without-content` leaves out."""

import base64
import gzip
import json
import re
import shutil
from pathlib import Path

from refold.engine.log.names import blobs_of
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.delegation import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.html import page_html
from refold.replay.run.opened_run import OpenedRun
from refold.tools.contract.tool_types import tool

SECRET_WORDS = "what nobody else may read"


@tool(effect="reads")
def look(text: str) -> dict[str, str]:
    """Look at a text."""
    return {text: text}


async def asks(run: Run, text: str) -> object:
    """Say a text wherever a program can, and have a child ask a person."""
    task = Delegation(program=waits, agent="clerk", brief=f"do {text}", input={"task": text})
    await run.model([{"role": "system", "content": text}, {"role": "user", "content": text}])
    await run.tool("look", text=text)
    run.annotate(text, {text: text})
    return await run.delegate(task)


async def waits(run: Run, given: dict[str, str]) -> object:
    await run.tool("look", text=given["task"])
    return await run.ask(given["task"], {"description": given["task"]})


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


def test_without_content_a_run_that_waits_says_so_without_its_question(tmp_path: Path) -> None:
    """Nor a prompt, an answer, an argument or a note, in any block of the file."""
    model = FunctionModel(lambda _: SECRET_WORDS, "clerk")
    log = record(asks, f"{SECRET_WORDS}?", log=tmp_path / "a.jsonl", tools=[look], model=model).log
    assert OpenedRun(log).standing == f"waits for you: {SECRET_WORDS}?"

    shown = page(log, content=False)

    packed = re.findall(r"octet-stream\+gzip[^>]*>([^<]*)<", text := page_html(shown))
    blocks = [gzip.decompress(base64.b64decode(block)).decode() for block in packed]
    assert blocks
    assert all("nobody else" not in block for block in (*blocks, text))
    root, clerk = shown.document["agents"]
    assert {root["status"], clerk["status"]} == {"waits_for_you"}
    assert {root["standing"], clerk["standing"]} == {"waits for you"}
    assert shown.document["question"] is None
