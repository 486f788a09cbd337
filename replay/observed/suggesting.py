r"""What would make two requests the same that differ in a date, an id or the like, as to be typed.

A suggestion is `--volatile-text '\d{4}-\d\d-\d\d'` or `--volatile model:*/parameters/user`, for a
difference that looks as if it were another one at each run.  It is never applied by itself.  Pure.
Rules: CONTRACT.md §16.7.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from typing import Any, Final

from refold.engine.observed.volatile import MARK
from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference.pointer_diff import Difference, differences

_MONTH: Final = "(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_WEEKDAY: Final = "(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"

_PATTERNS: Final = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?",
    r"\d{4}-\d\d-\d\d",
    rf"({_WEEKDAY},? )?(\d{{1,2}} )?{_MONTH} (\d{{1,2}}(st|nd|rd|th)?,? )?\d{{4}}",
    r"\d{1,2}/\d{1,2}/\d{2,4}",
    _WEEKDAY,
    r"\d{1,2}:\d\d(:\d\d(\.\d+)?)?( ?[AP]M)?",
    r"/(tmp|var/folders)/[\w./+-]+",
    r"(127\.0\.0\.1|localhost):\d+",
    r"0x[0-9a-f]{6,}",
    r"\b[a-z]+[_-][0-9A-Za-z]{12,}\b",
    r"\b[0-9a-f]{12,64}\b",
    r"\b1[4-9]\d{8}(\d{3})?(\.\d+)?\b",
    r"\b\d+(\.\d+)? ?(ms|s|seconds)\b",
)
"""Texts that are another one at each run, the most particular first."""
_EACH: Final = tuple(re.compile(pattern) for pattern in _PATTERNS)

_MEMBERS: Final = re.compile(
    r".*/(user(_id)?|session(_id)?|conversation_id|thread_id|trace(_id)?|request_id|run_id|nonce|"
    r"timestamp|time|date|seed|prompt_cache_key|safety_identifier|created(_at)?|metadata(/.*)?)"
)
"""Members of requests that say who asks, or when."""
_PARAMETERS: Final = "/parameters/"


def suggestions(recorded: Asked, now: Asked) -> tuple[tuple[str, ...], bool]:
    """Return options that make differences of two requests vanish, and whether all of them do."""
    found: dict[str, None] = {}
    left = False
    for one in differences(_plain(recorded), _plain(now)):
        options = list(_of(one))
        left = left or not options
        found |= dict.fromkeys(options)
    return tuple(found), bool(found) and not left


def _plain(asked: Asked) -> dict[str, Any]:
    return asked.as_json()


def _of(one: Difference) -> Iterator[str]:
    texts = _text_rules(one.before, one.after) if one.kind == "changed" else ()
    is_parameter = one.pointer.startswith(_PARAMETERS)
    if is_parameter and (texts or _MEMBERS.fullmatch(one.pointer)):
        yield f"--volatile {shlex.quote(f'model:*{one.pointer}')}"
    else:
        yield from (f"--volatile-text {shlex.quote(pattern)}" for pattern in texts)


def _text_rules(before: Any, after: Any) -> tuple[str, ...]:
    """Return the fewest patterns without whose matches two texts are the same; none if none are."""
    if not isinstance(before, str) or not isinstance(after, str):
        return ()
    used = [each for each in _EACH if each.search(before) and each.search(after)]
    if not _alike(before, after, used):
        return ()
    for each in tuple(reversed(used)):
        fewer = [one for one in used if one is not each]
        if _alike(before, after, fewer):
            used = fewer
    return tuple(each.pattern for each in used)


def _alike(before: str, after: str, patterns: Iterable[re.Pattern[str]]) -> bool:
    whole = "|".join(f"(?:{each.pattern})" for each in patterns)
    return bool(whole) and re.sub(whole, MARK, before) == re.sub(whole, MARK, after)
