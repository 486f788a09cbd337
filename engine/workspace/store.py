"""Keeps contents as objects of git: in a repository of this process, and as packs beside a log.

The repository has no settings, hooks, filters or attributes but its own, and is removed when the
process ends. So git reads a folder byte by byte, and runs nothing. Rules: CONTRACT.md §16.16.
"""

import contextlib
from pathlib import Path
from typing import Final, Self

import attrs

from refold.engine.errors import GitFailed
from refold.engine.log.beside import add_pack
from refold.engine.log.blobs import digest_only
from refold.engine.workspace.git import LONG_LIMIT, Git, blob_id
from refold.engine.workspace.inside import scratch_folder
from refold.engine.workspace.left_out import WITHOUT_GIT

_EMPTY: Final = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""Ids of the empty tree, which git knows without having it."""
_PACK: Final = ("pack-objects", "--stdout", "-q", "--window=0")
_HELD_MAX: Final = 32 << 20
"""Bytes of contents in memory."""


class Store:
    """A repository of this process for a folder; a context manager."""

    def __init__(self, top: Path, kind: str, packs: Path | None) -> None:
        """Take the kind of ids (`sha1`, `sha256`), and the folder that gets packs.

        Without one, contents are named and not kept.

        Raises:
            GitFailed: git cannot be run.
        """
        self._left = contextlib.ExitStack()
        made = self._left.enter_context(scratch_folder())
        self.width = 64 if kind == "sha256" else 40
        try:
            self._git = Git.made(top, made, self.width)
        except GitFailed:
            self._left.close()
            raise
        self._own = Path(self._git.git_dir)
        self.empty = _EMPTY[kind]
        self._packs = packs
        self._taken: dict[Path, Path] = {}
        """Packs of this repository, and their copies beside the log."""
        self._new: dict[str, bytes] = {}
        self._size = 0
        self.kept: dict[str, tuple[str, int]] = {}
        """Digests and sizes of the contents that were put, by id."""
        self.ignored = self._own / "ignored"
        """A file with patterns for a folder that is in no repository."""
        self.ignored.write_text("\n".join(WITHOUT_GIT))

    def looking(self, top: Path, name: str) -> Git:
        """Return whom to ask of the folder `top`, with an index of that name."""
        return attrs.evolve(self._git, top=top, index=str(self._own / name))

    def put(self, content: bytes) -> str:
        """Return the id of a content; `keep` keeps it.

        Raises:
            GitFailed: as of `keep`, which is called if there is much to keep.
        """
        named = blob_id(content, self.width)
        if named not in self.kept:
            digest = "" if self._packs is None else digest_only(content)
            self.kept[named] = digest, len(content)
            self._new |= {named: content} if digest else {}
            self._size += len(content)
            if self._size > _HELD_MAX:
                self.keep()
        return named

    def lacks(self, content: bytes) -> bool:
        """Return whether a content was not put."""
        return blob_id(content, self.width) not in self.kept

    def keep(self) -> None:
        """Write the contents that are new as a pack beside the log, whole and synced.

        Raises:
            GitFailed: git failed.
            OSError: the pack could not be written.
        """
        if self._packs is not None and self._new:
            given = b"".join(b"blob\ndata %d\n%b\n" % (len(one), one) for one in self._new.values())
            self._git.output("fast-import", "--quiet", given=given)
            self._new, self._size = {}, 0
            for pack in {*(self._own / "objects" / "pack").glob("*.pack")} - self._taken.keys():
                self._taken[pack] = add_pack(self._packs, pack)

    def merge(self) -> None:
        """Make one pack of all that were written: a run may have thousands.

        Raises:
            GitFailed: git failed.
            OSError: the pack could not be written.
        """
        if self._packs is not None and len(self._taken) > 1:
            given = "".join(f"{named}\n" for named in self.kept).encode()
            whole = self._own / "whole"
            whole.write_bytes(self._git.output(*_PACK, given=given, limit=LONG_LIMIT))
            add_pack(self._packs, whole)
            for pack in self._taken.values():
                pack.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._left.close()
