"""Everything that the page shows, as plain data, and the bytes that it shows it of.

`page.one_run` has the data of one run, `page.comparison` the differences of two. Rules: CONTRACT.md
§14.16.
"""

import contextlib
import functools
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.events.events import KINDS
from refold.engine.log.blobs import BlobBroken, BlobStore
from refold.engine.log.names import blobs_of
from refold.page.comparison import compared
from refold.page.one_run import OneRun
from refold.replay.index.standing import RUNNING
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode

KIND_GROUPS: Final = list(dict.fromkeys(kind.partition(".")[0] for kind in KINDS))
"""`run`, `tool`, …: the first parts of the kinds of entries."""

BLOBS_MAX: Final = 20_000_000
"""Bytes of large texts in one file; those beyond are left out, and counted."""


LOOKS: Final = {
    "completed": ("✓", "good"),
    "ok": ("✓", "good"),
    "running": ("▸", "plain"),
    "waits_for_you": ("?", "warn"),
    "broke_off": ("○", "warn"),
    "unfinished": ("○", "warn"),
    "open": ("○", "warn"),
    "cancelled": ("⊘", "warn"),
    "late": ("◷", "warn"),
    "failed": ("✕", "bad"),
    "error": ("✕", "bad"),
    "rejected": ("✕", "bad"),
    "malformed": ("✕", "bad"),
    "timed_out": ("◷", "bad"),
    "limit": ("▲", "bad"),
}
"""The sign and the tone of each status of a run or call: `good`, `bad`, `warn` or `plain`."""


@attrs.frozen
class Page:
    """The page as data, with the logs and texts that it shows."""

    document: dict[str, Any]
    logs: dict[str, Path]
    """By their ids in the document."""
    blobs: dict[str, bytes]
    """Large texts, by their digests."""
    run: OpenedRun
    """The run that it shows, to be read further when its logs grow."""
    written: tuple[Path, ...] = ()
    """Logs that were being written."""


def page(
    log: Path | OpenedRun,
    other: Path | None = None,
    *,
    content: bool = True,
    causes: bool = True,
    files: bool = False,
) -> Page:
    """Return the page of the run at `log`, and of all runs below it, `other` beside it.

    Of an opened run, only what was written since is read for its tree.

    Without `content`, the texts of tools and models are left out, and so are the logs' bytes;
    without `causes`, the causes and changes of each entry, which are most of it for a long log.
    Only with `files`, the diffs of a watched command's files are on it.

    Raises:
        LogMissing: one of them does not exist.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    read = functools.partial(OneRun, content=content, files=files)
    run = OpenedRun(log) if isinstance(log, Path) else log
    if run is log:
        run.read()
    one = read(run)
    sides = [one] if other is None else [one, read(OpenedRun(other), {*one.ids.values()})]
    document = one.document(causes=causes or other is not None) | {
        "looks": LOOKS,
        "kinds": KIND_GROUPS,
    }
    if other is not None:
        document["diff"] = compared(*sides, content=content)
        document["title"] += f" ↔ {other.name}"
    wanted = {name: (size, side.log) for side in sides for name, size in side.blobs.items()}
    kept = _kept(wanted) if content else {}
    document["blobs"] = {"kept": len(kept), "left_out": len(wanted) - len(kept)}
    logs = {name: path for side in sides for path, name in side.ids.items()} if content else {}
    return Page(document, logs, kept, run, _written(one.tree))


def _written(tree: RunNode) -> tuple[Path, ...]:
    """Return the logs whose locks show that runs are active: of a tree, the topmost."""
    found, waiting = list[Path](), [tree]
    for node in waiting:
        if node.status == RUNNING and node.log:
            found.append(Path(node.log))
        else:
            waiting.extend(node.children)
    return tuple(found)


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
