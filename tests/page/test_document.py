"""The page whole: what is in it, and what `--without-content` leaves out."""

import asyncio
import base64
import gzip
import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from refold.engine.log.names import blobs_of
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.html import page_html
from refold.replay.compare.diff import diff
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


@tool(effect="pure")
def double(x: int) -> int:
    """Return twice x."""
    return 2 * x


async def two_calls(run: Run, numbers: list[int]) -> int:
    return sum([await run.tool("double", x=number) for number in numbers])


def _recorded(folder: Path, name: str, numbers: list[int]) -> Path:
    return record(two_calls, numbers, log=folder / f"{name}.jsonl", tools=[double]).log


def _ids(document: dict[str, Any]) -> tuple[str, str]:
    """Return the ids of the roots' logs of both runs."""
    return document["logs"][0]["id"], document["diff"]["other"]["logs"][0]["id"]


def test_a_cause_names_both_entries_and_its_words(tmp_path: Path) -> None:
    def program(factor: int) -> Any:
        async def three_calls(run: Run, _input: None) -> None:
            for number in (1, 2, 3):
                await run.tool("double", x=number * (factor if number == 2 else 1))

        return three_calls

    logs = [
        record(program(factor), None, log=tmp_path / f"{factor}.jsonl", tools=[double]).log
        for factor in (1, 5)
    ]
    document = page(*logs).document
    (cause,), (one, other) = document["diff"]["causes"], _ids(document)

    assert (cause["where"], cause["what"]) == ("root > double#2", "arguments")
    assert cause["entries"] == [[one, 3], [other, 3]]
    (told,) = diff(*logs).causes
    assert (
        cause.items()
        >= {
            name: value
            for name, value in told.as_json().items()
            if name not in ("was", "now", "words")
        }.items()
    )
    changed = {"pointer": "/arguments/x", "kind": "changed", "before": 2, "after": 10}
    assert cause["differences"] == [changed | {"parts": [("-", "2"), ("+", "10")]}]
    assert document["diff"]["table"]["tool_calls"] == [3, 3]


def _told_late(folder: Path, said: str) -> Path:
    """Record a run that asks a slow tool first, and is answered by a quick one first."""
    answered = threading.Event()

    @tool(effect="reads")
    def quick(n: int) -> str:
        return said * n

    @tool(effect="reads")
    def slow(n: int) -> str:
        answered.wait(60)
        return said * n

    async def program(run: Run, _input: None) -> None:
        asked = asyncio.ensure_future(run.tool(slow, n=1))
        await asyncio.sleep(0)
        await run.tool(quick, n=1)
        answered.set()
        await asked

    return record(program, None, log=folder / f"{said}.jsonl", tools=[quick, slow]).log


def test_the_first_cause_is_the_answer_that_came_first(tmp_path: Path) -> None:
    """Not the request that was written first: its answer may follow from the other."""
    document = page(_told_late(tmp_path, "one"), _told_late(tmp_path, "other")).document

    assert document["diff"]["causes"][0]["where"] == "root > quick#1"


def test_a_call_that_one_run_lacks_has_no_entry_there(tmp_path: Path) -> None:
    def program(calls: int) -> Any:
        async def some_calls(run: Run, _input: None) -> None:
            for number in range(calls):
                await run.tool("double", x=number)

        return some_calls

    logs = [
        record(program(calls), None, log=tmp_path / f"{calls}.jsonl", tools=[double]).log
        for calls in (1, 2)
    ]
    document = page(*logs).document
    (cause,) = document["diff"]["causes"]

    assert cause["entries"] == [None, [_ids(document)[1], 3]]


@tool(effect="pure")
def note(x: int) -> None:
    """Keep a number, and return the same for each."""


def _noting(folder: Path, numbers: list[int], *, in_children: bool) -> Path:
    """Record a run that notes numbers one after the other, or has a child note each."""

    async def reader(run: Run, number: int) -> None:
        await run.tool("note", x=numbers[number])

    async def lead(run: Run, _input: None) -> None:
        for at, number in enumerate(numbers):
            if in_children:
                await run.delegate(Delegation(program=reader, agent="reader", input=at))
            else:
                await run.tool("note", x=number)

    return record(lead, None, log=folder / f"{numbers[0]}.jsonl", tools=[note]).log


@pytest.mark.parametrize("in_children", [False, pytest.param(True, marks=pytest.mark.long)])
def test_90_equal_differences_are_one_cause_and_3_others_stand_beside_it(
    tmp_path: Path, *, in_children: bool
) -> None:
    others = {20: 1, 50: 2, 80: 3}
    before = _noting(tmp_path, [50] * 93, in_children=in_children)
    now = [700 + others.get(at, 0) for at in range(93)]
    found = page(before, _noting(tmp_path, now, in_children=in_children)).document["diff"]

    assert found["count"] == 93
    assert [len(each["alike"]) for each in found["causes"]] == [89, 0, 0, 0]
    assert [each["follows"] for each in found["causes"]] == [0, 0, 0, 0]


def test_two_runs_that_are_the_same_have_no_cause(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1]), _recorded(tmp_path, "b", [1])

    found = page(a, b).document["diff"]

    assert (found["identical"], found["causes"], found["count"]) == (True, [], 0)


def test_a_damaged_run_is_said_to_be_why_nothing_is_compared(tmp_path: Path) -> None:
    a, b = _recorded(tmp_path, "a", [1]), _recorded(tmp_path, "b", [1])
    b.write_bytes(b.read_bytes().replace(b'"result":2', b'"result":3', 1))

    found = page(a, b).document["diff"]

    assert found["error"]
    assert not found["identical"]
