"""The data digest of a run and the tree digest over it and its children (CONTRACT.md §6.2).

A sum, so that it does not depend on how concurrent scopes were interleaved and needs no memory:
call keys are unique, so each entry adds a number of its own. An entry adds its data without seq,
cause, meta, hash and the volatile tail; some kinds add nothing. The tree digest is the data digest
plus a number for each joined child, made of its own tree digest.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from refold.engine.encoding.digest import DATA, DATA_MODULUS, NO_CHILDREN, TREE, of_bytes
from refold.engine.events.codec import digestible
from refold.engine.events.events import KINDS, TAILS, UNDIGESTED

_CUT: Final = frozenset({*TAILS, "limit.hit", "effect.cancelled"})
"""Kinds with omitted parts, or that need more than their data."""

_WHOLE: Final = {
    kind: DATA + f"{kind}\0".encode() for kind in KINDS if kind not in UNDIGESTED | _CUT
}
"""The bytes hashed before the call key, for kinds that count with all their data: most entries."""

_CHILD_CANCELLED: Final = b'{"kind":"child"}'
"""All data of an `effect.cancelled` of a child."""

_CALLED: Final = _WHOLE["tool.called"]
_RETURNED: Final = _WHOLE["tool.returned"]

_TOGETHER: Final = 64
_LARGE: Final = 4096
"""Entries that are counted together, and bytes from which on one does not wait."""


class DataDigest:
    """Adds up the entries of one run, in any order."""

    __slots__ = ("_below", "_calls", "_cancelled", "_sum", "_waiting")

    def __init__(self) -> None:
        self._sum = 0
        self._below: int | None = 0
        self._cancelled: set[str | None] = set()
        self._waiting: list[bytes] = []
        self._calls: list[tuple[bytes, bytes, bytes]] = []

    def add(self, kind: str, call: str | None, data: bytes) -> None:
        """Count one entry: its kind, its call key, and the bytes of its data as logged."""
        begin = _WHOLE.get(kind)
        if begin is None:
            if kind in UNDIGESTED:
                return
            if data == _CHILD_CANCELLED and kind == "effect.cancelled":
                self._cancelled.add(call)
            begin, data = DATA + f"{kind}\0".encode(), digestible(kind, data)
        waiting = self._waiting
        waiting.append(begin + (call.encode() if call else b"") + b"\0" + data)
        if len(waiting) >= _TOGETHER or len(data) > _LARGE:
            self._count()

    def add_call(self, call: bytes, called: bytes, returned: bytes) -> None:
        """Count both entries of a tool's call, by their data; each is less than a blob."""
        calls = self._calls
        calls.append((call, called, returned))
        if len(calls) >= _TOGETHER:
            self._count()

    def _count(self) -> None:
        """Add what waits: many entries one after the other cost half of one now and then."""
        waiting, from_bytes = self._waiting, int.from_bytes
        for call, called, returned in self._calls:
            waiting.append(_CALLED + call + b"\0" + called)
            waiting.append(_RETURNED + call + b"\0" + returned)
        self._calls.clear()
        parts = [from_bytes(sha256(one).digest(), "big") for one in waiting]
        self._sum += sum(parts)  # reduced at the end: it grows by a bit when it doubles
        waiting.clear()

    def hexdigest(self) -> str:
        """Return the digest of the entries so far: 64 lower-case hex digits."""
        self._count()
        return f"{self._sum % DATA_MODULUS:064x}"

    def add_child(self, call: str, tree_digest: str) -> None:
        """Count a joined child by the call key of its start; an empty digest is not known.

        A child that the run cancelled before does not count: how far it came is timing.
        """
        if call in self._cancelled or self._below is None:
            return
        leaf = of_bytes(TREE, f"{call}\0{tree_digest}".encode())
        self._below = self._below + int(leaf, 16) if tree_digest else None

    def tree_hexdigest(self) -> str:
        """Return the digest of the run and its joined children; empty if one's is not known."""
        self._count()
        return "" if self._below is None else f"{(self._sum + self._below) % DATA_MODULUS:064x}"


def tree_digest_in(finished: Mapping[str, Any]) -> str:
    """Return the tree digest in the data of a `run.finished`; empty if there is none.

    Of a run that joined no child's log it is the data digest.
    """
    has_none = finished.get("children_root") == NO_CHILDREN
    said = finished.get("tree_digest") or (finished.get("data_digest") if has_none else "")
    return said if isinstance(said, str) else ""
