"""A record against a run with live outcomes, call by call; rules are CONTRACT.md §12.10."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

import refold
from refold.engine.errors import LogExists, LogUnsealed, ToolNeeded, UsageError
from refold.replay.drift_report import DriftReport
from refold.replay.sources import Sources
from tests.support import forks
from tests.support.forks import TOOLS, factor, kept, model, report


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    """The world is put back as it was."""
    kept.clear()
    yield
    factor["value"] = 1


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A recorded run."""
    return refold.record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log


def rows(found: DriftReport) -> list[tuple[str, str, bool]]:
    """Return what is not the same: where, verdict, whether consequent."""
    return [
        (row.where.removeprefix("report > "), row.verdict, row.consequent)
        for row in found.calls
        if row.verdict != "same"
    ]


@pytest.mark.parametrize(
    "sources",
    [
        Sources(),
        Sources(tools="live"),
        Sources(model="live"),
        Sources(children="live"),
        Sources(model="live", tools="live", children="live"),
        Sources(model="live", tools="live", children="live", may_change=True),
        Sources(tool={"get": "live"}),
    ],
)
def test_nothing_drifts_where_nothing_has_changed(log: Path, sources: Sources) -> None:
    """Whatever is live."""
    found = refold.drift(log, report, sources=sources, tools=TOOLS, model=model())

    assert found.identical, found
    assert "no drift" in str(found)


def test_a_tool_that_answers_otherwise_is_drift_and_the_rest_follows(log: Path) -> None:
    """The calls whose results changed are primary; what was asked after them is consequent."""
    factor["value"] = 2

    found = refold.drift(log, report, tools=TOOLS, model=model())

    assert rows(found) == [
        ('get#1 in 0/1 (key="a")', "result_changed", False),
        ('get#1 in 0/2 (key="bb")', "result_changed", False),
        ('model scripted#1 ("the sum is 6")', "arguments_changed", True),
        ('parent[1] > get#1 (key="ccc")', "result_changed", False),
        ('parent[1] > reader[1] > get#1 (key="cccccc")', "result_changed", False),
        ("parent[1] > reader[1] > output", "result_changed", True),
        ('parent[1] > child reader#2 ("cccccc")', "result_changed", True),
        ("parent[1] > output", "result_changed", True),
        ('child parent#2 ("ccc")', "result_changed", True),
        ("put#3 (value=6)", "arguments_changed", True),
    ]
    assert [one.call for one in found.missing] == ["put#3 (value=6)"]
    assert "--yes" in str(found.missing[0])
    assert kept == [3]


def test_a_tool_that_changes_the_world_runs_only_if_it_may(log: Path) -> None:
    """Asked for the same, its recorded result is served."""
    kept.clear()

    refold.drift(log, report, tools=TOOLS, model=model())
    assert kept == []
    refold.drift(log, report, tools=TOOLS, model=model(), sources=Sources(tools="live"))
    assert kept == []
    may = Sources(tools="live", may_change=True)
    refold.drift(log, report, tools=TOOLS, model=model(), sources=may)
    assert kept == [3]


def test_what_is_not_recorded_stops_the_run_and_names_the_nearest(log: Path) -> None:
    """Never something like it is served."""
    factor["value"] = 2

    found = refold.drift(log, report, sources=Sources(tools="live"), tools=TOOLS)

    (missing,) = found.missing
    assert missing.call == 'model scripted#1 ("the sum is 6")'
    assert missing.nearest == 'model scripted#1 ("the sum is 3")'
    unreached = [row for row in found.calls if row.verdict == "missing"]
    assert unreached
    assert all(row.consequent for row in unreached)


def test_noise_is_what_two_live_runs_differ_in(log: Path) -> None:
    """With `twice`, a result that is never the same twice is no drift."""
    count = iter(range(1, 100))

    @refold.tool(effect="reads")
    def get(key: str) -> int:
        return len(key) + (100 * next(count) if key == "a" else 0)

    sources = Sources(tools="live", model="stub", stubs={"model": "three"})

    found = refold.drift(log, report, sources=sources, tools=[get, forks.put], twice=True)

    noise = [row.where for row in found.calls if row.noise]
    assert 'report > get#1 in 0/1 (key="a")' in noise
    assert found.counts["noise"] == len(noise)


@pytest.mark.parametrize(
    ("compare", "is_same"),
    [({}, False), ({"model": "text"}, True), ({"*": "text"}, True), ({"get": "text"}, False)],
)
def test_results_count_as_the_same_by_rule(
    log: Path, compare: dict[str, Any], *, is_same: bool
) -> None:
    """By the name of a tool, a kind, or for all."""
    sources = Sources(model="live")

    found = refold.drift(log, report, sources=sources, model=model("THREE"), compare=compare)

    first = next(row for row in found.calls if row.kind == "model")
    assert (first.verdict == "same") is is_same


def test_stubs_give_what_is_said(log: Path) -> None:
    """A tool's result, a model's text, a child's summary; else nothing."""
    sources = Sources(tools="stub", model="stub", stubs={"get": 5, "model": "x", "put": 7})

    found = refold.drift(log, report, sources=sources)

    output = next(row for row in found.calls if row.kind == "output")
    assert output.now["output"][:3] == [5, 5, "x"]


def test_the_new_run_can_be_kept(log: Path, tmp_path: Path) -> None:
    """As a log that verifies, and is never overwritten."""
    found = refold.drift(log, report, into=tmp_path / "b.jsonl", tools=TOOLS, model=model())

    assert found.into is not None
    assert refold.diff(log, found.into).identical
    with pytest.raises(LogExists):
        refold.drift(log, report, into=found.into, tools=TOOLS, model=model())


def test_what_is_live_has_to_be_passed(log: Path) -> None:
    """Tools and models; an unknown source is refused."""
    with pytest.raises(ToolNeeded, match="get"):
        refold.drift(log, report, model=model())
    with pytest.raises(UsageError, match="model"):
        refold.drift(log, report, tools=TOOLS)
    with pytest.raises(UsageError, match="recorded, live, stub"):
        Sources(model="lively")  # type: ignore[arg-type]  # the mistake
    with pytest.raises(UsageError, match="recorded, live, stub"):
        Sources(tool={"get": "lively"})  # type: ignore[dict-item]  # the mistake


def test_an_unfinished_record_is_refused(log: Path) -> None:
    """There is nothing to compare its end with."""
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))

    with pytest.raises(LogUnsealed):
        refold.drift(log, report, tools=TOOLS, model=model())


def test_a_session_starts_as_it_was_recorded(tmp_path: Path) -> None:
    """Not with what the one that was passed happens to hold."""

    @attrs.frozen
    class Seen:
        key: str

    def session(*keys: str) -> refold.Session:
        made = refold.Session()
        made.register(Seen)
        for key in keys:
            made.dispatch(Seen(key))
        return made

    async def counts(run: refold.Run, _: Any) -> int:
        await run.tool("get", key="a" * len(run.session.select_all(Seen)))
        return len(run.session.select_all(Seen))

    log = refold.record(
        counts, None, log=tmp_path / "a.jsonl", tools=TOOLS, session=session("x", "y")
    ).log

    found = refold.drift(log, counts, tools=TOOLS, session=session())

    assert found.identical, found
