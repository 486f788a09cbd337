"""Everything that the page shows, as plain data, and the bytes that it shows it of.

What is known of one run is `page.one_run`'s, how two differ `page.comparison`'s.
Rules: CONTRACT.md §14.16.
"""

import contextlib
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.log.blobs import BlobBroken, BlobStore
from refold.engine.log.names import blobs_of
from refold.page.comparison import compared
from refold.page.one_run import OneRun

BLOBS_MAX: Final = 20_000_000
"""Bytes of large texts in one file; those beyond are left out, and counted."""


@attrs.frozen
class Page:
    """The page as data, with the logs and texts that it shows."""

    document: dict[str, Any]
    logs: tuple[Path, ...]
    blobs: dict[str, bytes]
    """Large texts, by their digests."""


def page(log: Path, other: Path | None = None, *, content: bool = True) -> Page:
    """Return the page of the run at `log`, and of all runs below it, `other` beside it.

    Without `content`, what tools and models said is left out, and so are the logs' bytes.

    Raises:
        LogMissing: there is no log at one of them.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    one = OneRun(log, 0, content=content)
    sides = [one] if other is None else [one, OneRun(other, len(one.ids), content=content)]
    document = one.document()
    if other is not None:
        document["diff"] = compared(*sides, content=content)
        document["title"] += f" ↔ {other.name}"
    wanted = {name: (size, side.log) for side in sides for name, size in side.blobs.items()}
    kept = _kept(wanted) if content else {}
    document["blobs"] = {"kept": len(kept), "left_out": len(wanted) - len(kept)}
    logs = tuple(path for side in sides for path in side.ids) if content else ()
    return Page(document, logs, kept)


def _kept(wanted: dict[str, tuple[int, Path]]) -> dict[str, bytes]:
    """Return large texts by their digests, up to `BLOBS_MAX`; none that is missing or damaged."""
    kept: dict[str, bytes] = {}
    rest = BLOBS_MAX
    for name, (size, log) in wanted.items():
        with contextlib.suppress(BlobBroken):
            if size <= rest:
                kept[name] = BlobStore(blobs_of(log)).get(name, size).encode()
                rest -= size
    return kept
