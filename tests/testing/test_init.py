"""The types of the fixtures have public names, each loaded when it is first asked for."""

import pytest

from refold import testing
from tests.support.loops import for_each


@for_each("name", dir(testing))
def test_each_name_is_the_class_of_a_fixture(name: str) -> None:
    assert getattr(testing, name).__name__ == name


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Other'"):
        _ = testing.Other  # type: ignore[attr-defined]
