"""The contents of a tree's files: of packs beside the log, or of the repository of the folder.

Rules: CONTRACT.md §16.16.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import attrs

from refold.engine.errors import ContentMissing
from refold.engine.log.blobs import digest_only
from refold.engine.workspace import paths
from refold.engine.workspace.git import Git, RepositoryObjects
from refold.engine.workspace.tree import FilePair, FileTree, TreeEntry

_DIFF: Final = ("diff-tree", "-p", "-r", "--no-renames", "--no-ext-diff", "--no-textconv")

_IN_NO_TREE: Final = ("folder", "gone")


class Contents:
    """Reads the contents of one log's files; a context manager."""

    def __init__(self, git: Git) -> None:
        """Take a repository of this process with all objects that are here."""
        self._git = git
        self._objects = RepositoryObjects(git)

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

    def whole(self, tree: FileTree) -> FileTree:
        """Return a tree with all files of its bases.

        Raises:
            ContentMissing: a base is not there any more.
            FolderRefused: together they name what no tree may name.
        """
        return tree.whole({one.path: self._objects.files(one.tree, one.path) for one in tree.bases})

    def borrow(self, other: Self) -> None:
        """Find the objects of another log's files, too; before anything is read."""
        with Path(self._git.git_dir, "objects/info/alternates").open("a") as file:
            file.write(f"{other._git.git_dir}/objects\n")

    def diffs(self, changes: Sequence[FilePair]) -> list[list[str]]:
        r"""Return the lines of git's diff of each change, or one that says why there is none.

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
            for entry in pair:
                if entry is not None:
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End what reads."""
        self._objects.close()
