"""Finds the tool call that opened a conversation, if there is evidence of its own for it.

A delegating framework asks a model in a new conversation while a tool call of the old one has no
result yet. That alone is no evidence, and a single word is none: unrelated questions would hang
below each other. `observed.links` tells whether a link is confirmed later. Pure. Rules: CONTRACT.md
§16.5.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import text_of_json
from refold.engine.observed.threads import Thread, UnansweredCall, opening, system_of
from refold.engine.wire.parts.exchange import Asked

How = Literal["handoff", "header", "prompt", "delegation", "continues", "result"]
"""`handoff`: the call's name hands work over, and the request has its result.

`header`: the request names its agent, or the conversation above.
`prompt`: a text of the call is in the first message, or is that message.
`delegation`: the call's name hands work over, and the system prompt or the tools differ.
`continues`: it continues an earlier one, which was shortened.
`result`: the result of the call holds its whole answer (`opened_by_result`).
"""
HANDOFF: Final = "handoff"

_LETTERS_MIN: Final = 20
"""A shorter text is evidence only if it is the whole first message."""
_TEXT_MIN: Final = 3
_TOLD_MAX: Final = 4096
"""Letters of a text of an answer that are looked for in results."""

_ANSWERS: Final = re.compile(
    r"final_\w+|submit\w*|respond\w*|StructuredOutput|attempt_completion|complete_task"
)
"""Tools by which frameworks take an answer: no result of them is ever shown."""


@attrs.frozen
class Opened:
    """The call or conversation above a conversation."""

    thread: Thread
    """The one above."""
    call: UnansweredCall | None
    """`None`: the request names only the conversation above."""
    how: How
    is_strong: bool = True
    """Whether it counts for caps before it is confirmed."""


def opener_of(
    asked: Asked,
    threads: Iterable[Thread],
    above: Sequence[Thread] = (),
    agent: str = "",
    plain: Callable[[str], str] = str,
) -> Opened | None:
    """Return the conversation above a new one, and the call in it; `None` without evidence.

    `above` is the conversation above, or several candidates, `agent` its name, if requests have it.
    `plain` removes from a message what is no part of a task.
    """
    threads = list(above or threads)
    results = {message.get("tool_call_id") for message in asked.messages}
    calls = [
        (thread, call)
        for thread in threads
        for call in thread.open.values()
        if not thread.is_past and not _ANSWERS.fullmatch(call.tool)
    ]
    for thread, call in calls:
        if call.delegated is not None and call.id in results:
            return Opened(thread, call, HANDOFF)
    away = [(thread, call) for thread in threads for call in thread.away]
    whom = agent.rpartition("/")[2]
    for thread, call in [*away, *calls]:
        if whom and not call.opened and call.delegated == whom:
            return Opened(thread, call, "header")
    waiting = [(thread, call) for thread, call in calls if call.waits]
    first = opening(asked, plain)
    said = _saying(waiting, first) or _saying(away, first)
    if said is not None:
        thread, call = said
        is_whole = _evidence(call, first) >= max(map(len, call.texts))
        is_strong = call.delegated is not None or (is_whole and not _is_twin(asked, thread))
        return Opened(thread, call, "prompt", is_strong)
    named = [pair for pair in _handing_over(waiting) if not pair[1].opened]
    if above:
        thread, by = _alone(named) or (above[-1], None)
        return Opened(thread, by, "header")
    found = _alone(pair for pair in named if not _is_twin(asked, pair[0]))
    return Opened(*found, "delegation") if found is not None else None


def answer_texts(asked: Asked, message: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the texts of a last answer; none if there are calls, or its request has a text."""
    calls = message.get("tool_calls", ())
    if not all(is_answer(asked, call["name"]) for call in calls):
        return ()
    texts = [message.get("content") or "", *(call.get("arguments") for call in calls)]
    found = tuple(each.strip()[:_TOLD_MAX] for text in texts for each in texts_in(text))
    said = [text_of_json(each.get("content") or "") for each in asked.messages]
    return () if any(text in each for text in found for each in said) else found


def opened_by_result(
    call: UnansweredCall, result: str, before: Sequence[Mapping[str, Any]]
) -> Thread | None:
    """Return the conversation whose whole answer the result of a call holds, if it is the only one.

    `before` are the messages up to the call: an answer that they have is no evidence.
    """
    found = [thread for thread in call.beside if _is_held(thread, result)]
    if len(found) != 1:
        return None
    said = [text_of_json(each.get("content") or "") for each in before]
    is_seen = any(text in each for text in found[0].told for each in said)
    return None if is_seen else found[0]


def _is_held(thread: Thread, result: str) -> bool:
    is_free = not (thread.is_opened or thread.whose.above or thread.asking)
    is_long = sum(map(len, thread.told)) >= _LETTERS_MIN
    return is_free and is_long and all(_stands(text, result) for text in thread.told)


def _stands(text: str, result: str) -> bool:
    """Return whether a text is in a result, as it is or as JSON."""
    ways = (json.dumps(text, ensure_ascii=is_ascii)[1:-1] for is_ascii in (False, True))
    return text in result or any(way in result for way in ways)


def offers_one(asked: Asked) -> bool:
    """Return whether a request offers a single tool; Gemini lists all of them in one item."""
    (first, *others) = asked.tools or (None,)
    listed = first.get("functionDeclarations") if isinstance(first, dict) else None
    return first is not None and not others and not (isinstance(listed, list) and len(listed) != 1)


def is_answer(asked: Asked, tool: str) -> bool:
    """Return whether a call of `tool` is the answer itself: no result of it is ever shown.

    Clients that want an object request a tool of that shape, and no other.
    """
    choice = asked.parameters.get("tool_choice")
    told = choice.get("function", choice) if isinstance(choice, dict) else None
    is_wanted = isinstance(told, dict) and told.get("name") == tool
    return is_wanted or _ANSWERS.fullmatch(tool) is not None


def _is_twin(asked: Asked, thread: Thread) -> bool:
    """Return whether a conversation may be another run of the same agent."""
    return (system_of(asked), asked.tools_digest()) == (thread.system, thread.tools)


def _saying(
    calls: list[tuple[Thread, UnansweredCall]], first: str
) -> tuple[Thread, UnansweredCall] | None:
    """Return the call with the longest text in the message, if it is the only one."""
    found = [(_evidence(call, first), (thread, call)) for thread, call in calls]
    longest = max((length for length, _ in found), default=0)
    best = [pair for length, pair in found if length and length == longest]
    saying = [pair for length, pair in found if length]
    return _alone(best) or _alone(_handing_over(best)) or _alone(_handing_over(saying))


def _evidence(call: UnansweredCall, first: str) -> int:
    """Return the length of the longest text that is evidence; 0 for none."""
    whole = first.strip()
    least = math.inf if call.is_sole else _LETTERS_MIN
    return max(
        (len(text) for text in call.texts if _is_evidence(text.strip(), whole, least)), default=0
    )


def _is_evidence(text: str, whole: str, least: float) -> bool:
    """Return whether a text is the message, or one of them holds the other of `least` letters."""
    if len(text) >= least and text in whole:
        return True
    return bool(text) and (text == whole or (len(whole) >= least and whole in text))


def _handing_over(
    calls: Iterable[tuple[Thread, UnansweredCall]],
) -> list[tuple[Thread, UnansweredCall]]:
    return [pair for pair in calls if pair[1].delegated is not None]


def _alone(pairs: Iterable[tuple[Thread, UnansweredCall]]) -> tuple[Thread, UnansweredCall] | None:
    """Return the one call; of several that pass the same to one tool, the first without a child."""
    calls = list(pairs)
    if len({(call.tool, call.texts) for _, call in calls}) != 1:
        return None
    return min(calls, key=lambda pair: pair[1].opened)


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts among a call's arguments that are long enough to be found again."""
    if isinstance(value, str):
        return (value,) if len(value.strip()) >= _TEXT_MIN else ()
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return tuple(text for item in items for text in texts_in(item))
