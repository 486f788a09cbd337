"""Requests that only read, and whose number depends on the client's timing.

A client that fetches a list missing from its cache sends the same request once or several times,
depending on its threads. If all recorded answers are equal, one more request gets the same answer.
Pure. Rules: CONTRACT.md §16.6, §16.11.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

import attrs

from refold.engine.wire.parts.exchange import Asked
from refold.replay.observed.record import ObservedRecord, RecordedTurn

_LISTS: Final = re.compile(r"/models(?:/[^/:]+)?/?$")
_COUNTS: Final = re.compile(r"(?:/count_tokens|:countTokens)$")


@attrs.frozen
class ReadCount:
    """Counts how often something was read."""

    what: str
    """The text for people: `GET /v1/models`, `mcp weather > tools/list`."""
    asked: int
    recorded: int


def only_reads(asked: Asked) -> bool:
    """Return whether a request lists models, counts tokens, or probes a server (HEAD)."""
    if asked.api != "other":
        return False
    path = str(asked.parameters.get("path")).partition("?")[0]
    match asked.parameters.get("method"):
        case "HEAD":
            return True
        case "GET":
            return _LISTS.search(path) is not None
        case "POST":
            return _COUNTS.search(path) is not None
        case _:
            return False


def are_answered_alike(record: ObservedRecord, turns: Iterable[RecordedTurn]) -> bool:
    """Return whether all of these requests were answered, whole and with the same bytes."""
    answers = set()
    for turn in turns:
        if turn.how != "answered" or turn.parts[-1].get("end") != "whole":
            return False
        content = b"".join(chunk for _, chunk in record.pieces(turn))
        answers.add((turn.parts[0]["status"], content))
    return len(answers) == 1


def notes_on(counts: Iterable[ReadCount]) -> tuple[str, ...]:
    """Return a report's note of reads whose number differs from the record; empty if none do."""
    asked: Counter[str] = Counter()
    recorded: Counter[str] = Counter()
    for each in counts:
        if each.asked != each.recorded:
            asked[each.what] += each.asked
            recorded[each.what] += each.recorded
    told = [
        f"{what} was requested {times(count)}, recorded {times(recorded[what])}"
        for what, count in asked.items()
    ]
    alike = "all of its recorded answers are the same, so this is not a difference"
    return tuple(f"{each}; {alike}" for each in told)


def times(count: int) -> str:
    """Return a number of times in words."""
    return "once" if count == 1 else f"{count} times"
