"""Detects a program's reads of the world that bypass `run`: place and remedy.

While it is active, a profile function sees each call of this thread. The caller decides: a clock
that the program reads is a finding, directly or through a module of the standard library that does
nothing else (`random`, `pathlib`, `uuid` …); a clock that Refold, `asyncio` or `logging` reads is
not. It changes nothing; the comparison decides whether two executions differ (CONTRACT.md §12.12).

Not detected are the order of sets of texts, values read on the import of a module, and actions of C
code in other packages. The first two show in a separate process (`replay.testing.selfcheck`). To
watch one more function, add it to `_WATCHED`.
"""

import _random
import builtins
import datetime as dt
import gc
import io
import os
import random
import sys
import sysconfig
from opcode import opmap
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import Any, Final, Self

import attrs

import refold.engine
from refold.engine.encoding.document import Document
from refold.engine.loop import stdlib
from refold.engine.loop.loop import inside_collector
from refold.replay.reexecute.network import OUTERMOST

FINDINGS_MAX: Final = 100
"""So many different findings are kept."""


@attrs.frozen
class Finding(Document):
    """A place where a program reads the world beside `run`."""

    what: str
    """`time.time`, `os.environ`, `random.randint`."""
    file: str
    line: int
    remedy: str
    is_advice: bool = False
    """Whether it is harmless unless an order or a branch hangs on it."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.what}: {self.remedy}"


_CLOCK: Final = "use run.now()"
_SLEEP: Final = "use run.sleep(seconds)"
_RANDOM: Final = 'use run.random("name")'
_UUID: Final = "use run.uuid()"
_ENVIRONMENT: Final = 'use run.environment("NAME")'
_FILE: Final = "use run.read_text(path) to read a file, and a tool to write"
_TOOL: Final = "make it a tool"
_PERSON: Final = "use run.ask(question)"
_ORDER: Final = "differs in every process, so do not depend on it"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _all(module: str, names: str, remedy: str) -> dict[tuple[str, str], str]:
    return {(module, name): remedy for name in names.split()}


_WATCHED: Final[dict[tuple[str, str], str]] = {
    **_all(
        "time",
        "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time"
        " process_time_ns thread_time thread_time_ns clock_gettime clock_gettime_ns localtime"
        " ctime gmtime strftime asctime",
        _CLOCK,
    ),
    **_all("time", "sleep", _SLEEP),
    **_all("datetime", "now utcnow today", _CLOCK),
    **_all("posix", "urandom getrandom", _RANDOM),
    **_all("_random", "random getrandbits seed", _RANDOM),
    **_all("_uuid", "generate_time_safe generate_time", _UUID),
    **_all("posix", "getpid getppid getcwd uname times getloadavg cpu_count", _TOOL),
    **_all("io", "open open_code", _FILE),
    **_all("posix", "open stat lstat access", _FILE),
    **_all("posix", "listdir scandir readlink mkdir rmdir unlink remove rename replace", _TOOL),
    **_all("posix", "system fork posix_spawn posix_spawnp execv execve popen", _TOOL),
    **_all("_posixsubprocess", "fork_exec", _TOOL),
    **_all("_thread", "start_new_thread start_joinable_thread", _TOOL),
    **_all("_socket", "getaddrinfo gethostbyname gethostname gethostbyaddr socketpair", _TOOL),
    **_all("_socket", "connect connect_ex bind send sendall sendto recv recvfrom accept", _TOOL),
    **_all("builtins", "input", _PERSON),
    **_all("builtins", "id hash", _ORDER),
}
"""Functions of C, by the module that they belong to, and what to do instead."""

_NAMES: Final = frozenset(name for _, name in _WATCHED)

_OF_A_TIME: Final = {"gmtime": 1, "strftime": 2, "asctime": 1}
"""Functions of `time` that read the clock only with fewer arguments than this.

With more, their result is the same everywhere. (`localtime` and `ctime` never are: they depend on
the time zone.)
"""
_CALLS: Final = frozenset(opcode for name, opcode in opmap.items() if name in ("CALL", "CALL_KW"))
"""Instructions whose argument is the number of arguments."""

_THROUGH: Final = _words(
    "_collections_abc codecs concurrent genericpath getpass glob http io multiprocessing os pathlib"
    " platform posixpath random secrets shutil socket ssl subprocess tempfile threading urllib uuid"
)
"""Modules of the standard library that ask for their caller."""
_SPOKEN: Final = {"posixpath": "os.path", "genericpath": "os.path", "posix": "os"}
_BY_MODULE: Final = {
    "uuid": _UUID,
    **dict.fromkeys(_words("concurrent http multiprocessing socket ssl subprocess urllib"), _TOOL),
}
"""The replacement for a module, for all functions that it calls in turn."""
_INTERNAL: Final = {"_random": "random", "_uuid": "uuid", "_socket": "socket", "_thread": "_thread"}

_ENVIRON: Final[frozenset[CodeType]] = frozenset(
    getattr(type(os.environ), name).__code__
    for name in ("__getitem__", "__iter__", "__len__", "copy")
)
_STDLIB: Final = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib"))
_INSTALLED: Final = ("site-packages", "dist-packages")
_ADAPTED: Final = tuple(
    f"{folder}{os.sep}{name}{os.sep}"
    for folder in _INSTALLED
    for name in ("agents", "pydantic_ai", "pydantic_graph")
)
"""Frameworks with an adapter, which keeps their reads out of all compared values (§17.2)."""
_OURS: Final = f"{Path(refold.engine.__path__[0]).parent}{os.sep}"
"""The folder of Refold itself: its frames are not a program's."""
_WRAPPERS: Final = stdlib.__file__


class Tripwire:
    """While it is entered, collects what programs of this thread read beside `run`."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], Finding] = {}
        self._before: Any = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, each place once, in the order of its first time."""
        return tuple(self._found.values())

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._see)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.setprofile(self._before)

    def _see(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            if argument.__name__ in _NAMES:
                self._called(frame, argument)
        elif event == "call" and frame.f_code in _ENVIRON:
            self._note(frame, "os.environ", _ENVIRONMENT)

    def _called(self, frame: FrameType, function: Any) -> None:
        module = _module_of(function)
        remedy = _WATCHED.get((module, function.__name__))
        if remedy is None or (module == "_random" and not _is_drawn(frame, function)):
            return
        if module == "time" and _is_given_a_time(frame, function):
            return
        module = _SPOKEN.get(module, _INTERNAL.get(module, module))
        name = (
            function.__name__ if module in ("builtins", "io") else f"{module}.{function.__name__}"
        )
        if module == "datetime":
            name = f"{function.__self__.__name__}.{function.__name__}"
        self._note(frame, name, remedy)

    def _note(self, frame: FrameType, what: str, remedy: str) -> None:
        """Keep a finding if it is the program that asks, and not Refold or Python itself."""
        asking: FrameType | None = frame
        while asking is not None and not _is_its_own(asking):
            module = _library(asking)
            what = _spoken_name(what, module, asking.f_code) if module is not None else what
            asking = asking.f_back
        if asking is None or _library(asking) is not None or _is_ours(asking):
            return
        if _is_adapted(asking):
            return
        is_advice = remedy is _ORDER
        if is_advice and _is_installed(asking):
            return
        place = _program_line(asking)
        if place is None or inside_collector() or _is_of_collector(asking):
            return
        file, line = place
        if len(self._found) < FINDINGS_MAX:
            remedy = _BY_MODULE.get(what.partition(".")[0], remedy)
            found = Finding(what, file, line, remedy, is_advice)
            self._found.setdefault((what, file, line), found)


def _module_of(function: Any) -> str:
    """Return the module of a C function, or of a method's class."""
    if function is io.open:
        return "io"
    owner = getattr(function, "__self__", None)
    if isinstance(owner, _random.Random):
        return "_random"
    if isinstance(owner, type) and issubclass(owner, dt.date):
        return "datetime"
    if owner is None or isinstance(owner, type(os)):
        return "builtins" if owner is builtins else str(function.__module__)
    return str(getattr(type(owner), "__base__", type(owner)).__module__)


def _is_drawn(frame: FrameType, function: Any) -> bool:
    """Return whether a generator is the shared one, or seeds itself from the world."""
    if function.__name__ == "seed":
        return frame.f_locals.get("a", 0) is None
    return function.__self__ is random._inst  # noqa: SLF001 - whose methods its functions are


def _is_given_a_time(frame: FrameType, function: Any) -> bool:
    """Return whether a function of `time` is called with a time, and does not read the clock."""
    least = _OF_A_TIME.get(function.__name__)
    code, at = frame.f_code.co_code, frame.f_lasti
    return least is not None and code[at] in _CALLS and code[at + 1] >= least


def _spoken_name(what: str, module: str, code: CodeType) -> str:
    """Return the function that the program called and that made the detected call."""
    name = code.co_qualname
    if what in ("os.environ", "os.getenv") and module in ("os", "_collections_abc"):
        return "os.getenv" if name == "getenv" else what
    name = name.removeprefix("Random.") if module == "random" else name
    if module == "random" and name in ("seed", "__init__"):
        return "random.Random()"
    return f"{_SPOKEN.get(module, module)}.{name.partition('.<locals>')[0]}"


def _library(frame: FrameType) -> str | None:
    """Return the module of the standard library that a frame belongs to; `None` for any other."""
    file = frame.f_code.co_filename
    if file.startswith("<frozen "):
        return file[8:-1].partition(".")[0]
    for folder in _STDLIB:
        if file.startswith(folder) and not _is_installed(frame):
            return file[len(folder) :].partition(os.sep)[0].removesuffix(".py")
    return None


def _is_its_own(frame: FrameType) -> bool:
    """Return whether a frame acts for itself, and not for its caller as `random` and `os` do.

    Wrappers of functions of `threading` and `asyncio` also act for their callers.
    """
    return _library(frame) not in _THROUGH and frame.f_code.co_filename != _WRAPPERS


def _is_installed(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return any(folder in file for folder in _INSTALLED)


def _is_adapted(frame: FrameType) -> bool:
    """Return whether a framework reads for itself, be it in a generated `__init__`."""
    reading: FrameType | None = frame
    while reading is not None and reading.f_code.co_filename.startswith("<"):
        reading = reading.f_back
    return reading is not None and any(folder in reading.f_code.co_filename for folder in _ADAPTED)


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_OURS)


def _is_of_collector(frame: FrameType) -> bool:
    """Return whether a frame is a callback of the garbage collector."""
    return any(getattr(each, "__code__", None) is frame.f_code for each in gc.callbacks)


def _program_line(asking: FrameType) -> tuple[str, int] | None:
    """Return the file and line of the program; `None` if the program is not running.

    For an installed or generated caller, the place of its own caller is returned.
    """
    place = None
    frame: FrameType | None = asking
    while frame is not None and frame.f_code not in OUTERMOST:
        file = frame.f_code.co_filename
        is_own = not (file.startswith("<") or _is_installed(frame) or _is_ours(frame))
        if place is None and is_own and _library(frame) is None:
            place = file, frame.f_lineno
        frame = frame.f_back
    if frame is None:
        return None
    return place or (asking.f_code.co_filename, asking.f_lineno)
