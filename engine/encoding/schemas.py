"""JSON schemas that come from programs and from logs, neither of which is trusted (§9.9).

A schema can ask for an address to be fetched, hold a pattern that takes for ever, or refer to
itself so that checking never ends. Nothing is fetched here: references lead to places of the schema
itself. Patterns pass the same check as models' patterns; and the number of schemas checked for one
value is bounded, so that neither circles nor doubled references continue for ever. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import jsonschema
from referencing import Registry

from refold.engine.encoding.canonical import Json, encode, unescaped
from refold.engine.encoding.patterns import LINE_MIN, PatternRefusedError, compiled

SCHEMAS_MAX: Final = 1000
"""Schemas that one value may be checked against, itself included."""
REFERENCES_MAX: Final = 20_000
"""References that are followed to check one value."""
LEVELS_MAX: Final = 40
"""Levels of schemas in schemas: `jsonschema` takes about ten of Python's own for each."""

_REFUSED: Final = ("$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor")
_ONE: Final = ("not", "if", "then", "else", "$ref")
_MANY: Final = ("allOf", "anyOf", "oneOf")
_BELOW: Final = ("items", "contains", "additionalProperties", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema")  # fmt: skip
"""Members that hold a schema for a part of a value."""
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


class _Wrong(Exception):
    """Describes the problem of a schema."""


def problem_of(schema: Mapping[str, Any]) -> str:
    """Return why a schema cannot be used; empty for a good one."""
    try:
        _Read(schema)
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return error.message
    except _Wrong as error:
        return str(error)
    except RecursionError:
        return "it has too many levels"
    return ""


def misfit(schema: Mapping[str, Any], value: Json) -> str:
    """Return how a value does not fit a schema that `problem_of` has passed; empty if it does."""
    if b'"patternProperties"' in encode(dict(schema)) and _longest_name(value) > LINE_MIN:
        return f"a member's name of more than {LINE_MIN} characters"
    registry: Registry[Any] = Registry()  # an empty one fetches nothing
    kind = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # it has no types
        jsonschema.Draft202012Validator, {"pattern": _fits_pattern, "$ref": _following()}
    )
    try:
        found = next(kind(schema, registry=registry).iter_errors(value), None)
    except RecursionError:
        return "a value of too many levels"
    except _Wrong as error:
        return str(error)
    return found.message if found is not None else ""


def _following() -> Callable[..., Any]:
    """Return what follows references, so often and no more: circles go by these alone."""
    left = iter(range(REFERENCES_MAX - 1))

    def follow(validator: Any, reference: str, value: Any, schema: Any) -> Any:
        if next(left, None) is None:
            raise _Wrong(f"a value for which more than {REFERENCES_MAX} references are followed")
        return _FOLLOW(validator, reference, value, schema)

    return follow


_FOLLOW: Final = jsonschema.Draft202012Validator.VALIDATORS["$ref"]


def _longest_name(value: Json) -> int:
    if isinstance(value, dict):
        return max((max(len(name), _longest_name(each)) for name, each in value.items()), default=0)
    return max(map(_longest_name, value), default=0) if isinstance(value, list) else 0


def _fits_pattern(
    _validator: Any, pattern: str, value: Any, _schema: Any
) -> Iterator[jsonschema.ValidationError]:
    """Say whether a text has a pattern; a long one is not searched, which could take for ever."""
    if not isinstance(value, str):
        return
    found = compiled(pattern)
    if len(value) > found.line_max:
        message = f"a text of {len(value)} characters, where a pattern takes {found.line_max}"
        yield jsonschema.ValidationError(message)
    elif found.expression.search(value) is None:
        yield jsonschema.ValidationError(f"{value!r:.200} does not match {pattern!r}")


class _Read:
    """Walks a schema once, and refuses what cannot be checked in bounded time."""

    def __init__(self, schema: Any) -> None:
        self._root = schema
        self._costs: dict[int, int] = {}
        self._open: set[int] = set()
        self._seen: set[int] = set()
        self._left = [schema]
        """Targets of references, which may be places that hold no schemas otherwise."""
        while self._left:
            self._walk(self._left.pop(), 0)

    def _walk(self, schema: Any, level: int) -> None:
        if level > LEVELS_MAX:
            raise _Wrong(f"more than {LEVELS_MAX} levels of schemas")
        if not isinstance(schema, Mapping) or id(schema) in self._seen:
            return  # true and false; what is neither is told by `check_schema`
        self._seen.add(id(schema))
        self._check(schema)
        self._cost(schema)
        for name in (*_ONE, *_BELOW):
            if name != "$ref":
                self._walk(schema.get(name), level + 1)
        for name in (*_MANY, "prefixItems"):
            for each in _list(schema.get(name)):
                self._walk(each, level + 1)
        for name in _NAMED:
            for each in _object(schema.get(name)).values():
                self._walk(each, level + 1)

    def _check(self, schema: Mapping[str, Any]) -> None:
        for name in _REFUSED:
            if name in schema:
                raise _Wrong(f"{name} is not taken: refer to a place by $ref, '#/$defs/NAME'")
        if "$id" in schema and schema is not self._root:
            raise _Wrong("$id is not taken within a schema")
        patterns = [*_object(schema.get("patternProperties"))]
        patterns += [schema["pattern"]] if isinstance(schema.get("pattern"), str) else []
        for pattern in patterns:
            try:
                compiled(pattern)
            except PatternRefusedError as error:
                raise _Wrong(f"the pattern {pattern!r:.60}: {error}") from None

    def _cost(self, schema: Any) -> int:
        """Return how many schemas a value is checked against for this one."""
        if not isinstance(schema, Mapping):
            return 1
        if (known := self._costs.get(id(schema))) is not None:
            return known
        if id(schema) in self._open or len(self._open) > LEVELS_MAX:
            raise _Wrong("it refers to itself for the same value, or through too many others")
        self._open.add(id(schema))
        parts = [schema[name] for name in _ONE if name in schema and name != "$ref"]
        parts += [each for name in _MANY for each in _list(schema.get(name))]
        parts += _object(schema.get("dependentSchemas")).values()
        if "$ref" in schema:
            parts.append(self._place(schema["$ref"]))
        cost = 1 + sum(map(self._cost, parts))
        if cost > SCHEMAS_MAX:
            raise _Wrong(f"a value would be checked against more than {SCHEMAS_MAX} schemas")
        self._open.discard(id(schema))
        self._costs[id(schema)] = cost
        return cost

    def _place(self, reference: Any) -> Any:
        """Return the target of a reference; nothing is fetched."""
        if not isinstance(reference, str) or not (reference == "#" or reference[:2] == "#/"):
            raise _Wrong(f"$ref {reference!r:.60}: expected a place of its own, '#' or '#/…'")
        found = self._root
        for step in reference[2:].split("/") if reference != "#" else ():
            key = unescaped(step)
            try:
                found = found[int(key)] if isinstance(found, list) else found[key]
            except (LookupError, TypeError, ValueError):
                raise _Wrong(f"$ref {reference!r:.60} leads nowhere") from None
        self._left.append(found)
        return found


def _list(value: Any) -> list[Any]:
    return [*value] if isinstance(value, list | tuple) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
