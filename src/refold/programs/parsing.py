"""Reads Python source for the demo's subagents: the leaf tool `parse_source`.

Files are opened below one root folder, as the file tools do it (`tools.files.rooted`), and parsed,
never run.  A result is a few numbers and names a batch, so that the log of a survey stays small.
The programs that call the tool are `programs.survey`'s.  Rules: CONTRACT.md §10.
"""

import ast
import contextlib
import gc
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import attrs

from refold.engine.errors import ToolError
from refold.engine.ports.ports import Reference
from refold.tools.contract.tool_types import FunctionTool
from refold.tools.files.rooted import Root

NAME: Final = "parse_source"
LARGEST_MAX: Final = 5
"""Functions that one batch reports."""
FILE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of one source file; a larger one is reported as not parsed."""

_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Members of a statement that may have statements: functions and imports are only there."""


@attrs.define
class _Found:
    files: int = 0
    lines: int = 0
    functions: int = 0
    classes: int = 0
    largest: list[dict[str, Any]] = attrs.field(factory=list)
    imports: Counter[str] = attrs.field(factory=Counter)
    unparsed: list[dict[str, str]] = attrs.field(factory=list)

    def take(self, path: str, source: bytes) -> None:
        self.files += 1
        self.lines += source.count(b"\n") + (not source.endswith(b"\n") and bool(source))
        imported: set[str] = set()
        for node, name in _statements(parsed(source), ""):
            if isinstance(node, ast.ClassDef):
                self.classes += 1
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                self.functions += 1
                self.largest.append(_sized(node, name, path))
            else:
                imported.update(_modules(node))
        self.imports.update(imported)
        self.largest = largest(self.largest, LARGEST_MAX)

    def as_json(self) -> dict[str, Any]:
        shown = attrs.asdict(self)
        return shown | {"imports": dict(sorted(self.imports.items()))}


def parse_tool(*, root: str) -> FunctionTool[..., Any]:
    """Return `parse_source` over the folder `root`.

    Raises:
        ToolError: never here; each call has the name of a file that it could not open.
    """
    top = Path(root).resolve()
    rooted = Root(top, NAME)

    def parse_source(
        paths: Annotated[list[str], "source files, relative to the root folder"],
    ) -> dict[str, Any]:
        """Parse Python files: count lines, functions and classes, list the largest and imports."""
        found = _Found()
        with _no_collection():
            for path in paths:
                _take(found, rooted, path)
        return found.as_json()

    reference = Reference(__name__, "parse_tool", {"root": os.fspath(top)})
    return FunctionTool(parse_source, effect="reads", name=NAME, reference=reference)


def largest(functions: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """Return the `most` longest of `functions`, longest first; ties by file and line."""
    order = sorted(functions, key=lambda each: (-each["lines"], each["file"], each["line"]))
    return order[:most]


def parsed(source: bytes) -> ast.Module:
    """Return the syntax tree of `source`, without the warnings that parsing may give.

    Raises:
        SyntaxError: it is not valid in this version of Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Leave cycles alone for a while: a syntax tree has none, and looking costs a third."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _take(found: _Found, root: Root, path: str) -> None:
    try:
        with root.file(path) as file:
            source = file.read(FILE_BYTES_MAX + 1)
        root.require(len(source) <= FILE_BYTES_MAX, f"more than {FILE_BYTES_MAX} bytes")
        found.take(path, source)
    except (ToolError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.message if isinstance(error, ToolError) else type(error).__name__
        found.unparsed.append({"file": path, "why": why})


def _statements(node: Any, prefix: str) -> Iterator[tuple[ast.stmt, str]]:
    """Yield all statements below `node` with their dotted names; expressions are not entered."""
    for block in _BLOCKS:
        for inner in getattr(node, block, ()):
            if not isinstance(inner, (ast.stmt, ast.excepthandler, ast.match_case)):
                continue
            name = f"{prefix}{getattr(inner, 'name', None) or ''}"
            if isinstance(inner, ast.stmt):
                yield inner, name
            is_named = isinstance(inner, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            yield from _statements(inner, f"{name}." if is_named else prefix)


def _sized(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str, path: str) -> dict[str, Any]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return {"name": name, "file": path, "line": node.lineno, "lines": lines}


def _modules(node: ast.stmt) -> Iterator[str]:
    """Yield the top-level modules that a statement imports; relative imports are left out."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        yield node.module.partition(".")[0]
