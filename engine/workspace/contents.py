"""The contents of a tree's files: beside the log, or in the repository of the folder.

Stored contents are in `<stem>.files/<aa>/<digest>` beside the log, like blobs but separate: a pack,
a page and a store include them only on request. Rules: CONTRACT.md §16.16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from refold.engine.errors import ContentMissing
from refold.engine.log.blobs import BlobBroken, BlobStore
from refold.engine.log.names import files_of
from refold.engine.workspace import paths
from refold.engine.workspace.git import CONTENT_MAX, Git, RepositoryObjects
from refold.engine.workspace.tree import Base, FileTree, TreeEntry


class Contents:
    """Reads the contents of one log's files."""

    def __init__(self, log: Path, gits: Mapping[str, Git]) -> None:
        """Take the log, and the repository of each base, by the path of the base."""
        self._store = BlobStore(files_of(log))
        self._objects = {path: RepositoryObjects(git) for path, git in gits.items()}

    @classmethod
    def here(cls, log: Path, folder: str, tree: FileTree) -> Self:
        """Return a reader that looks into the repositories of the folder where it was recorded."""
        return cls(log, {base.path: Git(Path(folder, base.path)) for base in tree.bases})

    def content(self, entry: TreeEntry, tree: FileTree) -> bytes:
        """Return a file's content, a link's text, or empty for a folder; `tree` has the bases.

        Raises:
            ContentMissing: it no longer exists, was left out, or has changed.
        """
        match entry.kind:
            case "own" | "cut":
                return self.own(entry.value, entry.size or 0)
            case "git":
                base = tree.base_of(entry.path)
                objects = self._objects.get(base.path) if base is not None else None
                if objects is None:
                    raise ContentMissing(paths.as_text(entry.path), "", "no repository is known")
                return objects.blob(entry.value)
            case "link":
                return entry.value.encode(errors="surrogateescape")
            case "folder" | "commit":
                return b""
            case _:
                raise ContentMissing(paths.as_text(entry.path), "", f"left out: {entry.value}")

    def own(self, named: str, size: int) -> bytes:
        """Return a content that is stored beside the log.

        Raises:
            ContentMissing: it does not exist, is too large, or has changed.
        """
        if size > CONTENT_MAX:
            why = f"expected at most {CONTENT_MAX} bytes, found {size}"
            raise ContentMissing(named, "the log", why)
        try:
            return self._store.content(named, size)
        except BlobBroken as broken:
            why = f"{broken.what}: expected {broken.expected}, found {broken.found}"
            raise ContentMissing(named, "the log", why) from None

    def whole(self, tree: FileTree) -> FileTree:
        """Return a tree with all files of its bases.

        Raises:
            ContentMissing: a base is not there any more.
            FolderRefused: together they name what no tree may name.
        """
        return tree.whole({base.path: self._files(base) for base in tree.bases})

    def _files(self, base: Base) -> list[TreeEntry]:
        if (objects := self._objects.get(base.path)) is None:
            raise ContentMissing(base.tree, paths.as_text(base.path), "no repository is known")
        return objects.files(base.tree, base.path)

    def close(self) -> None:
        """End what reads."""
        for objects in self._objects.values():
            objects.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
