"""The Anthropic messages interface, read from outside: requests.

They become the neutral messages of CONTRACT.md §11.1: the system prompt first, each result of a
tool as its own message. Equivalent forms are: a text, or one text block; in a turn or block, null
or a missing member, empty or missing `citations`; in a call, the default `caller`. Members without
a neutral form are in `provider.messages`; an unusual split of messages into turns is in
`provider.turn`. `wire.messages.answer` reads answers. Pure. Rules: CONTRACT.md §16.9.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from refold.engine.wire.parts.exchange import Asked, asked_with
from refold.engine.wire.parts.notation import (
    bare,
    call_of,
    folded,
    is_just,
    is_text,
    text_of,
    text_of_content,
    with_original,
)
from refold.engine.wire.parts.series import NO_LISTS, Lists, series_in

API: Final = "messages"

MARKS: Final = "$cache_control"
"""The parameter that holds the marks of caching."""
_MARK: Final = "cache_control"
_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system"}
_RESULT: Final = {"type": "tool_result", "tool_use_id": is_text, "content": is_text}
_TEXT: Final = {"type": "text", "text": lambda text: is_text(text) and text != ""}
_USE: Final = {
    "type": "tool_use",
    "id": is_text,
    "name": is_text,
    "input": lambda given: isinstance(given, dict),
}
"""Blocks that neutral messages represent completely; the first may also have `is_error`."""
_DIRECT: Final = {"type": "direct"}


def is_shaped(body: dict[str, Any], lists: Lists = NO_LISTS) -> bool:
    """Return whether the members that this interface rests on have its shapes."""
    turns = body.get("messages")
    if not isinstance(turns, list) or not isinstance(body.get("system"), str | list | None):
        return False
    return all(series_in(lists, "messages", turns).each(_is_turn).values)


def _is_turn(turn: Any) -> bool:
    return (
        isinstance(turn, dict)
        and isinstance(turn.get("role"), str)
        and isinstance(turn.get("content"), str | list)
    )


def without_marks(body: dict[str, Any], lists: Lists) -> tuple[dict[str, Any], Lists]:
    """Return a body with the `cache_control` of its turns in one member: {turn/block: value}.

    A client moves these marks on with each turn: in the messages, they would make another
    conversation of it each time.
    """
    turns = series_in(lists, "messages", body["messages"])
    marked = turns.each(_marks)
    if not any(marked.values) or MARKS in body:
        return body, lists
    plain = turns.each(_unmarked)
    marks = {
        f"{turn}/{block}": mark
        for turn, found in enumerate(marked.values)
        for block, mark in found.items()
    }
    return {**body, "messages": plain.values, MARKS: marks}, {**lists, "messages": plain}


def _marks(turn: Mapping[str, Any]) -> dict[str, Any]:
    content = turn["content"]
    blocks = enumerate(content) if isinstance(content, list) else ()
    return {
        str(at): block[_MARK] for at, block in blocks if isinstance(block, dict) and _MARK in block
    }


def _unmarked(turn: dict[str, Any]) -> dict[str, Any]:
    if not _marks(turn):
        return turn
    blocks = [
        {name: item for name, item in block.items() if name != _MARK}
        if isinstance(block, dict)
        else block
        for block in turn["content"]
    ]
    return {**turn, "content": blocks}


def asked(body: dict[str, Any], lists: Lists = NO_LISTS) -> Asked:
    """Parse a body of the right shape; `lists` has its lists, perhaps partly parsed already."""
    rest = dict(body)
    first: list[dict[str, Any]] = []
    if (system := folded(rest.pop("system", None), "text")) is not None:
        message = {"role": "system", "content": text_of_content(system)}
        first.append(message if is_text(system) else with_original(message, API, system))
    said = series_in(lists, "messages", rest.pop("messages")).grouped(_take_turn, first)
    return asked_with(API, rest, said, lists)


def _take_turn(found: list[dict[str, Any]], turns: Sequence[dict[str, Any]], at: int) -> int:
    """Add the neutral messages that the turn there is; return where the next is."""
    turn = turns[at]
    beside = bare(turn)
    content = _bare_content(beside.pop("content", None))
    role = _ROLES.get(beside["role"], "user") if is_text(beside["role"]) else "user"
    if role == beside["role"] and role != "system":
        del beside["role"]
    pieces = _pieces(content) if role == "user" else [content]
    for place, piece in enumerate(pieces):
        message, is_plain = _message(role, piece)
        original = {**beside, "content": piece} if beside and not place else piece
        if not is_plain or original is not piece:
            message = with_original(message, API, original)
        found.append(_placed(message, found, is_first=not place))
    return at + 1


def answer_of(blocks: list[Any]) -> dict[str, Any]:
    """Return the neutral message of an answer with this content, as its own turn."""
    found: list[dict[str, Any]] = []
    _take_turn(found, [{"role": "assistant", "content": blocks}], 0)
    (message,) = found
    return message


def _bare_content(content: Any) -> Any:
    said = folded(content, "text")
    return [_bare_block(block) for block in said] if isinstance(said, list) else said


def _bare_block(block: Any) -> Any:
    """Return a block without meaningless members, and with its content in the shortest form."""
    if not isinstance(block, dict):
        return block
    said = {**block}
    if _is(block, "tool_use") and block.get("caller") == _DIRECT:
        del said["caller"]
    if _is(block, "tool_result") and "content" in block:
        said["content"] = folded(block["content"], "text")
    return said


def _pieces(content: Any) -> list[Any]:
    """Split a user's turn into parts of neutral messages: results, and content between them."""
    if not isinstance(content, list):
        return [content]
    pieces: list[Any] = []
    run: list[Any] = []
    for block in content:
        if _is(block, "tool_result"):
            pieces += [folded(run, "text"), block] if run else [block]
            run = []
        else:
            run.append(block)
    return [*pieces, folded(run, "text")] if run or not pieces else pieces


def _placed(
    message: dict[str, Any], before: list[dict[str, Any]], *, is_first: bool
) -> dict[str, Any]:
    """Return a message with its place in its turn, unless that is usual.

    Consecutive tool results usually belong to one turn; any other message begins one.
    """
    goes_on = message["role"] == "tool" and bool(before) and before[-1]["role"] == "tool"
    if is_first != goes_on:
        return message
    turn = "new" if is_first else "same"
    return {**message, "provider": {**message.get("provider", {}), "turn": turn}}


def _message(role: str, piece: Any) -> tuple[dict[str, Any], bool]:
    """Return a neutral message, and whether it is complete."""
    if isinstance(piece, dict):
        return _result(piece)
    message: dict[str, Any] = {"role": role, "content": text_of_content(piece)}
    if role != "assistant":
        return message, is_text(piece)
    blocks = piece if isinstance(piece, list) else []
    uses = [block for block in blocks if _is(block, "tool_use")]
    if uses:
        message["tool_calls"] = [
            call_of(block.get("id"), block.get("name"), block.get("input", "")) for block in uses
        ]
    return message, is_text(piece) or _are_plain(blocks)


def _result(block: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    content = block.get("content")
    message: dict[str, Any] = {
        "role": "tool",
        "tool_call_id": text_of(block.get("tool_use_id")),
        "content": text_of_content(content),
    }
    rest = dict(block)
    if isinstance(block.get("is_error"), bool):
        message["is_error"] = rest.pop("is_error")
    return message, is_just(rest, _RESULT)


def _is(block: Any, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind


def _are_plain(blocks: list[Any]) -> bool:
    """Return whether text and calls are all of it: at most one text, then calls."""
    uses = blocks[1:] if blocks and is_just(blocks[0], _TEXT) else blocks
    return bool(uses) and all(is_just(block, _USE) for block in uses)
