"""Finding programs: by the object, by module or file and name, by a name that Refold ships.

A log never names code to import (CONTRACT.md §3.8): the caller names the program of a replay,
except for those that Refold ships. This is a shell file: importing runs the user's code.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import attrs

from refold.engine.errors import ProgramNotFound, ProgramRefused, RecordingRefused
from refold.engine.events.events import RunStarted
from refold.engine.ports.ports import Program, Reference

SHIPPED: Final[dict[str, Reference]] = {}
"""Programs that every installation has, by the name that a log shows; their owners `ship` them."""

UNRULY: Final[set[str]] = set()
"""Those that do not end as a program does: never in a process that somebody else needs."""

_importing = threading.local()


def ship(source: str, names: Iterable[str], *, unruly: Iterable[str] = ()) -> None:
    """Make functions of the module `source` known by their names alone."""
    SHIPPED.update({name: Reference(source, name) for name in names})
    UNRULY.update(unruly)


def is_shipped(program: Program) -> bool:
    """Return whether Refold ships `program`: that very function, regardless of its name."""
    reference = SHIPPED.get(program_name(program))
    module = sys.modules.get(reference.source) if reference is not None else None
    return reference is not None and getattr(module, reference.name, None) is program


def names_shipped(started: RunStarted) -> bool:
    """Return whether the program of a log is one that Refold ships, and may be run for it.

    A program of somebody else's may have the same name: the log records which one it was.
    """
    return bool(started.shipped) and started.program in SHIPPED


def program_place(program: str) -> str:
    """Return a placeholder for a program that a log names: `FILE.py:audit`."""
    function = program.rpartition(":")[2]
    return f"FILE.py:{function if function.isidentifier() else 'NAME'}"


def program_needed(program: str, given: Iterable[str] = ()) -> ProgramNotFound:
    """Return the error for a log whose program was not passed; others were, by these names."""
    others = ", ".join(map(repr, given))
    why = f"a log does not name code to import; pass --program {program_place(program)}"
    return ProgramNotFound(program, why + (f"; passed: {others}" if others else ""))


def program_name(program: Program | Reference | str) -> str:
    """Return the name that a log shows: the function's own, never where it is imported from."""
    if isinstance(program, Reference):
        return program.name.rpartition(".")[2]
    if isinstance(program, str):
        return program.rpartition(":")[2].rpartition(".")[2] if ":" in program else program
    inner = program.func if isinstance(program, functools.partial) else program
    return str(getattr(inner, "__name__", type(inner).__name__))


def reference_from(text: str) -> Reference:
    """Return what `module:name`, `file.py:name` or a shipped name refers to.

    Raises:
        ProgramNotFound: it has none of these forms.
    """
    if text in SHIPPED:
        return SHIPPED[text]
    source, _, name = text.rpartition(":")
    if text.endswith(".py"):
        raise ProgramNotFound(text, f"name its function, too: {text}:NAME")
    if source.endswith(":") and name:
        raise ProgramNotFound(text, f"expected one colon: {text.replace('::', ':')}")
    if not source or not name:
        raise ProgramNotFound(text, "expected module:function, file.py:function, or a shipped name")
    if source.endswith(".py"):
        source = os.path.abspath(source)  # noqa: PTH100 - links stay as they were given
    return Reference(source, name)


def load_program(program: Program | Reference | str) -> Program:
    """Return the function itself.

    Raises:
        ProgramNotFound: it cannot be imported, or is nothing that can be called.
        RecordingRefused: importing it starts a recording.
    """
    if not isinstance(program, (str, Reference)):
        return _checked(program)
    reference = reference_from(program) if isinstance(program, str) else program
    found = load(reference)
    if not callable(found):
        raise ProgramNotFound(reference.name, f"a {type(found).__name__} cannot be called")
    return _checked(found)


def _checked(program: Program) -> Program:
    """Refuse a program that cannot be called with a run and its input, before anything is made."""
    if _takes_two(program):
        return program
    try:
        signature = signature_of(program)
    except (TypeError, ValueError):  # a builtin, say, that does not tell
        return program
    try:
        signature.bind(None, None)
    except TypeError:
        if hasattr(program, "effect"):
            raise ProgramNotFound(
                program_name(program), "this is a tool, not a program, which takes (run, input)"
            ) from None
        raise ProgramRefused(program_name(program), ", ".join(signature.parameters)) from None
    return program


def _takes_two(program: Program) -> bool:
    """Return whether it is a function of two parameters: its signature takes 30 times as long."""
    if (
        type(program) is not FunctionType or program.__dict__
    ):  # wrapped, or with a made-up signature
        return False
    code = program.__code__
    return code.co_argcount == 2 and not code.co_kwonlyargcount  # noqa: PLR2004 - a run, its input


def signature_of(program: Program) -> inspect.Signature:
    """Return a program's signature; names in annotations need not be known at run time."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format  # noqa: PLC0415 - before, nothing is evaluated

        return inspect.signature(program, annotation_format=Format.FORWARDREF)
    return inspect.signature(program)


def found_program(program: Program | Reference | str) -> Program | Reference:
    """Return `program` as a function or a reference that is known to load.

    Raises:
        ProgramNotFound: it cannot be imported, or is nothing that can be called.
        RecordingRefused: importing it starts a recording.
    """
    if callable(program):
        return program
    load_program(program)
    return reference_from(program) if isinstance(program, str) else program


def load(reference: Reference) -> Any:
    """Return the object that a reference names; a factory is called with its arguments.

    Raises:
        ProgramNotFound: no such module, file or name; or importing it failed.
        RecordingRefused: importing it starts a recording.
    """
    found: Any = _module(reference.source)
    for part in reference.name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = ", ".join(sorted(_callables(found))) or "none"
            raise ProgramNotFound(
                f"{reference.source}:{reference.name}", f"no {part!r} there; functions: {names}"
            ) from None
    return found if reference.arguments is None else found(**reference.arguments)


def reference_of(program: Program | Reference | str) -> Reference:
    """Return how another process finds `program`.

    Raises:
        ProgramNotFound: a lambda, a nested function, or one typed into a prompt.
    """
    if isinstance(program, Reference):
        return elsewhere(program)
    if isinstance(program, str):
        return reference_from(program)
    if isinstance(own := getattr(program, "reference", None), Reference):
        return own  # made of another program, which can be imported
    name = str(getattr(program, "__qualname__", ""))
    module = str(getattr(program, "__module__", ""))
    if not name or "<" in name:
        raise ProgramNotFound(
            name or repr(program),
            "a subprocess cannot import a lambda or a nested function; define it at module level",
        )
    source = module_source(module)
    if source is None:
        raise ProgramNotFound(
            name, f"module {module!r} was not loaded from a file: save the program in a file"
        )
    return Reference(source, name)


def elsewhere(reference: Reference) -> Reference:
    """Return `reference` as a different process finds it: a script is a different module there.

    `Reference(__name__, …)` in a script is one to `__main__` when the script is run, and to a name
    that only this process knows when it was loaded as a file: by a command, or in a child.  So are
    those among the arguments of factories that wrap it.

    Raises:
        ProgramNotFound: this process's `__main__` has no file.
    """
    return Reference(**with_sources(attrs.asdict(reference), _source_elsewhere))


def with_sources(value: Any, source_of: Callable[[dict[str, Any]], str]) -> Any:
    """Return JSON with the given source for each reference, at any depth."""
    if isinstance(value, list):
        return [with_sources(item, source_of) for item in value]
    if not isinstance(value, dict):
        return value
    found = {name: with_sources(item, source_of) for name, item in value.items()}
    is_reference = found.keys() == _REFERENCE and isinstance(found["source"], str)
    return found | {"source": source_of(found)} if is_reference else found


_REFERENCE: Final = attrs.fields_dict(Reference).keys()


def _source_elsewhere(reference: dict[str, Any]) -> str:
    source = module_source(reference["source"])
    if source is None:
        raise ProgramNotFound(
            f"__main__:{reference['name']}",
            "__main__ has no file that a subprocess could import; put the code into a module, and "
            "refer to it there: Reference('package.module', name)",
        )
    return source


def module_source(module: str) -> str | None:
    """Return how another process imports a module: its name, or the file that runs as main."""
    found = sys.modules.get(module)
    if module != "__main__":
        file = getattr(found, "__file__", None)
        if module.startswith(_FILE_PREFIX) and file:
            return str(file)
        return module
    spec = getattr(found, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name.removesuffix(".__main__")) if spec.name != "__main__" else None
    script: str | None = getattr(found, "__file__", None)
    if not script or script.startswith("<"):  # a script from standard input
        return None
    return os.path.abspath(script)  # noqa: PTH100 - links stay as they were given


def fingerprint_of(program: Program) -> dict[str, str]:
    """Return what explains a divergence, and never decides one: source digest, hash seed."""
    found = {"hash_seed": os.environ.get("PYTHONHASHSEED", "random")}
    with contextlib.suppress(OSError, TypeError):
        found["source"] = _source_digest(inspect.unwrap(program))
    return found


def _source_digest(program: Program) -> str:
    """Return the digest of a function's source, read again only if its file may have changed."""
    if (stamp := _stamp(program)) is not None and _digests.get(program, _NO_DIGEST)[0] == stamp:
        return _digests[program][1]
    digest = hashlib.sha256(inspect.getsource(program).encode(errors="replace")).hexdigest()
    if stamp is not None:
        _digests[program] = stamp, digest
    return digest


def _stamp(program: Program) -> object:
    """Return a value that changes with a function's source; `None` without source file."""
    if not isinstance(program, FunctionType):
        return None
    code = program.__code__
    try:
        file = os.stat(code.co_filename)  # noqa: PTH116 - as linecache asks
    except (OSError, ValueError):
        return None
    return code, code.co_filename, file.st_dev, file.st_ino, file.st_size, file.st_mtime_ns


_digests: Final = weakref.WeakKeyDictionary[Program, tuple[object, str]]()
_NO_DIGEST: Final = (None, "")


def check_not_importing() -> None:
    """Refuse to record while a program is being imported in this thread.

    Raises:
        RecordingRefused: with the file that holds the call.
    """
    file = getattr(_importing, "file", None)
    if file is not None:
        raise RecordingRefused(file)


_FILE_PREFIX: Final = "refold_program_"
_of_file: Final[dict[str, threading.RLock]] = {}
"""By module name: held while the file is executed, or another thread would be given half of it."""


def _module(source: str) -> ModuleType:
    if "/" in source and not source.endswith(".py"):
        raise ProgramNotFound(source, f"a file's name must end in .py: {source}.py")
    before = getattr(_importing, "file", None)
    _importing.file = source
    try:
        return _from_file(source) if source.endswith(".py") else importlib.import_module(source)
    except (ProgramNotFound, RecordingRefused):
        raise
    except ModuleNotFoundError as error:
        raise ProgramNotFound(source, f"{error}; sys.path starts with {sys.path[:2]}") from None
    except (Exception, SystemExit) as error:  # a script without a guard may end the process
        advice = ""
        if "relative import" in str(error):
            advice = "; pass it as a module of its package, PACKAGE.MODULE:NAME"
        raise ProgramNotFound(
            source, f"importing it raised {type(error).__name__}: {error}{advice}"
        ) from error
    finally:
        _importing.file = before


def _from_file(source: str) -> ModuleType:
    path = Path(source)
    if not path.is_file():
        raise ProgramNotFound(source, "no such file")
    name = _FILE_PREFIX + hashlib.sha256(os.fsencode(source)).hexdigest()[:12] + "_" + path.stem
    with _of_file.setdefault(name, threading.RLock()):
        return sys.modules.get(name) or _executed(name, source, path)


class _Fresh(importlib.machinery.SourceFileLoader):
    """Compiles the source each time: Python's cache goes by size and by whole seconds.

    A program that is recorded, edited and replayed within one of them would be taken as it was.
    """

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the source as it is now."""
        path = self.get_filename(fullname)
        return _compiled(self.get_data(path), path)


@functools.lru_cache(maxsize=64)
def _compiled(source: bytes, path: str) -> CodeType:
    """Return the code of these bytes; an audit executes one file for thousands of logs."""
    code: CodeType = _Fresh("", path).source_to_code(source, path)
    return code


def _executed(name: str, source: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise ProgramNotFound(source, "not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.parent)
    sys.path.insert(0, folder)  # as running the file would
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:  # last: what we import later is not to be found there
            sys.path.append(folder)
    return module


def _callables(found: Any) -> Iterator[str]:
    for name, value in vars(found).items() if hasattr(found, "__dict__") else ():
        if not name.startswith("_") and isinstance(value, Callable):  # type: ignore[arg-type]  # an ABC
            yield name
