"""What tests of exports share."""

from collections.abc import Iterator

import pytest

from tests.support.collecting import Collected, collecting


@pytest.fixture
def collector() -> Iterator[Collected]:
    """A collector on loopback, and what it got."""
    with collecting() as collected:
        yield collected
