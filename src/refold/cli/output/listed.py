"""One run of a list, as a document: what `refold ls` prints and `refold view` shows.

Apart from the other documents, for these import what explains runs, and a list has to be fast.
"""

from pathlib import Path
from typing import Any

import attrs

from refold.engine.encoding.document import Document
from refold.engine.events.outcome import Priced, Usage


@attrs.frozen(kw_only=True)
class ListedRun(Document):
    """One root run, as it looks from outside: `refold ls`. By default, a file that is not a log."""

    hidden = ("path", "who", "title", "wall_us", "nonce", "origin", "guarantee", "forked", "texts")

    log: str
    started: str | None = None
    program: str = ""
    input: str = ""
    """In one line, cut; of a watched command, the command."""
    labels: dict[str, str] = attrs.field(factory=dict)
    status: str = "unreadable"
    standing: str = ""
    """How it stands without an end, in words: `waits for you: May I?`."""
    error: str = ""
    """Its code and message in one line, cut; empty for none."""
    entries: int = 0
    runs: int = 0
    duration_ms: int | None = None
    models: tuple[str, ...] = ()
    usage: Usage | None = None
    priced: Priced | None = None
    """The known part of a cost if some answers have none."""
    failed_children: int | None = None
    refused: int | None = None
    tree_digest: str | None = None
    bytes: int = 0
    guarantee: str = ""
    """A member only where it is any; so is `forked`."""
    forked: dict[str, Any] = attrs.field(factory=dict)
    path: Path
    who: str = ""
    title: str = ""
    """Its task or its command, else its program and input."""
    wall_us: int = 0
    nonce: str = ""
    texts: tuple[Any, ...] = ()
    """What `--text` searches: the input, the output and the error, whole."""
    origin: str = ""
    """The nonce of the log that it was forked from; empty for none."""

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        more = {"guarantee": self.guarantee, "forked": self.forked}
        return super().as_json() | {name: value for name, value in more.items() if value}
