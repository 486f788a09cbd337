"""The world of the programs of `tests/support/forks.py`."""

from collections.abc import Iterator

import pytest

from tests.support.forks import factor, kept


@pytest.fixture
def as_it_was() -> Iterator[None]:
    """Put the world back as it was."""
    kept.clear()
    yield
    factor["value"] = 1
