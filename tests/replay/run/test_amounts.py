"""Requests and costs in words."""

import functools

from refold.engine.events.outcome import Priced, Usage
from refold.replay.run.amounts import cost, dollars, requests, spent, tokens
from tests.support.loops import for_each


@for_each(
    "micros, text",
    [
        (None, "cost \u2013"),
        (0, "$0.00"),
        (5_900, "$0.005900"),
        (12_300, "$0.0123"),
        (1_200_000, "$1.20"),
        (1_234_567_890, "$1,234.57"),
    ],
)
def test_a_cost_has_the_digits_that_it_needs(micros: int | None, text: str) -> None:
    assert dollars(micros) == text


def test_what_is_not_counted_is_named() -> None:
    priced = Priced(usd_micros=210_000, unpriced=1)

    assert cost(Usage(), priced) == "at least $0.2100 (1 answer not counted)"


_TOLD, _UNTOLD = Usage(input_tokens=40, output_tokens=5, requests=1), Usage(requests=1, untold=1)


@for_each(
    "answers, cell, text",
    [
        ([], "", "0 tokens"),
        ([_TOLD, _TOLD], "90", "90 tokens"),
        ([_UNTOLD, _UNTOLD], "not told", "tokens not told"),
        ([_UNTOLD, _TOLD, _UNTOLD], "≥ 45", "45 tokens (2 answers not told)"),
    ],
)
def test_tokens_that_were_not_told_are_never_zero(
    answers: list[Usage], cell: str, text: str
) -> None:
    """In a sum, too."""
    usage = functools.reduce(Usage.plus, answers, Usage())

    assert tokens(usage) == cell
    assert spent(usage).partition(", ")[0] == text


def test_failed_requests_are_named_by_their_reasons() -> None:
    assert requests(1, {}) == "1 request"
    assert requests(4, {"529": 2, "cut": 1}) == "4 requests (3 failed: 529 ×2, cut)"
