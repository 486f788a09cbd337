"""What if a result had been different?  The rules are CONTRACT.md §12.11."""

import asyncio
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import refold
from refold.engine.encoding.canonical import Json
from refold.engine.errors import (
    Diverged,
    EntryMissing,
    ForkRefused,
    LogExists,
    LogLocked,
    LogNameRefused,
    NotCanonical,
    UsageError,
)
from refold.engine.events.events import RunStarted
from refold.engine.log.names import tree
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.models import FunctionModel, ScriptedModel
from refold.engine.runners.recorded import Recording
from refold.replay.partial.sources import Sources
from refold.replay.resume.fork import Fork
from refold.tools.delegation.subagent import SubagentOptions, subagent_tool
from tests.support.forks import TOOLS, factor, get, kept, model, reader, report
from tests.support.loops import some
from tests.support.scripted_runners import Unavailable

pytestmark = pytest.mark.usefixtures("as_it_was")

LIVE = Sources(model="live", tools="live", children="live", may_change=True)


@pytest.fixture
def origin(tmp_path: Path) -> Recording:
    """A recorded run with a child and a grandchild."""
    return refold.record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model())


def bytes_of(log: Path) -> dict[str, bytes]:
    """Return the files of a tree."""
    return {path.name: path.read_bytes() for path in tree(log)}


def check(forked: Fork, origin: Recording) -> None:
    """A fork that changes nothing does what its origin did, and holds as a log."""
    assert forked.recording is not None, forked.missing
    assert forked.recording.output == origin.output
    assert forked.recording.data_digest == origin.data_digest
    assert forked.recording.tree_digest == origin.tree_digest != ""
    verified = refold.verify(forked.log)
    assert verified.intact, verified
    assert verified.complete, verified
    assert len(verified.logs) == len(refold.verify(origin.log).logs), "children come along"
    replayed = refold.reexecute(forked.log, report)
    assert replayed.identical, replayed


@pytest.mark.parametrize("sources", some(1, [None, LIVE]))
def test_a_fork_at_every_entry_does_what_its_origin_did(
    tmp_path: Path, origin: Recording, sources: Sources | None
) -> None:
    """Case 78: at each entry, with all recorded and with all live; the origin's bytes stay."""
    before = bytes_of(origin.log)

    for at in range(origin.entries):
        into = tmp_path / f"at-{at}x.jsonl"
        forked = refold.fork(
            origin, at, report, into=into, sources=sources, tools=TOOLS, model=model()
        )
        check(forked, origin)

    assert bytes_of(origin.log) == before


@pytest.mark.parametrize("level", ["a.1.jsonl", "a.1.1.jsonl"])
def test_a_fork_inside_children(tmp_path: Path, origin: Recording, level: str) -> None:
    """Cases 74, 75: at each entry of a child and of its child; what stands above is joined anew."""
    log = tmp_path / level
    entries = len(list(read_entries(log)))

    for at in range(entries):
        into = tmp_path / f"in-{at}x.jsonl"
        check(refold.fork(log, at, report, into=into), origin)


def test_what_a_child_is_edited_to_say_is_its_summary_too(tmp_path: Path) -> None:
    """Which delegation tools tell a model: that of a child which returns the value itself."""

    async def sums_up(run: refold.Run, _input: Any) -> Any:
        outcome = await run.delegate(refold.Delegation(program=reader, input="k"))
        return [outcome.output, outcome.summary]

    origin = refold.record(sums_up, log=tmp_path / "a.jsonl", tools=TOOLS)
    for number, (value, summary) in enumerate([("words", "words"), ([1], "[1]"), (None, "")]):
        into = tmp_path / f"b{number}x.jsonl"
        forked = refold.fork(origin, None, sums_up, into=into, edits={"0#1": value}, tools=TOOLS)

        assert forked.recording is not None
        assert forked.recording.output == [value, summary]


def test_a_child_without_a_log_has_none_in_a_fork(tmp_path: Path) -> None:
    """Its outcome is served as it was: it never began."""

    async def lonely(run: refold.Run, _input: Any) -> Any:
        given = refold.Delegation(program=reader, input="k", runner="absent")
        return (await run.delegate(given)).status

    runners: Any = {"absent": Unavailable()}
    origin = refold.record(lonely, log=tmp_path / "a.jsonl", tools=TOOLS, runners=runners)

    forked = refold.fork(origin, 0, lonely, into=tmp_path / "b.jsonl", tools=TOOLS)

    assert forked.recording is not None
    assert forked.recording.output == origin.output == "failed"
    assert len(refold.verify(forked.log).logs) == 1


def test_a_fork_at_the_last_entry_is_a_copy(tmp_path: Path, origin: Recording) -> None:
    """Case 69: nothing is left to do, and nothing is executed."""
    forked = refold.fork(origin, -1, report, into=tmp_path / "b.jsonl", sources=LIVE, tools=TOOLS,
                         model=model())  # fmt: skip

    assert kept == [3]
    assert len(list(read_entries(forked.log))) == origin.entries
    check(forked, origin)


@pytest.mark.parametrize(
    ("key", "value", "output"),
    [
        ("0#3", 99, [1, 2, "three", [3, 6], 99]),
        ("0/2#1", 20, [1, 20, "three", [3, 6], 21]),
        ("0#1", "four", [1, 2, "four", [3, 6], 3]),
        ("0#1", {"role": "assistant", "content": "five"}, [1, 2, "five", [3, 6], 3]),
        ("0#2", [0, 0], [1, 2, "three", [0, 0], 3]),
        ("0#2", {"output": "x", "summary": "s"}, [1, 2, "three", "x", 3]),
        ("0#2 > 0#1", 30, [1, 2, "three", [30, 6], 3]),
        ("0#2 > 0#2 > 0#1", 60, [1, 2, "three", [3, 60], 3]),
    ],
)
def test_an_edited_outcome_changes_what_follows(
    tmp_path: Path, origin: Recording, key: str, value: Json, output: Json
) -> None:
    """Case 70: of a tool, a model, a child, and of what a child and its child asked."""
    before = bytes_of(origin.log)

    forked = refold.fork(
        origin, None, report, into=tmp_path / "b.jsonl", edits={key: value}, sources=LIVE,
        tools=TOOLS, model=model(),
    )  # fmt: skip

    assert forked.recording is not None
    assert forked.recording.output == output
    assert bytes_of(origin.log) == before
    assert refold.verify(forked.log).intact
    assert refold.reexecute(forked.log, report).identical


def test_a_tool_can_be_made_to_fail(tmp_path: Path, origin: Recording) -> None:
    """`{"error": {"message": …}}` in the place of a result."""
    edits: dict[str, Json] = {"0#3": {"error": {"message": "no disk"}}}

    forked = refold.fork(origin, None, report, into=tmp_path / "b.jsonl", edits=edits)

    assert forked.recording is not None
    assert forked.recording.status == "failed"
    assert "no disk" in str(forked.recording.error)


def test_what_was_not_recorded_stops_the_fork_and_names_it(
    tmp_path: Path, origin: Recording
) -> None:
    """With everything recorded, a changed result leads where no outcome is."""
    forked = refold.fork(origin, None, report, into=tmp_path / "b.jsonl", edits={"0/1#1": 10})

    assert forked.recording is None
    assert [one.call for one in forked.missing] == ['model scripted#1 ("the sum is 12")']
    assert not list(tmp_path.glob("b.*")), "nothing ran live, so nothing is left"


def test_what_stops_after_a_live_request_stays_and_can_be_resumed(tmp_path: Path) -> None:
    """In the run that asked live, or below it; what never ran is not in doubt, nor in the log."""

    async def asks(run: refold.Run, key: str) -> Any:
        found = await run.tool("get", key=key)
        return found + await run.tool("put", value=found)

    async def above(run: refold.Run, key: str) -> Any:
        return (await run.delegate(refold.Delegation(program=asks, input=key))).result()

    live = Sources(tools="live", children="live")
    for name, program, missing in (("a", asks, "0#2"), ("c", above, "0#1 > 0#2")):
        origin = refold.record(program, "k", log=tmp_path / f"{name}.jsonl", tools=TOOLS)
        factor["value"] = 5
        into = tmp_path / f"{name}-forked.jsonl"
        forked = refold.fork(origin, 0, program, into=into, sources=live, tools=TOOLS)
        (one,) = forked.missing

        assert forked.recording is None
        assert (one.key, one.options) == (missing, "--yes")
        assert refold.verify(into).intact
        resumed = refold.resume(into, program, tools=TOOLS)
        assert resumed.output == 10
        assert refold.reexecute(into, program).identical
        factor["value"] = 1


async def thrice(run: refold.Run, _: object) -> str:
    replies = [await run.model([{"role": "user", "content": text}]) for text in "ab"]
    run.now()
    replies.append(await run.model([{"role": "user", "content": "c"}]))
    return "".join(str(reply.message["content"]) for reply in replies)


async def thrice_below(run: refold.Run, _: object) -> str:
    reply = await run.model([{"role": "user", "content": "l"}])
    below = (await run.delegate(refold.Delegation(program=thrice, input=None))).result()
    return str(reply.message["content"]) + str(below)


def named(name: str, says: str) -> FunctionModel:
    """Return a model of that name, which always says the same."""
    return FunctionModel(lambda _request: says, name=name)


@pytest.mark.parametrize(("program", "asked"), some(1, [(thrice, 3), (thrice_below, 1)]))
def test_a_fork_and_a_resume_go_on_with_another_model(
    tmp_path: Path, program: Any, asked: int
) -> None:
    """From every entry: what is kept has the old model's name, what follows the new one's."""
    origin = refold.record(program, None, log=tmp_path / "a.jsonl", model=named("old", "O"))
    lines = origin.log.read_bytes().splitlines(keepends=True)
    for at in range(len(lines)):
        new = {"program": program, "sources": LIVE, "model": named("new", "N")}
        first = refold.fork(origin, at, into=tmp_path / f"b{at}x.jsonl", **new)
        third = {**new, "model": named("third", "T")}
        second = refold.fork(first.log, min(at, 3), into=tmp_path / f"c{at}x.jsonl", **third)
        logs = [(first.log, "new", "N"), (second.log, "third", "T")]
        if at > 1 and (program is thrice or at == 2):
            broken = tmp_path / f"d{at}x.jsonl"
            broken.write_bytes(b"".join(lines[:at]))
            refold.resume(broken, program, model=named("new", "N"))
            logs.append((broken, "new", "N"))
        for log, name, says in logs:
            entries = list(read_entries(log))
            models = [each.data["model"] for each in entries if "model" in each.data]
            resumed = [each.seq for each in entries if each.kind == "run.resumed"]
            opened = [entries[seq - 1].kind for seq in resumed[-1:]].count("model.asked")
            output = str(entries[-1].data["output"])
            assert len(models) == asked
            assert sorted(models, key=["old", "new", "third"].index) == models
            assert output[:asked].count(says) == models.count(name) + opened
            assert refold.reexecute(log, program).identical
            assert refold.verify(log).intact


def test_several_forks_of_one_entry(tmp_path: Path, origin: Recording) -> None:
    """Cases 71, 72: they do not know of each other, and the origin of none."""
    found = []
    for value in (7, 8):
        into = tmp_path / f"v{value}x.jsonl"
        edits: dict[str, Json] = {"0#3": value}
        forked = refold.fork(origin, None, report, into=into, edits=edits)
        assert forked.recording is not None
        found.append(forked.recording.output[-1])

    assert found == [7, 8]


def test_a_fork_of_a_fork_names_its_origin(tmp_path: Path, origin: Recording) -> None:
    """Case 77: the nonce of the log it left, and the hash of the entry where it did."""
    first = refold.fork(origin, None, report, into=tmp_path / "b.jsonl", edits={"0#3": 7})
    second = refold.fork(first.log, None, report, into=tmp_path / "c.jsonl", edits={"0#3": 8})

    left = list(read_entries(first.log))
    said = next(iter(read_entries(second.log))).data["origin"]
    assert said == {
        "nonce": left[0].data["nonce"],
        "head": left[second.at].hash,
        "at": second.at,
        "edits": ["0#3"],
    }
    assert second.recording is not None
    assert refold.reexecute(second.log, report).identical


def test_an_edit_that_changes_what_is_kept_is_a_divergence(
    tmp_path: Path, origin: Recording
) -> None:
    """Case 80: nothing is left behind, and the first difference is named."""
    into = tmp_path / "b.jsonl"

    with pytest.raises(Diverged, match="args_changed"):
        refold.fork(origin, -2, report, into=into, edits={"0/1#1": 10})

    assert not tree(into) or not into.exists()


def test_an_edit_is_checked_at_the_last_entry_too(tmp_path: Path, origin: Recording) -> None:
    """A sealed copy is re-executed as any other: an output that does not follow is no fork."""
    into = tmp_path / "b.jsonl"

    with pytest.raises(Diverged):
        refold.fork(origin, -1, report, into=into, edits={"0/1#1": 10})

    assert not into.exists()


def test_an_edit_in_a_child_that_is_kept_is_checked(tmp_path: Path, origin: Recording) -> None:
    """Its log is copied whole, and nothing goes on in it; it is re-executed nevertheless."""
    into, key = tmp_path / "b.jsonl", f"{child_call(origin)} > 0#1"

    with pytest.raises(Diverged):
        refold.fork(origin, -2, report, into=into, edits={key: 50})

    assert not tree(into) or not into.exists()


def test_an_edit_on_which_nothing_depends_is_kept(tmp_path: Path) -> None:
    """The program is asked, not the position of the edit."""

    async def ignores(run: refold.Run, _: Any) -> str:
        await run.tool("get", key="a")
        await run.tool("get", key="b")
        return "done"

    origin = refold.record(ignores, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(origin, -2, ignores, into=tmp_path / "b.jsonl", edits={"0#1": 10})

    assert forked.recording is not None
    assert forked.recording.output == "done"


def test_a_fork_from_a_failure_with_another_program(tmp_path: Path) -> None:
    """Case 79: up to the failure the new program does the same; then it goes on."""

    async def fails(run: refold.Run, _: Any) -> Any:
        found = await run.tool("get", key="abc")
        raise ValueError(found)

    async def works(run: refold.Run, _: Any) -> Any:
        found = await run.tool("get", key="abc")
        return found * 10

    origin = refold.record(fails, None, log=tmp_path / "a.jsonl", tools=TOOLS)
    assert origin.status == "failed"

    forked = refold.fork(origin, -2, works, into=tmp_path / "b.jsonl")

    assert forked.recording is not None
    assert forked.recording.output == 30


def test_a_fork_of_a_run_that_broke_off(tmp_path: Path, origin: Recording) -> None:
    """It goes on from its last line; its record serves what it has."""
    lines = origin.log.read_bytes().splitlines(keepends=True)
    origin.log.write_bytes(b"".join(lines[:-3]))

    forked = refold.fork(origin, -1, report, into=tmp_path / "b.jsonl", sources=LIVE, tools=TOOLS,
                         model=model())  # fmt: skip

    assert forked.recording is not None
    assert forked.recording.output == origin.output


def test_drawn_values_are_the_origins(tmp_path: Path) -> None:
    """Case 53: a fork has its origin's seed, so uuids and random streams go on alike."""

    async def draws(run: refold.Run, _: Any) -> list[Any]:
        first = run.uuid()
        await run.tool("get", key="a")
        return [first, run.uuid(), run.random("s").random()]

    origin = refold.record(draws, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(origin, None, draws, into=tmp_path / "b.jsonl", edits={"0#2": 5})

    assert forked.recording is not None
    assert forked.recording.output == origin.output


@pytest.mark.parametrize(
    ("at", "edits", "error"),
    [
        (None, {}, ForkRefused),
        (99, {}, EntryMissing),
        (-99, {}, EntryMissing),
        (None, {"0#9": 1}, ForkRefused),
        (None, {"0#3 > 0#1": 1}, ForkRefused),
        (3, {"nonsense": 1}, ForkRefused),
        (None, {"0#1": {"role": "assistant"}}, UsageError),
    ],
)
def test_a_fork_of_nowhere_is_refused(
    tmp_path: Path,
    origin: Recording,
    at: int | None,
    edits: dict[str, Json],
    error: type[Exception],
) -> None:
    """No such entry, no such outcome, a value that is none; nothing is made."""
    into = tmp_path / "b.jsonl"

    with pytest.raises(error):
        refold.fork(origin, at, report, into=into, edits=edits)

    assert not into.exists()


def test_a_new_outcome_that_is_not_json_is_named_by_its_key(
    tmp_path: Path, origin: Recording
) -> None:
    edits: dict[str, Any] = {"0/1#1": 3, "0#3": object()}

    with pytest.raises(NotCanonical, match="at /0#3: expected"):
        refold.fork(origin, None, report, into=tmp_path / "b.jsonl", edits=edits)

    assert not (tmp_path / "b.jsonl").exists()


def test_a_program_in_the_place_of_the_entry_is_told_apart(
    tmp_path: Path, origin: Recording
) -> None:
    """The functions beside it take the program second."""
    with pytest.raises(UsageError, match="without one, pass program"):
        refold.fork(origin.log, report, into=tmp_path / "f.jsonl")  # type: ignore[arg-type]  # what people write

    assert not (tmp_path / "f.jsonl").exists()


def test_an_existing_log_is_never_overwritten(origin: Recording) -> None:
    """Neither another one nor the origin itself."""
    before = bytes_of(origin.log)

    with pytest.raises(LogExists):
        refold.fork(origin, 3, report, into=origin.log)

    assert bytes_of(origin.log) == before


def test_a_refused_fork_removes_nothing(tmp_path: Path, origin: Recording) -> None:
    """A child's log, one that is being written, what is left of another run, large texts of one."""
    (tmp_path / "left.2.jsonl").write_text("left")
    (tmp_path / "kept.blobs" / "aa").mkdir(parents=True)
    (tmp_path / "kept.blobs" / "aa" / ("a" * 64)).write_text("kept")
    (tmp_path / "a.blobs" / "bb").mkdir(parents=True)
    (tmp_path / "a.blobs" / "bb" / ("b" * 64)).write_text("kept")
    started = next(read_entries(origin.log, resolve=True)).event
    assert isinstance(started, RunStarted)
    with LogWriter.create(tmp_path / "written.jsonl", started):
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

        for name, refused in (
            ("a.1.jsonl", LogNameRefused),
            ("written.jsonl", LogLocked),
            ("left.jsonl", LogExists),
            ("a.txt", LogNameRefused),
        ):
            with pytest.raises(refused):
                refold.fork(origin, 0, report, into=tmp_path / name)
        edits: dict[str, Json] = {child_call(origin): {"status": "banana"}}
        with pytest.raises(UsageError):
            refold.fork(origin, 0, report, into=tmp_path / "kept.jsonl", edits=edits)

        after = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert after == before


def test_a_child_can_be_made_to_fail(tmp_path: Path, origin: Recording) -> None:
    """As a tool can; what it gave is gone."""
    edits: dict[str, Json] = {child_call(origin): {"error": {"message": "no"}}}

    forked = refold.fork(origin, None, report, into=tmp_path / "b.jsonl", edits=edits)

    assert forked.recording is not None
    assert forked.recording.output[3] is None
    assert refold.reexecute(forked.log, report).identical


@pytest.mark.parametrize("at", [0, None])
def test_an_edit_that_is_no_outcome_names_its_key(
    tmp_path: Path, origin: Recording, at: int | None
) -> None:
    """Wherever it is served, nothing is made."""
    key, into = child_call(origin), tmp_path / "b.jsonl"

    with pytest.raises(UsageError, match=f"the result of '{key}': .*/outcome/status"):
        refold.fork(origin, at, report, into=into, edits={key: {"status": "banana"}})

    assert not into.exists()


def child_call(origin: Recording) -> str:
    """Return the call that starts the child."""
    return next(e.call or "" for e in read_entries(origin.log) if e.kind == "child.started")


def test_drawn_values_are_edited_unless_they_follow_from_the_seed(tmp_path: Path) -> None:
    """What came from the world may be another one, from any entry; a uuid may not."""

    async def draws(run: refold.Run, _: Any) -> Any:
        return [run.uuid(), run.environment("REFOLD_NO_SUCH"), await run.tool("get", key="a")]

    origin = refold.record(draws, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(origin, 0, draws, into=tmp_path / "b.jsonl", edits={"0#2": "there"})

    assert forked.recording is not None
    assert forked.recording.output == [origin.output[0], "there", origin.output[2]]
    assert refold.reexecute(forked.log, draws).identical
    with pytest.raises(ForkRefused, match="seed"):
        refold.fork(origin, 0, draws, into=tmp_path / "c.jsonl", edits={"0#1": "mine"})


def test_one_more_uuid_is_another_one(tmp_path: Path) -> None:
    """It follows from the seed, as it does in any run; a recorded one is never given twice."""

    def draws(run: refold.PlainRun, _: Any) -> Any:
        return [run.uuid() for _ in range(count)]

    count = 1
    origin = refold.record(draws, None, log=tmp_path / "a.jsonl")
    count = 2

    forked = refold.fork(origin, 0, draws, into=tmp_path / "b.jsonl")

    assert forked.recording is not None
    assert len(set(forked.recording.output)) == 2
    assert refold.reexecute(forked.log, draws).identical


@attrs.frozen
class _Point:
    x: int


def test_an_edit_of_another_type_than_the_tools_leaves_nothing(tmp_path: Path) -> None:
    """Whether it stands in the copy or is served after it; the message says what is wrong."""

    @refold.tool(effect="reads")
    def point() -> _Point:
        return _Point(1)

    async def asks(run: refold.Run, _: Any) -> int:
        found: _Point = await run.tool(point)
        return found.x

    origin = refold.record(asks, None, log=tmp_path / "a.jsonl", tools=[point])

    for at in (0, None):
        with pytest.raises(UsageError, match="does not match its type"):
            refold.fork(origin, at, asks, into=tmp_path / "b.jsonl", edits={"0#1": 5})
        assert not (tmp_path / "b.jsonl").exists()


def _looped(keys: list[str]) -> Callable[..., Any]:
    async def loops(run: refold.Run, _: Any) -> Any:
        given = [refold.Delegation(program=reader, input=key) for key in keys]
        children = [await run.start(each) for each in given]
        return [outcome.output for outcome in await run.join(*children)]

    return loops


def test_parallel_children_of_a_loop(tmp_path: Path) -> None:
    """Case 76: forked at every entry, each child's outcome stays its own."""
    program = _looped(["a", "bb", "ccc"])
    origin = refold.record(program, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    for at in range(origin.entries):
        into = tmp_path / f"at-{at}x.jsonl"
        forked = refold.fork(origin, at, program, into=into)
        assert forked.recording is not None
        assert forked.recording.output == [1, 2, 3]
        assert refold.verify(forked.log).intact


async def asks_twice(run: refold.Run, _given: None) -> Any:
    """Ask a person, in the run and in a child."""
    number = await run.ask("how many?", {"type": "integer"})
    asking = refold.Delegation(program=asks_once)
    return [number, (await run.delegate(asking)).result(), await run.ask("why?")]


async def asks_once(run: refold.Run, _given: None) -> Any:
    """Ask a person."""
    return await run.ask("who?")


def test_a_fork_at_every_entry_has_the_answers_that_came_later(tmp_path: Path) -> None:
    """Also where the run waited for one and was resumed with it; an edited answer comes first."""
    origin = refold.record(asks_twice, None, log=tmp_path / "a.jsonl")
    for key, answer in (("0#1", 7), ("0#2 > 0#1", "you"), ("0#3", "so")):
        origin = refold.resume(origin.log, asks_twice, answers={key: answer}, check=False)
    entries = list(read_entries(origin.log))
    asked = next(each.seq for each in entries if each.kind == "input.asked")

    assert origin.output == [7, "you", "so"]
    for at in range(len(entries)):
        forked = refold.fork(origin, at, asks_twice, into=tmp_path / f"at-{at}x.jsonl", check=False)
        assert forked.recording is not None
        assert (at, forked.recording.output) == (at, origin.output)
    into = tmp_path / "edited.jsonl"
    edited = refold.fork(origin, asked, asks_twice, into=into, edits={"0#1": 8}, check=False)
    assert edited.recording is not None
    assert edited.recording.output == [8, "you", "so"]


@pytest.mark.long
def test_a_fork_at_every_entry_of_fifty(tmp_path: Path) -> None:
    """Case 78: branches, a timer and a draw among them; each fork is the same run."""

    async def branch(run: refold.Run, key: str) -> list[Any]:
        found = [await run.tool("get", key=key * (at + 1)) for at in range(5)]
        await run.sleep(0.0001)
        return [*found, run.uuid()]

    async def wide(run: refold.Run, _: Any) -> list[Any]:
        return list(await asyncio.gather(*(branch(run, key) for key in ("a", "bb", "ccc", "dd"))))

    origin = refold.record(wide, None, log=tmp_path / "a.jsonl", tools=TOOLS)
    assert origin.entries == 50

    for at in range(50):
        into = tmp_path / f"at-{at}x.jsonl"
        forked = refold.fork(origin, at, wide, into=into)
        assert forked.recording is not None
        assert forked.recording.data_digest == origin.data_digest
        assert forked.recording.tree_digest == origin.tree_digest != ""
        assert refold.verify(into).complete


async def paced(run: refold.Run, _: Any, *, within: float | None = None) -> list[Any]:
    """Sleep, beside a call, within a limit that is never reached."""
    loop, said = asyncio.get_running_loop(), list[str]()

    async def branch(name: str, seconds: float) -> None:
        await run.sleep(seconds)
        said.append(name)

    async with asyncio.timeout(within):
        await run.tool("get", key="a")
        began = loop.time()
        await asyncio.gather(branch("late", 0.003), branch("soon", 0.002))
        await run.sleep(0.001)
        return [*said, await run.tool("get", key="bb"), loop.time() - began >= 0.004]


def times_of(log: Path) -> list[int]:
    """Return the virtual times that a log shows, in order."""
    data = [entry.data for entry in read_entries(log)]
    return [each["virtual_us"] for each in data if "virtual_us" in each]


@pytest.mark.parametrize("within", some(1, [None, 900.0]))
def test_the_timers_of_a_fork_keep_their_order_and_move_its_time(
    tmp_path: Path, within: float | None
) -> None:
    """They fire at once; that a limit stands around them now is no matter."""
    origin = refold.record(paced, None, log=tmp_path / "a.jsonl", tools=TOOLS)
    edited = functools.partial(paced, within=within)
    assert origin.result()[:2] == ["soon", "late"]

    for at in range(origin.entries - 1):
        into = tmp_path / f"at-{at}x.jsonl"
        forked = refold.fork(origin, at, edited, into=into)

        assert forked.recording is not None
        assert forked.recording.output == origin.output
        assert times_of(into) == sorted(times_of(into))
        assert refold.reexecute(into, edited, tools=TOOLS).identical
        assert refold.drift(origin, edited, sources=Sources(), tools=TOOLS).identical


# --- an edit is given to the call that its key names, and to nothing else ------------------------


async def _says(run: refold.Run, topic: str) -> str:
    reply = await run.model([{"role": "user", "content": f"about {topic}"}], agent="child")
    return str(reply.message["content"])


async def _plans(run: refold.Run, _: Any) -> list[Any]:
    plan = await run.model([{"role": "user", "content": "plan"}], agent="lead")
    topics = plan.message["content"].split()
    given = [refold.Delegation(program=_says, input=topic) for topic in topics]
    return [topics, [(await run.delegate(each)).output for each in given]]


def _planner() -> ScriptedModel:
    return ScriptedModel({"lead": ["tides"], "child": ["what the child says"]})


def _planned(tmp_path: Path) -> Path:
    return refold.record(_plans, None, log=tmp_path / "a.jsonl", model=_planner()).log


def _output(forked: Fork) -> Any:
    """Return the output of a fork that holds as a log, and replays."""
    assert forked.recording is not None, forked.missing
    verified = refold.verify(forked.log)
    assert verified.intact, verified
    assert verified.complete, verified
    return forked.recording.output


def test_a_child_that_was_not_recorded_is_not_given_the_edit_of_its_parent(tmp_path: Path) -> None:
    """Its first call has the key `0#1`, too."""
    log, edits = _planned(tmp_path), {"0#1": "ice fog"}

    forked = refold.fork(
        log, None, _plans, into=tmp_path / "b.jsonl", edits=edits, sources=LIVE, model=_planner()
    )

    assert _output(forked) == [["ice", "fog"], ["what the child says"] * 2]
    assert refold.reexecute(forked.log, _plans).identical


def test_an_edit_in_a_child_is_given_to_it_though_it_was_asked_something_else(
    tmp_path: Path,
) -> None:
    """Its place in the tree names it, not its request."""
    log, edits = _planned(tmp_path), {"0#1": "ice", "0#2 > 0#1": "as edited"}

    forked = refold.fork(
        log, 2, _plans, into=tmp_path / "b.jsonl", edits=edits, sources=LIVE, model=_planner()
    )

    assert _output(forked) == [["ice"], ["as edited"]]
    assert refold.reexecute(forked.log, _plans).identical


def test_an_edit_in_a_child_that_would_be_served_whole_is_not_dropped(
    tmp_path: Path, origin: Recording
) -> None:
    """The child runs, from its record."""
    forked = refold.fork(origin, 0, report, into=tmp_path / "b.jsonl", edits={"0#2 > 0#1": 30})

    assert _output(forked)[3] == [30, 6]


@pytest.mark.parametrize("sources", [Sources(), LIVE])
def test_an_edit_in_a_child_that_ended_before_the_fork_is_checked(
    tmp_path: Path, sources: Sources
) -> None:
    """Whether it is kept or refused, nothing is left that does not replay."""
    origin = refold.record(_hands_down, None, log=tmp_path / "a.jsonl", tools=TOOLS)
    way: dict[str, Any] = {"into": tmp_path / "b.jsonl", "sources": sources, "tools": TOOLS}

    with pytest.raises(Diverged):
        refold.fork(origin, 4, _hands_down, edits={"0#1 > 0#1": 7}, **way)

    assert not list(tmp_path.glob("b.*"))


@pytest.mark.parametrize("at", [3, -1])
def test_an_edit_that_changes_what_is_kept_of_the_child_that_goes_on_is_a_divergence(
    tmp_path: Path, at: int
) -> None:
    """In the middle of its log, and where nothing of it is left to do."""
    refold.record(_hands_down, None, log=tmp_path / "a.jsonl", tools=TOOLS)
    way: dict[str, Any] = {"into": tmp_path / "b.jsonl", "sources": LIVE, "tools": TOOLS}

    with pytest.raises(Diverged):
        refold.fork(tmp_path / "a.1.jsonl", at, _hands_down, edits={"0#1": 7}, **way)

    assert not list(tmp_path.glob("b.*"))


async def _asks_on(run: refold.Run, key: str) -> int:
    return int(await run.tool("get", key="x" * await run.tool("get", key=key)))


async def _hands_down(run: refold.Run, _: Any) -> int:
    program = functools.partial(_asks_on)  # no process is started for what none can import
    outcome = await run.delegate(refold.Delegation(program=program, input="aa"))
    await run.tool("get", key="b")
    return int(outcome.result())


@pytest.mark.usefixtures("origin")
def test_a_key_beside_a_childs_log_is_the_childs(tmp_path: Path) -> None:
    """As `show` lists it; what the new log says of it is from the root run down."""
    child = tmp_path / "a.1.jsonl"

    forked = refold.fork(child, None, report, into=tmp_path / "b.jsonl", edits={"0#1": 30})
    below = refold.fork(child, None, report, into=tmp_path / "c.jsonl", edits={"0#2 > 0#1": 60})

    assert _output(forked)[3] == [30, 6]
    assert _output(below)[3] == [3, 60]
    assert next(iter(read_entries(below.log))).data["origin"]["edits"] == ["0#2 > 0#2 > 0#1"]
    with pytest.raises(ForkRefused, match="in this log or its descendants"):
        refold.fork(child, None, report, into=tmp_path / "d.jsonl", edits={"0#3": 1})


def test_an_edit_of_another_kind_than_is_asked_for_stops_the_fork(tmp_path: Path) -> None:
    """What was said of one tool is not said of another."""

    async def either(run: refold.Run, _: Any) -> Any:
        first = await run.tool("get", key="a")
        return await (run.tool("get", key="b") if first == 1 else run.tool("put", value=1))

    origin = refold.record(either, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(
        origin, None, either, into=tmp_path / "b.jsonl", edits={"0#1": 5, "0#2": 9}, sources=LIVE,
        tools=TOOLS,
    )  # fmt: skip

    assert forked.recording is None
    assert "the edit of 0#2 is of tool get" in str(forked.missing[0])
    assert kept == []


def test_an_edit_within_an_edit_is_refused(tmp_path: Path, origin: Recording) -> None:
    """The child's outcome is said; what it did would say another one."""
    with pytest.raises(ForkRefused, match="edit only one of them"):
        refold.fork(origin, 0, report, into=tmp_path / "b.jsonl", edits={"0#2": 1, "0#2 > 0#1": 1})


def test_the_result_of_a_delegation_tool_is_no_outcome(tmp_path: Path) -> None:
    """It is made by program code, of the outcome of a child."""
    tools: list[Any] = [subagent_tool(SubagentOptions(program=reader, tools=("get",))), get]

    async def delegates(run: refold.Run, _: Any) -> Any:
        return await run.tool("subagent", task="a")

    log = refold.record(delegates, None, log=tmp_path / "a.jsonl", tools=tools).log
    call = next(entry.call for entry in read_entries(log) if entry.kind == "tool.called")

    with pytest.raises(ForkRefused, match="delegation tool"):
        refold.fork(log, 0, delegates, into=tmp_path / "b.jsonl", edits={str(call): "x"})


def test_what_is_missing_in_a_child_stops_the_run_above_it(tmp_path: Path) -> None:
    """The child did not fail: nobody said so. However deep it is, and whatever goes on there."""
    log, into = _planned(tmp_path), tmp_path / "b.jsonl"

    forked = refold.fork(
        log, None, _plans, into=into, edits={"0#1": "ice"}, sources=Sources(children="live")
    )

    assert forked.recording is None
    assert str(forked.missing[0]).endswith(
        "(pass model=…, sources=refold.Sources(model='live', children='live'); on the command "
        "line: --model SPEC)"
    )
    assert not list(tmp_path.glob("b.*"))


def test_a_recorded_child_under_another_key_comes_without_its_log(tmp_path: Path) -> None:
    """Its log would say that it stands elsewhere, and `verify` calls that another child's."""

    async def lead(run: refold.Run, _: Any) -> Any:
        for _again in range(await run.tool("get", key="a")):
            await run.tool("get", key="b")
        return (await run.delegate(refold.Delegation(program=reader, input="kk"))).output

    origin = refold.record(lead, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(
        origin, None, lead, into=tmp_path / "b.jsonl", edits={"0#1": 2}, tools=TOOLS,
        sources=Sources(tools="live"),
    )  # fmt: skip

    assert _output(forked) == 2
    assert len(tree(forked.log)) == 1


def test_what_was_open_when_a_record_broke_off_has_no_outcome(tmp_path: Path) -> None:
    """It was not given up, and is not served as if it had been."""
    log = refold.record(_simple, None, log=tmp_path / "a.jsonl", tools=TOOLS).log
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:2]))

    forked = refold.fork(log, 0, _simple, into=tmp_path / "b.jsonl")

    assert forked.recording is None
    assert [one.call for one in forked.missing] == ['get#1 (key="a")']


async def _simple(run: refold.Run, _: Any) -> Any:
    return await run.tool("get", key="a")


def test_an_edit_of_a_call_in_whose_place_a_value_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fork stops, as it does at another tool: the value that is drawn is not the edited one."""

    async def looks(run: refold.Run, _: Any) -> Any:
        first = await run.tool("get", key="abc")
        return (
            await run.tool("get", key="ab") if first == 3 else run.environment("REFOLD_TEST_FORKED")
        )

    monkeypatch.setenv("REFOLD_TEST_FORKED", "9")
    origin = refold.record(looks, None, log=tmp_path / "a.jsonl", tools=TOOLS)

    forked = refold.fork(origin, 0, looks, into=tmp_path / "b.jsonl", edits={"0#1": 4, "0#2": 7},
                         sources=LIVE, tools=TOOLS)  # fmt: skip

    assert "the edit of 0#2 is of tool get" in str(forked.missing[0])
    assert not forked.log.exists()


def _team(broken: set[int]) -> tuple[Callable[..., Any], list[Any], list[str]]:
    """Return a fan-out of six, its tools, and a list of what these are asked."""
    asked: list[str] = []

    @refold.tool(effect="reads")
    def plan(n: int) -> int:
        """Return a plan."""
        asked.append(f"plan {n}")
        return n

    @refold.tool(effect="reads")
    def work(n: int) -> int:
        """Return a result, or fail."""
        asked.append(f"work {n}")
        if n in broken:
            raise ValueError(f"{n} is down")
        return n * 10

    async def member(run: refold.Run, n: int) -> Any:
        return await run.tool("work", n=await run.tool("plan", n=n))

    async def nested(run: refold.Run, n: int) -> Any:
        asked.append(f"start {n}")
        if n % 2:
            return await member(run, n)
        below = refold.Delegation(program=member, input=n)
        return (await run.delegate(below)).result()

    async def team(run: refold.Run, _: Any) -> list[Any]:
        given = [refold.Delegation(program=nested, input=n) for n in range(6)]
        outcomes = await run.join(*[await run.start(each) for each in given])
        return [outcome.output for outcome in outcomes]

    return team, [plan, work], asked


@pytest.mark.long
@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(0, 5), min_size=1))
def test_any_children_that_failed_run_again(failing: set[int]) -> None:
    test_only_children_that_failed_run_again(failing)


@pytest.mark.parametrize("failing", [{3}, {0, 2, 5}])
def test_only_children_that_failed_run_again(failing: set[int]) -> None:
    """And in these only what failed, however deep; the fork ends as an unbroken run would."""
    broken = set(failing)
    team, tools, asked = _team(broken)
    with tempfile.TemporaryDirectory() as folder:
        log, into = Path(folder, "a.jsonl"), Path(folder, "b.jsonl")
        refold.record(team, None, log=log, tools=tools)
        asked.clear()
        broken.clear()
        forked = refold.fork(
            log, program=team, into=into, again="failed", tools=tools, sources=Sources(tools="live")
        )

        assert forked.recording is not None, forked.missing
        assert forked.recording.output == [n * 10 for n in range(6)]
        assert set(asked) == {f"{what} {n}" for n in failing for what in ("start", "work")}
        assert len(asked) == 2 * len(failing)
        assert refold.verify(into).complete
        assert refold.reexecute(into, team).identical
        with pytest.raises(ForkRefused, match="none of its children failed"):
            refold.fork(into, program=team, into=Path(folder, "c.jsonl"), again="failed")


def test_what_failed_is_not_served_again_in_silence(tmp_path: Path) -> None:
    """Without a live source, the fork stops and names the call; nor is another place taken."""
    team, tools, _ = _team({3})
    log = refold.record(team, None, log=tmp_path / "a.jsonl", tools=tools).log
    forked = refold.fork(log, program=team, into=tmp_path / "b.jsonl", again="failed")

    assert forked.recording is None
    assert "work" in str(forked.missing[0])
    wrongs: list[dict[str, Any]] = [{"at": 3, "again": "failed"}, {"again": "all"}]
    for wrong in wrongs:
        with pytest.raises(UsageError):
            refold.fork(log, program=team, into=tmp_path / "c.jsonl", **wrong)


def test_a_changed_program_is_named_before_the_type_of_a_child_that_nobody_recorded(
    tmp_path: Path,
) -> None:
    async def kid(_run: refold.Run, number: int) -> dict[str, int]:
        return {"a": number}

    async def top(run: refold.Run, question: str) -> Any:
        reply = await run.model([{"role": "user", "content": question}])
        outcome = await run.delegate(refold.Delegation(program=kid, input=1))
        return [reply.message["content"], outcome.result()]

    async def changed(run: refold.Run, question: str) -> Any:
        return await top(run, question + "!")

    log = refold.record(top, "a", log=tmp_path / "a.jsonl", model=ScriptedModel(["b"])).log

    with pytest.raises(Diverged, match="args_changed"):
        refold.fork(log, program=changed, into=tmp_path / "b.jsonl", edits={"0#1": "c"})


def test_a_fork_at_the_start_with_live_outcomes_is_a_drift(tmp_path: Path) -> None:
    """Both serve and ask the same, in the same order."""
    log = refold.record(report, None, log=tmp_path / "a.jsonl", tools=TOOLS, model=model()).log
    given: dict[str, Any] = {"tools": TOOLS, "model": model(), "sources": LIVE}

    refold.fork(log, 0, report, into=tmp_path / "b.jsonl", **given)
    refold.drift(log, report, into=tmp_path / "c.jsonl", **given)

    forked, drifted = (list(read_entries(tmp_path / f"{name}.jsonl")) for name in "bc")
    forked = [each for each in forked if each.kind != "run.resumed"]
    assert [(e.kind, e.call) for e in forked] == [(e.kind, e.call) for e in drifted]
    assert refold.diff(tmp_path / "b.jsonl", tmp_path / "c.jsonl").identical
