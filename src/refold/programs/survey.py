"""The programs of `refold demo`: a survey of a source tree by subagents, and some that misbehave.

`survey_tree` looks at what lies in a folder, makes parts of about equal size, and delegates each to
a `survey_package` in a process of its own, a few at once.  The programs reach the world through
tools alone and keep to the order of names, so they can be re-executed without the source tree.
`survey_with_faults` adds children that hang, flood, crash and may not start.  Parsing is
`programs.parsing`'s, the command `cli.commands.demo`'s.  The names are in the package's table.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode
from refold.engine.errors import RunEnded, ToolError
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import Artifact, Outcome, Report
from refold.engine.ports.delegation import Delegation
from refold.engine.ports.ports import Tool
from refold.engine.program.run import Run
from refold.programs.parsing import largest, parse_tool
from refold.tools.files.file_tools import FileListing, FileText, file_tools
from refold.tools.files.rooted import FileEntry

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
_TOP: Final = 10
_COUNTED: Final = ("file", "line", "function")
_ENTRIES_MAX: Final = 20_000
"""Files that one listing may hold; the report mentions that there are more."""


def survey_tools(root: str | os.PathLike[str]) -> tuple[Tool, ...]:
    """Return the tools of a survey of the folder `root`.

    Raises:
        ToolRefused: not a folder.
    """
    files = file_tools(root, max_entries=_ENTRIES_MAX)
    return (*files, parse_tool(root=os.fspath(root)))


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing if number == 1 else thing + 's'}"


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
    says = await _purpose(run, part, paths)
    return _report(found, f"{counts(found)}{says}")


async def _purpose(run: Run, part: dict[str, Any], paths: list[str]) -> str:
    """Return the first line of a package's docstring, if the part is one package."""
    init = f"{part['packages'][0]}/__init__.py" if len(part["packages"]) == 1 else ""
    if part["modules"] or init not in paths:
        return ""
    try:
        head: FileText = await run.tool("read_file", path=init, max_lines=20)
    except ToolError:
        return ""  # the log says why; the survey does not hang on it
    first = head.text.lstrip()
    if not first.startswith(('"""', 'r"""')):
        return ""
    line = first.partition('"""')[2].lstrip().partition("\n")[0]
    said = line.partition('"""')[0].strip()[:60]
    return f" · {said}" if said else ""


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
    numbers: Counter[str] = Counter(files=0, lines=0, functions=0, classes=0)
    imports: Counter[str] = Counter()
    functions: list[dict[str, Any]] = []
    unparsed: list[dict[str, str]] = []
    for each in found:
        numbers.update({name: each[name] for name in ("files", "lines", "functions", "classes")})
        imports.update(each["imports"])
        functions += each["largest"]
        unparsed += each["unparsed"]
    return {
        **numbers,
        "largest": largest(functions, _TOP),
        "imports": dict(sorted(imports.items())),
        "unparsed": unparsed,
    }


def counts(found: dict[str, Any]) -> str:
    """Return the numbers of a survey in a few words."""
    text = ", ".join(_counted(found[f"{thing}s"], thing) for thing in _COUNTED)
    return f"{text}, {len(found['unparsed'])} not parsed" if found["unparsed"] else text


def _report(found: dict[str, Any], summary: str) -> Report:
    return Report(
        summary=summary,
        output=found,
        artifacts=(
            Artifact(kind="json", name="largest functions", value=_json_text(found["largest"])),
            Artifact(kind="json", name="imports", value=_json_text(found["imports"])),
        ),
    )


def _json_text(value: Json) -> str:
    return encode(value).decode()


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
    in_parts = _counted(len(parts), "part")
    return _report({**found, "parts": statuses}, f"{task['title']}: {counts(found)} in {in_parts}")


async def _parts(run: Run, task: dict[str, Any]) -> list[dict[str, Any]]:
    packages, modules = await _units(run, task)
    if not packages and not modules:
        raise RunEnded("nothing_found", "no Python file there; name a folder that has some")
    size = (sum(packages.values()) + sum(modules.values())) // task["parts"] + 1
    of = {"package": _grouped(packages, size), "module": _grouped(modules, size)}
    return [
        {
            "name": _title(kind, group),
            "packages": group if kind == "package" else [],
            "modules": group if kind == "module" else [],
            "skip": task["skip"],
        }
        for kind, groups in of.items()
        for group in groups
    ]


async def _units(run: Run, task: dict[str, Any]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the top-level packages and the modules, each with its size in bytes."""
    top: FileListing = await run.tool("list_files")
    only, skip = task.get("only"), task["skip"]
    packages: dict[str, int] = {}
    modules: dict[str, int] = {}
    for entry in top.entries:
        is_left_out = entry.path in skip or entry.path.startswith(".")
        if is_left_out or (only is not None and entry.path not in only):
            continue
        if entry.kind == "file" and entry.path.endswith(".py"):
            modules[entry.path] = entry.size_bytes or 0
        elif entry.kind == "folder":
            inside = await run.tool("list_files", path=entry.path, pattern="*.py", recursive=True)
            if found := sources(inside.entries, skip):
                packages[entry.path] = sum(each.size_bytes or 0 for each in found)
    return packages, modules


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
        return f"{kind} {first}"
    return f"{kind}s {first} to {last} ({len(group)})"


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
