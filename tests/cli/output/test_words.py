"""Numbers read as people write them."""

import attrs
import pytest

from refold.cli.output import words
from refold.engine.events.outcome import Usage
from tests.support.loops import for_each


@for_each("number, text", [(0, "0 entries"), (1, "1 entry"), (2310, "2,310 entries")])
def test_counts_have_their_noun(number: int, text: str) -> None:
    assert words.counted(number, "entry", "entries") == text


@for_each(
    "duration_ms, text",
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (8300, "8.3 s"),
        (125_000, "2 min 5 s"),
        (179_999, "2 min 59 s"),
    ],
)
def test_durations_have_the_unit_that_fits(duration_ms: int, text: str) -> None:
    assert words.seconds(duration_ms) == text


@for_each(
    "size_bytes, text", [(0, "0 B"), (812, "812 B"), (14_200, "14 kB"), (3_200_000, "3.2 MB")]
)
def test_sizes_have_the_unit_that_fits(size_bytes: int, text: str) -> None:
    assert words.size(size_bytes) == text


@for_each(
    "micros, text",
    [
        (None, "cost \u2013"),
        (0, "$0.00"),
        (5900, "$0.005900"),
        (10_000, "$0.0100"),
        (999_999, "$1.0000"),
        (1_200_000, "$1.20"),
    ],
)
def test_a_cost_has_the_digits_that_tell_it(micros: int | None, text: str) -> None:
    spent = Usage(input_tokens=900, output_tokens=45, cost_usd_micros=micros)
    cached = attrs.evolve(spent, cache_read_tokens=700)

    assert words.spent(spent) == f"945 tokens, {text}"
    assert words.spent(cached) == f"945 tokens (700 from the cache), {text}"


@pytest.mark.parametrize(
    ("what", "text"),
    [("hash", "hash: the line was altered or replaced"), ("line deleted", "line deleted")],
)
def test_damage_is_said_in_words_that_explain_themselves(what: str, text: str) -> None:
    assert words.damage(what) == text
