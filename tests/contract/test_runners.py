"""The contract of runners (CONTRACT.md §7): the same child, the same outcome, wherever it runs.

All that every root has are tested; a runner of one's own is put into `RUNNERS`, and has to pass.
"""

import datetime as dt
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest

from refold.engine.errors import ProgramNotFound, ToolRefused
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import STATUSES, Outcome
from refold.engine.log.names import child_path
from refold.engine.log.reader import read_entries
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import ChildRunner, Delegation, Policy, Reference, Tool
from refold.engine.program.run import Run
from refold.engine.runners import in_subprocess
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.runners.shipped import Runners
from refold.replay.audit.verify import verify
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import tool
from tests.support.child_programs import HERE, add, named, ponder
from tests.support.scripted_runners import Scripted, Unavailable

RUNNERS: Mapping[str, ChildRunner] = Runners()
TOOLS: list[Tool] = [add, ponder]


FAMILY: dict[str, Any] = {
    "works": {"x": 1},
    "plainly_works": 2,
    "nests": 2,
    "raises": 1,
    "reports": 1,
}
"""Children that many tests look at, by program; the numbers that they have are their places."""


_ALL = {
    name: pytest.param(name, marks=[pytest.mark.long] if name == "ray" else []) for name in RUNNERS
}
ONCE = pytest.mark.parametrize(
    "runner",
    [name if name == "in-process" else pytest.param(name, marks=pytest.mark.long) for name in _ALL],
    indirect=True,
)
"""A rule of the parent's, which its child has no part in: by default, in this process."""
_APART = [_ALL[name] for name, each in RUNNERS.items() if not getattr(each, "shares_memory", False)]


def _named(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name == "ray":
        request.getfixturevalue("ray_nodes")
    return name


@pytest.fixture(params=_ALL.values())
def runner(request: pytest.FixtureRequest) -> str:
    return _named(request)


@pytest.fixture(params=_APART)
def apart(request: pytest.FixtureRequest) -> str:
    """A runner whose children have processes of their own."""
    return _named(request)


@pytest.fixture
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a child take as long to begin as a busy machine lets it: its own clock ends it."""
    monkeypatch.setattr(in_subprocess, "_SLACK_SECONDS", 60.0)


@attrs.define
class Delegated:
    """What came of children that one root started."""

    recording: Recording
    outcomes: list[Outcome]

    @property
    def outcome(self) -> Outcome:
        return self.outcomes[0]


def delegated(
    tmp_path: Path, runner: str, *delegations: Delegation, replays: bool = True, **options: Any
) -> Delegated:
    """Record a root that joins children; verify all logs, and re-execute them."""
    outcomes: list[Outcome] = []

    async def root(run: Run, _input: Any) -> Any:
        children = [await run.start(one) for one in delegations]
        outcomes[:] = await run.join(*children)
        return [outcome.status for outcome in outcomes]

    given: dict[str, Any] = {
        "tools": TOOLS,
        "seed": 1,
        "runner": runner,
        "runners": RUNNERS,
    } | options
    log = tmp_path / f"{runner}.jsonl"
    recording = record(root, log=log, **given)
    recorded = list(outcomes)
    assert recording.ok, recording.error
    assert verify(log).intact
    if replays:
        report = reexecute(log, root, tools=TOOLS)
        assert report.identical, str(report)
        assert outcomes == recorded
    return Delegated(recording, recorded)


def child_of(name: str, value: Any = None, **options: Any) -> Delegation:
    return Delegation(program=named(name), input=value, brief=name, **options)


@pytest.fixture(scope="module")
def family_on(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Delegated]:
    """One root with all of `FAMILY` at once, recorded when asked for and once on each runner."""

    @functools.cache
    def recorded(runner: str) -> Delegated:
        children = [child_of(name, value) for name, value in FAMILY.items()]
        folder = tmp_path_factory.mktemp(runner)
        return delegated(
            folder, runner, *children, clock=FixedClock(dt.datetime(2026, 1, 31, tzinfo=dt.UTC))
        )

    return recorded


@pytest.fixture
def family(family_on: Callable[[str], Delegated], runner: str) -> Delegated:
    return family_on(runner)


def log_of(family: Delegated, name: str) -> Path:
    return child_path(family.recording.log, 1 + list(FAMILY).index(name))


def of(family: Delegated, name: str) -> Outcome:
    return family.outcomes[list(FAMILY).index(name)]


# --- what completes ----------------------------------------------------------------------------


def test_a_child_completes(family: Delegated) -> None:
    """Case 98: its output, the tools it used, and its own log, bound to the parent's."""
    outcome = of(family, "works")

    assert (outcome.status, outcome.error, outcome.truncated) == ("completed", None, None)
    assert outcome.output == {"input": {"x": 1}, "sum": [3, 0.001], "depth": 1}
    assert outcome.tools_used == ("add", "ponder")
    entries = list(read_entries(log_of(family, "works")))
    assert outcome.child is not None
    assert (outcome.child.head, outcome.child.events) == (entries[-1].hash, len(entries))


def test_a_child_is_bound_to_the_entry_that_started_it(family: Delegated) -> None:
    """Its first line names its parent's run, call and entry."""
    parent = list(read_entries(family.recording.log))
    starts = [entry for entry in parent if entry.kind == "child.started"]
    firsts = [next(read_entries(log_of(family, name))) for name in FAMILY]

    for started, first in zip(starts, firsts, strict=True):
        assert first.data["parent"] == {
            "run": parent[0].data["run_id"],
            "call": started.call,
            "hash": started.hash,
        }
        assert first.data["run_id"] == started.data["run_id"]


def test_a_report_hands_back_more_than_a_value(family: Delegated) -> None:
    """Summary, output and artifacts."""
    outcome = of(family, "reports")

    assert (outcome.summary, outcome.output) == ("in short", {"long": [1, 2]})
    assert [(one.kind, one.name, one.value) for one in outcome.artifacts] == [
        ("note", "n", "found")
    ]


def test_the_same_programs_have_one_data_digest(
    family_on: Callable[[str], Delegated], apart: str
) -> None:
    """Case 92: in process and elsewhere, under one seed and a fixed clock."""
    one, other = family_on("in-process"), family_on(apart)

    for name in FAMILY:
        digests = {
            list(read_entries(log_of(each, name)))[-1].data["data_digest"] for each in (one, other)
        }
        assert len(digests - {""}) == 1, name
    assert one.recording.data_digest == other.recording.data_digest != ""
    assert one.recording.tree_digest == other.recording.tree_digest != ""
    for each in (one, other):
        assert [outcome.duration_ms for outcome in each.outcomes] == [0] * len(FAMILY)


def test_children_nest(family: Delegated) -> None:
    """Grandchildren run on the same runner, and write logs of their own."""
    assert of(family, "nests").output == [1, "completed", [2, "completed", 3]]
    assert child_path(child_path(log_of(family, "nests"), 1), 1).exists()


def test_outcomes_come_in_the_order_asked(family: Delegated) -> None:
    """Whatever ended first."""
    assert of(family, "works").output["input"] == {"x": 1}
    assert of(family, "plainly_works").output[:2] == [2, 3]
    assert [outcome.ok for outcome in family.outcomes] == [True, True, True, False, True]


# --- what does not -----------------------------------------------------------------------------


def test_a_child_that_raises_has_failed(family: Delegated) -> None:
    """The error as data; what it did before counts."""
    outcome = of(family, "raises")

    assert outcome.status == "failed"
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("raised", "LookupError: nothing there")
    assert outcome.tools_used == ("add",)


@pytest.mark.parametrize("program", ["naps", "lingers"])
@pytest.mark.usefixtures("_patient")
def test_a_child_over_its_time_is_stopped(tmp_path: Path, runner: str, program: str) -> None:
    """Timed out; its log is sealed, for it yields."""
    limits = Limits(timeout_seconds=0.5)

    outcome = delegated(tmp_path, runner, child_of(program, limits=limits)).outcome

    assert outcome.status == "timed_out"
    assert outcome.error is not None
    assert outcome.error.code == "timeout_seconds"
    assert [*read_entries(tmp_path / f"{runner}.1.jsonl")][-1].kind == "run.finished"


@pytest.mark.usefixtures("_patient")
def test_a_child_may_clean_up_when_its_time_is_over(tmp_path: Path, runner: str) -> None:
    """Within the grace it may even call tools."""
    limits = Limits(timeout_seconds=0.5)

    outcome = delegated(tmp_path, runner, child_of("tidies", limits=limits)).outcome

    assert outcome.status == "timed_out"
    assert outcome.tools_used == ("add",)


@pytest.mark.long
@pytest.mark.parametrize("program", [pytest.param("swallows", marks=pytest.mark.long), "spins"])
def test_a_child_that_will_not_end_is_left_or_killed(
    tmp_path: Path, runner: str, program: str
) -> None:
    """In process abandoned, in a subprocess killed: timed out all the same, and in time."""
    if (runner, program) == ("in-process", "spins"):
        pytest.skip("its thread would spin for as long as the tests last")
    limits = Limits(timeout_seconds=0.3)

    outcome = delegated(
        tmp_path, runner, child_of(program, limits=limits), replays=program != "spins"
    ).outcome

    assert outcome.status == "timed_out"
    assert outcome.duration_ms < 60_000


def test_a_child_beyond_the_depth_is_never_started(tmp_path: Path, runner: str) -> None:
    """Rejected: no log, no run; the parent's log says why."""
    made = delegated(tmp_path, runner, child_of("works"), limits=Limits(max_depth=0))

    assert made.outcome.status == "rejected"
    assert made.outcome.error is not None
    assert made.outcome.error.code == "max_depth"
    assert made.outcome.child is None
    assert not (tmp_path / f"{runner}.1.jsonl").exists()


@ONCE
def test_a_grandchild_cannot_raise_the_depth(tmp_path: Path, runner: str) -> None:
    """`levels` counts below the caller, and only narrows."""
    outcome = delegated(tmp_path, runner, child_of("nests", 3, levels=2)).outcome

    assert outcome.output == [1, "completed", [2, "rejected", None]]


@ONCE
def test_a_long_summary_is_cut_where_a_character_ends(tmp_path: Path, runner: str) -> None:
    """Kept, seen, and the digest of all that was seen."""
    policy = Policy(summary_bytes=101)

    outcome = delegated(tmp_path, runner, child_of("says_much", 1000, policy=policy)).outcome

    assert outcome.status == "completed"
    assert outcome.summary == "é" * 50
    assert outcome.truncated is not None
    assert (outcome.truncated.kept_bytes, outcome.truncated.seen_bytes) == (100, 1000)


@ONCE
def test_an_output_over_the_childs_own_cap(tmp_path: Path, runner: str) -> None:
    """`limit`, and a `limit.hit` in the child's log."""
    limits = Limits(output_bytes=100)

    outcome = delegated(tmp_path, runner, child_of("says_much", 1000, limits=limits)).outcome

    assert (outcome.status, outcome.error and outcome.error.code) == ("limit", "output_bytes")
    hits = [e for e in read_entries(tmp_path / f"{runner}.1.jsonl") if e.kind == "limit.hit"]
    assert [hit.data["limit"] for hit in hits] == ["output_bytes"]


def test_a_reply_over_the_frame_cap(tmp_path: Path, runner: str) -> None:
    """`limit`, whatever the reply says."""
    policy = Policy(frame_bytes=500)

    outcome = delegated(tmp_path, runner, child_of("lists_much", 1000, policy=policy)).outcome

    assert (outcome.status, outcome.error and outcome.error.code) == ("limit", "frame_bytes")


@ONCE
def test_artifacts_beyond_the_policy_are_malformed(tmp_path: Path, runner: str) -> None:
    """A kind that the parent does not take, a value that is too long."""
    kinds = Policy(artifact_kinds=("diff",))
    sizes = Policy(artifact_bytes=2)
    children = [child_of("reports", policy=policy) for policy in (kinds, sizes)]

    outcomes = delegated(tmp_path, runner, *children).outcomes

    assert [outcome.status for outcome in outcomes] == ["malformed", "malformed"]


def test_a_program_that_cannot_be_found(tmp_path: Path, runner: str) -> None:
    """A typed error at the start, naming the program; nothing has been started."""

    async def root(run: Run, _input: Any) -> Any:
        with pytest.raises(ProgramNotFound, match="no_such_program"):
            await run.start(Delegation(program=Reference(HERE, "no_such_program")))
        with pytest.raises(ProgramNotFound, match=r"no\.such\.module"):
            await run.start(Delegation(program="no.such.module:program"))
        return (await run.delegate(child_of("nests", 0))).output

    recording = record(root, log=tmp_path / "a.jsonl", runner=runner)

    assert recording.output == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.1.jsonl", "a.jsonl"]


def test_a_child_that_is_cancelled_ends_as_cancelled(tmp_path: Path, runner: str) -> None:
    """The parent's doing; the child may clean up, and its log is sealed."""

    async def root(run: Run, _input: Any) -> Any:
        child = await run.start(child_of("naps"))
        await run.sleep(0.3)
        run.cancel(child)
        (outcome,) = await run.join(child)
        error = outcome.error
        return [outcome.status, error.code if error else "", error.message if error else ""]

    log = tmp_path / "a.jsonl"
    recording = record(root, log=log, tools=TOOLS, runner=runner)

    assert recording.output == ["cancelled", "cancelled", "cancelled by its parent"]
    assert verify(log).intact
    assert reexecute(log, root, tools=TOOLS).identical


def test_a_child_left_behind_is_cancelled_at_the_end(tmp_path: Path, runner: str) -> None:
    """A run ends when its children have: nothing runs on."""

    async def root(run: Run, _input: Any) -> Any:
        await run.start(child_of("naps"))

    log = tmp_path / "a.jsonl"
    recording = record(root, log=log, tools=TOOLS, runner=runner)

    assert recording.ok
    finished = [entry for entry in read_entries(log) if entry.kind == "child.finished"]
    assert [entry.data["outcome"]["status"] for entry in finished] == ["cancelled"]
    assert verify(log).intact
    assert reexecute(log, root, tools=TOOLS).identical


def test_every_outcome_has_the_one_shape(family: Delegated) -> None:
    """An error unless completed, a status of the closed set, a duration."""
    for outcome in family.outcomes:
        assert outcome.status in STATUSES
        assert (outcome.error is None) == outcome.ok
        assert outcome.duration_ms >= 0
        assert outcome.child is not None


# --- processes of their own ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_a_child_that_crashes_takes_only_itself(tmp_path: Path, apart: str, how: str) -> None:
    """Case 94: failed as `crashed`; what it had written is its record, and its head is anchored."""
    made = delegated(tmp_path, apart, child_of("dies", how), replays=False)

    assert made.outcome.status == "failed"
    assert made.outcome.error is not None
    assert made.outcome.error.code == "crashed"
    kinds = [entry.kind for entry in read_entries(tmp_path / f"{apart}.1.jsonl")]
    assert kinds == ["run.started", "tool.called", "tool.returned"]
    assert made.outcome.child is not None
    assert made.outcome.child.events == 3


def test_a_child_that_prints_too_much_is_stopped(tmp_path: Path, apart: str) -> None:
    """Case 95: `limit`: printing cannot break the protocol, nor fill the parent's memory."""
    policy = Policy(stream_bytes=1000)
    child = child_of("prints_much", 5_000_000, policy=policy)

    outcome = delegated(tmp_path, apart, child, replays=False).outcome

    assert outcome.status == "limit"
    assert outcome.error is not None
    assert outcome.error.code == "stream_bytes"
    assert outcome.truncated is not None
    assert outcome.truncated.kept_bytes <= 1000 < outcome.truncated.seen_bytes


def test_a_child_may_print_what_it_likes(tmp_path: Path, apart: str) -> None:
    """Case 95: within the cap, output on standard output is no reply."""
    assert delegated(tmp_path, apart, child_of("prints_much", 500), replays=False).outcome.ok


def test_what_no_other_process_can_import_is_refused_at_the_start(
    tmp_path: Path, apart: str
) -> None:
    """A nested function, a tool defined in a test: a typed failure, and no process."""

    async def nested(_run: Run, _input: Any) -> None:
        """Be unreachable."""

    @tool(effect="pure")
    def local() -> int:
        return 1

    one = delegated(tmp_path, apart, Delegation(program=nested), replays=False)
    assert one.outcome.error is not None
    assert one.outcome.error.code == "ProgramNotFound"
    (tmp_path / "b").mkdir()
    two = delegated(tmp_path / "b", apart, child_of("works"), replays=False, tools=[*TOOLS, local])
    assert two.outcome.error is not None
    assert two.outcome.error.code == ToolRefused.__name__


_PARENT = """
import sys
from refold.engine.ports.ports import Delegation
from refold.engine.ports.ports import Reference
from refold.engine.runners.recording import record

async def root(run, input):
    program = Reference(input["file"], "shows_pid")
    await run.delegate(Delegation(program=program, input=input["pid"]))

record(root, {"file": sys.argv[1], "pid": sys.argv[2]}, log=sys.argv[3], runner=sys.argv[4])
"""


def test_a_child_leaves_when_its_parent_is_killed(tmp_path: Path, apart: str) -> None:
    """Case 96: without anybody there to tell it; on a machine that is not busy, in two seconds."""
    fifo = tmp_path / "pid"
    os.mkfifo(fifo)
    argv = [sys.executable, "-c", _PARENT, HERE, str(fifo), str(tmp_path / "a.jsonl"), apart]
    with subprocess.Popen(argv) as parent:
        child = psutil.Process(int(fifo.read_text()))
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()

        gone, _alive = psutil.wait_procs([child], timeout=60)

    assert gone or child.status() == psutil.STATUS_ZOMBIE


# --- runners for tests -------------------------------------------------------------------------


def test_a_scripted_runner_answers_by_brief(tmp_path: Path) -> None:
    """A raw frame is parsed and capped as a real one; an outcome is taken as it is."""
    scripted = Scripted(
        {
            "good": b'{"status": "completed", "summary": "fine", "output": [1]}',
            "bad": b'{"status": "perhaps"}',
            "cut": b'{"status": "comp',
            "*": Outcome(status="completed", summary="any"),
        }
    )
    children = [Delegation(program="agent", brief=brief) for brief in ("good", "bad", "cut", "?")]

    made = delegated(tmp_path, "scripted", *children, replays=False, runners={"scripted": scripted})

    assert [outcome.status for outcome in made.outcomes] == [
        "completed",
        "malformed",
        "malformed",
        "completed",
    ]
    assert sorted(request.brief for request in scripted.requests) == ["?", "bad", "cut", "good"]


def test_an_unavailable_runner_is_a_failure_that_says_so(tmp_path: Path) -> None:
    """As data: a machine that cannot start children does not end the parent."""
    made = delegated(
        tmp_path, "none", child_of("works"), replays=False, runners={"none": Unavailable("no room")}
    )

    assert made.outcome.error is not None
    assert (made.outcome.status, made.outcome.error.code) == ("failed", "runner_unavailable")
    assert made.outcome.error.message == "no room"


class Broken:
    """A runner that does what none may do."""

    name = "broken"

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def run(self, _request: Any, /) -> Outcome:
        raise self._error


@pytest.mark.parametrize("error", [RuntimeError("oops"), SystemExit(1)])
def test_a_runner_that_raises_is_recorded_all_the_same(
    tmp_path: Path, error: BaseException
) -> None:
    """Or it could not be replayed, and the parent would wait for ever."""
    made = delegated(
        tmp_path, "broken", child_of("works"), replays=False, runners={"broken": Broken(error)}
    )

    assert made.outcome.error is not None
    assert (made.outcome.status, made.outcome.error.code) == ("failed", "runner")


def test_no_thread_of_a_child_is_left(tmp_path: Path) -> None:
    """What a run started is over when it is."""
    before = set(threading.enumerate())
    delegated(tmp_path, "in-process", child_of("works"), child_of("raises"))

    left = [thread for thread in set(threading.enumerate()) - before if "run" in thread.name]
    for thread in left:
        thread.join(60)
    assert not [thread for thread in left if thread.is_alive()]
