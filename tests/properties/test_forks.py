"""Laws of forks and of live runs, over random program trees.

A fork at any entry that changes nothing does what its origin did; a run whose tools are live and
answer as they did drifts nowhere, however long they take.  Whatever in a fork differs from what its
sources would give is in its edits, and the fork replays.
"""

import functools
import random
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from refold import drift, fork, why
from refold.engine.encoding.canonical import Json
from refold.engine.errors import Diverged
from refold.engine.events.events import (
    COMPLETES,
    ChildFinished,
    ChildStarted,
    InputAsked,
    InputGiven,
    ModelAnswered,
    ModelAsked,
    RunFinished,
    RunStarted,
    ToolReturned,
    ValueDrawn,
    key_in,
    run_and_call,
)
from refold.engine.log.names import tree
from refold.engine.log.reader import Entry, read_entries
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.replay.partial.sources import Sources
from refold.replay.reexecute.reexecute import reexecute
from tests.support.forks import (
    TREE_MODEL,
    TREE_TOOLS,
    VARIABLE,
    Step,
    children,
    factor,
    grow,
    looked_up,
    world,
)
from tests.support.loops import some
from tests.support.trees import Latency, Node, random_tree, tools_with, tree_program

CHUNK: Final = 5
LONG_CASES: Final = 1_500
LIVE: Final = Sources(model="live", tools="live", children="live", may_change=True)
HALF: Final = settings(max_examples=settings().max_examples // 2)
"""Of the profile's examples: each is a run of a tree, a fork of it and a replay."""


def _recorded(folder: Path, seed: int) -> tuple[Node, Recording]:
    node = random_tree(seed, size=14, children=seed % 3 == 0)
    log = folder / f"tree-{seed}x.jsonl"
    tools = tools_with(Latency(seed))
    return node, record(tree_program, node, log=log, tools=tools, durability="fast", seed=seed)


def _check_fork(origin: Recording, at: int, into: Path, sources: Sources | None, note: Any) -> None:
    tools = tools_with(Latency(at, 0.0))
    forked = fork(origin.log, at, tree_program, into=into, sources=sources, tools=tools)

    assert forked.recording is not None, (note, forked)
    assert forked.recording.output == origin.output, (note, forked)
    verified = verify(into)
    assert verified.intact, (note, verified)
    assert verified.complete, (note, verified)
    report = reexecute(into, tree_program)
    assert report.identical, (note, report)
    for path in tree(into):
        path.unlink()


def _check(folder: Path, seed: int) -> None:
    node, origin = _recorded(folder, seed)
    if not origin.ok:
        return  # a tree may really wait for ever, or let its own cancelling escape
    for at in random.Random(seed).sample(range(origin.entries), 2):
        for name, sources in (("recorded", None), ("live", LIVE)):
            into = folder / f"fork-{seed}-{at}-{name}.jsonl"
            _check_fork(origin, at, into, sources, (seed, at, name, node))
    tools = tools_with(Latency(seed + 1, 0.0))
    found = drift(origin.log, tree_program, sources=LIVE, tools=tools)
    assert found.identical, (seed, node, str(found))


@pytest.mark.parametrize("first", some(1, range(0, 40, CHUNK)))
def test_forks_and_live_runs_do_what_was_recorded(tmp_path: Path, first: int) -> None:
    """At two entries of each tree, from the record and live; and live from the beginning."""
    for seed in range(first, first + CHUNK):
        _check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(10_000, 10_000 + LONG_CASES, CHUNK))
def test_more_forks_do_too(tmp_path: Path, first: int) -> None:
    """The same over seventy-five times as many trees."""
    for seed in range(first, first + CHUNK):
        _check(tmp_path, seed)


# --- what differs is in the edits ---------------------------------------------------------------

ANSWER: Final = 9
"""What a person says, and the variable of the environment."""
STUBS: Final[dict[str, Json]] = {"look_up": 30, "store": 31, "model": "32", "child": 33}
LEAVES: Final[list[Step]] = [
    {"tool": "look_up"},
    {"tool": "store"},
    {"model": 1},
    {"wait": 1},
    {"draw": VARIABLE},
    {"ask": "?"},
]


def _steps(leaves: list[Step]) -> st.SearchStrategy[list[Step]]:
    leaf = st.sampled_from(leaves)

    def nested(steps: st.SearchStrategy[list[Step]]) -> st.SearchStrategy[list[Step]]:
        both = st.tuples(steps, steps).map(list)
        inner: st.SearchStrategy[Step] = (
            st.fixed_dictionaries({"child": steps})
            | st.fixed_dictionaries({"several": steps, "most": st.integers(2, 3)})
            | st.fixed_dictionaries({"children": both})
            | st.fixed_dictionaries({"tasks": both})
            | st.fixed_dictionaries({"either": both})
        )
        return st.lists(leaf | inner, min_size=1, max_size=3)

    return st.recursive(st.lists(leaf, min_size=1, max_size=3), nested, max_leaves=8)


STEPS: Final = {
    "in-process": _steps(LEAVES),
    "subprocess": _steps(LEAVES[:-2]),  # neither the variable nor whom to ask is passed on
}
MODES: Final[Any] = st.sampled_from(["recorded", "live", "live", "stub"])
SOURCES = st.just(LIVE) | st.builds(
    Sources,
    model=MODES,
    tools=MODES,
    children=MODES,
    may_change=st.booleans(),
    stubs=st.just(STUBS),
)


@attrs.frozen
class _Run:
    """One run of a tree, as its log has it."""

    log: Path
    entries: list[Entry] = attrs.field(repr=False)

    @functools.cached_property
    def path(self) -> str:
        started = self.entries[0].event
        assert isinstance(started, RunStarted)
        return started.path

    @functools.cached_property
    def asked(self) -> dict[str, Any]:
        """Requests by key."""
        asks = (entry for entry in self.entries if entry.kind in COMPLETES.values())
        return {key_in(self.path, entry.call or ""): entry.event for entry in asks}

    @functools.cached_property
    def answers(self) -> dict[str, Entry]:
        """What came from the world, by key: outcomes, and what was drawn and not from the seed."""
        drawn = (entry for entry in self.entries if entry.data.get("source") == "environment")
        found = [*(entry for entry in self.entries if entry.kind in COMPLETES), *drawn]
        return {key_in(self.path, entry.call or ""): entry for entry in found}

    @property
    def end(self) -> RunFinished | None:
        ended = self.entries[-1].event
        return ended if isinstance(ended, RunFinished) else None


def _runs(log: Path) -> dict[str, _Run]:
    """Return the runs of a tree by their paths."""
    runs = [_Run(path, list(read_entries(path, resolve=True, torn_ok=True))) for path in tree(log)]
    return {run.path: run for run in runs}


def _above(key: str) -> str:
    return run_and_call(key)[0]


def _kept(origin: dict[str, _Run], cut: _Run, at: int) -> dict[str, int]:
    """Return how many entries a fork of `cut` at `at` keeps, by the paths of runs."""
    kept, path = {cut.path: at + 1}, cut.path
    while path:
        kept[_above(path)] = origin[_above(path)].answers[path].seq
        path = _above(path)
    for path in sorted(origin, key=len):
        if path not in kept and origin[_above(path)].answers[path].seq < kept.get(_above(path), 0):
            kept[path] = len(origin[path].entries)
    return kept


def _edit_of(entry: Entry, value: int, *, fails: bool) -> Json:
    """Return another outcome of the same kind."""
    if fails and not isinstance(entry.event, InputGiven | ValueDrawn):
        return {"error": {"message": "no"}}
    return str(value) if isinstance(entry.event, ModelAnswered | ValueDrawn) else value


def _says(answer: Any) -> Json:
    """Return what an outcome says, as an edit would."""
    match answer:
        case ToolReturned(status="ok", result=found) | InputGiven(answer=found):
            return found
        case ModelAnswered(status="ok", message={"content": found}) | ValueDrawn(value=found):
            return found
        case ChildFinished(outcome=outcome) if outcome.status == "completed":
            return outcome.output
        case ChildFinished(outcome=outcome):
            return {"error": {"message": outcome.error.message if outcome.error else ""}}
        case _:
            return {"error": {"message": answer.error["message"]}}


def _world_says(asked: Any, by: int) -> Json:
    if isinstance(asked, ModelAsked):
        return str(looked_up(int(asked.parameters["seed"]), by))
    return looked_up(int(asked.arguments["n"]), by) + (asked.tool == "store")


@attrs.frozen(kw_only=True)
class _Made:
    """What a fork was made of: each outcome is the edited one, or else what the sources give."""

    origin: dict[str, _Run]
    kept: Mapping[str, int]
    edits: Mapping[str, Json]
    sources: Sources

    def is_kept(self, key: str, answer: Entry) -> bool:
        """Whether an answer stands before the fork."""
        return answer.seq < self.kept.get(_above(key), 0)

    def check(self, runs: dict[str, _Run]) -> None:
        """Check all outcomes of a fork."""
        assert runs[""].entries[0].data["origin"]["edits"] == sorted(self.edits)
        for run in runs.values():
            for key, answer in run.answers.items():
                asked = run.asked.get(key)
                if key in self.edits:
                    assert _says(answer.event) == self.edits[key], key
                elif isinstance(asked, ChildStarted):
                    self._check_child(asked, key, answer, runs.get(key))
                elif asked is None or isinstance(asked, InputAsked):
                    assert _says(answer.event) in (ANSWER, str(ANSWER)), key
                else:
                    self._check_answer(asked, key, answer)

    def _check_answer(self, asked: Any, key: str, answer: Entry) -> None:
        is_model = isinstance(asked, ModelAsked)
        kind, name = ("model", "") if is_model else ("tool", asked.tool)
        is_served = self.is_kept(key, answer) or self._is_served(_above(key))
        if self.sources.mode_of(kind, name) == "stub" and not is_served:
            assert _says(answer.event) == STUBS[name or "model"], key
            return
        effect = None if is_model else asked.effect
        is_live = self.sources.lets_run(kind, name, effect) and not is_served
        said = _world_says(asked, world["live" if is_live else "recorded"])
        assert _says(answer.event) == said, key

    def _check_child(self, asked: Any, key: str, answer: Any, below: _Run | None) -> None:
        outcome, is_served = answer.event.outcome, self._is_served(_above(key))
        if self.is_kept(key, answer) or (self._runs(key) and not is_served):
            assert below is not None, key
            assert below.end is not None, key
            assert outcome.status == below.end.status, key
            assert outcome.output == below.end.output, key
        elif self.sources.children == "stub" and not is_served:
            assert (outcome.output, outcome.summary) == (STUBS["child"], str(STUBS["child"])), key
        else:  # of the record, where the same was asked for
            given = asked.delegation["input"]
            assert _says(answer.event) in [
                _says(run.answers[each].event)
                for run in self.origin.values()
                for each, one in run.asked.items()
                if isinstance(one, ChildStarted) and one.delegation["input"] == given
            ], key

    def _runs(self, path: str) -> bool:
        """Whether a child runs after the fork, where the run above it does."""
        is_edited = any(key.startswith(f"{path} > ") for key in self.edits)
        is_live = self.sources.children == "live" and path not in self.edits
        return is_live or is_edited or path in self.kept

    def _is_served(self, path: str) -> bool:
        """Whether a run was copied whole after the fork, beside its outcome."""
        return bool(path) and (not self._runs(path) or self._is_served(_above(path)))


@pytest.fixture
def _said(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment says the same in a fork as when it was recorded."""
    monkeypatch.setenv(VARIABLE, str(ANSWER))
    yield
    factor["value"] = world["recorded"]


FRACTION: Final = st.floats(0, 1)
"""What a property draws of a record, whose length may differ from one recording to the next."""


def _at(where: float, of: Any) -> Any:
    found = list(of)
    return found[round(where * (len(found) - 1))]


def _edits(data: st.DataObject, known: Mapping[str, Entry]) -> dict[str, Json]:
    edits: dict[str, Json] = {}
    drawn = data.draw(
        st.lists(st.tuples(FRACTION, st.integers(40, 99), FRACTION), max_size=3), "edits"
    )
    for where, value, fails in drawn if known else ():
        key = _at(where, sorted(known))
        if key not in edits and not any(
            key.startswith(f"{one} > ") or one.startswith(f"{key} > ") for one in edits
        ):
            edits[key] = _edit_of(known[key], value, fails=fails > 0.7)
    return edits


def _check_edited(folder: Path, data: st.DataObject, runner: str) -> None:
    given = {"steps": data.draw(STEPS[runner], "steps"), "n": 1}
    program = children.get("program", grow)
    way: dict[str, Any] = {"tools": TREE_TOOLS, "model": TREE_MODEL}
    factor["value"] = world["recorded"]
    ask = None if runner == "subprocess" else lambda _: ANSWER
    origin = _runs(
        record(program, given, log=folder / "a.jsonl", ask=ask, runner=runner, seed=1, **way).log
    )
    named = _at(data.draw(FRACTION, "log"), origin.values())
    prefix = key_in(named.path, "") if named.path else ""
    answers = {key: entry for run in origin.values() for key, entry in run.answers.items()}
    known = {key.removeprefix(prefix): answers[key] for key in answers if key.startswith(prefix)}
    edits = _edits(data, known)
    cut, at = named, _at(data.draw(FRACTION, "at"), range(len(named.entries)))
    above = {_above(prefix + key) for key in edits}
    goes_by_edit = data.draw(st.booleans(), "by edit") and len(above) == 1
    if goes_by_edit:
        cut, at = origin[above.pop()], min(known[key].seq for key in edits)
    made = _Made(
        origin=origin,
        kept=_kept(origin, cut, at),
        edits={prefix + key: value for key, value in edits.items()},
        sources=data.draw(SOURCES, "sources"),
    )
    factor["value"] = world["live"]
    into, entry = folder / "b.jsonl", None if goes_by_edit else at
    try:
        forked = fork(
            named.log, entry, program, into=into, edits=edits, sources=made.sources, **way
        )
    except Diverged:
        assert not list(folder.glob("b.*"))
        assert not goes_by_edit, "nothing stands behind the edit"
        assert any(made.is_kept(key, answers[key]) for key in made.edits)
        return
    if not into.exists():
        assert forked.missing
        assert forked.recording is None
        return
    made.check(_runs(into))
    verified = verify(into)
    assert verified.intact, verified
    is_over = forked.recording is not None and forked.recording.status != "suspended"
    assert verified.complete is is_over, verified
    if made.sources == LIVE:
        assert all("the edit of" in str(one) for one in forked.missing), forked.missing
    report = reexecute(into, program)
    assert report.identical, report


@pytest.fixture
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start no process for a run that is unfinished."""
    monkeypatch.setitem(children, "program", functools.partial(grow))


@pytest.mark.parametrize(
    "_turn", [0, *(pytest.param(turn, marks=pytest.mark.long) for turn in range(1, 20))]
)
@pytest.mark.usefixtures("_said", "_here")
@given(data=st.data())
@settings(HALF, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_differs_in_a_fork_is_in_its_edits(data: st.DataObject, _turn: int) -> None:
    """Over random trees, with edits anywhere, at every entry, of each log; and the fork replays."""
    with tempfile.TemporaryDirectory() as folder:
        _check_edited(Path(folder), data, "in-process")


@pytest.mark.long
@pytest.mark.usefixtures("_said")
@given(data=st.data())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_differs_from_children_in_processes_is_in_the_edits(data: st.DataObject) -> None:
    """They run in this process in a fork; what is recorded of them is the same."""
    with tempfile.TemporaryDirectory() as folder:
        _check_edited(Path(folder), data, "subprocess")


# --- what an edit changes has it among its causes ------------------------------------------------


def _check_causes(steps: list[Step], where: float, runner: str) -> None:
    way: dict[str, Any] = {"tools": TREE_TOOLS, "model": TREE_MODEL}
    factor["value"] = world["recorded"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log, into = folder / "a.jsonl", folder / "b.jsonl"
        given = {"steps": steps, "n": 1}
        program = children.get("program", grow)
        record(program, given, log=log, runner=runner, seed=1, **way)
        origin = _runs(log)
        known = {key: (run, entry) for run in origin.values() for key, entry in run.answers.items()}
        if not known:
            return
        key = _at(where, sorted(known))
        run, edited = known[key]
        edits = {key: _edit_of(edited, 77, fails=False)}
        fork(log, None, program, into=into, edits=edits, sources=LIVE, check=False, **way)
        forked = _runs(into)
        for path, before in origin.items():
            after = forked[path].asked if path in forked else {}
            for entry in before.entries:
                asked = key_in(path, entry.call or "")
                if entry.kind in COMPLETES.values() and before.asked[asked] != after.get(asked):
                    causes = why(before.log, entry.seq, every=True)
                    found = {(Path(each.log), each.seq) for each in causes}
                    assert (run.log, edited.seq) in found, (key, asked)


@pytest.mark.usefixtures("_here")
@settings(HALF)
@given(steps=STEPS["subprocess"], where=FRACTION)
def test_what_an_edit_changes_has_it_among_its_causes(steps: list[Step], where: float) -> None:
    """In random programs without shared memory, a fork tells what depends on an outcome."""
    _check_causes(steps, where, "in-process")


@pytest.mark.long
@pytest.mark.parametrize("runner", ["in-process", "subprocess"])
@pytest.mark.parametrize("_part", range(5))
@settings(max_examples=100)
@given(steps=STEPS["subprocess"], where=FRACTION)
def test_so_it_has_in_many_programs(
    steps: list[Step], where: float, runner: str, _part: int
) -> None:
    """500 for each runner; a single test ends after ten minutes."""
    _check_causes(steps, where, runner)


@pytest.mark.usefixtures("_here")
def test_a_child_that_leaves_what_is_kept_refuses_a_fork_though_others_ran_live(
    tmp_path: Path,
) -> None:
    """Its log could not be resumed, so none is left."""
    look = {"tool": "look_up"}
    child = {"child": [{"children": [[look, look], [look]]}]}
    way: dict[str, Any] = {"tools": TREE_TOOLS, "model": TREE_MODEL}
    given = {"steps": [{"child": [look]}, child], "n": 1}
    factor["value"] = world["recorded"]
    record(grow, given, log=tmp_path / "a.jsonl", seed=1, **way)
    log = tmp_path / "a.2.1.jsonl"
    answer = list(read_entries(log))[2]
    factor["value"] = world["live"]

    with pytest.raises(Diverged):
        fork(
            log,
            3,
            grow,
            into=tmp_path / "b.jsonl",
            edits={"0#1": _edit_of(answer, 40, fails=True)},
            sources=LIVE,
            **way,
        )

    assert not list(tmp_path.glob("b.*"))
