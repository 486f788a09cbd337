"""JSON schemas that come from programs and from logs, neither of which is trusted (§9.9).

A schema can ask for an address to be fetched, hold a pattern that takes for ever, or refer to
itself so that checking never ends. Nothing is fetched here: references lead to places of the schema
itself. Patterns pass the same check as models' patterns; and the number of references followed for
one value is bounded, so that neither circles nor doubled references continue for ever. Pure.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import jsonschema
from referencing import Registry

from refold.engine.encoding.canonical import Json, unescaped
from refold.engine.encoding.patterns import PatternRefusedError, compiled

REFERENCES_MAX: Final = 20_000
"""References that are followed to check one value."""
LEVELS_MAX: Final = 64
"""Levels of a schema as JSON: `jsonschema` takes about ten of Python's own for each."""

_REFUSED: Final = (
    *("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor"),
    *("patternProperties", "unevaluatedItems", "unevaluatedProperties"),
)
"""Members that `jsonschema` follows, or searches names by, in ways that nothing bounds."""


class _Wrong(Exception):
    """Describes the problem of a schema, or of a value that it cannot be used for."""


def problem_of(schema: Mapping[str, Any]) -> str:
    """Return why a schema cannot be used; empty for a good one."""
    try:
        for part in _objects(schema):
            _check(part, schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        _error_of(schema, None)
    except jsonschema.SchemaError as error:
        place = "".join(f"/{step}" for step in error.path)
        return f"at {place}: {error.message}" if place else error.message
    except _Wrong as error:
        return str(error)
    except RecursionError:
        return "it is nested too deeply"
    return ""


def misfit(schema: Mapping[str, Any], value: Json) -> str:
    """Return how a value does not fit a schema that `problem_of` has passed; empty if it does."""
    try:
        found = _error_of(schema, value)
    except _Wrong as error:
        return str(error)
    return found.message if found is not None else ""


def _error_of(schema: Mapping[str, Any], value: Json) -> jsonschema.ValidationError | None:
    left = iter(range(REFERENCES_MAX - 1))

    def follow(validator: Any, reference: str, value: Any, schema: Any) -> Any:
        if next(left, None) is None:
            raise _Wrong(f"checking the value follows more than {REFERENCES_MAX} references")
        return _FOLLOW(validator, reference, value, schema)

    registry: Registry[Any] = Registry()  # an empty one fetches nothing
    kind = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # it has no types
        jsonschema.Draft202012Validator, {"pattern": _fits_pattern, "$ref": follow}
    )
    try:
        found: jsonschema.ValidationError | None = next(
            kind(schema, registry=registry).iter_errors(value), None
        )
    except RecursionError:
        raise _Wrong("it refers to itself endlessly, or is nested too deeply") from None
    return found


_FOLLOW: Final = jsonschema.Draft202012Validator.VALIDATORS["$ref"]


def _fits_pattern(
    _validator: Any, pattern: str, value: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    if not isinstance(value, str):
        return
    found = compiled(pattern)
    if len(value) > found.line_max:
        message = f"a string of {len(value)} characters, but its pattern can check {found.line_max}"
        yield jsonschema.ValidationError(message)
    elif found.expression.search(value) is None:
        yield jsonschema.ValidationError(f"{value!r:.200} does not match {pattern!r}")


def _objects(value: Json, level: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield each object of a schema, whether it is a schema itself or not."""
    if level > LEVELS_MAX:
        raise _Wrong(f"it is nested more than {LEVELS_MAX} levels deep")
    if isinstance(value, Mapping):
        yield value
    parts = value.values() if isinstance(value, Mapping) else value
    for part in parts if isinstance(value, Mapping | list | tuple) else ():
        yield from _objects(part, level + 1)


def _check(part: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    for name in _REFUSED:
        if name in part:
            raise _Wrong(f"{name} is not supported")
    if "$id" in part and part is not root:
        raise _Wrong("$id is only supported at the top of a schema")
    if isinstance(pattern := part.get("pattern"), str):
        try:
            compiled(pattern)
        except PatternRefusedError as error:
            raise _Wrong(f"the pattern {pattern!r:.60}: {error}") from None
    if isinstance(reference := part.get("$ref"), str):
        _check_place(reference, root)


def _check_place(reference: str, root: Any) -> None:
    """Refuse a reference to another document, or to nothing."""
    if not (reference == "#" or reference[:2] == "#/"):
        raise _Wrong(
            f"$ref {reference!r:.60}: expected a reference within the schema, '#' or '#/…'"
        )
    found = root
    for step in reference[2:].split("/") if reference != "#" else ():
        key = unescaped(step)
        try:
            found = found[int(key)] if isinstance(found, list) else found[key]
        except (LookupError, TypeError, ValueError):
            raise _Wrong(f"$ref {reference!r:.60} refers to nothing") from None
