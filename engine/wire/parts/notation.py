"""Reads JSON bodies by their meaning, in any notation, as values that a log can store.

Shared by the readers of the interfaces (`wire.chat.request`, `.responses`, `.messages`). A log
cannot store every JSON value exactly (CONTRACT.md §3.5). Others become `{"$json": its text}`, so
that two different requests stay different. Nothing that a server sends is trusted to be text. Never
raises unless documented. Pure. Rules: CONTRACT.md §16.9.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs
import orjson

from refold.engine.encoding.canonical import Json

_MESSAGE_CHARS: Final = 300
_SECRET: Final = re.compile(r"(?i)\bsk-[\w*.-]{6,}|\bbearer\s+[\w*.+/=-]{12,}")


def text_of(value: Json) -> str:
    """Return text that a log can hold: half a surrogate pair becomes U+FFFD; not text is empty."""
    if not isinstance(value, str):
        return ""
    if value.isascii():
        return value
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def short(text: str, secrets: Iterable[str] = ()) -> str:
    """Return `text` on one line, bounded, with keys blotted out."""
    for secret in secrets:
        text = text.replace(secret, "…")
    text = " ".join(_SECRET.sub("…", text).split())
    return text if len(text) <= _MESSAGE_CHARS else text[: _MESSAGE_CHARS - 1] + "…"


AS_TEXT: Final = "$json"
"""The only member of an object that represents a value as JSON text."""

LEVELS_MAX: Final = 64
"""Levels of nesting that are kept as they are: an event adds some of its own."""

LEVELS_READ: Final = 500
"""The maximum depth of a body: JSON libraries fail at about a thousand levels."""

JsonMember = tuple[str, Any]
"""Of an object: its name and its value."""

_SAYS_NOTHING_EMPTY: Final = frozenset({"annotations", "citations", "logprobs", "tool_calls"})
_EXACT_CHARS: Final = 15
"""A number of so few characters, without exponent, is a float exactly as it is written."""


@attrs.frozen
class Number:
    """A number that no float is equal to."""

    text: str


def read_json(text: str | bytes) -> Json:
    """Parse JSON text; a number that a float cannot represent exactly is a `Number`.

    Raises:
        ValueError: invalid JSON, a duplicate key, or nesting too deep.
    """
    try:
        if isinstance(text, bytes) and orjson.dumps(value := orjson.loads(text)) == text:
            return value  # these bytes and no others say it, so nothing was read otherwise
    except (ValueError, TypeError):
        pass
    try:
        source = text if isinstance(text, str) else text.decode()
        value = _DECODER.decode(source)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if source.count("[") + source.count("{") >= LEVELS_READ and is_deep(value, LEVELS_READ):
        raise ValueError("nested too deeply")
    return value


def value_at(text: str, at: int) -> tuple[Json, int]:
    """Return the value that begins there, as `read_json` reads it, and where it ends.

    Raises:
        ValueError: none does.
        RecursionError: it nests without end.
    """
    return _DECODER.raw_decode(text, at)


def is_deep(value: Json, levels: int) -> bool:
    """Return whether a value has more levels of nesting than that."""
    level = [value]
    for _ in range(levels):
        level = [item for above in level for item in _items(above)]
        if not level:
            return False
    return True


def _items(value: Json) -> Iterable[Json]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def object_in(text: str | bytes) -> dict[str, Any] | None:
    """Parse a text as a JSON object; `None` if it is not one."""
    try:
        value = read_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def once(members: list[JsonMember]) -> dict[str, Any]:
    """Return the object of these members.

    Raises:
        ValueError: a member is given twice.
    """
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("a member given twice")
    return found


def _number(text: str) -> float | Number:
    value = float(text)
    if len(text) <= _EXACT_CHARS and "e" not in text and "E" not in text:
        return value
    try:
        is_exact = math.isfinite(value) and Decimal(text) == Decimal(repr(value))
    except ArithmeticError:  # an exponent beyond all measure
        is_exact = False
    return value if is_exact else Number(text)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=once, parse_float=_number)


# --- what a log can hold ---------------------------------------------------------------------


def held(value: Json, levels: int = LEVELS_MAX) -> Json:
    """Return `value` as a log can hold it; equal results come from equal values only."""
    if holds(value, levels):
        return value
    if levels and isinstance(value, list):
        return [held(item, levels - 1) for item in value]
    if levels and isinstance(value, dict) and _has_names(value):
        return {name: held(item, levels - 1) for name, item in value.items()}
    return {AS_TEXT: value.text if isinstance(value, Number) else json_text(value)}


def holds(value: Json, levels: int = LEVELS_MAX) -> bool:
    """Return whether a log can hold `value` exactly, and nobody takes it for what `held` makes."""
    match value:
        case bool() | None:
            return True
        case str():
            return is_text(value)
        case int():
            return -(2**63) <= value < 2**63
        case float():
            return math.isfinite(value)
        case list():
            return levels > 0 and all(holds(item, levels - 1) for item in value)
        case dict():
            return (
                levels > 0
                and _has_names(value)
                and all(holds(item, levels - 1) for item in value.values())
            )
        case _:
            return False


def _has_names(value: Mapping[str, Any]) -> bool:
    return value.keys() != {AS_TEXT} and all(map(is_text, value))


def is_text(value: Any) -> bool:
    """Return whether `value` is a text that a log can hold: one without half a surrogate pair."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_text(value: Json) -> str:
    """Return `value` as JSON text, members in order of their names."""
    return json.dumps(value, sort_keys=True, default=lambda number: {AS_TEXT: number.text})


# --- messages --------------------------------------------------------------------------------


def bare(value: Any) -> Any:
    """Return an object without meaningless members: null, and some empty lists."""
    if not isinstance(value, dict):
        return value
    return {
        name: item
        for name, item in value.items()
        if item is not None and not (item == [] and name in _SAYS_NOTHING_EMPTY)
    }


def is_nonblank(value: Any) -> bool:
    """Return whether a value is a text that is not blank."""
    return is_text(value) and value.strip() != ""


def is_just(value: Any, members: Mapping[str, Any]) -> bool:
    """Return whether a value is an object of exactly these members.

    Each is given as its value, as a function that checks it, or as a mapping for an object.
    """
    if not isinstance(value, dict) or value.keys() != members.keys():
        return False
    return all(
        wanted(value[name])
        if callable(wanted)
        else is_just(value[name], wanted)
        if isinstance(wanted, dict)
        else value[name] == wanted
        for name, wanted in members.items()
    )


def is_offer(tools: Any) -> bool:
    """Return whether it offers tools, or none in one of the notations of that: null."""
    return tools is None or (isinstance(tools, list) and tools != [])


def folded(content: Any, kind: str) -> Any:
    """Return content as a text, if it is one: one part of that kind with nothing beside it."""
    if not isinstance(content, list):
        return content
    parts = [bare(part) for part in content]
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"type", "text"}:
        (part,) = parts
        if part["type"] == kind and isinstance(part["text"], str):
            return part["text"]
    return parts


def text_of_content(content: Any) -> str:
    """Return the text of content: its own, or its parts' texts joined."""
    if isinstance(content, list):
        return "".join(text_of_part(part) for part in content)
    return text_of(content)


def text_of_part(part: Any) -> str:
    """Return the text of one part of content; empty where it has none."""
    if not isinstance(part, dict):
        return text_of(part)
    return text_of(part.get("text")) or text_of(part.get("refusal"))


def call_of(call_id: Json, name: Json, arguments: Json) -> dict[str, Any]:
    """Return a neutral tool call (CONTRACT.md §11.2); never raises.

    Arguments come as JSON text, or as an object. Arguments that are not an object that a log can
    store go into `invalid` as text; empty text means no arguments.
    """
    call = {"id": text_of(call_id), "name": text_of(name), "arguments": {}}
    is_given = isinstance(arguments, str)
    if is_given and not arguments.strip():
        return call
    value = object_in(arguments) if is_given else arguments
    if isinstance(value, dict) and holds(value):
        call["arguments"] = value
    else:
        call["invalid"] = text_of(arguments if is_given else json_text(arguments))
    return call


def plain_json(arguments: Any) -> Any:
    """Return the JSON text of a call's arguments in one notation of it; else as it is."""
    value = object_in(arguments) if isinstance(arguments, str) else None
    return arguments if value is None or not holds(value) else json_text(value)


def with_original(message: dict[str, Any], api: str, original: Json) -> dict[str, Any]:
    """Return an incomplete neutral message with its original added."""
    return {**message, "provider": {api: held(original)}}
