"""The JSON schema of a log's lines, made from the event classes, so that it cannot fall behind.

A text of 32 KiB or more is a reference to a blob in its line; the schema allows for that at every
text. Rules: CONTRACT.md §2, §3.1 (lines), §3.6 (blobs).
"""

import types
import typing
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final, Literal, get_args, get_origin

import attrs

from refold.engine.events.events import KINDS

Schema = dict[str, Any]

_BLOB: Final[Schema] = {
    "type": "object",
    "properties": {"$blob": {"type": "string"}, "bytes": {"type": "integer"}},
    "required": ["$blob", "bytes"],
    "additionalProperties": False,
}
_PLAIN: Final[dict[Any, Schema]] = {
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    str: {"$ref": "#/$defs/text"},
    Any: {},
    type(None): {"type": "null"},
}


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """Return the schema of an object with these members and no others."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def plain(schema: Schema) -> Schema:
    """Return a schema that shares nothing with those it was made of."""
    return deepcopy(schema)


def entry_schema() -> Schema:
    """Return the schema of one line of a log."""
    kinds = [
        {
            "properties": {"kind": {"const": kind}, "data": _class_schema(event)},
            "required": ["kind", "data"],
        }
        for kind, event in KINDS.items()
    ]
    extension = {"properties": {"kind": {"pattern": "^x-[a-z0-9._-]+$"}}}
    members = record(
        {
            "seq": {"type": "integer", "minimum": 0},
            "kind": {"type": "string"},
            "data": {"type": "object"},
            "meta": {"type": "object"},
            "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        {"call": {"type": "string"}, "cause": {"type": "integer", "minimum": 0}},
    )
    text = {"anyOf": [{"type": "string"}, _BLOB]}
    return {**members, "anyOf": [*kinds, extension], "$defs": {"text": text}}


def _class_schema(kind: type) -> Schema:
    hints = typing.get_type_hints(kind)
    required: dict[str, Schema] = {}
    optional: dict[str, Schema] = {}
    for field in attrs.fields(kind):
        place = required if field.default is attrs.NOTHING else optional
        place[field.name] = schema_of(hints[field.name], _PLAIN, _class_schema)
    return record(required, optional)


def schema_of(hint: Any, known: Mapping[Any, Schema], of_class: Callable[[type], Schema]) -> Schema:
    """Return the schema of a type hint; `known` are those of plain types."""
    if hint in known:
        return known[hint]

    def below(each: Any) -> Schema:
        return schema_of(each, known, of_class)

    origin, of = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(of)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [below(each) for each in of]}
    if origin in (tuple, list):
        is_fixed = origin is tuple and of[-1] is not ...
        each = {"anyOf": [below(one) for one in dict.fromkeys(of)]} if is_fixed else below(of[0])
        items = {"type": "array", "items": each}
        return {**items, "minItems": len(of), "maxItems": len(of)} if is_fixed else items
    if origin in (dict, Mapping):
        named = {} if of[1] is Any else {"additionalProperties": below(of[1])}
        return {"type": "object", **named}
    return of_class(hint)
