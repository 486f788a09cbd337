"""Lists what each entry changed of the state of its run, for a scrubber.

The same states as `refold show --at N`, in one pass: if a state holds lists that grow with the
log, only the touched part is compared. Rules: CONTRACT.md §6.1, §14.16.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from refold.engine.events.call_key import scope_of
from refold.engine.log.reader import Entry
from refold.engine.state.digests import state_json
from refold.engine.state.folding import Fold
from refold.engine.state.rules import Talk
from refold.engine.state.run_state import ChildState, Conversation, RunState, TalkPoint
from refold.replay.difference.pointer_diff import Difference, differences

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "="}
_OF_CHILDREN: Final = ("child.started", "child.finished", "effect.late", "tokens.granted")
_OF_TALKS: Final = ("model.asked", "model.answered")
"""Kinds by which the lists change that grow with a log."""


def changes(entries: Iterable[Entry]) -> Iterator[list[list[Any]]]:
    """Yield the changes of each entry, to be applied in order to the state before, `{}`.

    `["=", pointer, value]` puts a value in the place of another, `["+", pointer, value]` adds a
    member or inserts an element, `["-", pointer]` takes one out.
    """
    fold, before = Fold(), dict[str, Any]()
    children, talks = list[ChildState](), dict[str, _Known]()
    for entry in entries:
        fold.apply(entry.event, entry.call, entry.seq)
        after = _small(fold)
        found = [each for name in after for each in _member(name, before, after)]
        if entry.kind in _OF_CHILDREN:
            found += _children(children, fold.children)
        scope = scope_of(entry.call or "")
        if entry.kind in _OF_TALKS and scope in fold.talks:
            found += _talk(talks.setdefault(scope, _Known(len(talks))), scope, fold.talks[scope])
        before = after
        yield [_plain(each) for each in found]


def _plain(change: Difference) -> list[Any]:
    sign = _SIGNS[change.kind]
    return [sign, change.pointer] if sign == "-" else [sign, change.pointer, change.after]


@attrs.define
class _Known:
    """A conversation as it was after the last entry that touched it."""

    place: int
    shown: dict[str, Any] = attrs.field(factory=dict)
    turns: list[TalkPoint] = attrs.field(factory=list)


def _small(fold: Fold) -> dict[str, Any]:
    """Return the state as JSON without the lists that grow."""
    children, talks = fold.children, fold.talks
    fold.children, fold.talks = [], {}
    try:
        return state_json(fold.state())
    finally:
        fold.children, fold.talks = children, talks


def _member(name: str, before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    if name not in before:
        return [Difference(f"/{name}", "added", after=after[name])]
    return [] if before[name] == after[name] else _below(f"/{name}", before[name], after[name])


def _below(pointer: str, before: Any, after: Any) -> list[Difference]:
    """Return what changed, in an order in which it can be applied: what goes, from the end."""
    found = [
        attrs.evolve(each, pointer=pointer + each.pointer) for each in differences(before, after)
    ]
    gone = [each for each in found if each.kind == "removed"]
    rest = (tuple(each for each in found if each.kind == kind) for kind in ("changed", "added"))
    changed, added = rest
    return [*changed, *reversed(gone), *added]


def _children(known: list[ChildState], now: list[ChildState]) -> Iterator[Difference]:
    for at, child in enumerate(now):
        if at == len(known):
            yield Difference(f"/children/{at}", "added", after=_shown("children", child))
            known.append(child)
        elif known[at] is not child:
            before, known[at] = known[at], child
            pair = _shown("children", before), _shown("children", child)
            yield from _below(f"/children/{at}", *pair)


def _talk(known: _Known, scope: str, talk: Talk) -> Iterator[Difference]:
    """Compare one conversation, of which turns are only taken off its end, and added there."""
    where, turns = f"/conversations/{known.place}", known.turns
    last = Conversation(scope, talk.prefix, talk.prefix_messages, tuple(talk.turns[-1:]))
    shown = _shown("conversations", last) | {"turns": []}
    if not known.shown:
        yield Difference(where, "added", after=shown)
    else:
        yield from _below(where, known.shown, shown)
    known.shown = shown
    same = min(len(turns), len(talk.turns))
    while same and turns[same - 1] is not talk.turns[same - 1]:
        same -= 1
    for at in range(len(turns) - 1, same - 1, -1):
        yield Difference(f"{where}/turns/{at}", "removed")
    for at, turn in enumerate(talk.turns[same:], same):
        yield Difference(f"{where}/turns/{at}", "added", after=[turn.seq, turn.messages])
    turns[same:] = talk.turns[same:]


def _shown(name: str, element: ChildState | Conversation) -> Any:
    """Return one element of a list of the state as the state's JSON has it."""
    return state_json(RunState(**{name: (element,)}))[name][0]  # type: ignore[arg-type]
