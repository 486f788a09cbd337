"""The data digest of a run: equal for two runs that did the same (CONTRACT.md §6.2).

A sum, so that it does not depend on how concurrent scopes were interleaved and needs no memory:
call keys are unique, so each entry adds a number of its own.  What an entry adds leaves out seq,
cause, meta, hash and the volatile tail; some kinds add nothing.
"""

from hashlib import sha256
from typing import Final

from refold.engine.codec import digestible
from refold.engine.digest import DATA, DATA_MODULUS
from refold.engine.events import KINDS, TAILS, UNDIGESTED

_CUT: Final = frozenset({*TAILS, "limit.hit"})
"""Kinds of which something may be left out."""

_WHOLE: Final = {
    kind: DATA + f"{kind}\0".encode() for kind in KINDS if kind not in UNDIGESTED | _CUT
}
"""What is hashed before the call key, of kinds that count with all their data: most entries."""

_TOGETHER: Final = 64
_LARGE: Final = 4096
"""Entries that are counted together, and bytes from which on one does not wait."""


class DataDigest:
    """Adds up the entries of one run, in any order."""

    __slots__ = ("_sum", "_waiting")

    def __init__(self) -> None:
        self._sum = 0
        self._waiting: list[tuple[str, str | None, bytes]] = []

    def add(self, kind: str, call: str | None, data: bytes) -> None:
        """Count one entry: its kind, its call key, and the bytes of its data as logged."""
        waiting = self._waiting
        waiting.append((kind, call, data))
        if len(waiting) >= _TOGETHER or len(data) > _LARGE:
            self._count()

    def _count(self) -> None:
        """Add what waits: many entries one after the other cost half of one now and then."""
        total = self._sum
        for kind, call, data in self._waiting:
            begin = _WHOLE.get(kind)
            counted = data
            if begin is None:
                if kind in UNDIGESTED:
                    continue
                begin = DATA + f"{kind}\0".encode()
                counted = digestible(kind, data)
            part = sha256(b"%b%b\0%b" % (begin, call.encode() if call else b"", counted)).digest()
            # Reduced at the end: the sum grows by a bit when it doubles.
            total += int.from_bytes(part, "big")
        self._sum = total
        self._waiting.clear()

    def hexdigest(self) -> str:
        """Return the digest of what was added so far: 64 lower-case hex digits."""
        self._count()
        return f"{self._sum % DATA_MODULUS:064x}"
