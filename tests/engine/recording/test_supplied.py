"""A recorder that asks its supply first; rules are CONTRACT.md §12.10."""

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from refold.engine.events.events import ToolReturned
from refold.engine.events.limits import CEILINGS
from refold.engine.events.outcome import Usage
from refold.engine.log.reader import read_entries
from refold.engine.models import FunctionModel
from refold.engine.ports.ports import CancelSignal, Delegation, Identity, ModelReply, Parentage
from refold.engine.recording.host import Host
from refold.engine.recording.recorder import Recorder
from refold.engine.recording.run_request import RunRequest
from refold.engine.recording.supplied import Supplied, recorder_for
from refold.engine.recording.workers import in_thread
from refold.engine.runners.in_process import InProcess
from refold.tools.contract.tool_types import tool


class Book:
    """A supply with these outcomes, and this order."""

    def __init__(self, outcomes: dict[str, Any], order: list[str]) -> None:
        self.outcomes = outcomes
        self.order = order

    def refuse(self, _call: str, _asked: Any, _tool: Any) -> None:
        return None

    def outcome(self, call: str, _asked: Any, _effect: Any) -> Any:
        return self.outcomes.get(call)

    def child(self, _request: Any, outcome: Any) -> Any:
        return outcome

    def ended(self, _call: str, outcome: Any) -> Any:
        return outcome

    def draw(self, source: str, name: str, _call: str) -> tuple[Any] | None:
        return ("drawn",) if (source, name) == ("environment", "X") else None

    def snapshot(self) -> None:
        return None

    def read_clock(self) -> tuple[int, int] | None:
        return 5_000_000, 7

    def when(self, key: str) -> int | None:
        return self.order.index(key) if key in self.order else None

    def fired(self, key: str, _length_us: int | None, _nth: int) -> int | None:
        return self.when(key)

    def granted(self, _call: str, _has: int) -> int | None:
        return None

    def outlasts(self, _call: str) -> bool:
        return False

    def below(self, _effect: Any) -> None:
        return None


def request(program: Any, log: Path, supply: Any, tools: list[Any]) -> RunRequest:
    """Return a root run with a supply."""
    return RunRequest(
        program=program,
        program_name="p",
        input=None,
        identity=Identity(run_id="a" * 16, root_id="a" * 16, path="", depth=0, seed="00"),
        limits=CEILINGS,
        log=log,
        tools={each.name: each for each in tools},
        durability="fast",
        supply=supply,
    )


def as_child(wanted: RunRequest) -> RunRequest:
    """Return the request of a run that has one above it."""
    parent = Parentage(run="b" * 16, call="0#1", hash="0" * 16)
    identity = attrs.evolve(wanted.identity, parent=parent, path="0#1", depth=1)
    return attrs.evolve(wanted, identity=identity)


def ended(wanted: RunRequest) -> Any:
    """Record as a child is, on a thread, where nothing but an arrival ends a wait."""
    host = Host()
    try:
        return in_thread(recorder_for(wanted, host).record)
    finally:
        host.close()


def run(wanted: RunRequest) -> Any:
    """Record, and return the output."""
    return ended(wanted).finished.output


def test_only_a_request_with_a_supply_gets_one(tmp_path: Path) -> None:
    """Every other recorder is what it was."""

    async def nothing(_run: Any, _: Any) -> None: ...

    host = Host()
    plain = recorder_for(request(nothing, tmp_path / "a.jsonl", None, []), host)
    supplied = recorder_for(request(nothing, tmp_path / "b.jsonl", Book({}, []), []), host)

    assert (type(plain), type(supplied)) == (Recorder, Supplied)
    plain.record()
    supplied.record()


def test_what_is_supplied_is_not_done(tmp_path: Path) -> None:
    """And what is not supplied is."""
    done: list[int] = []

    @tool(effect="reads")
    def work(x: int) -> int:
        done.append(x)
        return x

    async def two(run: Any, _: Any) -> list[int]:
        return [await run.tool("work", x=1), await run.tool("work", x=2)]

    supply = Book({"0#1": ToolReturned("ok", 10)}, [])

    assert run(request(two, tmp_path / "a.jsonl", supply, [work])) == [10, 2]
    assert done == [2]


def test_live_outcomes_wait_for_their_turn(tmp_path: Path) -> None:
    """The one that comes first is delivered second, because the record has it so."""
    second_is_done = threading.Event()

    @tool(effect="reads")
    def slow() -> str:
        assert second_is_done.wait(60)
        return "slow"

    @tool(effect="reads")
    def quick() -> str:
        second_is_done.set()
        return "quick"

    async def both(run: Any, _: Any) -> list[str]:
        import asyncio  # noqa: PLC0415 - of the program

        found = []
        for each in asyncio.as_completed([run.tool("slow"), run.tool("quick")]):
            found.append(await each)  # noqa: PERF401 - in the order of completion
        return found

    log = tmp_path / "a.jsonl"
    supply = Book({}, ["0/1#1", "0/2#1"])

    assert run(request(both, log, supply, [slow, quick])) == ["slow", "quick"]
    returned = [entry.call for entry in read_entries(log) if entry.kind == "tool.returned"]
    assert returned == ["0/1#1", "0/2#1"]


def test_a_recorded_timer_fires_in_its_turn_and_not_in_time(tmp_path: Path) -> None:
    """A day passes at once."""

    async def sleeps(run: Any, _: Any) -> str:
        await run.sleep(86_400)
        return "rested"

    assert run(request(sleeps, tmp_path / "a.jsonl", Book({}, ["0@1"]), [])) == "rested"


def test_draws_and_looks_are_supplied(tmp_path: Path) -> None:
    """They stand in the new log as they were."""

    async def looks(run: Any, _: Any) -> list[Any]:
        return [run.environment("X"), run.now().timestamp()]

    assert run(request(looks, tmp_path / "a.jsonl", Book({}, []), [])) == ["drawn", 5.0]


def test_a_question_that_nobody_answers_holds_nothing_back(tmp_path: Path) -> None:
    """The record has its answer first, and the answer of a tool behind it."""

    @tool(effect="reads")
    def quick() -> str:
        return "quick"

    async def both(run: Any, _: Any) -> Any:
        import asyncio  # noqa: PLC0415 - of the program

        return await asyncio.gather(run.ask("?"), run.tool("quick"))

    log = tmp_path / "a.jsonl"
    recorded = ended(request(both, log, Book({}, ["0/1#1", "0/2#1"]), [quick]))

    assert recorded.finished.status == "suspended"
    assert [entry.call for entry in read_entries(log) if entry.kind == "tool.returned"] == ["0/2#1"]


def test_children_that_wait_for_people_suspend_the_run_in_any_order(tmp_path: Path) -> None:
    """The second one waits first; the record has the first one first."""
    begun = threading.Event()

    @tool(effect="reads")
    def hold(n: int) -> int:
        begun.set() if n == 2 else begun.wait(60)
        while n == 1 and any(each.name == "refold-child-0/2#1" for each in threading.enumerate()):
            os.sched_yield()
        return n

    async def asks(run: Any, n: int) -> Any:
        return await run.ask(str(await run.tool("hold", n=n)))

    async def both(run: Any, _: Any) -> list[Any]:
        import asyncio  # noqa: PLC0415 - of the program

        children = [Delegation(program=asks, input=n) for n in (1, 2)]
        return await asyncio.gather(*(run.delegate(each) for each in children))

    wanted = request(both, tmp_path / "a.jsonl", Book({}, ["0/1#1", "0/2#1"]), [hold])

    recorded = ended(attrs.evolve(wanted, runners={"in-process": InProcess()}))

    assert recorded.finished.status == "suspended"
    assert [each.key for each in recorded.questions] == ["0/1#1 > 0#2", "0/2#1 > 0#2"]


def test_a_child_that_ended_by_itself_may_do_so_after_it_was_given_up(tmp_path: Path) -> None:
    """In the record its end came before the cancellation, here it comes just after."""
    given_up = threading.Event()

    class Outlasting(Book):
        def outlasts(self, _call: str) -> bool:
            given_up.set()
            return True

    @tool(effect="reads")
    def work() -> bool:
        return given_up.wait(60)

    async def works(run: Any, _: Any) -> Any:
        return await run.tool("work")

    async def leaves(run: Any, _: Any) -> None:
        await run.start(Delegation(program=works))

    log = tmp_path / "a.jsonl"
    wanted = request(leaves, log, Outlasting({}, []), [work])
    ended(attrs.evolve(wanted, runners={"in-process": InProcess()}))

    ends = [each.data["outcome"] for each in read_entries(log) if each.kind == "child.finished"]
    assert [(each["status"], each["output"]) for each in ends] == [("completed", True)]


@pytest.mark.parametrize(("order", "done"), [(["0#1", "cancellation"], 1), (["0#1", "0#2"], 2)])
def test_a_child_is_cancelled_where_it_was_in_the_record(
    order: list[str], done: int, tmp_path: Path
) -> None:
    """What it did beyond that waits for the cancellation, which comes a little later here."""
    cancel = CancelSignal()

    class Cancelled(Book):
        def when(self, key: str) -> int | None:
            if key == "cancellation" and len(worked) == 2:
                cancel.set()
            return super().when(key)

    worked: list[int] = []

    @tool(effect="reads")
    def work(n: int) -> int:
        worked.append(n)
        return n

    async def works(run: Any, _: Any) -> None:
        for n in range(2):
            await run.tool("work", n=n)

    log = tmp_path / "a.jsonl"
    wanted = as_child(request(works, log, Cancelled({}, order), [work]))
    how = ended(attrs.evolve(wanted, cancel=cancel)).finished

    assert how.status == ("cancelled" if done == 1 else "completed")
    assert [e.kind for e in read_entries(log)].count("tool.returned") == done


def asks(times: int) -> Any:
    """Return a program that asks its model so often, for 10 tokens each."""

    async def program(run: Any, _: Any) -> int:
        for _ in range(times):
            await run.model([{"role": "user", "content": "hi"}])
        return times

    return program


def tenth(_request: Any) -> ModelReply:
    usage = Usage(requests=1, input_tokens=10)
    return ModelReply(message={"role": "assistant", "content": "ok"}, usage=usage)


def test_as_many_tokens_are_asked_for_as_the_record_was_given(tmp_path: Path) -> None:
    """Of the run above, which writes them as well; what the record was refused is not asked for."""
    asked: list[int | None] = []

    class Given(Book):
        def draw(self, source: str, _name: str, call: str) -> tuple[Any] | None:
            return ({"0#2": 15, "0#4": 0}.get(call, 0),) if source == "tokens" else None

    def above(_has: int, wants: int | None, _gives_up: Any) -> int:
        asked.append(wants)
        return wants or 0

    wanted = as_child(request(asks(9), tmp_path / "a.jsonl", Given({}, []), []))
    models = {"": FunctionModel(tenth)}
    limits = attrs.evolve(CEILINGS, model_tokens=10)
    how = ended(attrs.evolve(wanted, models=models, limits=limits, tokens=above)).finished

    assert (how.status, how.usage.input_tokens, asked) == ("limit", 30, [15])


def test_a_child_is_given_tokens_at_their_place_among_all_outcomes(tmp_path: Path) -> None:
    """The tool's result is there before the child asks, and comes after the grant."""
    is_done = threading.Event()

    class Granted(Book):
        def granted(self, _call: str, _has: int) -> int | None:
            return 0 if _has == 50 else None

    @tool(effect="reads")
    def work() -> None:
        is_done.set()

    def once_done(request: Any) -> ModelReply:
        assert is_done.wait(60)
        return attrs.evolve(tenth(request), usage=Usage(requests=1, input_tokens=50))

    async def both(run: Any, _: Any) -> Any:
        child = await run.start(Delegation(program=asks(2)))
        await run.tool("work")
        return (await run.join(child))[0].result()

    log = tmp_path / "a.jsonl"
    wanted = request(both, log, Granted({}, ["grant", "0#2", "0#1"]), [work])
    limits = attrs.evolve(CEILINGS, model_tokens=100)
    more: dict[str, Any] = {"runners": {"in-process": InProcess()}, "limits": limits}
    models = {"": FunctionModel(once_done)}

    assert run(attrs.evolve(wanted, models=models, **more)) == 2
    kinds = [entry.kind for entry in read_entries(log)]
    assert kinds.index("tokens.granted") < kinds.index("tool.returned")


@pytest.mark.parametrize("order", [["0#1", "cancellation"], ["0#1"]])
def test_a_cancellation_waits_for_its_place_for_a_second_at_most(
    order: list[str], tmp_path: Path
) -> None:
    """What came before it in the record, or the child's own end, may never come here."""

    class Outlasting(Book):
        def outlasts(self, _call: str) -> bool:
            return True

    @tool(effect="reads")
    async def hangs() -> None:
        await asyncio.Event().wait()

    async def waits(run: Any, _: Any) -> None:
        await run.tool("hangs")

    async def leaves(run: Any, _: Any) -> None:
        await run.start(Delegation(program=waits))

    is_below = len(order) == 1
    program, supply = (leaves, Outlasting) if is_below else (waits, Book)
    log, cancel = tmp_path / "a.jsonl", CancelSignal()
    wanted = request(program, log, supply({}, order), [hangs])
    if not is_below:
        wanted = attrs.evolve(as_child(wanted), cancel=cancel)
        cancel.set()
    how = ended(attrs.evolve(wanted, runners={"in-process": InProcess()})).finished

    assert how.status == ("completed" if is_below else "cancelled")
    ends = [each.data["outcome"] for each in read_entries(log) if each.kind == "child.finished"]
    assert [each["status"] for each in ends] == ["cancelled"] * is_below
