"""Frozen values at nearly the price of mutable ones, for what is made once or twice a call.

A frozen attrs class sets each of its fields through `object.__setattr__`, by name: four times what
an ordinary assignment costs.  A twin with the same slots is filled by plain assignments and then
becomes the frozen class by a change of `__class__`, so whoever gets it cannot tell.

Only for classes without validators and converters, for a twin runs none, and without a slot for
weak references (`weakref_slot=False`), for Python refuses the change of class with one.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import attrs

P = ParamSpec("P")
T = TypeVar("T")


def quick(kind: Callable[P, T]) -> Callable[P, T]:
    """Return what makes a `kind`, a frozen attrs class with slots, as a call of `kind` would.

    Raises:
        TypeError: `kind` has what a twin cannot have.
    """
    frozen: Any = kind
    fields = attrs.fields(frozen)
    checks = any(field.validator or field.converter for field in fields)
    if checks or hasattr(frozen, "__attrs_post_init__"):
        raise TypeError(f"{frozen.__name__} checks or converts its fields: a twin would not")
    if "__weakref__" in frozen.__slots__:
        raise TypeError(f"{frozen.__name__} has a slot for weak references: weakref_slot=False")

    def become(made: Any) -> None:
        made.__class__ = frozen

    twin: Callable[P, T] = attrs.make_class(
        frozen.__name__,
        {field.name: _as_it_is(field) for field in fields},
        class_body={"__attrs_post_init__": become},
        slots=True,
        weakref_slot=False,
        eq=False,
        repr=False,
    )
    return twin


def _as_it_is(field: Any) -> Any:
    return attrs.field(default=field.default, type=field.type, kw_only=field.kw_only)
