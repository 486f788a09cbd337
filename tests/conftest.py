"""With REFOLD_CHECK=1, all runs that tests record with the engine are re-executed right after.

`refold.record` does so by itself; the engine imports no replay, so its own tests are joined to it
here (CONTRACT.md §12.12).  Left out are tests that count how often a program is executed.
"""

import faulthandler
import gc
import itertools
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Generator, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

# Plugins are rewritten for their `assert`s, with all that they are shipped with: a second of a new
# environment's first tests, for nothing.
for _finder in sys.meta_path:
    getattr(_finder, "_must_rewrite", set()).difference_update(("anyio", "hypothesis", "refold"))

from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis.internal import charmap  # noqa: E402
from hypothesis.internal.conjecture import providers  # noqa: E402

from tests.support.clusters import ray_cluster  # noqa: E402

_SLOW: Final = [HealthCheck.too_slow]  # how long a machine takes says nothing of a law
settings.register_profile("refold", max_examples=5, deadline=None, suppress_health_check=_SLOW)
settings.register_profile("whole", max_examples=100, deadline=None, suppress_health_check=_SLOW)
settings.load_profile("refold")  # --hypothesis-profile=whole: another one, as `.ci/nightly` does


def pytest_configure(config: pytest.Config) -> None:
    """Let Ctrl-C be one below a shell that runs the tests in the background, too: some send it.

    Where CI is set, runs of pytest within tests would say more than elsewhere.  No test asks a
    server by TLS, but each client that is made reads all certificates of the machine, 25 ms long:
    here they are looked for in a folder, one by one and when needed, and this one has none.
    Which runs were recorded here, and how far long logs were read, is kept beside, and not where it
    is for the user; nor with those of earlier tests, since each new one looks at 4,096 old ones.
    """
    os.environ.setdefault("REFOLD_CHECK", "0")  # no process for each resume and fork of a test
    for name in ("CI", "BUILD_NUMBER", "SSL_CERT_FILE"):
        os.environ.pop(name, None)
    os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)
    kept = TemporaryDirectory(prefix="refold-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(kept.cleanup)
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CACHE_HOME"] = kept.name
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(_Hanging())
    if config.getoption("--hypothesis-profile") is None:
        # It parses all of the product for constants, which few of five examples would have.
        providers._get_local_constants = lambda: providers._local_constants


def _unsynced(really: Callable[[int], None]) -> Callable[[int], None]:
    """Return a sync that leaves files to the operating system, which no test outlives.

    A run of all tests would wait for the disk tens of thousands of times.
    """

    def sync(descriptor: int) -> None:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode) and not stat.S_ISDIR(mode):
            really(descriptor)  # may be refused

    return sync


for _name in ("fsync", "fdatasync"):  # macOS has one of them
    if _really := getattr(os, _name, None):
        setattr(os, _name, _unsynced(_really))  # before a test file imports it


class _Hanging:
    """Ends a process whose test hangs, with the stacks of all threads.

    A test has ten minutes, and a long one an hour: some try thousands of programs.

    pytest's own `faulthandler_timeout` starts and ends a thread for each test: a seventh of the
    CPU time of a small one.  Here one is started at most every second.
    """

    def __init__(self) -> None:
        self._stderr = os.dup(2)  # before pytest captures it
        self._next = 0.0
        self._is_long = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        is_long = item.get_closest_marker("long") is not None
        if time.monotonic() >= self._next or is_long != self._is_long:
            seconds = 3_600 if is_long else 600
            faulthandler.dump_traceback_later(seconds, exit=True, file=self._stderr)
            self._next, self._is_long = time.monotonic() + 1, is_long

    def pytest_exception_interact(self) -> None:
        self._next = 0.0  # pytest has just cancelled it

    def pytest_unconfigure(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        os.close(self._stderr)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Take one worker more than there are cores: a fifth of the tests' time is waiting."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) + 1
    return (os.cpu_count() or 1) + 1  # macOS


_OF_CLIENTS: Final = (
    "tests/adapters/", "tests/cli/commands/more/test_mcp", "tests/engine/models/",
    "tests/engine/wire/chat/test_answer", "tests/engine/wire/messages/test_answer",
    "tests/engine/wire/responses/test_answer", "tests/test_pytest_agents",
    "tests/test_pytest_models", "tests/testing/test_session_proxy",
    "tests/tools/delegation/test_words",
)  # fmt: skip
"""Files that import the clients of models: six seconds for all of them."""


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Give each worker whole files: what the tests of a file share is made once, not by each.

    One worker gets all files of `_OF_CLIENTS`. While they collect, hypothesis encodes all
    characters, as it does once in a new clone: each worker would do it, two seconds long.
    """
    charmap.intervals_from_codec("utf-8")
    if config.option.dist not in ("load", "loadfile"):
        return None
    scheduler = import_module("xdist.scheduler").LoadFileScheduling(config, log)
    by_file = scheduler._split_scope
    scheduler._split_scope = lambda nodeid: (
        "clients" if nodeid.startswith(_OF_CLIENTS) else by_file(nodeid)
    )
    return scheduler  # type: ignore[no-any-return]  # an object of xdist's


def pytest_sessionstart(session: pytest.Session) -> None:
    """Have a worker report of a test what is shown: not its start, and no quick setup or teardown.

    Half of the messages: they take 0.4 ms of a test, as much as all else of a small one.
    """
    if not hasattr(session.config, "workerinput"):
        return
    plugins = session.config.pluginmanager.get_plugins()
    worker: Any = next(each for each in plugins if type(each).__name__ == "WorkerInteractor")
    send = worker.sendevent

    def sent(name: str, **message: Any) -> None:
        report: Any = message["data"] if name == "testreport" else {"when": name}
        if report["when"] in ("setup", "teardown") and report["duration"] < 0.005:
            is_shown = report["outcome"] != "passed" or bool(report["sections"])
        else:
            is_shown = name != "logstart"
        if is_shown:
            send(name, **message)

    worker.sendevent = sent


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Hide from the garbage collector what is collected: half a million objects that all stay.

    To look through them takes a third of a second, each time; no test has made any of them.
    What the tests make is looked through every 200,000 objects, not 700: it saves a tenth of their
    time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(200_000, 20, 100)
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def _nothing_old_is_looked_through() -> None:
    """Hide what earlier files left: a test that collects garbage looks for its own alone.

    The command line configures structlog for its whole process.
    """
    gc.freeze()
    if (structlog := sys.modules.get("structlog")) is not None:
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def _names(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Iterator[int]]:
    return tmp_path_factory.mktemp("t"), itertools.count()


@pytest.fixture
def tmp_path(_names: tuple[Path, Iterator[int]], request: pytest.FixtureRequest) -> Path:
    """Return a new folder, named after the test.

    pytest's own fixture looks through the folders of all earlier tests: two thirds of the CPU time
    of a small one.
    """
    above, numbers = _names
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = above / f"{name}{next(numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin at another file of a folder: what one compiles, the others load.

    In a new clone, pytest compiles 500 test files.  Workers that go the same way all compile all.
    """
    report = yield
    worker = getattr(collector.config, "workerinput", None)
    if worker and isinstance(collector, pytest.Directory) and report.result:
        number = int(worker["workerid"].removeprefix("gw")) % worker["workercount"]
        first = len(report.result) * number // worker["workercount"]
        report.result = report.result[first:] + report.result[:first]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let syrupy know which tests were skipped: runs of pytest within tests make it forget."""
    for nodeid in _skipped:
        session.config._syrupy.ran_item(nodeid, "skipped")  # type: ignore[attr-defined]


_skipped: Final[list[str]] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep which tests were skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have all workers agree on the order, and refuse a long test that has snapshots.

    syrupy fails each run that leaves such a test out.
    """
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path.parts)
    for item in items:
        if item.get_closest_marker("long") and "snapshot" in getattr(item, "fixturenames", ()):
            raise pytest.UsageError(f"{item.nodeid} has snapshots and is marked long; unmark it")


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Leave out the long ones of a test's parameters here, before each is made and then deselected.

    There are 3,400: to make them takes each worker two seconds.
    """
    yield
    if metafunc.config.option.markexpr == "not long":
        calls = metafunc._calls
        above = list(metafunc.definition.iter_markers())
        quick = [call for call in calls if all(mark.name != "long" for mark in above + call.marks)]
        calls[:] = quick or calls[:1]


@pytest.fixture(
    scope="session",
    params=[0, *(pytest.param(turn, marks=pytest.mark.long) for turn in range(1, 10))],
)
def many_times() -> None:
    """A law is checked once, and nine times more with `-m long`: on other examples each time."""


_COUNTED: Final = {
    "test_run_is_refused_after_the_end": "the first execution's `run` is kept",
    "test_what_no_log_can_hold_is_refused_before_it_is_asked": "counts its refusals",
    "test_a_child_cannot_widen_what_its_parent_has": "counts what its child was granted",
    "test_results_have_the_types_that_the_tool_declares": "counts its results",
    "test_a_variable_asks_for_all_of_them": "sets the variable itself",
}
"""Tests whose programs may not be executed once more, and why."""


def _is_asked() -> bool:
    return os.environ.get("REFOLD_CHECK", "") not in ("", "0")


if _is_asked():
    from refold.api import reexecute
    from refold.engine.runners import recording
    from refold.engine.runners.recorded import Recording
    from refold.replay.testing.selfcheck import checked, twin_of

    def _checking(record: Callable[..., Recording]) -> Callable[..., Recording]:
        def recorded(program: Any, *arguments: Any, **options: Any) -> Recording:
            done = record(program, *arguments, **options)
            tools, session = options.get("tools", ()), options.get("session")
            if not _is_asked():
                return done
            return checked(
                done, lambda: reexecute(done, program, tools=tools, session=twin_of(session))
            )

        return recorded

    recording.record = _checking(recording.record)  # before a test file imports it

    @pytest.fixture(autouse=True)
    def _executed_as_often_as_counted(
        request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if getattr(request.node, "originalname", "") in _COUNTED:
            monkeypatch.delenv("REFOLD_CHECK")


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[Any]:
    """A cluster of Ray on loopback, to which this process is connected; for long tests."""
    with ray_cluster() as cluster:
        yield cluster
