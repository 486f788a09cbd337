"""The JSON of a state, and the digest by which two states are compared (CONTRACT.md §6.1).

Two digests are comparable only if they have the same `STATE_VERSION`; callers must check that
first. It leaves out values that differ between two equal runs: derived ids, durations, and clock
readings.
"""

import functools
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.state.run_state import ChildState, Counted, LimitCount, RunState, Seal

STATE_VERSION: Final = 1
"""Raised whenever a rule or the JSON below changes."""

_EXACT: Final = 2**53
_PLAIN: Final = (1e-4, 1e16)
_COUNTED: Final = tuple(name for name in attrs.fields_dict(Counted) if name != "margin")


def state_json(state: RunState, *, volatile: bool = True) -> dict[str, Json]:
    """Return the state as JSON, members sorted by name.

    Without `volatile`, it lacks the values that the digest leaves out: ids, durations, clock
    readings.
    """
    shown: dict[str, Json] = {name: getattr(state, name) for name in _COUNTED}
    if not volatile:
        del shown["run_id"], shown["root_id"]
    shown |= {
        "state_version": STATE_VERSION,
        "tokens_used": state.tokens_used,
        "limits": {name: _number(cap) for name, cap in state.limits.as_json().items()},
        "left": _members(state.left),
        "open": [_members(call) for call in state.open],
        "tools": [_members(count) for count in state.tools],
        "usage": state.usage.as_json(),
        "children_usage": state.children_usage.as_json(),
        "children": [_child(child, volatile=volatile) for child in state.children],
        "conversations": [
            {
                "scope": talk.scope,
                "chain": talk.chain,
                "messages": talk.messages,
                "prefix": talk.prefix,
                "prefix_messages": talk.prefix_messages,
                "turns": [[turn.seq, turn.messages] for turn in talk.turns],
            }
            for talk in state.conversations
        ],
        "limit_hits": [_limit_hit(hit, volatile=volatile) for hit in state.limit_hits],
        "patches": list(state.patches),
        "seal": _seal(state.seal, volatile=volatile),
    }
    return dict(sorted(shown.items()))


def state_digest(state: RunState) -> str:
    """Return the digest of `state`: 64 lower-case hex digits.

    It does not depend on the process, the Python version or the version of the JSON library.

    Raises:
        NotCanonical: the state holds text that no log can hold.
    """
    return digest.of_value(digest.STATE, state_json(state, volatile=False))


def _members(value: Any) -> dict[str, Json]:
    """Return the fields of a value by name, as they are: `attrs.asdict` looks into each."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


_names: Final = functools.cache(attrs.fields_dict)


def _child(child: ChildState, *, volatile: bool) -> dict[str, Json]:
    shown = _members(child)
    if not child.cost_reserved:  # logs without `cost_usd` have the digests that they had before it
        del shown["cost_reserved"]
    if not volatile:
        del shown["run_id"], shown["duration_ms"]
    return shown


def _limit_hit(hit: LimitCount, *, volatile: bool) -> dict[str, Json]:
    shown: dict[str, Any] = _members(hit)
    shown["allowed"] = _number(hit.allowed)
    shown["observed"] = _number(hit.observed)
    if not volatile and hit.limit == "timeout_seconds":
        del shown["observed"]
    return shown


def _seal(seal: Seal | None, *, volatile: bool) -> dict[str, Json] | None:
    if seal is None:
        return None
    shown = _members(seal)
    shown["in_doubt"] = list(seal.in_doubt)
    if not volatile:
        del shown["children_root"]  # over the heads of logs, which always differ
    return shown


def _number(value: float) -> Json:
    """Return `value` in a form that every JSON library writes the same way.

    Whole numbers become integers; what would need an exponent, whose text differs between
    versions of the library, becomes Python's own text.
    """
    if type(value) is int:
        return value
    if value == 0 or (abs(value) < _EXACT and value == int(value)):
        return int(value)
    low, high = _PLAIN
    return value if low <= abs(value) < high else repr(value)
