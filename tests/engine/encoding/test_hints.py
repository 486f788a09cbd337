import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, NewType, NotRequired, Required, TypedDict

import attrs

from refold.engine.encoding import hints

Name = NewType("Name", str)


class Partial(TypedDict, total=False):
    must: Required[int]
    may: int


class Total(TypedDict):
    must: int
    may: Annotated[NotRequired[int], "perhaps"]


class Pair(NamedTuple):
    one: int
    other: str = ""


@attrs.frozen
class Item:
    size: int
    shown: int = 1
    made: int = attrs.field(init=False, default=0)


def test_wrappers_that_say_nothing_about_values_are_taken_off() -> None:
    """However deep."""
    assert hints.strip(Annotated[Name, "x"]) is str
    assert hints.strip(NotRequired[Annotated[int, "x"]]) is int


def test_bare_and_abstract_collections_are_spelled_out() -> None:
    """They are read as lists and dicts."""
    assert hints.spelled_out(list) == list[Any]
    for kind in (Collection, Iterable, Sequence):
        assert hints.spelled_out(kind[int]) == list[int]
        assert hints.spelled_out(kind) == list[Any]
    assert hints.spelled_out(Mapping[str, int]) == dict[str, int]
    assert hints.spelled_out(typing.Dict) is typing.Dict  # noqa: UP006  the old spelling stays


def test_members_have_their_types_and_say_which_must_be_there() -> None:
    """For every kind of class that a tool can use."""
    assert hints.member_hints(Item) == {"size": int, "shown": int}
    assert hints.member_hints(Pair) == {"one": int, "other": str}
    assert hints.required_members(Item) == {"size"}
    assert hints.required_members(Partial) == {"must"}
    assert hints.required_members(Total) == {"must"}


def test_a_description_is_the_first_text_beside_a_type() -> None:
    """Other notes belong to others."""
    assert hints.note_of(Annotated[int, 3, "x"]) == "x"
    assert hints.note_of(int) == ""


def test_names_are_those_that_a_person_wrote() -> None:
    """Without module paths where they say nothing."""
    assert [hints.name_of(hint) for hint in (int, None, type(None), Item, Any, list[int])] == [
        "int",
        "None",
        "None",
        "Item",
        "Any",
        "list[int]",
    ]
