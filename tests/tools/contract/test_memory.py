"""What a stateless tool remembers is kept for one run only."""

import gc
import weakref
from pathlib import Path
from typing import Any

from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.tools.contract.memory import memory_of
from tests.support.scripted_runners import Scripted


def test_a_tool_remembers_for_one_run_and_no_longer(tmp_path: Path) -> None:
    class Jobs(list[str]):
        """A list that can be referred to weakly."""

    kept: list[weakref.ref[Jobs]] = []

    async def program(run: Run, _input: Any) -> list[bool]:
        jobs = memory_of(run, "jobs", Jobs)
        jobs.append("a")
        kept.append(weakref.ref(jobs))
        return [memory_of(run, "jobs", Jobs) is jobs, memory_of(run, "other", Jobs) is jobs]

    outputs = [
        record(program, log=tmp_path / name, runners={"x": Scripted(b"")}).output
        for name in ("one.jsonl", "two.jsonl")
    ]

    gc.collect()
    assert outputs == [[True, False], [True, False]]
    assert [reference() for reference in kept] == [None, None]
