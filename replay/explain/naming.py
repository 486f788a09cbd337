"""Names the first difference, and those that follow it (CONTRACT.md §12.4).

A line that differs does not show whether a call was inserted, dropped, swapped, moved or changed.
So the program continues without effects (`replay.explain.run_on`), its requests are aligned with
the recorded ones (`replay.explain.scopes`), and the first difference of the alignment gets its
name. The first differing line is already decided; this module only names it and lists the rest.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.events.events import scope_of
from refold.replay.explain.divergence import Category
from refold.replay.explain.run_on import Explorer
from refold.replay.explain.scopes import AlignmentStep, aligned_scopes
from refold.replay.index.asked_items import Item

_WORD: Final = re.compile(r"[^\W_]+")


@attrs.frozen(eq=False)
class Found:
    """One difference, with its name."""

    category: Category
    recorded: Item | None
    now: Item | None
    is_consequence: bool = False
    """Whether it may follow from the first: same scope, above or below it, or made after it."""

    @property
    def is_moved(self) -> bool:
        """Whether the same request is made elsewhere: in another task."""
        one, other = self.recorded, self.now
        return (
            self.category == "reordered"
            and one is not None
            and other is not None
            and not one.is_mark
            and one.scope != other.scope
        )


@attrs.frozen
class Named:
    """The named differences of a re-execution."""

    category: Category
    first: Found | None
    """What shows it; `None` where only the two lines do."""
    later: tuple[Found, ...]
    rule: str
    """The name of the rule that decided."""


def named(explorer: Explorer, known: Collection[str]) -> Named:
    """Return the first difference and the later ones.

    `known` are the scopes that had a line before the first difference.
    """
    asked = [item for item in explorer.asked_items if item not in explorer.cut_off]
    steps = aligned_scopes(explorer.recorded_items, asked, known.__contains__)
    if explorer.is_cut:
        steps = _reached(steps)
    found = _in_order(_names(steps, has_ended=explorer.first.has_ended), explorer)
    case = _Case(explorer, found)
    rule, answer = next((rule, a) for rule in RULES if (a := rule(case)) is not None)
    category, first, used = answer
    rest = [one for one in found if one not in used]
    name = rule.__name__.strip("_").replace("_", " ")
    return Named(category, first, tuple(_marked(rest, first, explorer)), name)


def _reached(steps: list[AlignmentStep]) -> list[AlignmentStep]:
    """Return the steps without those that a program that was stopped had not come to."""
    last = max((step.recorded.seq for step in steps if step.now and step.recorded), default=1 << 62)
    return [step for step in steps if step.now or (step.recorded and step.recorded.seq <= last)]


# -- the name of each step --------------------------------------------------------------------


def _names(steps: list[AlignmentStep], *, has_ended: bool) -> list[Found]:
    """Return what differs, each with its name; a request that is found elsewhere has moved."""
    differing = _exploded([step for step in steps if step.op != "same"])
    added = defaultdict[tuple[str, str, bytes], list[AlignmentStep]](list)
    for step in differing:
        if step.op == "added" and step.now is not None and not step.now.is_mark:
            added[step.now.key].append(step)
    moved: dict[AlignmentStep, AlignmentStep] = {}
    for step in differing:
        if step.recorded is not None and added[step.recorded.key]:
            moved[step] = added[step.recorded.key].pop(0)
    arrived = set(moved.values())
    return [
        Found("reordered", step.recorded, moved[step].now)
        if step in moved
        else _found_at(step, has_ended=has_ended)
        for step in differing
        if step not in arrived
    ]


def _exploded(differing: list[AlignmentStep]) -> list[AlignmentStep]:
    """Take a change apart where one of its sides is found elsewhere: that one has moved."""
    pairs = [(step.recorded, step.now) for step in differing]
    added = {now.key for old, now in pairs if old is None and now and not now.is_mark}
    dropped = {old.key for old, now in pairs if now is None and old and not old.is_mark}
    olds = {old.key for old, now in pairs if old and now}
    news = {now.key for old, now in pairs if old and now}
    steps = []
    for step, (one, other) in zip(differing, pairs, strict=True):
        if one is None or other is None:
            steps.append(step)
        elif one.key in added or other.key in dropped or (one.key in news and other.key in olds):
            steps += [AlignmentStep(one, None), AlignmentStep(None, other)]
        else:
            steps.append(step)
    return steps


def _found_at(step: AlignmentStep, *, has_ended: bool) -> Found:
    one, other = step.recorded, step.now
    sides = (each and each.as_json() for each in (one, other))
    return Found(first_word(*sides, has_ended=has_ended), one, other)


def first_word(recorded: Json, now: Json, *, has_ended: bool) -> Category:
    """Return what two requests that differ are called if nothing more is known."""
    if recorded is None:
        return "extra_call"
    if now is None:
        return "unconsumed" if has_ended else "missing_call"
    if recorded.get("kind") != now.get("kind"):
        return "kind_changed"
    return "name_changed" if recorded.get("name") != now.get("name") else "args_changed"


def _in_order(found: list[Found], explorer: Explorer) -> list[Found]:
    """Sort differences by their place in the record, or where they would be in it."""
    place = {item: at for at, item in enumerate(explorer.asked_items)}
    recorded = {item.key: item.seq for item in reversed(explorer.recorded_items)}
    anchors = sorted((at, recorded[item.key]) for item, at in place.items() if item.key in recorded)
    asked_at = [at for at, _ in anchors]

    def order(one: Found) -> tuple[int, int]:
        at = place[one.now] if one.now is not None else -1
        if one.recorded is not None:
            return one.recorded.seq, at
        before = bisect_right(asked_at, at) - 1
        return (anchors[before][1] if before >= 0 else -1), at

    return sorted(found, key=order)


# -- the first: questions, in their order ------------------------------------------------------

Answer = tuple[Category, Found | None, list[Found]]
"""The category, the difference that shows it, and its part of all differences."""


class _Case:
    """Everything that the rules ask about."""

    def __init__(self, explorer: Explorer, found: list[Found]) -> None:
        self.explorer, self.found, self.mismatch = explorer, found, explorer.first
        self.entry, self.emitted = explorer.first.recorded, explorer.emitted
        seq, emitted = self.entry.seq, self.emitted
        self.recorded = next((one for one in explorer.recorded_items if one.seq == seq), None)
        self.old = next((e for e in found if e.recorded and e.recorded.seq == seq), None)
        """The difference that the recorded line is part of."""
        self.new = next((e for e in found if emitted is not None and e.now is emitted), None)
        """The difference that the current line is part of."""

    def answer(self, one: Found | None) -> Answer | None:
        """Return a difference as an answer, with all that are about the same item or timer."""
        if one is None:
            return None
        return one.category, one, [each for each in self.found if _shares(each, one)]


def _timer_due(case: _Case) -> Answer | None:
    """Name a timer that is due before the recorded one, or that fired with another length.

    The first is `extra_call` if it is new, else `reordered`; the second is `args_changed`.
    """
    explorer, early, recorded = case.explorer, case.explorer.early, case.recorded
    if early is not None:
        extra, moved = Found("extra_call", None, early), Found("reordered", recorded, early)
        return case.answer(moved if early.call in explorer.due_before else extra)
    asked = [one for one in explorer.asked_items if one.kind == "timer"]
    now = next((one for one in asked if one.call == explorer.replaced), None)
    if now is None or recorded is None:
        return None
    is_new = any(one.key == recorded.key and one.scope == recorded.scope for one in asked)
    extra, changed = Found("extra_call", None, now), Found("args_changed", recorded, now)
    return case.answer(extra if is_new else changed)


def _seeded(case: _Case) -> Answer | None:
    """Name the session of a child: `args_changed`, or new or gone as an extra or missing call."""
    is_new = case.mismatch.event_kind == "session.seeded"
    if case.entry.kind == "session.seeded":
        return ("args_changed" if is_new else "missing_call"), None, []
    return ("extra_call", None, []) if is_new else None


def _clock(case: _Case) -> Answer | None:
    """Name another clock read: `extra_call` or `missing_call`.

    All are alike, so their numbers count. In the place of a call, it is `kind_changed`.
    """
    recorded = [item for item in case.explorer.recorded_items if item.kind == "clock"]
    now = [item for item in case.explorer.asked_items if item.kind == "clock"]
    opposite: tuple[Category, ...] = "missing_call", "unconsumed"
    if case.mismatch.event_kind == "clock.read" and len(now) > len(recorded):
        looked = Found("extra_call", None, now[0])
    elif case.entry.kind == "clock.read" and len(now) < len(recorded):
        ended = case.mismatch.has_ended
        looked = Found("unconsumed" if ended else "missing_call", recorded[0], None)
        opposite = ("extra_call",)
    else:
        return None
    answers = (rule(case) for rule in _OF_LINES)
    shown = next((answer[1] for answer in answers if answer is not None), None)
    if shown is None or shown.category not in opposite:
        return looked.category, looked, []
    both = Found("kind_changed", shown.recorded or looked.recorded, shown.now or looked.now)
    return "kind_changed", both, [shown]


def _sleep(case: _Case) -> Answer | None:
    """Name a sleep that the record lacks, in the task of the recorded request or above it.

    It is `extra_call`, or `kind_changed` in the place of a call that is gone.
    """
    explorer, mismatch, entry, old = case.explorer, case.mismatch, case.entry, case.old
    if not entry.call or (old is not None and old.category == "reordered"):
        return None
    gone = old.recorded if old is not None and (_is_gone(old) or _is_unlike(old)) else None
    more = {one.now.scope for one in case.found if one.now and one.now.kind == "timer"}
    scopes = {item.scope for item in explorer.recorded_items if item.kind == "timer"}
    news = {one.now.call for one in case.found if one.now is not None}
    told = {item.call for item in explorer.asked_items if item.kind == "timer"} - news
    cut_off = {item.call for item in explorer.cut_off}
    is_world, place = entry.kind == "timer.fired", scope_of(entry.call)
    for scope, key in explorer.sleeping.items():
        if key in cut_off or not _is_within(place, scope):
            continue  # what waits in a task beside it keeps nobody from asking
        if key in told and scope not in scopes:
            continue  # it is a recorded one, of a task that had another place
        is_new = key not in explorer.due_before or explorer.is_limit(key)
        if scope in more or scope not in scopes or (is_new and not is_world):
            timer = Item("timer", "", None, key)
            if gone is not None and gone.scope == scope and not gone.is_mark:
                return case.answer(Found("kind_changed", gone, timer))
            is_ahead = mismatch.event_kind and (old is not None or is_world or scope != place)
            if not is_ahead and not mismatch.has_ended:
                return case.answer(Found("extra_call", None, timer))
    return None


def _one_line(case: _Case) -> Answer | None:
    """Prefer the difference that one of the two lines is part of."""
    is_one = case.old is None or case.new is None or case.old is case.new
    return case.answer(case.old or case.new) if is_one else None


def _replaced(case: _Case) -> Answer | None:
    """Name two requests at one call key, none of them elsewhere, as one change.

    Also if the recorded one was paired with a later one that is unlike it.
    """
    old, new = case.old, case.new
    one, other = (old.recorded, new.now) if old and new else (None, None)
    if not (old and new and one and other) or not _is_gone(old) or new.category == "reordered":
        return None
    calls = [each for each in case.explorer.recorded_items if each.scope == one.scope]
    after = next((each for each in calls if each.seq > one.seq and not each.is_mark), None)
    if one.kind == "timer":
        is_replaced = one.scope == other.scope and new.recorded is None
    else:
        is_next = new.recorded is after and after is not None and _are_alike(after, other)
        is_replaced = one.call == other.call and not is_next
    found = _found_at(AlignmentStep(one, other), has_ended=False)
    return case.answer(found) if is_replaced else None


def _put_below(case: _Case) -> Answer | None:
    """Prefer a recorded request that moved into a task below its own to its replacement."""
    old, other = case.old, case.new.now if case.new else None
    if other is None or old is None or not old.is_moved or not (old.recorded and old.now):
        return None
    is_below = old.now.scope.startswith(f"{old.recorded.scope}/")
    return case.answer(old) if is_below and other.call == old.recorded.call else None


def _asked_later(case: _Case) -> Answer | None:
    """Prefer a new request to a recorded one that is made later with other arguments.

    Likewise, to a cancellation that is gone.
    """
    old, new = case.old, case.new
    is_cancel = old is not None and old.recorded is not None and old.recorded.kind == "cancel"
    is_later = is_cancel or (old is not None and old.now is not None)
    return case.answer(new) if is_later and new and new.recorded is None else None


def _moved(case: _Case) -> Answer | None:
    """Prefer a request that did not only move."""
    old, new = case.old, case.new
    return case.answer(new) if old and new and old.category == "reordered" != new.category else None


def _sleep_gone(case: _Case) -> Answer | None:
    """Name a sleep that is gone before the current request, if both lines are in place."""
    asked = case.emitted
    if asked is None:
        return None
    until = next((e.seq for e in case.explorer.recorded_items if e.key == asked.key), -1)
    for one in case.found:
        gone = one.recorded
        if gone is None or one.now is not None or gone.kind != "timer" or gone.seq >= until:
            continue
        if _is_within(asked.scope, gone.scope):
            return one.category, one, [one]
    return None


def _twin(case: _Case) -> Answer | None:
    """Name the first of two equal requests, one of them new, as the new one."""
    emitted = case.emitted
    if emitted is None or emitted.is_mark or emitted.kind == "clock":
        return None
    more = (one for one in case.found if one.category == "extra_call")
    twin = next((one for one in more if one.now and one.now.key == emitted.key), None)
    return None if twin is None else ("extra_call", Found("extra_call", None, emitted), [twin])


def _asked_before(case: _Case) -> int:
    """Return how much was asked before the recorded request."""
    items, recorded = case.explorer.asked_items, case.recorded
    alike = (at for at, one in enumerate(items) if recorded and one.key == recorded.key)
    return next(alike, 1 << 62)


def _earlier(case: _Case) -> Answer | None:
    """Prefer a new request that was made before the recorded one."""
    before = set(case.explorer.asked_items[: _asked_before(case)])
    early = next((one for one in case.found if one.now in before and one.recorded is None), None)
    if early is None and case.recorded is None:
        early = next(iter(case.found), None)
    return None if early is None else (early.category, early, [early])


def _await(case: _Case) -> Answer | None:
    """Name a program that ends while the recorded run waits `unconsumed`.

    One that waits, or asks before it is given anything, is `unrecorded_await`.
    """
    if case.mismatch.has_ended and not case.mismatch.event_kind:
        return "unconsumed", None, []
    is_given = case.mismatch.event_kind and case.explorer.first_given > _asked_before(case)
    return None if is_given else ("unrecorded_await", None, [])


def _recorded_line(case: _Case) -> Answer | None:
    """Prefer the difference of the recorded line to that of the current one."""
    return case.answer(case.old)


def _order(_case: _Case) -> Answer:
    """Call anything else `reordered`."""
    return "reordered", None, []


Rule = Callable[[_Case], Answer | None]
"""A question about the first difference: it answers, or leaves it to the next one (`None`)."""

_OF_LINES: Final[tuple[Rule, ...]] = (
    _sleep,
    _one_line,
    _replaced,
    _put_below,
    _asked_later,
    _moved,
    _recorded_line,
)
RULES: Final[tuple[Rule, ...]] = (
    _timer_due,
    _seeded,
    _clock,
    *_OF_LINES,
    _sleep_gone,
    _twin,
    _earlier,
    _await,
    _order,
)
"""The first rule with an answer decides."""


def _shares(one: Found, shown: Found) -> bool:
    """Return whether two differences are about the same item, or the same timer."""
    timers = [each.now for each in (one, shown) if each.now and each.now.kind == "timer"]
    is_timer = len(timers) == 2 and timers[0].scope == timers[1].scope  # told by number alone  # noqa: PLR2004
    both = (one.recorded, shown.recorded), (one.now, shown.now)
    return is_timer or any(a is b is not None for a, b in both)


def _is_gone(found: Found) -> bool:
    """Return whether a recorded request is gone, or paired with a later one that is unlike it."""
    one, other = found.recorded, found.now
    return one is not None and (other is None or (one.call != other.call and _is_unlike(found)))


def _is_unlike(found: Found) -> bool:
    """Return whether two requests have neither name nor arguments in common."""
    one, other = found.recorded, found.now
    return bool(one and other and one.name != other.name and one.key[2] != other.key[2])


def _are_alike(one: Item, other: Item) -> bool:
    """Return whether two requests have a word in common, or one of them has none.

    A request that hangs on a result that is gone keeps most of its words.
    """
    words, more = (set(_WORD.findall(encode(each.arguments).decode())) for each in (one, other))
    own = set(one.arguments or ()) if isinstance(one.arguments, dict) else set[str]()
    return not (words - own) or not (more - own) or bool((words & more) - own)


# -- the later ones ---------------------------------------------------------------------------


def _marked(later: Sequence[Found], first: Found | None, explorer: Explorer) -> list[Found]:
    """Say of each whether it may follow from the first."""
    calls = (explorer.first.call, explorer.first.recorded.call)
    scopes = _scopes_of(first) or {scope_of(call) for call in calls if call}
    return [attrs.evolve(one, is_consequence=_may_follow(one, scopes, explorer)) for one in later]


def _may_follow(one: Found, firsts: set[str], explorer: Explorer) -> bool:
    """Return whether the first difference can have influenced this one.

    It can, except in tasks beside it that already existed. A cancellation of such a task may be
    anywhere.
    """
    items = [item for item in (one.recorded, one.now) if item is not None]
    if not firsts or any(item.kind == "cancel" for item in items):
        return True
    return any(
        scope not in explorer.scopes_before
        or any(_is_within(scope, first) or _is_within(first, scope) for first in firsts)
        for scope in _scopes_of(one)
    )


def _scopes_of(found: Found | None) -> set[str]:
    items = (found.recorded, found.now) if found is not None else ()
    return {item.scope for item in items if item is not None and item.call}


def _is_within(one: str, other: str) -> bool:
    """Return whether one scope is the other, or below it."""
    return f"{one}/".startswith(f"{other}/")
