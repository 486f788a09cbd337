"""What forms write is what they read, and they refuse all else."""

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.errors import FolderRefused
from refold.engine.workspace import forms
from refold.engine.workspace.forms import NUMBER, TEXT
from tests.support.loops import for_each


@attrs.frozen
class _Pair:
    name: str
    count: int | None


PAIR = forms.row(_Pair, TEXT, forms.optional(NUMBER), check=lambda one: one.count != 13)
GROUP = forms.lines(PAIR)
_pairs = st.builds(_Pair, st.text(st.characters(codec="utf-8")), st.none() | st.integers(14, 2**53))


@given(st.lists(_pairs).map(tuple))
def test_what_is_written_is_read(pairs: tuple[_Pair, ...]) -> None:
    """As lines of a text, and as an array."""
    listed = forms.listed(PAIR)

    assert GROUP.read(GROUP.write(pairs)) == pairs
    assert listed.read(listed.write(pairs)) == pairs


@for_each(
    "line",
    [
        {}, "ab", None, [], ["a"], ["a", 1, 1], ["a", "1"], ["a", True], ["a", 1.0], [None, 1],
        ["a", 13],
    ],
)  # fmt: skip
def test_another_row_is_refused(line: Any) -> None:
    """Another length, other types, and what the check refuses."""
    with pytest.raises(FolderRefused, match=r"\[name, count\]"):
        PAIR.read(line)


@for_each("data", [{}, [], {"name": "a"}, {"name": 1, "count": 1}])
def test_other_members_are_refused(data: Any) -> None:
    """Missing ones, and those of another type."""
    form = forms.members(_Pair, name=TEXT, count=forms.optional(NUMBER))

    with pytest.raises(FolderRefused, match="name, count"):
        form.read(data)
    assert form.read({"name": "a", "count": None, "later": 1}) == _Pair("a", None)
