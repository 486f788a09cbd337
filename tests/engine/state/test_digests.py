import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.encoding import canonical
from refold.engine.errors import NotCanonical
from refold.engine.events import events
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.state.digests import STATE_VERSION, state_digest, state_json
from refold.engine.state.folding import Fold
from refold.engine.state.run_state import ChildState, LimitCount, RunState, Seal

STARTED = events.RunStarted(
    "demo", {"q": 1}, 0, {"timeout_seconds": 1e16}, "00", [], {"state": 1}, {}, {}, "", "r", "r"
)


def sample() -> RunState:
    """Return a state in which every part is used."""
    so_far = Fold()
    so_far.apply(STARTED)
    so_far.apply(events.ToolCalled("search", {}, "reads"), "0#1")
    so_far.apply(events.ToolReturned("ok", 1), "0#1")
    so_far.apply(events.ToolCalled("add", {}, "pure"), "0#2")
    so_far.apply(events.ModelAsked("m", "", 0, [{"role": "user", "content": "é"}], {}), "0#3")
    so_far.apply(events.ModelAnswered("ok", {"role": "assistant"}, Usage(requests=1)), "0#3")
    so_far.apply(events.ChildStarted({"program": "dig", "brief": "b"}, 1, "c"), "0#4")
    so_far.apply(events.ChildFinished(Outcome(status="completed", duration_ms=3)), "0#4")
    so_far.apply(events.LimitHit("timeout_seconds", 1.5, "run", 1.75))
    so_far.apply(events.PatchMarked("p"))
    so_far.apply(events.RunFinished("timed_out", "limit", in_doubt=["0#2"]))
    return so_far.state()


def test_the_digest_is_the_same_for_ever() -> None:
    """A golden: it changes only together with `STATE_VERSION`, on no Python and no library."""
    assert STATE_VERSION == 1
    assert (
        state_digest(sample()) == "0b13911bb5e76616924ad6035cc8c7dadc5c93a8554734749d803a0c246cf6e7"
    )


@pytest.mark.parametrize("seed", ["0", pytest.param("4711", marks=pytest.mark.long)])
def test_the_digest_is_the_same_in_another_process(seed: str) -> None:
    """Neither the hash seed nor the time zone, the locale or the folder has a part in it."""
    code = (
        "import importlib.util as u; s = u.spec_from_file_location('t', __import__('sys').argv[1]);"
        "m = u.module_from_spec(s); s.loader.exec_module(m); print(m.state_digest(m.sample()))"
    )
    environment = os.environ | {"PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"}

    found = subprocess.run(
        [sys.executable, "-c", code, str(Path(__file__).resolve())],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )

    assert found.stdout.strip() == state_digest(sample())


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "other"},
        {"root_id": "other"},
        {"children": (ChildState("0#4", 1, "dig", brief="b", run_id="x", status="completed"),)},
        {"limit_hits": (LimitCount("timeout_seconds", "run", 1.5, 99.0, 1, 8),)},
        {"seal": Seal(("0#2",), "", "", "", "another root", None)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_differs_between_equal_runs_is_left_out(change: dict[str, Any]) -> None:
    """Ids, durations, clock readings and heads are shown, and not digested."""
    state = sample()
    other = attrs.evolve(state, **change)

    assert state_json(other) != state_json(state)
    assert state_digest(other) == state_digest(state)


@pytest.mark.parametrize("field", [field.name for field in attrs.fields(RunState)])
def test_every_other_field_is_in_the_digest(field: str) -> None:
    """A state cannot differ unnoticed."""
    state = sample()
    blank = attrs.evolve(state, **{field: getattr(DIFFERENT, field)})

    if field in {"run_id", "root_id", "state_version", "margin"}:
        assert state_digest(blank) == state_digest(state)
    else:
        assert state_digest(blank) != state_digest(state)


DIFFERENT = RunState(
    program="other",
    path="0#9",
    depth=7,
    limits=Limits(max_depth=3),
    status="completed",
    reason="done",
    entries=999,
    attempts=9,
    iterations=9,
    model_errors=9,
    usage=Usage(requests=9),
    children_usage=Usage(requests=9),
    children_started=9,
    tokens_reserved=9,
    notes=9,
    timers_fired=9,
    clock_reads=9,
    values_drawn=9,
    inputs_given=9,
    cancelled=9,
    cancel_asked=True,
    late=9,
    session_seq=9,
)


def test_the_json_is_canonical_and_sorted() -> None:
    shown = state_json(sample())

    assert list(shown) == sorted(shown)
    assert canonical.loads(canonical.encode(shown)) == shown
    assert shown["state_version"] == STATE_VERSION


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (5.0, 5),
        (0.5, 0.5),
        (1e15, 10**15),
        (1e16, "1e+16"),
        (1.5e300, "1.5e+300"),
        (1.5e-7, "1.5e-07"),
    ],
)
def test_numbers_are_written_the_same_by_every_version(seconds: float, shown: Any) -> None:
    """JSON libraries differ in the text of exponents, so no number needs one."""
    state = RunState(limits=Limits(timeout_seconds=seconds))

    written = state_json(state)["limits"]["timeout_seconds"]
    assert (written, type(written)) == (shown, type(shown))


@pytest.mark.parametrize("observed", [float("nan"), float("inf"), -0.0])
def test_even_a_number_that_no_log_holds_can_be_shown(observed: float) -> None:
    state = RunState(limit_hits=(LimitCount("l", "run", 1, observed, 1, 0),))

    assert canonical.encode(state_json(state))


def test_text_that_no_log_can_hold_has_no_digest() -> None:
    with pytest.raises(NotCanonical):
        state_digest(RunState(program="\ud800"))
