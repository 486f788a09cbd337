"""The JSON schema of a value that is printed as a document, made from its class.

Members are the fields and properties that `Document.members` names; each is explained by the text
below it in its class, so that what people read there and here is one.
"""

import ast
import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

import attrs

from refold.cli.schema.events import Schema, record, schema_of
from refold.engine.encoding.document import Document
from refold.engine.errors import Detailed

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
HASH: Final[Schema] = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}
ANY: Final[Schema] = {}
OBJECT: Final[Schema] = {"type": "object"}
_HASHED: Final = re.compile(r"\bhead\Z|digest\Z")
"""Names of members that are a hash, or empty."""
_PLAIN: Final[dict[Any, Schema]] = {
    str: TEXT,
    Path: TEXT,
    bool: FLAG,
    int: COUNT,
    float: {"type": "number", "minimum": 0},
    Any: ANY,
    type(None): {"type": "null"},
}


def or_null(schema: Schema) -> Schema:
    """Return the schema of what may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def list_of(items: Schema) -> Schema:
    """Return the schema of a list of any length."""
    return {"type": "array", "items": items}


def by_name(values: Schema) -> Schema:
    """Return the schema of an object whose members have any names."""
    return {"type": "object", "additionalProperties": values}


def derived(kind: type, known: Mapping[type, Schema] | None = None, /, **told: Schema) -> Schema:
    """Return the schema of an object of that class.

    Args:
        kind: a `Document`, an attrs class whose fields are all members, or an error with data.
        known: the schemas of classes that are not to be derived.
        told: the schemas of members whose types do not give them, and of further ones.
    """
    if issubclass(kind, Document):
        names = kind.members()
    elif issubclass(kind, Detailed):
        names = kind._fields
    else:
        names = tuple(attrs.fields_dict(cast("Any", kind)))

    def of_class(kind: type) -> Schema:
        return derived(kind, known)

    hints, texts = typing.get_type_hints(kind), _explained(kind)
    members: dict[str, Schema] = {}
    plain = {**_PLAIN, **(known or {})}
    for name in names:
        hint = hints[name] if name in hints else _returned(kind, name)
        own = {**plain, str: HASH} if _HASHED.search(name) else plain
        schema = told[name] if name in told else schema_of(hint, own, of_class)
        text = {"description": texts[name]} if name in texts else {}
        members[name] = {**text, **schema}
    return record({**members, **{name: told[name] for name in told if name not in members}})


def _returned(kind: type, name: str) -> Any:
    return typing.get_type_hints(getattr(kind, name).fget)["return"]


@functools.cache
def _explained(kind: type) -> dict[str, str]:
    """Return the text below each field of a class and its bases, and in each property."""
    texts: dict[str, str] = {}
    for base in kind.__mro__[1:-1] if issubclass(kind, Document) else ():
        texts = _explained(base) | texts
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(found, ast.ClassDef)
    for line, below in zip(found.body, [*found.body[1:], None], strict=True):
        match line, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(ast.Constant(value=str(text))):
                texts[name] = " ".join(text.split())
            case ast.FunctionDef(name=name), _:
                texts[name] = " ".join((ast.get_docstring(line) or "").split())
    return texts
