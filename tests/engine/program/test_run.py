"""What programs see: values that are recorded, the same names awaited or plain (CONTRACT.md §9)."""

import asyncio
import contextvars
import datetime as dt
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from refold.engine.errors import ModelError, ToolError
from refold.engine.events.limits import Limits
from refold.engine.log.reader import read_entries
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import Delegation, ToolDefinition
from refold.engine.program.run import PlainRun, Run, current_run
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.replay.audit.verify import verify
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.support.loops import for_each
from tests.support.steps import fetch, search

TOOLS = [search, fetch]


def ran(tmp_path: Path, program: Any, name: str = "a", **options: Any) -> Recording:
    """Record a program, and make sure that its log re-executes."""
    given: dict[str, Any] = {"tools": TOOLS, "seed": 1} | options
    recording = record(program, log=tmp_path / f"{name}.jsonl", **given)
    report = reexecute(recording.log, program, tools=given["tools"])
    assert report.identical, str(report)
    return recording


def data_of(recording: Recording, kind: str) -> list[Any]:
    return [entry.data for entry in read_entries(recording.log) if entry.kind == kind]


# --- time --------------------------------------------------------------------------------------


def test_now_is_aware_and_stands_still_within_a_step(tmp_path: Path) -> None:
    """One line a step, and only where the program looks."""

    async def program(run: Run, _input: Any) -> Any:
        first, second = run.now(), run.now()
        await run.sleep(0.002)
        third = run.now()
        return [first.tzinfo is dt.UTC, first == second, third > second]

    recording = ran(tmp_path, program)

    assert recording.output == [True, True, True]
    assert len(data_of(recording, "clock.read")) == 2


def test_a_program_that_never_looks_has_no_time_in_its_log(tmp_path: Path) -> None:
    """Timeouts and sleeps are no looks."""

    async def program(run: Run, _input: Any) -> Any:
        async with asyncio.timeout(60):
            await run.tool("search", q="a")
        await asyncio.wait_for(run.tool("search", q="b"), 60)

    assert data_of(ran(tmp_path, program), "clock.read") == []


def test_a_fixed_clock_fixes_what_the_program_sees(tmp_path: Path) -> None:
    """And deadlines go by real time all the same."""
    at = dt.datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=dt.UTC)

    async def program(run: Run, _input: Any) -> Any:
        before = run.now()
        await run.sleep(0.001)
        return [before.isoformat(), run.now() == before, asyncio.get_running_loop().time()]

    recording = ran(tmp_path, program, clock=FixedClock(at))

    assert recording.output == [at.isoformat(), True, 0.0]
    assert recording.duration_ms == 0


# --- what is drawn -----------------------------------------------------------------------------


async def draws(run: Run, more: bool) -> Any:  # noqa: FBT001 - the input
    if more:
        run.random("extra").random()
    first = [run.random("a").random(), run.random("b").random()]

    async def branch() -> float:
        return run.random("a").random()

    return [*first, await asyncio.create_task(branch()), run.random("a").random()]


def test_streams_do_not_shift_each_other(tmp_path: Path) -> None:
    """Case 51: a draw more in one, or in another scope, moves no other; seeds decide."""
    without = ran(tmp_path, program_with(draws, more=False), "a").output
    with_more = ran(tmp_path, program_with(draws, more=True), "b").output
    other_seed = ran(tmp_path, program_with(draws, more=False), "c", seed=2).output

    assert without == with_more
    assert len(set(without)) == 4
    assert not set(without) & set(other_seed)


def program_with(function: Any, **options: Any) -> Any:
    async def program(run: Run, _input: Any) -> Any:
        return await function(run, **options)

    return program


def test_a_stream_is_a_whole_random(tmp_path: Path) -> None:
    """The library's `random.Random`; its first use is a line, and no other."""

    async def program(run: Run, _input: Any) -> Any:
        stream = run.random("dice")
        return [stream.randint(1, 6), stream.choice("abc"), run.random("dice") is stream]

    recording = ran(tmp_path, program)

    assert recording.output[2] is True
    assert [data["name"] for data in data_of(recording, "value.drawn")] == ["dice"]


def test_uuids_are_drawn_from_the_seed(tmp_path: Path) -> None:
    """Version 4 in form, no two alike; the same under the same seed."""

    async def program(run: Run, _input: Any) -> Any:
        return [run.uuid() for _ in range(100)]

    one, two, other = (
        ran(tmp_path, program, name, seed=seed).output
        for name, seed in (("a", 1), ("b", 1), ("c", "text"))
    )

    form = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
    assert all(form.fullmatch(text) for text in one)
    assert len(set(one)) == 100
    assert one == two
    assert not set(one) & set(other)


def test_without_a_seed_every_run_draws_its_own(tmp_path: Path) -> None:
    """And re-executes all the same: the seed is recorded."""

    async def program(run: Run, _input: Any) -> Any:
        return [run.uuid(), run.random().random(), run.id]

    one, two = (ran(tmp_path, program, name, seed=None).output for name in "ab")

    assert not set(one) & set(two)


def test_files_and_variables_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded, so that replay needs neither the disk nor the environment."""
    prompt = tmp_path / "prompt.txt"
    prompt.write_text("be brief", encoding="utf-8")
    monkeypatch.setenv("REFOLD_TEST_VALUE", "x")

    async def program(run: Run, _input: Any) -> Any:
        return [
            run.read_text(prompt),
            run.read_text(tmp_path / "none"),
            run.environment("REFOLD_TEST_VALUE"),
            run.environment("REFOLD_TEST_NONE"),
        ]

    recording = ran(tmp_path, program)
    assert recording.output == ["be brief", None, "x", None]

    prompt.unlink()
    monkeypatch.delenv("REFOLD_TEST_VALUE")
    assert reexecute(recording.log, program).identical


def test_a_remark_is_a_line(tmp_path: Path) -> None:
    """Text and data, under a call key of its own."""

    async def program(run: Run, _input: Any) -> None:
        run.annotate("seen", {"n": 1})
        run.annotate("plain")

    found = data_of(ran(tmp_path, program), "note.added")

    assert [(data["text"], data.get("data")) for data in found] == [
        ("seen", {"n": 1}),
        ("plain", None),
    ]


def test_a_run_knows_itself(tmp_path: Path) -> None:
    """Its id, depth, limits and tools, the same in replay."""

    async def program(run: Run, _input: Any) -> Any:
        names = [one.name for one in run.tools]
        return [len(run.id), run.depth, run.limits.max_depth, names, run.call]

    recording = ran(tmp_path, program, limits=Limits(max_depth=3))

    assert recording.output == [16, 0, 3, ["fetch", "search"], ""]


# --- tools and models --------------------------------------------------------------------------


@attrs.frozen
class Point:
    x: float
    tags: tuple[str, ...] = ()


def test_results_have_the_types_that_the_tool_declares(tmp_path: Path) -> None:
    """Alike when recorded and when re-executed; an int does for a float."""

    @tool(effect="pure")
    def moved(point: Point, by: float) -> Point:
        return Point(point.x + by, ("moved",))

    kinds: list[Any] = []

    async def program(run: Run, _input: Any) -> Any:
        point = await run.tool(moved, point=Point(1), by=2)
        kinds.append((type(point), point))
        return point.x

    assert ran(tmp_path, program, tools=[moved]).output == 3.0
    assert kinds == [(Point, Point(3.0, ("moved",)))] * 2


def test_a_tool_may_have_parameters_of_any_name(tmp_path: Path) -> None:
    """`tool`, `self`, `run`: no option of `run.tool` is in the way."""

    @tool(effect="pure")
    def odd(tool: str, name: str, run: str) -> str:
        return tool + name + run

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool(odd, tool="a", name="b", run="c")

    assert ran(tmp_path, program, tools=[odd]).output == "abc"


def test_a_tool_error_may_be_caught(tmp_path: Path) -> None:
    """What failed, with which code, and the name of the class behind it."""

    @tool(effect="pure")
    def breaks() -> None:
        raise LookupError("gone")

    async def program(run: Run, _input: Any) -> Any:
        with pytest.raises(ToolError) as caught:
            await run.tool(breaks)
        return [caught.value.code, caught.value.message, caught.value.error_type]

    assert ran(tmp_path, program, tools=[breaks]).output == ["raised", "gone", "LookupError"]


def test_models_are_asked_by_name(tmp_path: Path) -> None:
    """The default, another, and one that nobody gave."""
    models = {"big": ScriptedModel(["from big"], "big")}

    async def program(run: Run, _input: Any) -> Any:
        asks = [{"role": "user", "content": "hi"}]
        offered = ToolDefinition(name="x", description="", parameters={})
        one = await run.model(asks, tools=["search", fetch, offered], temperature=0)
        two = await run.model(asks, model="big")
        with pytest.raises(ModelError, match="no_model"):
            await run.model(asks, model="none")
        return [one.message["content"], two.message["content"]]

    recording = ran(tmp_path, program, model=ScriptedModel(["from small"]), models=models)

    assert recording.output == ["from small", "from big"]


@tool
def adds(a: int, b: int) -> int:
    """Be wrong about what it returns."""
    wrong: Any = str(a + b)
    return wrong  # type: ignore[no-any-return]  # the point of the test


CALLS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda run: run.tool(adds, 1, 2), "run.tool(adds, a=…, b=…)"),
    (lambda run: run.tool(adds, a=1, c=2), "unknown argument 'c' (it takes a, b)"),
    (lambda run: run.tool(adds, a=1, c=2), "adds: argument 'b' is missing; "),
    (lambda run: run.tool(adds, a=1, b=2), "adds: returned string '3' and not an integer, as its"),
    (lambda run: run.model("hi"), "messages must be a list of {role, content} objects"),
    (lambda run: run.model({"role": "user"}), "messages must be a list of {role, content} objects"),
    (lambda run: run.model(["hi"]), "objects, found str 'hi'"),
    (lambda run: run.model([{"tool_calls": 5}]), "/messages/0/tool_calls: expected an array of"),
    (lambda run: run.model([]), "no model was given: pass record(…, model=…)"),
    (lambda run: run.model([], model="big"), "pass record(…, models={'big': …})"),
]


@for_each("call, words", CALLS)
def test_a_wrong_call_says_how_it_is_made(tmp_path: Path, call: Any, words: str) -> None:
    """To programs of both kinds."""

    async def program(run: Run, _input: Any) -> Any:
        await call(run)

    def plainly(run: PlainRun, _input: Any) -> Any:
        call(run)

    for name, kind in (("a", program), ("b", plainly)):
        error = ran(tmp_path, kind, name).error
        assert error is not None
        assert words in error.message


def test_a_missing_await_is_asked_for(tmp_path: Path) -> None:
    """Where a value is expected and a coroutine found."""
    forgotten = _three()

    async def program(_run: Run, _input: Any) -> Any:
        return forgotten

    error = ran(tmp_path, program).error
    forgotten.close()

    assert error is not None
    assert "(is an await missing?)" in error.message


# --- children ----------------------------------------------------------------------------------


async def echoes(run: Run, value: Any) -> Any:
    await run.sleep(value["sleep"])
    return [value["name"], run.depth]


def child(name: str, sleep: float = 0.0) -> Delegation:
    return Delegation(program=echoes, input={"name": name, "sleep": sleep}, brief=name)


def test_joins_give_outcomes_in_the_order_asked(tmp_path: Path) -> None:
    """Whatever ended first; one child may be joined twice; none is no wait."""

    async def program(run: Run, _input: Any) -> Any:
        slow, fast = await run.start(child("slow", 0.05)), await run.start(child("fast"))
        one = await run.join(slow, fast)
        again = await run.join(fast, slow)
        assert await run.join() == ()
        return [[outcome.output[0] for outcome in outcomes] for outcomes in (one, again)]

    assert ran(tmp_path, program).output == [["slow", "fast"], ["fast", "slow"]]


def test_join_first_gives_whichever_ends_first(tmp_path: Path) -> None:
    """And can be asked again for the rest."""

    async def program(run: Run, _input: Any) -> Any:
        children = [await run.start(child("slow", 0.3)), await run.start(child("fast"))]
        first = await run.join_first(*children)
        second = await run.join_first(*(one for one in children if one is not first))
        return [first.outcome.output[0], second.outcome.output[0]]  # type: ignore[union-attr]  # joined

    assert ran(tmp_path, program).output == ["fast", "slow"]


def test_a_cancelled_join_leaves_its_children_running(tmp_path: Path) -> None:
    """They may be joined again."""

    async def program(run: Run, _input: Any) -> Any:
        one = await run.start(child("one", 0.1))
        try:
            async with asyncio.timeout(0.01):
                await run.join(one)
        except TimeoutError:
            (outcome,) = await run.join(one)
            return outcome.output

    assert ran(tmp_path, program).output == ["one", 1]


def test_a_cancelled_delegate_cancels_its_child(tmp_path: Path) -> None:
    """Nobody else could join it."""

    async def program(run: Run, _input: Any) -> Any:
        try:
            async with asyncio.timeout(0.05):
                await run.delegate(child("one", 60))
        except TimeoutError:
            return "cancelled"

    recording = ran(tmp_path, program)

    assert recording.output == "cancelled"
    found = [data["outcome"]["status"] for data in data_of(recording, "child.finished")]
    assert found == ["cancelled"]


# --- plain programs ----------------------------------------------------------------------------


def everything_plainly(run: PlainRun, value: Any) -> Any:
    found = run.tool("search", q=value)
    run.sleep(0.001)
    reply = run.model([{"role": "user", "content": "hi"}])
    one, two = run.start(child("one")), run.start(child("two"))
    outcomes = run.join(two, one)
    run.join_first(third := run.start(child("third")))
    run.annotate("note", [run.uuid(), run.random("s").random(), run.now().isoformat()])
    asked = run.tool("asks", q="b")
    alone = run.delegate(child("alone"))
    return [
        found,
        reply.message["content"],
        [outcome.output for outcome in (*outcomes, third.outcome, alone) if outcome],
        asked,
    ]


async def everything(run: Run, value: Any) -> Any:
    found = await run.tool("search", q=value)
    await run.sleep(0.001)
    reply = await run.model([{"role": "user", "content": "hi"}])
    one, two = await run.start(child("one")), await run.start(child("two"))
    outcomes = await run.join(two, one)
    await run.join_first(third := await run.start(child("third")))
    run.annotate("note", [run.uuid(), run.random("s").random(), run.now().isoformat()])
    asked = await run.tool("asks", q="b")
    alone = await run.delegate(child("alone"))
    return [
        found,
        reply.message["content"],
        [outcome.output for outcome in (*outcomes, third.outcome, alone) if outcome],
        asked,
    ]


async def _asks(run: Run, arguments: dict[str, Any]) -> Any:
    return [await run.tool("search", q=arguments["q"]), run.call]


def test_plain_programs_do_the_same_under_the_same_names(tmp_path: Path) -> None:
    """No thread, no await; the same calls, keys and results."""
    asks = DelegationTool(name="asks", description="", parameters={}, handler=_asks)
    found = []
    for name, program in (("a", everything), ("b", everything_plainly)):
        options = {"tools": [*TOOLS, asks], "clock": FixedClock(), "model": ScriptedModel(["yes"])}
        recording = record(program, "x", log=tmp_path / f"{name}.jsonl", seed=1, **options)
        assert recording.ok, recording.error
        assert reexecute(recording.log, program, tools=[asks]).identical
        lines = [
            (entry.kind, entry.call, entry.data)
            for entry in read_entries(recording.log)
            if entry.kind in ("tool.called", "tool.returned", "value.drawn", "note.added")
        ]
        found.append((recording.output, lines))

    assert found[0][0] == found[1][0]
    plain, awaited = ([line[0] for line in lines] for _, lines in found)
    assert plain == awaited


VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("VARIABLE", default="unset")


def test_context_variables_reach_program_and_tools(tmp_path: Path) -> None:
    """Case 48: those of the caller; what the program sets no tool sees, for tools are the world."""

    @tool(effect="reads")
    def sees() -> str:
        return VARIABLE.get()

    @tool(effect="reads", timeout_seconds=10)
    def sees_on_a_worker() -> str:
        return VARIABLE.get()

    def program(run: PlainRun, _input: Any) -> Any:
        before = VARIABLE.get()
        return [before, run.tool(sees), run.tool(sees_on_a_worker)]

    VARIABLE.set("mine")
    recording = record(program, log=tmp_path / "a.jsonl")
    VARIABLE.set("unset")

    assert recording.output == ["mine"] * 3


def test_tools_may_run_loops_of_their_own(tmp_path: Path) -> None:
    """A tool is the world: `asyncio.run` in it is its own affair, in place or on a worker."""

    @tool(effect="reads")
    def here() -> int:
        return asyncio.run(_three())

    @tool(effect="reads", timeout_seconds=10)
    def elsewhere() -> int:
        return asyncio.run(_three())

    async def program(run: Run, _input: Any) -> Any:
        return [await run.tool(here), await run.tool(elsewhere)]

    def plain(run: PlainRun, _input: Any) -> Any:
        return [run.tool(here), run.tool(elsewhere)]

    assert ran(tmp_path, program, "a", tools=[here, elsewhere]).output == [3, 3]
    assert ran(tmp_path, plain, "b", tools=[here, elsewhere]).output == [3, 3]


async def _three() -> int:
    await asyncio.sleep(0)
    return 3


# --- models that nobody gave ---------------------------------------------------------------------


def test_a_model_can_be_passed_itself(tmp_path: Path) -> None:
    """As a tool can; the log has its name, and a replay asks neither."""
    mine = ScriptedModel(["mine"], name="mine")
    asked = [{"role": "user", "content": "?"}]

    async def program(run: Run, _input: Any) -> Any:
        return (await run.model(asked, model=mine)).message["content"]

    def plain(run: PlainRun, _input: Any) -> Any:
        return run.model(asked, model=mine).message["content"]

    recording = ran(tmp_path, program)

    assert (recording.output, ran(tmp_path, plain, "b").output) == ("mine", "mine")
    assert [data["model"] for data in data_of(recording, "model.asked")] == ["mine"]


def test_a_program_is_known_by_its_loop(tmp_path: Path) -> None:
    """What is awaited in it, however deep, can ask whose it is; nothing else can."""

    async def program(run: Run, _input: Any) -> Any:
        async def deep() -> bool:
            return current_run() is run

        return await asyncio.gather(deep(), deep())

    assert ran(tmp_path, program).output == [True, True]
    assert current_run() is None


# --- mistakes ----------------------------------------------------------------------------------


async def _nothing(_run: Run, _input: Any) -> None: ...


def _child(**members: Any) -> Delegation:
    return Delegation(**({"program": _nothing} | members))


async def _joined_outcome(run: Run) -> Any:
    return await run.join(await run.delegate(_child()))  # type: ignore[call-overload]


async def _joined_unawaited(run: Run) -> Any:
    return await run.join(run.start(_child()))  # type: ignore[call-overload]


def _at_once(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def mistake(run: Run) -> Any:
        return call(run)

    return mistake


async def _cancelled_text(run: Run) -> Any:
    run.cancel("child")  # type: ignore[arg-type]


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (
        lambda run: run.delegate("x"),
        "found str",
    ),
    (lambda run: run.start(_nothing), "found function"),
    (lambda run: run.join([1]), "run.start returned, one by one: run.join(*children); found"),
    (lambda run: run.join_first(), "run.join_first() needs at least one child"),
    (lambda run: run.join_first("x"), "takes the children that run.start returned; found str"),
    (_joined_outcome, "returned, and run.delegate has already waited for this outcome; found"),
    (_joined_unawaited, "found coroutine (is an await missing?)"),
    (_cancelled_text, "run.cancel takes the children that run.start returned; found str"),
    (
        _at_once(lambda run: run.environment(3)),
        "run.environment takes the name of a v",
    ),
    (
        _at_once(lambda run: run.settings("a", 3)),
        "run.settings takes a function without",
    ),
    (_at_once(lambda run: run.annotate(3)), "run.annotate takes a string, and then data; found"),
    (_at_once(lambda run: run.random(3)), "takes the name of a stream; found int"),
    (_at_once(lambda run: run.patched(3)), "run.patched takes a string; found int"),
    (_at_once(lambda run: run.secret(3)), "takes the name of a secret; found int"),
    (lambda run: run.model([], model=3), "expected a model or its name; found int"),
    (lambda run: run.model([], tools="get"), "expected a list of tools; found str 'get'"),
    (
        lambda run: run.delegate(_child(limits={"max_depth": 1})),
        "expected refold.Limits(max_depth=…)",
    ),
    (lambda run: run.delegate(_child(levels="1")), "expected a number of levels; found"),
    (lambda run: run.delegate(_child(part="1")), "expected a number of tokens; found"),
    (lambda run: run.delegate(_child(part=-1)), "a number of tokens, at least 0; found"),
    (lambda run: run.delegate(_child(tools=3)), "Delegation(tools=…): expected a list of names"),
    (lambda run: run.delegate(_child(session={})), "Delegation(session=…): expected a session"),
    (lambda run: run.delegate(_child(program=3)), "Delegation(program=…): expected a function"),
    (lambda run: run.delegate(_child(brief=3)), "Delegation(brief=…): expected a string; found"),
    (lambda run: run.delegate(_child(runner=3)), "Delegation(runner=…): expected a runner's name"),
    (lambda run: run.sleep("1"), "run.sleep takes a number of seconds; found str '1'"),
    (lambda run: run.sleep(float("nan")), "takes a number of seconds; found float nan"),
    (
        _at_once(lambda run: run.annotate("a", measured=[3])),
        "run.annotate(measured=…): expected a list of strings",
    ),
    (_at_once(lambda run: run.annotate("a", {}, measured="/a")), 'strings, ["/a"]; found'),
    (
        _at_once(lambda run: run.annotate("a", ids=3)),
        "run.annotate(ids=…): expected a list of strings",
    ),
    (_at_once(lambda run: run.read_text("")), "run.read_text takes the path of a file; found"),
    (_at_once(lambda run: run.read_text(b"x")), "run.read_text takes the path of a file; found"),
    (lambda run: run.delegate(_child(policy={})), "expected a refold.tools.Policy(…); found"),
    (
        lambda run: run.delegate(_child(tools="search")),
        "expected a list of names: tools=['search']",
    ),
    (
        lambda run: run.delegate(_child(tools=[search])),
        "pass the child's own tools in own_tools; found",
    ),
    (lambda run: run.delegate(_child(own_tools=search)), "expected a list of tools; found"),
    (lambda run: run.delegate(_child(own_tools=[_nothing])), "as @refold.tool makes them; found"),
]


@pytest.mark.filterwarnings("ignore:run.start")
@pytest.mark.parametrize(("mistake", "said"), MISTAKES)
def test_a_usual_mistake_is_said_in_the_words_of_the_caller(
    mistake: Callable[[Any], Any], said: str, tmp_path: Path
) -> None:
    """With the line that made it, and in the same words by a re-execution."""

    async def program(run: Run, _input: Any) -> Any:
        return await mistake(run)

    recording = ran(tmp_path, program)

    assert recording.error is not None
    assert recording.error.message.startswith("UsageError: ")
    assert said in recording.error.message
    assert "test_run.py:" in recording.where
    assert verify(recording.log).intact


@pytest.mark.parametrize("call", ["join", "cancel"])
def test_only_the_run_that_started_a_child_joins_and_cancels_it(call: str, tmp_path: Path) -> None:
    """A join would wait for ever, and a cancellation could end a child with the same call key."""

    async def waits(run: Run, _: Any) -> None:
        await run.sleep(60)

    async def program(run: Run, _input: Any) -> Any:
        sibling = await run.start(_child(program=waits))

        async def other(run: Run, _: Any) -> None:
            await run.join(sibling) if call == "join" else run.cancel(sibling)

        return (await run.delegate(_child(program=other))).result()

    recording = record(program, None, log=tmp_path / "a.jsonl")

    assert recording.error is not None
    assert f"run.{call} takes children of the same run; " in recording.error.message
    assert f"must {call} it" in recording.error.message


def test_a_child_says_who_cancelled_it(tmp_path: Path) -> None:
    """Its parent; in its own log, in its parent's, and when its log is re-executed alone."""

    async def waits(run: Run, _: Any) -> None:
        await run.sleep(60)

    async def program(run: Run, _input: Any) -> Any:
        child = await run.start(_child(program=waits))
        run.cancel(child)
        (outcome,) = await run.join(child)
        return outcome.error.message if outcome.error else ""

    recording = ran(tmp_path, program)

    child = tmp_path / "a.1.jsonl"
    asked, ended = [each.data for each in read_entries(child)][1:]
    assert recording.output == ended["error"]["message"] == "cancelled by its parent"
    assert asked == {"kind": "run", "by": "parent"}
    assert verify(child).intact
    assert reexecute(child, waits).identical


async def _join_together(run: Any, child: Any) -> Any:
    return await asyncio.gather(run.join(child))


_MEDDLING: Final[list[tuple[str, Any]]] = [
    ("join", lambda run, child: run.join(child)),
    ("join", lambda run, child: run.join_first(child)),
    ("join", _join_together),
    ("cancel", lambda run, child: run.cancel(child)),
]


@pytest.mark.parametrize("allowed", [1, 0], ids=["ended", "rejected"])
@pytest.mark.parametrize(("call", "meddle"), _MEDDLING)
def test_only_the_run_that_started_a_child_joins_and_cancels_it_once_it_has_ended(
    call: str, meddle: Any, allowed: int, tmp_path: Path
) -> None:
    """A handle that has its outcome is refused like one that is open, by a run and a plain run."""
    kept: list[Any] = []

    async def middle(run: Run, _: Any) -> str:
        kept.append(child := await run.start(_child(limits=Limits(max_children=0))))
        (outcome,) = await run.join(child)
        assert (await run.join_first(child)) is child
        run.cancel(child)
        return outcome.status

    async def program(run: Run, _input: Any) -> Any:
        limits = Limits(max_children=allowed)
        run.annotate((await run.delegate(_child(program=middle, limits=limits))).result())
        done = meddle(run, kept[0])
        await done if done is not None else None

    def plain(run: PlainRun, _input: Any) -> Any:
        run.delegate(_child(program=middle, limits=Limits(max_children=allowed)))
        run.cancel(kept[0]) if call == "cancel" else run.join(kept[0])

    for name, each in (("a", program), ("plain", plain)):
        kept.clear()
        recording = record(each, None, log=tmp_path / f"{name}.jsonl")

        assert recording.error is not None
        message = recording.error.message
        assert f"run.{call} takes children of the same run; " in message
        assert ("; the rejected child 0#1 was" in message) is not bool(allowed)
        assert f"must {call} it" in message
    notes = [
        each.data["text"]
        for each in read_entries(tmp_path / "a.jsonl")
        if each.kind == "note.added"
    ]
    assert notes == ["completed" if allowed else "rejected"]


def test_a_child_is_given_no_tool_that_its_run_has_not(tmp_path: Path) -> None:
    """A program's own start; one that was recorded before there was the rule replays as it did."""

    async def program(run: Run, _input: Any) -> Any:
        own = tool(effect="reads", name="own")(lambda: None)
        known = await run.delegate(_child(tools=["search", "own"], own_tools=(own,)))
        run.annotate(known.status)
        return (await run.delegate(_child(tools=["serch"]))).status

    recording = ran(tmp_path, program, tools=[search])

    assert recording.error is not None
    assert "no tool is named 'serch'; known: search" in recording.error.message
    assert [e.data["text"] for e in read_entries(recording.log) if e.call == "0#2"] == ["completed"]
    assert reexecute(recording.log, program).identical


def test_what_a_model_is_offered_is_a_part_of_its_request(tmp_path: Path) -> None:
    """Other words of a tool, and none at all, are another request."""
    offered: list[ToolDefinition] = []

    async def program(run: Run, _input: Any) -> Any:
        return (await run.model([{"role": "user", "content": "hi"}], tools=offered)).message

    made = [
        ToolDefinition(name="look", description=words, parameters={"type": "object"})
        for words in ("Look.", "Find.")
    ]
    offered[:] = made[:1]
    recording = ran(tmp_path, program, model=ScriptedModel(["hello"]))
    assert reexecute(recording.log, program).identical
    for other in (made[1:], []):
        offered[:] = other
        assert not reexecute(recording.log, program).identical


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """Python's own error says neither which file it was nor what to do."""
    (tmp_path / "a.bin").write_bytes(b"\xff")

    async def program(run: Run, _input: Any) -> Any:
        return run.read_text(tmp_path / "a.bin")

    recording = record(program, log=tmp_path / "a.jsonl")

    assert recording.error is not None
    assert "a.bin is not UTF-8 text: read it in a tool" in recording.error.message


def test_what_python_itself_raises_is_told_by_the_programs_line(tmp_path: Path) -> None:
    """Not by one of `<frozen os>`, where the error was raised."""

    async def program(run: Run, _input: Any) -> Any:
        return os.environ[run.depth]  # type: ignore[index]  # that is the point

    recording = ran(tmp_path, program)

    assert "test_run.py:" in recording.where
