"""A package's names load on first use, and type checkers, hooks and tools see ordinary ones."""

import ast
import importlib
import inspect
import pickle
import re
import rlcompleter
import sys
import types
import typing
from importlib import import_module
from pathlib import Path
from subprocess import run
from typing import Any

import attrs
import pytest

import refold
from tests.support.loops import for_each

_PACKAGES = (
    "refold",
    "refold.engine.models",
    "refold.engine.runners",
    "refold.engine.session",
    "refold.replay",
    "refold.testing",
    "refold.tools",
)


@for_each("package", _PACKAGES)
def test_names_are_those_that_checkers_see(package: str) -> None:
    """Each is imported `as` itself, or it were no export to a checker, and comes from there."""
    module = import_module(package)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    block = next(each for each in ast.parse(source).body if isinstance(each, ast.If))
    told = {
        name.asname: str(line.module)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
        if name.asname == name.name
    }

    assert ast.unparse(block.test) == "TYPE_CHECKING"
    assert set(told) == set(dir(module)) - {"__version__"}
    for name, home in told.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@for_each("package", _PACKAGES)
def test_star_completion_and_reload_give_what_dir_shows(package: str) -> None:
    module = import_module(package)
    found = {name: getattr(module, name) for name in dir(module)}
    texts = {name: inspect.getdoc(each) for name, each in found.items()}
    starred: dict[str, object] = {}

    exec(f"from {package} import *", starred)
    completer = rlcompleter.Completer({"it": importlib.reload(module)})
    listed = {(completer.complete("it.", at) or "").rstrip("()") for at in range(len(found) + 1)}

    assert {name: starred[name] for name in module.__all__} == found
    assert sorted(module.__all__) == dir(module)
    assert listed - {""} == {f"it.{name}" for name in found if name != "__version__"}
    assert {name: getattr(module, name) for name in dir(module)} == found
    assert {name: inspect.getdoc(each) for name, each in found.items()} == texts


_NAMES = [(package, name) for package in _PACKAGES for name in dir(import_module(package))]


@for_each("package, name", _NAMES)
def test_a_name_is_pickled_and_its_hints_resolve(package: str, name: str) -> None:
    """Also the hints of its methods and properties; attrs evaluates none in an `__init__`."""
    found = getattr(import_module(package), name)
    members = vars(found).items() if isinstance(found, type) else ()
    parts = [getattr(each, "fget", each) for key, each in members if key != "__init__"]

    if isinstance(found, type) or inspect.isfunction(found):
        assert pickle.loads(pickle.dumps(found)) is found
    for each in (found, *parts):
        if isinstance(each, type) or inspect.isfunction(each):
            typing.get_type_hints(each)


def test_a_class_of_two_packages_tells_its_fields_once() -> None:
    found = [getattr(import_module(package), name) for package, name in _NAMES]
    docs = [str(each.__doc__) for each in found if isinstance(each, type)]

    assert max(doc.count("Attributes:") for doc in docs) == 1


_MADE_UP = """
from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.made_up_home import other as other, thing as thing
else:
    __getattr__, __dir__, __all__ = names(__name__, "own")
"""


def _package(monkeypatch: pytest.MonkeyPatch) -> Any:
    package = types.ModuleType("refold.made_up")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    exec(_MADE_UP, vars(package))
    return package


def test_a_home_is_imported_by_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and once; no other name is made up."""
    package = _package(monkeypatch)

    assert dir(package) == ["other", "own", "thing"]
    with pytest.raises(ModuleNotFoundError, match="made_up_home"):
        package.thing  # noqa: B018 - the access is what is tested
    home = types.ModuleType("refold.made_up_home")
    home.thing = found = object()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, home.__name__, home)
    assert package.thing is found
    assert vars(package)["thing"] is found
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018 - the access is what is tested


_WATCHED = """
import builtins, sys, threading, types

original, seen = builtins.__import__, []

def hooked(name, *rest, **named):
    seen.append(name)
    return original(name, *rest, **named)

class Watched(types.ModuleType):
    def __setattr__(self, name, value):
        if name == "__import__":
            raise AssertionError("somebody replaced the hook")
        super().__setattr__(name, value)

builtins.__import__ = hooked
builtins.__class__ = Watched
finders = [*sys.meta_path]
import refold
assert "refold.api" not in sys.modules
first = dir(refold)
ready = threading.Barrier(4)

def look(names):
    ready.wait(60)
    found.append({name: getattr(refold, name) for name in names})

found = []
orders = (first, first[::-1], first[1::2] + first[::2], sorted(first))
threads = [threading.Thread(target=look, args=[order]) for order in orders]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert [each == found[0] for each in found] == [True] * 4, found
for package in sys.argv[1:]:
    module = __import__(package, fromlist=["*"])
assert builtins.__import__ is hooked
assert sys.meta_path[-len(finders):] == finders
assert "refold.api" in seen
"""


@pytest.mark.long
def test_hooks_of_others_stay_and_threads_import_at_once() -> None:
    """A hook sees the homes of names; ours never replace it, not even while they load."""
    words = [sys.executable, "-c", _WATCHED, *_PACKAGES]

    ran = run(words, capture_output=True, text=True, check=False, timeout=60)

    assert (ran.returncode, ran.stderr) == (0, "")


@for_each("name", [each for each in dir(refold) if each != "__version__"])
def test_help_tells_every_field_and_argument(name: str) -> None:
    """What stands below a field in the source is no docstring of Python's: `help` would lack it."""
    found = getattr(refold, name)
    text = inspect.getdoc(found) or ""

    if attrs.has(found):
        members = [each.name for each in attrs.fields(found) if each.init]
    elif inspect.isfunction(found) and "those of `record`" not in text:
        members = [*inspect.signature(found).parameters]
    else:
        members = []

    assert text
    assert [each for each in members if not re.search(rf"\b{each}\b", text)] == []


_LIGHT = """
import sys

class Refused:
    present = ()

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        known = sys.stdlib_module_names - {heavy} | {needed}
        if top != "refold":  # what is optional is asked for, too
            if top not in known:
                raise ModuleNotFoundError(f"{{name}} is loaded", name=name)
        elif not (name + ".").startswith(self.present):
            if not any(each.startswith(name + ".") for each in self.present):
                raise AssertionError(f"{{name}} is loaded")

log, also, refused = *sys.argv[1:], Refused()
sys.meta_path.insert(0, refused)
refused.present = {imported}
import refold

refused.present += {recorded}
assert refold.record(lambda run, _: None, log=log).ok
refused.present += {verified}
assert refold.verify(log).intact
refused.present += {replayed}
assert refold.reexecute(log, lambda run, _: None).identical
refused.present += {called}

@refold.tool
def double(n: int) -> int:
    return 2 * n

def program(run, n):
    return run.tool(double, n=n)

assert refold.record(program, 4, log=also).output == 8
assert refold.verify(also).intact
assert refold.reexecute(also, program).identical
"""


def _within(package: str, names: str) -> tuple[str, ...]:
    return tuple(f"{package}.{name}." for name in names.split())


_PRESENT = {
    "imported": _within("refold", "adapters engine.lazy engine.loop.frameworks"),
    "recorded": (
        *_within("refold", "api options programs replay.__init__"),
        *_within("refold.replay.index", "__init__ malformed"),
        *_within(
            "refold.engine",
            "children.tree_digest encoding errors events kernel log loop models.prices plain_files "
            "ports program recording secrets state values",
        ),
        *_within("refold.engine.runners", "preflight recorded recording shipped"),
    ),
    "verified": (
        *_within("refold.engine", "workspace.paths"),
        *_within("refold.replay.audit", "causal signed verify"),
    ),
    "replayed": (
        *_within("refold.engine", "session"),
        *_within("refold.replay", "audit.session_fold difference explain index reexecute"),
    ),
    "called": _within("refold", "tools.contract"),
    "needed": {"attr", "attrs", "cattrs", "orjson", "typing_extensions"},
    "heavy": {
        *("argparse", "ctypes", "email", "http", "multiprocessing", "pydoc", "sqlite3", "tempfile"),
        *("unittest", "xml", "zipfile"),
    },
}
"""What each step of a small program loads, beside the steps before it; anything else is absent."""


def test_a_run_is_recorded_verified_and_replayed_with_nothing_else_there(tmp_path: Path) -> None:
    """The start of a process is what users wait for."""
    program = tmp_path / "light.py"
    program.write_text(_LIGHT.format(**_PRESENT), encoding="utf-8")

    words: list[str | Path] = [sys.executable, program, *(tmp_path / f"{n}.jsonl" for n in "ab")]
    ran = run(words, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")


_ABSENT = {"rich", "cattrs", "zipfile", "tempfile", "asyncio", "shutil", "refold.engine.observed"}


@pytest.mark.parametrize("command", ["verify", "show", "ls"])
def test_who_reads_a_log_loads_what_it_needs(tmp_path: Path, command: str) -> None:
    """No terminal if it is piped, no archives, no loop, nothing of watched commands."""
    recording = refold.record(lambda _run, _input: None, log=tmp_path / "run.jsonl")
    then = f"assert not {_ABSENT} & sys.modules.keys()"
    code = f"import sys, refold.cli as c\ntry: c.main()\nfinally: {then}"
    words: list[str | Path] = [sys.executable, "-c", code, command, recording.log]

    ran = run(words, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
