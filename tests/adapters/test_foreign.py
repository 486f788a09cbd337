"""One call of a framework's tool, or one request to its model, is an effect like any other."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.adapters.foreign import (
    ForeignModel,
    ForeignTool,
    checked_kind,
    is_exact,
    plain_of,
    program_run,
    status_of,
)
from refold.engine.encoding.plain import without_empty
from refold.engine.events.outcome import Usage
from refold.engine.models import ModelReply
from refold.engine.models.endpoint import failure_of
from tests.support.loops import for_each


def foreign(work: Any) -> ForeignTool:
    return ForeignTool(name="look", description="", effect="reads", parameters={}, work=work)


def test_its_work_is_done_on_the_host_and_never_in_a_replay(tmp_path: Path) -> None:
    """On a loop that is not the program's.  The log has what came of it; the replay reads it."""
    of_work: list[object] = []
    of_programs: list[object] = []

    async def work() -> list[int]:
        of_work.append(asyncio.get_running_loop())
        return [1]

    async def answer() -> ModelReply:
        of_work.append(asyncio.get_running_loop())
        return ModelReply(message={"role": "assistant", "content": "ok"}, usage=Usage())

    async def program(run: refold.Run, _input: None) -> list[Any]:
        of_programs.append(asyncio.get_running_loop())
        model = ForeignModel(name="theirs", work=answer)
        reply = await run.model([{"role": "user", "content": "hi"}], model=model)
        return [await run.tool(foreign(work), place="Dover"), reply.message["content"]]

    recording = refold.record(program, log=tmp_path / "run.jsonl")
    assert refold.reexecute(recording, program).identical

    assert recording.output == [[1], "ok"]
    assert len(of_work) == len(of_programs) == 2
    assert not any(loop in of_programs for loop in of_work)


def test_a_failure_says_class_and_words_and_no_key() -> None:
    """A status becomes the code, and comes back as one."""

    class Refused(Exception):
        status_code = 429

    refused = failure_of("theirs", Refused("slow down sk-1234567890abcdef"))

    assert (refused.code, refused.message) == ("http_429", "Refused: slow down …")
    assert status_of(refused) == 429
    assert status_of(failure_of("theirs", ValueError("odd"))) is None


def test_it_is_no_program_code() -> None:
    """Nor is anything but an effect class what a tool is taken for."""
    with pytest.raises(refold.UsageError, match="a framework's tool cannot start subagents"):
        foreign(None).delegate(None, {})
    with pytest.raises(refold.UsageError, match="expected one of pure"):
        checked_kind("look", "write")


def test_a_run_is_found_by_the_program_that_awaits(tmp_path: Path) -> None:
    """Also in its tasks; outside of a program there is none."""

    async def program(run: refold.Run, _input: None) -> list[bool]:
        async def found() -> bool:
            return program_run(None) is run

        return [program_run(None) is run, *await asyncio.gather(found(), found())]

    assert refold.record(program, log=tmp_path / "run.jsonl").output == [True, True, True]
    assert program_run(None) is None


@for_each("value", [None, 1, "a", 0.5, True, [1, {"a": [None]}]])
def test_what_json_gives_back_is_exact(value: object) -> None:
    assert is_exact(value)


@for_each("value", [(1,), {1: 2}, {"a": {1}}, b"", object()])
def test_what_it_does_not_is_not(value: object) -> None:
    assert not is_exact(value)


def test_what_has_no_json_is_named_by_its_type() -> None:
    """And what says nothing can be left out."""
    assert plain_of({"a": object(), "b": (1, 2)}) == {"a": "object", "b": [1, 2]}
    assert without_empty({"a": None, "b": "", "c": [], "d": {}, "e": 0, "f": False}) == {
        "e": 0,
        "f": False,
    }
