"""A package's names load on first use, and type checkers read the same names."""

import ast
import inspect
import re
import sys
import types
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import attrs
import pytest

import refold
from refold.engine.lazy import lazily

_PACKAGES = (
    "refold",
    "refold.engine.log",
    "refold.engine.models",
    "refold.engine.process",
    "refold.engine.session",
    "refold.replay",
    "refold.testing",
    "refold.tools",
)


def _told_to_checkers(source: str) -> Iterator[tuple[str, str]]:
    """Yield the names below `if TYPE_CHECKING`, each with its module."""
    for block in ast.parse(source).body:
        if isinstance(block, ast.If):
            for line in block.body:
                assert isinstance(line, ast.ImportFrom)
                for name in line.names:
                    assert name.asname == name.name  # else it is no export to a checker
                    yield name.name, str(line.module)


@pytest.mark.parametrize("package", _PACKAGES)
def test_checkers_read_the_names_that_load(package: str) -> None:
    """One table for Python, one block for mypy and pyright: the same names from the same homes."""
    module = import_module(package)
    told = dict(_told_to_checkers(Path(str(module.__file__)).read_text(encoding="utf-8")))

    assert set(told) == set(dir(module)) - {"__version__"}
    for name, home in told.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", _PACKAGES)
def test_star_gives_what_dir_shows(package: str) -> None:
    module = import_module(package)

    assert sorted(module.__all__) == dir(module)


def test_a_home_is_imported_by_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and once; no other name is made up."""
    package = types.ModuleType("refold.made_up")
    monkeypatch.setitem(sys.modules, package.__name__, package)

    lazily(package.__name__, {"made_up_home": "thing other"}, "own")

    assert dir(package) == ["other", "own", "thing"]
    with pytest.raises(ModuleNotFoundError, match="made_up_home"):
        package.thing  # noqa: B018 - the access is what is tested
    home = types.ModuleType("refold.made_up_home")
    home.thing = found = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, home.__name__, home)
    assert package.thing is found
    assert vars(package)["thing"] is found
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - the access is what is tested


@pytest.mark.parametrize("name", [each for each in dir(refold) if each != "__version__"])
def test_help_tells_every_field_and_argument(name: str) -> None:
    """What stands below a field in the source is no docstring of Python's: `help` would lack it."""
    found = getattr(refold, name)
    text = inspect.getdoc(found) or ""

    if attrs.has(found):
        members = [each.name for each in attrs.fields(found) if each.init]
    elif inspect.isfunction(found) and "those of `record`" not in text:
        members = [*inspect.signature(found).parameters]
    else:
        members = []

    assert text
    assert [each for each in members if not re.search(rf"\b{each}\b", text)] == []
