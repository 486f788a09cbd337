"""Rule: what `quick` makes cannot be told from what the class itself makes."""

import attrs
import pytest

from refold.engine.effects import CallTool
from refold.engine.events import ToolCalled, ToolReturned
from refold.engine.limits import Limits
from refold.engine.ports import CallContext
from refold.engine.quick import quick


@attrs.frozen(weakref_slot=False)
class Point:
    """A value with a default of each sort."""

    x: int
    y: int = 2
    seen: list[int] = attrs.field(factory=list, kw_only=True)


def test_what_is_made_equals_what_the_class_makes_and_is_of_it() -> None:
    """Arguments by place and by name, defaults and factories are those of the class."""
    make = quick(Point)

    for made in (make(1), make(x=1, y=2), make(1, 2, seen=[])):
        assert made == Point(1)
        assert type(made) is Point
        assert repr(made) == repr(Point(1))
    assert make(1).seen is not make(1).seen


def test_what_is_made_is_frozen() -> None:
    """Nobody can change it, as nobody can change what the class makes."""
    made = quick(Point)(1)

    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        made.x = 3  # type: ignore[misc]  # which is what is shown


@pytest.mark.parametrize("kind", [ToolCalled, ToolReturned, CallTool, CallContext])
def test_the_classes_of_a_call_can_be_made_quickly(kind: type) -> None:
    """They have neither validators nor converters nor weak references, and stay so."""
    made = quick(kind)(**{field.name: "x" for field in attrs.fields(kind)})

    assert type(made) is kind


def test_wrong_arguments_are_refused_as_by_the_class() -> None:
    """A missing argument is a TypeError."""
    with pytest.raises(TypeError, match="missing"):
        quick(Point)()  # type: ignore[call-arg]  # which is what is shown


def test_a_class_that_checks_its_fields_is_refused() -> None:
    """A twin would not check them."""

    @attrs.frozen(weakref_slot=False)
    class Positive:
        x: int = attrs.field(validator=attrs.validators.gt(0))

    with pytest.raises(TypeError, match="checks or converts"):
        quick(Positive)
    with pytest.raises(TypeError, match="checks or converts"):
        quick(Limits)


def test_a_class_with_weak_references_is_refused() -> None:
    """Python refuses the change of class: better at once than at the first call."""

    @attrs.frozen
    class Referenced:
        x: int

    with pytest.raises(TypeError, match="weakref_slot=False"):
        quick(Referenced)
