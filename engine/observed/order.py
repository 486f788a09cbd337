"""The order in which unordered messages and lines of listings are compared.

Results of parallel calls of one turn, and a profile's notices, vary in order between runs, and so
do the lines of some tools' lists: files by modification time, or as threads find them. Before two
requests are compared, results are put in the order of their calls, and adjacent notices and such
lines in the order of their texts. Pure. Rules: CONTRACT.md §16.6, §16.13.
"""

import contextlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import eq, itemgetter
from typing import Any, Final

from refold.engine.encoding.canonical import encode

Message = dict[str, Any]
_ROLE: Final = itemgetter("role")
ORDER: Final = "order of parallel results"
"""The rule by which another order is listed."""
LINES: Final = "order of the lines of a listing"
"""Likewise, within a message."""
SET: Final = "order of a set"
"""Likewise, of a list or of the lines of a text, at a place that a rule names."""


def order_of(messages: Sequence[Message], is_notice: Callable[[Message], bool]) -> Sequence[int]:
    """Return the places of messages in the order in which they are compared; a range if as is."""
    as_is = range(len(messages))
    # Where nobody speaks twice in a row nothing can change places: a replay of 500 turns takes half
    # the time, and the least where no step of the look is in Python.
    with contextlib.suppress(KeyError):  # a log may hold a message of nobody
        roles = list(map(_ROLE, messages))
        if not any(map(eq, roles, roles[1:])):
            return as_is
    places = list(as_is)
    kinds = _kinds(messages, is_notice)
    edges = [at for at in places if at == 0 or kinds[at] is not kinds[at - 1]]
    for start, end in pairwise([*edges, len(messages)]):
        kind = kinds[start]
        if end - start > 1 and kind is not None:
            places[start:end] = sorted(places[start:end], key=kind.__getitem__)
    return as_is if places == list(as_is) else places


def in_order(messages: Sequence[Message], order: Sequence[int]) -> tuple[Message, ...]:
    """Return messages in an order; where turns begin is a matter of places, and stays."""
    return tuple(
        messages[at] if at == to else _with_turn(messages[at], messages[to])
        for to, at in enumerate(order)
    )


def with_lines_in_order(
    messages: Sequence[Message], tools: Sequence[str], plain: Callable[[str], str]
) -> list[Message]:
    """Return messages in which the lines listed by `tools` are sorted by their texts.

    The other messages are the same objects; `plain` removes the parts of a line that are not
    compared.
    """
    names: dict[Any, Any] = {}
    found = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            names[call.get("id")] = call.get("name")
        said = message.get("content")
        is_listing = names.get(message.get("tool_call_id")) in tools
        lines = said.split("\n") if is_listing and isinstance(said, str) else []
        order = sorted(lines, key=lambda line: (plain(line), line))
        found.append(message if order == lines else {**message, "content": "\n".join(order)})
    return found


def _kinds(
    messages: Sequence[Message], is_notice: Callable[[Message], bool]
) -> list[dict[int, Any] | None]:
    """Return each message's sort key among its neighbours; `None` if it is not sorted."""
    kinds: list[dict[int, Any] | None] = []
    calls: dict[Any, int] = {}
    results: dict[int, Any] = {}
    notices: dict[int, Any] = {}
    for at, message in enumerate(messages):
        role = message.get("role")
        if role == "assistant":
            # Some servers number the calls of each answer anew, so ids hold for one turn.
            calls = {call.get("id"): n for n, call in enumerate(message.get("tool_calls") or ())}
            results = {}
        if role == "tool" and message.get("tool_call_id") in calls:
            results[at] = calls[message["tool_call_id"]]
            kinds.append(results)
        elif role == "user" and is_notice(message):
            notices[at] = encode(message)
            kinds.append(notices)
        else:
            kinds.append(None)
    return kinds


def _with_turn(message: Message, there: Message) -> Message:
    turn = (there.get("provider") or {}).get("turn")
    provider = {name: v for name, v in (message.get("provider") or {}).items() if name != "turn"}
    provider |= {"turn": turn} if turn is not None else {}
    plain = {name: value for name, value in message.items() if name != "provider"}
    return plain | ({"provider": provider} if provider else {})
