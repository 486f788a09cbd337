"""The living world of a run: one thing at a time, failures as data, limits as events (§8, §9)."""

import asyncio
import contextlib
import functools
import itertools
import math
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from traceback import walk_stack
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refold.engine.errors import LimitReached, ModelError, NotCanonical, ToolError, UsageError
from refold.engine.events.events import LimitHit
from refold.engine.events.limits import CHILDREN_AT_ONCE, Limits
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.log.reader import Entry, read_entries
from refold.engine.log.writer import SystemDisk
from refold.engine.loop.loop import frames
from refold.engine.models.scripted import FunctionModel, ScriptedModel
from refold.engine.ports.clock import FixedClock
from refold.engine.ports.ports import (
    CallContext,
    CancelSignal,
    Delegation,
    ModelReply,
    ModelRequest,
    Tool,
)
from refold.engine.program.run import PlainRun, Run
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import unset_hits
from refold.engine.recording.workers import WORKERS_MAX
from refold.engine.runners.child_run import recorder_of
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record
from refold.engine.secrets.redaction import Redaction
from refold.engine.session import Session
from refold.engine.state.folding import Fold
from refold.replay.audit.refolding import refold_log
from refold.replay.audit.verify import verify
from refold.replay.reexecute.reexecute import reexecute
from refold.tools.contract.tool_types import DelegationTool, tool
from tests.engine.conftest import Make
from tests.support.interrupted import sees_late, wait_until_given_up
from tests.support.loops import for_each
from tests.support.scripted_runners import Scripted
from tests.support.shown_runs import nothing, see_children_end
from tests.support.steps import search

PATIENCE_SECONDS = 60
TOO_LONG = ["x" * 1_000] * 1_100
"""Too long for a line, of strings that are too short to be put elsewhere."""


def ran(tmp_path: Path, program: Any, **options: Any) -> Recording:
    """Record a program; its log is sound, and re-executes."""
    recording = record(program, log=tmp_path / "a.jsonl", seed=1, **options)
    assert verify(recording.log).intact
    report = reexecute(recording.log, program, tools=options.get("tools", ()))
    assert report.identical, str(report)
    return recording


def test_a_run_is_as_durable_as_was_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never, where it must, or after each entry."""
    synced: list[int] = []
    monkeypatch.setattr(SystemDisk, "sync", staticmethod(synced.append))

    async def notes(run: Run, _input: Any) -> None:
        for number in range(9):
            run.annotate(str(number))

    counts = {}
    for durability in ("fast", "group", "strict"):
        synced.clear()
        recording = record(notes, log=tmp_path / f"{durability}.jsonl", durability=durability)
        counts[durability] = len(synced)

    assert counts["fast"] == 0 < counts["group"] < recording.entries
    assert counts["strict"] >= recording.entries


def lines(recording: Recording, *kinds: str) -> list[Entry]:
    return [entry for entry in read_entries(recording.log) if not kinds or entry.kind in kinds]


async def failure_of(run: Run, which: Tool | str, **arguments: Any) -> list[str]:
    with pytest.raises(ToolError) as caught:
        await run.tool(which, **arguments)
    return [caught.value.code, caught.value.error_type]


# --- order -------------------------------------------------------------------------------------


def test_a_request_is_a_line_before_its_effect_starts(tmp_path: Path) -> None:
    """What is not in the log did not happen: the tool finds its own request there."""
    log = tmp_path / "a.jsonl"

    @tool(effect="changes")
    def reads_the_log(context: CallContext) -> str:
        return [entry.call or "" for entry in read_entries(log)][-1] + " " + context.call

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool("reads_the_log")

    assert record(program, log=log, tools=[reads_the_log]).output == "0#1 0#1"


@pytest.fixture
def behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return what tells how many lines of `a.jsonl` are not on disk yet."""
    log, durable = tmp_path / "a.jsonl", [0]

    def lines() -> int:
        return log.read_bytes().count(b"\n")

    def sync(descriptor: int, /) -> None:
        if os.fstat(descriptor).st_ino == log.stat().st_ino:
            durable[0] = lines()

    monkeypatch.setattr(SystemDisk, "sync", staticmethod(sync))
    return lambda: lines() - durable[0]


@pytest.mark.parametrize("redacts", [False, True])
def test_the_log_is_durable_before_and_after_what_may_change_the_world(
    tmp_path: Path, behind: Callable[[], int], *, redacts: bool
) -> None:
    """§4.4: around models, children, people and such tools, in place or beside others."""

    @tool(effect="reads")
    def look() -> int:
        return behind()

    @tool(effect="changes")
    def change() -> int:
        return behind()

    @tool(effect="idempotent")
    def put() -> int:
        return behind()

    @tool(effect="changes", timeout_seconds=60)
    def beside() -> int:
        return behind()

    async def child(_run: Run, _input: Any) -> int:
        return behind()

    async def program(run: Run, _input: Any) -> Any:
        found: list[Any] = [await run.tool(look), await run.tool(look)]
        for each in (change, put, beside):
            found += [await run.tool(each), await run.tool(look)]
        found += [(await run.model([])).message["content"], await run.tool(look)]
        found += [(await run.delegate(Delegation(program=child))).output, await run.tool(look)]
        return [*found, await run.ask("?"), await run.tool(look)]

    rules = Redaction(secrets=("never said by anyone",)) if redacts else None
    model = FunctionModel(lambda _request: str(behind()))
    options: Any = {"ask": lambda _question: behind(), "model": model, "redaction": rules}
    recording = record(program, log=tmp_path / "a.jsonl", **options)

    assert recording.output == [1, 3, *[0, 1] * 3, "0", 1, *[0, 1] * 2]


def test_the_log_of_a_run_that_waits_for_a_person_is_durable(
    tmp_path: Path, behind: Callable[[], int]
) -> None:
    """Whoever is told of the question may rely on the answer's finding it."""

    @tool(effect="reads", timeout_seconds=60)
    def look() -> None:
        """Look, while the question is open already."""

    async def program(run: Run, _input: Any) -> None:
        await asyncio.gather(run.ask("?"), run.tool(look))

    recording = record(program, log=tmp_path / "a.jsonl")

    assert (recording.status, behind()) == ("suspended", 0)


def test_exactly_one_line_from_the_world_opens_a_step(tmp_path: Path) -> None:
    """Whatever has arrived: a completion, what the program makes of it, the next one."""
    gate = threading.Barrier(4)

    @tool(effect="reads")
    def together(x: int) -> int:
        gate.wait(60)
        return x

    async def branch(run: Run, x: int) -> None:
        run.annotate("after", await run.tool(together, x=x))

    async def program(run: Run, _input: Any) -> None:
        await asyncio.gather(*(branch(run, x) for x in range(4)))

    kinds = [entry.kind for entry in lines(ran(tmp_path, program))]

    assert kinds == [
        "run.started",
        *["tool.called"] * 4,
        *["tool.returned", "note.added"] * 4,
        "run.finished",
    ]


def test_every_completion_names_its_request(tmp_path: Path) -> None:
    """`cause` is the entry that asked, or the one that opened the step."""

    async def program(run: Run, _input: Any) -> None:
        await asyncio.gather(run.tool(search, q="a"), run.tool(search, q="b"))

    entries = lines(ran(tmp_path, program))

    for entry in entries:
        if entry.kind == "tool.returned":
            assert entry.cause is not None
            asked = entries[entry.cause]
            assert (asked.kind, asked.call) == ("tool.called", entry.call)


def test_a_due_timer_goes_before_an_arrival(tmp_path: Path) -> None:
    """Or a stream of completions could starve it."""

    @tool(effect="reads")
    async def quick() -> None:
        await asyncio.sleep(0.001)

    async def program(run: Run, _input: Any) -> Any:
        try:
            async with asyncio.timeout(0.4):
                while True:
                    await asyncio.gather(run.tool(quick), run.tool(quick))
        except TimeoutError:
            return "in time"

    assert ran(tmp_path, program, durability="fast").output == "in time"


def test_a_moment_that_the_program_set_is_kept(tmp_path: Path) -> None:
    """A deadline over several calls counts from when it was set, whatever was looked at since."""

    @tool(effect="reads")
    async def works(seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def program(run: Run, _input: Any) -> str:
        deadline = asyncio.get_running_loop().time() + 1
        await run.tool(works, seconds=0.8)
        try:
            async with asyncio.timeout_at(deadline):
                await run.tool(works, seconds=0.8)
        except TimeoutError:
            return "in time"
        return "too late"

    assert ran(tmp_path, program).output == "in time"


def test_timers_that_are_due_at_once_fire_in_the_order_of_creation(tmp_path: Path) -> None:
    """And those of one step by their lengths, however long it works in between (§9.3)."""

    async def program(_run: Run, _input: Any) -> list[Any]:
        loop, said = asyncio.get_running_loop(), list[Any]()
        loop.call_later(0.02, said.append, "long")
        at = loop.time() + 0.001
        for number in range(5):
            loop.call_at(at, said.append, number)
        work_until = time.monotonic() + 0.015
        while time.monotonic() < work_until:
            pass
        loop.call_later(0.01, said.append, "short")
        await asyncio.sleep(0.021)
        return said

    recorded = ran(tmp_path, program)

    assert recorded.output == [0, 1, 2, 3, 4, "short", "long"]
    lengths = [
        (entry.call, entry.data.get("length_us"), entry.data["nth"])
        for entry in read_entries(recorded.log)
        if entry.kind == "timer.fired"
    ]
    assert lengths == [
        *((f"0@{number}", 1_000, number - 1) for number in range(2, 7)),
        ("0@7", 10_000, 1),
        ("0@1", 20_000, 1),
        ("0@8", 21_000, 1),
    ]


def test_how_long_a_timer_was_is_no_part_of_a_digest(tmp_path: Path) -> None:
    """What is left of a time is another one in each run, which did the same (§6.2)."""

    async def program(_run: Run, _input: Any, *, seconds: float) -> None:
        await asyncio.sleep(seconds)

    runs = [
        ran(tmp_path / name, functools.partial(program, seconds=seconds))
        for name, seconds in (("a", 0.001), ("b", 0.0011))
    ]

    assert runs[0].data_digest == runs[1].data_digest


@pytest.mark.parametrize("clock", [None, FixedClock()])
def test_a_run_with_a_clock_of_its_own_says_that_it_tells_no_time(
    tmp_path: Path, clock: FixedClock | None
) -> None:
    """Timers go by another one."""

    async def program(_run: Run, _input: Any) -> None: ...

    first = next(read_entries(ran(tmp_path, program, clock=clock).log))

    assert first.data.get("untimed") == (True if clock else None)


def test_a_time_of_the_loop_is_a_number_to_a_log(tmp_path: Path) -> None:
    """What it is besides, the loop alone knows; as a tool's argument and as a result."""

    @tool(effect="pure")
    def same(at: float) -> float:
        return at

    async def program(run: Run, _input: Any) -> list[float | None]:
        async with asyncio.timeout(60) as limit:
            now = asyncio.get_running_loop().time() + 1
            return [limit.when(), now, await run.tool(same, at=now)]

    _, now, again = ran(tmp_path, program, tools=[same]).output

    assert now == again > 1


def test_a_cancelled_timer_keeps_nothing_alive(tmp_path: Path) -> None:
    """Generators are closed when the program lets go of them, live as in replay."""

    @tool(effect="reads")
    async def echo(number: int) -> int:
        return number

    async def program(run: Run, _input: Any) -> str:
        async def numbers(number: int) -> AsyncIterator[int]:
            try:
                yield await asyncio.wait_for(run.tool(echo, number=number), 60)
            finally:
                await run.tool(echo, number=-number)

        one, two, three = numbers(1), numbers(2), numbers(3)
        await asyncio.gather(anext(one), anext(two), anext(three))
        return "left open"

    assert ran(tmp_path, program).output == "left open"


def test_what_woke_a_task_keeps_nothing_alive(tmp_path: Path) -> None:
    """Nor does the future that was awaited: live, a program waits where a replay goes on."""

    @tool(effect="reads")
    async def echo(number: int) -> int:
        await asyncio.sleep(0.01)
        return number

    async def program(run: Run, _input: Any) -> list[int]:
        async def numbers() -> AsyncIterator[int]:
            yield await run.tool(echo, number=1)

        found = [*await asyncio.gather(anext(numbers()))]
        for number in (2, 3, 4):
            found.append(await run.tool(echo, number=number))
            await asyncio.create_task(run.tool(echo, number=-number))
        return found

    assert ran(tmp_path, program).output == [1, 2, 3, 4]


def test_a_timer_beyond_all_time_delays_nobody(tmp_path: Path) -> None:
    """Whoever sleeps for ever, or for longer than a machine can say, is cancelled as any other."""

    async def program(run: Run, _input: Any) -> bool:
        waits = [asyncio.ensure_future(run.sleep(seconds)) for seconds in (math.inf, 1e11)]
        await run.sleep(0.001)
        return all(wait.cancel() for wait in waits)

    assert ran(tmp_path, program).output is True
    assert ran(tmp_path / "b", program, limits=Limits(timeout_seconds=1e308)).output is True


def test_idempotency_keys_are_stable_and_distinct(tmp_path: Path) -> None:
    """64 hex digits, from the run and the call key."""
    seen: list[str] = []

    @tool(effect="idempotent")
    def keyed(context: CallContext) -> None:
        seen.append(context.idempotency_key)

    async def program(run: Run, _input: Any) -> None:
        await run.tool("keyed")
        await run.tool("keyed")

    for name in "ab":
        record(program, log=tmp_path / f"{name}.jsonl", seed=1, tools=[keyed])

    assert seen[:2] == seen[2:]
    assert len(set(seen)) == 2
    assert all(len(key) == 64 for key in seen)


def test_a_tool_that_says_nothing_of_a_context_is_given_it(tmp_path: Path) -> None:
    """One of a user's own, and a function that has a parameter for it beside others."""
    seen: list[str] = []

    @tool(effect="reads")
    def keyed(n: int, context: CallContext | None = None) -> int:
        seen.append(context.call if context is not None else "")
        return n

    class Own:
        def __getattr__(self, name: str) -> Any:
            if name == "takes_context":
                raise AttributeError(name)
            return {"name": "own", "call": self.run}.get(name) or getattr(keyed, name)

        def run(self, _arguments: Any, context: CallContext) -> int:
            seen.append(context.call)
            return 0

    async def program(run: Run, _input: Any) -> None:
        await run.tool("keyed", n=1)
        await run.tool("own")
        await asyncio.gather(run.tool("keyed", n=2), run.tool("own"))

    record(program, log=tmp_path / "a.jsonl", tools=[keyed, Own()])

    assert seen[:2] == ["0#1", "0#2"]
    assert sorted(seen[2:]) == ["0/1#1", "0/2#1"]


# --- failures of tools are data ----------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (LookupError("x"), "raised", "LookupError"),
        (SystemExit(3), "raised", "SystemExit"),
        (KeyboardInterrupt(), "raised", "KeyboardInterrupt"),
        (ToolError("t", "no room", "full", "Full"), "full", "Full"),
    ],
    ids=["exception", "exit", "interrupt", "own word"],
)
def test_whatever_a_tool_raises(
    tmp_path: Path,
    is_async: bool,  # noqa: FBT001 - a table
    error: BaseException,
    code: str,
    kind: str,
) -> None:
    """In place, on a worker, on the host loop: the program gets a ToolError, and goes on."""

    @tool(effect="reads")
    def plainly() -> None:
        raise error

    @tool(effect="reads", name="plainly")
    async def awaited() -> None:
        raise error

    which = awaited if is_async else plainly

    async def program(run: Run, _input: Any) -> Any:
        alone = await failure_of(run, which)
        both = await asyncio.gather(failure_of(run, which), failure_of(run, which))
        return [alone, *both]

    assert ran(tmp_path, program).output == [[code, kind]] * 3


def test_a_result_that_no_log_can_hold(tmp_path: Path) -> None:
    """Case 87: not what the annotation says, not canonical, or too long for a line."""

    @tool(effect="reads")
    def wrong() -> int:
        return "text"  # type: ignore[return-value]  # that is the point

    @tool(effect="reads")
    def nan() -> float:
        return float("nan")

    @tool(effect="reads")
    def long() -> list[str]:
        return TOO_LONG

    @tool(effect="reads", timeout_seconds=60)
    def beside() -> list[str]:
        return long()

    async def handler(_run: Run, _arguments: Any) -> Any:
        return object()

    hand_over = DelegationTool(name="hand_over", description="", parameters={}, handler=handler)

    async def program(run: Run, _input: Any) -> Any:
        return [await failure_of(run, one) for one in (wrong, nan, long, beside, hand_over)]

    *_, one, two, delegated = ran(tmp_path, program).output
    assert [one, two, delegated[:1]] == [["result", "NotCanonical"]] * 2 + [["result"]]


def test_so_it_is_with_an_answer_and_with_a_childs_result(tmp_path: Path) -> None:
    """Of a model, and of a runner of one's own: the log has a failure that says why."""
    long, nan = TOO_LONG, float("nan")

    class Long:
        name = "long"

        def complete(self, _request: ModelRequest, /) -> ModelReply:
            return ModelReply(message={"content": long})

    outcome = Outcome(status="completed", output=nan, duration_ms=7)

    async def anything(_run: Run, _input: Any) -> Any:
        return None

    async def program(run: Run, _input: Any) -> Any:
        with pytest.raises(ModelError) as caught:
            await run.model([])
        child = await run.delegate(Delegation(program=anything))
        assert child.error is not None
        why = [caught.value.message, child.error.message]
        return [caught.value.code, child.status, child.error.code, child.duration_ms, *why]

    runners = {"scripted": Scripted(outcome)}
    recording = record(
        program, log=tmp_path / "a.jsonl", model=Long(), runner="scripted", runners=runners
    )

    *facts, too_long, no_number = recording.output
    assert facts == ["malformed", "malformed", "output", 7]
    assert "bytes of data in one entry" in too_long
    assert "/outcome/output" in no_number
    assert verify(recording.log).intact


def test_a_child_whose_runner_cannot_have_it_fails_and_says_why(tmp_path: Path) -> None:
    """None of that name, or one that is elsewhere than its parent's session."""

    async def program(run: Run, _input: Any) -> Any:
        asked = [
            Delegation(program=nothing, runner="nowhere"),
            Delegation(program=nothing, runner="apart", shared=True),
            Delegation(program=nothing, runner="apart"),
        ]
        ended = [await run.delegate(each) for each in asked]
        return [each.error and [each.error.code, each.error.message] for each in ended]

    runners = {"apart": Scripted(Outcome(status="completed"))}
    recording = record(program, log=tmp_path / "a.jsonl", runners=runners)

    known = "apart, in-process, ray, subprocess"
    assert recording.output == [
        ["runner", f"no runner is named 'nowhere'; known: {known}"],
        ["session", "a child on the runner 'apart' cannot share its parent's session"],
        None,
    ]


def test_a_child_that_asks_for_tokens_is_granted_them(tmp_path: Path) -> None:
    """§8.3: half of what is left is for those that ask for no number."""

    async def program(run: Run, _input: Any) -> None:
        for limits in (Limits(model_tokens=80), None, Limits(model_tokens=500)):
            await run.delegate(Delegation(program=nothing, limits=limits))

    recording = ran(tmp_path, program, limits=Limits(model_tokens=100))

    starts = [entry.data["delegation"]["limits"] for entry in lines(recording, "child.started")]
    assert [limits["model_tokens"] for limits in starts] == [80, 50, 100]


def test_what_a_joined_child_used_is_counted_once(tmp_path: Path) -> None:
    """§8.3: of 100, one used 30, and whoever waits next is given all the rest."""
    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}

    async def spends(run: Run, requests: int) -> None:
        for _ in range(requests):
            await run.model([{"role": "user", "content": "more"}])

    async def program(run: Run, _input: Any) -> list[str]:
        asked = [Delegation(program=spends, input=requests) for requests in (3, 7)]
        return [(await run.delegate(each)).status for each in asked]

    model = ScriptedModel([reply] * 10)
    recording = ran(tmp_path, program, model=model, limits=Limits(model_tokens=100))

    assert recording.output == ["completed"] * 2
    assert [entry.data["tokens"] for entry in lines(recording, "tokens.granted")] == [35]


def test_who_waits_for_tokens_of_a_stopped_run_is_given_none(tmp_path: Path) -> None:
    """Though another might give back some of its own: a program that cleans up may wait for it."""

    @tool(effect="reads")
    def press() -> None:
        signal.raise_signal(signal.SIGINT)

    async def spends(run: Run, _input: Any) -> None:
        for _ in range(2):
            await run.model([{"role": "user", "content": "more"}])

    async def waits(run: Run, _input: Any) -> None:
        await run.sleep(60)

    async def program(run: Run, _input: Any) -> None:
        needy = await run.start(Delegation(program=spends, part=10))
        await run.start(Delegation(program=waits, part=10))
        try:
            await run.tool(press)
            await run.sleep(60)
        finally:
            run.annotate((await run.join(needy))[0].status)

    log = tmp_path / "a.jsonl"
    reply: Any = {"text": "ok", "usage": {"output_tokens": 10}}
    with pytest.raises(KeyboardInterrupt):
        record(program, log=log, model=ScriptedModel([reply] * 2), limits=Limits(model_tokens=20))

    assert [e.data["text"] for e in read_entries(log) if e.kind == "note.added"] == ["limit"]
    assert reexecute(log, program).identical


def test_a_child_that_may_share_a_session_has_none_where_its_parent_has_none(
    tmp_path: Path,
) -> None:
    """It is told so, as any run."""

    async def looks(run: Run, _input: Any) -> Any:
        return run.session.snapshot()

    async def program(run: Run, _input: Any) -> Any:
        outcome = await run.delegate(Delegation(program=looks, shared=True))
        return outcome.error.message if outcome.error else ""

    assert "this run has no session" in ran(tmp_path, program).output


def test_what_a_model_does_to_its_messages_no_program_sees(tmp_path: Path) -> None:
    """It is given copies, the log's and the program's stay what they were."""

    def spoils(request: ModelRequest) -> str:
        messages: Any = request.messages
        messages[0]["content"] = "spoilt"
        return "ok"

    async def program(run: Run, _input: Any) -> Any:
        messages = [{"role": "user", "content": "hi"}]
        await run.model(messages)
        await run.model(messages)
        return messages

    recording = ran(tmp_path, program, model=FunctionModel(spoils))

    assert recording.output == [{"role": "user", "content": "hi"}]
    first, second = lines(recording, "model.asked")
    assert (first.data["added"], second.data["base"]) == ([{"role": "user", "content": "hi"}], 1)


def test_a_model_is_told_how_many_replies_it_is_given(tmp_path: Path) -> None:
    """So that scripts need not count those of a long conversation."""

    async def program(run: Run, _input: Any) -> Any:
        messages: list[Any] = [{"role": "user", "content": "hi"}]
        for _ in range(3):
            messages.append((await run.model(messages)).message)
        return [each["content"] for each in messages[1:]]

    def counts(request: ModelRequest) -> str:
        assert request.counted is not None
        messages, replies = request.counted
        return f"{replies} of {messages is request.messages}"

    found = ran(tmp_path, program, model=FunctionModel(counts)).output
    assert found == ["0 of True", "1 of True", "2 of True"]


def test_what_a_model_changes_afterwards_is_its_own(tmp_path: Path) -> None:
    """The log and the program have what it said then."""
    said: dict[str, Any] = {"role": "assistant", "content": ""}

    class Changes:
        name = "changes"

        def complete(self, _request: ModelRequest, /) -> ModelReply:
            said["content"] += "x"
            return ModelReply(message=said, usage=Usage())

    async def program(run: Run, _input: Any) -> Any:
        replies = [await run.model([]) for _ in range(3)]
        return [reply.message["content"] for reply in replies]

    assert ran(tmp_path, program, model=Changes()).output == ["x", "xx", "xxx"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_over_its_time(tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001 - a table
    """Timed out, as a failure; what still comes is late, of a tool that had begun by then."""
    gate, begun = threading.Event(), threading.Event()

    @tool(effect="reads", timeout_seconds=0.05)
    def slow() -> str:
        begun.set()
        gate.wait(60)
        return "late"

    @tool(effect="reads", name="slow", timeout_seconds=0.05)
    async def slowly() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "late"

    async def program(run: Run, _input: Any) -> Any:
        found = await failure_of(run, slowly if is_async else slow)
        gate.set()
        async with asyncio.timeout(600):
            if begun.is_set():
                await run.tool(sees_late, log=str(tmp_path / "a.jsonl"))
        return found[0]

    recording = ran(tmp_path, program)

    late = [entry.data["kind"] for entry in lines(recording, "effect.late")]
    assert recording.output == "timed_out"
    assert late == ["tool"] * begun.is_set()


def test_a_cancelled_async_tool_is_cancelled(tmp_path: Path) -> None:
    """On its own loop; the log has the cancelling, and nothing is delivered."""
    ended: list[str] = []
    began = asyncio.Event()

    @tool(effect="reads")
    async def slow() -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("cancelled")

    @tool(effect="reads")
    async def begins() -> None:
        await began.wait()

    async def program(run: Run, _input: Any) -> Any:
        try:
            async with asyncio.timeout(None) as limit:
                asked = asyncio.create_task(run.tool(slow))
                await run.tool(begins)
                limit.reschedule(asyncio.get_running_loop().time() + 0.02)
                await asked
        except TimeoutError:
            await run.sleep(0.1)
            return "gave up"

    recording = ran(tmp_path, program)

    assert recording.output == "gave up"
    assert ended == ["cancelled"]
    assert [e.data["kind"] for e in lines(recording, "effect.cancelled")] == ["tool"]


def test_what_a_program_gives_up_is_cancelled_before_it_goes_on(tmp_path: Path) -> None:
    """Not only when the run ends: it may hold what the program needs next."""
    begun, over = threading.Event(), threading.Event()

    @tool(effect="reads")
    async def hold() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            over.set()

    @tool(effect="reads")
    def awaits(what: str) -> bool:
        return {"begun": begun, "over": over}[what].wait(PATIENCE_SECONDS / 6)

    async def program(run: Run, _input: Any) -> Any:
        task = asyncio.create_task(run.tool(hold))
        found = [await run.tool(awaits, what="begun")]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return [*found, await run.tool(awaits, what="over")]

    assert ran(tmp_path, program).output == [True, True]


def waits_for(begun: threading.Semaphore) -> Any:
    """Return a tool that waits until another has begun: given up before, it never would."""

    @tool(effect="reads")
    def sees_begun() -> None:
        begun.acquire(timeout=PATIENCE_SECONDS)

    return sees_begun


def test_a_change_still_under_way_at_the_end_is_in_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can say whether it happened: `run.finished` lists it; what only reads is let go."""
    monkeypatch.setattr("refold.engine.recording.recorder._GRACE_US", 300_000)
    gate, begun = threading.Event(), threading.Semaphore(0)

    @tool(effect="changes")
    def hangs() -> None:
        begun.release()
        gate.wait(60)

    @tool(effect="reads")
    def looks() -> None:
        gate.wait(60)

    async def program(run: Run, _input: Any) -> None:
        tasks = [asyncio.create_task(run.tool(each)) for each in (hangs, looks)]
        await asyncio.sleep(0)
        await run.tool(waits_for(begun))
        for task in tasks:
            task.cancel()

    recording = ran(tmp_path, program)
    gate.set()

    assert lines(recording)[-1].data["in_doubt"] == ["0/1#1"]


def test_a_change_that_ends_within_the_grace_is_late_and_no_doubt(tmp_path: Path) -> None:
    """Its result is recorded, though nobody waits for it."""
    gate, begun = threading.Event(), threading.Semaphore(0)

    @tool(effect="changes")
    def slow() -> None:
        begun.release()
        gate.wait(60)

    async def program(run: Run, _input: Any) -> None:
        task = asyncio.create_task(run.tool(slow))
        await asyncio.sleep(0)
        await run.tool(waits_for(begun))
        task.cancel()
        await asyncio.sleep(0)
        gate.set()

    recording = ran(tmp_path, program)

    assert lines(recording)[-1].data["in_doubt"] == []
    assert [entry.call for entry in lines(recording, "effect.late")] == ["0/1#1"]


@for_each("how", ["end", "cancel", "timeout"])
def test_a_child_that_is_cancelled_when_its_program_has_ended(tmp_path: Path, how: str) -> None:
    """What it left still drains: nothing is cancelled any more, and no line says that it was."""
    drains, begun = threading.Event(), threading.Semaphore(0)

    @tool(effect="changes")
    def store() -> None:
        begun.release()
        wait_until_given_up(tmp_path / "a.1.jsonl")
        drains.set()
        time.sleep(0.1)  # while it is cancelled

    @tool(effect="reads")
    def wait_for_drain() -> bool:
        return drains.wait(60)

    async def child(run: Run, _input: Any) -> str:
        asyncio.create_task(run.tool(store))  # noqa: RUF006 - left behind, on purpose
        await asyncio.sleep(0)
        await run.tool(waits_for(begun))
        return "ended"

    async def hurried(run: Run) -> None:
        async def hurry() -> None:
            await run.tool(wait_for_drain)
            limit.reschedule(0)

        async with asyncio.timeout(None) as limit, asyncio.TaskGroup() as group:
            group.create_task(hurry())
            await run.delegate(Delegation(program=child))

    async def parent(run: Run, _input: Any) -> None:
        if how == "timeout":
            with pytest.raises(TimeoutError):
                await hurried(run)
            return
        started = await run.start(Delegation(program=child))
        await run.tool(wait_for_drain)
        if how == "cancel":
            run.cancel(started)
            assert (await run.join(started))[0].status == "completed"

    recording = ran(tmp_path, parent)

    assert recording.ok, recording
    said = [entry.kind for entry in read_entries(tmp_path / "a.1.jsonl") if entry.call is None]
    assert said == ["run.started", "run.finished"]


@pytest.mark.long
@pytest.mark.parametrize("how", ["timed_out", "cancelled"])
def test_a_stopped_child_that_cleans_up_and_drains_is_not_abandoned(
    tmp_path: Path, how: str
) -> None:
    """Its program has 2 s, and what that leaves has 2 s more: its log is sealed."""
    begun = threading.Semaphore(0)

    @tool(effect="changes")
    def store() -> None:
        begun.release()
        time.sleep(1.4)

    async def child(run: Run, _input: Any) -> None:
        try:
            await run.sleep(60)
        finally:
            await run.tool(store)
            await run.tool(waits_for(begun))
            asyncio.create_task(run.tool(store))  # noqa: RUF006 - left behind, on purpose
            await asyncio.sleep(0)
            await run.tool(waits_for(begun))

    async def parent(run: Run, _input: Any) -> str:
        seconds = 0.05 if how == "timed_out" else None
        limits = Limits(timeout_seconds=seconds)
        started = await run.start(Delegation(program=child, limits=limits))
        if how == "cancelled":
            await run.sleep(0.05)
            run.cancel(started)
        (outcome,) = await run.join(started)
        return outcome.status

    assert ran(tmp_path, parent).output == how
    assert list(read_entries(tmp_path / "a.1.jsonl"))[-1].kind == "run.finished"


# --- limits ------------------------------------------------------------------------------------


def hit_of(recording: Recording) -> list[Any]:
    (entry,) = lines(recording, "limit.hit")
    return [entry.data["limit"], entry.data["allowed"]]


def test_time_is_up(tmp_path: Path) -> None:
    """The run is stopped, may clean up, and ends as timed out."""

    async def program(run: Run, _input: Any) -> Any:
        try:
            await run.sleep(60)
        finally:
            await run.tool(search, q="tidy")

    recording = ran(tmp_path, program, limits=Limits(timeout_seconds=0.05))

    assert recording.status == "timed_out"
    assert hit_of(recording) == ["timeout_seconds", 0.05]
    assert lines(recording, "limit.hit")[0].data["observed"] >= 0.05
    assert len(lines(recording, "tool.returned")) == 1


@pytest.mark.parametrize("plainly", [False, True])
def test_time_is_up_though_a_timer_is_always_due(tmp_path: Path, plainly: bool) -> None:  # noqa: FBT001 - a table
    """The end of the run's time comes before timers; else this program would go on for ever."""

    async def program(run: Run, _input: Any) -> None:
        while True:
            await run.sleep(1e-6)

    def plain(run: PlainRun, _input: Any) -> None:
        while True:
            run.sleep(1e-6)

    recording = ran(tmp_path, plain if plainly else program, limits=Limits(timeout_seconds=0.05))

    assert recording.status == "timed_out"


def test_what_has_arrived_has_its_turn_though_a_timer_is_always_due(tmp_path: Path) -> None:
    """A tool's result, and the outcome of a child."""

    async def child(_run: Run, _input: Any) -> str:
        return "ended"

    async def program(run: Run, _input: Any) -> Any:
        waiting = asyncio.ensure_future(
            asyncio.gather(run.tool(search, q="a"), run.delegate(Delegation(program=child)))
        )
        while not waiting.done():
            await run.sleep(1e-9)
        return (await waiting)[1].summary

    recording = ran(tmp_path, program, limits=Limits(timeout_seconds=60))

    assert (recording.status, recording.output) == ("completed", "ended")


def test_a_plain_program_is_told_at_once_that_time_is_up(tmp_path: Path) -> None:
    """Wherever it waits; then it may clean up, and its grace is not over."""

    def program(run: PlainRun, _input: Any) -> Any:
        try:
            run.sleep(60)
        finally:
            run.tool(search, q="tidy")

    recording = ran(tmp_path, program, limits=Limits(timeout_seconds=0.05))

    assert recording.status == "timed_out"
    assert len(lines(recording, "tool.returned")) == 1


def test_so_it_is_while_a_delegation_tool_runs(tmp_path: Path) -> None:
    """The tool is cancelled first."""

    async def handler(run: Run, _arguments: Any) -> None:
        await run.sleep(60)

    hand_over = DelegationTool(name="hand_over", description="", parameters={}, handler=handler)

    def program(run: PlainRun, _input: Any) -> Any:
        try:
            run.tool(hand_over)
        finally:
            run.tool(search, q="tidy")

    recording = ran(tmp_path, program, limits=Limits(timeout_seconds=0.05))

    assert recording.status == "timed_out"
    assert [entry.kind for entry in read_entries(recording.log)][2:] == [
        "limit.hit", "effect.cancelled", "tool.called", "tool.returned", "run.finished",
    ]  # fmt: skip


def test_a_program_that_waits_for_nothing_when_it_is_stopped_ends_as_stopped(
    tmp_path: Path,
) -> None:
    """And at once: no grace changes what nobody can end."""

    async def program(run: Run, _input: Any) -> Any:
        with contextlib.suppress(asyncio.CancelledError):
            await run.sleep(60)
        await asyncio.get_running_loop().create_future()

    assert ran(tmp_path, program, limits=Limits(timeout_seconds=0.05)).status == "timed_out"


@pytest.mark.parametrize(
    "draw",
    [
        lambda run: run.now(),
        lambda run: run.environment("HOME"),
        lambda run: run.patched("a change"),
    ],
    ids=["time", "environment", "marker"],
)
def test_a_program_that_waits_for_a_person_is_told_nothing_more(tmp_path: Path, draw: Any) -> None:
    """It is let go where it stands: what it drew while it cleans up would be in no log."""
    told = []

    async def program(run: Run, _input: Any) -> Any:
        try:
            return await run.ask("Go on?")
        finally:
            try:
                told.append(draw(run))
            except asyncio.CancelledError:
                told.append("let go")
                raise

    recording = record(program, log=tmp_path / "a.jsonl", seed=1)

    assert (recording.status, told) == ("suspended", ["let go"])


def test_a_program_that_will_not_stop_is_left_after_its_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It swallows every cancelling, and calls on; the log is sealed all the same."""
    monkeypatch.setattr("refold.engine.recording.recorder._GRACE_US", 300_000)

    @tool(effect="reads")
    def press(key: str) -> None:
        if key == "ctrl-c":
            signal.raise_signal(signal.SIGINT)
        threading.Event().wait(0.05)

    async def program(run: Run, _input: Any) -> Any:
        for key in itertools.chain(["ctrl-c"], itertools.repeat("any")):
            with contextlib.suppress(asyncio.CancelledError):
                await run.tool(press, key=key)

    log = tmp_path / "a.jsonl"
    with pytest.raises(KeyboardInterrupt):
        record(program, log=log)

    (*_, finished) = read_entries(log)
    assert finished.data["status"] == "cancelled"
    assert reexecute(log, program).identical


@pytest.mark.long
def test_a_child_that_will_not_stop_is_left_after_its_grace(request_for: Make) -> None:
    """Its own kernel leaves it, in time and alone: its tools are quick, and nothing else is live.

    No runner needs to abandon it, and its log is sealed.
    """
    until = time.monotonic() + 60
    cancel = CancelSignal()

    @tool(effect="reads")
    def press() -> None:
        cancel.set()
        threading.Event().wait(0.01)

    async def program(run: Run, _input: Any) -> Any:
        while time.monotonic() < until:
            with contextlib.suppress(asyncio.CancelledError):
                await run.tool(press)

    request = request_for(program, tools=(press,), cancel=cancel)
    recorder = recorder_of(request, Host(), runner_name="in-process")

    assert recorder.record().finished.status == "cancelled"
    assert time.monotonic() < until
    assert request.log is not None
    assert list(read_entries(request.log))[-1].kind == "run.finished"


def test_time_is_up_on_any_thread(tmp_path: Path) -> None:
    """A thread that waits for a tool alone wakes by itself; the main one looks now and then."""
    let_go = threading.Event()

    @tool(effect="reads")
    def blocks() -> None:
        let_go.wait(PATIENCE_SECONDS)

    async def program(run: Run, _input: Any) -> Any:
        await run.tool(blocks)

    with ThreadPoolExecutor(1) as threads:
        limits = Limits(timeout_seconds=0.05)
        running = threads.submit(record, program, log=tmp_path / "a.jsonl", limits=limits)
        try:
            assert running.result(PATIENCE_SECONDS).status == "timed_out"
        finally:
            let_go.set()


def test_a_timer_wakes_any_thread_in_time(tmp_path: Path) -> None:
    """However long the run has taken: a wait is what is left of it."""

    async def program(run: Run, _input: Any) -> Any:
        for _ in range(20):
            await run.sleep(0.001)

    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(record, program, log=tmp_path / "a.jsonl")
        assert running.result(PATIENCE_SECONDS).ok


def test_a_program_is_told_what_an_answer_used_and_why_it_ended(tmp_path: Path) -> None:
    """As the model said it, live and in replay."""
    said: Any = {"text": "x", "usage": {"input_tokens": 40}, "stop_reason": "length"}

    async def program(run: Run, _input: Any) -> Any:
        reply = await run.model([{"role": "user", "content": "hi"}])
        return [reply.usage.input_tokens, reply.stop_reason]

    assert ran(tmp_path, program, model=ScriptedModel([said])).output == [40, "length"]


@pytest.mark.parametrize("swallow", [False, True])
def test_model_requests_are_counted(tmp_path: Path, swallow: bool) -> None:  # noqa: FBT001 - a table
    """The one too many is refused before it is asked; a program may make the best of it."""

    async def program(run: Run, _input: Any) -> Any:
        for _ in range(3):
            try:
                await run.model([{"role": "user", "content": "hi"}])
            except LimitReached:
                if not swallow:
                    raise
        return "made do"

    model = ScriptedModel(["one"])
    recording = ran(tmp_path, program, model=model, limits=Limits(max_iterations=2))

    assert recording.status == ("completed" if swallow else "limit")
    assert hit_of(recording) == ["max_iterations", 2]
    assert len(lines(recording, "model.asked")) == 2


def test_tokens_are_counted(tmp_path: Path) -> None:
    """Once they are used up, the next request is refused."""

    async def program(run: Run, _input: Any) -> Any:
        for _ in range(3):
            await run.model([{"role": "user", "content": "hi"}])

    model = ScriptedModel([{"text": "x", "usage": {"input_tokens": 40, "output_tokens": 20}}])
    recording = ran(tmp_path, program, model=model, limits=Limits(model_tokens=100))

    assert recording.status == "limit"
    assert hit_of(recording) == ["model_tokens", 100]
    assert recording.usage.input_tokens == 80


def test_when_a_child_ended_is_said_where_it_is_joined(tmp_path: Path) -> None:
    """In `meta`: after its last line, and before what its parent did before it joined (§3.4)."""

    async def program(run: Run, _input: Any) -> Any:
        child = await run.start(Delegation(program=nothing))
        await run.tool(see_children_end)
        (outcome,) = await run.join(child)
        return outcome.status

    recording = ran(tmp_path, program, tools=[see_children_end])

    (meanwhile,) = lines(recording, "tool.returned")
    (joined,) = lines(recording, "child.finished")
    *_, last = read_entries(tmp_path / "a.1.jsonl")
    assert last.meta["mono_us"] <= joined.meta["ended_us"] <= meanwhile.meta["mono_us"]


def test_one_after_the_other_there_may_be_more_children_than_at_once(tmp_path: Path) -> None:
    """Who has ended makes room: 64 run at a time."""

    async def program(run: Run, _input: Any) -> list[str]:
        return [(await run.delegate(Delegation(program=nothing))).status for _ in range(65)]

    limits = Limits(timeout_seconds=PATIENCE_SECONDS)
    log = tmp_path / "a.jsonl"

    assert record(program, log=log, limits=limits, durability="fast").output == ["completed"] * 65


def test_children_are_counted_over_a_runs_life(tmp_path: Path) -> None:
    """One too many is rejected; the run goes on."""

    async def program(run: Run, _input: Any) -> Any:
        return [(await run.delegate(Delegation(program=nothing))).status for _ in range(3)]

    recording = ran(tmp_path, program, limits=Limits(max_children=2))

    assert recording.output == ["completed", "completed", "rejected"]
    assert hit_of(recording) == ["max_children", 2]


caps = st.builds(
    Limits,
    max_depth=st.none() | st.integers(0, 9),
    max_children=st.none() | st.integers(0, 9),
    timeout_seconds=st.none() | st.floats(0.001, 1e6),
    max_iterations=st.none() | st.integers(1, 9),
    output_bytes=st.none() | st.integers(1, 10**6),
    model_tokens=st.none() | st.integers(1, 10**6),
)


def no_wider(one: Limits, other: Limits) -> bool:
    """Return whether every cap of `other` holds in `one`, too."""
    mine = one.as_json()
    return all(name in mine and mine[name] <= cap for name, cap in other.as_json().items())


@given(caps, caps)
def test_limits_only_narrow(one: Limits, other: Limits) -> None:
    """Cap by cap the tighter one; in either order; and twice is once."""
    both = one.narrowed(other)

    assert no_wider(both, one)
    assert no_wider(both, other)
    assert both == other.narrowed(one) == both.narrowed(other)


def test_a_child_cannot_widen_what_its_parent_has(tmp_path: Path) -> None:
    """Whatever a delegation asks for."""
    granted: list[Limits] = []

    async def looks(run: Run, _input: Any) -> None:
        granted.append(run.limits)

    async def program(run: Run, _input: Any) -> Any:
        wide = Limits(max_depth=99, max_children=99, timeout_seconds=999, model_tokens=10**9)
        outcome: Outcome = await run.delegate(Delegation(program=looks, limits=wide, levels=50))
        return outcome.status

    limits = Limits(max_depth=3, max_children=4, timeout_seconds=30, model_tokens=1000)
    assert ran(tmp_path, program, limits=limits).output == "completed"

    assert all(no_wider(one, limits) for one in granted)
    assert len(granted) == 2


# --- the short way ---------------------------------------------------------------------------

_RAISED = {
    "tool": ToolError("echo", "no", "mine"),
    "value": ValueError("wrong"),
    "exit": SystemExit(3),
}
ECHOED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "Grüße", "\x7f\u202e", "$esc", "x" * 40_000, "null", 'a"b'])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "$b", "ü"]), inner, max_size=3)
    ),
    max_leaves=6,
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["echo", "change", "bad", "refused", *_RAISED]),
        ECHOED,
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


def echoing(timeout: float | None) -> list[Tool]:
    """Tools that return, raise, and return what no log can hold; with a timeout, on a worker."""

    @tool(effect="reads", timeout_seconds=timeout)
    def echo(value: Any, how: str) -> Any:
        if how in _RAISED:
            raise _RAISED[how]
        return {"no": {1, 2}} if how == "bad" else value

    @tool(effect="changes", timeout_seconds=timeout)
    def change(value: Any, how: str) -> Any:
        return [value, how]

    @tool(effect="reads", timeout_seconds=timeout)
    def refused(value: int) -> int:
        return value

    return [change, echo, refused]


def awaited(timeout: float | None) -> list[Tool]:
    """The same tools, asynchronous."""

    @tool(effect="reads", timeout_seconds=timeout)
    async def echo(value: Any, how: str) -> Any:
        await asyncio.sleep(0)
        if how in _RAISED:
            raise _RAISED[how]
        return {"no": {1, 2}} if how == "bad" else value

    @tool(effect="changes", timeout_seconds=timeout)
    async def change(value: Any, how: str) -> Any:
        return [value, how]

    @tool(effect="reads", timeout_seconds=timeout)
    async def refused(value: int) -> int:
        return value

    return [change, echo, refused]


def program_of(calls: list[Any], *, has_company: bool) -> Any:
    """Return a program that makes the calls; in company, while another task waits for long."""

    async def call(run: Run, how: str, value: Any) -> Any:
        if how == "refused":
            return await run.tool("refused", value="no number")
        return await run.tool("change" if how == "change" else "echo", value=value, how=how)

    async def program(run: Run, _input: Any) -> list[Any]:
        waits = asyncio.create_task(asyncio.sleep(3600)) if has_company else None
        await asyncio.sleep(0)
        seen: list[Any] = []
        for how, value, looks in calls:
            if looks:
                seen.append(run.now().year)
            try:
                seen.append(await call(run, how, value))
            except ToolError as error:
                seen.append([error.code, error.message])
            run.annotate("after", len(seen))
        if waits is not None:
            waits.cancel()
        return seen

    return program


def body(entry: Entry) -> bytes:
    """Return a line without `meta` and hash; the first without the nonce."""
    line = entry.line[: entry.line.rindex(b',"meta":{')]
    return line if entry.seq else b""


@settings(deadline=None, max_examples=8)
@given(CALLS)
def test_the_short_way_of_a_call_writes_what_the_long_way_writes(
    tmp_path_factory: pytest.TempPathFactory, calls: list[Any]
) -> None:
    """In place, on a worker, under redaction, in company, awaited: the same bytes.

    Line by line, but for clocks and hashes; and the same digests at the end.
    """
    folder = tmp_path_factory.mktemp("ways")
    nothing = Redaction(secrets=("never said by anyone",))
    alone = program_of(calls, has_company=False)
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "short": (alone, {"tools": echoing(None)}),
        "worker": (alone, {"tools": echoing(60)}),
        "redacted": (alone, {"tools": echoing(None), "redaction": nothing}),
        "company": (program_of(calls, has_company=True), {"tools": echoing(None)}),
        "awaited": (alone, {"tools": awaited(None)}),
        "awaited elsewhere": (alone, {"tools": awaited(60)}),
    }
    clock = FixedClock()

    recorded = {
        way: record(
            program, log=folder / f"{way}.jsonl", seed=1, clock=clock, durability="fast", **options
        )
        for way, (program, options) in ways.items()
    }

    short = [body(entry) for entry in read_entries(recorded["short"].log)]
    for way, recording in recorded.items():
        assert recording.ok, recording.error
        assert recording.output == recorded["short"].output
        written = [body(entry) for entry in read_entries(recording.log)]
        assert written[:-1] == short[:-1], way
        report = reexecute(recording.log, ways[way][0], tools=ways[way][1]["tools"])
        assert report.identical, str(report)
        assert verify(recording.log).intact
        assert refold_log(recording.log).agrees
    for way in (
        "worker",
        "company",
        "awaited",
    ):  # redaction stands among the rules of the first line
        assert recorded[way].data_digest == recorded["short"].data_digest, way


def test_a_plain_program_goes_the_short_way_as_well(tmp_path: Path) -> None:
    """Its log has the lines of the asynchronous one."""

    async def asynchronous(run: Run, _input: Any) -> list[Any]:
        return [await run.tool("echo", value=at, how="echo") for at in range(3)]

    def plain(run: PlainRun, _input: Any) -> list[Any]:
        return [run.tool("echo", value=at, how="echo") for at in range(3)]

    one, other = (
        record(program, log=tmp_path / f"{name}.jsonl", tools=echoing(None))
        for name, program in (("a", asynchronous), ("b", plain))
    )

    assert [body(entry) for entry in read_entries(one.log)][:-1] == [
        body(entry) for entry in read_entries(other.log)
    ][:-1]


def test_quick_calls_keep_no_child_from_being_joined(tmp_path: Path) -> None:
    """Its outcome is there before anybody asks for it; then one tool after the other is called."""

    async def program(run: Run, _input: Any) -> bool:
        child = await run.start(Delegation(program=nothing))
        await run.sleep(0.05)
        joined, until = asyncio.create_task(run.join(child)), time.monotonic() + PATIENCE_SECONDS
        while not joined.done() and time.monotonic() < until:
            await run.tool(search, q="a")
        return joined.done()

    recording = record(program, log=tmp_path / "a.jsonl")

    assert recording.output is True


def test_a_child_goes_the_short_way_as_well(tmp_path: Path) -> None:
    """Its lines are those of the same program as a root, up to the last."""

    async def program(run: Run, _input: Any) -> Any:
        return await run.tool("echo", value=[1], how="echo")

    async def parent(run: Run, _input: Any) -> Any:
        return (await run.delegate(Delegation(program=program))).output

    root = record(program, log=tmp_path / "a.jsonl", tools=echoing(None))
    ran(tmp_path.joinpath("b"), parent, tools=echoing(None))

    child = read_entries(tmp_path / "b" / "a.1.jsonl")
    assert [body(entry) for entry in child][:-1] == [
        body(entry) for entry in read_entries(root.log)
    ][:-1]


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize("value", ["deep", "long"])
def test_a_request_that_no_log_can_hold_takes_no_ordinal(
    tmp_path: Path, value: str, timeout: float | None
) -> None:
    """The short way refuses it as the long way does, and the next call has its key.

    At the end, there is nothing to be given up.
    """
    refused: Any = TOO_LONG if value == "long" else 1
    for _ in range(127 if value == "deep" else 0):
        refused = [refused]

    async def program(run: Run, _input: Any) -> Any:
        with pytest.raises(NotCanonical):
            await run.tool("echo", value=refused, how="echo")
        await run.tool("echo", value=1, how="echo")
        with pytest.raises(NotCanonical):
            await run.tool("echo", value=refused, how="echo")

    recording = ran(tmp_path, program, tools=echoing(timeout))

    assert [entry.call for entry in lines(recording, "tool.called")] == ["0#1"]
    assert recording.entries == 4


def test_what_a_ceiling_refuses_that_nobody_set_is_told_apart() -> None:
    """A thousand children are what every root may start; seven are what somebody said."""
    fold = Fold()
    for allowed in (1000, 7):
        fold.apply(LimitHit("max_children", allowed, f"child {allowed}", allowed + 1))

    assert [hit.allowed for hit in unset_hits(fold)] == [1000]


# --- given up before it began ------------------------------------------------------------------


class Crowd:
    """Work that holds its thread until a gate opens, and what waits for that."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self._begun = threading.Semaphore(0)
        self._before = set(threading.enumerate())
        self.ran = 0
        """How many have begun."""

    def work(self) -> None:
        """Begin, and wait for the gate."""
        self.ran += 1
        self._begun.release()
        self.gate.wait(PATIENCE_SECONDS)

    def tools(self) -> tuple[Any, Any]:
        """Return a tool that waits until 64 have begun, and one that opens the gate."""

        @tool(effect="reads")
        async def full() -> None:
            acquire = functools.partial(self._begun.acquire, timeout=PATIENCE_SECONDS)
            for _ in range(WORKERS_MAX):
                await asyncio.get_running_loop().run_in_executor(None, acquire)

        @tool(effect="reads")
        async def opens() -> None:
            self.gate.set()

        return full, opens

    def leave(self) -> None:
        """Wait until no thread is left that could begin anything."""
        for thread in set(threading.enumerate()) - self._before:
            if thread.name == "refold-worker":
                thread.join(PATIENCE_SECONDS)


@pytest.mark.parametrize("which", ["reads", "changes", "model"])
def test_what_is_given_up_before_it_begins_never_begins(tmp_path: Path, which: Any) -> None:
    """More is asked than there are threads: not even when the run has returned (§9.4)."""
    crowd = Crowd()
    full, opens = crowd.tools()
    works = tool(effect="reads" if which == "model" else which)(crowd.work)

    def answer(_request: ModelRequest) -> ModelReply:
        crowd.work()
        return ModelReply(message={})

    async def program(run: Run, _input: Any) -> str:
        asked = (
            run.model([]) if which == "model" else run.tool(works) for _ in range(WORKERS_MAX + 9)
        )
        tasks = [asyncio.create_task(each) for each in asked]
        await asyncio.sleep(0)
        await run.tool(full)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await run.tool(opens)
        return "given up"

    recording = ran(tmp_path, program, model=FunctionModel(answer))
    crowd.leave()

    assert crowd.ran == WORKERS_MAX
    assert recording.output == "given up"
    assert lines(recording)[-1].data["in_doubt"] == []
    assert len(lines(recording, "effect.cancelled")) == WORKERS_MAX + 9
    assert len(lines(recording, "effect.late")) <= WORKERS_MAX


def test_what_waits_when_the_program_ends_never_begins(tmp_path: Path) -> None:
    """Only what has begun to change the world is waited for."""
    crowd = Crowd()
    full, _ = crowd.tools()
    main, one_at_a_time = threading.get_ident(), threading.Lock()
    settled = threading.Event()

    def wait_until_it_settles() -> None:
        with one_at_a_time:  # only one looks
            while not settled.is_set():
                names = {frame.f_code.co_name for frame, _ in walk_stack(frames()[main])}
                if {"_settle", "_arrival"} <= names:
                    settled.set()
                else:
                    time.sleep(0.001)

    @tool(effect="changes")
    def works() -> None:
        crowd.gate.set()
        crowd.work()
        wait_until_it_settles()

    async def program(run: Run, _input: Any) -> None:
        for _ in range(WORKERS_MAX + 9):
            asyncio.create_task(run.tool(works))  # noqa: RUF006 - left behind, on purpose
        await asyncio.sleep(0)
        await run.tool(full)

    recording = ran(tmp_path, program)
    crowd.leave()

    assert crowd.ran == WORKERS_MAX
    assert lines(recording)[-1].data["in_doubt"] == []


def test_what_is_given_up_in_the_step_that_asks_for_it_never_begins(tmp_path: Path) -> None:
    """A task that has cancelled itself asks; a tool, a model, a person."""
    begun: list[str] = []

    @tool(effect="changes")
    async def pays() -> None:
        begun.append("tool")

    def answer(_request: ModelRequest) -> ModelReply:
        begun.append("model")
        return ModelReply(message={})

    def ask(_question: Any) -> str:
        begun.append("person")
        return "yes"

    async def program(run: Run, _input: Any) -> None:
        async def cancelled(asks: Any) -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asks

        asked = run.tool(pays), run.model([]), run.ask("Well?")
        await asyncio.gather(*map(cancelled, asked), return_exceptions=True)
        await run.sleep(0.001)

    recording = ran(tmp_path, program, model=FunctionModel(answer), ask=ask)

    assert begun == []
    assert [entry.data["kind"] for entry in lines(recording, "effect.cancelled")] == [
        "tool",
        "model",
        "input",
    ]


def test_an_asynchronous_tool_is_given_up_before_its_loop_comes_to_it(tmp_path: Path) -> None:
    """Not even what stands before its first await is done."""
    crowd = Crowd()
    began, second_ran = threading.Event(), []

    @tool(effect="reads")
    async def first() -> None:
        began.set()
        crowd.gate.wait(PATIENCE_SECONDS)  # it holds up the loop of tools

    @tool(effect="changes")
    async def second() -> None:
        second_ran.append(1)

    @tool(effect="reads")
    def sees_begun() -> None:
        began.wait(PATIENCE_SECONDS)

    @tool(effect="reads")
    def opens() -> None:
        crowd.gate.set()

    async def program(run: Run, _input: Any) -> None:
        one, two = (asyncio.create_task(run.tool(each)) for each in (first, second))
        await asyncio.sleep(0)
        await run.tool(sees_begun)
        two.cancel()
        await asyncio.wait([two])
        await run.tool(opens)
        await one

    recording = ran(tmp_path, program)

    assert not second_ran
    assert not lines(recording, "effect.late")


def test_a_child_that_waits_for_room_and_is_given_up_is_never_started(tmp_path: Path) -> None:
    """It is joined as cancelled, while those that work go on."""
    crowd = Crowd()
    full, opens = crowd.tools()

    def reply(_request: Any) -> Outcome:
        crowd.work()
        return Outcome(status="completed")

    async def program(run: Run, _input: Any) -> list[Any]:
        children = [
            await run.start(Delegation(program=nothing, runner="scripted"))
            for _ in range(CHILDREN_AT_ONCE + 2)
        ]
        await run.tool(full)
        run.cancel(children[-2])
        (outcome,) = await run.join(children[-2])
        await run.tool(opens)
        others = await run.join(*children[:-2], children[-1])
        said = outcome.error.message if outcome.error is not None else ""
        return [outcome.status, said, sorted({each.status for each in others})]

    recording = ran(tmp_path, program, runners={"scripted": Scripted(reply)})

    assert recording.output == [
        "cancelled",
        "cancelled before there was room for it",
        ["completed"],
    ]
    assert crowd.ran == CHILDREN_AT_ONCE + 1


@attrs.frozen
class Found:
    """An item whose value can be changed later."""

    what: list[Any]


def test_an_item_that_was_spoilt_later_fails_the_run_and_keeps_its_work(tmp_path: Path) -> None:
    """The log is sealed without a digest of the session, is whole, and replays."""

    async def program(run: Run, _: Any) -> str:
        found = Found([])
        run.session.dispatch(found)
        found.what.append(object())
        return "the work"

    def fresh() -> Session:
        session = Session()
        session.register(Found)
        return session

    run = record(program, log=tmp_path / "a.jsonl", session=fresh())

    assert (run.status, run.output) == ("failed", "the work")
    assert run.error is not None
    assert run.error.code == "session"
    assert "slice Found, item 0: at /what/0" in run.error.message
    assert verify(run.log).complete
    assert reexecute(run.log, program, session=fresh()).identical


@pytest.mark.parametrize("spoilt", [True, False])
def test_a_session_that_a_run_cannot_begin_with_leaves_no_log(
    tmp_path: Path, *, spoilt: bool
) -> None:
    """So the corrected run is not refused."""
    session = Session()
    session.register(Found)
    session.dispatch(found := Found([]))
    if spoilt:
        found.what.append(object())
    else:
        session.bind(lambda _line: None)  # as another run does

    with pytest.raises(UsageError, match="item 0" if spoilt else "already used by another run"):
        record(nothing, log=tmp_path / "a.jsonl", session=session)

    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_uses_its_programs_run_is_refused(tmp_path: Path, *, is_async: bool) -> None:
    """A replay calls no tool, so what it asked would be missing."""
    runs: list[Run] = []

    @tool(effect="reads")
    def stamp() -> str:
        return runs[0].uuid()

    @tool(effect="reads")
    async def astamp() -> str:
        return runs[0].uuid()

    async def program(run: Run, _: Any) -> list[str]:
        runs.append(run)
        said = []
        for _ in range(2):
            try:
                await run.tool(astamp if is_async else stamp)
            except ToolError as error:
                said.append(error.message)
        return [*said, run.uuid()]

    run = record(program, log=tmp_path / "a.jsonl", tools=[stamp, astamp])

    assert run.output is not None
    assert "stamp used its program's run" in run.output[0]
    assert len(run.output) == 3
    assert reexecute(run.log, program).identical
