"""Which classes can be slices, and their items to JSON and back.

A slice's class is an attrs class or a dataclass.  A log names it by its name alone, never by where
it is imported from: the same program may be `__main__` when it records and a module when it is
replayed.  Items are read back only as classes that were registered in the session at hand.

An item that cannot be read back as an equal one is refused when a snapshot is taken; a record that
is not written again to the same bytes is refused when it is read.  Rules: CONTRACT.md §6.3.
"""

import functools
from collections.abc import Callable
from typing import Any

from refold.engine.encoding import shapes
from refold.engine.encoding.canonical import Json, encode_sorted
from refold.engine.encoding.hints import field_names
from refold.engine.encoding.plain import to_json
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import (
    NotCanonical,
    SliceRefused,
    SnapshotRestoreError,
    SnapshotSerializationError,
    ToolRefused,
)

Read = Callable[[Json], Any]
"""Returns the item of a JSON value, or raises."""


def name_of(kind: type) -> str:
    """Return the name that a snapshot uses for a slice."""
    return kind.__qualname__


def reader_of(kind: type) -> Read:
    """Return what reads the items of a slice.

    Raises:
        SliceRefused: the class is not an attrs class or dataclass, or its types cannot be resolved.
    """
    if field_names(kind) is None:
        raise SliceRefused(name_of(kind), "not an attrs class or a dataclass")
    try:
        return _read(kind)
    except ToolRefused as error:
        raise SliceRefused(name_of(kind), f"{error.where}: {error.why}") from None


@functools.lru_cache(maxsize=256)  # each run makes a session, usually with the same classes
def _read(kind: Any) -> Read:
    return shapes.shape_of(kind, tool="", where="its fields").read


def dump(kind: type, items: tuple[Any, ...], read: Read) -> list[Json]:
    """Return the items of a slice as JSON, each known to be read back as an equal one.

    Raises:
        SnapshotSerializationError: one would not be.
    """
    return [_dumped_at(kind, item, at, read) for at, item in enumerate(items)]


def _dumped_at(kind: type, item: Any, at: int, read: Read) -> Json:
    if type(item) is not kind:
        raise SnapshotSerializationError(name_of(kind), at, f"it is a {type(item).__qualname__}")
    try:
        return dumped(kind, item, read, at)
    except NotCanonical as error:
        raise SnapshotSerializationError(name_of(kind), at, str(error)) from None


def dumped(kind: type, item: Any, read: Read, at: int | None = None) -> Json:
    """Return an item, or an event, as JSON that is read back as an equal one.

    Raises:
        NotCanonical: a log cannot hold it.
        SnapshotSerializationError: it would be read back as another.
    """
    plain = to_json(item)
    try:
        again = read(plain)
    except Exception as error:  # noqa: BLE001 - a class may raise what it likes when it is built
        why = f"it cannot be read back: {next(problems_of(error))}"
        raise SnapshotSerializationError(name_of(kind), at, why) from None
    if again != item:
        why = f"{item!r:.100} would be read back as {again!r:.100}"
        raise SnapshotSerializationError(name_of(kind), at, why)
    return plain


def load(kind: type, items: list[Json], read: Read) -> tuple[Any, ...]:
    """Return the items that a snapshot has for a slice.

    Raises:
        SnapshotRestoreError: an item differs from its class's own encoding.
    """
    return tuple(_loaded(kind, item, at, read) for at, item in enumerate(items))


def _loaded(kind: type, plain: Json, at: int, read: Read) -> Any:
    place = f"{name_of(kind)}, item {at}"
    try:
        item = read(plain)
        written = encode_sorted(to_json(item))
    except Exception as error:  # noqa: BLE001 - whatever the data makes the class raise
        raise SnapshotRestoreError(f"{place}: {next(problems_of(error))}") from None
    if written != encode_sorted(plain):
        raise SnapshotRestoreError(
            f"{place}: the recorded data differs from the class's own encoding of it"
        )
    return item
