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


class DataDigest:
    """Adds up the entries of one run, in any order."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = 0

    def add(self, kind: str, call: str | None, data: bytes) -> None:
        """Count one entry: its kind, its call key, and the bytes of its data as logged."""
        begin = _WHOLE.get(kind)
        if begin is None:
            if kind in UNDIGESTED:
                return
            begin = DATA + f"{kind}\0".encode()
            data = digestible(kind, data)
        part = sha256(b"%b%b\0%b" % (begin, call.encode() if call else b"", data)).digest()
        # Reduced at the end: the sum grows by a bit when it doubles.
        self._sum += int.from_bytes(part, "big")

    def hexdigest(self) -> str:
        """Return the digest of what was added so far: 64 lower-case hex digits."""
        return f"{self._sum % DATA_MODULUS:064x}"
