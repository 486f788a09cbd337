"""Numbers as people read them: counts with their noun, durations, sizes; and kinds of damage."""

from typing import Final

from refold.engine.errors import damage_meaning
from refold.replay.difference import pointer_diff
from refold.replay.run import amounts

counted: Final = pointer_diff.counted
dollars: Final = amounts.dollars
requests: Final = amounts.requests
spent: Final = amounts.spent
tokens: Final = amounts.tokens
_SECOND_MS: Final = 1000
_LONG_MS: Final = 100 * _SECOND_MS
"""From here on, minutes."""
_KILO: Final = 1000
_MEGA: Final = 1000 * _KILO


def seconds(duration_ms: int) -> str:
    """Return a duration: `35 ms`, `8.3 s`, `2 min 5 s`."""
    if duration_ms < _SECOND_MS:
        return f"{duration_ms} ms"
    if duration_ms < _LONG_MS:
        return f"{duration_ms / _SECOND_MS:.1f} s"
    minutes, rest = divmod(duration_ms // _SECOND_MS, 60)
    return f"{minutes} min {rest} s"


def size(size_bytes: int) -> str:
    """Return a size: `812 B`, `14 kB`, `3.2 MB`."""
    if size_bytes < _KILO:
        return f"{size_bytes} B"
    if size_bytes < _MEGA:
        return f"{size_bytes / _KILO:.0f} kB"
    return f"{size_bytes / _MEGA:.1f} MB"


def damage(what: str) -> str:
    """Return a kind of damage, with its meaning if the name is not clear."""
    meaning = damage_meaning(what)
    return f"{what}: {meaning}" if meaning else what
