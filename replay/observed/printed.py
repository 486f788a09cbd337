"""Compares a command's output with its recorded output.

Programs print while they stream, and as parallel tools finish, so the order of texts may vary. The
report names the texts whose order changed, and the option that ignores the order. Pure. Rules:
CONTRACT.md §16.6.
"""

import itertools
import re
from collections.abc import Callable
from typing import Final

from refold.engine.encoding.canonical import Json, encode
from refold.engine.events.events import number_of, scope_of
from refold.engine.observed.binding import Bindings
from refold.engine.observed.volatile import VolatileRules
from refold.replay.index.asked_items import inside
from refold.replay.observed.record import ObservedRecord, RecordedTool
from refold.replay.observed.suggesting import options_of, text_rules

_PRINTED: Final = ("stdout", "stdout_bytes")
_NAMED_MAX: Final = 3
"""The maximum number of reported calls."""


_PARTS: Final[dict[str, Callable[[str], list[str]]]] = {
    "lines": lambda text: sorted(line.rstrip() for line in text.splitlines()),
    "words": lambda text: sorted(re.findall(r"\w+|\W", text)),
    "letters": sorted,
}
"""By comparison mode: the parts of the output that may be in any order."""


def compared(
    record: ObservedRecord, bindings: Bindings, before: dict[str, Json], now: dict[str, Json]
) -> tuple[dict[str, Json], dict[str, Json]]:
    """Return both ends of a command without values that are not compared.

    The number of printed bytes is kept only for equal texts, because only there it is meaningful.
    """
    texts = str(before.get("stdout") or ""), bindings.as_printed(str(now.get("stdout") or ""))
    raw = [record.rules.text(text) for text in texts]
    plain = [bindings.plain_text(each) for each in (raw[0], bindings.as_recorded_text(raw[1]))]
    parts = _PARTS.get(record.output, str)
    joined = bindings.joined_values(raw[0], raw[1])
    if joined is not None:
        bindings.commit(joined)
    is_same = record.output == "ignore" or joined is not None or parts(plain[0]) == parts(plain[1])
    is_whole = before.get("stdout") == now.get("stdout")
    printed = ("stdout_bytes",) if is_whole else () if is_same else ("stdout",)
    ends: list[dict[str, Json]] = [
        {name: value for name, value in each.items() if name not in _PRINTED}
        | {name: {**each, "stdout": text}.get(name) for name in printed}
        for each, text in zip((before, now), plain, strict=True)
    ]
    return ends[0], ends[1]


def advice(record: ObservedRecord, before: str, after: str) -> str:
    """Return what would make two texts the same that were printed, in words; empty for nothing."""
    for how in ("lines", "words"):  # of letters, a number may have the same as another
        parts = _PARTS[how]
        if parts(before) == parts(after):
            why = _moved(record, before, after)
            return (
                f"; the same {how} appear in a different order{why}; to ignore that: "
                f"--volatile output:{how}"
            )
    options = options_of(VolatileRules(texts=text_rules(before, after)))
    told = "; it looks like a date, a time or an id that changes on every run; to ignore it: "
    return f"{told}{' '.join(options)}" if options else ""


def _moved(record: ObservedRecord, before: str, after: str) -> str:
    """Return the parallel calls whose results changed places in the output, or empty."""
    results: dict[str, str] = {}
    for one, other in itertools.pairwise(record.tools):
        # Calls of one answer: they are numbered without a gap, for requests are numbered too.
        if scope_of(one) == scope_of(other) and number_of(other) == number_of(one) + 1:
            results |= dict(_result(record.tools[key]) for key in (one, other))
    results.pop("", None)
    if not results:
        return ""
    found = "|".join(map(re.escape, sorted(results, key=len, reverse=True)))
    olds, news = re.findall(found, before), re.findall(found, after)
    if re.sub(found, "", before) != re.sub(found, "", after) or sorted(olds) != sorted(news):
        return ""
    pairs = zip(olds, news, strict=True)
    names = list(dict.fromkeys(results[old] for old, new in pairs if old != new))
    return f", in which these parallel calls ended: {', '.join(names[:_NAMED_MAX])}"


def _result(tool: RecordedTool) -> tuple[str, str]:
    """Return the text that a call gave, empty for none, and the call."""
    found = (tool.end or {}).get("result") or ""
    text = found if isinstance(found, str) else encode(found).decode()
    return text, f"{tool.tool}{inside('tool', tool.arguments)}"
