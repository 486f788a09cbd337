"""Lists the ignored differences in a served request: by which rule, and where.

Volatile places and texts are rules of the record or of the replay. A redaction marker in the record
matches any text in its place (CONTRACT.md §3.9). Pure. Rules: CONTRACT.md §16.7.
"""

from collections.abc import Iterable
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.observed.binding import Bindings, IgnoredValue
from refold.engine.observed.volatile import LINES, ORDER, SET, VolatileRules, in_order
from refold.engine.wire.parts.exchange import Asked
from refold.replay.difference.excuses import IGNORED_MAX, Excuses, Ignored, without_volatile
from refold.replay.difference.pointer_diff import Difference, differences, reordered, shown
from refold.replay.observed.record import ObservedRecord, RecordedTurn

_REDACTION: Final = "redaction"


def same_but_for_redaction(recorded: Asked, now: Asked) -> bool:
    """Return whether the only differences are redactions in the record."""
    if len(recorded.messages) != len(now.messages) or recorded.model != now.model:
        return False
    excuses = Excuses("", {"redaction": {}})
    return excuses.passes(f"model:{recorded.model}", "", 0, (recorded.as_json(), now.as_json()))


class Ignoring:
    """Lists the differences ignored in one replay."""

    def __init__(self, record: ObservedRecord, bindings: Bindings) -> None:
        self._bindings = bindings
        self._log = str(record.path)
        self._rules = record.rules
        self._excuses = Excuses(self._log, {"volatile": record.rules.paths, "redaction": {}})
        self._texts = [VolatileRules(texts=[text]) for text in record.rules.texts]
        self.found: list[Ignored] = []
        self.count = 0

    def served(self, turn: RecordedTurn, asked: Asked, passed: Iterable[IgnoredValue] = ()) -> None:
        """Note the differences in a served request.

        Bound values count as recorded; `passed` are values ignored at their place.
        """
        for each in passed:
            self._list(turn, each.pointer, each.recorded, each.now, each.rule)
        what = f"model:{turn.asked.model}"
        recorded = self._bindings.as_recorded(asked)
        if recorded == turn.asked:
            return
        was, now = self._bindings.plain(turn.asked), self._bindings.plain(recorded)
        before, after = was.as_json(), now.as_json()
        olds, news = self._rules.order(was), self._rules.order(now)
        if olds != news:
            pairs = [pair for pair in zip(olds, news, strict=True) if pair[0] != pair[1]]
            first, then = ([pair[side] for pair in pairs] for side in (0, 1))
            self._list(turn, f"/messages/{min(first)}", first, then, ORDER)
            before["messages"] = list(in_order(was.messages, olds))
            after["messages"] = list(in_order(now.messages, news))
        self._lines(turn, before, after)
        for one in differences(before, after):
            self._list(turn, one.pointer, one.before, one.after, self._rule(what, one))

    def _lines(self, turn: RecordedTurn, before: dict[str, Any], after: dict[str, Any]) -> None:
        """Put the lines of listings into one order; list those that were in a different order."""
        olds, news = (
            self._rules.listed(each["messages"], self._bindings.line_key)
            for each in (before, after)
        )
        pairs = list(zip(before["messages"], after["messages"], strict=True))
        for at, (was, now) in enumerate(pairs):
            if (was, now) != (olds[at], news[at]):
                old, new = was["content"], now["content"]
                if self._rules.text(old) != self._rules.text(new):
                    self._list(turn, f"/messages/{at}/content", old, new, LINES)
        before["messages"], after["messages"] = olds, news

    def _list(self, turn: RecordedTurn, pointer: str, before: Json, now: Json, rule: str) -> None:
        self.count += 1
        if len(self.found) < IGNORED_MAX:
            self.found.append(
                Ignored(
                    log=self._log, seq=turn.seq, what=f"model:{turn.asked.model}", call=turn.call,
                    pointer=pointer, recorded=before, now=now, rule=rule,
                )
            )  # fmt: skip

    def _rule(self, what: str, one: Difference) -> str:
        is_order = one.kind == "changed" and reordered(one.before, one.after)
        rule = SET if is_order else self._excuses.rule(what, one)
        if rule or not (isinstance(one.before, str) and isinstance(one.after, str)):
            return rule or _REDACTION
        found = [each.texts[0] for each in self._texts if _applies(each, one.before, one.after)]
        return " and ".join(found) or _REDACTION


def _applies(rule: VolatileRules, before: str, after: str) -> bool:
    """Return whether a rule takes part in making two texts the same."""
    return rule.text(before) != before and rule.text(after) != after


def without_effect(record: ObservedRecord, paths: Iterable[str]) -> list[str]:
    """Return a sentence for each volatile path of a model that no recorded request has."""
    asked = [(f"model:{turn.asked.model}", turn.asked.as_json()) for turn in record.turns]
    return [
        f"the volatile path {path!r} matches nothing in this run"
        for path in paths
        if path.startswith("model:")
        and all(without_volatile(what, data, [path], "\0") == data for what, data in asked)
    ]


def places_of(ignored: Iterable[Ignored]) -> list[str]:
    """Return the ignored values as lines, one per place: a conversation repeats its messages."""
    places: dict[tuple[str, str], list[Ignored]] = {}
    for one in ignored:
        places.setdefault((f"{one.what}  {one.pointer}", one.rule), []).append(one)
    return [_line(place, rule, found) for (place, rule), found in places.items()]


def _line(place: str, rule: str, found: list[Ignored]) -> str:
    times = f", {len(found)} times" if found[1:] else ""
    pair = f"{shown(found[0].recorded, 60)} → {shown(found[0].now, 60)}"
    return f"{place}: {pair}  ({rule}{times})"
