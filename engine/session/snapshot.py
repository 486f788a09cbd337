"""An immutable picture of a session: plain data, comparable, hashable, and JSON.

    {"version": "1", "slices": [{"slice_type", "item_type", "items": […]}, …]}

Slices are in the order of their names; empty ones are left out, so that equal sessions have equal
snapshots, regardless of other registrations. It has no reducers,
subscribers or times; the log has the times. Rules: CONTRACT.md §6.3.
"""

from typing import Any, Final, Self, TypedDict

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, encode_sorted, loads
from refold.engine.encoding.shapes import reader_of
from refold.engine.encoding.strict import problems_of
from refold.engine.errors import NotCanonical, SnapshotRestoreError

SCHEMA_VERSION: Final = "1"
"""Of the JSON above."""


class _Slice(TypedDict):
    slice_type: str
    item_type: str
    items: list[Any]


class _Snapshot(TypedDict):
    version: Any
    slices: list[_Slice]


@attrs.frozen
class Snapshot:
    """What all slices held at one moment."""

    encoded: bytes
    """Canonical JSON, members sorted."""

    @classmethod
    def of(cls, slices: dict[str, list[Json]]) -> Self:
        """Return the snapshot of slices, given by name."""
        listed = [
            {"slice_type": name, "item_type": name, "items": slices[name]}
            for name in sorted(slices)
            if slices[name]
        ]
        return cls(encode_sorted({"version": SCHEMA_VERSION, "slices": listed}))

    @classmethod
    def from_json(cls, value: Json) -> Self:
        """Return the snapshot of a JSON value.

        Raises:
            SnapshotRestoreError: it is not a snapshot, or of another version.
        """
        try:
            read: _Snapshot = reader_of(_Snapshot)(value)
        except Exception as error:  # noqa: BLE001 - what a reader raises is explained
            raise SnapshotRestoreError(str(next(problems_of(error)))) from None
        if (found := read["version"]) != SCHEMA_VERSION:
            raise SnapshotRestoreError(
                f"Snapshot schema version mismatch: expected {SCHEMA_VERSION}, got {found}"
            )
        if any(part["item_type"] != part["slice_type"] for part in read["slices"]):
            raise SnapshotRestoreError("expected an `item_type` equal to its `slice_type`")
        try:
            return cls.of({part["slice_type"]: part["items"] for part in read["slices"]})
        except NotCanonical as error:
            raise SnapshotRestoreError(str(error)) from None

    @property
    def version(self) -> str:
        """The schema version."""
        return SCHEMA_VERSION

    @property
    def slices(self) -> dict[str, list[Any]]:
        """The items as JSON, by the slice's name; a fresh copy."""
        return {part["slice_type"]: part["items"] for part in self.as_json()["slices"]}

    @property
    def digest(self) -> str:
        """64 lower-case hex digits: equal for equal snapshots."""
        return digest.of_bytes(digest.STATE, self.encoded)

    @property
    def summary(self) -> str:
        """Its contents, for a person or a model: `Finding: 2 items, Plan: 1 item`."""
        parts = (
            f"{name}: {len(items)} item{'s' * (len(items) != 1)}"
            for name, items in self.slices.items()
        )
        return ", ".join(parts) or "empty"

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value; a fresh copy."""
        value: dict[str, Any] = loads(self.encoded)
        return value
