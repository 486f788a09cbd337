"""The pytest plugin: options, a marker and fixtures for tests of programs that delegate.

pytest imports this file at every start, so it imports nothing but pytest; a fixture's imports
happen when a test asks for it. `refold.testing` records and replays runs,
`refold.testing.refold_models` requests to models, and `refold.replay.testing.snapshot` makes
snapshots.

To add an option: declare it in `pytest_addoption`, obey it in `pytest_configure`. To add a fixture:
put its imports inside it. The rules are CONTRACT.md §13.11 to §13.15, and §16.12.
"""

import ast
import contextlib
import fnmatch
import os
import shlex
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

    from refold.testing.refold_command import RefoldCommand
    from refold.testing.refold_models import RefoldModels
    from refold.testing.refold_run import RefoldRun, Settings
    from refold.testing.session_proxy import SessionProxy

_RUNS: Final = pytest.StashKey[list["RefoldRun | RefoldCommand"]]()
_MODELS: Final = pytest.StashKey["RefoldModels"]()

_SESSION: Final = pytest.StashKey["SessionProxy"]()
_PROXIED: Final = "refold_models"
"""The fixture for which clients are led to a proxy before they are made."""

_FOLDERS: Final = frozenset({"tmp_path"})
"""Fixtures that are a folder, a new one for each test."""
_OURS: Final = frozenset(
    {"refold_run", "refold_command", "refold_models", "delegation_snapshot", "log_snapshot"}
)
_MODULES: Final = pytest.StashKey[set[Path]]()
"""Test files that were collected."""
_UNREAD: Final = pytest.StashKey[bool]()
"""Set if something could not be collected."""
_SAMPLES: Final = pytest.StashKey[dict[str, list[str]]]()
"""The structures of a test's recordings, by snapshot."""
_UNSAMPLED: Final = pytest.StashKey[str]()
"""How a recording for them failed; empty if none did."""
_IS_LAST: Final = pytest.StashKey[bool]()
"""Whether the recording that is made is the one that is kept."""
_DONE: Final = pytest.StashKey[bool | None]()
"""Whether a test has passed; `None` if it was skipped, absent if it was not run."""

_UNJUDGED: Final = (KeyboardInterrupt, pytest.exit.Exception, pytest.skip.Exception)
"""Exceptions that end a test without a verdict."""
_MODES: Final = ("none", "once", "new_episodes", "all", "rewrite")
_NETWORKS: Final = ("none", "loopback", "any")
_CHOICES: Final = {"record": _MODES, "network": _NETWORKS, "on_miss": ("recorded", "fail")}
_INI: Final = {
    "record": "none", "recordings": "recordings", "network": "none", "on_miss": "recorded"
}  # fmt: skip
"""Arguments of the marker whose default is an ini option, `refold_<name>`, and its default."""
_MARKER: Final = (
    "refold(record=None, tools=(), recordings='recordings', network='none', "
    "on_miss='recorded', upstreams=(), tokens=False, files=False): how Refold's fixtures record "
    "or replay this test. record: none, once, new_episodes, all or rewrite "
    "(overridden by --refold-record). tools: passed to each run. recordings: "
    "folder next to the test file. network: network access during a replay: "
    "none, loopback or any. on_miss: recorded, or fail, which refuses changed "
    "model requests. upstreams: [NAME=]URL, as for refold record "
    "--upstream. tokens, files: whether delegation_snapshot includes token "
    "counts and changed files"
)


# --- options and markers ---------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("refold", "recorded agent runs")

    def option(name: str, said: str, **form: Any) -> None:
        group.addoption(name, help=said, **form)

    option(
        "--refold-record",
        "what Refold's fixtures record: none (default); once: tests without any recordings; "
        "new_episodes: runs without a recording; all: every run; "
        "rewrite: every run, but keep the old recording if the run and the test both fail",
        choices=_MODES,
    )
    option(
        "--refold-accept",
        "accept the current behaviour of the selected tests: for each one that passes, record "
        "again whatever no longer replays, and update its snapshots",
        action="store_true",
    )
    option(
        "--refold-older-than",
        "list the recordings of the selected tests that are older than this, with their age; "
        "0 lists all",
        metavar="DAYS",
        type=float,
    )
    option(
        "--refold-samples",
        "with --refold-record=all: record each test N times; snapshots without words then hold "
        "how often all of them have each agent",
        metavar="N",
        type=int,
        default=0,
    )
    option(
        "--refold-check",
        "replay every run right after refold.record has recorded it; a test fails if its program "
        "behaves differently, and code that bypasses run causes warnings",
        action="store_true",
    )
    option(
        "--refold-html",
        "write an HTML page to this folder for each log that a failed test recorded or replayed",
        metavar="DIR",
    )
    for name, default in _INI.items():
        said = f"default of the marker's {name}: @pytest.mark.refold({name}=...)"
        parser.addini(f"refold_{name}", said, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and obey the options."""
    for name, known in _CHOICES.items():
        if (value := config.getini(f"refold_{name}")) not in known:
            expected = ", ".join(known)
            raise pytest.UsageError(f"ini option refold_{name}: {value!r} is not one of {expected}")
    if config.getoption("refold_accept") and config.getoption("refold_record"):
        raise pytest.UsageError("--refold-accept cannot be used with --refold-record")
    if config.getoption("refold_samples") and config.getoption("refold_record") != "all":
        raise pytest.UsageError("--refold-samples needs --refold-record=all")
    config.addinivalue_line("markers", _MARKER)
    config.pluginmanager.register(_Recorded(), "refold-recorded")
    if config.getoption("refold_check"):  # of each run, also in processes that tests start
        patch = pytest.MonkeyPatch()
        patch.setenv("REFOLD_CHECK", "1")
        config.add_cleanup(patch.undo)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Make a marker that is wrong an error of the collection, so that nothing runs."""
    is_file, path = isinstance(collector, pytest.Module), collector.path
    above = _conftests_above(path / "any", collector.config)
    files = [path, *above] if path.is_file() else [*above, *path.glob("*/conftest.py")]
    is_named = any(map(_names_proxied, files))
    with _leading(collector.config, is_named=is_named, has_keys=not path.is_file()):
        report = yield
    if is_file and report.passed:
        collector.config.stash.setdefault(_MODULES, set()).add(collector.path)
    if not report.passed:  # a file that skips itself has tests, too
        collector.config.stash[_UNREAD] = True
    items = [node for node in report.result or () if isinstance(node, pytest.Item)]
    problems = [
        f"{item.nodeid}: @pytest.mark.refold: {problem}"
        for item in items
        for marker in item.iter_markers("refold")
        if (problem := _problem(marker))
    ]
    if problems:
        collector.config.stash[_UNREAD] = True
        report.outcome = "failed"
        report.longrepr = "\n".join(dict.fromkeys(problems))
    return report


def _problem(marker: pytest.Mark) -> str:
    """Return the problem of a marker; empty for none."""
    known = {
        **_CHOICES, "tools": (), "recordings": (), "upstreams": (),
        "tokens": (True, False), "files": (True, False),
    }  # fmt: skip
    if marker.args:
        return f"only takes named arguments: {', '.join(sorted(known))}"
    for name, value in marker.kwargs.items():
        if name not in known:
            return f"unknown argument {name!r}; known: {', '.join(sorted(known))}"
        if known[name] and value not in known[name]:
            return f"{name}={value!r}: expected one of {', '.join(map(str, known[name]))}"
    for name, what in (("tools", "tools"), ("upstreams", "[NAME=]URL")):
        if not isinstance(marker.kwargs.get(name, ()), (list, tuple)):
            return f"{name}: expected a list of {what}"
    if not isinstance(marker.kwargs.get("recordings", ""), (str, os.PathLike)):
        return "recordings: expected a folder"
    return ""


def _marked(item: pytest.Item) -> dict[str, Any]:
    """Return the arguments of a test's markers; the nearest one wins."""
    found: dict[str, Any] = {name: item.config.getini(f"refold_{name}") for name in _INI}
    for marker in reversed([*item.iter_markers("refold")]):
        found |= marker.kwargs
    return found


# --- clients that are made before their test -------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """Start a proxy before the first file is imported, if a test file asks for it.

    Nothing is started in a session whose files do not name the fixture, nor in one whose workers
    do that (xdist).
    """
    given = early_config.known_args_namespace
    has_workers = getattr(given, "numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ
    named = [] if has_workers else [*filter(_names_proxied, _test_files(early_config))]
    if named:
        with contextlib.suppress(ModuleNotFoundError):  # of the extra: the fixture says so
            from refold.testing.session_proxy import SessionProxy  # noqa: PLC0415 - the extra

            session = early_config.stash[_SESSION] = SessionProxy()
            ends = contextlib.ExitStack()
            early_config.add_cleanup(ends.close)
            mode = given.refold_record or early_config.getini("refold_record")
            is_replayed = mode == "none" and not given.refold_accept
            ends.enter_context(session.started(has_keys=is_replayed))
    is_named = any(each.name == "conftest.py" for each in named)
    with _leading(early_config, is_named=is_named, has_keys=True):
        return (yield)


def _test_files(config: pytest.Config) -> Iterator[Path]:
    """Yield the files that pytest may import, below its arguments."""
    folder, ini = config.invocation_params.dir, config.getini
    given = config.known_args_namespace.file_or_dir or ini("testpaths") or ["."]
    patterns = [*ini("python_files"), "conftest.py"]
    skipped = [*ini("norecursedirs"), "node_modules", "__pycache__", "site-packages"]
    for root in (folder / str(each).partition("::")[0] for each in given):
        if root.is_file():
            yield root
        yield from _conftests_above(root, config)
        for at, folders, files in os.walk(root):
            folders[:] = [each for each in folders if not _is_any(each, skipped)]
            yield from (Path(at, each) for each in files if _is_any(each, patterns))


def _conftests_above(path: Path, config: pytest.Config) -> list[Path]:
    folders = [each for each in path.parents if each.is_relative_to(config.rootpath)]
    return [each / "conftest.py" for each in folders]


def _is_any(name: str, patterns: list[str]) -> bool:
    return any(fnmatch.fnmatch(name, each) for each in patterns)


def _names_proxied(file: Path) -> bool:
    """Return whether a file takes the fixture: as an argument, or by a text that is its name."""
    try:
        source = file.read_bytes()
        nodes = ast.walk(ast.parse(source)) if _PROXIED.encode() in source else ()
    except (OSError, SyntaxError, ValueError):  # pytest says so
        return False
    return any(_PROXIED in (getattr(n, "arg", ""), getattr(n, "value", "")) for n in nodes)


def _leading(config: pytest.Config, *, is_named: bool, has_keys: bool = False) -> Any:
    """Return a block in which clients find the proxy, if what it runs names the fixture.

    All else sees the environment as it is: another mock compares addresses, and a test that is
    skipped without a key is skipped all the same.  Conftest files have placeholder keys alone.
    """
    session: SessionProxy | None = config.stash.get(_SESSION, None)
    if session is None or not (is_named or has_keys):
        return contextlib.nullcontext()
    return session.leading(is_named=is_named)


# --- fixtures --------------------------------------------------------------------------------


@pytest.fixture
def refold_run(request: pytest.FixtureRequest) -> "RefoldRun":
    """Record a run, or replay the recording: `refold_run(program, input, tools=[…])`.

    Takes what `refold.record` takes, and returns a recording in both cases. A replay executes
    neither tool nor model nor child; the test fails if the program no longer matches the recording
    `recordings/<test file>/<test>.jsonl`. `--refold-record=once` records.
    """
    from refold.testing.refold_run import RefoldRun  # noqa: PLC0415 - only where it is used

    runs = RefoldRun(_settings(request))
    request.node.stash.setdefault(_RUNS, []).append(runs)
    return runs


@pytest.fixture
def refold_command(request: pytest.FixtureRequest) -> "RefoldCommand":
    """Run a command, recorded or answered from the recording: `refold_command(["claude", …])`.

    It works like `refold record -- COMMAND` and `refold replay LOG -- COMMAND`, and returns the
    exit code, the output, and the tree. A replay needs no key and no network; the test fails if the
    command does something else than was recorded under `recordings/<test
    file>/<test>.command.jsonl`. `--refold-record=once` records.

    Raises:
        ExtraMissing: the proxy's packages are not installed.
    """
    from refold.engine.errors import ExtraMissing  # noqa: PLC0415 - only where it is used

    with ExtraMissing.of("proxy"):
        from refold.testing.refold_command import PART, RefoldCommand  # noqa: PLC0415 - the extra
    session = request.config.stash.get(_SESSION, None)
    command = RefoldCommand(_settings(request, PART), session)
    request.node.stash.setdefault(_RUNS, []).append(command)
    return command


@pytest.fixture
def refold_models(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[RefoldModels]":
    """Record a test's requests to models, by any client, or answer them from the recording.

    Clients that the test makes, and processes that it starts, find the proxy by OPENAI_BASE_URL
    and ANTHROPIC_BASE_URL; others take `refold_models.url("GROQ_BASE_URL", "https://…")`.  A
    replay needs no key and no network; the test fails if it asks for anything else than was
    recorded under `recordings/<test file>/<test>.models.jsonl`.  `--refold-record=once` records.

    Raises:
        ExtraMissing: the proxy's packages are not installed.
    """
    from refold.engine.errors import ExtraMissing  # noqa: PLC0415 - only where it is used

    with ExtraMissing.of("proxy"):
        from refold.testing.refold_models import PART, RefoldModels  # noqa: PLC0415 - the extra
    settings = _settings(request, PART)
    models = RefoldModels(
        settings,
        monkeypatch.setenv,
        lambda: tmp_path_factory.mktemp("models"),
        session=request.config.stash.get(_SESSION, None),
    )
    try:
        models.start()
        request.node.stash[_MODELS] = models
        yield models
    finally:  # of a test that did not come to its end: others are over by now
        models.give_up(is_kept=False)


def _settings(request: pytest.FixtureRequest, part: str = "") -> "Settings":
    """Return the settings of a test; `part` follows its recordings' names."""
    from refold.replay.testing.recordings import Place  # noqa: PLC0415 - only where it is used
    from refold.testing.refold_run import Settings, folder_of  # noqa: PLC0415 - see above

    item: pytest.Item = request.node
    marked = _marked(item)
    options = request.config.getoption
    mode: Any = "accept" if options("refold_accept") else options("refold_record")
    folder = folder_of(item.path, marked["recordings"])
    return Settings(
        place=Place(folder, f"{_stem(item)}{part}"),
        mode=mode or marked["record"],  # the command line goes before the marker
        command=_command(item),
        base=request.config.invocation_params.dir,
        network=marked["network"],
        on_miss=marked["on_miss"],
        tools=marked.get("tools", ()),
        name=item.name,
        test=f"{item.path.name}::{item.nodeid.partition('::')[2]}",
        upstreams=marked.get("upstreams", ()),
        folders={
            name: str(request.getfixturevalue(name)) for name in _FOLDERS & {*request.fixturenames}
        },
        asks=_PROXIED in getattr(getattr(item, "_fixtureinfo", None), "argnames", ()),
    )


def _stem(item: pytest.Item) -> str:
    """Return the name of a test's recordings: its class, its function, its case."""
    from refold.replay.testing.recordings import stem_of  # noqa: PLC0415 - only where it is used

    case = getattr(item, "callspec", None)
    function = getattr(item, "originalname", None) or item.name
    if (owner := getattr(item, "cls", None)) is not None:
        function = f"{owner.__qualname__}.{function}"
    return stem_of(function, case.id if case else None)


def _command(item: pytest.Item) -> str:
    """Return the command that runs this test alone, from where pytest was started.

    A path that leads up is whole: syrupy takes snapshots of others for unused where one has `..`.
    """
    path = os.path.relpath(item.path, item.config.invocation_params.dir)
    path = str(item.path) if path.startswith("..") else path
    _, colons, inside = item.nodeid.partition("::")
    return shlex.join(["pytest", f"{path}{colons}{inside}"])


@pytest.fixture
def delegation_snapshot(request: pytest.FixtureRequest) -> "SnapshotAssertion":
    """The delegation tree of this test's recordings: `assert recording == delegation_snapshot`.

    A recording, a log's path or a tree is compared with the text under `__snapshots__`;
    `--snapshot-update` writes it.  `delegation_snapshot(words=False)` leaves out what a model or a
    task says.  `@pytest.mark.refold(tokens=True)` has it count tokens, `files=True` name the files
    that each conversation of a watched command changed.

    Raises:
        ExtraMissing: syrupy is not installed, or not loaded as a plugin.
    """
    snapshot = _snapshot(request)
    from refold.replay.testing import snapshot as kinds  # noqa: PLC0415 - needs syrupy

    marked = _marked(request.node)
    told = {name: marked.get(name, False) for name in ("tokens", "files")}
    ours = kinds.DelegationAssertion(
        session=snapshot.session,
        extension_class=kinds.delegation_extension(**told),
        test_location=snapshot.test_location,
        update_snapshots=snapshot.update_snapshots,
    )
    ours.samples = request.node.stash.get(_SAMPLES, None)
    ours.is_last = request.node.stash.get(_IS_LAST, True)
    return ours


@pytest.fixture
def log_snapshot(request: pytest.FixtureRequest) -> "SnapshotAssertion":
    """The event log of this test's recordings as text: `assert recording == log_snapshot`.

    JSON lines without volatile fields, of the run and all runs below it; a recording, a log's path
    or a tree is compared with the text under `__snapshots__`; `--snapshot-update` writes it.

    Raises:
        ExtraMissing: syrupy is not installed, or not loaded as a plugin.
    """
    snapshot = _snapshot(request)
    from refold.replay.testing.snapshot import LogSnapshotExtension  # noqa: PLC0415 - needs syrupy

    return snapshot.use_extension(LogSnapshotExtension)


def _snapshot(request: pytest.FixtureRequest) -> "SnapshotAssertion":
    if not request.config.pluginmanager.hasplugin("syrupy"):
        from refold.engine.errors import ExtraMissing, UsageError  # noqa: PLC0415 - as it is raised

        if find_spec("syrupy"):
            name = request.fixturename
            raise UsageError(
                f"{name} needs syrupy, but pytest has not loaded it: remove -p no:syrupy"
            )
        raise ExtraMissing("syrupy", "pytest")
    snapshot: SnapshotAssertion = request.getfixturevalue("snapshot")
    return snapshot


# --- before and after a test -----------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Keep the snapshots of a test that fails; with `--refold-accept`, update those of others."""
    syrupy: Any = getattr(item.config, "_syrupy", None)
    is_named = _PROXIED in getattr(item, "fixturenames", ())
    if syrupy is None or not _is_ours(item):
        with _leading(item.config, is_named=is_named):
            return (yield)
    held: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch, _leading(item.config, is_named=is_named):
        if item.config.getoption("refold_accept"):
            patch.setattr(item.config.option, "update_snapshots", True)
            patch.setattr(syrupy, "queue_snapshot_write", lambda **given: held.append(given))
        _sample(item, nextitem, syrupy)
        handled = yield
    if item.stash.get(_DONE, False):
        for given in held:
            syrupy.queue_snapshot_write(**given)
        return handled
    _keep_snapshots(syrupy, item)
    if held:
        for result in _results_of(syrupy, item):
            result.success = result.success and not (result.created or result.updated)
            result.created = result.updated = False
    return handled


def _sample(item: pytest.Item, nextitem: pytest.Item | None, syrupy: Any) -> None:
    """Record a test as often as `--refold-samples` says, but once: that recording is kept."""
    count = item.config.getoption("refold_samples")
    if not count or "delegation_snapshot" not in getattr(item, "fixturenames", ()):
        return
    from refold.testing import samples  # noqa: PLC0415 - only where it is asked for

    item.stash[_SAMPLES], item.stash[_IS_LAST] = {}, False
    item.stash[_UNSAMPLED] = samples.why_none(item, nextitem, syrupy, count - 1)
    item.stash[_IS_LAST] = True


def _results_of(syrupy: Any, item: pytest.Item) -> Iterator[Any]:
    """Yield the results of a test's assertions."""
    for assertion in syrupy._assertions:  # noqa: SLF001 - there is no other way, in 5 to 7
        if assertion.test_location.item is item:
            yield from assertion.executions.values()


def _keep_snapshots(syrupy: Any, item: pytest.Item) -> None:
    """Tell syrupy that a test was skipped, and which kinds of snapshots it may have.

    Otherwise `--snapshot-update` removes what no assertion has read.  A kind that no assertion of
    this session named is unknown to syrupy: it removes those files even of tests that were skipped.
    """
    from syrupy.assertion import SnapshotAssertion  # noqa: PLC0415 - only of tests that fail
    from syrupy.location import PyTestLocation  # noqa: PLC0415 - the same

    from refold.replay.testing import snapshot as kinds  # noqa: PLC0415 - needs syrupy

    syrupy.ran_item(item.nodeid, "skipped")
    for kind in (kinds.DelegationSnapshotExtension, kinds.LogSnapshotExtension):
        SnapshotAssertion(
            session=syrupy,
            extension_class=kind,
            test_location=PyTestLocation(item),
            update_snapshots=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Keep the snapshots of tests that were not run: after `-x`, Ctrl-C, or a failed collection."""
    syrupy: Any = getattr(session.config, "_syrupy", None)
    if syrupy is not None and session.config.stash.get(_UNREAD, False):
        session.config.option.disable_unused_snapshots = True  # whose they are is not known
    is_worker = hasattr(session.config, "workerinput")
    if syrupy is not None and (not is_worker or session.config.getoption("maxfail")):
        for item in getattr(session, "items", ()):
            if _is_ours(item) and _DONE not in item.stash:
                _keep_snapshots(syrupy, item)
    yield


def _is_ours(item: pytest.Item) -> bool:
    return not _OURS.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Forget an earlier attempt: `--refold-samples` and other plugins run a test again."""
    keys: tuple[pytest.StashKey[Any], ...] = (_RUNS, _MODELS, _DONE)
    for key in keys:
        if key in item.stash:
            del item.stash[key]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that passed and asked otherwise than recorded, or not for all of it."""
    __tracebackhide__ = True
    models = item.stash.get(_MODELS, None)
    try:
        yield
        if (error := _failure_of_unittest(item)) is not None:
            if models is not None:
                models.give_up(is_kept=not isinstance(error, _UNJUDGED))
            return
        for runs in item.stash.get(_RUNS, ()):
            runs.settle()
        if models is not None:
            models.settle()
        if problem := item.stash.get(_UNSAMPLED, "") or _named_twice(item, passed=True):
            pytest.fail(problem, pytrace=False)
    except BaseException as error:
        if models is not None:
            models.give_up(is_kept=not isinstance(error, _UNJUDGED))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    """Keep a test's recordings once its tear-down has passed, too, which may have runs."""
    __tracebackhide__ = True
    for runs in item.stash.get(_RUNS, ()):
        runs.tear_down()
    yield
    if item.stash.get(_DONE, False):
        for runs in item.stash.get(_RUNS, ()):
            runs.settle()
        for part in _parts(item):
            part.keep()


def _parts(item: pytest.Item) -> "list[RefoldRun | RefoldCommand | RefoldModels]":
    """Return what records or replays in a test."""
    models = item.stash.get(_MODELS, None)
    return [*item.stash.get(_RUNS, ()), *([] if models is None else [models])]


def _failure_of_unittest(item: pytest.Item) -> BaseException | None:
    """Return the failure of a test of a `TestCase`: it raises nothing, and is asked later."""
    found: list[pytest.ExceptionInfo[BaseException]] = getattr(item, "_excinfo", None) or []
    return found[0].value if found else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show below a failed test what changed, and the commands that show it again."""
    report = yield
    if call.when == "call" or not report.passed:  # subtests, too, have a report
        has_failed = report.failed or item.stash.get(_DONE, None) is False
        item.stash[_DONE] = not has_failed and (report.passed or None)
    parts = _parts(item)
    if call.when == "call" and report.failed:
        report.sections += _changes(item)
        if any(part.explained for part in parts):
            _without_packages(report)
    if parts and report.failed:
        if causes := [part.explained for part in parts if part.explained]:
            target = _command(item).removeprefix("pytest ")
            vars(report)["refold_explained"] = [*causes[0], target]
        lines = [line for part in parts for line in part.how_to_reproduce().split("\n")]
        report.sections.append(("refold: reproduce", "\n".join(dict.fromkeys(lines))))
        if call.when == "call" and (folder := item.config.getoption("refold_html")):
            report.sections.append(("refold: pages", "\n".join(_pages(item, parts, folder))))
    if call.when == "call" and item.stash.get(_SAMPLES, None):
        from refold.testing.samples import varying  # noqa: PLC0415 - only where it is asked for

        snapshot = getattr(item, "funcargs", {}).get("delegation_snapshot")
        vars(report)["refold_varies"] = [*varying(snapshot)]
    if parts:
        vars(report)["refold_recorded"] = [str(log) for part in parts for log in part.recorded]
    return report


def _without_packages(report: pytest.TestReport) -> None:
    """Leave out the frames of installed packages, of a request that was refused: keep its error."""
    trace: Any = getattr(report.longrepr, "reprtraceback", None)
    entries = getattr(trace, "reprentries", [])
    own = [e for e in entries if "site-packages" not in str(getattr(e.reprfileloc, "path", ""))]
    if own and len(own) < len(entries):
        errors = [line for line in entries[-1].lines if line.startswith("E ")]
        own[-1].lines += errors * (own[-1] is not entries[-1])
        trace.reprentries = own


def _pages(item: pytest.Item, parts: list[Any], folder: str) -> Iterator[str]:
    """Write the pages of a failed test, each named after it; yield paths, or reasons."""
    from refold.engine.errors import RefoldError  # noqa: PLC0415 - for what failed
    from refold.page.document import page  # noqa: PLC0415 - the same
    from refold.page.html import page_html  # noqa: PLC0415 - the same
    from refold.page.output_files import OutputFile  # noqa: PLC0415 - the same
    from refold.replay.testing.recordings import stem_of  # noqa: PLC0415 - the same

    into = item.config.invocation_params.dir / folder
    for log, other in (pair for part in parts for pair in part.to_show()):
        target = into / f"{stem_of(item.nodeid, None)}-{log.stem}.html"
        try:
            into.mkdir(mode=0o700, parents=True, exist_ok=True)
            OutputFile(target, "html").write(page_html(page(log, other)).encode())
        except (RefoldError, OSError) as error:
            yield f"cannot write a page for {log}: {error}"
        else:
            yield str(target)


def _changes(item: pytest.Item) -> Iterator[tuple[str, str]]:
    """Yield what models were asked otherwise, and the differences of snapshots.

    Of the latter pytest cuts an assert's own explanation short.
    """
    models = item.stash.get(_MODELS, None)
    asked = models.what_differs() if models is not None else ""
    if asked:
        yield "refold: model requests that changed", asked
    syrupy: Any = getattr(item.config, "_syrupy", None)
    if syrupy and any(
        "Recording(status=" in str(one.asserted_data) for one in _results_of(syrupy, item)
    ):
        yield (
            "refold: a snapshot of a recording",
            (
                "A recording differs on every run and machine: compare only its output, "
                "or use delegation_snapshot or log_snapshot"
            ),
        )
    for fixture, title in (("delegation_snapshot", "delegation"), ("log_snapshot", "log")):
        snapshot: Any = getattr(item, "funcargs", {}).get(fixture)
        if not getattr(snapshot, "executions", None):
            continue
        last = snapshot.executions[snapshot.num_executions - 1]
        if not last.success and isinstance(last.asserted_data, str):
            from refold.replay.testing.snapshot import what_changed  # noqa: PLC0415 - for what failed

            # A changed request is not accepted by an update of snapshots: its text names what is.
            command = "" if asked else f"{_command(item)} --snapshot-update"
            text = what_changed(last.recalled_data, last.asserted_data, command)
            text = _named_twice(item) or text
            yield f"{title}: what changed", text


def _named_twice(item: pytest.Item, *, passed: bool = False) -> str:
    """Return which snapshot two values of a test share, of which an update keeps one; or empty."""
    taken: dict[str, str] = {}
    for fixture in ("delegation_snapshot", "log_snapshot"):
        snapshot: Any = getattr(item, "funcargs", {}).get(fixture)
        for one in getattr(snapshot, "executions", {}).values():
            name, value = f"{fixture}: {one.snapshot_name}", one.asserted_data
            if one.success >= passed and taken.setdefault(name, value) != value:  # not with `!=`
                return f"{name} is the name of two different snapshots: pass a name=… to each"
    return ""


# --- what was recorded -----------------------------------------------------------------------


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say so where a test run may record."""
    mode = config.getoption("refold_record") or config.getini("refold_record")
    return f"refold: --refold-record={mode}, runs are live" if mode != "none" else None


class _Recorded:
    """Reports recordings, and changes that stop several tests, at the end of all processes."""

    def __init__(self) -> None:
        self._logs: list[str] = []
        self._varies: list[str] = []
        self._groups: list[tuple[str, str]] = []
        self._is_part = False
        self._unused: set[str] = set()
        self._older: set[tuple[int, str]] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._logs.extend(getattr(report, "refold_recorded", ()))
        self._varies += [f"{report.nodeid}: {x}" for x in getattr(report, "refold_varies", ())]

    def pytest_deselected(self) -> None:
        self._is_part = True

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Put what stops several tests together, before their failures are shown."""
        self._list_kept(session)
        terminal: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        failed = terminal.getreports("failed") if terminal else []
        if any(hasattr(report, "refold_explained") for report in failed):
            from refold.testing.summary import grouped  # noqa: PLC0415 - for what failed

            self._groups = grouped(failed)

    def _list_kept(self, session: pytest.Session) -> None:
        """Find recordings that no test uses, and old ones; workers of xdist pass them on."""
        config = session.config
        folder = config.getini("refold_recordings")
        modules = config.stash.get(_MODULES, set())
        items = [each for each in getattr(session, "items", ()) if _may_record(each)]
        if not items and not any((path.parent / folder).is_dir() for path in modules):
            return
        from refold.testing import kept  # noqa: PLC0415 - where there may be recordings

        tests: list[kept.Test] = [
            (item.path, _marked(item)["recordings"], f"{_stem(item)}{part}")
            for item in items
            for part in ("", ".models", ".command")
        ]
        if (days := config.getoption("refold_older_than")) is not None:
            self._older.update((age, str(log)) for age, log in kept.older(tests, days))
        if not self._is_part and _UNREAD not in config.stash and _is_whole(config):
            tests += [(path, folder, "") for path in modules]
            self._unused.update(map(str, kept.unused(tests)))
        if (output := getattr(config, "workeroutput", None)) is not None:
            output["refold_kept"] = [sorted(self._unused), sorted(self._older)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        unused, older = getattr(node, "workeroutput", {}).get("refold_kept", ((), ()))
        self._unused.update(unused)
        self._older.update((age, log) for age, log in older)

    # Quoted, for pytest 8.3 does not have the name.
    def pytest_terminal_summary(self, terminalreporter: "pytest.TerminalReporter") -> None:
        older = sorted(self._older, key=lambda each: (-each[0], each[1]))
        unused = [
            shlex.quote(os.path.relpath(log)) for log in sorted(self._unused) if Path(log).exists()
        ]
        remove = [f"To remove them:\n  refold rm {' '.join(unused)}"] if unused else []
        sections = (
            *((title, [text]) for title, text in self._groups),
            ("refold: what varies between recordings", self._varies),
            ("refold: recorded", [os.path.relpath(log) for log in sorted({*self._logs})]),
            (
                "refold: old recordings",
                [f"{n} day{'s' * (n != 1)}  {os.path.relpath(log)}" for n, log in older],
            ),
            ("refold: unused recordings", [*unused, *remove]),
        )
        for title, lines in sections:
            if lines:
                terminalreporter.section(title)
                terminalreporter.write_line("\n".join(lines))


def _may_record(item: pytest.Item) -> bool:
    """Return whether a test may have recordings: with `request`, it may ask for any fixture."""
    code: Any = getattr(getattr(item, "function", None), "__code__", None)
    return _is_ours(item) or (code is not None and "request" in code.co_varnames)


def _is_whole(config: pytest.Config) -> bool:
    """Return whether all tests of each collected file were: no file, test or cache chose some."""
    if config.getoption("lf", default=False):
        return False
    folder = config.invocation_params.dir
    are_folders = all((folder / path).is_dir() for path in config.args)
    return are_folders or config.args_source is not config.ArgsSource.ARGS
