"""The base of frozen classes shows, compares and hashes as attrs' own methods do."""

import subprocess
import sys
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refold.engine.values import Value


@attrs.frozen
class _Plain:
    first: Any
    hidden: int = attrs.field(default=0, repr=False)
    ignored: int = attrs.field(default=0, eq=False)


@attrs.frozen
class _Shared(Value):
    first: Any
    hidden: int = attrs.field(default=0, repr=False)
    ignored: int = attrs.field(default=0, eq=False)


@attrs.frozen(kw_only=True)
class _More(_Shared):
    last: str = ""


@attrs.frozen
class _Nothing(Value):
    pass


_FIELDS = st.tuples(st.integers(0, 1) | st.text(max_size=2), st.integers(0, 1), st.integers(0, 1))


@given(_FIELDS, _FIELDS)
def test_values_are_shown_compared_and_hashed_as_attrs_does(
    one: tuple[Any, int, int], other: tuple[Any, int, int]
) -> None:
    """The text, equality and equality of hashes are those of a class without the base."""
    plain, shared = (_Plain(*one), _Plain(*other)), (_Shared(*one), _Shared(*other))

    assert repr(shared[0]) == repr(plain[0]).replace("_Plain", "_Shared")
    assert (shared[0] == shared[1]) is (plain[0] == plain[1])
    assert (hash(shared[0]) == hash(shared[1])) is (hash(plain[0]) == hash(plain[1]))
    assert shared[0] != plain[0]


def test_classes_that_inherit_and_that_have_no_fields_are_values_too() -> None:
    """A subclass compares its own fields as well, and never equals its base."""
    assert repr(_More(1, last="x")) == "_More(first=1, ignored=0, last='x')"
    assert _More(1, last="x") != _More(1, last="y") != _Shared(1)
    assert len({_More(1, last="x"), _More(1, last="x"), _Shared(1)}) == len("xy")
    assert (_Nothing(), repr(_Nothing())) == (_Nothing(), "_Nothing()")
    assert hash(_Nothing()) == hash(_Nothing())


def test_a_class_keeps_the_methods_that_it_defines() -> None:
    """A secret does not show its text."""

    @attrs.frozen
    class Hidden(Value):
        text: str

        def __repr__(self) -> str:
            return "hidden"

    assert repr(Hidden("x")) == "hidden"
    assert Hidden("x") == Hidden("x")


def test_a_value_that_cannot_be_hashed_says_so() -> None:
    """As a tuple does."""
    with pytest.raises(TypeError, match="unhashable"):
        hash(_Shared([]))


_LIST = """
import sys
import attrs
import refold.engine.runners.child

for name, module in [*sys.modules.items()]:
    for kind in vars(module).values() if name.startswith("refold.") else ():
        if isinstance(kind, type) and kind.__module__ == name and attrs.has(kind):
            code = getattr(kind.__hash__, "__code__", None)
            if code is not None and code.co_filename.startswith("<attrs"):
                print(name, kind.__qualname__)
"""


def test_no_class_that_a_child_starts_with_has_methods_of_its_own_generated() -> None:
    """What attrs generates for them is compiled before each child begins."""
    found = subprocess.run(
        [sys.executable, "-c", _LIST], capture_output=True, text=True, check=True
    )

    assert found.stdout == ""
