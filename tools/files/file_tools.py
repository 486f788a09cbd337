"""Three tools that read files below one folder: `list_files`, `read_file`, `search_text`.

Results are bounded and sorted. A cut result has the place to continue, so that a model can request
the rest. `tools.files.rooted` keeps paths inside the folder; `engine.encoding.patterns` defines the
accepted patterns.
Rules: CONTRACT.md §10.
"""

import os
from collections.abc import Callable
from contextlib import closing, suppress
from typing import IO, Annotated, Any, Final, TypeVar

import attrs

from refold.engine.encoding.hints import Keywords
from refold.engine.encoding.patterns import Pattern, PatternRefusedError, compiled, glob_of
from refold.engine.errors import ToolError, ToolRefused
from refold.engine.ports.ports import Reference
from refold.tools.contract.tool_types import FunctionTool
from refold.tools.files.rooted import FileEntry, FolderWalk, Root, checked_root, opened

NAMES: Final = ("list_files", "read_file", "search_text")

SEARCHED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Text that one search reads."""
SHOWN_CHARACTERS: Final = 400
"""Of a line that matches."""
_SNIFFED_BYTES: Final = 8192
_PIECE_BYTES: Final = 64 * 1024

_T = TypeVar("_T")
_AT_LEAST_1: Final = Keywords(minimum=1)
_Path = Annotated[str, "relative to the root folder, with / between names"]


@attrs.frozen(kw_only=True)
class FileListing:
    """What lies in a folder."""

    entries: tuple[FileEntry, ...]
    """Sorted by name, a folder before its contents."""
    truncated: bool = False
    """Whether more was there than was looked at or may be listed."""
    unnameable: int = 0
    """The number of names left out because they are not valid Unicode."""


@attrs.frozen(kw_only=True)
class FileText:
    """A piece of a text file."""

    path: str
    text: str
    """Invalid UTF-8 becomes U+FFFD."""
    start_line: int
    next_line: int | None = None
    """The line at which to continue; `None` at the end of the file."""
    truncated: bool = False
    """Whether anything of the lines asked for is missing."""
    size_bytes: int
    """Of the whole file."""


@attrs.frozen(kw_only=True)
class TextMatch:
    """One line that matches."""

    path: str
    line: int
    """1-based."""
    text: str
    """The line without its end, cut after 400 characters."""


@attrs.frozen(kw_only=True)
class TextMatches:
    """The matches of a search."""

    matches: tuple[TextMatch, ...]
    """In the order of paths and lines."""
    files: int
    """Text files that were searched."""
    truncated: bool = False
    """Whether it stopped early: enough matches, names or bytes."""
    partial: tuple[str, ...] = ()
    """Files of which the end, or the end of long lines, was not searched."""


@attrs.frozen(kw_only=True)
class _Caps:
    max_file_bytes: int
    max_entries: int
    max_matches: int


def file_tools(
    root: str | os.PathLike[str],
    *,
    max_file_bytes: int = 256 * 1024,
    max_entries: int = 1000,
    max_matches: int = 200,
) -> tuple[FunctionTool[..., Any], ...]:
    """Return the three tools over the folder `root`, sorted by name.

    Args:
        root: A folder; resolved now, opened anew for each call.
        max_file_bytes: Of one file that are read or searched.
        max_entries: Listed by one call.
        max_matches: Returned by one search.

    Raises:
        ToolRefused: `root` is not a folder, or a limit is not a positive integer.
    """
    caps = _Caps(max_file_bytes=max_file_bytes, max_entries=max_entries, max_matches=max_matches)
    return tuple(file_tool(name, root=os.fspath(root), **attrs.asdict(caps)) for name in NAMES)


def file_tool(name: str, *, root: str, **caps: int) -> FunctionTool[..., Any]:
    """Return one of the file tools by name, for its reference.

    Raises:
        ToolRefused: no file tool has this name, `root` is not a folder, or a limit is invalid.
    """
    if name not in NAMES:
        raise ToolRefused(name, "name", f"not a file tool; the file tools are {', '.join(NAMES)}")
    top = checked_root(root, name)
    for cap, value in caps.items():
        if type(value) is not int or value < 1:
            raise ToolRefused(name, cap, f"expected a positive integer, found {value!r}")
    arguments = {"name": name, "root": str(top), **caps}
    return FunctionTool(
        getattr(_Tools(Root(top, name), _Caps(**caps)), name),
        effect="reads",
        reference=Reference(__name__, "file_tool", arguments),
    )


@attrs.frozen
class _Tools:
    """The functions that the tools are made of, each by its name."""

    root: Root
    caps: _Caps

    def list_files(
        self,
        path: _Path = ".",
        pattern: Annotated[str, "shell pattern for names; with a /, for paths below `path`"] = "*",
        *,
        recursive: Annotated[bool, "also list what is in the folders below"] = False,
    ) -> FileListing:
        """List the files and folders in a folder."""
        entries: list[FileEntry] = []
        fits = self._compiled(glob_of, pattern)
        walk = FolderWalk(self.root, deep=recursive)
        with closing(walk.over(path)) as found:
            for entry, below, _ in found:
                if not fits(below):
                    continue
                if len(entries) == self.caps.max_entries:
                    walk.truncated = True
                    break
                entries.append(entry)
        return FileListing(
            entries=tuple(entries), truncated=walk.truncated, unnameable=walk.unnameable
        )

    def read_file(
        self,
        path: _Path,
        start_line: Annotated[
            int, _AT_LEAST_1, "first line to return, 1 for the first of the file"
        ] = 1,
        max_lines: Annotated[
            int | None, _AT_LEAST_1, "lines to return; null for as many as fit"
        ] = None,
    ) -> FileText:
        """Read a text file, or some lines of it."""
        require = self.root.require
        require(start_line >= 1, "start_line counts from 1")
        require(max_lines is None or max_lines >= 1, "max_lines is at least 1")
        with self.root.file(path) as file:
            require(not _is_binary(file), f"{path} is no text file", code="binary")
            _skip_lines(file, start_line - 1)
            content, lines, is_cut = _take_lines(file, self.caps.max_file_bytes, max_lines)
            is_more = (is_cut and lines) or file.read(1)
            return FileText(
                path=path,
                text=content.decode(errors="replace"),
                start_line=start_line,
                next_line=start_line + (lines or 1) if is_more else None,
                truncated=is_cut,
                size_bytes=os.fstat(file.fileno()).st_size,
            )

    def search_text(
        self,
        pattern: Annotated[str, "Python regular expression, matched against single lines"],
        path: Annotated[str, "file or folder, relative to the root folder"] = ".",
        glob: Annotated[
            str, "shell pattern for file names; with a /, for paths below `path`"
        ] = "*",
    ) -> TextMatches:
        """Search the text files in a folder, and in all folders below it, for a pattern."""
        search = _Search(self._compiled(compiled, pattern), self.caps)
        fits = self._compiled(glob_of, glob)
        walk = FolderWalk(self.root, deep=True)
        if self.root.kind(path) == "file":
            with self.root.file(path) as file:
                search.search(file, path)
        else:
            _search_folder(search, walk, path, fits)
        return TextMatches(
            matches=tuple(search.matches),
            files=search.files,
            truncated=walk.truncated or search.full,
            partial=tuple(search.partial),
        )

    def _compiled(self, read: Callable[[str], _T], pattern: str) -> _T:
        try:
            return read(pattern)
        except PatternRefusedError as error:
            why = f"pattern {pattern!r:.100}: {error}"
            raise ToolError(self.root.tool, why, "pattern") from None


def _is_binary(file: IO[bytes]) -> bool:
    sniffed = file.read(_SNIFFED_BYTES)
    file.seek(0)
    return b"\0" in sniffed


def _skip_lines(file: IO[bytes], count: int) -> None:
    while count and (piece := file.readline(_PIECE_BYTES)):
        count -= piece.endswith(b"\n")


def _take_lines(file: IO[bytes], most: int, max_lines: int | None) -> tuple[bytes, int, bool]:
    """Return the whole lines that fit into `most` bytes, their number, and whether one did not fit.

    If even the first line does not fit, its beginning is returned, and the file position is after
    that line.
    """
    kept = bytearray()
    lines = 0
    while lines != max_lines and (line := file.readline(most - len(kept) + 1)):
        kept += line
        if len(kept) <= most:
            lines += 1
            continue
        if not lines and not line.endswith(b"\n"):
            _skip_lines(file, 1)
        return bytes(kept[: -len(line)] if lines else kept[:most]), lines, True
    return bytes(kept), lines, False


@attrs.define
class _Search:
    """The matches of a search so far."""

    pattern: Pattern
    caps: _Caps
    matches: list[TextMatch] = attrs.field(factory=list, init=False)
    partial: list[str] = attrs.field(factory=list, init=False)
    files: int = attrs.field(default=0, init=False)
    bytes_left: int = attrs.field(default=SEARCHED_BYTES_MAX, init=False)
    full: bool = attrs.field(default=False, init=False)

    def search(self, file: IO[bytes], path: str) -> None:
        """Search one file, unless it is binary."""
        if _is_binary(file):
            return
        max_bytes = min(self.caps.max_file_bytes, self.bytes_left)
        content = file.read(max_bytes + 1)
        self.files += 1
        self.bytes_left -= min(len(content), max_bytes)
        lines = content[:max_bytes].decode(errors="replace").split("\n")
        whole = len(content) <= max_bytes
        for number, line in enumerate(lines, 1):
            searched = line[: self.pattern.line_max]
            whole = whole and searched == line
            if self.pattern.expression.search(searched.rstrip("\r")) is None:
                continue
            if len(self.matches) == self.caps.max_matches:
                self.full = True
                break
            text = line.rstrip("\r")[:SHOWN_CHARACTERS]
            self.matches.append(TextMatch(path=path, line=number, text=text))
        if not whole and len(self.partial) < self.caps.max_entries:
            self.partial.append(path)
        self.full = self.full or not self.bytes_left


def _search_folder(
    search: _Search, walk: FolderWalk, path: str, fits: Callable[[str], bool]
) -> None:
    with closing(walk.over(path)) as found:
        for entry, below, folder in found:
            if search.full:
                return
            if entry.kind == "file" and fits(below):
                with suppress(OSError), opened(below.rpartition("/")[2], folder) as file:
                    search.search(file, entry.path)
