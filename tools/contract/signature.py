"""A tool's parameters, result and description, from a function's signature and docstring.

They are checked once, when the tool is made. `engine.encoding.shapes` handles the types. Rules:
CONTRACT.md §10.
"""

import copy
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import attrs

from refold.engine.encoding import hints, shapes, strict
from refold.engine.encoding.canonical import Json, encode, join, loads
from refold.engine.encoding.plain import to_json
from refold.engine.errors import ArgumentsRefused, NotCanonical, ToolRefused
from refold.engine.ports.ports import CallContext
from refold.engine.values import Value

_SECTION: Final = re.compile(
    r"^(?:Args|Arguments|Parameters):[ \t]*\n((?:[ \t].*\n?|\n)*)", re.MULTILINE
)
"""The group is the indented text below the heading."""
_ENTRY: Final = re.compile(r"\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)")
_FIXABLE: Final = (NameError, TypeError, AttributeError, SyntaxError)


@attrs.frozen(kw_only=True)
class Parameters(Value):
    """How JSON arguments become keyword arguments."""

    schema: dict[str, Any]
    hooks: dict[str, strict.Hook]
    required: frozenset[str]
    context: tuple[str, ...]
    """Parameters that take the `CallContext`."""
    fresh: dict[str, Any] = attrs.field(factory=dict)
    """Defaults that a call could change for the next: each call gets its own."""
    rest: strict.Hook | None = None
    """Reads an argument that matches no parameter, if the function has `**arguments`."""

    def read(
        self, tool: str, arguments: Mapping[str, Json], context: CallContext
    ) -> dict[str, Any]:
        """Return keyword arguments; absent ones are left to the function's defaults.

        Raises:
            ArgumentsRefused: with all that is wrong.
        """
        try:
            plain = arguments if type(arguments) is dict else dict(arguments)
            read = strict.read_members(self._hooks_of(plain), self.required, plain)
        except Exception as error:  # noqa: BLE001  what a hook raises is explained, not handled
            raise ArgumentsRefused(tool, tuple(self._problems(arguments, error))) from None
        if self.fresh:
            read = copy.deepcopy(self.fresh) | read
        return read | dict.fromkeys(self.context, context) if self.context else read

    def _hooks_of(self, arguments: Mapping[str, Json]) -> dict[str, strict.Hook]:
        if self.rest is None:
            return self.hooks
        more = (name for name in arguments if name not in self.context)
        return dict.fromkeys(more, self.rest) | self.hooks

    def _problems(self, arguments: Mapping[str, Json], error: Exception) -> Iterator[str]:
        """Yield the problems of a call: names first, then values, each with its pointer."""
        missing = [name for name in self.hooks if name in self.required and name not in arguments]
        unknown = [name for name in arguments if name not in self._hooks_of(arguments)]
        for name in missing:
            yield f"argument {name!r} is missing"
        for name in unknown:
            near = strict.nearest(name, self.hooks)
            yield f"unknown argument {name!r}{near} (it takes {', '.join(self.hooks) or 'none'})"
        named = {join("", name) for name in (*missing, *unknown)}
        for problem in strict.problems_of(error):
            if problem.pointer not in named:
                yield str(problem)


@attrs.frozen(kw_only=True)
class ResultType(Value):
    """How a result becomes JSON, and a typed value again."""

    typed: bool
    hook: strict.Hook

    def dump(self, value: Any) -> Json:
        """Return a result as JSON in the form that `load` reads back to an equal value.

        Raises:
            NotCanonical: the result does not match the return annotation.
        """
        # An annotation of plain JSON is a promise: `encode` flattens no classes.
        plain = to_json(value) if self.typed else loads(encode(value))
        try:
            read = self.hook(plain)
            return to_json(read) if self.typed else read
        except Exception as error:  # noqa: BLE001  what a hook raises is explained, not handled
            wrong = next(strict.problems_of(error))
            expected = f"{wrong.expected}, as its annotation says"
            raise NotCanonical(wrong.pointer, expected, wrong.found) from None

    def load(self, value: Json) -> Any:
        """Return the typed value of a recorded result.

        Raises:
            NotCanonical: the record does not fit the annotation (it may have changed since).
        """
        if not self.typed:
            return value
        try:
            return self.hook(value)
        except Exception as error:  # noqa: BLE001  what a hook raises is explained, not handled
            raise next(strict.problems_of(error)) from None


def parameters_of(function: Callable[..., Any], tool: str) -> Parameters:
    """Return the checked parameters of `function`.

    Raises:
        ToolRefused: a parameter cannot be offered; names the parameter and the remedy.
    """
    annotations = _hints(function, tool)
    notes = _argument_notes(inspect.getdoc(unwrapped(function)) or "")
    properties: dict[str, Any] = {}
    hooks: dict[str, strict.Hook] = {}
    required, context = [], []
    fresh: dict[str, Any] = {}
    rest: strict.Hook | None = None
    others: dict[str, Any] | bool = False
    for name, parameter in _signature(function, tool):
        hint = annotations[name]
        if _is_context(hint):
            context.append(name)
            continue
        shape = shapes.shape_of(hint, tool=tool, where=f"parameter {name!r}")
        if parameter.kind is parameter.VAR_KEYWORD:
            rest, others = shape.read, _described(shape.schema, notes.get(name, ""))
            continue
        hooks[name] = shape.read
        properties[name] = _described(shape.schema, notes.get(name, ""))
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            properties[name] |= _default(parameter.default, hooks[name])
            if isinstance(parameter.default, list | dict | set):
                fresh[name] = parameter.default
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = others
    return Parameters(
        schema=schema,
        hooks=hooks,
        required=frozenset(required),
        context=tuple(context),
        fresh=fresh,
        rest=rest,
    )


def result_of(function: Callable[..., Any], tool: str) -> ResultType:
    """Return how results of `function` travel; without annotation they are plain JSON.

    Raises:
        ToolRefused: the return type cannot make the round trip.
    """
    target = unwrapped(function)
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise ToolRefused(tool, "return", "a generator's items cannot be recorded: return a list")
    hint = _hints(function, tool).get("return", Any)
    shape = shapes.shape_of(hint, tool=tool, where="return")
    return ResultType(typed=shape.typed, hook=shape.read)


def summary_of(function: Callable[..., Any]) -> str:
    """Return the first paragraph of the docstring, as one line."""
    paragraph = (inspect.getdoc(unwrapped(function)) or "").strip().partition("\n\n")[0]
    return " ".join(paragraph.split())


def unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function below `functools.partial`."""
    while isinstance(function, partial):
        function = function.func
    return function


def _is_context(hint: Any) -> bool:
    hint = hints.strip(hint)
    choices = typing.get_args(hint) if hints.is_union(hint) else (hint,)
    return CallContext in choices


def _hints(function: Callable[..., Any], tool: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(unwrapped(function), include_extras=True)
    except _FIXABLE as error:
        raise ToolRefused(
            tool,
            "annotations",
            f"cannot be resolved ({error}): import the type at run time, and define it at module "
            "level or leave out `from __future__ import annotations`",
        ) from None


def _signature(function: Callable[..., Any], tool: str) -> Iterator[tuple[str, inspect.Parameter]]:
    annotations = _hints(function, tool)
    given = function.keywords if isinstance(function, partial) else {}
    try:
        parameters = inspect.signature(function).parameters
    except ValueError as error:
        raise ToolRefused(tool, "signature", f"{error}: wrap it in a function") from None
    for name, parameter in parameters.items():
        if name in given:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise ToolRefused(tool, f"parameter {name!r}", "name each parameter instead")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise ToolRefused(
                tool, f"parameter {name!r}", "arguments are passed by name: remove the `/`"
            )
        if name not in annotations:
            raise ToolRefused(tool, f"parameter {name!r}", _unannotated(name))
        if parameter.kind is parameter.VAR_KEYWORD and _is_context(annotations[name]):
            raise ToolRefused(tool, f"parameter {name!r}", "a CallContext cannot be a ** parameter")
        yield name, parameter


def _unannotated(name: str) -> str:
    if name in ("self", "cls"):
        return "a method needs its object: leave out the decorator, and pass tools=[thing.method]"
    return f"it has no type: annotate it, as in `{name}: str` (Any takes any JSON value)"


def _described(schema: dict[str, Any], note: str) -> dict[str, Any]:
    return {**schema, "description": note} if note and "description" not in schema else dict(schema)


def _default(value: Any, hook: strict.Hook) -> dict[str, Any]:
    try:
        plain = to_json(value)
        hook(plain)
    except Exception:  # noqa: BLE001  a default that is no JSON value is not shown
        return {}
    return {"default": plain}


def _argument_notes(doc: str) -> dict[str, str]:
    """Return the `Args:` lines of a docstring; deeper-indented lines continue the line above."""
    notes: dict[str, str] = {}
    name = ""
    section = _SECTION.search(doc)
    for line in textwrap.dedent(section[1]).splitlines() if section else ():
        if entry := _ENTRY.match(line):
            name = entry[1]
            notes[name] = entry[2]
        elif name:
            notes[name] = f"{notes[name]} {line.strip()}".strip()
    return notes
