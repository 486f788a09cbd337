"""Reducers return new items and touch nothing: append dedupes."""

from refold.engine.session import append, append_all


def test_append_leaves_out_what_is_equal() -> None:
    assert append(("a",), "b") == ("a", "b")
    assert append(("a", "b"), "a") == ("a", "b")


def test_append_all_takes_equals_too() -> None:
    assert append_all(("a",), "a") == ("a", "a")
