"""Lanes: a bar for each call, on the clock of the root's first entry."""

import shutil
from pathlib import Path
from typing import Any

from refold.engine.events.events import COMPLETES, KINDS, REQUEST_KINDS
from refold.engine.ports.delegation import Delegation
from refold.engine.program.run import Run
from refold.engine.runners.recording import record
from refold.page.document import page
from refold.page.lanes import Lane, read_lane
from tests.support.conformance import rehashed
from tests.support.each_kind import BEFORE, log_with
from tests.support.fixtures import LOGS
from tests.support.loops import for_each
from tests.support.shown_runs import nothing, see_children_end


def test_each_call_is_a_bar_in_the_lane_of_its_run(survey_log: Path) -> None:
    document = page(survey_log).document

    root, child, *_ = document["lanes"]
    kinds = {bar[2] for bar in root["bars"]}
    assert (root["log"], child["log"]) == tuple(log["id"] for log in document["logs"][:2])
    assert kinds >= {"tool", "child"}
    assert all(bar[5] >= bar[4] and bar[1] > bar[0] for bar in root["bars"])
    assert root["start_us"] == 0 <= child["start_us"] <= child["end_us"] <= root["end_us"]
    assert child["limit_us"] > child["start_us"]


@for_each("kind", KINDS)
def test_each_effect_is_drawn(kind: str, tmp_path: Path) -> None:
    """A request begins a bar, what answers it or gives it up ends one, a timer is one by itself."""
    lane, last = Lane("a", None, "p", "running"), len(BEFORE) + 1
    read_lane(log_with(tmp_path / "a.jsonl", kind), {None: lane}, (0, 0), {})

    is_drawn = kind in {*REQUEST_KINDS, *COMPLETES, "timer.fired", "effect.cancelled"}
    assert any(last in bar[:2] for bar in lane.bars) is is_drawn


def test_a_childs_bar_ends_when_the_child_ended(tmp_path: Path) -> None:
    """Not when its parent came to join it (CONTRACT.md §3.4)."""

    async def program(run: Run, _input: Any) -> Any:
        child = await run.start(Delegation(program=nothing))
        await run.tool(see_children_end)
        (outcome,) = await run.join(child)
        return outcome.status

    log = record(program, log=tmp_path / "a.jsonl", tools=[see_children_end]).log

    root, child = page(log).document["lanes"]
    ends = {bar[2]: bar[5] for bar in root["bars"]}
    assert child["end_us"] <= ends["child"] <= ends["tool"]


def test_of_a_log_that_does_not_say_it_the_childs_own_end_counts(tmp_path: Path) -> None:
    """As where a child was resumed."""
    log = shutil.copytree(LOGS, tmp_path / "a") / "delegating.jsonl"
    rehashed(lambda rows: [row["meta"].pop("ended_us", 0) for row in rows] and None, log.name)(
        log.parent
    )
    root, *children = page(log).document["lanes"]

    ends = [bar[5] for bar in root["bars"] if bar[2] == "child"]
    assert ends == [each["end_us"] for each in children]
