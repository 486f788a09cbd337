"""The limits of a run, and the one rule: limits only narrow (CONTRACT.md §8).

Pure values.  Who enforces what: the kernel counts depth, children, iterations and tokens, the
driver and the runners watch time and bytes; each hit is a `limit.hit` event.

To add one: its field here, with a type that defines its values; its enforcement, for requests of a
program in `engine.kernel.decide`, with the rest of it in `engine.state.run_state`; the check of a
log, `replay.audit.causal`; CONTRACT.md §8 and `docs/subagents.md`, which
`tests/engine/events/test_limits.py` reads.
"""

import math
from typing import Any, Final, Self

import attrs

from refold.engine.encoding.parameters import names_nearest
from refold.engine.errors import LimitRefused
from refold.engine.values import Value

_MAY_BE_ZERO: Final = ("max_depth", "max_children")
_UNITS: Final = {"cost_usd": "US dollars"}
"""Of caps that may have fractions; all others are seconds."""


@names_nearest
@attrs.frozen(kw_only=True)
class Limits(Value):
    """Limits of one run.  `None` sets no limit; a child still has its parent's.

    A root gets the defaults in `CEILINGS`, and its caller may raise them.  Programs and models can
    only narrow limits.
    """

    max_depth: int | None = None
    """The deepest run that may exist; the root is 0.  A run at this depth may not delegate."""
    max_children: int | None = None
    """Children that one run may start, over its whole life."""
    timeout_seconds: float | None = None
    """Active wall time of the run, in seconds."""
    join_seconds: float | None = None
    """Wall time of any one child, in seconds, so that every join ends."""
    max_iterations: int | None = None
    """Model requests that the run may make."""
    output_bytes: int | None = None
    """Canonical bytes of the run's output."""
    model_tokens: int | None = None
    """Tokens (input and output) over all model answers of the run."""
    cost_usd: float | None = None
    """US dollars over all model answers of the run and its children, by `engine.models.prices`."""

    def __attrs_post_init__(self) -> None:
        for name, is_whole in _CAPS.items():
            if (value := getattr(self, name)) is None:
                continue
            least = 0 if name in _MAY_BE_ZERO else 1
            if is_whole:
                if type(value) is not int or value < least:
                    raise LimitRefused(name, f"an integer of at least {least}", repr(value))
            elif type(value) not in (int, float) or not 0 < value < math.inf:
                unit = _UNITS.get(name, "seconds")
                raise LimitRefused(name, f"a positive number of {unit}", repr(value))

    def narrowed(self, other: "Limits") -> "Limits":
        """Return the tighter of the two, cap by cap."""
        caps: dict[str, Any] = {
            name: _tighter(getattr(self, name), getattr(other, name)) for name in _CAPS
        }
        return Limits(**caps)

    def completed(self, other: "Limits") -> "Limits":
        """Return these limits, completed by `other`."""
        return attrs.evolve(other, **self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Return the caps that are set, as a log holds them."""
        return {name: value for name in _CAPS if (value := getattr(self, name)) is not None}

    @classmethod
    def from_json(cls, caps: dict[str, Any]) -> Self:
        """Return limits from what `as_json` gave.

        Raises:
            LimitRefused: an unknown or nonsensical cap.
        """
        for name in caps:
            if name not in _CAPS:
                raise LimitRefused(name, "one of " + ", ".join(sorted(_CAPS)), "an unknown name")
        return cls(**caps)


_CAPS: Final = {field.name: field.type == int | None for field in attrs.fields(Limits)}
"""Whether each has whole numbers.  To ask `attrs.fields` each time takes longer."""

CEILINGS: Final = Limits(max_depth=8, max_children=1000, join_seconds=600)
"""The ceilings of every root by default."""
CHILDREN_AT_ONCE: Final = 64
"""Children of one run that work at the same time; those that were started beyond wait their
turn, and their time begins with it. They are not in any log."""


def _tighter(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
