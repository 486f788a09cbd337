"""Requests and costs of a run in words: for its tree, the commands and the page.

Imports nothing that a command without a tree does not need.
"""

from collections.abc import Mapping
from typing import Final

from refold.engine.events.outcome import Priced, Usage
from refold.replay.difference.pointer_diff import counted

_DOLLAR: Final = 1_000_000
"""In microdollars, and so is a cent."""
_CENT: Final = 10_000


def dollars(micros: int | None) -> str:
    """Return a cost: `$1.20`, `$0.0123`, `$0.005900`; a dash where it is not known."""
    if micros is None:
        return "cost \u2013"
    digits = 2 if micros >= _DOLLAR or not micros else 6 if micros < _CENT else 4
    return f"${micros / _DOLLAR:,.{digits}f}"


def cost(usage: Usage, priced: Priced) -> str:
    """Return the text of a known cost: `$1.20`, `at least $0.21 (1 answer not counted)`."""
    if not (priced.unpriced and priced.usd_micros):
        return dollars(usage.cost_usd_micros)
    return (
        f"at least {dollars(priced.usd_micros)} ({counted(priced.unpriced, 'answer')} not counted)"
    )


def tokens(usage: Usage) -> str:
    """Return tokens in a table: `945`, `≥ 945` if some are unknown, `not told`; empty for none."""
    known = usage.input_tokens + usage.output_tokens
    if not known:
        return "not told" if usage.untold else ""
    return f"≥ {known:,}" if usage.untold else f"{known:,}"


def spent(usage: Usage, priced: Priced | None = None) -> str:
    """Return tokens and their cost: `945 tokens (900 from the cache), $0.0123`.

    A cost that is not known is a dash: no price is known of one of the models at least. Otherwise
    it is the known part: `at least $0.21 (1 answer not counted)`.
    """
    known, cached = usage.input_tokens + usage.output_tokens, usage.cache_read_tokens
    told = counted(known, "token") if known or not usage.untold else "tokens not told"
    notes = [f"{cached:,} from the cache"] if cached else []
    notes += [f"{counted(usage.untold, 'answer')} not told"] if known and usage.untold else []
    told += f" ({', '.join(notes)})" if notes else ""
    return f"{told}, {cost(usage, priced or Priced())}"


def requests(count: int, failed: Mapping[str, int]) -> str:
    """Return the number of model requests, and of the failed: `4 requests (2 failed: 529 ×2)`."""
    return counted(count, "request") + failures(failed)


def failures(reasons: Mapping[str, int]) -> str:
    """Return how many requests failed, and why: ` (3 failed: 529 ×2, cut)`; empty for none."""
    each = (f"{why} ×{count}" if count > 1 else why for why, count in reasons.items())
    return f" ({sum(reasons.values()):,} failed: {', '.join(each)})" if reasons else ""
