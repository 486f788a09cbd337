"""When two results count as the same; rules are CONTRACT.md §12.10."""

import pytest

from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.replay.partial.drift import comparator
from tests.support.loops import for_each


@for_each(
    "rule, recorded, now, is_same",
    [
        ("exact", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("exact", [1, 2], [2, 1], False),
        ("exact", 1, True, False),
        ("text", "Hello  World\n", "hello world", True),
        ("text", {"t": ["A b"]}, {"t": ["a  B"]}, True),
        ("text", "hello", "hallo", False),
        ("text", {"A": 1}, {"a": 1}, False),
        ("subset", {"a": 1}, {"a": 1, "b": 2}, True),
        ("subset", {"a": 1, "b": 2}, {"a": 1}, False),
        ("subset", [{"id": 2}], [{"id": 1}, {"id": 2, "x": 0}], True),
        ("subset", [1, 1], [1, 2], False),
        ("numbers:0.01", 100, 100.5, True),
        ("numbers:0.01", 100, 102, False),
        ("numbers:0.01", {"a": [1.0, "x"]}, {"a": [1.001, "x"]}, True),
        ("numbers:0.01", [1], [1, 1], False),
        ("numbers:0.01", {"a": 1}, {"a": 2}, False),
        ("numbers:0.01", {"a": 1}, {"a": 1, "b": 2}, False),
        ("numbers:0.01", True, 1, False),
        ("numbers:0.01", 1, True, False),
        ("numbers:0.01", "1", "1", True),
    ],
)
def test_rules(rule: str, recorded: Json, now: Json, *, is_same: bool) -> None:
    """Each rule takes JSON values and judges them whole."""
    assert comparator(rule)(recorded, now) is is_same


def test_a_function_is_its_own_rule() -> None:
    """(recorded, now) → bool."""
    assert comparator(lambda recorded, now: recorded < now)(1, 2)


@for_each("name", ["fuzzy", "numbers", "numbers:x", ""])
def test_an_unknown_rule_is_named(name: str) -> None:
    """With those that there are."""
    with pytest.raises(UsageError, match="exact, text, subset or numbers"):
        comparator(name)
