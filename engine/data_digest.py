"""The data digest of a run: equal for two runs that did the same (CONTRACT.md §6.2).

A sum, so that it does not depend on how concurrent scopes were interleaved and needs no memory:
call keys are unique, so each entry adds a number of its own.  What an entry adds leaves out seq,
cause, meta, hash and the volatile tail; some kinds add nothing.
"""

from hashlib import sha256
from typing import Final

from refold.engine.codec import digestible
from refold.engine.digest import DATA, DATA_MODULUS
from refold.engine.events import TAILS, UNDIGESTED

_CUT: Final = frozenset({*TAILS, "limit.hit"})
"""Kinds of which something may be left out; asked first, because most have no tail."""


class DataDigest:
    """Adds up the entries of one run, in any order."""

    __slots__ = ("_sum",)

    def __init__(self) -> None:
        self._sum = 0

    def add(self, kind: str, call: str | None, data: bytes) -> None:
        """Count one entry: its kind, its call key, and the bytes of its data as logged."""
        if kind in UNDIGESTED:
            return
        if kind in _CUT:
            data = digestible(kind, data)
        named = f"{kind}\0{call or ''}\0".encode()
        part = sha256(DATA + named + data).digest()
        self._sum += int.from_bytes(part)  # reduced at the end: it grows by a bit when it doubles

    def hexdigest(self) -> str:
        """Return the digest of what was added so far: 64 lower-case hex digits."""
        return f"{self._sum % DATA_MODULUS:064x}"
