"""Numbers as people read them: counts with their noun, durations, sizes; and kinds of damage."""

from typing import Final

from refold.engine.errors import damage_meaning
from refold.engine.events.outcome import Priced, Usage
from refold.replay.difference import pointer_diff
from refold.replay.run import amounts

counted: Final = pointer_diff.counted
dollars: Final = amounts.dollars
requests: Final = amounts.requests
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


def spent(usage: Usage, priced: Priced | None = None) -> str:
    """Return tokens and their cost: `945 tokens (900 from the cache), $0.0123`.

    A cost that is not known is a dash: no price is known of one of the models at least. With
    `priced`, it is the known part: `at least $0.21 (1 answer not counted)`.
    """
    cached = usage.cache_read_tokens
    told = counted(usage.input_tokens + usage.output_tokens, "token")
    told += f" ({cached:,} from the cache)" if cached else ""
    return f"{told}, {amounts.cost(usage, priced or Priced())}"


def damage(what: str) -> str:
    """Return a kind of damage, with its meaning if the name is not clear."""
    meaning = damage_meaning(what)
    return f"{what}: {meaning}" if meaning else what
