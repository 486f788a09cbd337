"""Values that are printed as JSON documents: their members are their fields.

`refold schema` derives a document's schema from the same class, so that the two cannot disagree.
"""

import functools
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Self

import attrs

from refold.engine.errors import Detailed
from refold.engine.values import Value


class Document(Value):
    """The base of an attrs class whose fields, by name, are the members of a JSON object."""

    __slots__ = ()
    computed: ClassVar[tuple[str, ...]] = ()
    """Properties that are members as well; they come first."""
    hidden: ClassVar[tuple[str, ...]] = ()
    """Fields that are not members."""

    @classmethod
    def members(cls) -> tuple[str, ...]:
        """Return the names of all members."""
        fields = (field.name for field in attrs.fields(cls))  # type: ignore[arg-type]  # of attrs below
        return (*cls.computed, *(name for name in fields if name not in cls.hidden))

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data, all below it included."""
        return {name: plain(getattr(self, name)) for name in self.members()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return what `as_json` was made of; for documents of ours, which nothing checks."""
        made: Self = _converter().structure(document, cls)
        return made


@functools.cache
def _converter() -> Any:
    from cattrs import Converter  # noqa: PLC0415 - few documents are read, and a child reads none

    converter = Converter()
    converter.register_structure_hook(Path, lambda path, _: Path(path))
    return converter


def plain(value: Any) -> Any:
    """Return a field as JSON; an object or a list is JSON already, however deep it is."""
    if isinstance(value, str | int | float | None):  # most are
        return value
    if isinstance(value, Document | Detailed):
        return value.as_json()
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: list(each) if type(each) is tuple else each for name, each in value.items()}
    if isinstance(value, PathLike):
        return fspath(value)
    kind = type(value)
    if attrs.has(kind):
        return {field.name: plain(getattr(value, field.name)) for field in attrs.fields(kind)}
    return value
