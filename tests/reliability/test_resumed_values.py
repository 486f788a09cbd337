"""What a run has drawn stays drawn: a resumed run has the times, ids and numbers of before."""

from pathlib import Path
from typing import Any

import refold
from tests.support.loops import for_each

CUTS = range(2, 9)


@refold.tool(effect="idempotent")
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


async def drawing(run: refold.Run, _: Any) -> list[Any]:
    """Draw one of each before and after a call."""
    drawn: list[Any] = [run.now().isoformat(), str(run.uuid()), run.random("a").random()]
    loud: str = await run.tool(shout, text="hello")
    return [*drawn, loud, str(run.uuid()), run.random("a").random(), run.random("b").random()]


@for_each("kept", CUTS)
def test_a_resumed_run_keeps_what_it_drew(kept: int, tmp_path: Path) -> None:
    """Cases 24, 52: cut after each entry, what the log has is given again; and it replays."""
    whole = refold.record(drawing, None, log=tmp_path / "whole.jsonl", tools=[shout])
    lines = whole.log.read_bytes().splitlines(keepends=True)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:kept]))

    resumed = refold.resume(cut, drawing, tools=[shout])

    assert len(lines) == CUTS.stop
    assert resumed.result()[1:] == whole.result()[1:]
    if any(b'"clock.read"' in line for line in lines[:kept]):
        assert resumed.result()[0] == whole.result()[0]
    assert refold.reexecute(cut, drawing).identical
