"""Re-executing a run against its log, and its children against theirs (CONTRACT.md §12)."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.errors import LogMissing, ProgramNotFound, SessionNeeded, ToolError, ToolNeeded
from refold.engine.events.limits import Limits
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import FunctionModel
from refold.engine.ports.ports import Delegation, ModelReply, ModelRequest
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.engine.session import Session
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.run.opened_run import delegation_tree
from refold.tools.contract.tool_types import tool
from tests.support.interrupted import sees_late
from tests.support.loops import for_each
from tests.support.steps import Step, program_of, recorded

A: Step = ("tool", "search", {"q": "a"})
B: Step = ("tool", "fetch", {"q": "b"})
NAP: Step = ("sleep", 0.001)
EVERYTHING: list[Step] = [
    A,
    ("uuid",),
    ("now",),
    ("both", [B, NAP, A], [("note", "n"), A], [("model", "hi"), ("child", [A, ("child", [B])])]),
    ("start", [A]),
    ("await",),
    NAP,
]


def test_an_unchanged_program_is_identical(tmp_path: Path) -> None:
    """Case 1: every entry of every log is compared; no tool is called."""
    recording = recorded(tmp_path / "a.jsonl", *EVERYTHING)

    report = reexecute(recording.log, program_of(*EVERYTHING))

    assert report.identical
    assert report.children == 2
    logs = [tmp_path / name for name in ("a.jsonl", "a.1.jsonl", "a.1.1.jsonl")]
    assert report.entries == sum(len(list(read_entries(log))) for log in logs)
    assert (report.tools_executed, report.ends_early) == (0, ())
    assert f"identical: {report.entries} entries, 2 child runs" in str(report)
    report.check()


def test_what_stands_behind_the_end_is_told(tmp_path: Path) -> None:
    """§12.2: no run wrote it, and `identical` alone would say that all of the file is so."""
    recording = recorded(tmp_path / "a.jsonl", A, ("child", [B]))
    for log in (tmp_path / "a.jsonl", tmp_path / "a.1.jsonl"):
        with log.open("ab") as file:
            file.write(b"more")

    report = reexecute(recording.log, program_of(A, ("child", [B])))

    assert report.identical
    assert report.not_compared == (
        "the bytes after the end of a.jsonl",
        "the bytes after the end of a.1.jsonl",
    )
    assert "after the end of a.jsonl" in str(report)


def test_a_childs_log_that_is_no_file_is_damage(tmp_path: Path) -> None:
    """Who called did nothing wrong; `verify` says the same."""
    recording = recorded(tmp_path / "a.jsonl", A, ("child", [B]))
    (tmp_path / "a.1.jsonl").unlink()
    (tmp_path / "a.1.jsonl").mkdir()

    (found,) = reexecute(recording.log, program_of(A, ("child", [B]))).divergences

    assert (found.category, found.where) == ("log_damaged", "stepwise > stepwise[1]")
    assert "not a plain file" in str(found)


def test_a_childs_log_that_was_exchanged_is_damage(tmp_path: Path) -> None:
    """Both sides are told: what the parent's log names, and what the file has."""
    steps: list[Step] = [A, ("child", [B])]
    log = recorded(tmp_path / "a.jsonl", *steps).log
    other = recorded(tmp_path / "b.jsonl", *steps).log.with_name("b.1.jsonl")
    (tmp_path / "a.1.jsonl").write_bytes(other.read_bytes())

    (found,) = reexecute(log, program_of(*steps)).divergences

    heads = [
        delegation_tree(one).children[0].head[:16] for one in (log, other.with_name("b.jsonl"))
    ]
    assert (found.category, found.where) == ("log_damaged", "stepwise > stepwise[1]")
    assert heads[0] == heads[1]
    assert found.now.endswith(f"entries, head {heads[1]}")


def test_a_child_that_was_killed_at_once_is_not_compared(tmp_path: Path) -> None:
    """It left no whole line; with one it is."""
    steps: list[Step] = [("child", [B])]
    log, child = recorded(tmp_path / "a.jsonl", *steps).log, tmp_path / "a.1.jsonl"
    first = child.read_bytes().splitlines(keepends=True)[0]
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))

    found = {}
    for kept in (first, first[:9], b""):
        child.write_bytes(kept)
        report = reexecute(log, program_of(*steps))
        assert report.identical
        found[kept] = report.not_compared

    said = ("stepwise > stepwise[1], which left no log",)
    assert found == {first: (), first[:9]: said, b"": said}


def test_a_session_that_the_run_had_has_to_be_passed(tmp_path: Path) -> None:
    """What the program reads of it is not in the log alone."""

    async def program(run: Run, _input: Any) -> int:
        return len(run.session.select_all(str))

    recording = record(program, log=tmp_path / "a.jsonl", session=Session())

    with pytest.raises(SessionNeeded, match="had a session"):
        reexecute(recording.log, program)
    assert reexecute(recording.log, program, session=Session()).identical


def test_a_session_that_the_run_did_not_have_is_a_difference(tmp_path: Path) -> None:
    """It was not seeded then: a divergence, whatever the record has there."""

    def program(_run: PlainRun, _input: Any) -> None:
        return None

    recording = record(program, log=tmp_path / "a.jsonl")

    assert not reexecute(recording.log, program, session=Session()).identical


@attrs.frozen
class Seen:
    what: str


def _seeing() -> Session:
    session = Session()
    session.register(Seen)
    return session


def test_the_session_that_a_child_is_given_is_compared(tmp_path: Path) -> None:
    """The parent's log does not have it, and the child was given the recorded one."""

    async def child(_run: Run, _input: Any) -> None:
        return None

    async def program(run: Run, _input: Any) -> None:
        run.session.dispatch(Seen("smoke"))
        session = {"a clone": run.session.clone, "a new one": _seeing, "none": lambda: None}[
            given
        ]()
        await run.delegate(Delegation(program=child, session=session))
        if session is not None:
            session.dispatch(Seen("later"))

    names = {"a new one": "args_changed", "none": "missing_call"}
    given = "a clone"
    recording = record(program, log=tmp_path / "a.jsonl", session=_seeing())
    assert reexecute(recording.log, program, session=_seeing()).identical
    for given, name in names.items():  # noqa: B007 - the program reads it
        (found,) = reexecute(recording.log, program, session=_seeing()).divergences
        assert (found.category, found.where) == (name, "program > child[1]")
        assert "different session" in found.cause
    given = "none"
    recording = record(program, log=tmp_path / "b.jsonl", session=_seeing())
    given = "a clone"
    (found,) = reexecute(recording.log, program, session=_seeing()).divergences
    assert found.category == "extra_call"


def test_the_tools_that_a_child_is_given_are_compared(tmp_path: Path) -> None:
    """The parent's log names only those that it chose among its own."""
    own, helper = [True], recorded_tool

    async def child(run: Run, _input: Any) -> list[str]:
        return await run.tool("recorded_tool", x=[each.name for each in run.tools])  # type: ignore[no-any-return]

    async def program(run: Run, _input: Any) -> None:
        await run.delegate(Delegation(program=child, own_tools=(helper,) if own[0] else ()))

    recording = record(program, log=tmp_path / "a.jsonl")
    assert reexecute(recording.log, program).identical
    own[0] = False
    (found,) = reexecute(recording.log, program).divergences

    assert (found.category, found.where) == ("args_changed", "program > child[1]")
    assert [str(each) for each in found.diff] == ['/tools/0: removed "recorded_tool"']


@tool(effect="pure")
def recorded_tool(x: list[str]) -> list[str]:
    return x


def test_a_child_changes_a_copy_of_the_session_that_it_is_given(tmp_path: Path) -> None:
    """What a child changes would reach its parent at no place that a log has."""

    async def child(run: Run, what: str) -> None:
        run.session.dispatch(Seen(what))

    async def program(run: Run, _input: Any) -> list[str]:
        session, read = _seeing(), list[str]()
        for what in ("a", "b"):
            await run.delegate(Delegation(program=child, input=what, session=session))
            read += [each.what for each in session.select_all(Seen)]
            session.dispatch(Seen(f"after {what}"))
        return read

    recording = record(program, log=tmp_path / "a.jsonl")
    assert recording.output == ["after a"]
    assert reexecute(recording.log, program).identical


def test_a_secret_in_a_session_is_no_difference(tmp_path: Path) -> None:
    """The log has a marker for it; the digest at the end is of the text."""
    key = "sk-0123456789abcdef"

    async def child(run: Run, _input: Any) -> None:
        run.session.dispatch(Seen("by a child"))

    async def program(run: Run, _input: Any) -> None:
        run.session.dispatch(Seen(f"use {key}"))
        await run.delegate(Delegation(program=child, session=run.session.clone()))

    def given() -> Session:
        session = _seeing()
        session.dispatch(Seen(f"first {key}"))
        return session

    for at, session in enumerate((_seeing(), given())):
        log = tmp_path / f"{at}.jsonl"
        record(program, log=log, session=session, secrets={"KEY": key})
        report = reexecute(log, program, session=_seeing())
        assert report.identical, report
        left = {one.pointer for one in report.ignored} - {"/data/what"}
        assert any(pointer.startswith("/snapshot/") for pointer in left)
        assert ("/session_digest" in left) is bool(at)


def test_one_log_may_be_reexecuted_many_times(tmp_path: Path) -> None:
    """Case 103: replay leaves nothing behind, in the folder or in the process."""
    log = recorded(tmp_path / "a.jsonl", *EVERYTHING).log
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    assert all(reexecute(log, program_of(*EVERYTHING)).identical for _ in range(5))

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_nothing_is_executed_but_the_program(tmp_path: Path) -> None:
    """Case 9: tools are called and models asked once, when recording; replay counts none."""
    calls: list[str] = []

    @tool(effect="changes")
    def act(x: int) -> int:
        calls.append("tool")
        return x

    @tool(effect="reads")
    async def look(x: int) -> int:
        calls.append("async tool")
        return x

    def answer(request: ModelRequest) -> ModelReply:
        calls.append("model")
        return ModelReply(message={"role": "assistant", "content": f"{len(request.messages)}"})

    async def program(run: Run, _input: Any) -> Any:
        reply = await run.model([{"role": "user", "content": "hi"}])
        return [await run.tool(act, x=1), await run.tool(look, x=2), reply.message]

    model = FunctionModel(answer)
    log = record(program, log=tmp_path / "a.jsonl", model=model, tools=[act, look]).log
    assert sorted(calls) == ["async tool", "model", "tool"]

    report = reexecute(log, program, tools=[act, look])

    assert report.identical
    assert len(calls) == 3


def prefix(log: Path, lines: int) -> Path:
    """Return the log of a run that was killed after so many lines."""
    cut = log.with_name(f"cut-{lines}.jsonl")
    cut.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:lines]))
    return cut


def test_a_log_cut_at_each_line_matches_to_its_end(tmp_path: Path) -> None:
    """Cases 2, 22: a record may stop anywhere; stopping there is what it says, no difference."""
    steps = [A, ("uuid",), ("now",), ("both", [B, NAP], [A, ("note", "n")]), ("model", "m"), NAP]
    log = recorded(tmp_path / "a.jsonl", *steps).log
    whole = len(list(read_entries(log)))

    for lines in range(1, whole):
        report = reexecute(prefix(log, lines), program_of(*steps))

        assert report.identical, f"cut after {lines}: {report}"
        assert report.ends_early == (f"cut-{lines}.jsonl",)
        assert report.entries == lines


def test_a_cut_log_of_a_plain_program_matches_too(tmp_path: Path) -> None:
    """A plain program stops inside its call where the record ends."""

    def program(run: PlainRun, _input: Any) -> Any:
        first = run.tool("search", q="a")
        run.sleep(0.001)
        return [first, run.now().isoformat(), run.tool("fetch", q="b")]

    log = recorded(tmp_path / "a.jsonl", program=program).log

    for lines in range(1, len(list(read_entries(log)))):
        report = reexecute(prefix(log, lines), program)

        assert report.identical, f"cut after {lines}: {report}"
        assert report.entries == lines


def test_a_changed_program_differs_from_a_cut_log(tmp_path: Path) -> None:
    """That a record is unfinished excuses nothing before its end."""
    log = prefix(recorded(tmp_path / "a.jsonl", A, B, A).log, 4)

    assert reexecute(log, program_of(A, A)).divergences[0].category == "name_changed"
    assert reexecute(log, program_of(A)).divergences[0].category == "unconsumed"


def test_a_change_in_a_grandchild_is_found_in_its_own_log(tmp_path: Path) -> None:
    """The place names the runs from the root down; the parents themselves match."""
    before = [("child", [("child", [A, ("return", 1)]), ("return", 2)])]
    after = [("child", [("child", [B, ("return", 1)]), ("return", 2)])]
    log = recorded(tmp_path / "a.jsonl", *before).log

    (found,) = reexecute(log, program_of(*after)).divergences

    assert found.category == "name_changed"
    assert found.where == "stepwise > stepwise[1] > stepwise[1] > fetch#1"
    assert found.log == str(tmp_path / "a.1.1.jsonl")


def test_each_run_that_differs_is_reported_in_the_order_of_time(tmp_path: Path) -> None:
    """A child's difference does not hide its parent's, nor a sibling's."""
    before = [("child", [A]), ("child", [B]), ("child", [A]), A]
    after = [("child", [B]), ("child", [B]), ("child", [A, A]), B]
    log = recorded(tmp_path / "a.jsonl", *before).log

    found = reexecute(log, program_of(*after)).divergences

    assert [(one.category, Path(one.log).name) for one in found] == [
        ("name_changed", "a.1.jsonl"),
        ("extra_call", "a.3.jsonl"),
        ("name_changed", "a.jsonl"),
    ]


@pytest.mark.parametrize("count", [9, pytest.param(90, marks=pytest.mark.long)])
def test_equal_leaves_are_one_cause_and_others_have_their_own(tmp_path: Path, count: int) -> None:
    """A run that differs in another way never stands below the heading of equal ones."""
    equal = [("child", [A]) for _ in range(count)]
    mixed = [*equal, ("child", [B]), ("child", [A, A]), ("child", [B, A])]
    same = recorded(tmp_path / "a.jsonl", *equal).log
    other = recorded(tmp_path / "b.jsonl", *mixed).log
    now = [("child", [B]) for _ in range(count)]

    (one,) = reexecute(same, program_of(*now)).causes
    found = reexecute(
        other, program_of(*now, ("child", [A]), ("child", [A, A, A]), ("child", [B]))
    ).causes

    assert (len(one.leaves), one.where) == (count, "stepwise > stepwise[1] > fetch#1")
    assert [len(each.leaves) for each in found] == [count, 1, 1, 1]


def test_a_childs_log_can_be_replayed_alone(tmp_path: Path) -> None:
    """A child is a run like any other."""
    recorded(tmp_path / "a.jsonl", ("child", [A, B]))

    assert reexecute(tmp_path / "a.1.jsonl", program_of(A, B)).identical
    assert not reexecute(tmp_path / "a.1.jsonl", program_of(B, A)).identical


@attrs.frozen
class Point:
    x: int


def test_typed_results_of_tools_called_by_name(tmp_path: Path) -> None:
    """The types are not in the log: replay asks for the tool by name, and never runs it."""
    calls = []

    @tool(effect="pure")
    def point(x: int) -> Point:
        calls.append(x)
        return Point(x)

    async def program(run: Run, _input: Any) -> Any:
        return (await run.tool("point", x=3)).x

    log = record(program, log=tmp_path / "a.jsonl", tools=[point]).log

    with pytest.raises(ToolNeeded, match="tools="):
        reexecute(log, program)
    assert reexecute(log, program, tools=[point]).identical
    assert calls == [3]


def test_a_swallowed_need_of_a_tool_is_raised_all_the_same(tmp_path: Path) -> None:
    """A program that catches everything cannot turn a missing tool into another behaviour.

    Nor in the last call of a plain one, after which nothing is pumped.
    """

    @tool(effect="pure")
    def point(x: int) -> Point:
        return Point(x)

    async def waits(run: Run, _input: Any) -> Any:
        try:
            return (await run.tool("point", x=3)).x
        except Exception:  # noqa: BLE001 - as careless as programs are
            return 3

    def plain(run: PlainRun, _input: Any) -> Any:
        try:
            return run.tool("point", x=3).x
        except Exception:  # noqa: BLE001 - as careless as programs are
            return 3

    programs: list[Any] = [waits, plain]
    for number, program in enumerate(programs):
        log = record(program, log=tmp_path / f"{number}.jsonl", tools=[point]).log

        with pytest.raises(ToolNeeded):
            reexecute(log, program)


def test_a_swallowed_divergence_is_reported_all_the_same(tmp_path: Path) -> None:
    """The verdict stands, whatever the program makes of what it is answered then."""
    log = recorded(tmp_path / "a.jsonl", A, ("return", 1)).log

    async def careless(run: Run, _input: Any) -> Any:
        try:
            await run.tool("fetch", q="a")
        except BaseException:  # noqa: BLE001 - as careless as programs are
            return 1
        return 1

    assert reexecute(log, careless).divergences[0].category == "name_changed"


async def fails(run: Run, _input: Any) -> Any:
    await run.tool("search", q="a")
    raise KeyError("gone")


async def naps_for_ever(run: Run, _input: Any) -> Any:
    while True:
        await run.sleep(0.01)


async def waits_for_nothing(run: Run, _input: Any) -> Any:
    await run.tool("search", q="a")
    await asyncio.Event().wait()


async def says_too_much(_run: Run, _input: Any) -> Any:
    return "x" * 100


@for_each(
    "program, limits, status",
    [
        (fails, Limits(), "failed"),
        (naps_for_ever, Limits(timeout_seconds=0.05), "timed_out"),
        (waits_for_nothing, Limits(), "failed"),
        (says_too_much, Limits(output_bytes=10), "limit"),
    ],
)
def test_runs_that_ended_badly_are_reexecuted_like_any(
    tmp_path: Path, program: Any, limits: Limits, status: str
) -> None:
    """Cases 3, 23: an ending is compared like all else: failed, timed out, stuck, over a limit."""
    recording = recorded(tmp_path / "a.jsonl", program=program, limits=limits)
    assert recording.status == status

    assert reexecute(recording.log, program).identical


def test_a_child_that_timed_out_is_reexecuted(tmp_path: Path) -> None:
    """Timed out is recorded, never recomputed."""

    async def parent(run: Run, _input: Any) -> Any:
        limits = Limits(timeout_seconds=0.05)
        outcome = await run.delegate(Delegation(program=naps_for_ever, limits=limits))
        return outcome.status

    recording = recorded(tmp_path / "a.jsonl", program=parent)
    assert recording.output == "timed_out"

    report = reexecute(recording.log, parent)

    assert report.identical
    assert report.children == 1


def test_late_results_are_passed_over(tmp_path: Path) -> None:
    """What came after the program had given it up changed nothing then, and nothing now."""
    gate, begun = threading.Event(), threading.Event()

    @tool(effect="reads")
    def slow(x: int) -> int:
        begun.set()
        gate.wait(60)
        return x

    @tool(effect="reads")
    def sees_begun() -> None:
        begun.wait(60)

    @tool(effect="pure")
    async def opens() -> None:
        gate.set()

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(run.tool(slow, x=1))
        await asyncio.sleep(0)
        await run.tool(sees_begun)
        task.cancel()
        await asyncio.wait([task])
        await run.tool(opens)
        async with asyncio.timeout(600):
            await run.tool(sees_late, log=str(tmp_path / "a.jsonl"))
        return await run.tool("search", q="after")

    recording = recorded(tmp_path / "a.jsonl", program=program)
    kinds = [entry.kind for entry in read_entries(recording.log)]
    assert "effect.late" in kinds

    assert reexecute(recording.log, program).identical


def test_large_values_are_compared_through_their_blobs(tmp_path: Path) -> None:
    """Arguments and results over 32 KiB lie beside the log; one that is gone is damage."""
    big = "x" * 40_000
    steps = [("tool", "search", {"q": big}), ("return", big)]
    log = recorded(tmp_path / "a.jsonl", *steps).log

    assert reexecute(log, program_of(*steps)).identical
    other = [("tool", "search", {"q": big + "y"}), ("return", big)]
    assert reexecute(log, program_of(*other)).divergences[0].category == "args_changed"
    assert reexecute(log, program_of(A, *steps)).divergences[0].category == "extra_call"
    for blob in [path for path in blobs_of(log).rglob("*") if path.is_file()]:
        blob.unlink()
    assert reexecute(log, program_of(*steps)).divergences[0].category == "log_damaged"


def test_what_looks_like_a_marker_is_compared_as_it_is(tmp_path: Path) -> None:
    """Members that begin with a dollar are the user's own, in arguments and in the output."""
    steps: list[Step] = [("note", "n"), ("return", {"$blob": "mine", "$esc": [{"$x": 1}]})]
    log = recorded(tmp_path / "a.jsonl", *steps).log

    assert reexecute(log, program_of(*steps)).identical
    other = [("note", "n"), ("return", {"$blob": "mine", "$esc": [{"$x": 2}]})]
    (found,) = reexecute(log, program_of(*other)).divergences
    assert [one.pointer for one in found.diff] == ["/output/$esc/0/$x"]


def test_failures_of_tools_are_served_as_they_were(tmp_path: Path) -> None:
    """Case 91: a `ToolError` keeps its code, its message and the name of the class behind it."""

    @tool(effect="pure")
    def breaks(x: int) -> int:
        raise LookupError(f"no {x}")

    seen = []

    async def program(run: Run, _input: Any) -> Any:
        try:
            await run.tool("breaks", x=1)
        except ToolError as error:
            seen.append((error.tool, error.code, error.message, error.error_type))

    log = record(program, log=tmp_path / "a.jsonl", tools=[breaks]).log
    assert reexecute(log, program).identical

    assert seen == [("breaks", "raised", "no 1", "LookupError")] * 2


def test_in_a_running_loop_like_a_notebook(tmp_path: Path) -> None:
    """Plain calls work where a loop runs already: the kernel takes a thread of its own."""

    async def cell() -> bool:
        log = recorded(tmp_path / "a.jsonl", A, B).log
        return reexecute(log, program_of(A, B)).identical

    assert asyncio.run(cell())


def test_who_replays_names_the_program(tmp_path: Path) -> None:
    """A log never says what code to import."""
    log = recorded(tmp_path / "a.jsonl", A).log

    with pytest.raises(ProgramNotFound, match="--program"):
        reexecute(log)
    with pytest.raises(LogMissing):
        reexecute(tmp_path / "none.jsonl", program_of(A))


async def calls_by_reference(run: Run, _input: Any) -> Any:
    return await run.tool("search", q="a")


@pytest.mark.long
def test_a_program_may_be_named_by_its_file(tmp_path: Path) -> None:
    """`file.py:name`, as on the command line; an unfinished log goes to a process of its own."""
    log = recorded(tmp_path / "a.jsonl", program=calls_by_reference).log
    named = f"{__file__}:calls_by_reference"

    assert reexecute(log, named).identical
    report = reexecute(prefix(log, 2), named)
    assert report.identical
    assert report.ends_early == ("cut-2.jsonl",)
