"""The likely cause of a divergence, and the remedy.

This is a guess and is reported as one, based on the form of the two values and on other changes
(`replay.explain.fingerprints`). Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

from refold.engine.encoding.canonical import Json, text_of_json
from refold.replay.difference.pointer_diff import Difference, reordered

_BY_LOOKS: Final = {
    re.compile(
        r"\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})\b",
        re.IGNORECASE,
    ): "a uuid that was generated without run: use run.uuid()",
    re.compile(
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b1[5-9]\d{8}(\.\d+)?\b|\b1[5-9]\d{11}\b"
    ): "a clock that was read without run: use run.now()",
    re.compile(r"0x[0-9a-f]{6,}"): ("a memory address in a text: define __repr__ for the object"),
}
"""Patterns for the two texts at a place, the most reliable first."""

_WORD: Final = re.compile(r"\w+")

_BY_KIND: Final = {
    "reordered": "the result depends on the order of a set or a directory listing: sort it first",
    "unrecorded_await": (
        "an await was added or moved; in the recording, its result came later or not at all"
    ),
    "timer": (
        "the length of a timer has changed: if the program has not, the length "
        "depends on randomness or a clock outside run; use run.random() and "
        "run.now()"
    ),
    "due": "two timers can no longer fire in the recorded order, because the length "
    "of one has changed",
    "log_damaged": "`refold verify` shows how much is intact; restore the log from a copy",
}
_ANYTHING: Final = (
    "the program depends on something outside run, such as a clock, "
    "randomness, the environment, a file, a global, or code that it calls "
    "and that has changed"
)


def likely_cause(
    kind: str,
    diff: tuple[Difference, ...],
    fingerprints: Mapping[str, tuple[str, str]],
    raised: str = "",
) -> str:
    """Return the likely cause of a divergence, and what to do; by what differs and what changed.

    `raised` is what ended the program now, and did not when it was recorded.
    """
    if "program" in fingerprints:
        recorded, now = fingerprints["program"]
        said = f"the log was recorded from {recorded!r}, but {now!r} was run"
        return f"{said}: pass the recorded program"
    if raised:
        return f"the program now raises an error that was not recorded: {raised}"
    changed = [one for one in diff if one.kind == "changed"]
    texts = [(text_of_json(one.before), text_of_json(one.after)) for one in changed]
    for pattern, cause in _BY_LOOKS.items():
        if texts and all(pattern.search(a) and pattern.search(b) for a, b in texts):
            return cause
    if _is_shuffled(diff) and "source" not in fingerprints:
        return "the order of a set or a directory listing: sort it first"
    if "source" in fingerprints:
        return "the program has changed since it was recorded; if this is intended, record it again"
    if "python" in fingerprints:
        return "a different version of Python: record again with this one"
    tools = sorted(name for name in fingerprints if name.startswith("tool "))
    if tools:
        return f"the definition of {', '.join(tools)} has changed"
    fields = [name.removeprefix("input ") for name in fingerprints if name.startswith("input ")]
    if fields:
        return (
            f"the type of the program's input has {', '.join(fields)}, which the recorded input "
            "lacks: if the field or its default is new, record the run again"
        )
    if any(name.startswith("prompt, ") for name in fingerprints):
        return (
            "the prompt has changed since it was recorded; if this is intended, "
            "record it again; if not, the prompt depends on something outside run"
        )
    return _BY_KIND.get(kind, _ANYTHING)


def _is_shuffled(diff: tuple[Difference, ...]) -> bool:
    """Return whether all values are the same in another order: lists, lines, or words of a text."""
    return bool(diff) and all(
        reordered(one.before, one.after) or reordered(_words(one.before), _words(one.after))
        for one in diff
    )


def _words(value: Json) -> list[str]:
    return _WORD.findall(value) if isinstance(value, str) else []
