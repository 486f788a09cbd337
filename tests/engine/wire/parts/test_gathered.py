"""JSON that comes in pieces, put together in bounded memory."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.wire.parts.gathered import IN_MEMORY_MAX, Budget, Gathered, Text
from refold.engine.wire.parts.notation import held
from tests.support.loops import for_each

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "id", "index", "type"]), inner, max_size=3)
    ),
)


def gathered(*deltas: dict[str, Any], by_index: bool = False) -> dict[str, Any]:
    found = Gathered(Budget(), by_index=by_index)
    for delta in deltas:
        found.add(delta)
    return found.value()


@given(st.dictionaries(st.text(max_size=2), VALUES, max_size=4))
def test_an_object_that_comes_whole_stays_as_it_is(value: dict[str, Any]) -> None:
    """Of whatever kind its members are."""
    assert json.dumps(gathered(value)) == json.dumps(value)


def test_texts_go_on_and_objects_are_filled() -> None:
    """Members that come whole, or that say nothing, change nothing that is there."""
    found = gathered(
        {"id": "x", "text": "a", "more": {"text": "c", "n": 1}, "list": [1]},
        {"id": "x", "text": "b", "more": {"text": "d", "n": 2}, "list": [2]},
        {"id": "", "text": None, "more": None, "list": None},
    )

    assert found == {"id": "x", "text": "ab", "more": {"text": "cd", "n": 2}, "list": [1, 2]}


def test_items_of_one_index_are_pieces_of_one() -> None:
    """Only where that is asked for."""
    deltas = [{"list": [{"index": 0, "text": "a"}]}, {"list": [{"index": 0, "text": "b"}]}]

    assert gathered(*deltas, by_index=True) == {"list": [{"index": 0, "text": "ab"}]}
    assert gathered(*deltas) == {"list": [{"index": 0, "text": "a"}, {"index": 0, "text": "b"}]}


def test_what_nests_without_end_becomes_text() -> None:
    """So that what is gathered can be walked, and kept."""
    value: Any = []
    for _ in range(300):
        value = [value]

    found = gathered({"a": value})

    assert "[[[" in json.dumps(held(found))


def test_texts_beyond_the_budget_are_cut_and_counted() -> None:
    """Between characters; what follows is not kept, however short it is."""
    budget = Budget(bytes_max=5)
    text, other = Text(budget), Text(budget)

    text.add("ab")
    assert budget.truncated() is None
    text.add("c\u00e9\u00e9")
    other.add("d")

    assert (text.value(), other.value()) == ("abc\u00e9", "")
    assert budget.truncated() == {"kept_bytes": 5, "seen_bytes": 8}


@for_each(
    "delta", [{str(at): 1 for at in range(50)}, {"list": [1] * 50}, {"list": [{"a": 1}] * 50}]
)
def test_members_and_items_are_bounded_too(delta: dict[str, Any]) -> None:
    """Else many small ones would fill the memory."""
    budget = Budget(parts_max=10)
    found = Gathered(budget)

    found.add(delta)

    assert len(json.dumps(found.value())) < 150
    assert budget.truncated() is not None


def test_halves_of_a_character_are_put_together() -> None:
    """Where one delta ends in one and the next begins with the other."""
    text = Text(Budget())

    text.add("\ud83d")
    assert text.value() == "\ud83d"
    text.add("\ude00")

    assert text.value() == "\U0001f600"


def test_a_long_text_is_the_same_with_a_part_of_it_in_a_file() -> None:
    """After each piece, and where a character comes apart between two."""
    text, whole = Text(Budget()), ""
    for piece in ("a" * 200_000, "b" * 100_000, "\ud83d", "\ude00" + "\u00e4" * 300_000, "c"):
        text.add(piece)
        whole += piece
        joined = whole.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        assert text.value() == text.value() == joined


@pytest.mark.long
def test_many_long_texts_at_once_take_little_memory() -> None:
    """A proxy reads each answer while it passes; 20 MiB of text are on their way here."""
    tracemalloc.start()
    texts = [Text(Budget()) for _ in range(10)]
    for _ in range(2 * 1024):
        for text in texts:
            text.add("x" * 1024)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 10 * 2 * IN_MEMORY_MAX
    assert {len(text.value()) for text in texts} == {2 * 1024 * 1024}
