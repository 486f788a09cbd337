"""A tree: the files of a folder at one moment, as differences from commits of git.

A tree has bases, each a git tree and its path in the folder (the repository of the folder,
submodules, inner repositories), and entries for the differences. So its list is short if git has
most of it. The list is one JSON array per line, the bases first, in the order of paths; its digest
identifies the whole tree. Pure. Rules: CONTRACT.md §16.16.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, Self

import attrs

from refold.engine.encoding import digest
from refold.engine.errors import FolderRefused
from refold.engine.workspace import forms, paths
from refold.engine.workspace.forms import NUMBER, TEXT, Form

Kind = Literal["git", "cut", "folder", "commit", "out", "gone"]
"""The place of an entry's content.

`git`: `value` is the id that git gives its content, or the text of a link · `cut`: the same,
without the secrets in it · `folder`: an empty one · `commit`: a submodule, at that commit · `out`:
left out, and `value` is the reason · `gone`: the base has it, the folder does not.

Reasons: `ignored` by git · `key`: it looks like a key · `large`: one file over the cap · `total`:
all files over the cap · `special`: a socket, pipe or device · `unreadable`: the system refused it ·
`changing`: it changed each time while it was read.
"""
ID: Final = "[0-9a-f]{40}(?:[0-9a-f]{24})?"
"""A pattern of git's ids."""
DIGEST: Final = "[0-9a-f]{64}"
_REASONS: Final = "ignored|key|large|total|special|unreadable|changing"
_KINDS: Final = re.compile(
    f"git (?:100644|100755|120000) {ID}|cut (?:100644|100755) {ID}|folder 040000 |"
    f"commit 160000 {ID}|out (?:100644|100755|120000|040000) (?:{_REASONS})|gone  "
)
"""Kind, mode and value of an entry."""
_FOLDERS: Final = frozenset({"040000", "160000", ""})
"""Modes of folders, of submodules, and of what is gone."""


@attrs.frozen(order=False)
class TreeEntry:
    """One file, link, empty folder or submodule; or that a file of the base is gone."""

    path: str
    """Relative to the top of the folder, as `os.fsdecode` gives it."""
    mode: str
    """As git writes it: `100644`, `100755`, `120000` a link, `040000` a folder, `160000` a
    submodule; empty for `gone`."""
    kind: Kind
    value: str = ""
    size: int | None = attrs.field(default=None, eq=False)
    """Bytes; `None` where nobody has asked."""
    digest: str = attrs.field(default="", eq=False)
    """Of a content that was kept beside the log: 64 hex digits, of SHA-256."""

    @property
    def is_restorable(self) -> bool:
        """Whether the log, with the repository, can give the file back as it was."""
        return self.kind not in ("cut", "out")

    @property
    def is_sound(self) -> bool:
        """Whether its members fit each other."""
        is_kept = self.kind in ("git", "cut") and self.size is not None
        told = f"{self.kind} {self.mode} {self.value}"
        is_sized = self.size is None or self.size >= 0
        return is_sized and (is_kept or not self.digest) and _KINDS.fullmatch(told) is not None


@attrs.frozen(order=False)
class Base:
    """A git tree at a path in a folder."""

    path: str
    """Its path: empty for the top."""
    tree: str
    """The id of the git tree."""


PATH: Final = Form(lambda text: paths.checked(paths.of_text(text)), paths.as_text)
"""Of a file below the folder."""
PLACE: Final = Form(lambda text: PATH.read(text) if TEXT.read(text) else "", paths.as_text)
"""The same, or the folder itself, which is empty."""
ENTRY: Final = forms.row(
    TreeEntry, PATH, TEXT, TEXT, TEXT, forms.optional(NUMBER), forms.matching(f"(?:{DIGEST})?"),
    check=lambda one: one.is_sound,
)  # fmt: skip
_BASE: Final = forms.row(Base, PLACE, forms.matching(ID))


FilePair = tuple[str, TreeEntry | None, TreeEntry | None]
"""A path, and what it held before and after; `None` for nothing."""


def changed(before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]) -> Iterator[FilePair]:
    """Yield what differs in the files of two trees, by path."""
    for path in sorted(before.keys() | after.keys(), key=os.fsencode):
        pair = before.get(path), after.get(path)
        if pair[0] != pair[1]:
            yield path, *pair


def in_order(one: Any) -> bytes:
    """Return the sort key of anything with a path."""
    return os.fsencode(one.path)


@attrs.frozen
class FileTree:
    """The files of a folder at one moment."""

    bases: tuple[Base, ...] = ()
    """By path."""
    differs: tuple[TreeEntry, ...] = ()
    """Differences from the bases, by path."""

    @classmethod
    def of(cls, bases: Iterable[Base], differs: Iterable[TreeEntry]) -> Self:
        """Return a tree of these, sorted."""
        return cls(tuple(sorted(bases, key=in_order)), tuple(sorted(differs, key=in_order)))

    @cached_property
    def text(self) -> str:
        """The canonical list, as logged."""
        bases = forms.as_lines(map(_BASE.write, self.bases))
        return bases + forms.as_lines(map(ENTRY.write, self.differs))

    @cached_property
    def digest(self) -> str:
        """64 hex digits; equal for equal trees alone."""
        return digest.of_bytes(digest.FOLDER, self.text.encode())

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Parse the tree of a list.

        Raises:
            FolderRefused: Refold does not write such a list, or it has a forbidden path.
        """
        bases, differs = list[Base](), list[TreeEntry]()
        for line in forms.json_lines(text):
            if isinstance(line, list) and len(line) == len(attrs.fields(Base)):
                bases.append(_BASE.read(line))
            else:
                differs.append(ENTRY.read(line))
        found = cls.of(bases, differs)
        for each in (found.bases, found.differs):
            for one, other in pairwise(line.path for line in each):
                if one == other:
                    raise FolderRefused(paths.as_text(one), "each path once", "the same path twice")
        check_folders(found.by_path)
        if found.text != text:
            expected = "as Refold writes it, in order"
            raise FolderRefused("the list", expected, "the same in other words")
        return found

    @cached_property
    def by_path(self) -> Mapping[str, TreeEntry]:
        """What differs from the bases, by path."""
        return {entry.path: entry for entry in self.differs}

    def whole(self, based: Mapping[str, TreeEntry]) -> "FileTree":
        """Return this tree with all files of its bases, which are `based`, and without bases.

        Raises:
            FolderRefused: together they have a path twice, or one below a file.
        """
        left = (entry for entry in {**based, **self.by_path}.values() if entry.kind != "gone")
        found = FileTree.of((), left)
        check_folders(found.by_path)
        return found


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it; every path is inside the empty one."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def folders_above(path: str) -> Iterator[str]:
    """Yield the folders that a path is in, inner ones first."""
    while (at := path.rfind("/")) > 0:
        path = path[:at]
        yield path


def check_folders(files: Mapping[str, TreeEntry], places: Iterable[str] = ()) -> None:
    """Check that all files are in folders, and that repositories are folders in folders.

    In the place of a folder, a link would be followed by writes and by git.

    Raises:
        FolderRefused: it is a file or a link in the tree.
    """
    solid = {path for path, entry in files.items() if entry.mode not in _FOLDERS}
    there = (path for path, entry in files.items() if entry.kind != "gone")
    inner = {path.rpartition("/")[0]: path for path in (*there, *(f"{one}/" for one in places))}
    for folder, path in inner.items():
        for above in (folder, *folders_above(folder)):
            if above in solid:
                expected = "a folder for the repository" if path[-1] == "/" else "folders above it"
                found = f"{paths.as_text(above)} is not one"
                raise FolderRefused(paths.as_text(path.rstrip("/")), expected, found)
