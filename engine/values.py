"""The base of frozen classes: how their values are shown, compared and hashed.

attrs generates these three methods for each class and compiles them at each start, which took a
fifth of a child's. It leaves out what a class defines itself.
"""

import operator
from collections.abc import Callable
from typing import Any, Final

import attrs


class Value:
    """Shows, compares and hashes by the fields, as attrs does, but with the same code for all."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Give a class the methods as its own, for attrs generates those that it inherits."""
        for name in ("__eq__", "__hash__", "__repr__"):
            if name not in vars(cls):
                setattr(cls, name, vars(Value)[name])

    def __repr__(self) -> str:
        """Return the name of the class and the fields, except those that are not to be shown."""
        shown = [f"{name}={getattr(self, name)!r}" for name in _names(self.__class__, "repr")]
        return f"{self.__class__.__qualname__.rpartition('>.')[2]}({', '.join(shown)})"

    def __eq__(self, other: object) -> bool:
        """Return whether the other is of the same class and has equal fields."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = _COMPARED[self.__class__]
        return bool(compared(self) == compared(other))

    def __hash__(self) -> int:
        """Return the hash of the compared fields."""
        return hash(_COMPARED[self.__class__](self))


def _names(cls: type, use: str) -> list[str]:
    return [field.name for field in attrs.fields(cls) if getattr(field, use)]


class _Compared(dict[type, Callable[[Any], Any]]):
    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        names = _names(cls, "eq")
        self[cls] = operator.attrgetter(*names) if names else lambda _: ()
        return self[cls]


_COMPARED: Final = _Compared()
"""What gives the compared fields of an instance: a tuple, or the value of the only one."""
