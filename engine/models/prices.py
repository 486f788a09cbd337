"""Prices answers of models by the offline table of `genai-prices`, when they are recorded.

The table is read from the installed package, never from the network, and only when an answer is
recorded; replay and verification take the cost from the log.  The table's model is the one asked
for, by its list price of tokens.  Rules: CONTRACT.md §11.9.
"""

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.errors import ExtraMissing, LimitRefused
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Usage

if TYPE_CHECKING:
    from refold.engine.ports.ports import Model  # reading logs needs no ports

EXTRA: Final = "prices"
_PACKAGE: Final = "genai-prices"
_COUNTS: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_tokens": "cache_read_tokens",
    "cache_write_tokens": "cache_write_tokens",
    "cache_write_1h_tokens": "cache_write_1h_tokens",
    "reasoning_tokens": "output_reasoning_tokens",
}
"""Our names of counts, and the table's."""


def priced(usage: Usage, name: str) -> Usage:
    """Return `usage` with its cost, asked of the model `name`: `anthropic:claude-sonnet-4-5`.

    Unchanged if it has a cost already, nothing was used, or no price is known.
    """
    if usage.cost_usd_micros is not None or not (usage.input_tokens or usage.output_tokens):
        return usage
    cost = _cost(usage, name) if has_price(name) else None
    if cost is None:
        return usage
    return attrs.evolve(usage, cost_usd_micros=cost, prices=_table()[1])


class Prices:
    """Prices answers of a log that have no recorded cost, by the table that is installed now."""

    def __init__(self) -> None:
        """Load the table.

        Raises:
            ExtraMissing: it is not installed.
        """
        if not has_prices():
            raise ExtraMissing(_PACKAGE, EXTRA)
        self.answers = 0
        """How many it has priced."""
        self.unknown: dict[str, None] = {}
        """Models without a price whose answers used tokens, in order."""
        self.table = _table()[1]
        """`genai-prices 0.2.3`."""

    def priced(self, usage: Usage, name: str) -> Usage:
        """Return `usage` with its cost, as the function does; a recorded cost stays."""
        found = priced(usage, name)
        self.answers += found is not usage
        if found.cost_usd_micros is None and usage.tokens:
            self.unknown[name] = None
        return found


def has_prices() -> bool:
    """Return whether the table is installed."""
    return _table()[0] is not None


@functools.lru_cache  # the table remembers the models that it has found, and searches for others
def has_price(name: str) -> bool:
    """Return whether the table has a price of the model `name`."""
    return _cost(Usage(input_tokens=1, output_tokens=1), name) is not None


def check_priced(limits: Limits, models: "dict[str, Model]") -> None:
    """Refuse models without a price if the limits have `cost_usd`.

    A model whose attribute `is_priced` is true reports the cost of its answers itself.

    Raises:
        ExtraMissing: the table is not installed.
        LimitRefused: no price is known of a model.
    """
    asked = [each.name for each in models.values() if not getattr(each, "is_priced", False)]
    if limits.cost_usd is None or not asked:
        return
    if not has_prices():
        raise ExtraMissing(_PACKAGE, EXTRA)
    for name in asked:
        if not has_price(name):
            raise LimitRefused("cost_usd", "models with a known price", f"{name!r}, without one")


@functools.cache
def _table() -> tuple[ModuleType | None, str]:
    """Return the package, imported at the first answer (0.16 s), and its name in a log."""
    from importlib import metadata  # noqa: PLC0415 - 10 ms at the start of every run and child

    try:
        import genai_prices  # noqa: PLC0415 - an extra, and replay needs none
    except ImportError:
        return None, ""
    return genai_prices, f"{_PACKAGE} {metadata.version(_PACKAGE)}"


def _cost(usage: Usage, name: str) -> int | None:
    provider, _, model = name.removeprefix("pydantic:").partition(":")
    table: Any = _table()[0] if model else None
    if table is None:
        return None
    known = {theirs: getattr(usage, ours) for ours, theirs in _COUNTS.items()}
    try:
        found = table.calc_price(table.Usage(**known), model, provider_id=provider)
    except (LookupError, ValueError):  # no such model or provider; parts above their whole
        return None
    micros: int = round(found.total_price * 1_000_000)
    return micros
