"""What a program is given that is no effect: random numbers, change markers, remarks.

Nothing here waits: each is a plain call, and what it gave is a line, so that a replay gives the
same.  Time and other values from outside are the kernel's own: `Kernel.look`, `Kernel.draw`.

Pure, random numbers included: their seeds are derived, and recorded.  Rules: CONTRACT.md §9.3
(seeds), §9.8 (change markers).
"""

import random
from collections.abc import Iterable
from uuid import UUID

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.plain import to_json
from refold.engine.events.events import NoteAdded, ValueDrawn
from refold.engine.kernel.kernel import Kernel
from refold.engine.secrets.redaction import check_pointer


class Values:
    """What the program of one kernel was given."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._streams: dict[tuple[str, str], random.Random] = {}
        self._patches: dict[str, bool] = {}

    def uuid(self) -> str:
        """Return a new uuid (version 4 in form), drawn from the run's seed and the call key."""
        scope, call = self._kernel.key()
        scope.take_back()
        bits = random.Random(self._kernel.seed("uuid", call)).getrandbits(128)  # noqa: S311 - to be repeatable
        text = str(UUID(int=bits, version=4))
        self._kernel.ask(ValueDrawn("uuid", "", text))
        return text

    def stream(self, name: str) -> random.Random:
        """Return the random stream `name` of the scope that asks; its first use is a line."""
        self._kernel.check_inside()
        scope = self._kernel.loop.scope()
        found = self._streams.get((scope.path, name))
        if found is None:
            seed = self._kernel.seed(f"random\0{name}", scope.path)
            self._kernel.ask(ValueDrawn("random", name, seed))
            found = self._streams[scope.path, name] = random.Random(seed)  # noqa: S311 - the same
        return found

    # -- markers and remarks --------------------------------------------------------------

    def patched(self, marker: str) -> bool:
        """Return whether this run goes the way of a change; the first answer holds (§9.8)."""
        self._kernel.check_inside()
        found = self._patches.get(marker)
        if found is None:
            with self._kernel.failing():
                found = self._patches[marker] = self._kernel.world.patched(marker)
        return found

    def annotate(
        self, text: str, data: Json, measured: Iterable[str] = (), ids: Iterable[str] = ()
    ) -> None:
        """Write a remark; before it, what of it another recording has otherwise."""
        kernel, note = self._kernel, NoteAdded(text, to_json(data))
        places = []
        for pointer in measured:
            check_pointer(pointer, "annotate(measured=…)")
            places.append(f"/data{pointer}")
        ids = list(ids)
        if places or ids:
            scope, call = kernel.key()
            scope.take_back()  # the note takes it
            kernel.declare(f"note:{text}", call, places, ids)
        kernel.ask(note)
