"""Values that a program gets at once: its run's own facts, times, random numbers, markers, remarks.

Nothing here waits: each is a plain call, the same on both faces (`engine.program.run`), and its
value is recorded, so that a replay returns the same. Random numbers are derived of the run's seed,
and recorded; a file or a variable is read live and never in a replay.

Rules: CONTRACT.md §9.3 (seeds), §9.8 (change markers).
"""

import contextvars
import datetime as dt
import errno
import functools
import inspect
import os
import random as _random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NoReturn
from uuid import UUID

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import texts
from refold.engine.encoding.plain import to_json
from refold.engine.encoding.secret import Secret
from refold.engine.errors import UsageError
from refold.engine.events.events import NoteAdded, ValueDrawn
from refold.engine.events.limits import Limits
from refold.engine.kernel.decide import children_left, tokens_left, tokens_to_give
from refold.engine.kernel.kernel import Kernel
from refold.engine.plain_files import plain_file
from refold.engine.ports.ports import Tool
from refold.engine.secrets.redaction import check_pointer

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
delegation_call: contextvars.ContextVar[str] = contextvars.ContextVar(
    "refold_delegation", default=""
)
"""The call key of the delegation tool that runs here."""
_SOCKET: Final = "a socket, not a text file: read it in a tool"
_NO_TEXT: Final = {
    "EINVAL": "a pipe or a device, not a text file: read it in a tool",
    "EISDIR": "a folder, not a file: read one of its files, or list it in a tool",
    "ENXIO": _SOCKET,
    "EOPNOTSUPP": _SOCKET,  # macOS
}
"""What is at a path that has no text, by the code of the error."""


def _text_of(path: str) -> Json:
    """Return a file's text, `None` for no file, or the reason for no text: {error}."""
    try:
        return plain_file(path).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        said = f"{error.reason}; {path} is not UTF-8 text: read it in a tool"
        return {"error": {"at": error.start, "message": said}}
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0, "EIO")
        return {
            "error": {"code": code, "message": _NO_TEXT.get(code) or error.strerror or str(error)}
        }


def _variable(name: str) -> Json:
    """Return an environment variable, `None` if unset, or the reason for no text: {error}."""
    value = os.environ.get(name)
    try:
        os.fsencode(value or "").decode()
    except UnicodeDecodeError as error:
        return {"error": {"at": error.start, "message": f"the variable {name} is not UTF-8 text"}}
    return value


def _drawn_text(name: str, value: Json) -> str | None:
    """Return a drawn text; raise what kept it from being read, alike live and in a replay."""
    if not isinstance(value, Mapping):
        text: str | None = value
        return text
    error = value.get("error") or {}
    said = str(error.get("message", ""))
    if isinstance(at := error.get("at"), int):
        raise UnicodeDecodeError("utf-8", b"", at, at + 1, said)
    raise OSError(getattr(errno, str(error.get("code")), errno.EIO), said, name)


def check_kind(call: str, expected: str, is_so: bool, found: object) -> None:  # noqa: FBT001 - said by the caller
    """Refuse before anything is written or asked.

    A number for a text would damage the log, and what only the live run raises no replay repeats.
    """
    if not is_so:
        raise UsageError(f"run.{call} takes {expected}; found {shown(found)}")


_KEPT: Final = ("secret", "settings")
"""Methods that ask the kernel for nothing."""


@functools.cache
def _methods(face: type) -> list[tuple[str, bool]]:
    """Return the names of the methods that ask a kernel, and whether they are awaited."""
    found = inspect.getmembers(face, inspect.isfunction)
    is_awaited = {"tool"} if face.__name__ == "Run" else set()
    return [
        (name, name in is_awaited or inspect.iscoroutinefunction(inspect.unwrap(method)))
        for name, method in found
        if not name.startswith("_") and name not in _KEPT
    ]


class Face:
    """What both faces of a run give at once."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._add = kernel.unawaited.add
        self._streams: dict[tuple[str, str], _random.Random] = {}
        self._patches: dict[str, bool] = {}
        self._memories: dict[str, Any] = {}

    def _refuse_all(self) -> None:
        """Refuse every method from now on, in one frame: the run has ended."""
        kernel = self._kernel
        face: type = type(self)

        def refuse(*_given: Any, **_named: Any) -> NoReturn:
            raise UsageError(kernel.outside())

        async def refuse_if_awaited(*_given: Any, **_named: Any) -> NoReturn:
            raise UsageError(kernel.outside())

        for name, is_awaited in _methods(face):
            self.__dict__[name] = refuse_if_awaited if is_awaited else refuse

    @property
    def id(self) -> str:
        """This run's id: 16 hex digits, derived."""
        return self._kernel.identity.run_id

    @property
    def depth(self) -> int:
        """The number of runs above this one; 0 for a root."""
        return self._kernel.identity.depth

    @property
    def call(self) -> str:
        """The call key of the delegation tool that runs here; empty outside of one."""
        return delegation_call.get()

    @property
    def limits(self) -> Limits:
        """The caps that this run was granted."""
        return self._kernel.limits

    @property
    def tokens_left(self) -> int | None:
        """Model tokens that nobody has used and no running child has reserved; None for no cap."""
        return tokens_left(self._kernel.world.fold)

    @property
    def tokens_for_children(self) -> int | None:
        """Of `tokens_left`, what children may have: this run keeps what its last request took."""
        return tokens_to_give(self._kernel.world.fold)

    @property
    def children_left(self) -> int | None:
        """Children that this run may still start; None for no cap."""
        return children_left(self._kernel.world.fold)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that this run was given, sorted by name."""
        return tuple(self._kernel.tools[name] for name in sorted(self._kernel.tools))

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that this run was given, sorted; the default's is empty."""
        return tuple(sorted(self._kernel.models))

    def now(self) -> dt.datetime:
        """Return the time as an aware UTC datetime; it does not move within a step (§9.3)."""
        return _EPOCH + dt.timedelta(microseconds=self._kernel.read_clock().time_us)

    def uuid(self) -> str:
        """Return a new uuid (version 4 in form), drawn from the run's seed and the call key."""
        scope, call = self._kernel.key()
        scope.take_back()
        bits = _random.Random(self._kernel.seed("uuid", call)).getrandbits(128)  # noqa: S311 - to be repeatable
        text = str(UUID(int=bits, version=4))
        self._kernel.ask(ValueDrawn("uuid", "", text))
        return text

    def random(self, stream: str = "") -> _random.Random:
        """Return the seeded `_random.Random` named `stream` of this scope; its first use is a line.

        Draws in one stream, or in another scope, never shift a second.
        """
        check_kind("random", "the name of a stream", isinstance(stream, str), stream)
        self._kernel.check_inside()
        scope = self._kernel.loop.scope()
        found = self._streams.get((scope.path, stream))
        if found is None:
            seed = self._kernel.seed(f"random\0{stream}", scope.path)
            self._kernel.ask(ValueDrawn("random", stream, seed))
            found = self._streams[scope.path, stream] = _random.Random(seed)  # noqa: S311 - the same
        return found

    def read_text(self, path: str | os.PathLike[str]) -> str | None:
        """Return the text of a UTF-8 file, recorded; `None` if the file does not exist.

        For prompts and settings, which replay must not read again; an agent reads files through a
        tool.

        Raises:
            UnicodeDecodeError: the file is not UTF-8.
            OSError: it exists but cannot be read; `IsADirectoryError` for a folder.
        """
        is_path = isinstance(path, str | os.PathLike)
        check_kind("read_text", "the path of a file", is_path, path)
        name = os.fspath(path)
        check_kind("read_text", "the path of a file", name != "", path)
        check_kind("read_text", "a path without a NUL", "\0" not in name, path)
        return _drawn_text(name, self._kernel.draw("file", name, lambda: _text_of(name)))

    def environment(self, name: str) -> str | None:
        """Return an environment variable, recorded; `None` where it is not set.

        Never for secrets, for the log holds the value: `secret` gives a handle.

        Raises:
            UnicodeDecodeError: its value is not UTF-8.
        """
        check_kind("environment", "the name of a variable", isinstance(name, str), name)
        value = self._kernel.draw("environment", name, lambda: _variable(name))
        return _drawn_text(name, value)

    def secret(self, name: str, /) -> Any:
        """Return a handle to a secret: an argument for tools, which receive its value.

        Type checkers see no type: a tool annotates the value as `str`.

        The value comes from `record(secrets={name: …})`, else from the environment variable. It is
        read just before a tool runs, is never logged, and is removed from all later results.
        """
        check_kind("secret", "the name of a secret", isinstance(name, str), name)
        self._kernel.hand_out(name)
        return Secret(name)

    def settings(self, name: str, make: Callable[[], Json]) -> Any:
        """Return how a tool is set up, recorded; in replay `make` is not called.

        Raises:
            NotCanonical: live, if a log cannot hold the result of `make`.
        """
        check_kind("settings", "a function without arguments", callable(make), make)
        return self._kernel.draw("settings", name, make)

    @property
    def session(self) -> Any:
        """The session of this run.

        Raises:
            UsageError: the run has none; pass one: `record(…, session=…)`.
        """
        if self._kernel.session is None:
            raise UsageError("this run has no session: pass one, record(…, session=Session())")
        return self._kernel.session

    def patched(self, marker: str, /) -> bool:
        """Return whether this run goes the way of the change that `marker` names.

        True in a new run, which records it in its log: `patch.marked`; in a replay, whether the
        record has the marker. So `if run.patched("ask twice"): … else: …` replays old logs as they
        were. A marker is not a call: it takes no ordinal, and one that the program no longer asks
        for is ignored (CONTRACT.md §9.8).
        """
        check_kind("patched", "a string", isinstance(marker, str), marker)
        self._kernel.check_inside()
        found = self._patches.get(marker)
        if found is None:
            with self._kernel.failing():
                found = self._patches[marker] = self._kernel.world.patched(marker)
        return found

    def annotate(
        self,
        text: str,
        data: Json = None,
        *,
        measured: Iterable[str] = (),
        ids: Iterable[str] = (),
    ) -> None:
        """Write a remark into the log: `note.added`.

        `measured` are JSON pointers into `data`, `/took_ms`, to values that change in another
        recording of the same program; `ids` are texts made of a run's id, in any place. Diffs and
        snapshots leave out the former, identify the latter by their place, and list both
        (CONTRACT.md §13.2); a replay compares them like all others.

        Raises:
            NotCanonical: `data` cannot be held by a log.
            UsageError: `measured` holds something other than a pointer.
        """
        check_kind("annotate", "a string, and then data", isinstance(text, str), text)
        measured = texts(measured, "run.annotate(measured=…)")
        ids = texts(ids, "run.annotate(ids=…)")
        kernel, note = self._kernel, NoteAdded(text, to_json(data))
        for pointer in measured:
            check_pointer(pointer, "annotate(measured=…)")
        if measured or ids:
            scope, call = kernel.key()
            scope.take_back()  # the note takes it
            kernel.declare(f"note:{text}", call, [f"/data{each}" for each in measured], ids)
        kernel.ask(note)
