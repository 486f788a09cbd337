"""The types of a program's input and output, by its annotations.

A program gets its input, and the output of a child, read back from the JSON of the log, with the
readers of tools (`engine.encoding.shapes`). So a recording, its replay and its continuation have
equal values, in every process. Rules: CONTRACT.md §9.12.
"""

import functools
import inspect
import types
import typing
from types import FunctionType, SimpleNamespace
from typing import Any, Final
from weakref import WeakKeyDictionary

import attrs

from refold.engine.encoding import hints, shapes
from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import ToolRefused, TypeRefused, ValueRefused
from refold.engine.events.outcome import Report
from refold.engine.ports.ports import Program
from refold.engine.ports.programs import program_name, signature_of
from refold.engine.values import Value

_UNKNOWN: Final = (NameError, TypeError, AttributeError, SyntaxError)
_MODULE: Final = "import the type at run time, at module level, or annotate Any for plain JSON"


@attrs.frozen
class ProgramTypes(Value):
    """How the values of one program are read."""

    name: str
    input: shapes.Shape
    output: shapes.Shape

    def read_input(self, value: Json, *, misspelt_first: bool = False) -> Any:
        """Return the program's input, of its JSON.

        An error can name a misspelt member before one that is missing. Logs have the other order.

        Raises:
            ValueRefused: it does not fit the annotation.
        """
        return self._read("input", self.input, value, misspelt_first=misspelt_first)

    def read_output(self, value: Json) -> Any:
        """Return the program's output, of its JSON.

        Raises:
            ValueRefused: it does not fit the annotation.
        """
        return self._read("output", self.output, value)

    def dump_output(self, value: Json) -> Json:
        """Return an output's JSON in the form that `read_output` reads back to an equal value.

        Raises:
            ValueRefused: it does not fit the annotation.
        """
        read = self.read_output(value)
        return to_json(read) if self.output.typed else read

    def _read(
        self, part: str, shape: shapes.Shape, value: Json, *, misspelt_first: bool = False
    ) -> Any:
        if shape is shapes.ANY:
            return value
        try:
            return shape.read(value)
        except Exception as error:  # noqa: BLE001 - what a reader raises is explained, not handled
            problems = [*problems_of(error)]
            problems.sort(key=lambda each: misspelt_first and "did you mean" not in each.found)
            wrong = problems[0]
        raise ValueRefused(self.name, part, wrong.pointer, wrong.expected, wrong.found)


PLAIN: Final = ProgramTypes("", shapes.ANY, shapes.ANY)
"""Those of a program without annotations: plain JSON values."""


def types_of(program: Program) -> ProgramTypes:
    """Return the types of a program; each function is read once.

    Raises:
        TypeRefused: an annotation cannot be resolved, or its values cannot be read back.
    """
    function = _function_of(program)
    if function is None:
        return PLAIN
    known = _known.setdefault(function, {})
    if program is function and "" in known:
        return known[""]
    signature = signature_of(program)
    parameters = (each for each in signature.parameters.values() if each.kind not in _BY_NAME)
    _, given, *_ = (*parameters, _BARE, _BARE)
    place = "" if program is function else given.name
    if place not in known:
        name = program_name(program)
        known[place] = ProgramTypes(
            name,
            _shape_of(function, given.annotation, name, f"parameter {given.name!r}"),
            _shape_of(function, signature.return_annotation, name, "return"),
        )
    return known[place]


_BY_NAME: Final = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
_BARE: Final = inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY)


_known: Final = WeakKeyDictionary[FunctionType, dict[str, ProgramTypes]]()
"""By function; and by the parameter that takes the input, if the program is made of it."""


def _function_of(program: Any) -> FunctionType | None:
    """Return the function that has the annotations; `None` for what is not written in Python."""
    while isinstance(program, functools.partial):
        program = program.func
    if not isinstance(program, FunctionType | types.MethodType | type):
        program = getattr(type(program), "__call__", None)  # noqa: B004 - its annotations are meant
    found = inspect.unwrap(getattr(program, "__func__", program))
    return found if isinstance(found, FunctionType) else None


def _shape_of(function: FunctionType, hint: Any, program: str, where: str) -> shapes.Shape:
    """Return the shape of an annotation of a function."""
    try:
        hint = _resolved(function, hint)
        arms = typing.get_args(hint) if hints.is_union(hint) else (hint,)
        if any(arm in _FREE or isinstance(arm, typing.TypeVar) for arm in arms):
            return shapes.ANY
        return shapes.shape_of(hint, tool=program, where=where)
    except ToolRefused as error:
        why = error.why if where != "parameter 'run'" else f"define it as {program}(run, input)"
        raise TypeRefused(program, error.where, why) from None
    except _UNKNOWN as error:
        why = f"the annotation cannot be resolved ({error}): {_MODULE}"
        raise TypeRefused(program, where, why) from None


_FREE: Final = (Report, typing.NoReturn, typing.Never)
"""Annotations that any output fits: that of a `Report` has no type."""


def _resolved(function: FunctionType, hint: Any) -> Any:
    """Return an annotation, resolved; others of the function may have unknown names."""
    if hint is inspect.Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": hint})
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    around = {each: cell.cell_contents for each, cell in cells if cell != _EMPTY}
    found = typing.get_type_hints(holder, function.__globals__, around, include_extras=True)
    return hints.strip(found["it"])


_EMPTY: Final = types.CellType()
