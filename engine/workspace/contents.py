"""The contents of a tree's files: of packs beside the log, or of the repository of the folder.

Rules: CONTRACT.md §16.16.
"""

from typing import Self

from refold.engine.errors import ContentMissing
from refold.engine.log.blobs import digest_only
from refold.engine.workspace import paths
from refold.engine.workspace.git import Git, RepositoryObjects
from refold.engine.workspace.tree import FileTree, TreeEntry


class Contents:
    """Reads the contents of one log's files; a context manager."""

    def __init__(self, git: Git) -> None:
        """Take a repository of this process with all objects that are here."""
        self._objects = RepositoryObjects(git)

    def content(self, entry: TreeEntry) -> bytes:
        """Return a file's content, a link's text, or empty for a folder.

        Raises:
            ContentMissing: it no longer exists, was left out, or has changed.
        """
        if entry.kind in ("folder", "commit"):
            return b""
        if entry.kind not in ("git", "cut"):
            raise ContentMissing(paths.as_text(entry.path), "", f"left out: {entry.value}")
        content = self._objects.blob(entry.value)
        if entry.digest and (digest_only(content), len(content)) != (entry.digest, entry.size):
            why = f"expected {entry.size} bytes with the digest {entry.digest}, found others"
            raise ContentMissing(paths.as_text(entry.path), "the log", why, "content damaged")
        return content

    def whole(self, tree: FileTree) -> FileTree:
        """Return a tree with all files of its bases.

        Raises:
            ContentMissing: a base is not there any more.
            FolderRefused: together they name what no tree may name.
        """
        return tree.whole({one.path: self._objects.files(one.tree, one.path) for one in tree.bases})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what reads."""
        self._objects.close()
