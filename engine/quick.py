"""Frozen values at nearly the price of mutable ones, for what is made once or twice a call.

A frozen attrs class sets each of its fields through `object.__setattr__`, by name: four times what
an ordinary assignment costs.  A twin with the same slots is filled by plain assignments and then
becomes the frozen class by a change of `__class__`, so whoever gets it cannot tell.

Only for classes without validators, converters and factories, for a twin runs none, and without a
slot for weak references (`weakref_slot=False`), for Python refuses the change of class with one.
"""

from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import attrs

P = ParamSpec("P")
T = TypeVar("T")


def quick(kind: Callable[P, T]) -> Callable[P, T]:
    """Return what makes a `kind`, a frozen attrs class with slots, as a call of `kind` would.

    Its `__init__` is generated, as that of attrs is; the source holds the names of fields only.

    Raises:
        TypeError: `kind` has what a twin cannot have.
    """
    frozen: Any = kind
    fields = attrs.fields(frozen)
    _check(frozen, fields)
    known = {"frozen": frozen} | {f"default_{field.name}": field.default for field in fields}
    lines = [f"def __init__(self{_parameters(fields)}):"]
    lines += [f"    self.{field.name} = {field.name}" for field in fields]
    exec("\n".join([*lines, "    self.__class__ = frozen"]), known)  # noqa: S102 - from names of ours
    members = {"__slots__": [field.name for field in fields], "__init__": known["__init__"]}
    twin: Callable[P, T] = type(frozen.__name__, (), members)
    return twin


def _check(frozen: Any, fields: Iterable[Any]) -> None:
    name = frozen.__name__
    checks = any(field.validator or field.converter for field in fields)
    if checks or hasattr(frozen, "__attrs_post_init__"):
        raise TypeError(f"{name} checks or converts its fields: a twin would not")
    if any(isinstance(field.default, attrs.Factory) for field in fields):  # type: ignore[arg-type]  # a class at run time
        raise TypeError(f"{name} makes a default anew each time: a twin would not")
    if "__weakref__" in frozen.__slots__:
        raise TypeError(f"{name} has a slot for weak references: weakref_slot=False")


def _parameters(fields: Iterable[Any]) -> str:
    """Return the parameters of `__init__` after `self`, those by name alone last."""
    by_place = [field for field in fields if not field.kw_only]
    by_name = [field for field in fields if field.kw_only]
    listed = [*map(_parameter, by_place), *(["*"] if by_name else []), *map(_parameter, by_name)]
    return "".join(f", {each}" for each in listed)


def _parameter(field: Any) -> str:
    name: str = field.name
    return name if field.default is attrs.NOTHING else f"{name}=default_{name}"
