"""Runs mutants: each in a process forked for it, by a few tests, until one of them fails."""

import contextlib
import gc
import importlib
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, Self

import attrs
import pytest

from tests.mutants.edits import Mutant, code_of

_IMPORTED: Final = (
    "asyncio", "attrs", "cattrs.preconf.orjson", "concurrent.futures", "http.server", "httpx",
    "hypothesis.stateful", "jsonschema", "multiprocessing", "orjson", "psutil", "pydantic",
    "sqlite3", "starlette.applications", "structlog", "uvicorn", "yaml",
)  # fmt: skip
"""What tests import that isn't Refold's: once, before the first fork."""
CPU_SECONDS: Final = 30
PATIENCE_SECONDS: Final = 45
"""A mutant that takes longer hangs, and was seen: generous, for a machine with other work."""
NO_ANSWER: Final = "no answer"
_REWRITE: Final = "ignore::pytest.PytestAssertRewriteWarning"
"""Plugins that were imported before pytest asked for them hold no assertions of ours."""
UNFIT: Final = "unfit"
"""Answered where a mutant's functions cannot be put in place of those that are imported."""


@attrs.frozen
class Job:
    """A mutant, and the tests that run its line, in their order."""

    mutant: Mutant
    tests: list[str]
    checks: int = 0
    """How many of the first of them are the checks that name the line."""


@attrs.frozen
class Verdict:
    """What became of a mutant."""

    job: Job
    by: str
    """The test that failed; empty for none."""

    @property
    def said(self) -> str:
        """`killed`, `survived`; where checks name the line, `killed by its check`, too."""
        if self.by == UNFIT:
            return "needs a second round"
        if self.by == NO_ANSWER:
            return "hangs or crashes"
        is_check = self.by in self.job.tests[: self.job.checks]
        if self.by and self.job.checks and not is_check:
            return "killed by another test"
        return ("killed by its check" if is_check else "killed") if self.by else "survived"


class Bench:
    """Forks the processes that judge; its folder is theirs, one after the other."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = Path(tempfile.mkdtemp(prefix="mutants-"))
        self._sound: dict[str, bool] = {}
        os.chdir(root)
        for name in _IMPORTED:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def verdicts(self, jobs: list[Job], *, is_quick: bool) -> Iterator[Verdict]:
        """Yield what becomes of each: first of those that the quick round kills, or of all."""
        left = [job for job in jobs if not job.mutant.is_inside]
        for job, by in self._quick_round([job for job in jobs if job.mutant.is_inside]):
            if is_quick or (by and by != UNFIT):
                yield Verdict(job, by)
            else:
                left.append(job)
        for job in left:
            yield Verdict(job, self._judged(job))

    def _judged(self, job: Job) -> str:
        """Return the test that fails where the mutant is imported in place of its file."""
        tests = [test for test in job.tests if self._sound.get(test, True)]
        while by := _answer(lambda: self._imported(job.mutant, tests)):
            if by not in tests:
                return by
            if by not in self._sound:
                self._sound[by] = not _answer(partial(self._imported, None, [by]))
            if self._sound[by]:
                return by
            tests.remove(by)
        return by

    def _imported(self, mutant: Mutant | None, tests: list[str]) -> str:
        if mutant is not None:
            path, load = self._root / mutant.file, SourceFileLoader.get_code

            def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
                if Path(loader.get_filename(name)).resolve() == path:
                    return code_of(self._root, mutant, loader.get_filename(name))
                return load(loader, name)

            SourceFileLoader.get_code = get_code  # type: ignore[method-assign,assignment]
        plugin = _First()
        status = self._pytest(["-x", *tests], plugin)
        return plugin.failed or ("" if status == 0 else "the import")

    def _quick_round(self, jobs: list[Job]) -> Iterator[tuple[Job, str]]:
        """Yield each job and the test that failed, from one process that has imported all tests."""
        reading, writing = os.pipe()
        log, answered = self._folder / "log", 0
        if (process := os.fork()) == 0:
            with _leaving():
                os.close(reading)
                _be_silent(log)
                files = sorted({test.partition("::")[0] for job in jobs for test in job.tests})
                self._pytest(files, _Quick(self._root, jobs, writing))
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                at, _, by = line.rstrip("\n").partition(" ")
                answered += 1
                yield jobs[int(at)], by
        os.waitpid(process, 0)
        if answered < len(jobs):
            raise RuntimeError(log.read_text(encoding="utf-8")[-3000:])

    def _pytest(self, arguments: list[str], plugin: object) -> int:
        from hypothesis import Phase, configuration, settings  # noqa: PLC0415 - after the fork

        configuration.set_hypothesis_home_dir(self._folder / "hypothesis")
        phases = [Phase.explicit, Phase.generate]  # a failure is enough: none is made smaller
        settings.register_profile("mutants", phases=phases, database=None)
        settings.load_profile("mutants")  # that of `tests/conftest.py` starts from it
        options = [
            "-s",
            "-q",
            "-p",
            "no:cacheprovider",
            "-W",
            _REWRITE,
            "--rootdir",
            str(self._root),
        ]
        options += ["--basetemp", str(self._folder / "t"), "--hypothesis-seed=0"]
        return int(pytest.main([*options, *arguments], plugins=[plugin]))


class _First:
    """A pytest plugin that keeps the first test that failed."""

    failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = self.failed or report.nodeid


class _Quick(_First):
    """A pytest plugin that runs no test but in forked processes: those of each mutant."""

    def __init__(self, root: Path, jobs: list[Job], out: int) -> None:
        self._root, self._jobs, self._out = root, jobs, out
        self._sound: dict[str, bool] = {}
        self._functions: dict[tuple[Path, str, int], list[FunctionType]] = defaultdict(list)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # `tests/conftest.py` hides what was collected
        resolved: dict[str, Path] = {}
        for one in gc.get_objects():
            if isinstance(one, FunctionType):
                code = one.__code__
                name = code.co_filename
                path = resolved.get(name) or resolved.setdefault(name, Path(name).resolve())
                self._functions[path, code.co_qualname, code.co_firstlineno].append(one)
        gc.freeze()
        for at, job in enumerate(self._jobs):
            os.write(self._out, f"{at} {self._judged(job)}\n".encode())
        return True

    def _judged(self, job: Job) -> str:
        tests = [one for one in job.tests if one in self._items and self._sound.get(one, True)]
        while by := _answer(lambda: self._run(job.mutant, tests)):
            if by not in tests:
                return by
            if by not in self._sound:
                self._sound[by] = not _answer(partial(self._run, None, [by]))
            if self._sound[by]:
                return by
            tests.remove(by)
        return by

    def _run(self, mutant: Mutant | None, tests: list[str]) -> str:
        if mutant is not None and not self._put(mutant):
            return UNFIT
        for test, following in zip(tests, [*tests[1:], None], strict=True):
            item, nextitem = self._items[test], self._items[following] if following else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            if self.failed:
                return self.failed
        return ""

    def _put(self, mutant: Mutant) -> bool:
        """Give the functions of a file the mutant's code; whether there was one that differs."""
        path = self._root / mutant.file
        name = next(
            (
                some[0].__code__.co_filename
                for (file, *_), some in self._functions.items()
                if file == path
            ),
            "",
        )
        found = False
        codes = [code_of(self._root, mutant, name)] if name else []
        while codes:
            code = codes.pop()
            codes += [one for one in code.co_consts if isinstance(one, CodeType)]
            for function in self._functions.get((path, code.co_qualname, code.co_firstlineno), ()):
                if function.__code__ != code:
                    if function.__code__.co_freevars != code.co_freevars:
                        return False
                    function.__code__, found = code, True
        return found


def _answer(ask: Callable[[], str]) -> str:
    """Return what is answered in a forked process: `NO_ANSWER` where it crashes or hangs."""
    reading, writing = os.pipe()
    if (process := os.fork()) == 0:
        with _leaving():
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
            _be_silent()
            os.write(writing, b"." + ask().encode())
    os.close(writing)
    ready, _, _ = select.select([reading], [], [], PATIENCE_SECONDS)
    said = os.read(reading, 65536) if ready else b""
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return said[1:].decode() if said else NO_ANSWER


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """End a forked process with what it did: nothing of its parent's is closed or written."""
    try:
        yield
    except BaseException:  # noqa: BLE001 - a forked process must not go on as its parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _be_silent(log: Path = Path(os.devnull)) -> None:
    null = os.open(log, os.O_RDWR | os.O_CREAT)
    for number in (0, 1, 2):
        os.dup2(null, number)
