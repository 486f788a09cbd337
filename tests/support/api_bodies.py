"""Bodies of requests to models, generated and changed; and what makes two of them the same.

`plain` is written down from CONTRACT.md §16.9, apart from the code that it judges.
"""

import copy
import json
from typing import Any

from hypothesis import strategies as st

TEXTS = st.text(alphabet='ab {}"\\\n\u00e9\U0001f600\ud83d', max_size=6)
NAMES = st.sampled_from(["a", "b", "get_weather", ""])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 0.5, 1.0, float("nan"), float("inf")]),
    TEXTS,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", "$json", "index"]), SCALARS, max_size=2)
ARGUMENTS = st.one_of(OBJECTS.map(json.dumps), TEXTS, st.sampled_from(["", "{}", " {} ", "[1]"]))


def member(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return an object with that member, or an empty one."""
    return st.one_of(st.just({}), values.map(lambda value: {name: value}))


def merged(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return an object with the members of all."""
    return st.tuples(*parts).map(lambda found: {k: v for part in found for k, v in part.items()})


def fixed(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return an object of just these members."""
    return st.fixed_dictionaries(members)


def parts(kind: str) -> st.SearchStrategy[Any]:
    """Return content: a text, or parts of it."""
    text = merged(
        fixed(type=st.just(kind), text=TEXTS),
        member("cache_control", st.just({"type": "ephemeral"})),
        member("annotations", st.just([])),
    )
    image = fixed(type=st.just("image_url"), image_url=fixed(url=TEXTS))
    return st.one_of(TEXTS, st.lists(st.one_of(text, text, image), max_size=3))


# --- chat ------------------------------------------------------------------------------------

_CALL = merged(
    fixed(id=NAMES, type=st.just("function"), function=fixed(name=NAMES, arguments=ARGUMENTS)),
    member("index", st.integers(0, 2)),
    member("extra_content", OBJECTS),
)
_CHAT = st.one_of(
    merged(
        fixed(role=st.sampled_from(["system", "developer", "user", "odd"]), content=parts("text")),
        member("name", NAMES),
    ),
    merged(
        fixed(role=st.just("assistant")),
        member("content", st.one_of(st.none(), parts("text"))),
        member("tool_calls", st.lists(_CALL, max_size=2)),
        member("reasoning_content", TEXTS),
        member("refusal", st.one_of(st.none(), TEXTS)),
    ),
    fixed(role=st.just("tool"), tool_call_id=NAMES, content=parts("text")),
)
_REST = merged(
    member("model", NAMES),
    member("tools", st.one_of(st.none(), st.lists(OBJECTS, max_size=2))),
    member("temperature", SCALARS),
    member("stream", st.booleans()),
)
CHAT = merged(fixed(messages=st.lists(_CHAT, max_size=3)), _REST)

# --- responses -------------------------------------------------------------------------------

_ITEM = st.one_of(
    merged(
        fixed(
            role=st.sampled_from(["system", "developer", "user", "assistant"]),
            content=st.one_of(parts("input_text"), parts("output_text")),
        ),
        member("type", st.just("message")),
        member("id", NAMES),
        member("status", st.sampled_from(["completed", "incomplete", None])),
    ),
    merged(
        fixed(type=st.just("function_call"), call_id=NAMES, name=NAMES, arguments=ARGUMENTS),
        member("id", NAMES),
    ),
    fixed(type=st.just("function_call_output"), call_id=NAMES, output=parts("input_text")),
    fixed(type=st.just("reasoning"), id=NAMES, summary=st.lists(OBJECTS, max_size=1)),
    fixed(type=st.just("custom_tool_call"), call_id=NAMES, name=NAMES, input=TEXTS),
    fixed(type=st.sampled_from(["item_reference", "computer_call_output"]), id=NAMES),
)
RESPONSES = merged(
    member("input", st.one_of(st.none(), TEXTS, st.lists(_ITEM, max_size=4))),
    member("instructions", st.one_of(st.none(), TEXTS)),
    member("previous_response_id", NAMES),
    _REST,
)

# --- messages --------------------------------------------------------------------------------

_USE = merged(
    fixed(type=st.just("tool_use"), id=NAMES, name=NAMES, input=OBJECTS),
    member("caller", st.sampled_from([{"type": "direct"}, {"type": "other"}])),
)
_TEXT = merged(
    fixed(type=st.just("text"), text=TEXTS),
    member("citations", st.sampled_from([None, [], [{"cited_text": "a"}]])),
    member("cache_control", st.just({"type": "ephemeral"})),
)
_RESULT = merged(
    fixed(type=st.just("tool_result"), tool_use_id=NAMES),
    member("content", st.one_of(st.none(), parts("text"))),
    member("is_error", st.sampled_from([True, False, None, 1])),
)
_THINKING = fixed(type=st.just("thinking"), thinking=TEXTS, signature=TEXTS)
_TURN = st.one_of(
    merged(
        fixed(
            role=st.just("user"),
            content=st.one_of(parts("text"), st.lists(st.one_of(_TEXT, _RESULT), max_size=4)),
        ),
        member("id", NAMES),
    ),
    fixed(
        role=st.just("assistant"),
        content=st.one_of(TEXTS, st.lists(st.one_of(_TEXT, _USE, _THINKING), max_size=3)),
    ),
    fixed(role=st.sampled_from(["system", "odd"]), content=parts("text")),
)
MESSAGES = merged(
    fixed(messages=st.lists(_TURN, max_size=3)),
    member("system", st.one_of(st.none(), parts("text"))),
    _REST,
)

BODIES = {"chat": CHAT, "responses": RESPONSES, "messages": MESSAGES}
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}


# --- changes ---------------------------------------------------------------------------------


def _places(value: Any) -> list[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in items:
        found.append((value, key))
        if isinstance(item, dict | list):
            found += _places(item)
    return found


@st.composite
def changed(draw: st.DrawFn, body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with one change: a member or item replaced, removed, added or rewritten."""
    whole = {"body": copy.deepcopy(body)}
    holder, key = draw(st.sampled_from(_places(whole)))
    value = holder[key]
    changes = ["replace", "wrap"]
    if holder is not whole:
        changes.append("remove")
    if isinstance(value, dict):
        changes += ["add", "shuffle"]
    if isinstance(value, list):
        changes += ["twice", "join", "null"]
    match draw(st.sampled_from(changes)):
        case "replace" if holder is not whole:
            holder[key] = draw(SCALARS)
        case "wrap" if isinstance(value, str):
            kind = draw(st.sampled_from(["text", "input_text", "output_text"]))
            holder[key] = [{"type": kind, "text": value}]
        case "remove":
            del holder[key]
        case "add":
            name = draw(st.sampled_from(["name", "citations", "tool_calls", "x", "index", "tools"]))
            value.setdefault(name, draw(st.one_of(SCALARS, st.just([]))))
        case "shuffle":
            holder[key] = dict(draw(st.permutations(list(value.items()))))
        case "twice" if value:
            value.append(copy.deepcopy(value[-1]))
        case "join" if len(value) > 1 and all("content" in v for v in value if isinstance(v, dict)):
            _join(value)
        case _:
            pass
    result: dict[str, Any] = whole["body"]
    return result


def _join(items: list[Any]) -> None:
    """Put the contents of the first two items together, where both are lists."""
    one, two = items[:2]
    if isinstance(one, dict) and isinstance(two, dict):
        first, second = one.get("content"), two.get("content")
        if isinstance(first, list) and isinstance(second, list):
            one["content"] = first + second
            del items[1]


# --- what is the same ------------------------------------------------------------------------

_EMPTY = ("annotations", "citations", "logprobs", "tool_calls")


def _said(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {k: v for k, v in item.items() if v is not None and not (k in _EMPTY and v == [])}


def _content(content: Any, kind: str) -> Any:
    if not isinstance(content, list):
        return content
    found = [_said(part) for part in content]
    if len(found) == 1 and isinstance(found[0], dict) and set(found[0]) == {"type", "text"}:
        part = found[0]
        return part["text"] if part["type"] == kind and isinstance(part["text"], str) else found
    return found


def _arguments(text: Any) -> Any:
    """Return the arguments as JSON, where they are an object that a log can hold."""
    try:
        value = json.loads(text)
        held = isinstance(value, dict) and "$json" not in value
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError):
        return text
    wide = held and any(type(v) is int and not -(2**63) <= v < 2**63 for v in value.values())
    return {"arguments": value} if held and not wide else text


def _chat(message: dict[str, Any]) -> dict[str, Any]:
    said = _said(message)
    content = _content(said.pop("content", None), "text")
    if content is not None or said.get("role") == "assistant":
        said["content"] = "" if content is None else content
    if isinstance(said.get("tool_calls"), list):
        said["tool_calls"] = [_chat_call(call, at) for at, call in enumerate(said["tool_calls"])]
    return dict(said)


def _chat_call(call: Any, place: int) -> Any:
    said = _said(call)
    if isinstance(said, dict):
        if said.get("index") == place and not isinstance(said["index"], bool):
            del said["index"]
        if isinstance(said.get("function"), dict):
            said["function"] = function = _said(said["function"])
            if "arguments" in function:
                function["arguments"] = _arguments(function["arguments"])
    return said


def _item(item: dict[str, Any]) -> dict[str, Any]:
    said = _said(item)
    if said.get("status") == "completed":
        del said["status"]
    if "role" in said:
        if said.get("type") == "message":
            del said["type"]
        kind = "output_text" if said["role"] == "assistant" else "input_text"
        if "content" in said:
            said["content"] = _content(said["content"], kind)
    elif "output" in said:
        said["output"] = _content(said["output"], "input_text")
    if said.get("type") == "function_call" and "arguments" in said:
        said["arguments"] = _arguments(said["arguments"])
    return dict(said)


def _turn(turn: dict[str, Any]) -> dict[str, Any]:
    said = _said(turn)
    content = _content(said["content"], "text")
    said["content"] = list(map(_block, content)) if isinstance(content, list) else content
    return dict(said)


def _block(block: Any) -> Any:
    if isinstance(block, dict):
        if block.get("type") == "tool_use" and block.get("caller") == {"type": "direct"}:
            block = {name: value for name, value in block.items() if name != "caller"}
        if block.get("type") == "tool_result" and "content" in block:
            return {**block, "content": _content(block["content"], "text")}
    return block


def plain(api: str, body: dict[str, Any]) -> str:
    """Return a body, known to be of that interface's shape, without what is notation only."""
    said = {name: value for name, value in body.items() if not (name == "tools" and value is None)}
    if api == "chat":
        said["messages"] = [_chat(message) for message in said["messages"]]
    elif api == "messages":
        said["messages"] = [_turn(turn) for turn in said["messages"]]
        said["system"] = _content(said.get("system"), "text")
    else:
        given = said.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        said["input"] = items if items is None else [_item(item) for item in items]
        said.setdefault("instructions", None)
    return json.dumps(said, sort_keys=True)
