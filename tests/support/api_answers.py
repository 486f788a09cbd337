"""Answers of models, made up: whole bodies, and the same as streams in random pieces."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from hypothesis import strategies as st

from refold.engine.events.events import ModelAnswered
from refold.engine.wire.apis import read_request, reader_of
from refold.engine.wire.parts.reading import Reader
from tests.support.api_bodies import PATHS, fixed, member, merged

SAID = st.text(alphabet='ab {}"\\\n\u00e9\U0001f600', max_size=12)
CALLED = st.sampled_from(
    ["", "{}", '{"city": "Oslo"}', '{"a": [1, 2.5, null]}', "{", '{"n": 18446744073709551616}']
)
INPUTS = st.sampled_from([{}, {"city": "Oslo"}, {"a": [1, 2.5, None]}, {"n": 2**64}])


def read(api: str, content: bytes, *, streamed: bool, sizes: Iterator[int]) -> ModelAnswered:
    """Return what an answer of these bytes says, in chunks of these sizes."""
    return reader_after(api, content, streamed=streamed, sizes=sizes).answered()


def reader_after(api: str, content: bytes, *, streamed: bool, sizes: Iterator[int]) -> Reader:
    """Return what has read an answer of these bytes."""
    asked = read_request("POST", PATHS[api], b'{"messages": [], "input": "a"}')
    assert asked.api == api
    reader = reader_of(asked, 200, "text/event-stream" if streamed else "application/json")
    while content:
        size = next(sizes)
        reader.feed(content[:size])
        content = content[size:]
    return reader


def id_of(api: str, content: bytes, *, streamed: bool) -> str:
    """Return the id of an answer, by which a later request names it."""
    reader = reader_after(api, content, streamed=streamed, sizes=iter([10**9]))
    reader.answered()
    return reader.answer_id


def read_body(api: str, body: Any) -> ModelAnswered:
    """Return what a body says that is not streamed."""
    return read(api, json.dumps(body).encode(), streamed=False, sizes=iter([10**9]))


def read_stream(api: str, *events: dict[str, Any] | str) -> ModelAnswered:
    """Return what a stream of these events says."""
    return read(api, sse(events), streamed=True, sizes=iter([10**9]))


def in_pieces(api: str, stream: Any, random: Random) -> ModelAnswered:
    """Return what a stream says that comes in pieces of any size."""
    return read(api, stream, streamed=True, sizes=iter(lambda: random.randint(1, 40), 0))


def failure(api: str, *events: Any) -> tuple[Any, Any]:
    """Return the code of the error of a stream, and the text that came before it."""
    found = read_stream(api, *events)
    assert found.status == "error"
    return (found.error or {})["code"], (found.message or {}).get("content")


def sse(events: Iterator[dict[str, Any] | str] | tuple[dict[str, Any] | str, ...]) -> bytes:
    """Return events as a stream: named by their type where they have one."""
    found = []
    for event in events:
        if isinstance(event, dict) and "type" in event:
            found.append(f"event: {event['type']}\n")
        data = event if isinstance(event, str) else json.dumps(event)
        found.append(f"data: {data}\n\n")
    return "".join(found).encode()


def cut_at_random(random: Random, text: str) -> list[str]:
    """Return pieces of a text, at least one."""
    pieces = []
    while text:
        size = random.randint(1, 4)
        pieces.append(text[:size])
        text = text[size:]
    return pieces or [""]


def _interleaved(random: Random, rows: list[list[dict[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the items of all rows, each row in its order."""
    waiting = [list(row) for row in rows if row]
    while waiting:
        row = random.choice(waiting)
        yield row.pop(0)
        waiting = [row for row in waiting if row]


# --- chat ------------------------------------------------------------------------------------

CHAT_CALL = fixed(
    id=st.sampled_from(["call_a", "call_b", "call_c"]),
    type=st.just("function"),
    function=fixed(name=st.sampled_from(["get_weather", "find"]), arguments=CALLED),
)
CHAT_BODY = fixed(
    id=st.just("chatcmpl-1"),
    object=st.just("chat.completion"),
    created=st.just(1),
    model=st.just("m"),
    choices=st.tuples(
        fixed(
            index=st.just(0),
            finish_reason=st.sampled_from(["stop", "length", "tool_calls", "content_filter"]),
            message=merged(
                fixed(
                    role=st.just("assistant"),
                    content=st.one_of(st.none(), SAID),
                    refusal=st.one_of(st.none(), SAID),
                    annotations=st.just([]),
                ),
                member("reasoning_content", SAID),
                member(
                    "tool_calls",
                    st.lists(CHAT_CALL, min_size=1, max_size=3, unique_by=lambda call: call["id"]),
                ),
            ),
        )
    ).map(list),
    usage=fixed(
        prompt_tokens=st.integers(0, 9),
        completion_tokens=st.integers(0, 9),
        total_tokens=st.just(9),
    ),
)


def chat_events(body: dict[str, Any], random: Random) -> Iterator[dict[str, Any] | str]:
    """Yield the chunks of a chat completion."""
    (choice,) = body["choices"]
    message = choice["message"]
    head = {"id": body["id"], "object": "chat.completion.chunk", "model": "m", "usage": None}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    for name in ("reasoning_content", "content", "refusal"):
        if message.get(name) is not None:
            yield from (chunk({name: piece}) for piece in cut_at_random(random, message[name]))
    rows = [_chat_call(random, at, call) for at, call in enumerate(message.get("tool_calls", ()))]
    for row in _interleaved(random, rows):
        yield chunk({"tool_calls": [row]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": body["usage"]}
    yield "[DONE]"


def _chat_call(random: Random, index: int, call: dict[str, Any]) -> list[dict[str, Any]]:
    function = call["function"]
    first = {**call, "index": index, "function": {**function, "arguments": ""}}
    pieces = cut_at_random(random, function["arguments"])
    return [first, *({"index": index, "function": {"arguments": piece}} for piece in pieces)]


# --- responses -------------------------------------------------------------------------------

_TEXT_PART = fixed(
    type=st.just("output_text"), text=SAID, annotations=st.just([]), logprobs=st.just([])
)
RESPONSES_ITEM = st.one_of(
    fixed(
        id=st.just("msg_1"),
        type=st.just("message"),
        role=st.just("assistant"),
        status=st.just("completed"),
        content=st.lists(
            st.one_of(_TEXT_PART, fixed(type=st.just("refusal"), refusal=SAID)), max_size=2
        ),
    ),
    fixed(
        id=st.just("fc_1"),
        type=st.just("function_call"),
        status=st.just("completed"),
        call_id=st.sampled_from(["call_a", "call_b"]),
        name=st.sampled_from(["get_weather", "find"]),
        arguments=CALLED,
    ),
    fixed(
        id=st.just("rs_1"),
        type=st.just("reasoning"),
        summary=st.lists(fixed(type=st.just("summary_text"), text=SAID), max_size=1),
        encrypted_content=st.one_of(st.none(), SAID),
    ),
)
RESPONSES_BODY = merged(
    fixed(
        id=st.just("resp_1"),
        object=st.just("response"),
        model=st.just("m"),
        output=st.lists(RESPONSES_ITEM, min_size=1, max_size=3),
        usage=fixed(input_tokens=st.integers(0, 9), output_tokens=st.integers(0, 9)),
        error=st.none(),
    ),
    st.sampled_from(
        [
            {"status": "completed", "incomplete_details": None},
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        ]
    ),
)


def responses_events(body: dict[str, Any], random: Random) -> Iterator[dict[str, Any] | str]:
    """Yield the events of a response."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    rows = [_response_item(random, at, item) for at, item in enumerate(body["output"])]
    yield from _interleaved(random, rows)
    yield {"type": f"response.{body['status']}", "response": body}


def _response_item(random: Random, at: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    start = {**item, "status": "in_progress"}
    row: list[dict[str, Any]] = [{"type": "response.output_item.added", "item": start}]
    if item["type"] == "function_call":
        start["arguments"] = ""
        kind = "response.function_call_arguments.delta"
        row += [{"type": kind, "delta": d} for d in cut_at_random(random, item["arguments"])]
    if item["type"] == "message":
        start["content"] = []
        for place, part in enumerate(item["content"]):
            name = "text" if part["type"] == "output_text" else "refusal"
            kind = f"response.{part['type']}.delta"
            row += [
                {"type": kind, "content_index": place, "delta": piece}
                for piece in cut_at_random(random, part[name])
            ]
    row.append({"type": "response.output_item.done", "item": item})
    return [{**event, "output_index": at} for event in row]


# --- messages --------------------------------------------------------------------------------

MESSAGES_BLOCK = st.one_of(
    merged(fixed(type=st.just("text"), text=SAID), member("citations", st.none())),
    merged(
        fixed(
            type=st.just("tool_use"),
            id=st.sampled_from(["toolu_a", "toolu_b"]),
            name=st.sampled_from(["get_weather", "find"]),
            input=INPUTS,
        ),
        member("caller", st.just({"type": "direct"})),
    ),
    fixed(type=st.just("thinking"), thinking=SAID, signature=SAID),
    fixed(type=st.just("redacted_thinking"), data=SAID),
)
MESSAGES_BODY = fixed(
    id=st.just("msg_1"),
    type=st.just("message"),
    role=st.just("assistant"),
    model=st.just("m"),
    content=st.lists(MESSAGES_BLOCK, max_size=4),
    stop_reason=st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "pause_turn"]),
    stop_sequence=st.none(),
    usage=fixed(
        input_tokens=st.integers(0, 9),
        cache_read_input_tokens=st.one_of(st.none(), st.integers(0, 9)),
        output_tokens=st.integers(0, 9),
    ),
)


def messages_events(body: dict[str, Any], random: Random) -> Iterator[dict[str, Any] | str]:
    """Yield the events of a message."""
    usage = {**body["usage"], "output_tokens": min(1, body["usage"]["output_tokens"])}
    begun = {**body, "content": [], "stop_reason": None, "usage": usage}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(body["content"]):
        yield {"type": "ping"}
        for event in _block(random, block):
            yield {**event, "index": index}
    ends = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": body["usage"]["output_tokens"]}
    yield {"type": "message_delta", "delta": ends, "usage": usage}
    yield {"type": "message_stop"}


_GROWS = {"text": ["text"], "thinking": ["thinking", "signature"]}


def _block(random: Random, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    start = {**block, **dict.fromkeys(_GROWS.get(block["type"], ()), "")}
    if "input" in block:
        start["input"] = {}
    yield {"type": "content_block_start", "content_block": start}
    for name in _GROWS.get(block["type"], ()):
        for piece in cut_at_random(random, block[name]):
            delta = {"type": f"{name}_delta", name: piece}
            yield {"type": "content_block_delta", "delta": delta}
    if "input" in block:
        text = json.dumps(block["input"]) if block["input"] else ""
        for piece in cut_at_random(random, text):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}
