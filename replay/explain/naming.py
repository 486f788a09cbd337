"""Names the first difference, and those that follow it (CONTRACT.md §12.4).

A line that differs does not show whether a call was inserted, dropped, swapped, moved or changed.
So the program continues without effects (`replay.explain.run_on`), its requests are aligned with
the recorded ones (`replay.explain.scopes`), and the first difference of the alignment gets its
name. The first differing line is already decided; this module only names it and lists the rest.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Final

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.events.call_key import scope_of
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


def named(explorer: Explorer, known: Collection[str]) -> Named:
    """Return the first difference and the later ones.

    `known` are the scopes that had a line before the first difference.
    """
    steps = aligned_scopes(explorer.recorded_items, explorer.asked_items, known.__contains__)
    if explorer.is_cut:
        steps = _reached(steps)
    found = _in_order(_names(steps, has_ended=explorer.first.has_ended), explorer)
    category, first, used = _first(explorer, found)
    rest = [one for one in found if one not in used]
    return Named(category, first, tuple(_marked(rest, first, explorer)))


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
    if one is None:
        return Found("extra_call", None, other)
    if other is None:
        return Found("unconsumed" if has_ended else "missing_call", one, None)
    if one.kind != other.kind:
        return Found("kind_changed", one, other)
    return Found("name_changed" if one.name != other.name else "args_changed", one, other)


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


# -- the first --------------------------------------------------------------------------------


def _first(explorer: Explorer, found: list[Found]) -> tuple[Category, Found | None, list[Found]]:
    """Return the first difference: its category, its evidence, and its part of `found`."""
    timer = _of_due(explorer)
    if timer is not None:
        return timer.category, timer, [one for one in found if _shares(one, timer)]
    shown = _of_lines(explorer, found)
    looked = _of_looks(explorer)
    if looked is None:
        if shown is None:
            return _of_order(explorer, found)
        return shown.category, shown, [one for one in found if _shares(one, shown)]
    other = _OPPOSITE[looked.category]
    if shown is not None and shown.category in other:
        both = Found("kind_changed", shown.recorded or looked.recorded, shown.now or looked.now)
        return "kind_changed", both, [shown]
    is_left = looked.category == "missing_call" and explorer.first.has_ended
    return "unconsumed" if is_left else looked.category, looked, []


def _of_due(explorer: Explorer) -> Found | None:
    """Return the timer that is due before the recorded one, or that replaces it.

    The replacement has a different length, or is new and followed by the recorded one.
    """
    early, seq = explorer.early, explorer.first.recorded.seq
    recorded = next((one for one in explorer.recorded_items if one.seq == seq), None)
    if early is not None:
        is_new = early.call not in explorer.due_before
        return Found("extra_call", None, early) if is_new else Found("reordered", recorded, early)
    asked = [one for one in explorer.asked_items if one.kind == "timer"]
    now = next((one for one in asked if one.call == explorer.replaced), None)
    if now is None or recorded is None:
        return None
    is_new = any(one.key == recorded.key and one.scope == recorded.scope for one in asked)
    return Found("extra_call", None, now) if is_new else Found("args_changed", recorded, now)


def _shares(one: Found, shown: Found) -> bool:
    """Return whether two differences are about the same item, or the same timer."""
    one_timer, timer = one.now, shown.now
    return (
        (one.recorded is not None and one.recorded is shown.recorded)
        or (one.now is not None and one.now is shown.now)
        or (
            one.recorded is None
            and one_timer is not None
            and timer is not None
            and one_timer.kind == timer.kind == "timer"  # told by number alone
            and one_timer.scope == timer.scope
        )
    )


def _of_lines(explorer: Explorer, found: list[Found]) -> Found | None:
    """Return the difference that the two lines show; the recorded one's goes before."""
    slept = _of_sleep(explorer, found)
    if slept is not None:
        return slept
    emitted, old = explorer.emitted, _at_recorded(explorer, found)
    new = next((one for one in found if emitted is not None and one.now is emitted), None)
    if old is None or new is None or old is new:
        return old or new
    if _is_replaced(old, new, explorer):
        return _found_at(AlignmentStep(old.recorded, new.now), has_ended=False)
    if _is_put_below(old, new):
        return old
    is_cancel = old.recorded is not None and old.recorded.kind == "cancel"
    if new.recorded is None and (old.now is not None or is_cancel):
        return new  # what comes of the recorded request was asked later, or follows from others
    if old.category == "reordered" and new.category != "reordered":
        return new
    return old


def _is_put_below(old: Found, new: Found) -> bool:
    """Return whether the recorded call moved into a task, and the next call took its place.

    If the record was cut off there, the next call is not in it.
    """
    one, moved, other = old.recorded, old.now, new.now
    if one is None or moved is None or other is None or not old.is_moved:
        return False
    return other.call == one.call and moved.scope.startswith(f"{one.scope}/")


def _at_recorded(explorer: Explorer, found: list[Found]) -> Found | None:
    """Return the difference that the recorded line is part of."""
    seq = explorer.first.recorded.seq
    return next((one for one in found if one.recorded and one.recorded.seq == seq), None)


def _of_sleep(explorer: Explorer, found: list[Found]) -> Found | None:
    """Return the sleep that the program is in and the record does not have.

    It replaces a call if the record continues with a call of that task that is gone.
    """
    mismatch, entry = explorer.first, explorer.first.recorded
    if not entry.call:
        return None
    old = _at_recorded(explorer, found)
    if old is not None and old.category == "reordered":
        return None
    gone = old.recorded if old is not None and (_is_gone(old) or _is_unlike(old)) else None
    more = {one.now.scope for one in found if one.now and one.now.kind == "timer"}
    fired = [item for item in explorer.recorded_items if item.kind == "timer"]
    scopes = {item.scope for item in fired}
    news = {one.now.call for one in found if one.now is not None}
    told = {item.call for item in explorer.asked_items if item.kind == "timer"} - news
    is_world = entry.kind == "timer.fired"
    place = scope_of(entry.call)
    for scope, key in explorer.sleeping.items():
        if not _is_within(place, scope):
            continue  # what waits in a task beside it keeps nobody from asking
        if key in told and scope not in scopes:
            continue  # it is a recorded one, of a task that had another place
        is_new = key not in explorer.due_before or explorer.is_limit(key)
        if scope in more or scope not in scopes or (is_new and not is_world):
            timer = Item("timer", "", None, key)
            if gone is not None and gone.scope == scope and not gone.is_mark:
                return Found("kind_changed", gone, timer)
            is_ahead = mismatch.event_kind and (old is not None or is_world or scope != place)
            if not is_ahead and not mismatch.has_ended:
                return Found("extra_call", None, timer)
    return None


def _is_gone(found: Found) -> bool:
    """Return whether a recorded request is gone, or paired with an unlike one.

    Unlike is a later request with a different name and arguments.
    """
    one, other = found.recorded, found.now
    if one is None or other is None:
        return one is not None
    return one.call != other.call and _is_unlike(found)


def _is_unlike(found: Found) -> bool:
    """Return whether two requests have neither name nor arguments in common."""
    one, other = found.recorded, found.now
    if one is None or other is None:
        return False
    return one.name != other.name and one.key[2] != other.key[2]


def _is_replaced(old: Found, new: Found, explorer: Explorer) -> bool:
    """Return whether a current request replaces the recorded one.

    It has the same call key, unless it is the record's next request; or it is a call of the task
    that had a timer there.
    """
    one, other = old.recorded, new.now
    if one is None or other is None or not _is_gone(old) or new.category == "reordered":
        return False
    if one.kind == "timer":
        return one.scope == other.scope and new.recorded is None
    calls = [each for each in explorer.recorded_items if each.scope == one.scope]
    after = next((each for each in calls if each.seq > one.seq and not each.is_mark), None)
    if one.call != other.call:
        return False
    return new.recorded is None or new.recorded is not after or not _are_alike(after, other)


def _are_alike(one: Item, other: Item) -> bool:
    """Return whether two requests have a word in common, or one of them has none.

    A request that hangs on a result that is gone keeps most of its words.
    """
    words, more = (set(_WORD.findall(encode(each.arguments).decode())) for each in (one, other))
    own = set(one.arguments or ()) if isinstance(one.arguments, dict) else set[str]()
    return not (words - own) or not (more - own) or bool((words & more) - own)


def _of_order(explorer: Explorer, found: list[Found]) -> tuple[Category, Found | None, list[Found]]:
    """Name the difference of two lines that are each in place in their own scopes.

    The cause may be an earlier request; then that is the first difference.
    """
    timer = _gone_before(explorer, found)
    if timer is not None:
        return timer.category, timer, [timer]
    twin = _twin(explorer, found)
    if twin is not None:
        return "extra_call", Found("extra_call", None, explorer.emitted), [twin]
    seq = explorer.first.recorded.seq
    key = next((one.key for one in explorer.recorded_items if one.seq == seq), None)
    asked = next((at for at, one in enumerate(explorer.asked_items) if one.key == key), 1 << 62)
    before = set(explorer.asked_items[:asked])
    early = next((one for one in found if one.now in before and one.recorded is None), None)
    if early is None and key is None:
        early = next(iter(found), None)
    if early is not None:
        return early.category, early, [early]
    if not explorer.first.event_kind or explorer.first_given <= asked:
        return "unrecorded_await", None, []
    return "reordered", None, []


def _gone_before(explorer: Explorer, found: list[Found]) -> Found | None:
    """Return the sleep that is gone before the current request, and that the record waited for."""
    asked = explorer.emitted
    if asked is None:
        return None
    seqs = (one.seq for one in explorer.recorded_items if one.key == asked.key)
    until = next(seqs, -1)
    for one in found:
        gone = one.recorded
        if gone is None or one.now is not None or gone.kind != "timer" or gone.seq >= until:
            continue
        if _is_within(asked.scope, gone.scope):
            return one
    return None


def _twin(explorer: Explorer, found: list[Found]) -> Found | None:
    """Return the extra call that equals the current request: one of the two is new.

    The first is the new one, because the record has something else in its place.
    """
    emitted = explorer.emitted
    if emitted is None or emitted.is_mark or emitted.kind == "clock":
        return None
    more = (one for one in found if one.category == "extra_call")
    return next((one for one in more if one.now and one.now.key == emitted.key), None)


_OPPOSITE: Final = {
    "extra_call": ("missing_call", "unconsumed"),
    "missing_call": ("extra_call",),
}


def _of_looks(explorer: Explorer) -> Found | None:
    """Return the extra or missing clock read where the lines differ.

    Clock reads have no call key and are all alike, so only their numbers are compared.
    """
    recorded = [item for item in explorer.recorded_items if item.kind == "clock"]
    now = [item for item in explorer.asked_items if item.kind == "clock"]
    if explorer.first.event_kind == "clock.read" and len(now) > len(recorded):
        return Found("extra_call", None, now[0])
    if explorer.first.recorded.kind == "clock.read" and len(now) < len(recorded):
        return Found("missing_call", recorded[0], None)
    return None


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
