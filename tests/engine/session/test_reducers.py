"""Reducers return new items and touch nothing: append dedupes, upsert keeps the place."""

from refold.engine.session import append, append_all, replace_latest, upsert_by


def test_append_leaves_out_what_is_equal() -> None:
    assert append(("a",), "b") == ("a", "b")
    assert append(("a", "b"), "a") == ("a", "b")


def test_append_all_takes_equals_too() -> None:
    assert append_all(("a",), "a") == ("a", "a")


def test_replace_latest_keeps_the_event_alone() -> None:
    assert replace_latest(("a", "b"), "c") == ("c",)


def test_upsert_by_puts_the_event_in_the_place_of_its_key() -> None:
    def initial(text: str) -> str:
        return text[0]

    upsert = upsert_by(initial)

    assert upsert(("a1", "b1", "c1"), "b2") == ("a1", "b2", "c1")
    assert upsert(("a1",), "z1") == ("a1", "z1")
