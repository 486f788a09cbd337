"""Rule: what `quick` makes cannot be told from what the class itself makes."""

import attrs
import pytest

from refold.engine.encoding.quick import quick
from refold.engine.events.events import ToolCalled, ToolReturned
from refold.engine.ports.effects import CallTool
from refold.engine.ports.ports import CallContext


@attrs.frozen(weakref_slot=False)
class Point:
    """A value with fields of each sort."""

    x: int
    y: int = 2
    z: int = attrs.field(kw_only=True)
    seen: tuple[int, ...] = attrs.field(default=(), kw_only=True)


def test_what_is_made_equals_what_the_class_makes_and_is_of_it() -> None:
    """Arguments by place and by name, and defaults, are those of the class."""
    make = quick(Point)

    for made in (make(1, z=3), make(x=1, y=2, z=3), make(1, 2, z=3, seen=())):
        assert made == Point(1, z=3)
        assert type(made) is Point
        assert repr(made) == repr(Point(1, z=3))


def test_what_is_made_is_frozen() -> None:
    """Nobody can change it, as nobody can change what the class makes."""
    made = quick(Point)(1, z=3)

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.x = 3  # type: ignore[misc]  # which is what is shown


@pytest.mark.parametrize("kind", [ToolCalled, ToolReturned, CallTool, CallContext])
def test_the_classes_of_a_call_can_be_made_quickly(kind: type) -> None:
    """They have neither validators nor converters nor weak references, and stay so."""
    made = quick(kind)(**{field.name: "x" for field in attrs.fields(kind)})

    assert type(made) is kind


def test_wrong_arguments_are_refused_as_by_the_class() -> None:
    """A missing one and one too many by place are a TypeError."""
    with pytest.raises(TypeError, match="missing"):
        quick(Point)(1)  # type: ignore[call-arg]  # which is what is shown
    with pytest.raises(TypeError, match="positional"):
        quick(Point)(1, 2, 3)  # type: ignore[call-arg]  # the same


def test_a_class_that_checks_its_fields_is_refused() -> None:
    """A twin would not check them."""

    @attrs.frozen(weakref_slot=False)
    class Positive:
        x: int = attrs.field(validator=attrs.validators.gt(0))

    with pytest.raises(TypeError, match="checks or converts"):
        quick(Positive)


def test_a_class_with_a_factory_is_refused() -> None:
    """A twin would give the same object to all."""

    @attrs.frozen(weakref_slot=False)
    class Listed:
        items: list[int] = attrs.field(factory=list)

    with pytest.raises(TypeError, match="anew"):
        quick(Listed)


def test_a_class_with_weak_references_is_refused() -> None:
    """Python refuses the change of class: better at once than at the first call."""

    @attrs.frozen
    class Referenced:
        x: int

    with pytest.raises(TypeError, match="weakref_slot=False"):
        quick(Referenced)
