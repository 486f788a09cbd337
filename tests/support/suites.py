"""A small suite of tests that records and replays an agent: what the pytest plugin is tried on.

`write` puts it where pytester works; tests change a file and run it again, in this process.  What
is executed live leaves a line in `calls.txt`.
"""

import contextlib
import functools
import gc
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

import anyio.pytest_plugin
import pytest
import syrupy
from _pytest import fixtures

import refold.pytest_plugin
from tests.support.hints import READING, failed_hints, runnable_hints

AGENT: Final = '''
from pathlib import Path
import refold

def happened(what):
    with Path("calls.txt").open("a") as file:
        file.write(what + "\\n")

@refold.tool(effect="reads")
def search(query: str) -> str:
    """Find something."""
    happened(f"search {query}")
    return f"found {query}"

async def digger(run, query):
    return await run.tool("search", query=query)

async def dig(run, queries):
    found = [await run.tool("search", query=query) for query in queries]
    outcome = await run.delegate(refold.Delegation(program=digger, input="gold", brief="Dig."))
    return [*found, outcome.output]

async def fails(run, queries):
    raise LookupError("nothing there")
'''

TEST: Final = """
from agent import dig, search

def test_dig(refold_run):
    recording = refold_run(dig, ["tin"], tools=[search])
    assert recording.output == ["found tin", "found gold"]
"""


class Suite:
    """The suite in pytester's folder."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self._pytester = pytester
        self.folder = pytester.path
        self.recordings = self.folder / "recordings" / "test_it"
        self._written = 1_000_000_000
        self.write(agent=AGENT, test_it=TEST)

    def write(self, **sources: str) -> None:
        """Write files, by their names without suffix."""
        for name, source in sources.items():
            path = self.folder / f"{name}.py"
            path.write_text(source, encoding="utf-8")
            self._written += 1  # or an edit within a second may pass unnoticed by Python
            os.utime(path, (self._written, self._written))

    def edit(self, name: str, old: str, new: str) -> None:
        """Change a file; what is to be changed has to be there."""
        source = (self.folder / f"{name}.py").read_text(encoding="utf-8")
        assert old in source
        self.write(**{name: source.replace(old, new)})

    def run(self, *options: str) -> pytest.RunResult:
        """Run the suite in this process; what it says to read can be read as it is printed."""
        result = run_here(self._pytester, *_PLAIN, _NO_OTHERS, *options, plugins=_PLUGINS)
        hints = runnable_hints(result.stdout.str(), READING, lambda words: words)
        with contextlib.chdir(self.folder):
            assert failed_hints(hints) == []
        return result

    def run_apart(self, *options: str) -> pytest.RunResult:
        """Run the suite in a process of its own."""
        return self._pytester.runpytest_subprocess(*_PLAIN, *options, timeout=120)

    def record(self, mode: str = "once") -> None:
        """Record the suite, which has to pass."""
        self.passes(f"--refold-record={mode}")

    def passes(self, *options: str) -> None:
        """Run it; whatever there is, passes."""
        result = self.run(*options)
        assert result.ret == 0, result.stdout.str()

    def fails(self, *options: str) -> str:
        """Run it; return the text of a failure, one space for each stretch of white space."""
        result = self.run(*options)
        assert result.ret == 1, result.stdout.str()
        return one_line(result.stdout.str())

    def logs(self) -> list[str]:
        """Return the names of the files that were recorded."""
        return sorted(path.name for path in self.recordings.glob("*"))

    def calls(self) -> list[str]:
        """Return what was executed live since the last time, and forget it."""
        path = Path(self.folder / "calls.txt")
        found = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found


class _Imports:
    """Keeps what a suite was first to import, but for its own files: pytester forgets all of it.

    Each run of a suite would import clients of models anew, which takes half a second.
    """

    def __init__(self) -> None:
        self._kept: dict[str, ModuleType] = {}
        self._suite = Path()
        self._before: frozenset[str] = frozenset()

    def begin(self, suite: Path) -> None:
        """Have all that earlier suites imported."""
        self._suite = suite
        for name, module in self._kept.items():
            sys.modules.setdefault(name, module)
        self._before = frozenset(sys.modules)

    def pytest_unconfigure(self) -> None:
        known = len(self._kept)
        for name in sys.modules.keys() - self._before:
            file = getattr(sys.modules[name], "__file__", None)
            if file and not Path(file).is_relative_to(self._suite):
                self._kept[name] = sys.modules[name]
        if known < len(self._kept):
            gc.freeze()  # or the collector looks through all of it, again and again


_IMPORTS: Final = _Imports()


def run_here(
    pytester: pytest.Pytester, *options: str, plugins: Sequence[object] = ()
) -> pytest.RunResult:
    """Run what lies in pytester's folder in this process."""
    _IMPORTS.begin(pytester.path)
    return pytester.runpytest_inprocess(*options, plugins=[_IMPORTS, *plugins])


def _if_any(register: Callable[..., None]) -> Callable[..., None]:
    """Have pytest look for the fixtures of a plugin only if it is a module with one.

    It looks at 2,000 names of its own modules as each run begins, a quarter of a short one.
    """

    @functools.wraps(register)
    def registered(self: object, plugin: object, plugin_name: str) -> None:
        names = vars(plugin).values() if isinstance(plugin, ModuleType) else ()
        if not names or any(isinstance(each, fixtures.FixtureFunctionDefinition) for each in names):
            register(self, plugin, plugin_name)

    return registered


_REGISTER: Final = "pytest_plugin_registered"
setattr(fixtures.FixtureManager, _REGISTER, _if_any(getattr(fixtures.FixtureManager, _REGISTER)))


def one_line(text: str) -> str:
    """Return text as one line, without the marks of a failure."""
    return re.sub(r"\s+(?:E\s+)?", " ", text)


_LEFT_OUT: Final = (
    "cacheprovider", "hypothesispytest", "xdist", "xdist.looponfail", "doctest", "legacypath",
    "pastebin", "setuponly", "setupplan",
)  # fmt: skip
_PLAIN: Final = ("--no-header", *(f"-pno:{name}" for name in _LEFT_OUT))
"""What no suite needs, and costs a third of the time that it takes to begin a run."""
_NO_OTHERS: Final = "--disable-plugin-autoload"
_PLUGINS: Final = (refold.pytest_plugin, syrupy, anyio.pytest_plugin)
"""Only the plugins that suites use: it takes a tenth of a second to look for those installed, and
as long for each that is given by its name.

Runs in a process of their own look for them, as the runs of users do.
"""
