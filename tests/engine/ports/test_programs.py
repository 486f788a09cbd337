"""Finding programs: an object, a module or a file and a name, a name that Refold ships."""

import contextlib
import functools
import hashlib
import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pytest

import refold.programs
from refold.engine.errors import ProgramNotFound, ProgramRefused
from refold.engine.events.events import RunStarted
from refold.engine.log.reader import read_entries
from refold.engine.ports import programs
from refold.engine.ports.ports import Reference
from refold.engine.ports.programs import (
    SHIPPED,
    elsewhere,
    fingerprint_of,
    load,
    load_program,
    module_source,
    names_shipped,
    program_name,
    program_place,
    reference_from,
    reference_of,
    ship,
    signature_of,
)
from refold.engine.runners.recording import record
from tests.support import child_programs
from tests.support.child_programs import HERE, works
from tests.support.loops import for_each


class Callable:
    """A program may be an object."""

    async def __call__(self, _run: Any, _input: Any) -> int:
        return 1


def test_a_log_shows_the_programs_own_name() -> None:
    """Case 88: never where it is imported from."""
    assert program_name(works) == "works"
    assert program_name(Reference("some.module", "Group.program")) == "program"
    assert program_name("module:name") == "name"
    assert program_name("/a/file.py:name") == "name"
    assert program_name("agent") == "agent"
    assert program_name(functools.partial(works)) == "works"
    assert program_name(Callable()) == "Callable"


@functools.wraps(works)  # its signature is theirs, its code is not
def _wrapped() -> None: ...


def _changed(_run: Any, _input: Any) -> None: ...


_changed.__signature__ = inspect.Signature()  # type: ignore[attr-defined]  # as decorators set it


@for_each(
    "program",
    [
        works,
        _wrapped,
        _changed,
        Callable(),
        Callable,
        print,
        functools.partial(works, None),  # type: ignore[arg-type]  # as of a caller without types
        lambda: None,
        lambda _run: None,
        lambda _run, _input: None,
        lambda _run, _input=1, /: None,
        lambda _run, _input, _more: None,
        lambda _run, _input, _more=1: None,
        lambda _run, _input, *, more: more,
        lambda _run, _input, *, more=1: more,
        lambda *_all, **_named: None,
    ],
)
def test_a_program_is_called_with_a_run_and_its_input(program: Any) -> None:
    """Whatever has no place for both is refused before it is called, by its signature."""
    try:
        signature_of(program).bind(None, None)
    except TypeError:
        with pytest.raises(ProgramRefused):
            load_program(program)
    else:
        assert load_program(program) is program


def test_the_forms_of_a_name() -> None:
    """`module:name`, `file.py:name`, or a shipped name; files become absolute."""
    assert reference_from("a.b:c.d") == Reference("a.b", "c.d")
    assert reference_from("x/y.py:main") == Reference(str(Path("x/y.py").absolute()), "main")
    assert reference_from("agent") == SHIPPED["agent"]


@for_each("text", ["", "name", "module:", ":name", "a.b.c", "f.py::main"])
def test_what_is_no_name_is_refused(text: str) -> None:
    """With the forms that there are."""
    with pytest.raises(ProgramNotFound, match=r"module:function|one colon: f\.py:main$"):
        reference_from(text)


def test_a_file_without_a_function_is_told_so() -> None:
    with pytest.raises(ProgramNotFound, match=r"name its function, too: x/y\.py:NAME"):
        reference_from("x/y.py")


def test_what_is_shipped_is_known_by_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """By whom it belongs to: finding programs knows none by itself."""
    monkeypatch.setattr(programs, "SHIPPED", {})
    with pytest.raises(ProgramNotFound):
        load_program("works")

    ship(works.__module__, ["works"])

    assert load_program("works") is works


def _first(program: Any, log: Path) -> RunStarted:
    record(program, log=log)
    event = next(read_entries(log)).event
    assert isinstance(event, RunStarted)
    return event


def test_a_log_says_that_its_program_is_shipped(tmp_path: Path) -> None:
    """That very function, passed or named; what is made of it is another."""
    agent = load_program("agent")

    assert _first("agent", tmp_path / "a.jsonl").shipped
    assert _first(agent, tmp_path / "b.jsonl").shipped
    assert _first(functools.partial(agent), tmp_path / "c.jsonl").shipped is None


@for_each("name", sorted(SHIPPED))
def test_a_program_of_a_shipped_name_is_never_taken_for_it(name: str, tmp_path: Path) -> None:
    """By its log alone it cannot be run again: what would run is another program."""

    async def own(_run: Any, _input: Any) -> int:
        return 1

    own.__name__ = own.__qualname__ = name
    log = tmp_path / "a.jsonl"
    started = _first(own, log)

    assert (started.program, started.shipped, names_shipped(started)) == (name, None, False)
    for again in (refold.reexecute, refold.explore, refold.sensitivity):
        with pytest.raises(ProgramNotFound, match="--program"):
            again(log)
    assert refold.reexecute(log, own).identical


def test_many_logs_of_such_programs_need_theirs(tmp_path: Path) -> None:
    """None is taken for the one that has its name."""

    async def own(_run: Any, _input: Any) -> int:
        return 1

    for name in SHIPPED:
        own.__name__ = own.__qualname__ = name
        record(own, log=tmp_path / f"{name}.jsonl")

    rows = refold.reexecute([tmp_path]).logs
    assert [row.result for row in rows] == ["program needed"] * len(SHIPPED)


def test_a_program_is_loaded_from_its_file_once(tmp_path: Path) -> None:
    """A file beside it may be imported, as when the file is run."""
    (tmp_path / "beside_it.py").write_text("VALUE = 7\n")
    file = tmp_path / "program_file.py"
    file.write_text("import beside_it\n\ndef program(run, input):\n    return beside_it.VALUE\n")

    found = load_program(f"{file}:program")

    assert found(None, None) == 7
    assert load_program(f"{file}:program") is found
    assert reference_of(found) == Reference(str(file), "program")


def test_a_path_may_have_bytes_that_are_not_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])  # the folder is put there, for good
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "file.py").write_text("def program(run, input):\n    return 7\n")

    assert load_program(f"{folder}/file.py:program")(None, None) == 7


def test_nobody_is_given_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who needs a file that another thread is executing waits for its end."""
    gate = SimpleNamespace(begun=threading.Event(), go_on=threading.Event())
    monkeypatch.setitem(sys.modules, "gate_of_the_test", gate)
    path = tmp_path / "slow.py"
    path.write_text(
        "import gate_of_the_test as gate\n"
        "gate.begun.set()\n"
        "assert gate.go_on.wait(60)\n"
        "def program(run, given): ...\n"
    )
    found: list[object] = []

    def load() -> None:
        found.append(load_program(f"{path}:program"))

    loading = [threading.Thread(target=load) for _ in range(2)]
    loading[0].start()
    assert gate.begun.wait(60)
    loading[1].start()
    loading[1].join(0.1)
    gate.go_on.set()
    for thread in loading:
        thread.join(60)

    assert len(found) == 2
    assert found[0] is found[1]


@for_each(
    "reference, words",
    [
        (Reference(HERE, "no_such"), "functions: .*works"),
        (Reference("no.such.module", "x"), "No module named"),
        (Reference("/no/such/file.py", "x"), "no such file"),
        (Reference(HERE, "HERE"), "cannot be called"),
    ],
)
def test_what_cannot_be_found_says_what_is_there(reference: Reference, words: str) -> None:
    """The names of the module, the import error, the file."""
    with pytest.raises(ProgramNotFound, match=words):
        load_program(reference)


def test_the_forms_of_a_name_are_told_only_to_who_got_them_wrong() -> None:
    """Neither a lambda nor a missing module is a matter of the form."""
    for program in (lambda: None, Reference("no.such.module", "x")):
        with pytest.raises(ProgramNotFound) as caught:
            reference_of(program) if callable(program) else load_program(program)
        assert "module:function" not in str(caught.value)
    with pytest.raises(ProgramNotFound) as caught:
        reference_from("name")
    assert str(caught.value).count("module:function") == 1


def test_an_import_that_raises_is_told(tmp_path: Path) -> None:
    """And leaves no half a module behind."""
    file = tmp_path / "breaks.py"
    file.write_text("raise LookupError('at import')\n")

    for _ in range(2):
        with pytest.raises(ProgramNotFound, match="LookupError: at import"):
            load_program(f"{file}:program")

    assert not [name for name in sys.modules if name.endswith("_breaks")]


def test_an_import_that_ends_the_process_is_told(tmp_path: Path) -> None:
    """A script without a guard: its exit code is not ours."""
    file = tmp_path / "leaves.py"
    file.write_text("import sys\nsys.exit(4)\n")

    with pytest.raises(ProgramNotFound, match="SystemExit: 4"):
        load_program(f"{file}:program")


def test_a_factory_is_called_with_its_arguments() -> None:
    """How tools and models with settings are found again."""
    assert load(Reference("pathlib", "PurePosixPath")).__name__ == "PurePosixPath"
    assert load(Reference("collections", "Counter", {"a": 2})) == {"a": 2}


def test_what_another_process_can_import() -> None:
    """A function at the top of a module; no lambda, nothing nested."""

    def nested() -> None:
        """Be unreachable."""

    assert reference_of(works).name == "works"
    assert reference_of("a:b") == Reference("a", "b")
    assert reference_of(Reference("a", "b")) == Reference("a", "b")
    for program in (nested, lambda: None):
        with pytest.raises(ProgramNotFound, match="module level"):
            reference_of(program)
    assert module_source(child_programs.__name__) == child_programs.__name__


def test_a_program_typed_into_a_prompt_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """`__main__` without a file: no other process could import it."""
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", None, raising=False)
    monkeypatch.setattr(main, "__file__", None, raising=False)
    assert module_source("__main__") is None

    monkeypatch.setattr(main, "__file__", "<stdin>", raising=False)
    with pytest.raises(ProgramNotFound, match="put the code into a module"):
        elsewhere(Reference("__main__", "make"))
    monkeypatch.setattr(main, "__file__", "script.py", raising=False)
    of_script = Reference(str(Path("script.py").absolute()), "make", {})
    wrapped = {"factory": {"source": "__main__", "name": "make", "arguments": {}}}
    assert elsewhere(Reference("__main__", "make", {})) == of_script
    assert elsewhere(Reference("m", "wrap", wrapped)).arguments == {
        "factory": attrs.asdict(of_script)
    }
    assert elsewhere(Reference("m", "make", {"n": [1]})) == Reference("m", "make", {"n": [1]})
    assert module_source("__main__") == str(Path("script.py").absolute())


def test_a_file_that_was_loaded_refers_to_itself_by_its_name(tmp_path: Path) -> None:
    """As `--tools FILE.py:NAME` is: the name that it has here is known to no other process."""
    file = tmp_path / "own.py"
    file.write_text("def make(_run, _input):\n    return __name__\n")
    name = load_program(f"{file}:make")(None, None)

    assert elsewhere(Reference(name, "make", {})) == Reference(str(file), "make", {})


def test_a_fingerprint_tells_texts_apart() -> None:
    """Of the source, and of the hash seed; what has no source has none."""

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    assert fingerprint_of(one)["source"] != fingerprint_of(two)["source"]
    assert "source" not in fingerprint_of(print)
    assert "hash_seed" in fingerprint_of(print)


def test_the_source_of_a_fingerprint_is_the_one_that_python_shows_now(tmp_path: Path) -> None:
    """Also asked for again, after the file was edited, moved and removed: as if never kept."""
    file = tmp_path / "shown.py"
    file.write_text("def one(run, value):\n    return 1  # a\n")
    program = load_program(f"{file}:one")

    def shown() -> str | None:
        with contextlib.suppress(OSError):
            source = inspect.getsource(program)
            return hashlib.sha256(source.encode()).hexdigest()
        return None

    seen = []
    for comment in ("a", "a", "bb", "bb", "ccc"):
        file.write_text(f"def one(run, value):\n    return 1  # {comment}\n")
        seen.append(fingerprint_of(program).get("source"))
        assert seen[-1] == shown() is not None
    file.rename(tmp_path / "moved.py")
    assert fingerprint_of(program).get("source") == shown()
    assert len({*seen}) == 3


def test_a_file_that_was_edited_within_a_second_is_read_anew(tmp_path: Path) -> None:
    """Python's cache of bytecode would take it for the old one, where its size is the same."""
    file = tmp_path / "edited.py"
    code = (
        "import sys; from refold.engine.ports.programs import load_program; "
        "print(load_program(sys.argv[1])(None, None))"
    )
    caching = {name: value for name, value in os.environ.items() if "BYTECODE" not in name}
    said = []
    for word in ("one", "two"):
        file.write_text(f"def program(_run, _input):\n    return {word!r}\n")
        os.utime(file, (1_000_000_000, 1_000_000_000))
        argv = [sys.executable, "-c", code, f"{file}:program"]
        ran = subprocess.run(argv, check=True, capture_output=True, text=True, env=caching)
        said.append(ran.stdout)

    assert said == ["one\n", "two\n"]


def test_a_wrong_place_is_told_from_a_program_with_what_to_pass(tmp_path: Path) -> None:
    """A tool is none, and a file of a package is a module of it."""
    (tmp_path / "tools.py").write_text(
        "import refold\n@refold.tool(effect='reads')\ndef get(x: int) -> int:\n    return x\n"
    )
    (tmp_path / "part.py").write_text("from . import other\n")

    with pytest.raises(ProgramNotFound, match="a tool, not a program"):
        load_program(f"{tmp_path / 'tools.py'}:get")
    with pytest.raises(ProgramNotFound, match="a module of its package"):
        load_program(f"{tmp_path / 'part.py'}:main")


@for_each(
    "name, place",
    [("audit", "FILE.py:audit"), ("app.py:audit", "FILE.py:audit"), ("<lambda>", "FILE.py:NAME")],
)
def test_a_program_that_has_to_be_named_is_named_by_its_function(name: str, place: str) -> None:
    """What can be typed is filled in, what cannot be is left to be."""
    assert program_place(name) == place
