"""Spans by the conventions' own names and types, as OpenTelemetry publishes them (§14.19)."""

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.util.genai import types
from pydantic import TypeAdapter

import refold
from refold.engine.log.names import parent_of
from refold.engine.models.scripted import FunctionModel
from refold.exports.conventions import definitions_of, message_of, reasoning, request_parameters
from refold.exports.spans import UNTOLD, Spans, TraceSpan

LOGS = Path(__file__).parents[2] / "fixtures" / "logs" / "engine-2"
NAMES = {value for value in vars(gen_ai_attributes).values() if isinstance(value, str)}
SHAPES: dict[str, TypeAdapter[Any]] = {
    "gen_ai.input.messages": TypeAdapter(list[types.InputMessage]),
    "gen_ai.output.messages": TypeAdapter(list[types.OutputMessage]),
    "gen_ai.tool.definitions": TypeAdapter(list[types.FunctionToolDefinition]),
}


def spans_of(log: Path) -> list[TraceSpan]:
    return list(Spans(log, content=True))


def values(span: TraceSpan) -> Iterator[tuple[str, Any]]:
    """Yield messages and definitions of a span, as the conventions' types read them."""
    for name in SHAPES.keys() & span.attributes.keys():
        yield name, SHAPES[name].validate_json(span.attributes[name], strict=True)


def test_messages_definitions_and_names_are_those_of_the_conventions() -> None:
    read = Counter[str]()
    for log in LOGS.glob("*.jsonl"):
        for span in spans_of(log) if parent_of(log) is None else ():
            assert {name for name in span.attributes if name.startswith("gen_ai.")} <= NAMES
            for name, found in values(span):
                read[name] += 1
                for each in found:
                    parts = getattr(each, "parts", [])
                    assert not any(isinstance(part, types.GenericPart) for part in parts), each
                    if schema := getattr(each, "parameters", None):
                        Draft7Validator.check_schema(schema)

    assert read.keys() == SHAPES.keys()


@pytest.mark.parametrize("name", ["watched", "delegating"])
def test_a_tool_call_has_the_id_that_its_model_gave_it(name: str) -> None:
    spans = spans_of(LOGS / f"{name}.jsonl")
    asked = {
        part.id: part.name
        for span in spans
        for kind, found in values(span)
        for message in (found if kind == "gen_ai.output.messages" else ())
        for part in message.parts
        if isinstance(part, types.ToolCallRequestPart)
    }
    made = [span.attributes for span in spans if "gen_ai.tool.name" in span.attributes]

    assert len(made) > 1
    assert [asked[one["gen_ai.tool.call.id"]] for one in made] == [
        one["gen_ai.tool.name"] for one in made
    ]
    assert {one["refold.call"] for one in made}.isdisjoint(asked)
    ids = [one["gen_ai.tool.call.id"] for one in made]
    without = [one.attributes.get("gen_ai.tool.call.id") for one in Spans(LOGS / f"{name}.jsonl")]
    assert [one for one in without if one] == ids


def test_equal_calls_of_two_agents_have_their_own_ids(tmp_path: Path) -> None:
    """And a call that no model asked for has none."""

    def add(a: int, b: int) -> int:
        return a + b

    def answer(request: Any) -> dict[str, Any]:
        name = request.messages[0]["content"]
        call = {"id": f"call-of-{name}", "name": "add", "arguments": {"a": 1}}
        return {"tool_calls": [call, {**call, "id": f"second-of-{name}"}]}

    async def one(run: refold.Run, name: str) -> None:
        await run.model([{"role": "user", "content": name}])
        for _ in range(3):
            await run.tool("add", a=1, b=2)

    async def both(run: refold.Run, _given: Any) -> None:
        await asyncio.gather(one(run, "left"), one(run, "right"))

    log = tmp_path / "both.jsonl"
    refold.record(both, None, log=log, tools=[refold.tool(add)], model=FunctionModel(answer))
    ids: dict[str, list[Any]] = {}
    for span in sorted(spans_of(log), key=lambda span: span.attributes.get("refold.entry", 0)):
        if "gen_ai.tool.name" in span.attributes:
            scope = span.attributes["refold.call"].partition("#")[0]
            ids.setdefault(scope, []).append(span.attributes.get("gen_ai.tool.call.id"))

    assert sorted(ids.values()) == [
        ["call-of-left", "second-of-left", None],
        ["call-of-right", "second-of-right", None],
    ]


def test_an_agent_has_its_first_messages_its_last_answer_and_its_tools() -> None:
    spans = Spans(LOGS / "watched.jsonl", content=True)
    (lead,) = (
        dict(values(span))
        for span in spans
        if str(span.attributes.get("gen_ai.conversation.id")).endswith(" 0/1")
    )

    assert [message.role for message in lead["gen_ai.input.messages"]] == ["system", "user"]
    (answer,) = lead["gen_ai.output.messages"]
    assert answer.parts == [types.TextPart("Fish hall, then Fløyen.")]
    assert [tool.name for tool in lead["gen_ai.tool.definitions"]] == ["Task", "weather"]
    assert not spans.left_out[UNTOLD]


THOUGHT: list[dict[str, Any]] = [
    {"messages": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text"}]},
    {
        "anthropic": [
            {"type": "redacted_thinking", "data": "x"},
            {"type": "thinking", "text": "Hm."},
        ]
    },
    {"chat": {"role": "assistant", "content": "5", "reasoning_content": "Hm.", "reasoning": "Hm."}},
    {"openai": {"message": {"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}}},
    {"responses": [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]},
    {"openai_agents": {"output": [{"type": "reasoning", "content": [{"text": "Hm."}]}]}},
    {"generate": {"role": "model", "parts": [{"text": "Hm.", "thought": True}, {"text": "5"}]}},
    {"pydantic_ai": {"parts": [{"part_kind": "thinking", "content": "Hm."}]}},
]


@pytest.mark.parametrize("kept", THOUGHT, ids=[next(iter(kept)) for kept in THOUGHT])
def test_reasoning_is_a_part_of_its_own_however_it_is_kept(kept: dict[str, Any]) -> None:
    call = {"type": "tool_use", "input": {"type": "thinking", "thinking": "of a program"}}
    message = {"role": "assistant", "content": "5", "provider": {**kept, "more": [call]}}

    assert [*reasoning(message)] == ["Hm."]
    assert message_of(message)["parts"] == [
        {"type": "reasoning", "content": "Hm."},
        {"type": "text", "content": "5"},
    ]


def test_definitions_of_tools_are_read_in_the_forms_of_all_interfaces() -> None:
    schema = {"type": "object"}
    told = {"name": "add", "description": "Add."}
    offered = [
        {"type": "function", "function": {**told, "parameters": schema}},
        {"type": "function", **told, "parameters": schema},
        {**told, "input_schema": schema},
        {"functionDeclarations": [{**told, "parametersJsonSchema": schema}]},
        {"type": "web_search_20250305", "name": "web_search"},
        {"googleSearch": {}},
        *("nonsense", {"function": 1}, {"functionDeclarations": [None]}),
    ]
    found = [*definitions_of(offered)]

    assert found[:4] == [{"type": "function", **told, "parameters": schema}] * 4
    assert found[4:6] == [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "googleSearch", "name": "googleSearch"},
    ]
    SHAPES["gen_ai.tool.definitions"].validate_json(json.dumps(found[:4]))


def test_parameters_have_the_types_of_the_conventions() -> None:
    given = {"temperature": 1, "top_k": 3, "seed": 1.5, "stream": True, "max_tokens": True, "n": 2}
    found = request_parameters(given)

    assert found == {
        "gen_ai.request.temperature": 1.0,
        "gen_ai.request.top_k": 3,
        "gen_ai.request.stream": True,
    }
    assert type(found["gen_ai.request.temperature"]) is float
