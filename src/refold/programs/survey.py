"""The programs of `refold demo`: a survey of a source tree by subagents, and some that misbehave.

`survey_tree` looks at what lies in a folder, makes parts of about equal size, and delegates each to
a `survey_package` in a process of its own, a few at once.  The programs reach the world through
tools alone and keep to the order of names, so they can be re-executed without the source tree.
`survey_with_faults` adds children that hang, flood, crash and may not start.  The leaf tool
`parse_source` parses Python files below one folder, without running them. The command is
`refold demo`, the names are in the package's table.
"""

import ast
import asyncio
import os
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.errors import RunEnded, ToolError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Outcome, Report
from refold.engine.ports.ports import Delegation, Reference, Tool
from refold.engine.program.run import Run
from refold.tools.contract.tool_types import FunctionTool
from refold.tools.files.file_tools import FileListing, file_tools
from refold.tools.files.rooted import FileEntry, Root

SKIPPED: Final = ("__pycache__", "site-packages", "dist-packages", "node_modules")
"""Folders that are never surveyed; nor are those whose name begins with a dot."""
TESTS: Final = ("test", "tests", "idle_test")
"""Folders left out of the standard library: they would double it."""

PARTS: Final = 16
"""About how many parts a tree is cut into: each is one subagent."""
PART_SECONDS: Final = 120
FAULT_SECONDS: Final = 1
"""After which a child that hangs is ended."""
_BATCH: Final = 40
"""Files that one call of `parse_source` takes."""
LARGEST_MAX: Final = 10
"""Functions that are reported."""
FILE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Of one source file; a larger one is reported as not parsed."""
_COUNTED: Final = ("files", "lines", "functions", "classes")
_ENTRIES_MAX: Final = 20_000
"""Files that one listing may hold; the report mentions that there are more."""


def survey_tools(root: str | os.PathLike[str]) -> tuple[Tool, ...]:
    """Return the tools of a survey of the folder `root`.

    Raises:
        ToolRefused: not a folder.
    """
    files = file_tools(root, max_entries=_ENTRIES_MAX)
    return (*files, parse_tool(root=os.fspath(root)))


# --- the leaf tool ---------------------------------------------------------------------------


def parse_tool(*, root: str) -> FunctionTool[..., Any]:
    """Return `parse_source` over the folder `root`."""
    top = Path(root).resolve()
    rooted = Root(top, "parse_source")

    def parse_source(
        paths: Annotated[list[str], "source files, relative to the root folder"],
    ) -> dict[str, Any]:
        """Parse Python files: count lines, functions and classes, list the largest and imports."""
        return merged(_parsed(rooted, path) for path in paths)

    reference = Reference(__name__, "parse_tool", {"root": os.fspath(top)})
    return FunctionTool(parse_source, effect="reads", reference=reference)


def _parsed(root: Root, path: str) -> dict[str, Any]:
    """Return what one file holds; a file that cannot be opened or parsed is reported as such."""
    found: dict[str, Any] = {"largest": [], "imports": {}, "unparsed": []}
    try:
        with root.file(path) as file:
            source = file.read(FILE_BYTES_MAX + 1)
        root.require(len(source) <= FILE_BYTES_MAX, f"more than {FILE_BYTES_MAX} bytes")
        lines = source.count(b"\n") + (source[-1:] not in (b"", b"\n"))
        found |= {"files": 1, "lines": lines}
        with _ONE_AT_A_TIME, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            statements = [*_statements(ast.parse(source), "")]
    except (ToolError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = error.message if isinstance(error, ToolError) else type(error).__name__
        return found | {"unparsed": [{"file": path, "why": why}]}
    functions = [
        {
            "name": name,
            "file": path,
            "line": node.lineno,
            "lines": (node.end_lineno or 0) - node.lineno + 1,
        }
        for node, name in statements
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return found | {
        "functions": len(functions),
        "classes": sum(isinstance(node, ast.ClassDef) for node, _ in statements),
        "largest": functions,
        "imports": dict.fromkeys((name for node, _ in statements for name in _modules(node)), 1),
    }


def _statements(node: Any, prefix: str) -> Iterator[tuple[Any, str]]:
    """Yield all statements below `node` with their dotted names; expressions are not entered."""
    for inner in (each for block in _BLOCKS for each in getattr(node, block, ())):
        is_named = isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        name = f"{prefix}{inner.name}" if is_named else ""
        yield inner, name
        yield from _statements(inner, f"{name}." if is_named else prefix)


def _modules(node: ast.AST) -> list[str]:
    """Return the top-level modules that a statement imports, without relative imports."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
        names = [node.module]
    return [name.partition(".")[0] for name in names]


_ONE_AT_A_TIME: Final = threading.Lock()
"""Python 3.11 makes syntax trees in one thread at a time: it counts their depth in one place."""
_BLOCKS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Members of a statement that may have statements: functions and imports are only there."""


# --- one part --------------------------------------------------------------------------------


async def survey_package(run: Run, part: dict[str, Any]) -> Report:
    """Survey one part: `{"name": str, "packages": [folder], "modules": [file], "skip": [name]}`.

    The report's output is `{files, lines, functions, classes, largest, imports, unparsed}`.
    """
    paths = list(part["modules"])
    for package in part["packages"]:
        listing = await run.tool("list_files", path=package, pattern="*.py", recursive=True)
        paths += [entry.path for entry in sources(listing.entries, part["skip"])]
    starts = range(0, len(paths), _BATCH)
    calls = [run.tool("parse_source", paths=paths[at : at + _BATCH]) for at in starts]
    found = merged(await asyncio.gather(*calls))
    return _report(found, counts(found))


def sources(entries: Iterable[FileEntry], skip: Iterable[str]) -> list[FileEntry]:
    """Return the files among `entries` of which no folder is to be skipped, in their order."""
    left_out = set(skip)
    return [
        entry
        for entry in entries
        if entry.kind == "file"
        and not any(name in left_out or name.startswith(".") for name in entry.path.split("/"))
    ]


def merged(found: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the sum of what several surveys found."""
    numbers, imports = Counter(dict.fromkeys(_COUNTED, 0)), Counter[str]()
    functions: list[dict[str, Any]] = []
    unparsed: list[dict[str, str]] = []
    for each in found:
        numbers.update({name: each.get(name, 0) for name in _COUNTED})
        imports.update(each["imports"])
        functions += each["largest"]
        unparsed += each["unparsed"]
    functions.sort(key=lambda each: (-each["lines"], each["file"], each["line"]))
    return {
        **numbers,
        "largest": functions[:LARGEST_MAX],
        "imports": dict(sorted(imports.items())),
        "unparsed": unparsed,
    }


def counts(found: dict[str, Any]) -> str:
    """Return the numbers of a survey in a few words."""
    text = ", ".join(_counted(found[things], things) for things in _COUNTED[:3])
    return f"{text}, {len(found['unparsed'])} not parsed" if found["unparsed"] else text


def _counted(number: int, things: str) -> str:
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def _report(found: dict[str, Any], summary: str) -> Report:
    shown = {"largest functions": found["largest"], "imports": found["imports"]}
    artifacts = (
        Artifact(kind="json", name=name, value=encode(value).decode())
        for name, value in shown.items()
    )
    return Report(summary=summary, output=found, artifacts=tuple(artifacts))


# --- the whole tree --------------------------------------------------------------------------


async def survey_tree(run: Run, task: dict[str, Any]) -> Report:
    """Survey a folder: `{"title": str, "skip": [name], "jobs": int, "parts": int}`.

    With `"only": [name, …]`, just these packages and modules.  The report's output has a part's
    members, and `parts`: `[{name, status}]`.
    """
    parts = await _parts(run, task)
    at_once = asyncio.Semaphore(task["jobs"])

    async def delegate(part: dict[str, Any]) -> Outcome:
        async with at_once:
            return await run.delegate(
                Delegation(
                    program="survey_package",
                    brief=f"survey {part['name']}",
                    input=part,
                    levels=1,
                    limits=Limits(timeout_seconds=PART_SECONDS),
                )
            )

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(delegate(part)) for part in parts]
    outcomes = [each.result() for each in tasks]
    found = merged(outcome.output for outcome in outcomes if outcome.ok)
    statuses = [
        {"name": part["name"], "status": outcome.status}
        for part, outcome in zip(parts, outcomes, strict=True)
    ]
    in_parts = _counted(len(parts), "parts")
    return _report({**found, "parts": statuses}, f"{task['title']}: {counts(found)} in {in_parts}")


async def _parts(run: Run, task: dict[str, Any]) -> list[dict[str, Any]]:
    sizes = await _sizes(run, task)
    if not any(sizes.values()):
        raise RunEnded("nothing_found", "no Python files found: pass a folder that has some")
    size = sum(sum(each.values()) for each in sizes.values()) // task["parts"] + 1
    nothing: dict[str, list[str]] = {kind: [] for kind in sizes}
    return [
        {"name": _title(kind, group), **nothing, kind: group, "skip": task["skip"]}
        for kind, units in sizes.items()
        for group in _grouped(units, size)
    ]


async def _sizes(run: Run, task: dict[str, Any]) -> dict[str, dict[str, int]]:
    """Return the top-level packages and modules, each with its size in bytes."""
    top: FileListing = await run.tool("list_files")
    sizes: dict[str, dict[str, int]] = {"packages": {}, "modules": {}}
    for entry in top.entries:
        if entry.path in task["skip"] or entry.path not in task.get("only", [entry.path]):
            continue
        kind, found = "modules", [entry] if entry.path.endswith(".py") else []
        if entry.kind == "folder":
            inside = await run.tool("list_files", path=entry.path, pattern="*.py", recursive=True)
            kind, found = "packages", inside.entries
        if files := sources(found, task["skip"]):
            sizes[kind][entry.path] = sum(each.size_bytes or 0 for each in files)
    return sizes


def _grouped(units: dict[str, int], size: int) -> list[list[str]]:
    """Return neighbours together, as many as stay within `size` bytes; a larger one alone."""
    groups: list[list[str]] = []
    room = 0
    for name, own in units.items():
        if not groups or own > room:
            groups.append([])
            room = size
        groups[-1].append(name)
        room -= own
    return groups


def _title(kind: str, group: list[str]) -> str:
    first, last = (name.removesuffix(".py") for name in (group[0], group[-1]))
    if len(group) == 1:
        return f"{kind.removesuffix('s')} {first}"
    return f"{kind} {first} to {last} ({len(group)})"


# --- faults ----------------------------------------------------------------------------------


async def survey_with_faults(run: Run, task: dict[str, Any]) -> Report:
    """Survey as `survey_tree` does, beside four children of which none can succeed."""
    async with asyncio.TaskGroup() as group:
        faults = [group.create_task(run.delegate(fault)) for fault in _FAULTS]
        survey = group.create_task(survey_tree(run, task))
    report = survey.result()
    seen = {fault.brief: each.result().status for fault, each in zip(_FAULTS, faults, strict=True)}
    return attrs.evolve(
        report,
        output={**report.output, "faults": seen},
        summary=f"{report.summary}; faults: {', '.join(seen.values())}",
    )


async def never_ends(run: Run, _: Json) -> None:
    """Wait for an hour: longer than it may."""
    await run.sleep(3600)


def floods(_run: Run, _: Json) -> None:
    """Print 64 MiB: far more than a child may."""
    line = "flood " * 170
    for _line in range(64 * 1024):
        print(line)


def crashes(_run: Run, _: Json) -> None:
    """End the whole process, as a crash in a C library would."""
    print("simulated crash", file=sys.stderr, flush=True)
    os._exit(3)


_FAULTS: Final = (
    Delegation(
        program="never_ends",
        brief=f"wait an hour; {FAULT_SECONDS} s allowed",
        limits=Limits(timeout_seconds=FAULT_SECONDS),
        runner="subprocess",
    ),
    Delegation(program="floods", brief="print 64 MiB; 1 MiB allowed", runner="subprocess"),
    Delegation(program="crashes", brief="crash", runner="subprocess"),
    Delegation(program="survey_package", input={}, brief="start below the depth allowed", levels=0),
)
"""What `--faults` adds.  The first three need a process of their own to be ended with."""
