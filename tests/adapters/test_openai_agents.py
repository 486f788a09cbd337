"""An agent of OpenAI Agents is a program: recorded, verified, re-executed; nothing runs twice."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import refold
from refold.engine.log.reader import read_entries
from tests.adapters.conftest import asked_once
from tests.support.later import Later
from tests.support.model_server import ModelServer

if TYPE_CHECKING:
    from tests.support import agents_sdk as sdk
else:
    sdk = Later("tests.support.agents_sdk")


def call(name: str, number: int = 1, **arguments: Any) -> "sdk.ResponseFunctionToolCall":
    return sdk.ResponseFunctionToolCall(
        id=f"fc_{number}",
        call_id=f"call_{number}",
        name=name,
        arguments=json.dumps(arguments),
        type="function_call",
    )


def say(text: str, number: int = 1) -> "sdk.ResponseOutputMessage":
    part = sdk.ResponseOutputText(type="output_text", text=text, annotations=[])
    return sdk.ResponseOutputMessage(
        id=f"msg_{number}", type="message", role="assistant", status="completed", content=[part]
    )


def called(recording: refold.Recording) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(recording.log) if entry.kind == "tool.called"]


def asked(recording: refold.Recording) -> list[dict[str, Any]]:
    return [entry.data for entry in read_entries(recording.log) if entry.kind == "model.asked"]


def outputs(result: "sdk.RunResult") -> list[Any]:
    items: list[Any] = list(result.to_input_list())
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


def test_the_clauses_of_adapters_hold(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.1: requests and calls are effects; in a replay no model and no tool runs."""
    script = sdk.Script([say("let me see"), call("count", path="abc")], [say("3 it is")])
    ran: list[str] = []

    @sdk.function_tool
    def count(path: str) -> int:
        ran.append(threading.current_thread().name)
        return len(path)

    agent = sdk.Agent(name="counter", instructions="Be brief.", tools=[count])

    async def ask(run: refold.Run, question: str) -> str:
        result = await sdk.Runner.run(agent, question, run_config=sdk.recorded(run, model=script))
        return str(result.final_output)

    recording = record(ask)

    assert recording.output == "3 it is"
    assert (len(script.asked), len(ran)) == (2, 1)
    assert ran != [threading.current_thread().name]
    assert (recording.usage.input_tokens, recording.usage.requests) == (10, 2)
    assert called(recording) == [
        {"tool": "count", "arguments": {"path": "abc"}, "effect": "changes"}
    ]
    first, second = asked(recording)
    assert first["added"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert (second["base"], [message["role"] for message in second["added"]]) == (3, ["tool"])
    assert agent.tools == [count]


def test_outside_of_a_run_it_is_an_ordinary_configuration() -> None:
    """And a wrapped model is the model."""
    agent = sdk.Agent(name="plain", model=sdk.RecordedModel(sdk.Script([say("plain")])))
    config = sdk.recorded(tracing_disabled=True)

    assert type(config) is sdk.RunConfig
    assert asyncio.run(sdk.Runner.run(agent, "hi", run_config=config)).final_output == "plain"


def test_a_wrapped_model_still_advises_and_closes(
    record: Callable[..., refold.Recording],
) -> None:
    """In a recorded run it advises nothing: what it goes by is not there in a replay."""
    closed: list[str] = []

    class Careful(sdk.Script):
        def get_retry_advice(
            self, request: sdk.ModelRetryAdviceRequest
        ) -> sdk.ModelRetryAdvice | None:
            return sdk.ModelRetryAdvice(suggested=False, reason=str(request.error))

        async def close(self) -> None:
            closed.append("closed")

    model = sdk.RecordedModel(Careful())
    request = sdk.ModelRetryAdviceRequest(error=ValueError("busy"), attempt=1, stream=False)

    async def ask(_run: refold.Run, _question: str) -> bool:
        return model.get_retry_advice(request) is None

    assert model.get_retry_advice(request) == sdk.ModelRetryAdvice(suggested=False, reason="busy")
    assert record(ask).output is True
    asyncio.run(model.close())
    assert closed == ["closed"]


def test_models_are_asked_by_name(record: Callable[..., refold.Recording]) -> None:
    """Agents name them; the provider makes them where they are asked, so never in a replay."""
    made: list[str | None] = []

    class Counting(sdk.Named):
        def get_model(self, model_name: str | None) -> sdk.Model:
            made.append(model_name)
            return super().get_model(model_name)

    provider = Counting(small=sdk.Script([say("small one")]))
    agent = sdk.Agent(
        name="namer", model="small", model_settings=sdk.ModelSettings(temperature=0.5)
    )

    async def ask(run: refold.Run, question: str) -> str:
        config = sdk.recorded(run, model_provider=provider)
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    recording = record(ask)

    assert recording.output == "small one"
    assert made == ["small"]
    assert asked(recording)[0]["model"] == "small"
    assert asked(recording)[0]["parameters"] == {"temperature": 0.5}


def test_a_model_object_of_an_agent_is_wrapped(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.6: or it is refused, with the words that mend it."""
    agent = sdk.Agent(name="own", model=sdk.Script([say("never")]))
    wrapped = agent.clone(model=sdk.RecordedModel(sdk.Script([say("own")]), name="mine"))

    async def ask(run: refold.Run, question: str) -> str:
        try:
            await sdk.Runner.run(agent, question, run_config=sdk.recorded(run))
        except refold.UsageError as error:
            refused = str(error)
        result = await sdk.Runner.run(wrapped, question, run_config=sdk.recorded(run))
        return f"{refused} {result.final_output}"

    recording = record(ask)

    assert recording.output.startswith("agent 'own' has a model object of its own")
    assert recording.output.endswith("Agent(model=RecordedModel(Script(…))) own")
    assert [data["model"] for data in asked(recording)] == ["mine"]


def test_parallel_tools_have_scopes_of_their_own(
    record: Callable[..., refold.Recording],
) -> None:
    """Both are asked before one ends; the agent has results in the order of its calls."""
    first = threading.Event()

    @sdk.function_tool
    async def slow(n: int) -> int:
        await asyncio.to_thread(first.wait)
        return n

    @sdk.function_tool
    def quick(n: int) -> int:
        first.set()
        return n

    script = sdk.Script([call("slow", 1, n=1), call("quick", 2, n=2)], [say("done")])
    agent = sdk.Agent(name="both", tools=[slow, quick])

    async def ask(run: refold.Run, question: str) -> list[Any]:
        config = sdk.recorded(run, model=script, effects={"slow": "reads"})
        return outputs(await sdk.Runner.run(agent, question, run_config=config))

    recording = record(ask)

    tools = [entry for entry in read_entries(recording.log) if entry.kind.startswith("tool.")]
    assert [entry.kind for entry in tools] == ["tool.called"] * 2 + ["tool.returned"] * 2
    assert tools[0].call != tools[1].call
    assert [data["effect"] for data in called(recording)] == ["reads", "changes"]
    assert recording.output == ["1", "2"]


def test_agents_as_tools_and_handoffs_are_program_code(
    record: Callable[..., refold.Recording],
) -> None:
    """Each agent asks its own model, and all of it is in the one log."""

    @sdk.function_tool
    def tides(place: str) -> str:
        return f"{place}: twice a day"

    expert = sdk.Agent(name="expert", model="expert", tools=[tides])
    clerk = sdk.Agent(name="clerk", model="clerk", instructions="Hand out.")
    front = sdk.Agent(
        name="front",
        model="front",
        tools=[expert.as_tool("ask_expert", "Ask the expert.")],
        handoffs=[clerk],
    )
    provider = sdk.Named(
        front=sdk.Script([call("ask_expert", 1, input="tides?")], [call("transfer_to_clerk", 2)]),
        expert=sdk.Script([call("tides", 3, place="Dover")], [say("twice")]),
        clerk=sdk.Script([say("here you are")]),
    )

    async def ask(run: refold.Run, question: str) -> list[str]:
        config = sdk.recorded(run, model_provider=provider)
        result = await sdk.Runner.run(front, question, run_config=config)
        return [str(result.final_output), result.last_agent.name]

    recording = record(ask)

    assert recording.output == ["here you are", "clerk"]
    names = [data["model"] for data in asked(recording)]
    assert names == ["front", "expert", "expert", "front", "clerk"]
    assert [data["tool"] for data in called(recording)] == ["tides"]


def test_a_failing_tool_is_told_to_the_model(record: Callable[..., refold.Recording]) -> None:
    """As its failure function says it; without one, the run of the agent ends."""

    def sorry(_context: sdk.RunContextWrapper[Any], error: Exception) -> str:
        return f"sorry: {error}"

    @sdk.function_tool(failure_error_function=sorry)
    def find() -> str:
        raise ValueError("no such place")

    @sdk.function_tool(failure_error_function=None)
    def lose() -> str:
        raise ValueError("lost")

    script = sdk.Script([call("find")], [call("lose", 2)])
    agent = sdk.Agent(name="finder", tools=[find, lose])

    async def ask(run: refold.Run, question: str) -> str:
        try:
            await sdk.Runner.run(agent, question, run_config=sdk.recorded(run, model=script))
        except sdk.UserError as error:
            cause = error.__cause__
            assert isinstance(cause, refold.ToolError)
            return f"{cause.error_type}: {cause.message}"
        return ""

    recording = record(ask)

    assert recording.output == "ValueError: lost"
    assert asked(recording)[1]["added"][-1]["content"] == "sorry: no such place"


def test_results_are_what_a_model_is_shown(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.4: JSON and images as they are, all else as its text."""

    @sdk.function_tool
    def plain() -> dict[str, int]:
        return {"b": 1, "a": 2}

    @sdk.function_tool
    def typed() -> sdk.Found:
        return sdk.Found(place="Dover")

    @sdk.function_tool
    def image() -> sdk.ToolOutputImage:
        return sdk.ToolOutputImage(image_url="https://x.test/a.png")

    script = sdk.Script([call("plain", 1), call("typed", 2), call("image", 3)], [say("done")])
    agent = sdk.Agent(name="results", tools=[plain, typed, image])

    async def ask(run: refold.Run, question: str) -> list[Any]:
        config = sdk.recorded(run, model=script)
        return outputs(await sdk.Runner.run(agent, question, run_config=config))

    assert record(ask).output == [
        "{'b': 1, 'a': 2}",
        "place='Dover'",
        [{"type": "input_image", "image_url": "https://x.test/a.png"}],
    ]


def test_a_tool_may_be_program(record: Callable[..., refold.Recording]) -> None:
    """Then what it does to the context is done again in a replay."""

    @sdk.function_tool
    async def note(context: sdk.RunContextWrapper[list[str]], text: str) -> str:
        context.context.append(text)
        return "noted"

    script = sdk.Script([call("note", text="a")], [say("done")])
    agent = sdk.Agent[list[str]](name="notes", tools=[note])

    async def ask(run: refold.Run, question: str) -> list[str]:
        notes: list[str] = []
        script.asked.clear()
        config = sdk.recorded(run, model=script, effects={"note": "program"})
        await sdk.Runner.run(agent, question, context=notes, run_config=config)
        return notes

    recording = record(ask)

    assert recording.output == ["a"]
    assert called(recording) == []


def test_output_types_and_reasoning_come_back(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.3: an answer is kept whole, and its schema is part of the request."""
    thought = sdk.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[])
    script = sdk.Script([thought, call("look")], [say('{"place":"Dover"}')])

    @sdk.function_tool
    def look() -> str:
        return "seen"

    agent = sdk.Agent(name="typed", tools=[look], output_type=sdk.Found)

    async def ask(run: refold.Run, question: str) -> list[Any]:
        result = await sdk.Runner.run(agent, question, run_config=sdk.recorded(run, model=script))
        kinds = [item.type for item in result.raw_responses[0].output]
        return [result.final_output.place, *kinds, result.raw_responses[1].response_id]

    recording = record(ask)

    assert recording.output == ["Dover", "reasoning", "function_call", "resp_2"]
    assert "place" in json.dumps(asked(recording)[0]["parameters"]["openai_agents"]["output"])
    assert [data["base"] for data in asked(recording)] == [0, 2]


def test_a_stream_arrives_whole(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.3: each item and text as one event."""

    @sdk.function_tool
    def count(path: str) -> int:
        return len(path)

    script = sdk.Script([call("count", path="abc")], [say("it is three")])
    agent = sdk.Agent(name="streamer", tools=[count])

    async def ask(run: refold.Run, question: str) -> list[str]:
        result = sdk.Runner.run_streamed(
            agent, question, run_config=sdk.recorded(run, model=script)
        )
        told = [
            getattr(event.data, "delta", "") if event.type == "raw_response_event" else event.type
            async for event in result.stream_events()
        ]
        return [*filter(None, told), str(result.final_output)]

    recording = record(ask)

    assert recording.output[-1] == "it is three"
    assert recording.output.count("it is three") == 2
    assert recording.output.count("run_item_stream_event") == 3
    assert [data["tool"] for data in called(recording)] == ["count"]


def test_guardrails_are_program_code(record: Callable[..., refold.Recording]) -> None:
    """One that asks a model is given the configuration, as any other run."""
    judge = sdk.Agent(name="judge", model="judge")
    provider = sdk.Named(judge=sdk.Script([say("no")]), main=sdk.Script([say("never heard")]))

    async def allowed(
        _context: sdk.RunContextWrapper[Any], _agent: sdk.Agent[Any], given: Any
    ) -> sdk.GuardrailFunctionOutput:
        found = await sdk.Runner.run(judge, given, run_config=sdk.recorded(model_provider=provider))
        return sdk.GuardrailFunctionOutput(found.final_output, found.final_output == "no")

    guard = sdk.InputGuardrail(guardrail_function=allowed, run_in_parallel=False)
    agent = sdk.Agent(name="guarded", model="main", input_guardrails=[guard])

    async def ask(run: refold.Run, question: str) -> str:
        try:
            await sdk.Runner.run(
                agent, question, run_config=sdk.recorded(run, model_provider=provider)
            )
        except sdk.InputGuardrailTripwireTriggered:
            return "tripped"
        return ""

    recording = record(ask)

    assert recording.output == "tripped"
    assert [data["model"] for data in asked(recording)] == ["judge"]


def test_a_failed_request_is_a_model_error(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.5: with the class and words of what was raised, and no key."""
    script = sdk.Script(LookupError("no model; key sk-1234567890abcdef"))

    async def ask(run: refold.Run, question: str) -> list[str]:
        try:
            await sdk.Runner.run(
                sdk.Agent(name="a"), question, run_config=sdk.recorded(run, model=script)
            )
        except refold.ModelError as error:
            return [error.code, error.message]
        return []

    assert record(ask).output == ["raised", "LookupError: no model; key …"]


def test_a_changed_prompt_is_named(tmp_path: Path) -> None:
    """CONTRACT.md §17.2: as a difference of messages."""
    agent = sdk.Agent(name="prompted", instructions="Be brief.")
    script = sdk.Script([say("ok")])

    async def ask(run: refold.Run, question: str) -> str:
        config = sdk.recorded(run, model=script)
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl")
    agent.instructions = "Be brief and kind."
    report = refold.reexecute(recording, ask)

    assert [divergence.category for divergence in report.divergences] == ["args_changed"]
    assert "and kind" in str(report)
    assert f"{Path(__file__).name}:" in str(report)  # where the program awaits the agent


def test_drift_and_check_know_agents(tmp_path: Path) -> None:
    """A live model that says something else drifts."""

    async def ask(run: refold.Run, question: str) -> str:
        config = sdk.recorded(run, model_provider=provider)
        agent = sdk.Agent(name="a", model="main")
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    provider = sdk.Named(main=sdk.Script([say("ok")]))
    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl", check=True)
    provider = sdk.Named(main=sdk.Script([say("otherwise")]))

    (warning,) = recording.warnings  # a function in a function is found in no other process
    assert warning.startswith("not run again in a different process")
    assert "otherwise" in str(refold.drift(recording, ask))


def test_a_real_client_asks_once(server: ModelServer, tmp_path: Path) -> None:
    """Through the provider's SDK, on the host; with the server off, the replay is whole."""

    @sdk.function_tool
    def count(path: str) -> int:
        return len(path)

    client = sdk.AsyncOpenAI(base_url=server.openai_url, api_key="sk-not-a-real-key")
    model = sdk.OpenAIChatCompletionsModel("small-1", openai_client=client)
    agent = sdk.Agent(name="counter", tools=[count])

    async def ask(run: refold.Run, question: str) -> str:
        config = sdk.recorded(run, model=model)
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    recording = asked_once(ask, server, tmp_path / "run.jsonl")
    assert asked(recording)[0]["model"] == "small-1"


def test_without_the_configuration_the_way_out_is_named(tmp_path: Path) -> None:
    """CONTRACT.md §17.6: a client that would open a socket is refused, with the adapter to use."""
    client = sdk.AsyncOpenAI(base_url="http://127.0.0.1:9/v1", api_key="sk-not-a-real-key")
    model = sdk.OpenAIChatCompletionsModel("small-1", openai_client=client)

    async def ask(_run: refold.Run, question: str) -> str:
        config = sdk.RunConfig(model=model, tracing_disabled=True)
        return str(
            (await sdk.Runner.run(sdk.Agent(name="a"), question, run_config=config)).final_output
        )

    recording = refold.record(ask, "hi", log=tmp_path / "run.jsonl")

    assert recording.error is not None
    assert recording.error.code == "outside_loop"
    assert "refold.adapters.openai_agents records" in recording.error.message


@pytest.mark.parametrize("is_async", [False, True])
def test_a_filter_of_what_a_model_is_asked_is_program_code(
    is_async: bool,  # noqa: FBT001 - a parameter of the test
    record: Callable[..., refold.Recording],
) -> None:
    """What it leaves is what the log says was asked."""

    def shorter(data: sdk.CallModelData[Any]) -> sdk.ModelInputData:
        return sdk.ModelInputData(input=data.model_data.input[-1:], instructions="Shorter.")

    async def later(data: sdk.CallModelData[Any]) -> sdk.ModelInputData:
        return shorter(data)

    agent = sdk.Agent(name="filtered", instructions="Be brief.")

    async def ask(run: refold.Run, question: str) -> str:
        given = later if is_async else shorter
        config = sdk.recorded(run, model=sdk.Script([say("ok")]), call_model_input_filter=given)
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    (request,) = asked(record(ask))
    assert request["added"][0] == {"role": "system", "content": "Shorter."}


def test_a_wrapped_model_streams_outside_of_a_run_as_it_does() -> None:
    agent = sdk.Agent(name="plain", model=sdk.RecordedModel(sdk.Script([say("plain")])))

    async def ask() -> list[str]:
        result = sdk.Runner.run_streamed(
            agent, "hi", run_config=sdk.recorded(tracing_disabled=True)
        )
        return [each.type async for each in result.stream_events()]

    assert "raw_response_event" in asyncio.run(ask())


def test_a_hosted_tool_stays_the_providers(record: Callable[..., refold.Recording]) -> None:
    """It is offered, and nothing of it is an effect."""
    agent = sdk.Agent(name="hosted", tools=[sdk.WebSearchTool()])

    async def ask(run: refold.Run, question: str) -> str:
        config = sdk.recorded(run, model=sdk.Script([say("found")]))
        return str((await sdk.Runner.run(agent, question, run_config=config)).final_output)

    recording = record(ask)

    assert (recording.output, called(recording)) == ("found", [])


def test_several_images_are_each_shown(record: Callable[..., refold.Recording]) -> None:
    """CONTRACT.md §17.4: a list of them is a list in the log."""

    @sdk.function_tool
    def images() -> list[Any]:
        return [sdk.ToolOutputImage(image_url=f"https://x.test/{name}.png") for name in "ab"]

    script = sdk.Script([call("images")], [say("done")])
    agent = sdk.Agent(name="shows", tools=[images])

    async def ask(run: refold.Run, question: str) -> list[Any]:
        return outputs(
            await sdk.Runner.run(agent, question, run_config=sdk.recorded(run, model=script))
        )

    ((first, second),) = record(ask).output
    assert (first["image_url"], second["image_url"]) == (
        "https://x.test/a.png",
        "https://x.test/b.png",
    )


def answer() -> "sdk.ModelResponse":
    texts = [
        sdk.ResponseOutputText(type="output_text", text=text, annotations=[])
        for text in ("one", "two")
    ]
    said = sdk.ResponseOutputMessage(
        id="m1", type="message", role="assistant", status="completed", content=list(texts)
    )
    call = sdk.ResponseFunctionToolCall(
        id="f1", call_id="c1", name="count", arguments="{}", type="function_call"
    )
    usage = sdk.Usage(requests=1, input_tokens=3, output_tokens=2, total_tokens=5)
    return sdk.ModelResponse([said, call], usage, response_id="resp_1")


async def streamed(events: Iterable[Any]) -> AsyncIterator[Any]:
    for event in events:
        yield event


def test_an_answer_is_told_item_by_item_and_text_by_text() -> None:
    """And then whole; what is drained of it is the answer again."""
    events = sdk.events_of(answer(), "small", 0.0)

    assert [event.type.removeprefix("response.") for event in events] == [
        "output_item.added",
        "output_text.delta",
        "output_text.delta",
        "output_item.done",
        "output_item.added",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(7))
    assert asyncio.run(sdk.drained(streamed(events))) == answer()
    told = events[-1].response  # type: ignore[union-attr]  # the last has one
    assert (told.id, told.model, told.status) == ("resp_1", "small", "completed")
    assert told.created_at == 0
    assert (told.object, told.tool_choice, told.parallel_tool_calls) == ("response", "auto", True)
    assert told.usage is not None
    assert told.usage.total_tokens == 5


def test_the_end_of_a_stream_says_what_there_was() -> None:
    """Also where no item was told before; what has no id and no usage is an answer, too."""
    whole = answer()
    whole.response_id = None
    last = sdk.events_of(whole, "small", 0.0)[-1]
    last.response.usage = None  # type: ignore[union-attr]  # the last has one

    found = asyncio.run(sdk.drained(streamed([last])))

    assert last.response.id == ""  # type: ignore[union-attr]  # the same
    assert (found.output, found.usage) == (whole.output, sdk.Usage(requests=1))


def test_items_may_be_missing_at_the_end() -> None:
    """Some servers say them only as they are done."""
    events = sdk.events_of(answer(), "small", 0.0)
    events[-1].response.output = []  # type: ignore[union-attr]  # the last has one

    assert asyncio.run(sdk.drained(streamed(events))).output == answer().output


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    """Whether it says so or not; if it does, the error says why."""
    events = sdk.events_of(answer(), "small", 0.0)

    with pytest.raises(sdk.ModelBehaviorError, match="without a completed response"):
        asyncio.run(sdk.drained(streamed(events[:-1])))
    last = events[-1].response  # type: ignore[union-attr]  # the last has one
    last.status, last.error = "failed", sdk.ResponseError(code="server_error", message="overloaded")
    with pytest.raises(sdk.ModelBehaviorError, match=r"response: overloaded\Z"):
        asyncio.run(sdk.drained(streamed(events)))
    last.status, last.error = "incomplete", None
    with pytest.raises(sdk.ModelBehaviorError, match=r"response: incomplete\Z"):
        asyncio.run(sdk.drained(streamed(events)))
    last.incomplete_details = sdk.IncompleteDetails(reason="max_output_tokens")
    with pytest.raises(sdk.ModelBehaviorError, match=r"response: incomplete: max_output_tokens\Z"):
        asyncio.run(sdk.drained(streamed(events)))
