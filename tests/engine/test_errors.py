"""Errors are one tree with data as attributes; each survives pickling and says what it knows."""

import inspect
import pickle
import re
from typing import Any, Final, get_type_hints

import pytest

from refold.engine import errors
from tests.support.loops import for_each

ALL: Final = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, errors.RefoldError)
]
WITH_DATA: Final[list[Any]] = [kind for kind in ALL if issubclass(kind, errors.Detailed)]

_EXAMPLES: Final[dict[Any, Any]] = {
    str: "\x1b[31mwords",
    "str": "words",
    int: 3,
    bool: True,
    float: 1.5,
    tuple[str, ...]: ("one", "two"),
    int | None: 7,
    Any: {"a": 1},
}


def example(kind: Any) -> Any:
    """Return an error of `kind` with data in every attribute."""
    hints = get_type_hints(kind)
    return kind(*(_EXAMPLES[hints[name]] for name in kind._fields if hints[name] in _EXAMPLES))


def data(error: Any) -> dict[str, Any]:
    """Return the attributes of an error."""
    return {name: getattr(error, name) for name in type(error).__annotations__}


@for_each("kind", WITH_DATA)
def test_an_error_survives_pickling(kind: Any) -> None:
    """Case 87: its attributes are positional, so that it crosses processes whole."""
    error = example(kind)

    back = pickle.loads(pickle.dumps(error))

    assert type(back) is kind
    assert data(back) == data(error)
    assert str(back) == str(error)


def test_wrong_arguments_are_refused() -> None:
    """Too many, too few or unknown: a TypeError, as for any class."""
    makers: list[Any] = [errors.LogExists]

    for make in makers:
        for arguments, named in ((("a", "b", "c"), {}), ((), {}), ((), {"place": "a"})):
            with pytest.raises(TypeError, match="LogExists"):
                make(*arguments, **named)


@for_each("kind", WITH_DATA)
def test_a_message_is_built_from_the_data(kind: Any) -> None:
    """In `__str__`, in words, and not as a tuple of arguments."""
    message = str(example(kind))

    assert message
    assert not message.startswith("(")


@for_each("kind", WITH_DATA)
def test_errors_are_equal_only_to_themselves(kind: Any) -> None:
    """As exceptions are: they can be put into sets and grouped."""
    one, other = example(kind), example(kind)

    assert one != other
    assert len({one, other}) == 2


def test_the_tree_is_drawn_as_it_is() -> None:
    """In the module's docstring: each class once, below the class that it derives from."""
    drawn = re.findall(r"^( {4,})([A-Z]\w+)\b", errors.__doc__ or "", re.MULTILINE)
    above: list[str] = []
    bases = {}
    for indent, name in drawn:
        depth = len(indent) // 2 - 2
        above[depth:] = [name]
        bases[name] = above[depth - 1] if depth else "Exception"

    assert bases == {kind.__name__: _drawn_below(kind) for kind in ALL}


def _drawn_below(kind: type) -> str:
    """The first base of ours: `Detailed` only lends its constructor."""
    ours = [base for base in kind.__bases__ if base in ALL or base is Exception]
    return ours[0].__name__


@for_each(
    "line, what, said",
    [
        (1, "hash", ": the line was altered or replaced."),
        (2, "line deleted", ". Line 1 is intact: to see what can be saved, use `refold verify`."),
        (9, "schema", ". Lines 1-8 are intact: to see what can be saved, use `refold verify`."),
        (9, "data digest", "."),
        (9, "another end", "."),
    ],
)
def test_damage_tells_of_the_lines_before_it_what_is_known(line: int, what: str, said: str) -> None:
    """Where a sum over them is wrong, any of them may be altered."""
    damaged = errors.LogDamaged("a.jsonl", line, 7, "one", "other", what)

    assert str(damaged) == f"a.jsonl:{line} (byte 7): {what}: expected one, found other{said}"
