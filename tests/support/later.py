"""Modules that take seconds to import, for the test files of a client of models.

Each worker collects all files, and runs a few of them.
"""

from importlib import import_module
from typing import Any, Final


class Later:
    """A module that is imported when a test first uses a name of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name in _ASKED_OF_ALL or name.startswith("_"):
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


_ASKED_OF_ALL: Final = ("hypothesis", "is_hypothesis_test", "pytestmark", "todict")
"""What pytest and its plugins ask of each name of a test file."""
