"""The tokens of one answer, out of the member that holds its counts.

Nothing of a server's numbers is trusted.  Used by the models that our own programs ask and by the
readers of what watched commands ask.  Pure.  Rules: CONTRACT.md §11.3.
"""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Usage

_MOST: Final = 2**53
"""A larger count is not believed; up to here, a float is exact."""


@attrs.frozen(kw_only=True)
class Counts:
    """Places where a wire format counts; `a/b` is the member `b` of `a`, several are added up."""

    input: tuple[str, ...]
    """The whole input: formats differ in whether the first member includes cached tokens."""
    output: tuple[str, ...]
    read: str = ""
    written: str = ""
    written_1h: str = ""
    reasoning: str = ""
    is_zero_left_out: bool = False
    """Whether a count that is not there is 0, and not unknown."""

    def usage(self, counts: Json) -> Usage:
        """Return the usage of one request; an invalid count is not told, or unknown for a part."""
        if not isinstance(counts, dict):
            counts = {}
        told = (_count(counts, name) for name in (*self.input, *self.output))
        return Usage(
            untold=1 if all(each is None for each in told) else None,
            input_tokens=sum(_count(counts, name) or 0 for name in self.input),
            output_tokens=sum(_count(counts, name) or 0 for name in self.output),
            requests=1,
            cache_read_tokens=self._part(counts, self.read),
            cache_write_tokens=self._part(counts, self.written),
            cache_write_1h_tokens=self._part(counts, self.written_1h),
            reasoning_tokens=self._part(counts, self.reasoning),
        )

    def _part(self, counts: dict[str, Any], name: str) -> int | None:
        found = _count(counts, name) if name else None
        return 0 if found is None and name and self.is_zero_left_out else found


def later(counts: Mapping[str, Any], *more: Json) -> dict[str, Any]:
    """Return the counts of an answer so far, after more of them: cumulative, not added up.

    A zero, or null, does not replace a count: gateways end streams with such members.
    """
    found = dict(counts)
    for each in more:
        for name, value in each.items() if isinstance(each, dict) else ():
            if value is not None and (value or not found.get(name)):
                found[name] = value
    return found


def _count(counts: Any, name: str) -> int | None:
    """Return a count: a whole number, perhaps written as a float or in digits."""
    for member in name.split("/"):
        counts = counts.get(member) if isinstance(counts, dict) else None
    match counts:
        case str() if counts.isascii() and counts.isdigit() and len(counts) <= len(str(_MOST)):
            found = int(counts)
        case float() if counts.is_integer():
            found = int(counts)
        case int() if not isinstance(counts, bool):
            found = counts
        case _:
            return None
    return found if 0 <= found <= _MOST else None
