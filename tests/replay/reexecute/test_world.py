"""A kernel's world that is a log: what the program is given comes from there alone."""

import asyncio
import inspect
import json
import tempfile
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import refold
from refold.engine.errors import LogDamaged, LogUnsupported, RefoldError, ToolNeeded, UsageError
from refold.engine.events.events import RunFinished, RunStarted
from refold.engine.log.reader import read_entries
from refold.engine.log.writer import LogWriter
from refold.engine.ports.ports import CallContext, ModelRequest, Reference
from refold.engine.ports.programs import load
from refold.engine.program.run import PlainRun, Run
from refold.engine.runners.recording import record
from refold.replay.audit.refolding import state
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.world import (
    LoggedModel,
    LoggedTool,
    Replayed,
    first_event,
    identity_of,
)
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.support.loops import for_each
from tests.support.steps import program_of, recorded
from tests.support.ways import replayed

CONTEXT = CallContext(call="0#1", run_id="r", depth=0, origin="k")


def test_stand_ins_execute_nothing() -> None:
    """A tool or a model known only from the log can be asked for, and never run."""
    known = LoggedTool("search", "reads", {}, typed=True)

    with pytest.raises(ToolNeeded):
        known.call({}, CONTEXT)
    with pytest.raises(ToolNeeded):
        known.load(1)
    with pytest.raises(ToolNeeded):
        asyncio.run(known.delegate(None, {}))
    assert known.dump([1]) == [1]
    with pytest.raises(UsageError):
        LoggedModel("m").complete(ModelRequest(messages=()))


def test_the_recorded_run_is_who_it_was(tmp_path: Path) -> None:
    """Ids, path, depth and seed come from the first line: nothing is drawn anew."""
    recorded(tmp_path / "a.jsonl", ("child", [("uuid",)]))
    root, child = (next(read_entries(tmp_path / name)).event for name in ("a.jsonl", "a.1.jsonl"))
    assert isinstance(root, RunStarted)
    assert isinstance(child, RunStarted)

    assert identity_of(root).parent is None
    identity = identity_of(child)
    assert (identity.root_id, identity.depth, identity.path) == (root.run_id, 1, "0#1")
    assert identity.parent is not None
    assert identity.parent.run == root.run_id


def test_only_a_log_is_a_world(tmp_path: Path) -> None:
    """Another file is refused before the program starts."""
    other = tmp_path / "other.jsonl"
    other.write_text('{"not": "a log"}\n')

    with pytest.raises(LogDamaged):
        Replayed(other, tools={})


@for_each("kept", [0, 1, 50, -1])
def test_a_log_without_a_complete_line_is_refused(kept: int, tmp_path: Path) -> None:
    """As a kill between the making of the log and its first line leaves it."""

    def program(run: PlainRun, _input: Any) -> None:
        run.annotate("here")

    whole = record(program, None, log=tmp_path / "a.jsonl").log
    log = tmp_path / "b.jsonl"
    log.write_bytes(whole.read_bytes().splitlines()[0][:kept])

    (found,) = reexecute(log, program).divergences
    assert found.category == "log_damaged"
    with pytest.raises(LogDamaged, match="torn tail"):
        refold.fork(log, 0, program, into=tmp_path / "c.jsonl")
    with pytest.raises(LogDamaged, match="torn tail"):
        refold.resume(log, program)


def test_a_log_of_other_scheduling_rules_is_not_reexecuted(tmp_path: Path) -> None:
    """Case 101: it is read, verified and folded; what its steps would be now, nobody knows."""

    async def program(run: Run, _: Any) -> None:
        run.annotate("here")

    recorded = first_event(record(program, None, log=tmp_path / "a.jsonl").log)
    later = attrs.evolve(recorded, versions=recorded.versions | {"engine": 99})
    log = tmp_path / "later.jsonl"
    with LogWriter.create(log, later) as writer:
        writer.append(RunFinished("completed", "done"))

    assert state(log).status == "completed"
    with pytest.raises(LogUnsupported) as refused:
        reexecute(log, program)
    assert "rules 99" in str(refused.value)


def test_values_come_from_the_record(tmp_path: Path) -> None:
    """Time, uuids and random streams are those that were recorded, whatever the clock says now."""
    seen: list[Any] = []

    async def program(run: Run, _input: Any) -> Any:
        await asyncio.sleep(0.001)
        seen.append((run.now(), run.uuid(), run.random("s").random(), run.id, run.depth))

    log = record(program, log=tmp_path / "a.jsonl").log
    assert reexecute(log, program).identical

    assert seen[0] == seen[1]


def test_virtual_time_passes_as_it_did(tmp_path: Path) -> None:
    """`loop.time()` gives what was recorded; a sleep of an hour would take no time at all."""
    seen: list[float] = []

    async def program(_run: Run, _input: Any) -> Any:
        loop = asyncio.get_running_loop()
        before = loop.time()
        await asyncio.sleep(0.02)
        seen.append(loop.time() - before)

    log = record(program, log=tmp_path / "a.jsonl").log
    assert reexecute(log, program).identical

    assert seen[0] == seen[1] >= 0.02


def test_a_delegation_tool_has_to_be_passed(tmp_path: Path) -> None:
    """It is program code: it is re-executed, between its two lines, and never served."""
    ran: list[str] = []

    async def handler(run: Run, arguments: dict[str, Any]) -> Any:
        ran.append("here")
        return await run.tool("search", q=arguments["q"])

    @tool(effect="reads")
    def search(q: str) -> str:
        return q

    asks = DelegationTool(name="asks", description="", parameters={}, handler=handler)

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool("asks", q="a")

    log = record(program, log=tmp_path / "a.jsonl", tools=[asks, search]).log

    with pytest.raises(ToolNeeded, match=r"runs\s+again.*tools=\[asks\]"):
        reexecute(log, program)
    assert reexecute(log, program, tools=[asks]).identical
    assert ran == ["here", "here"]


def line_of(function: Any, text: str) -> int:
    """Return the line of this file on which `text` stands in `function`."""
    lines, first = inspect.getsourcelines(function)
    return first + next(at for at, line in enumerate(lines) if text in line)


async def asks_b(run: Run, _input: Any) -> Any:
    found = await run.tool("search", q="a")
    return await run.tool("fetch", q=found)  # here


async def waits_long(run: Run, _input: Any) -> Any:
    await run.tool("search", q="a")
    await asyncio.sleep(0.001)  # here
    return await run.tool("search", q="b")


def plainly_asks_b(run: PlainRun, _input: Any) -> Any:
    found = run.tool("search", q="a")
    return run.tool("fetch", q=found)  # here


@for_each("program", [asks_b, waits_long, plainly_asks_b])
def test_the_program_place_is_where_it_asks_or_waits(tmp_path: Path, program: Any) -> None:
    """The file and line of the program, not of asyncio and not of Refold."""
    steps = [("tool", "search", {"q": q}) for q in ("a", "b")]
    log = recorded(tmp_path / "a.jsonl", *steps).log

    found = reexecute(log, program).divergences[0]

    assert (found.file, found.line) == (__file__, line_of(program, "# here"))


def test_a_program_that_has_ended_stands_nowhere(tmp_path: Path) -> None:
    """There is no line to point at, least of all one of whoever replays."""
    steps = [("tool", "search", {"q": q}) for q in ("a", "b")]
    log = recorded(tmp_path / "a.jsonl", *steps).log

    found = reexecute(log, program_of(steps[0])).divergences[0]

    assert (found.category, found.file, found.line) == ("unconsumed", "", 0)


def test_a_call_that_a_framework_makes_is_told_where_the_program_waits_for_it(
    tmp_path: Path,
) -> None:
    """Its own lines say nothing to whoever wrote the program."""
    framework = tmp_path / "site-packages" / "framework.py"
    framework.parent.mkdir()
    framework.write_text(
        "import asyncio\n\n\nasync def one(run, q):\n    return await run.tool('search', q=q)\n\n\n"
        "async def asks(run, q):\n    return await asyncio.create_task(one(run, q))\n"
    )
    asks = load(Reference(str(framework), "asks"))

    async def program(run: Run, _input: Any) -> Any:
        return await asks(run, "a")

    async def changed(run: Run, _input: Any) -> Any:
        return await asks(run, "b")

    log = recorded(tmp_path / "a.jsonl", program=program).log

    (found,) = reexecute(log, changed).divergences

    assert (found.file, found.line) == (__file__, changed.__code__.co_firstlineno + 1)


@tool(effect="reads")
def found() -> Any:
    """Return something."""
    return 1


RESULTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text('a"\\}{é\x7f'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a}$"), inner, max_size=3),
    max_leaves=5,
)
TAILS = ["}", " }", ',"error":null}', ',"result":2}', ',"status":"error"}', ',"more":1}', "", "}}"]


@given(
    result=RESULTS.map(json.dumps) | st.sampled_from(["", " 12", "1e999", "[1"]),
    tail=st.sampled_from(TAILS),
)
@example(result="12", tail="")
def test_a_result_is_read_alike_with_its_call_and_alone(result: str, tail: str) -> None:
    """Whatever a sealed log holds there: other members, what is no JSON, what no log can hold."""
    line = f'{{"status":"ok","result":{result}{tail}'.encode()
    with tempfile.TemporaryDirectory() as folder:
        log, seen = Path(folder, "a.jsonl"), list[str]()

        async def program(run: Run, _: Any) -> None:
            seen.append(repr(await run.tool(found)))

        record(program, None, log=log, tools=[found])
        started, called, _, finished = (entry.event for entry in read_entries(log))
        with LogWriter.create(made := Path(folder, "b.jsonl"), started) as writer:  # type: ignore[arg-type]  # it is the first
            writer.append(called, "0#1", 0)
            writer.append_call(b"tool.returned", b"0#1", 1, line)
            writer.append(finished, None, 2)

        def ended(*, fast: bool) -> list[str]:
            seen.clear()
            try:
                return [str(replayed(program, made, fast=fast)), *seen]
            except RefoldError as error:
                return [repr(error), *seen]

        assert ended(fast=True) == ended(fast=False)
