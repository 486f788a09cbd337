"""Writes logs anew as somebody would who knows the format: changed, and whole again.

Nothing of the chain tells such a log from one that was recorded: `refold verify` finds it intact.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from refold.engine.errors import LogUnsupported
from refold.engine.log.line import NO_HASH, stored_hash, trailer
from refold.engine.log.names import blobs_of
from refold.replay.audit.verify import verify

Change = Callable[[str, dict[str, Any]], None]
"""Changes the data of one entry in its place; gets the kind, too."""


_DIGESTS: Final = 3
"""That a seal has of what its log says."""


def forged(source: Path, target: Path, change: Change) -> Path:
    """Write the log `source` anew at `target`, its entries changed; `verify` finds it intact."""
    if blobs_of(source).exists():
        shutil.copytree(blobs_of(source), blobs_of(target))
    digests: dict[str, str] = {}

    def sealed(kind: str, data: dict[str, Any]) -> None:
        change(kind, data)
        if kind == "run.finished":
            data.update(digests)

    _write(source, target, sealed)
    while (
        any("digest" in damage.what for damage in verify(target).damage) and len(digests) < _DIGESTS
    ):
        for damage in verify(target).damage:  # says which digest the seal is to have
            digests[damage.what.replace(" ", "_")] = damage.expected
        _write(source, target, sealed)
    assert verify(target).intact, str(verify(target).damage)
    return target


def altered(source: Path, target: Path, change: Change) -> Path:
    """Write the log `source` anew at `target`, changed, where it may not fit its kinds any more.

    The digests in its seal are those of what it says then, as far as it can be read.
    """
    digests: dict[str, str] = {}

    def sealed(kind: str, data: dict[str, Any]) -> None:
        change(kind, data)
        if kind == "run.finished":
            data.update(digests)

    for path in source.parent.glob(f"{source.stem}.*"):
        if path.is_dir():
            shutil.copytree(path, target.with_suffix(path.suffix))
    for _ in range(_DIGESTS):
        _write(source, target, sealed)
        try:
            damage = verify(target).damage
        except LogUnsupported:  # the number of its format was changed
            break
        found = {each.what.replace(" ", "_"): each.expected for each in damage}
        if not found or not all(what.endswith("_digest") for what in found):
            break
        digests.update(found)
    return target


def _write(source: Path, target: Path, change: Change) -> None:
    previous, lines = NO_HASH, []
    for line in source.read_bytes().splitlines():
        entry = json.loads(line)
        del entry["hash"]
        change(entry["kind"], entry["data"])
        body = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
        whole = body + trailer(previous, body)
        previous = stored_hash(whole) or b""
        lines.append(whole)
    target.write_bytes(b"".join(lines))


def in_wire(**members: Any) -> Change:
    """Return what puts members into the first part of every recorded answer."""

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "x-refold.wire" and "status" in data:
            data.update(members)

    return change


def in_rules(**members: Any) -> Change:
    """Return what puts members into the rules of a log."""

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "run.started":
            data["rules"].update(members)

    return change


def in_input(**members: Any) -> Change:
    """Return what puts members into the input of a log."""

    def change(kind: str, data: dict[str, Any]) -> None:
        if kind == "run.started":
            data["input"].update(members)

    return change
