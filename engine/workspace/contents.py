"""The contents of a tree's files, as objects of git: kept as packs beside the log, and read.

The repositories are this process's own: they have no settings, hooks, filters or attributes but
its own, and are removed when it ends. So git reads a folder byte by byte, and runs nothing.
Rules: CONTRACT.md §16.16.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from refold.engine.errors import ContentMissing
from refold.engine.log.beside import add_pack
from refold.engine.log.blobs import digest_only
from refold.engine.workspace import paths
from refold.engine.workspace.git import LONG_LIMIT, Git, RepositoryObjects, blob_id
from refold.engine.workspace.inside import DiskFile, scratch_folder
from refold.engine.workspace.left_out import WITHOUT_GIT
from refold.engine.workspace.tree import FilePair, FileTree, TreeEntry

_EMPTY: Final = {
    "sha1": "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "sha256": "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
"""Ids of the empty tree, which git knows without having it."""
_PACK: Final = ("pack-objects", "--stdout", "-q", "--window=0")
_IMPORT: Final = ("fast-import", "--quiet", "--depth=0")
"""Without looking for differences: files that follow each other are seldom alike."""
_HELD_MAX: Final = 32 << 20
"""Bytes of contents in memory."""
_DIFF: Final = ("diff-tree", "-p", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")

_IN_NO_TREE: Final = ("folder", "gone")


class Store(contextlib.AbstractContextManager["Store"]):
    """A repository of this process for a folder; a context manager."""

    def __init__(self, top: Path, kind: str, packs: Path | None) -> None:
        """Take the kind of ids (`sha1`, `sha256`), and the folder that gets packs.

        Without one, contents are named and not kept.

        Raises:
            GitFailed: git cannot be run.
        """
        self.width = 64 if kind == "sha256" else 40
        with contextlib.ExitStack() as left:
            self._git = Git.made(top, left.enter_context(scratch_folder()), self.width)
            self._left = left.pop_all()
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

    def put(self, content: bytes, takes: Callable[[int], bool] = lambda _: True) -> str:
        """Return the id of a content; `keep` keeps it.

        Empty if it is new, and `takes` refuses its size.

        Raises:
            GitFailed: as of `keep`, which is called if there is much to keep.
        """
        named = blob_id(content, self.width)
        if named not in self.kept:
            if not takes(len(content)):
                return ""
            digest = "" if self._packs is None else digest_only(content)
            self.kept[named] = digest, len(content)
            self._new |= {named: content} if digest else {}
            self._size += len(content)
            if self._size > _HELD_MAX:
                self.keep()
        return named

    def keep(self) -> None:
        """Write the contents that are new as a pack beside the log, whole and synced.

        Raises:
            GitFailed: git failed.
            OSError: the pack could not be written.
        """
        if self._packs is not None and self._new:
            given = b"".join(b"blob\ndata %d\n%b\n" % (len(one), one) for one in self._new.values())
            self._git.output(*_IMPORT, given=given)
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

    def __exit__(self, *_: object) -> None:
        self._left.close()


class Contents(contextlib.AbstractContextManager["Contents"]):
    """Reads the contents of one log's files; a context manager."""

    def __init__(self, git: Git) -> None:
        """Take a repository of this process with all objects that are here."""
        self._git = git
        self._objects = RepositoryObjects(git)
        self.folder = Path(git.git_dir, "objects")
        """Where the contents are that are beside the log."""

    def content(self, entry: TreeEntry) -> bytes:
        """Return a file's content, a link's text, or empty for a folder.

        Raises:
            ContentMissing: it no longer exists, was left out, or has changed.
        """
        if entry.kind in ("folder", "commit", "gone"):
            return b""
        if entry.kind not in ("git", "cut"):
            raise ContentMissing(paths.as_text(entry.path), "", f"left out: {entry.value}")
        content = self._objects.blob(entry.value)
        if entry.digest and (digest_only(content), len(content)) != (entry.digest, entry.size):
            why = f"expected {entry.size} bytes with the digest {entry.digest}, found others"
            raise ContentMissing(paths.as_text(entry.path), "the log", why, "content damaged")
        return content

    def held(self, entry: TreeEntry | None) -> DiskFile | None:
        """Return what an entry holds; in the place of a missing content, why it is missing."""
        if entry is None:
            return None
        try:
            return DiskFile(entry.mode, self.content(entry))
        except ContentMissing as error:
            return DiskFile(entry.mode, str(error).encode())

    def based(self, tree: FileTree) -> dict[str, TreeEntry]:
        """Return the files of the bases of a tree, by path.

        Raises:
            ContentMissing: a base is not there any more.
            FolderRefused: they name what no tree may name.
        """
        found = (self._objects.files(one.tree, one.path) for one in tree.bases)
        return {entry.path: entry for files in found for entry in files}

    def whole(self, tree: FileTree) -> FileTree:
        """Return a tree with all files of its bases.

        Raises:
            ContentMissing: a base is not there any more.
            FolderRefused: together they name what no tree may name.
        """
        return tree.whole(self.based(tree))

    def borrow(self, other: Self) -> None:
        """Find the objects of another log's files, too; before anything is read."""
        self._git.borrow([other.folder])

    def diffs(self, changes: Sequence[FilePair]) -> list[list[str]]:
        r"""Return the lines of git's diff of each change, or the reason why it is missing.

        A byte that is not UTF-8 is `\xHH`.

        Raises:
            GitFailed: git failed.
        """
        told = [self._why_not(change) for change in changes]
        named = {str(at): changes[at] for at, why in enumerate(told) if not why}
        said = self._diff([(name, *change[1:]) for name, change in named.items()])
        parts = re.split(r"(?m)^(?=diff --git a/([0-9]+) )", said.decode(errors="backslashreplace"))
        for name, part in zip(parts[1::2], parts[2::2], strict=True):
            path = paths.as_text(named[name][0]).replace("\\", r"\\")
            of_path = re.compile(rf"\b(?<=[ab]/){name}\b")
            head, at, rest = part.removesuffix("\n").partition("\n@@")
            told[int(name)] += (of_path.sub(path, line) for line in head.split("\n"))
            told[int(name)] += f"{at}{rest}".split("\n")[1:]
        return told

    def _why_not(self, change: FilePair) -> list[str]:
        path, *pair = change
        try:
            for entry in filter(None, pair):
                self.content(entry)
        except ContentMissing as error:
            return [f"{paths.as_text(path)}: {error.why}"]
        return []

    def patch(self, changes: Sequence[FilePair]) -> bytes:
        """Return changes as `git apply` takes them.

        Raises:
            GitFailed: git failed, or a content is missing.
        """
        return self._diff(changes, "--binary", "--full-index")

    def _diff(self, changes: Sequence[FilePair], *options: str) -> bytes:
        trees = []
        for side in (0, 1):
            index = f"{self._git.git_dir}/side{side}"
            git = attrs.evolve(self._git, index=index)
            git.output("read-tree", "--empty")
            files = ((path, pair[side]) for path, *pair in changes)
            git.index_as(each for each in files if each[1] and each[1].kind not in _IN_NO_TREE)
            trees.append(git.tree_of_index())
        return self._git.output(*_DIFF, *options, *trees)

    def __exit__(self, *_: object) -> None:
        """End what reads."""
        self._objects.close()
