"""A tree: the files of a folder at one moment, as differences from commits of git.

A tree has bases, each a git tree and its path in the folder (the repository of the folder,
submodules, inner repositories), and entries for the differences. So its list is short if git has
most of it. The list is one JSON array per line, the bases first, in the order of paths; its digest
identifies the whole tree. Pure. Rules: CONTRACT.md §16.16.
"""

import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Literal, Self, get_args

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import encode, loads
from refold.engine.errors import FolderRefused
from refold.engine.workspace import paths

ENTRIES_MAX: Final = 1 << 20
"""Lines of a list."""

Kind = Literal["git", "cut", "folder", "commit", "out", "gone"]
"""The place of an entry's content.

`git`: `value` is the id that git gives its content, or the text of a link · `cut`: the same,
without the secrets in it · `folder`: an empty one · `commit`: a submodule, at that commit · `out`:
left out, and `value` is the reason (`Reason`) · `gone`: the base has it, the folder does not.
"""
Reason = Literal["ignored", "key", "large", "total", "special", "unreadable", "changing"]
"""`ignored`: by git · `key`: it looks like a key · `large`: one file over the cap · `total`: all
files over the cap · `special`: a socket, pipe or device · `unreadable`: the system refused it ·
`changing`: it changed each time while it was read."""

_KINDS: Final = frozenset(get_args(Kind))
_REASONS: Final = frozenset(get_args(Reason))
_MODES: Final[Mapping[str, frozenset[str]]] = {
    "git": frozenset({"100644", "100755", "120000"}),
    "cut": frozenset({"100644", "100755"}),
    "folder": frozenset({"040000"}),
    "commit": frozenset({"160000"}),
    "out": frozenset({"100644", "100755", "120000", "040000"}),
    "gone": frozenset({""}),
}
_FOLDERS: Final = frozenset({"040000", "160000", ""})
"""Modes of folders, of submodules, and of what is gone."""
_OBJECT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


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

    def as_json(self) -> list[Any]:
        """Return the line of a list."""
        return [paths.as_text(self.path), self.mode, self.kind, self.value, self.size, self.digest]

    @classmethod
    def of_json(cls, line: Any) -> Self:
        """Return the entry of a line.

        Raises:
            FolderRefused: it is not one, or names what no log may name.
        """
        match line:
            case [
                str(path), str(mode), str(kind), str(value), int() | None as size, str(digest),
            ]:  # fmt: skip
                pass
            case _:
                expected = "[path, mode, kind, value, size, digest]"
                raise FolderRefused(f"{line!r:.80}", expected, "another")
        path = paths.checked(paths.of_text(path))
        entry = cls(path, mode, kind, value, size, digest)  # type: ignore[arg-type] # looked at below
        if kind not in _KINDS or mode not in _MODES[kind] or not _is_value(entry):
            found = f"{mode} {kind} {value!a:.80} {size!r:.20}"
            raise FolderRefused(paths.as_text(path), "a mode, kind and value that fit", found)
        return entry


def _is_value(entry: TreeEntry) -> bool:
    if type(entry.size) is bool or (entry.size or 0) < 0:
        return False
    if entry.digest:
        is_kept = entry.kind in ("git", "cut") and _DIGEST.fullmatch(entry.digest)
        return bool(is_kept and entry.size is not None and _OBJECT.fullmatch(entry.value))
    match entry.kind:
        case "git" | "commit":
            return _OBJECT.fullmatch(entry.value) is not None
        case "out":
            return entry.value in _REASONS
        case _:
            return entry.value == ""


FilePair = tuple[str, TreeEntry | None, TreeEntry | None]
"""A path, and what it held before and after; `None` for nothing."""


def changed(before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]) -> Iterator[FilePair]:
    """Yield what differs in the files of two trees, by path."""
    for path in sorted(before.keys() | after.keys(), key=os.fsencode):
        pair = before.get(path), after.get(path)
        if pair[0] != pair[1]:
            yield path, *pair


@attrs.frozen(order=False)
class Base:
    """A git tree at a path in a folder."""

    path: str
    """Its path: empty for the top."""
    tree: str
    """The id of the git tree."""

    def as_json(self) -> list[Any]:
        """Return the line of a list."""
        return [paths.as_text(self.path), self.tree]

    @classmethod
    def of_json(cls, line: Any) -> Self:
        """Parse the base of a line.

        Raises:
            FolderRefused: it is not a base, or has a forbidden path.
        """
        match line:
            case [str(path), str(tree)] if _OBJECT.fullmatch(tree):
                path = paths.of_text(path)
                return cls(paths.checked(path) if path else "", tree)
            case _:
                raise FolderRefused(f"{line!r:.80}", "[path, id of a git tree]", "another line")


def in_order(one: TreeEntry | Base) -> bytes:
    """Return the sort key of a list's lines."""
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
        bases = as_lines(base.as_json() for base in self.bases)
        return bases + as_lines(entry.as_json() for entry in self.differs)

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
        bases: list[Base] = []
        differs: list[TreeEntry] = []
        for line in json_lines(text):
            if isinstance(line, list) and len(line) == len(attrs.fields(Base)):
                bases.append(Base.of_json(line))
            else:
                differs.append(TreeEntry.of_json(line))
        found = cls(tuple(bases), tuple(differs))
        _check_order(found.bases)
        _check_order(found.differs)
        _check_above(found.differs)
        check_folders(found.by_path, [base.path for base in found.bases])
        if found.text != text:
            raise FolderRefused("the list", "as Refold writes it", "the same in other words")
        return found

    @cached_property
    def by_path(self) -> Mapping[str, TreeEntry]:
        """What differs from the bases, by path."""
        return {entry.path: entry for entry in self.differs}

    def whole(self, listed: Mapping[str, Iterable[TreeEntry]]) -> "FileTree":
        """Return this tree with all files of its bases, and without bases.

        `listed` has the files of each base by its path, as `RepositoryObjects.files` returns them:
        their paths are relative to the top of the folder.

        Raises:
            FolderRefused: together they have a path twice, or one below a file.
        """
        files = {entry.path: entry for base in self.bases for entry in listed[base.path]}
        files |= self.by_path
        left = (entry for entry in files.values() if entry.kind != "gone")
        found = FileTree.of((), left)
        for entry in found.differs:
            paths.checked(entry.path)
        _check_above(found.differs)
        check_folders(found.by_path, [base.path for base in self.bases])
        return found


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or inside it; every path is inside the empty one."""
    return not folder or path == folder or path.startswith(f"{folder}/")


def as_lines(values: Iterable[Any]) -> str:
    """Return JSON values as a text, one a line."""
    return "".join(f"{encode(value).decode()}\n" for value in values)


def json_lines(text: str) -> Iterator[Any]:
    """Yield the values of a text with one a line.

    Raises:
        FolderRefused: there are too many, or one is not JSON.
    """
    if (count := text.count("\n")) > ENTRIES_MAX:
        raise FolderRefused("the list", f"at most {ENTRIES_MAX} entries", str(count))
    for line in text.split("\n"):
        if line:
            try:
                yield loads(line)
            except ValueError as error:
                raise FolderRefused("the list", "JSON in each line", str(error)) from None


def _check_order(lines: tuple[TreeEntry, ...] | tuple[Base, ...]) -> None:
    keys = [in_order(line) for line in lines]
    for before, key in itertools.pairwise(keys):
        if before == key:
            raise FolderRefused(repr(key)[2:-1], "each path once", "the same path twice")
        if before > key:
            raise FolderRefused(repr(key)[2:-1], "paths in order", "one before another")


def _check_above(entries: tuple[TreeEntry, ...]) -> None:
    """Refuse paths below a file or a link: writing them would follow the link."""
    solid = {each.path for each in entries if each.kind not in ("gone", "commit")}
    solid -= {each.path for each in entries if each.mode == "040000" and each.kind == "out"}
    for entry in entries:
        if entry.kind == "gone":
            continue
        at = entry.path.rfind("/")
        while at > 0:
            if entry.path[:at] in solid:
                found = f"{paths.as_text(entry.path[:at])} is not one"
                raise FolderRefused(paths.as_text(entry.path), "folders above it", found)
            at = entry.path.rfind("/", 0, at)


def check_folders(differs: Mapping[str, TreeEntry], places: Iterable[str]) -> None:
    """Check that repositories are in folders of a tree: git would follow a link in their place.

    Raises:
        FolderRefused: a place, or a path above it, is a file or a link in the tree.
    """
    for place in places:
        names = place.split("/")
        for above in ("/".join(names[:count]) for count in range(1, len(names) + 1)):
            entry = differs.get(above)
            if entry is not None and entry.mode not in _FOLDERS:
                found = f"{paths.as_text(above)} is not one"
                raise FolderRefused(paths.as_text(place), "a folder for the repository", found)
