"""The data digest of a run: equal for two runs that did the same (CONTRACT.md §6.2).

A sum, so that it does not depend on how concurrent scopes were interleaved and needs no memory:
call keys are unique, so each entry adds a number of its own.  What an entry adds leaves out seq,
cause, meta, hash and the volatile tail; some kinds add nothing.
"""

from hashlib import sha256
from typing import Final

from refold.engine.encoding.digest import DATA, DATA_MODULUS
from refold.engine.events.codec import digestible
from refold.engine.events.events import KINDS, TAILS, UNDIGESTED

_CUT: Final = frozenset({*TAILS, "limit.hit"})
"""Kinds of which something may be left out."""

_WHOLE: Final = {
    kind: DATA + f"{kind}\0".encode() for kind in KINDS if kind not in UNDIGESTED | _CUT
}
"""What is hashed before the call key, of kinds that count with all their data: most entries."""

_CALLED: Final = _WHOLE["tool.called"]
_RETURNED: Final = _WHOLE["tool.returned"]

_TOGETHER: Final = 64
_LARGE: Final = 4096
"""Entries that are counted together, and bytes from which on one does not wait."""


class DataDigest:
    """Adds up the entries of one run, in any order."""

    __slots__ = ("_calls", "_sum", "_waiting")

    def __init__(self) -> None:
        self._sum = 0
        self._waiting: list[bytes] = []
        self._calls: list[tuple[bytes, bytes, bytes]] = []

    def add(self, kind: str, call: str | None, data: bytes) -> None:
        """Count one entry: its kind, its call key, and the bytes of its data as logged."""
        begin = _WHOLE.get(kind)
        if begin is None:
            if kind in UNDIGESTED:
                return
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
        """Return the digest of what was added so far: 64 lower-case hex digits."""
        self._count()
        return f"{self._sum % DATA_MODULUS:064x}"
