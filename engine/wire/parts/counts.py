"""The tokens of one answer, out of the member that holds its counts.

Nothing of a server's numbers is trusted.  Used by the models that our own programs ask and by the
readers of what watched commands ask.  Pure.  Rules: CONTRACT.md §11.3.
"""

from typing import Any

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Usage


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
        """Return the usage of one request; an invalid count is 0, or unknown for a part."""
        if not isinstance(counts, dict):
            return Usage(requests=1)
        return Usage(
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


def _count(counts: Any, name: str) -> int | None:
    for member in name.split("/"):
        counts = counts.get(member) if isinstance(counts, dict) else None
    return counts if type(counts) is int and counts >= 0 else None
