import pkgutil

import pytest

from refold import replay
from tests.support.loops import for_each


@for_each("name", dir(replay))
def test_each_public_name_loads(name: str) -> None:
    assert getattr(replay, name).__name__ == name


def test_no_submodule_shares_a_name_with_an_export() -> None:
    """Else what a name is would depend on what was imported before."""
    submodules = {module.name for module in pkgutil.iter_modules(replay.__path__)}

    assert not submodules & set(dir(replay))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        replay.nothing  # type: ignore[attr-defined]  # noqa: B018 - the access is what is tested
