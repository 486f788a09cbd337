"""Finds the tool call that opened a conversation, from the available evidence.

A delegating framework asks a model in a new conversation while a tool call of the old one has no
result yet. The call is identified by its name, by its arguments, or because it is the only open
one. If the call is uncertain, only the conversation above is recorded. Pure. Rules: CONTRACT.md
§16.5.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import attrs

from refold.engine.observed.threads import Thread, UnansweredCall, opening, system_of
from refold.engine.wire.parts.exchange import Asked

How = Literal["handoff", "delegation", "prompt", "open", "continues"]
"""`handoff`: the call's name delegates, and the request has its result.

`prompt`: the call's arguments are in the first message.
`delegation`: its name delegates, and no other open call's does.
`open`: no other conversation has a call without a result.
`continues`: it continues an earlier one, which was shortened.
"""
HANDOFF: Final = "handoff"

_LONG: Final = 8
"""Characters from which on a text is found anywhere in another; a shorter one is a whole word."""
_WORD_MIN: Final = 3

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
    """`None`: one of several, and it is not sure which."""
    how: How


def opener_of(
    asked: Asked, threads: Iterable[Thread], above: Sequence[Thread] = (), agent: str = ""
) -> Opened | None:
    """Return the likely conversation above a new one, and the call in it.

    `above` is the conversation above, or several candidates, `agent` its name, if requests have it.
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
            return Opened(thread, call, "delegation")
    said = _saying(calls, opening(asked)) or _saying(away, opening(asked))
    if said is not None:
        return Opened(*said, "prompt")
    named = _alone(_handing_over(calls))
    if named is not None:
        return Opened(*named, "delegation")
    calls = [(thread, call) for thread, call in calls if not call.is_asked_for]
    if not above and (system := system_of(asked)):  # of a twin: another run of the program
        calls = [(thread, call) for thread, call in calls if thread.system != system]
    if len({thread.scope for thread, _ in calls}) == 1:
        thread, call = calls[0]
        return Opened(thread, call if len(calls) == 1 else None, "open")
    return Opened(above[-1], None, "open") if above else None


def _saying(
    calls: list[tuple[Thread, UnansweredCall]], first: str
) -> tuple[Thread, UnansweredCall] | None:
    """Return the call with the longest text in the message, if it is the only one."""
    found = [(_length_in(call.texts, first), (thread, call)) for thread, call in calls]
    longest = max((length for length, _ in found), default=0)
    best = [pair for length, pair in found if length and length == longest]
    saying = [pair for length, pair in found if length]
    return _alone(best) or _alone(_handing_over(best)) or _alone(_handing_over(saying))


def _length_in(texts: tuple[str, ...], first: str) -> int:
    """Return the length of the longest text in the message; 0 for none.

    If a call has longer texts, a single word such as `"mode": "run"` is not evidence; a whole line
    is.
    """
    found = max((len(text) for text in texts if _stands_in(text, first)), default=0)
    lines = {len(line) for line in first.splitlines() if line in texts}
    is_word = found < _LONG and any(len(text) >= _LONG for text in texts) and found not in lines
    return 0 if is_word else found


def _handing_over(
    calls: list[tuple[Thread, UnansweredCall]],
) -> list[tuple[Thread, UnansweredCall]]:
    return [pair for pair in calls if pair[1].delegated is not None]


def _alone(calls: list[tuple[Thread, UnansweredCall]]) -> tuple[Thread, UnansweredCall] | None:
    """Return the one call; of several that pass the same to one tool, the first without a child."""
    if len({(call.tool, call.texts) for _, call in calls}) != 1:
        return None
    return min(calls, key=lambda pair: pair[1].opened)


def _stands_in(text: str, first: str) -> bool:
    if len(text) >= _LONG:
        return text in first or (len(first) >= _LONG and first in text)
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", first) is not None


def texts_in(value: Any) -> tuple[str, ...]:
    """Return the texts among a call's arguments that are long enough to be found again."""
    if isinstance(value, str):
        return (value,) if len(value.strip()) >= _WORD_MIN else ()
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return tuple(text for item in items for text in texts_in(item))
