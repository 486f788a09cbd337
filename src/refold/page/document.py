"""Everything that the page shows, as plain data, and the bytes that it shows it of.

`page.one_run` has the data of one run. Of two, the differences are here, as in `refold diff`: each
cause once, with its places, their words and their sums. Rules: CONTRACT.md §13, §14.16.
"""

import contextlib
import functools
import re
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import encode, text_of_json
from refold.engine.errors import LogError
from refold.engine.events.events import KINDS
from refold.engine.log.blobs import BlobBroken, BlobStore
from refold.engine.log.names import blobs_of
from refold.page.one_run import OneRun
from refold.page.turns import without_content
from refold.replay.compare.diff import diff
from refold.replay.difference.causes import DiffCause
from refold.replay.difference.pointer_diff import Difference, shown
from refold.replay.difference.text_diff import aligned
from refold.replay.index.standing import RUNNING
from refold.replay.run.opened_run import OpenedRun
from refold.replay.run.run_node import RunNode

KIND_GROUPS: Final = list(dict.fromkeys(kind.partition(".")[0] for kind in KINDS))
"""`run`, `tool`, …: the first parts of the kinds of entries."""

BLOBS_MAX: Final = 20_000_000
"""Bytes of large texts in one file; those beyond are left out, and counted."""


@attrs.frozen(slots=False)
class Page:
    """The page as data, with the logs and texts that it shows."""

    sides: tuple[OneRun, ...]
    """The run, and the one beside it."""
    written: tuple[Path, ...] = ()
    """Logs that were being written."""

    @functools.cached_property
    def document(self) -> dict[str, Any]:
        """All that the page shows, but for entries and large texts; made when first asked for."""
        one, *others = self.sides
        document = one.document() | {"kinds": KIND_GROUPS, "title": self.title}
        for other in others:
            document["diff"] = self.diff | {"other": other.document()}
        return document if one.content else without_content(document)

    @functools.cached_property
    def diff(self) -> dict[str, Any]:
        """How the two runs differ by cause; empty of one run."""
        return compared(*self.sides) if len(self.sides) > 1 else {}

    @property
    def title(self) -> str:
        """The title of the run, and of the one beside it."""
        return " ↔ ".join(side.title for side in self.sides)

    @property
    def logs(self) -> dict[str, Path]:
        """The logs that are on it, by their ids in the document."""
        sides = self.sides if self.sides[0].content else ()
        return {name: path for side in sides for path, name in side.ids.items()}

    @functools.cached_property
    def blobs(self) -> dict[str, bytes]:
        """Large texts, by their digests: up to `BLOBS_MAX`, and none that is not sound."""
        sides = self.sides if self.sides[0].content else ()
        wanted = {name: (size, side.log) for side in sides for name, size in side.blobs.items()}
        return _kept(wanted)

    def part(self, name: str) -> dict[str, Any]:
        """Return the part that is read on request: `links` or `states` of the entries.

        Raises:
            KeyError: the part does not exist.
        """
        if name == "states":
            return {log: rows for side in self.sides for log, rows in side.states().items()}
        if name != "links":
            raise KeyError(name)
        own, *others = (side.links.as_json() for side in self.sides)
        return own | ({"other": others[0]} if others else {})


def page(
    log: Path,
    other: Path | None = None,
    *,
    content: bool = True,
    files: bool = False,
    before: Page | None = None,
) -> Page:
    """Return the page of the run at `log`, and of all runs below it, `other` beside it.

    Of the run of the page `before`, only later entries are read, and what did not change
    is the same object in both documents.

    Without `content`, the texts of tools and models are left out, and so are the logs' bytes.
    Only with `files`, the diffs of a watched command's files are on it.

    Raises:
        LogMissing: one of them does not exist.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    if before is None:
        one = OneRun(OpenedRun(log), content=content, files=files)
    else:
        known = before.sides[0]
        known.run.read()
        one = OneRun(known.run, content=content, files=files, before=known)
    sides = [one]
    if other is not None:
        sides.append(OneRun(OpenedRun(other), content=content, files=files, mark="~"))
    return Page(tuple(sides), _written(one.tree))


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


_SHOWN: Final = 8_000
"""Characters of a value in a difference; longer ones are cut in their middle."""
_PLACES: Final = 50
"""Places of one difference that are shown."""


def compared(a: OneRun, b: OneRun) -> dict[str, Any]:
    """Return the differences of two runs by cause, as `refold diff --json` does.

    If they cannot be compared, `error` gives the reason.
    """
    found: dict[str, Any] = {"causes": [], "notes": [], "error": ""}
    sums, others = _sums(a), _sums(b)
    found["table"] = {name: [number, others[name]] for name, number in sums.items()}
    try:
        result = diff(a.log, b.log)
    except LogError as error:
        return found | {"identical": False, "count": None, "error": str(error)}
    found["causes"] = [_cause(each, a, b) for each in result.causes]
    return found | {
        "identical": result.identical,
        "count": result.count,
        "notes": list(result.notes),
    }


def _cause(cause: DiffCause, a: OneRun, b: OneRun) -> dict[str, Any]:
    """Return a cause, with the entries of both calls, and its differences instead of the first."""
    first = cause.leaves[0]
    sides = zip((a, b), first.logs, (first.seq_a, first.seq_b), strict=False)
    return {name: value for name, value in cause.as_json().items() if name not in _FIRST} | {
        "title": cause.headline,
        "entries": [seq if seq is None else [side.ids[log], seq] for side, log, seq in sides],
        "differences": [*map(_place, cause.differences[:_PLACES])],
    }


_FIRST: Final = ("was", "now", "words")
"""Members of a cause about the first of its places."""


def _place(place: Difference) -> dict[str, Any]:
    """Return a place, its values cut in their middle, with the words of both if both are there."""
    found = {
        name: value if len(encode(value)) <= _SHOWN else shown(value, _SHOWN)
        for name, value in place.as_json().items()
    }
    if place.kind == "changed":
        words = (re.split(r"(\W)", text_of_json(found[side])) for side in ("before", "after"))
        found["parts"] = [(sign, "".join(part)) for sign, part in aligned(*words) if part]
    return found


def _sums(side: OneRun) -> dict[str, int | None]:
    """Return one run's side of the table of two."""
    total, duration_ms = side.run.totals, side.tree.duration_ms
    return {
        "runs": total["runs"],
        "tool_calls": total["tools"],
        "requests": total["requests"],
        **total["all"],
        "time_us": None if duration_ms is None else duration_ms * 1000,
    }
