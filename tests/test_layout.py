"""The tree is laid out as it says, the wheel holds all of it, and pure files are pure.

Rules that a machine can check: what stands where, what a file may touch, what is documented.
"""

import ast
import functools
import importlib
import io
import math
import pkgutil
import re
import subprocess
import sys
import tomllib
import warnings
import zipfile
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

import attrs
import pytest

import refold
from refold.cli.group import COMMANDS
from tests.support.loops import for_each, some
from tests.support.nodes import nodes_of
from tests.test_documents import IDIOMS_PER_1000, idioms_of

ROOT: Final = Path(__file__).parents[1]
FOLDERS: Final = {"engine": "engine", "tools": "tools", "replay": "replay", "src/refold": ""}
"""Where the code stands, and its place below `refold`."""
_LINKS: Final = tuple(ROOT / "src/refold" / name for name in ("engine", "tools", "replay"))


def _sources() -> list[Path]:
    """Return every source file, once: what stands behind the links is met in its real folder."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if not any(path.is_relative_to(link) for link in _LINKS)
    )


SOURCES: Final = [str(path.relative_to(ROOT)) for path in _sources()]


# --- the wheel -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built without network or isolation."""
    folder = tmp_path_factory.mktemp("wheel")
    code = (
        "import sys; from hatchling.build import build_wheel; "
        "print(build_wheel(sys.argv[1]), file=sys.stderr)"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], cwd=ROOT, check=True)
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(io.BytesIO(path.read_bytes()))


@pytest.fixture(scope="module")
def wheel(built: zipfile.ZipFile) -> list[str]:
    """The names in the wheel."""
    return built.namelist()


@pytest.mark.long
def test_a_page_of_an_index_has_no_link_that_leads_nowhere(
    built: zipfile.ZipFile, wheel: list[str]
) -> None:
    """README's links to files of the clone are text there; each link to a site stays."""
    (name,) = (name for name in wheel if name.endswith(".dist-info/METADATA"))
    _, _, page = built.read(name).decode().partition("\n\n")
    readme = (ROOT / "README.md").read_text()

    links = re.findall(r"\]\(([^)]*)\)", page)
    assert all(re.match(r"https?:|#", link) for link in links)
    assert links == [link for link in re.findall(r"\]\(([^)]*)\)", readme) if ":" in link]
    assert re.sub(r"\W", "", readme)[:200] == re.sub(r"\W", "", page)[:200]


def test_the_wheel_holds_every_source_file(wheel: list[str]) -> None:
    """And each once: a build that follows links, or drops a folder, is found here."""
    expected = {
        "/".join(part for part in ("refold", place, str(path.relative_to(ROOT / folder))) if part)
        for folder, place in FOLDERS.items()
        for path in _sources()
        if path.is_relative_to(ROOT / folder)
    }

    found = [name for name in wheel if name.endswith(".py")]

    assert set(found) == expected
    assert len(found) == len(expected)
    assert "refold/py.typed" in wheel


def test_refold_is_the_only_name_at_the_top_of_the_wheel(wheel: list[str]) -> None:
    """A top-level `tools` would overwrite somebody's, and delete it on uninstall."""
    tops = {name.partition("/")[0] for name in wheel}

    assert {top for top in tops if not top.endswith(".dist-info")} == {"refold"}


# --- a test file for each source file --------------------------------------------------------

_TESTED_ELSEWHERE: Final = {
    "engine/ports/effects.py": "values alone; made in tests/engine/kernel/test_kernel.py",
    "engine/events/events.py": "tests/contract/test_events.py",
    "engine/log/__init__.py": "names that load lazily; used by every test of the log",
    "engine/models/__init__.py": "names that load lazily; used by every test of a model",
    "engine/process/__init__.py": "names; used by every test of a process",
    "engine/runners/__init__.py": "tests/contract/test_runners.py",
    "engine/runners/child.py": "runs in a subprocess: tests/contract/test_runners.py",
    "engine/runners/child_run.py": "tests/contract/test_runners.py",
    "engine/loop/frameworks.py": "tests/adapters",
    "engine/runners/shipped.py": "tests/contract/test_runners.py",
    "src/refold/adapters/__init__.py": "tests/adapters",
    "engine/runners/stub.py": "runs in a subprocess: tests/contract/test_runners.py",
    "engine/session/__init__.py": "names that load lazily; used by every test of a session",
    "engine/state/__init__.py": "names; used by every test of a state",
    "engine/kernel/world.py": "a port; its two sides are in tests/engine and tests/replay",
    **{
        f"engine/wire/{name}/{part}.py": f"tests/engine/wire/test_{test}.py"
        for name in ("chat", "generate", "messages", "responses")
        for part, test in (("format", "apis"), ("spelling", "spelling"))
    },
    "engine/wire/parts/format.py": "tests/proxy/test_fifth_format.py, wire/test_spelling.py",
    "src/refold/__init__.py": "the public names: below",
    "src/refold/errors.py": "the errors: below",
    "src/refold/cli/output/listed.py": "values: tests/cli/arguments/test_run_list.py",
    "src/refold/cli/output/printed.py": "values: tests/cli/schema/test_documents.py",
    "src/refold/programs/__init__.py": "names: tests/programs/test_shipped.py",
    "src/refold/cli/commands/check/verify.py": "tests/cli/commands/check/test_verify.py",
    "src/refold/programs/client_calls.py": "tests/cli/commands/more/test_mcp_delegate.py",
    "src/refold/cli/arguments/running.py": "tests/cli/commands/record/test_run.py",
    **{
        f"src/refold/proxy/profiles/{name}.py": "a row: tests/proxy/profiles/test_init.py"
        for name in (
            "aider",
            "claude_code",
            "codex",
            "gemini_cli",
            "qwen_code",
            "copilot",
            "pi",
            "of_node",
            "google_adk",
            "langgraph",
            "smolagents",
            "opencode",
        )
    },
    "src/refold/proxy/copies/inside.py": "runs apart: tests/proxy/copies/test_sandbox.py",
    "src/refold/proxy/mcp/parties.py": "values and ports; used by every test of MCP",
    "src/refold/proxy/http/turns.py": "values and ports; used by every test of tests/proxy",
    "src/refold/__main__.py": "one line: tests/cli/test_init.py runs the same function",
    "src/refold/testing/desks.py": "tests/test_pytest_models.py",
    "src/refold/testing/refold_models.py": "tests/test_pytest_models.py",
    "replay/reexecute/apart_child.py": "runs in a subprocess: tests/replay/reexecute/test_apart.py",
    "tools/contract/policy.py": "a table: tests/tools/delegation/test_shipped.py",
    "tools/__init__.py": "names that load lazily; used by every test of a tool",
}
"""Source files without a test file of their own, and where they are tested or why not."""


def _test_file(source: str) -> str:
    path = Path(source)
    inside = path.is_relative_to("src/refold")
    folder = path.parent.relative_to("src/refold") if inside else path.parent
    name = "init" if path.stem == "__init__" else path.stem
    return str(Path("tests") / folder / f"test_{name}.py")


def _is_docstring(source: str) -> bool:
    return source.endswith("__init__.py") and len(_parsed(source).body) == 1


def test_every_source_file_has_a_test_file() -> None:
    """Of the same name, in the folder that mirrors it; exceptions are listed with a reason.

    A package that is a docstring needs none.
    """
    missing = [
        f"{source}: no {_test_file(source)}"
        for source in SOURCES
        if source not in _TESTED_ELSEWHERE
        and not _is_docstring(source)
        and not (ROOT / _test_file(source)).is_file()
    ]

    assert not missing


# --- pure files ------------------------------------------------------------------------------

SHELL: Final = {
    "engine/recording/bookends.py": ("random environment", "the nonce of a log; which Python runs"),
    "engine/lazy.py": ("files", "reads in a source what stands below fields, for `help`"),
    "engine/wire/parts/gathered.py": ("files", "long texts wait in temporary files"),
    "engine/signing/signature.py": ("processes files environment", "asks ssh-keygen"),
    "engine/plain_files.py": ("files", "looks whether a path is a pipe or a device"),
    "engine/log/descriptors.py": ("files random", "writes files; temporary names"),
    "engine/recording/driver.py": ("clock threads", "runs effects, and sees when a child ends"),
    "engine/recording/host.py": ("processes threads", "the loops of asynchronous tools and models"),
    "engine/recording/interrupts.py": ("processes threads", "obeys Ctrl-C"),
    "engine/kernel/kernel.py": ("threads", "asks which thread runs, starts none"),
    "engine/recording/ledger.py": ("threads", "a run may be fenced from another thread"),
    "engine/log/blobs.py": ("files", "keeps large strings"),
    "engine/log/beside.py": ("files", "looks for large strings, and writes packs"),
    "engine/log/lock.py": ("files", "locks the log, asks who else does"),
    "engine/log/names.py": (
        "files clock random",
        "lists the folder of a log; whether its change is settled; the name of a new run",
    ),
    "engine/log/pack.py": (
        "files environment processes threads",
        "writes and opens packed logs, and what removes them",
    ),
    "engine/log/reader.py": ("files", "reads logs"),
    "engine/log/recovery.py": ("files", "cuts torn tails off and keeps them"),
    "engine/log/salvaging.py": ("files", "copies what verifies to a new log"),
    "engine/log/writer.py": ("clock files processes environment", "writes logs, and their meta"),
    "engine/loop/loop.py": ("threads", "asks which thread runs, starts none"),
    "engine/models/scripted.py": ("files", "reads a script"),
    "engine/models/endpoint.py": (
        "network threads environment",
        "asks which proxy a request went by; one client for all threads",
    ),
    "engine/observed/journal.py": ("random", "the seed of a run id"),
    "engine/ports/ports.py": ("threads", "the cancel signal that threads share"),
    "engine/process/bounded.py": (
        "clock files processes threads",
        "bounds a process, drains its pipes",
    ),
    "engine/process/psutil_view.py": ("processes", "looks at processes"),
    "engine/process/start.py": ("files processes random environment", "starts processes"),
    "engine/process/tree.py": ("clock processes", "finds and ends descendants"),
    "engine/process/views.py": ("files processes", "looks at processes"),
    "engine/process/watchdog.py": ("clock files processes threads environment", "leaves in time"),
    "engine/ports/programs.py": ("files threads environment", "finds and imports programs"),
    "engine/recording/recorder.py": ("threads", "the living world of a kernel"),
    "engine/runners/recording.py": ("random", "seeds of recordings"),
    "engine/children/anchor.py": ("files", "reads a child's log"),
    "engine/runners/preflight.py": ("files", "whether the files of profiles are there"),
    "engine/runners/child.py": ("files", "writes the reply of a subprocess child"),
    "engine/children/envelope.py": ("environment", "the working directory of a child"),
    "engine/runners/in_process.py": ("clock threads", "runs children on threads"),
    "engine/runners/on_ray.py": (
        "clock files network threads environment",
        "children on nodes of a cluster, and their logs from there",
    ),
    "engine/runners/stub.py": ("files environment", "the first file of a subprocess child"),
    "engine/children/unfinished.py": ("clock", "waits for a child's old writer to leave"),
    "engine/children/tokens.py": (
        "files network threads",
        "a pair of sockets to a child's process",
    ),
    "engine/session/bus.py": ("threads", "threads may publish"),
    "engine/session/session.py": ("threads", "one writer at a time"),
    "engine/loop/stdlib.py": ("threads", "refuses those of anyio, starts none"),
    "engine/recording/timers.py": ("clock", "deadlines and timers go by the monotonic clock"),
    "engine/program/drawn.py": (
        "random files environment",
        "from recorded seeds; `read_text` and `environment`, recorded",
    ),
    "engine/secrets/vault.py": ("threads environment", "knows the values of secrets"),
    "engine/recording/workers.py": (
        "processes threads",
        "threads of tools and of runs, none of which is in a forked process",
    ),
    "engine/workspace/linked.py": ("files", "reads the git folders of work trees"),
    "engine/workspace/left_out.py": ("files environment", "finds the folder and the home folder"),
    "engine/workspace/scanning.py": ("clock files", "reads the files of a folder"),
    "engine/workspace/packing.py": ("files", "finds repositories, writes packs"),
    "engine/workspace/contents.py": ("files", "keeps contents in a repository of its own"),
    "engine/workspace/inside.py": ("files", "reads and writes a folder, inside it"),
    "engine/workspace/watching.py": ("threads", "looks at the folder while a model thinks"),
    "engine/workspace/git.py": ("processes environment files", "asks git, without variables"),
    "engine/workspace/made.py": ("files", "lists the object stores of git"),
    "replay/index/kept_folds.py": ("files environment", "keeps how far logs were read"),
    "replay/reexecute/apart.py": ("threads environment", "a re-execution out of harm's way"),
    "replay/reexecute/apart_child.py": ("files processes threads", "the process of such a one"),
    "replay/bulk/bulk.py": ("clock files", "finds logs below folders; how long each took"),
    "replay/bulk/processes.py": ("clock files processes environment", "processes for many logs"),
    "replay/reexecute/comparison.py": ("threads", "tells the main thread, where Ctrl-C arrives"),
    "replay/partial/drift.py": ("files", "a folder for runs that nobody keeps"),
    "replay/what_if/explore.py": ("random", "random orders, repeatable by their seed"),
    "replay/explain/fingerprints.py": ("environment", "names the Python that runs"),
    "replay/resume/fork.py": ("files", "takes a copy away that nothing came of"),
    "replay/reexecute/network.py": ("threads", "tells threads that were there before a replay"),
    "replay/testing/recordings.py": (
        "files random",
        "renames and removes recordings; temporary names",
    ),
    "replay/resume/resume.py": ("threads", "a run may be fenced from another thread"),
    "replay/testing/selfcheck.py": (
        "files threads environment",
        "fresh processes, another in each",
    ),
    "replay/what_if/rehearsal.py": (
        "clock threads",
        "leaves behind a program that runs without end",
    ),
    "replay/testing/tripwire.py": ("environment random", "knows by sight what reads them"),
    "replay/reexecute/world.py": (
        "environment",
        "which Python runs; it compares with the record's",
    ),
    "tools/agents/agent_files.py": ("files", "lists a folder of agents, reads AGENT.md"),
    "tools/files/commands.py": ("files random", "tools that write files; a name for a new one"),
    "tools/configuration/config.py": ("files", "finds a configuration"),
    "tools/files/config_text.py": ("files", "reads a configuration"),
    "tools/files/file_tools.py": ("files", "tools that read files"),
    "tools/agents/profiles.py": ("files", "calls `run.read_text`, which is recorded"),
    "tools/files/rooted.py": ("files", "opens files below one folder"),
}
"""What a file may touch, and why; any other is pure.  The command line is the shell as a whole."""

_MODULES: Final = {
    "time": "clock",
    "secrets": "random",
    "subprocess": "processes",
    "multiprocessing": "processes",
    "signal": "processes",
    "psutil": "processes",
    "threading": "threads",
    "concurrent": "threads",
    "socket": "network",
    "ssl": "network",
    "http": "network",
    "urllib": "network",
    "fcntl": "files",
    "mmap": "files",
    "shutil": "files",
    "tempfile": "files",
    "platform": "environment",
}
"""Importing one of these is touching it."""

_FILES: Final = (
    "close dup fdopen fstat fsync ftruncate link listdir lstat makedirs mkdir open pipe pread"
    " pwrite read readv remove rename replace rmdir scandir set_blocking stat symlink"
    " unlink walk write"
)
_PROCESSES: Final = (
    "_exit abort execv execve fork forkpty getpgid getpgrp getpid getppid getsid kill killpg"
    " pidfd_open posix_spawn register_at_fork spawnv system waitid waitpid"
)
_OS: Final = {
    **dict.fromkeys(_FILES.split(), "files"),
    **dict.fromkeys(_PROCESSES.split(), "processes"),
    **dict.fromkeys(["chdir", "environ", "getcwd", "getenv", "uname"], "environment"),
    **dict.fromkeys(["getrandom", "urandom"], "random"),
}
_METHODS: Final = {
    **dict.fromkeys(["is_dir", "is_file", "iterdir", "mkdir", "read_bytes", "read_text"], "files"),
    **dict.fromkeys(["rglob", "touch", "unlink", "write_bytes", "write_text"], "files"),
    **dict.fromkeys(["today", "utcnow"], "clock"),
}
"""Methods of paths and dates, whatever the object is called."""
_NAMES: Final = {"open": "files", "input": "environment"}
_QUALIFIED: Final = {
    "dt.datetime.now": "clock",
    "datetime.now": "clock",
    "datetime.datetime.now": "clock",
    "uuid.uuid1": "random",
    "uuid.uuid4": "random",
}
_LAST: Final = {name.rpartition(".")[2] for name in _QUALIFIED}


_TOUCHING: Final = (ast.Import, ast.ImportFrom, ast.Call, ast.Attribute)


def _touched(nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield what a file touches, and the line."""
    for node in (each for each in nodes if isinstance(each, _TOUCHING)):
        for what in _touched_by(node):
            yield what, getattr(node, "lineno", 0)


def _touched_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Import():
            yield from _imported([alias.name for alias in node.names])
        case ast.ImportFrom(module=str(module), level=0):
            if module == "os":
                yield from (_OS[each.name] for each in node.names if each.name in _OS)
            yield from _imported([module])
        case ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield _NAMES[name]
        case ast.Call(func=ast.Attribute(attr=name)) if name in _METHODS:
            yield _METHODS[name]
        case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in _OS:
            yield _OS[name]
        case ast.Attribute(value=ast.Name(id="random" | "_random")):
            yield "random"
        case ast.Attribute(attr=attr) if attr in _LAST and ast.unparse(node) in _QUALIFIED:
            yield _QUALIFIED[ast.unparse(node)]
        case _:
            pass


def _imported(names: list[str]) -> Iterator[str]:
    for name in names:
        top = name.partition(".")[0]
        if top in _MODULES and name != "urllib.parse":  # which reads texts alone
            yield _MODULES[top]


def _parsed(source: str) -> ast.Module:
    return ast.parse((ROOT / source).read_text(encoding="utf-8"), source)


@attrs.frozen
class Facts:
    """What the laws below ask of a file; the trees of all files would be a million objects."""

    docstring: str | None
    touched: tuple[tuple[str, int], ...]
    named: tuple[tuple[str, bool], ...]
    classes: frozenset[str]
    defined: frozenset[str]
    types: frozenset[str]
    taken: tuple[tuple[str, str], ...]
    docstrings: tuple[str, ...]
    messages: tuple[str, ...]
    """Its other texts of three words or more: errors, reports, help."""


_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@functools.cache
def _facts(source: str) -> Facts:
    tree = _parsed(source)
    nodes = nodes_of(tree)
    alone = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    constants = [each for each in nodes if isinstance(each, ast.Constant)]
    texts = [(each.value, id(each) in alone) for each in constants if isinstance(each.value, str)]
    return Facts(
        docstring=ast.get_docstring(tree),
        touched=tuple(_touched(nodes)),
        named=tuple(_named_modules(nodes)),
        classes=frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        defined=frozenset(node.name for node in nodes if isinstance(node, _DEFINITIONS)),
        types=frozenset(_types_of(tree)),
        taken=tuple(_taken(nodes)),
        docstrings=tuple(text for text, is_alone in texts if is_alone),
        messages=tuple(text for text, is_alone in texts if not is_alone and len(text.split()) > 2),
    )


_JUDGED: Final = [source for source in SOURCES if not source.startswith("src/")]


def test_a_file_touches_only_what_it_says() -> None:
    """No clock, randomness, process, file, thread or environment, except as `SHELL` says."""
    beyond = {
        f"{source}:{line}: {what}"
        for source in _JUDGED
        for what, line in _facts(source).touched
        if what not in SHELL.get(source, ("",))[0].split()
    }

    assert not beyond


def test_the_table_says_no_more_than_is_so() -> None:
    """A file that became pure leaves the table, so that it stays pure."""
    stale = {
        f"{source}: {what}"
        for source, (whats, _) in SHELL.items()
        for what in whats.split()
        if source not in SOURCES or what not in {found for found, _ in _facts(source).touched}
    }

    assert not stale


def test_every_module_says_what_it_is() -> None:
    """A docstring at the top of each file."""
    assert [source for source in SOURCES if not _facts(source).docstring] == []


# --- plain English ---------------------------------------------------------------------------


def test_docstrings_and_messages_of_each_folder_are_in_plain_english() -> None:
    """Neither a folder nor a file is exempt."""
    texts: dict[str, list[str]] = {}
    for source in SOURCES:
        facts = _facts(source)
        texts.setdefault(str(Path(source).parent), []).extend(facts.docstrings + facts.messages)
    found = {
        folder: idioms
        for folder, each in texts.items()
        if len(idioms := idioms_of(text := "\n".join(each)))
        > math.ceil(len(text.split()) * IDIOMS_PER_1000 / 1000)
    }

    assert found == {}


def test_messages_are_in_plain_english() -> None:
    """All texts of the code but docstrings and names: errors, reports, help.

    Of all folders together: some texts in `engine` and `tools` are in logs, which keep their bytes.
    """
    written = "\n".join(text for source in SOURCES for text in _facts(source).messages)

    found = idioms_of(written)

    assert len(written.split()) > 10_000
    assert 1000 * len(found) / len(written.split()) <= IDIOMS_PER_1000, found


# --- who knows whom --------------------------------------------------------------------------


def _module(source: str) -> str:
    folder = next(folder for folder in FOLDERS if source.startswith(f"{folder}/"))
    parts = Path(source).relative_to(folder).with_suffix("").parts
    return ".".join(filter(None, ("refold", FOLDERS[folder], *parts))).removesuffix(".__init__")


_MODULES_OF: Final = {_module(source): source for source in SOURCES}


def _named_modules(nodes: list[ast.AST]) -> Iterator[tuple[str, bool]]:
    """Yield the modules of ours that a file names, and whether by a text.

    Imports in functions and for type checkers count; docstrings do not.
    """
    prose = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Import():
                yield from ((alias.name, False) for alias in node.names)
            case ast.ImportFrom(module=str(module)):
                below = [f"{module}.{alias.name}" for alias in node.names]
                yield from ((name if name in _MODULES_OF else module, False) for name in below)
            case ast.Constant(value=str(text)) if id(node) not in prose:
                yield text.partition(":")[0], True
            case _:
                pass


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the modules that cannot be put into an order, what they name before them."""
    left = {name: others - {name} for name, others in graph.items()}
    while free := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in free}
    return [[name, *sorted(others & left.keys())] for name, others in sorted(left.items())]


def test_no_file_imports_in_a_circle() -> None:
    """Neither at the top, nor in functions, nor for type checkers: there is an order to read in."""
    graph = {
        name: {other for other, is_text in _facts(source).named if not is_text}
        for name, source in _MODULES_OF.items()
    }

    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})
    assert _circles(graph) == []


def _rooms() -> Iterator[tuple[str, str, int]]:
    """Yield each folder with layers, a room in it, and how high that stands."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in pyproject["tool"]["importlinter"]["contracts"]:
        for height, rooms in enumerate(reversed(contract["layers"])):
            for room in rooms.split("|"):
                yield contract["containers"][0], room.strip(), height


def test_no_text_names_what_stands_above() -> None:
    """What is to be plugged in from above is passed in, or its owner says so."""
    heights = {f"{folder}.{room}": height for folder, room, height in _rooms()}
    upwards = [
        f"{source} names {other}"
        for name, source in _MODULES_OF.items()
        for other, is_text in _facts(source).named
        if is_text and other in _MODULES_OF
        for room, height in heights.items()
        if f"{other}.".startswith(f"{room}.")
        for own, own_height in heights.items()
        if f"{name}.".startswith(f"{own}.") and own.rpartition(".")[0] == room.rpartition(".")[0]
        if height > own_height
    ]

    assert upwards == []


def _types_of(tree: ast.Module) -> set[str]:
    """Return the public types that a file defines: classes, and names for other types."""
    named: set[str] = set()
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                named.add(name)
            case _:
                pass
    return {name for name in named if name[0].isupper() and not name.isupper()}


def test_one_name_is_one_thing() -> None:
    """No two classes share a public name, nor does one a name for a type that other files use."""
    taken = {(module, name) for source in SOURCES for module, name in _facts(source).taken}
    homes: dict[str, list[str]] = {}
    for module, source in _MODULES_OF.items():
        facts = _facts(source)
        for name in facts.types:
            if name in facts.classes or (module, name) in taken:
                homes.setdefault(name, []).append(module)

    assert len(homes) > 500
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def _taken(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


# --- rooms ----------------------------------------------------------------------------------

_ROOMS: Final = sorted({str(Path(source).parent) for source in SOURCES} - {"src/refold"})
_FILES_MIN, _FILES_MAX = 4, 14
_SMALL: Final = {
    "engine/secrets": "what is taken out of logs, and the vault that knows it",
    "engine/signing": "asks a program of the machine about logs",
    "src/refold/cli/commands/what_if": "a group of commands on the first page",
    "tools/configuration": "stands above all other tools, which read no configuration",
}
"""Folders with fewer files, each a thing of its own."""


@for_each("room", _ROOMS)
def test_a_room_is_small_enough_to_be_looked_over(room: str) -> None:
    """A folder with more files has more than one purpose.

    One with fewer, and nothing below it, is a part of another room, but where it says why not.
    """
    files = len(list((ROOT / room).glob("*.py")))
    is_large_enough = files >= _FILES_MIN or any((ROOT / room).glob("*/__init__.py"))

    assert files <= _FILES_MAX
    assert is_large_enough is (room not in _SMALL)


@for_each("package", _ROOMS)
def test_a_map_of_a_folder_names_all_that_is_in_it(package: str) -> None:
    """The docstring of a package is what a newcomer reads first; a file that it lacks is lost."""
    text = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""

    names = {path.parent.stem for path in (ROOT / package).glob("*/__init__.py")}
    names |= {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__"}

    assert sorted(names - set(re.findall(r"\w+", text))) == []


# --- documents -------------------------------------------------------------------------------

_DOCUMENTS: Final = (
    "ARCHITECTURE.md", "CHANGELOG.md", "CONTRACT.md", "CONTRIBUTING.md", "README.md", "SECURITY.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)  # fmt: skip


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@for_each("command", COMMANDS)
def test_every_command_is_documented(command: str) -> None:
    """By name in the contract (§14.1); docs/commands.md is made of the help pages."""
    assert f"`{command}`" in _text("CONTRACT.md").partition("**§14.1")[2].partition("**§14.2")[0]


@for_each("name", _DOCUMENTS)
def test_documents_name_no_path_of_a_machine(name: str) -> None:
    """What is written for everybody holds nobody's folders."""
    assert not re.findall(r"(?:/home/|/root/|/work/|/Users/|/tmp/|[A-Z]:\\)\S*", _text(name))


def test_the_paths_of_the_architecture_are_there() -> None:
    """Who looks where a change is made finds it."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:engine|replay|tools|src|tests)/[\w./]*)`", text))

    assert len(named) > 40
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]


def test_the_exit_codes_of_the_documents_are_those_of_the_code() -> None:
    """docs/commands.md and CONTRACT.md §14.2 have the same table, with the numbers of the code."""
    row = re.compile(r"^\| (\d+) \| (.+) \|$", re.MULTILINE)
    errors = _parsed("src/refold/cli/output/exit_codes.py").body
    numbers = {
        node.value.value
        for node in errors
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant)
    }

    in_page, in_contract = row.findall(_text("docs/commands.md")), row.findall(_text("CONTRACT.md"))

    assert in_page == in_contract
    assert {int(number) for number, _ in in_page} == numbers


# --- tests -----------------------------------------------------------------------------------


def test_a_warning_fails_a_test() -> None:
    """Case 110: of whatever kind, and whoever gives it."""
    for kind in (DeprecationWarning, ResourceWarning, UserWarning):
        with pytest.raises(kind):
            warnings.warn("this one", kind, stacklevel=1)


# --- words -----------------------------------------------------------------------------------

_VAGUE: Final = frozenset(
    [
        "told",
        "said",
        "say",
        "says",
        "led",
        "lent",
        "heeded",
        "taken",
        "look",
        "looks",
        "hear",
        "hears",
        "heard",
    ]
)
"""Words that name no function, class or file: the field has record, print, scan, apply."""


def test_names_have_words_of_the_field() -> None:
    """Nobody who has not written them knows what `_told`, `look` or `gone_on` do."""
    found = {
        f"{source}: {name}"
        for source in SOURCES
        for name in {Path(source).stem} | _facts(source).defined
        if _VAGUE & set(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().split("_"))
        or "gone_on" in name
    }

    assert found == set()


# --- public names ----------------------------------------------------------------------------


@for_each("name", dir(refold))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    """It can be imported, and says what it is."""
    found = getattr(refold, name)

    assert name == "__version__" or (found.__doc__ or "").strip()


_PACKAGES: Final = tuple(
    ".".join(filter(None, ("refold", place, *path.relative_to(ROOT / folder).parent.parts)))
    for folder, place in FOLDERS.items()
    for path in _sources()
    if path.name == "__init__.py" and path.is_relative_to(ROOT / folder)
)


@for_each("package", _PACKAGES)
def test_no_submodule_has_the_name_of_a_public_name(package: str) -> None:
    """Importing the submodule would put it in the place of the function: `refold.replay`."""
    module = importlib.import_module(package)
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}

    assert not set(getattr(module, "__all__", ())) & submodules


_HEAVY: Final = ("attrs", "cattrs", "click", "jsonschema", "orjson", "psutil", "rich", "structlog")


@pytest.mark.parametrize("module", some(1, ["refold.pytest_plugin", "refold", "refold.replay"]))
def test_importing_what_pytest_imports_is_light(module: str) -> None:
    """They are imported at every start of pytest, whether or not a test uses Refold."""
    code = f"import sys, pytest, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)

    loaded = {name.partition(".")[0] for name in done.stdout.split()}

    assert not loaded & set(_HEAVY)


def test_importing_refold_alone_loads_not_even_typing() -> None:
    """Which takes longer than all that `import refold` does."""
    code = "import sys; had = {*sys.modules}; import refold; print(*{*sys.modules} - had)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)

    assert "refold.engine.lazy" in done.stdout.split()
    assert not {"typing", "importlib", "collections"} & {*done.stdout.split()}


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    """Installing Refold is enough."""
    found = {point.value for point in entry_points(group="pytest11") if point.name == "refold"}

    assert found == {"refold.pytest_plugin"}
