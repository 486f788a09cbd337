"""An agent of Pydantic AI is a program: recorded, verified, re-executed with nothing run twice."""

import asyncio
import datetime as dt
import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from refold.testing import FixedClock
from tests.adapters.conftest import asked_once
from tests.support.later import Later
from tests.support.model_server import ModelServer

if TYPE_CHECKING:
    from tests.support import pydantic_sdk as sdk
else:
    sdk = Later("tests.support.pydantic_sdk")


def call(name: str, **arguments: Any) -> "sdk.ToolCallPart":
    return sdk.ToolCallPart(name, arguments)


def say(text: str) -> "list[sdk.TextPart]":
    return [sdk.TextPart(text)]


def kinds(recording: refold.Recording) -> list[str]:
    return [entry.kind for entry in read_entries(recording.log)]


def called(recording: refold.Recording) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(recording.log) if entry.kind == "tool.called"]


def test_the_clauses_of_adapters_hold(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.1: requests and calls are effects; in a replay no model and no tool runs."""
    script = sdk.Script([call("count", path="abc")], say("3 it is"))
    ran: list[str] = []
    agent = sdk.Agent(script.model, instructions="Be brief.", capabilities=[sdk.Refold()])

    @agent.tool_plain
    def count(path: str) -> int:
        ran.append(path)
        return len(path)

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    recording = record(ask)

    assert recording.output == "3 it is"
    assert (len(script.asked), ran) == (2, ["abc"])
    assert recording.usage.requests == 2
    assert called(recording) == [
        {"tool": "count", "arguments": {"path": "abc"}, "effect": "changes"}
    ]
    entries = [entry.data for entry in read_entries(recording.log) if entry.kind == "model.asked"]
    assert entries[0]["added"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert [message["role"] for message in entries[1]["added"]] == ["tool"]
    assert entries[1]["base"] == 3


def test_the_same_agent_runs_outside_of_a_run() -> None:
    """Then the capability does nothing."""
    agent = sdk.Agent(sdk.Script(say("plain")).model, capabilities=[sdk.Refold()])

    assert asyncio.run(agent.run("hi")).output == "plain"


def test_the_run_can_be_passed(record: Callable[..., refold.Recording]) -> None:
    """To an agent that knows nothing of Refold, with what its tools are taken for."""
    agent = sdk.Agent(sdk.Script([call("look")], say("done")).model)

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def ask(run: refold.Run, question: str) -> str:
        with_run = [sdk.Refold(run, effects={"look": "reads"})]
        return (await agent.run(question, capabilities=with_run)).output

    assert [data["effect"] for data in called(record(ask))] == ["reads"]


def test_a_tool_says_itself_what_it_does(record: Callable[..., refold.Recording]) -> None:
    """In its metadata; what is no effect class is refused."""
    agent = sdk.Agent(sdk.Script([call("look")], say("done")).model, capabilities=[sdk.Refold()])

    @agent.tool_plain(metadata={"refold": "pure"})
    def look() -> str:
        return "seen"

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    assert [data["effect"] for data in called(record(ask))] == ["pure"]
    with pytest.raises(refold.UsageError, match="expected one of pure"):
        sdk.Refold(effects={"look": "looks"})  # type: ignore[dict-item]  # what is tested


def test_parallel_tools_are_recorded_in_their_order_of_arrival(
    record: Callable[..., refold.Recording],
) -> None:
    """Each in a scope of its own; synchronous ones run on a thread, asynchronous on the host."""
    threads: dict[str, str] = {}
    first = threading.Event()
    agent = sdk.Agent(
        sdk.Script([call("slow", n=1), call("quick", n=2)], say("done")).model,
        capabilities=[sdk.Refold()],
    )

    @agent.tool_plain
    async def slow(n: int) -> int:
        threads["slow"] = threading.current_thread().name
        await asyncio.to_thread(first.wait)
        return n

    @agent.tool_plain
    def quick(n: int) -> int:
        threads["quick"] = threading.current_thread().name
        first.set()
        return n

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    recording = record(ask)

    tools = [entry for entry in read_entries(recording.log) if entry.kind.startswith("tool.")]
    assert [entry.kind for entry in tools] == ["tool.called"] * 2 + ["tool.returned"] * 2
    assert len({entry.call for entry in tools}) == 2
    assert threading.current_thread().name not in threads.values()


def test_what_a_tool_raises_for_the_model_reaches_it(
    record: Callable[..., refold.Recording],
) -> None:
    """Retries and failures are in the log, and the agent sees them as its own."""
    script = sdk.Script([call("find", n=0), call("read", n=0)], [call("find", n=1)], say("done"))
    agent = sdk.Agent(script.model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def find(n: int) -> int:
        if n == 0:
            raise sdk.ModelRetry("not 0")
        return n

    @agent.tool_plain
    def read(n: int) -> int:
        raise sdk.ToolFailed(f"{n} is gone")

    async def ask(_run: refold.Run, question: str) -> list[Any]:
        result = await agent.run(question)
        parts = [part for message in result.all_messages() for part in message.parts]
        returned = [part for part in parts if isinstance(part, sdk.ToolReturnPart)]
        return [[part.tool_name, part.outcome, part.content] for part in returned]

    assert record(ask).output == [
        ["find", "retried", "not 0"],
        ["read", "failed", "0 is gone"],
        ["find", "success", 1],
    ]


def test_what_a_tool_raises_otherwise_ends_the_agent(
    record: Callable[..., refold.Recording],
) -> None:
    """As a `ToolError`, whatever its class was."""
    agent = sdk.Agent(sdk.Script([call("find")]).model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def find() -> int:
        raise ValueError("no such place")

    async def ask(_run: refold.Run, question: str) -> str:
        try:
            return (await agent.run(question)).output
        except refold.ToolError as error:
            return f"{error.tool} {error.error_type} {error.message}"

    assert record(ask).output == "find ValueError no such place"


def test_results_are_what_a_model_is_shown(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.4: models become objects; files and `ToolReturn` come back as they were."""
    agent = sdk.Agent(
        sdk.Script([call("find"), call("look"), call("both")], say("done")).model,
        capabilities=[sdk.Refold()],
    )

    @agent.tool_plain
    def find() -> sdk.Found:
        return sdk.Found(place="Dover", when=dt.date(2026, 1, 2))

    @agent.tool_plain
    def look() -> sdk.BinaryContent:
        return sdk.BinaryContent(b"\x00\xff", media_type="image/png")

    @agent.tool_plain
    def both() -> sdk.ToolReturn:
        return sdk.ToolReturn(return_value=1, content="look here", metadata={"kept": True})

    async def ask(_run: refold.Run, question: str) -> list[str]:
        result = await agent.run(question)
        parts = [part for message in result.all_messages() for part in message.parts]
        returned = [part for part in parts if isinstance(part, sdk.ToolReturnPart)]
        return [repr(part.content) for part in returned] + [repr(returned[2].metadata)]

    output = record(ask).output

    assert output[0] == "{'place': 'Dover', 'when': '2026-01-02'}"
    assert output[1].startswith("BinaryImage(data=b'\\x00\\xff', media_type='image/png'")
    assert output[2:] == ["1", "{'kept': True}"]


def test_a_result_may_look_like_ours(record: Callable[..., refold.Recording]) -> None:
    """Case 86: an object that has the tag of a recorded result is an object all the same."""
    looks = {"$pydantic_ai": "return", "value": {"return_value": 1}}
    agent = sdk.Agent(sdk.Script([call("odd")], say("done")).model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def odd() -> dict[str, Any]:
        return looks

    async def ask(_run: refold.Run, question: str) -> Any:
        result = await agent.run(question)
        parts = [part for message in result.all_messages() for part in message.parts]
        return next(part.content for part in parts if isinstance(part, sdk.ToolReturnPart))

    assert record(ask).output == looks


def test_output_types_are_asked_for_again(record: Callable[..., refold.Recording]) -> None:
    """Output that does not fit goes back to the model; output functions run in the program."""
    script = sdk.Script(
        [call("final_result", place="Dover", when="yesterday")],
        [call("final_result", place="Dover", when="2026-01-02")],
    )
    agent = sdk.Agent(script.model, output_type=sdk.Found, capabilities=[sdk.Refold()])

    @agent.output_validator
    def known(found: sdk.Found) -> sdk.Found:
        assert threading.current_thread() is threading.main_thread()
        return found

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output.model_dump_json()

    assert record(ask).output == '{"place":"Dover","when":"2026-01-02"}'
    assert len(script.asked) == 2


def test_an_agent_that_asks_another_is_recorded_whole(
    record: Callable[..., refold.Recording],
) -> None:
    """A tool that is `program` runs in the run: the other agent's requests are in the log."""
    expert = sdk.Agent(
        sdk.Script(say("twice a day")).model, name="expert", capabilities=[sdk.Refold()]
    )
    script = sdk.Script([call("ask_expert", question="tides?")], say("done"))
    agent = sdk.Agent(script.model, deps_type=NoneType)

    @agent.tool
    async def ask_expert(ctx: sdk.RunContext[None], question: str) -> str:
        return (await expert.run(question, usage=ctx.usage)).output

    async def ask(run: refold.Run, question: str) -> int:
        capability = sdk.Refold(run, effects={"ask_expert": "program"})
        return (await agent.run(question, capabilities=[capability])).usage.requests

    recording = record(ask)

    assert recording.output == 3
    assert kinds(recording).count("model.asked") == 3
    assert called(recording) == []


def test_a_tool_may_be_synchronous_program(record: Callable[..., refold.Recording]) -> None:
    """It runs in place, so what it does to `deps` is done again in a replay."""
    agent = sdk.Agent(sdk.Script([call("note", text="a")], say("done")).model, deps_type=list[str])

    @agent.tool
    def note(ctx: sdk.RunContext[list[str]], text: str) -> str:
        ctx.deps.append(text)
        return "noted"

    async def ask(run: refold.Run, question: str) -> list[str]:
        notes: list[str] = []
        await agent.run(question, deps=notes, capabilities=[sdk.Refold(run, {"note": "program"})])
        return notes

    assert record(ask).output == ["a"]


def test_a_failed_request_is_an_error_of_the_framework(
    record: Callable[..., refold.Recording],
) -> None:
    """Case 91: with its status, so that what handles failures goes on (CONTRACT.md §17.5)."""

    def fails(messages: list[sdk.ModelMessage], _info: sdk.AgentInfo) -> sdk.ModelResponse:
        if messages[0].parts[0].content == "busy":  # type: ignore[union-attr]  # the prompt
            raise sdk.ModelHTTPError(503, "script", "overloaded")
        raise LookupError("no such model")

    agent = sdk.Agent(sdk.FunctionModel(fails), capabilities=[sdk.Refold()])

    async def ask(_run: refold.Run, _input: Any) -> list[str]:
        said = []
        for question in ("busy", "lost"):
            try:
                await agent.run(question)
            except sdk.ModelHTTPError as error:
                said.append(str(error.status_code))
            except refold.ModelError as error:
                said.append(error.message)
        return said

    assert record(ask).output == ["503", "LookupError: no such model"]


def test_a_stream_arrives_whole(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.3: its text is that of the answer, and events tell each part."""
    script = sdk.Script([call("count", path="abc")], say("it is three"))
    agent = sdk.Agent(script.model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def count(path: str) -> int:
        return len(path)

    async def ask(_run: refold.Run, question: str) -> list[str]:
        async with agent.run_stream(question) as result:
            return [text async for text in result.stream_text(delta=True)]

    recording = record(ask)

    assert recording.output == ["it is three "]
    assert kinds(recording).count("tool.called") == 1


def test_steps_can_be_iterated(record: Callable[..., refold.Recording]) -> None:
    """`agent.iter` gives node after node."""
    agent = sdk.Agent(sdk.Script([call("count")], say("done")).model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def count() -> int:
        return 1

    async def ask(_run: refold.Run, question: str) -> list[str]:
        async with agent.iter(question) as steps:
            return [type(node).__name__ async for node in steps]

    assert record(ask).output[-1] == "End"


def test_messages_may_be_the_output(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.2: times and ids are those of the run; a history goes on from them."""
    script = sdk.Script(
        [
            sdk.ThinkingPart("hm", signature="s"),
            sdk.TextPart("one"),
            sdk.ToolCallPart("count", '{ "n": 1 }'),
        ],
        say("two"),
        say("three"),
    )
    agent = sdk.Agent(script.model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def count(n: int) -> int:
        return n

    async def ask(_run: refold.Run, question: str) -> Any:
        first = await agent.run(question)
        second = await agent.run("again", message_history=first.all_messages())
        return json.loads(second.all_messages_json())

    clock = FixedClock(dt.datetime(2026, 1, 2, tzinfo=dt.UTC))
    recording = record(ask, clock=clock)

    parts = [part for message in recording.output for part in message["parts"]]
    assert {part["timestamp"][:10] for part in parts if "timestamp" in part} == {"2026-01-02"}
    assert parts[3]["args"] == '{ "n": 1 }'
    asked = [e.data for e in read_entries(recording.log) if e.kind == "model.asked"]
    assert [data["base"] for data in asked] == [0, 2, 4]
    assert "timestamp" not in json.dumps(asked)


def test_each_question_is_dated_as_its_answer(record: Callable[..., refold.Recording]) -> None:
    """And each answer as it came."""
    agent = sdk.Agent(sdk.Script([call("count")], say("done")).model, capabilities=[sdk.Refold()])

    @agent.tool_plain
    def count() -> int:
        return 1

    async def ask(_run: refold.Run, question: str) -> Any:
        return json.loads((await agent.run(question)).all_messages_json())

    first, one, second, two = record(ask).output

    assert one["timestamp"] < two["timestamp"]
    for asked, answer in ((first, one), (second, two)):
        dates = {part["timestamp"] for part in asked["parts"] if "timestamp" in part}
        assert dates == {answer["timestamp"]}


def test_a_changed_prompt_is_named(tmp_path: Path) -> None:
    """CONTRACT.md §17.2: as a difference of messages."""
    prompt = ["Be brief."]
    agent = sdk.Agent(
        sdk.Script(say("ok")).model, instructions=lambda: prompt[0], capabilities=[sdk.Refold()]
    )

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl")
    prompt[0] = "Be brief and kind."
    report = refold.reexecute(recording, ask)

    assert [divergence.category for divergence in report.divergences] == ["args_changed"]
    assert "Be [-brief.-]{+brief and kind.+}" in str(report)
    assert f"{Path(__file__).name}:" in str(report)  # where the program awaits the agent


def test_drift_fork_and_check_know_agents(tmp_path: Path) -> None:
    """A live model that says something else drifts; an edited answer goes on from there."""
    said = ["ok"]

    def answer(_messages: list[sdk.ModelMessage], _info: sdk.AgentInfo) -> sdk.ModelResponse:
        return sdk.ModelResponse(parts=say(said[0]))

    agent = sdk.Agent(sdk.FunctionModel(answer), capabilities=[sdk.Refold()])

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl", check=True)
    assert refold.drift(recording, ask).identical
    said[0] = "otherwise"
    drifted = refold.drift(recording, ask)
    asked = next(e for e in read_entries(recording.log) if e.kind == "model.asked")
    forked = refold.fork(
        recording,
        None,
        ask,
        into=tmp_path / "fork.jsonl",
        edits={asked.call or "": {"role": "assistant", "content": "what if"}},
    )

    (warning,) = recording.warnings  # a function in a function is found in no other process
    assert warning.startswith("not run again in a different process")
    assert "otherwise" in str(drifted)
    assert forked.recording is not None
    assert forked.recording.output == "what if"


def test_children_have_agents_of_their_own(record: Callable[..., refold.Recording]) -> None:
    """Each run is known by its loop; the tree of delegations is as without a framework."""

    async def expert(_run: refold.Run, question: str) -> str:
        agent = sdk.Agent(sdk.Script(say("twice")).model, capabilities=[sdk.Refold()])
        return (await agent.run(question)).output

    async def ask(run: refold.Run, questions: list[str]) -> list[Any]:
        briefs = [refold.Delegation(program=expert, input=each, brief=each) for each in questions]
        children = [await run.start(each) for each in briefs]
        return [outcome.output for outcome in await run.join(*children)]

    recording = record(ask, ["tides?", "moon?"])

    assert recording.output == ["twice", "twice"]
    tree = refold.delegation_tree(recording.log)
    assert [child.program for child in tree.children] == ["expert", "expert"]
    assert recording.usage.requests == 2


def test_a_person_may_be_asked_by_a_tool(tmp_path: Path) -> None:
    """The run is suspended in the middle of an agent, and goes on from there."""
    asked: list[int] = []

    def answer(messages: list[sdk.ModelMessage], _info: sdk.AgentInfo) -> sdk.ModelResponse:
        asked.append(len(messages))
        return sdk.ModelResponse([call("may_i")] if len(messages) == 1 else say("done"))

    agent = sdk.Agent(sdk.FunctionModel(answer))

    async def ask(run: refold.Run, question: str) -> str:
        async def may_i() -> str:
            return str(await run.ask("May I?"))

        capability = sdk.Refold(run, effects={"may_i": "program"})
        toolset = sdk.FunctionToolset[Any]([may_i])
        result = await agent.run(question, toolsets=[toolset], capabilities=[capability])
        return result.output

    log = tmp_path / "run.jsonl"
    suspended = refold.record(ask, "hi", log=log)
    [question] = suspended.questions
    resumed = refold.resume(log, ask, answers={question.key: "yes"})

    assert (suspended.status, resumed.output) == ("suspended", "done")
    assert asked == [1, 3]
    assert refold.reexecute(log, ask).identical


def test_an_asynchronous_caller_lends_its_loop(tmp_path: Path) -> None:
    """Models and tools are awaited there, so they may share its clients and locks."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def answer(messages: list[sdk.ModelMessage], _info: sdk.AgentInfo) -> sdk.ModelResponse:
        loops.append(asyncio.get_running_loop())
        return sdk.ModelResponse([call("look")] if len(messages) == 1 else say("done"))

    agent = sdk.Agent(sdk.FunctionModel(answer), capabilities=[sdk.Refold()])

    @agent.tool_plain
    async def look() -> str:
        loops.append(asyncio.get_running_loop())
        return "seen"

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    async def main() -> bool:
        recording = await refold.record_async(ask, "hi", log=tmp_path / "run.jsonl")
        return recording.ok and loops == [asyncio.get_running_loop()] * 3

    assert asyncio.run(main())


def test_a_model_request_can_time_out(record: Callable[..., refold.Recording]) -> None:
    """The request is cancelled where it runs; the recorded timer fires again in a replay."""
    cancelled = threading.Event()

    async def hangs(_messages: list[sdk.ModelMessage], _info: sdk.AgentInfo) -> sdk.ModelResponse:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    agent = sdk.Agent(sdk.FunctionModel(hangs), capabilities=[sdk.Refold()])

    async def ask(_run: refold.Run, question: str) -> str:
        try:
            async with asyncio.timeout(0.3):
                await agent.run(question)
        except TimeoutError:
            return "too slow"
        return ""

    assert record(ask).output == "too slow"
    assert cancelled.wait(60)


def test_limits_count_what_agents_spend(tmp_path: Path) -> None:
    """A run's caps on model tokens hold for agents, too."""
    agent = sdk.Agent(sdk.TestModel(), capabilities=[sdk.Refold()])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    limits = refold.Limits(model_tokens=1)
    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl", limits=limits)

    assert recording.status == "limit"


def test_a_program_awaits_its_agents(tmp_path: Path) -> None:
    """CONTRACT.md §17.6: a plain one cannot; an agent in an effect is no program's."""
    agent = sdk.Agent(sdk.Script(say("ok")).model)

    def plain(run: refold.PlainRun, question: str) -> str:
        return agent.run_sync(question, capabilities=[sdk.Refold(run)]).output  # type: ignore[arg-type]  # what is tested

    recording = refold.record(plain, "hi", log=tmp_path / "run.jsonl")

    assert recording.error is not None
    assert "async def" in recording.error.message


def test_a_real_client_asks_once(server: ModelServer, tmp_path: Path) -> None:
    """Through the provider's SDK, on the host; with the server off, the replay is whole."""
    provider = sdk.OpenAIProvider(base_url=server.openai_url, api_key="sk-not-a-real-key")
    agent = sdk.Agent(
        sdk.OpenAIChatModel("small-1", provider=provider),
        instructions="Be brief.",
        capabilities=[sdk.Refold()],
    )

    @agent.tool_plain
    def count(path: str) -> int:
        return len(path)

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    asked_once(ask, server, tmp_path / "run.jsonl")


def test_a_refused_request_keeps_its_status(server: ModelServer, tmp_path: Path) -> None:
    """Beyond the recorded answers the server says 599."""
    provider = sdk.OpenAIProvider(base_url=f"{server.url}/none", api_key="sk-not-a-real-key")
    agent = sdk.Agent(
        sdk.OpenAIChatModel("small-1", provider=provider), capabilities=[sdk.Refold()]
    )

    async def ask(_run: refold.Run, question: str) -> int:
        try:
            await agent.run(question)
        except (sdk.ModelHTTPError, sdk.UnexpectedModelBehavior) as error:
            return getattr(error, "status_code", 0)
        return 0

    assert refold.record(ask, "hi", log=tmp_path / "run.jsonl").output == 599


def test_without_the_capability_the_way_out_is_named(tmp_path: Path) -> None:
    """CONTRACT.md §17.6: a client that would open a socket is refused, with the adapter to use."""
    provider = sdk.OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="sk-not-a-real-key")
    agent = sdk.Agent(sdk.OpenAIChatModel("small-1", provider=provider))

    async def ask(_run: refold.Run, question: str) -> str:
        return (await agent.run(question)).output

    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl")

    assert recording.error is not None
    assert recording.error.code == "outside_loop"
    assert "refold.adapters.pydantic_ai records" in recording.error.message
