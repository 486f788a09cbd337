"""A package's names load on first use, by the imports that type checkers read."""

import ast
import builtins
import inspect
import re
import sys
import types
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from subprocess import run
from typing import Any

import attrs
import pytest

import refold

_PACKAGES = (
    "refold",
    "refold.engine.models",
    "refold.engine.session",
    "refold.replay",
    "refold.testing",
    "refold.tools",
)


@pytest.mark.parametrize("package", _PACKAGES)
def test_names_are_those_of_the_block(package: str) -> None:
    """Each stands there `as` itself, or it were no export to a checker, and comes from there."""
    module = import_module(package)
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    block = next(each for each in ast.parse(source).body if isinstance(each, ast.With))
    told = {
        name.asname: str(line.module)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
        if name.asname == name.name
    }

    assert set(told) == set(dir(module)) - {"__version__"}
    for name, home in told.items():
        assert getattr(module, name) is getattr(import_module(home), name)


@pytest.mark.parametrize("package", _PACKAGES)
def test_star_gives_what_dir_shows(package: str) -> None:
    module = import_module(package)

    assert sorted(module.__all__) == dir(module)


_BLOCK = """
from refold.engine.lazy import lazily
with lazily(__name__, "own"):
    from refold.made_up_home import other as other, thing as thing
    before_names_are_known()
"""


def _package(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> Any:
    """Execute a package that has such a block; `meanwhile` is called inside of it."""
    package = types.ModuleType("refold.made_up")
    monkeypatch.setitem(sys.modules, package.__name__, package)
    vars(package)["before_names_are_known"] = meanwhile
    exec(compile(_BLOCK, "made_up", "exec"), vars(package))
    return package


def test_a_home_is_imported_by_the_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before, and once; no other name is made up."""
    package = _package(monkeypatch, lambda: None)

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


def test_others_import_while_a_block_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """In any thread; a second block may begin and end meanwhile; then all is as it was."""
    before = builtins.__import__

    def meanwhile() -> None:
        from colorsys import rgb_to_hls  # noqa: PLC0415 - the import is what is tested

        assert rgb_to_hls(0, 0, 0) == (0, 0, 0)
        with monkeypatch.context() as inner:
            assert "thing" in dir(_package(inner, lambda: None))
        assert builtins.__import__ is not before

    with ThreadPoolExecutor(1) as pool:
        package = _package(monkeypatch, lambda: pool.submit(meanwhile).result())

    assert dir(package) == ["other", "own", "thing"]
    assert builtins.__import__ is before


@pytest.mark.parametrize("name", [each for each in dir(refold) if each != "__version__"])
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
    def find_spec(self, name, path=None, target=None):
        if name.startswith({absent}):
            raise AssertionError(f"{{name}} is loaded")

sys.meta_path.insert(0, Refused())
import refold

@refold.tool
def double(n: int) -> int:
    return 2 * n

recording = refold.record(lambda run, n: run.tool(double, n=n), 4, log=sys.argv[1])
assert recording.output == 8, recording
assert refold.verify(recording.log).intact
"""
_ABSENT = (
    *(f"refold.engine.{each}" for each in ("observed", "process", "session", "signing", "wire")),
    *(f"refold.engine.models.{each}" for each in ("scripted", "parse", "endpoint")),
    *(f"refold.engine.runners.{each}" for each in ("in_", "on_", "child")),
    *(f"refold.tools.{each}" for each in ("agents", "configuration", "delegation", "files")),
    *(f"refold.{each}" for each in ("cli", "page", "proxy", "store", "testing")),
    "click", "jsonschema", "psutil", "rich", "structlog", "yaml", "zipfile",
)  # fmt: skip
"""What a run of a tool and its verification load nothing of."""


def test_a_run_is_recorded_and_verified_with_nothing_else_there(tmp_path: Path) -> None:
    """The start of a process is what users wait for."""
    program = tmp_path / "light.py"
    program.write_text(_LIGHT.format(absent=_ABSENT), encoding="utf-8")

    words: list[str | Path] = [sys.executable, program, tmp_path / "light.jsonl"]
    ran = run(words, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")


def test_output_that_is_piped_loads_no_terminal(tmp_path: Path) -> None:
    recording = refold.record(lambda _run, _input: None, log=tmp_path / "run.jsonl")
    then = "assert 'rich' not in sys.modules"
    code = f"import sys, refold.cli as c\ntry: c.main()\nfinally: {then}"
    words: list[str | Path] = [sys.executable, "-c", code, "verify", recording.log]

    ran = run(words, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (0, "")
