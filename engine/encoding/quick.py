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

    A generated function, as attrs generates an `__init__`: calling a class costs twice as much as
    calling a function.  The source holds the names of fields only.

    Raises:
        TypeError: `kind` has what a twin cannot have.
    """
    frozen: Any = kind
    fields = attrs.fields(frozen)
    _check(frozen, fields)
    twin = type(frozen.__name__, (), {"__slots__": [field.name for field in fields]})
    known: dict[str, Any] = {"twin": twin, "frozen": frozen}
    known |= {f"default_{field.name}": field.default for field in fields}
    lines = [f"def made({_parameters(fields)}):", "    self = twin()"]
    lines += [f"    self.{field.name} = {field.name}" for field in fields]
    lines += ["    self.__class__ = frozen", "    return self"]
    exec("\n".join(lines), known)  # noqa: S102 - from names of ours
    made: Callable[P, T] = known["made"]
    return made


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
    """Return the parameters of such a function, those by name alone last."""
    by_place = [field for field in fields if not field.kw_only]
    by_name = [field for field in fields if field.kw_only]
    listed = [*map(_parameter, by_place), *(["*"] if by_name else []), *map(_parameter, by_name)]
    return ", ".join(listed)


def _parameter(field: Any) -> str:
    name: str = field.name
    return name if field.default is attrs.NOTHING else f"{name}=default_{name}"
