r"""Suggests options that would ignore a date, an id or the like, ready to be typed.

A suggestion is `--volatile 'text:\d{4}-\d\d-\d\d'` or `--volatile model:*/parameters/user`, for a
difference that seems to change on every run. Each suggestion was tried: it makes the texts equal
and affects nothing that is equal already. It is never applied automatically. Pure. Rules:
CONTRACT.md §16.7.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from refold.engine.observed.volatile import MARK, VolatileRules
from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference.pointer_diff import differences, reordered

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
    # With a digit early on: without, it is a word, such as self-contradictory.
    r"\b[a-z]+[_-][A-Za-z]{0,11}\d[0-9A-Za-z]{6,}\b",
    r"\b[0-9a-f]{12,64}\b",
    r"\b1[4-9]\d{8}(\d{3})?(\.\d+)?\b",
    r"\b\d+(\.\d+)? ?(ms|s|seconds)\b",
)
"""Texts that change on every run, the most specific first."""

_MEMBERS: Final = re.compile(
    r".*/(user(_id)?|session(_id)?|conversation_id|thread_id|trace(_id)?|request_id|run_id|nonce|"
    r"timestamp|time|date|seed|prompt_cache_key|safety_identifier|created(_at)?|metadata(/.*)?)"
)
"""Members of requests that identify the user, session or time."""
_PARAMETERS: Final = "/parameters/"
_ALL_MESSAGES: Final = "/messages"
_OF_TOOL: Final = re.compile(r"(?<=\A)/tools/\d+")


_BEFORE_MAX: Final = 24
"""The length of a match's preceding context."""
_BEFORE_MIN: Final = 2
_BEGIN_MIN: Final = 8
_BEGIN_MAX: Final = 48
"""Characters that messages begin with alike which changed places."""


def suggestions(recorded: Asked, now: Asked) -> tuple[tuple[str, ...], bool]:
    """Return options that make differences of two requests vanish, and whether all of them do."""
    before, after = recorded.as_json(), now.as_json()
    found = list(differences(before, after))
    changed = {one.before for one in found if isinstance(one.before, str)}
    same = [text for text in _texts(before) if text not in changed]
    paths: dict[str, None] = {}
    texts: dict[str, None] = {}
    sets: dict[str, None] = {}
    for one in found:
        if one.kind != "changed":
            continue  # no rule makes a place of nothing
        if one.pointer != _ALL_MESSAGES and reordered(one.before, one.after):
            sets[f"model:*{_OF_TOOL.sub('/tools/*', one.pointer)}"] = None
            continue
        if one.pointer.startswith(_PARAMETERS) and _MEMBERS.fullmatch(one.pointer):
            paths[f"model:*{one.pointer}"] = None
        else:
            texts |= dict.fromkeys(text_rules(one.before, one.after, same))
    rules = VolatileRules(tuple(paths), tuple(texts), tuple(sets))
    is_all = bool(found) and rules.applied(recorded) == rules.applied(now)
    return options_of(rules), is_all


def options_of(rules: VolatileRules) -> tuple[str, ...]:
    """Return rules as they are typed."""
    found = {"": rules.paths, "text:": rules.texts, "order:": rules.unordered}
    words = (f"{kind}{one}" for kind, each in found.items() for one in each)
    return tuple(f"--volatile {shlex.quote(word)}" for word in words)


def in_any_order(recorded: Asked, now: Asked) -> tuple[str, ...]:
    """Return the option that makes two requests the same of which messages changed places."""
    pairs = zip(recorded.messages, now.messages, strict=True)
    texts = zip(*(str(old.get("content")) for old, new in pairs if old != new), strict=False)
    begin = "".join(each[0] for each in takewhile(lambda each: len(set(each)) == 1, texts))
    begin = begin.partition("\n")[0]
    if len(begin) > _BEGIN_MAX:
        begin = begin[:_BEGIN_MAX].rpartition(" ")[0]
    if len(begin) < _BEGIN_MIN:
        return ()
    rules = VolatileRules(unordered=(_escaped(begin),))
    return options_of(rules) if rules.applied(recorded) == rules.applied(now) else ()


def text_rules(before: Any, after: Any, same: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the fewest patterns whose removal makes two texts equal; none if that is impossible.

    No pattern matches anything that is equal in both, or anything in the texts `same`.
    """
    if not isinstance(before, str) or not isinstance(after, str):
        return ()
    used = [each for each in _PATTERNS if re.search(each, before) and re.search(each, after)]
    if not _alike(before, after, used):
        return ()
    for each in tuple(reversed(used)):
        fewer = [one for one in used if one != each]
        if _alike(before, after, fewer):
            used = fewer
    found = tuple(
        dict.fromkeys(one for each in used for one in _narrowed(each, before, after, same))
    )
    rules = VolatileRules(texts=found)  # one after the other, as it will be
    return found if found and rules.text(before) == rules.text(after) else ()


def _alike(before: str, after: str, patterns: Sequence[str]) -> bool:
    """Return whether two texts are the same without the matches of all patterns at once."""
    whole = "|".join(f"(?:{each})" for each in patterns)
    return bool(whole) and re.sub(whole, MARK, before) == re.sub(whole, MARK, after)


def _narrowed(pattern: str, before: str, after: str, same: Sequence[str]) -> Iterator[str]:
    """Yield a pattern, with the text before its matches if it also matches elsewhere."""
    olds, news = (list(re.finditer(pattern, text)) for text in (before, after))
    if len(olds) != len(news):  # other patterns take some of it
        olds = news = []
    pairs = [(old, new) for old, new in zip(olds, news, strict=True) if old[0] != new[0]]
    is_elsewhere = any(re.search(pattern, text) for text in same)
    if not is_elsewhere and (not olds or len(pairs) == len(olds)):
        yield pattern
        return
    for old, new in pairs:
        lead = _shared_end(before[: old.start()], after[: new.start()])
        one = _escaped(lead) + pattern.removeprefix(r"\b")
        matches = zip(re.finditer(one, before), re.finditer(one, after), strict=False)
        is_alone = all(was[0] != here[0] for was, here in matches)
        if len(lead) >= _BEFORE_MIN and is_alone and not any(re.search(one, t) for t in same):
            yield one


def _escaped(text: str) -> str:
    """Return a pattern of a text: without what `re.escape` escapes in vain, as people type it."""
    return re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", text)


def _shared_end(one: str, other: str) -> str:
    """Return what two texts end with alike, on their last line."""
    ends = [text[-_BEFORE_MAX:].rpartition("\n")[2][::-1] for text in (one, other)]
    shared = takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=False))
    return "".join(letter for letter, _ in shared)[::-1]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
