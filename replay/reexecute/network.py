"""Refuses network access in a re-executed program, and remembers the places.

A replay needs no network, so a program's network access bypasses the record. Connections, datagrams
and name look-ups are watched. `NetworkWatch` is for tests: it covers the replaying thread and
threads started meanwhile, but not older threads. `program_watch` is part of every replay: it covers
one thread, the kernel's. Both use an audit hook, which cannot be removed: it is installed with the
first watch, and does nothing between watches. The rules are CONTRACT.md §12.13 and §13.14.
"""

import asyncio
import contextlib
import ipaddress
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from traceback import walk_stack
from typing import Any, Final, Literal, Self

from refold.engine.errors import OutsideLoop
from refold.engine.kernel.kernel import Kernel
from refold.engine.loop.loop import Loop, frames

Allowed = Literal["none", "loopback", "any"]

_TO_ADDRESS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
"""Audit events whose second argument is an address: a tuple, or the path of a local socket."""
_OF_NAME: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
"""Audit events whose arguments begin with a host, and a port if there is one."""
_EVENTS: Final = _TO_ADDRESS | _OF_NAME
_STDLIB: Final = str(Path(asyncio.__file__).parents[2])

_REMEDY: Final = (
    "Make it a tool (@refold.tool) and call it through run.tool; a model is asked through run.model"
)

OUTERMOST: Final = (Loop.step.__code__, Kernel.execute.__code__)
"""The outermost frames of Refold below the program."""

_LOGGING: Final = str(Path(logging.__file__).parent)

_watches: "list[NetworkWatch]" = []
_Judge = Callable[[str, tuple[Any, ...]], None]
_judges: dict[int, _Judge] = {}
"""Of uses of the network, by the id of the thread on which the program runs."""
_is_hooked: Final[list[bool]] = []


class NetworkWatch:
    """While it is entered, the network is refused with `OutsideLoop`; a context manager."""

    def __init__(
        self, allowed: Allowed = "none", refused: Collection[tuple[str, int]] = ()
    ) -> None:
        """Watch for all, or let `loopback`, or `any`, pass; `refused` hosts and ports never do.

        Threads whose name begins with `refold-` pass: they are the proxy's own.
        """
        self.allowed = allowed
        self._refused = refused
        self._before: set[int] = set()
        self.seen: list[OutsideLoop] = []
        """Refused accesses, in order: a program may have swallowed the error."""

    def __enter__(self) -> Self:
        self._before = {*frames()} - {threading.get_ident()}
        _install()
        _watches.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _watches.remove(self)

    def judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse one use of the network.

        Raises:
            OutsideLoop: it is not allowed.
        """
        is_ours = threading.current_thread().name.startswith("refold-")
        if threading.get_ident() in self._before or is_ours:
            return
        where = _asked(event, arguments, self.allowed, self._refused)
        if where:
            refused = OutsideLoop(where, *_asking_line())
            self.seen.append(refused)
            raise refused


@contextlib.contextmanager
def program_watch(
    refused: Callable[[OutsideLoop], None], applies: Callable[[], bool] = lambda: True
) -> Iterator[None]:
    """Refuse network access to the program that runs on this thread in the block.

    It is used if all requests of the program are recorded: an access that bypasses the record would
    be repeated for real, and unnoticed. `refused` gets each attempt before it is raised; `applies`
    may disable the check. A handler of `logging` is not part of the run.
    """

    def judge(event: str, arguments: tuple[Any, ...]) -> None:
        if not applies():
            return
        where = _asked(event, arguments, _watches[-1].allowed if _watches else "none")
        if where and not _is_logged():
            found = OutsideLoop(where, *_asking_line(), remedy=_REMEDY)
            refused(found)
            raise found

    _install()
    thread = threading.get_ident()
    before = _judges.get(thread)
    _judges[thread] = judge
    try:
        yield
    finally:
        del _judges[thread]
        if before is not None:
            _judges[thread] = before


def _install() -> None:
    if not _is_hooked:
        sys.addaudithook(_hook)
        _is_hooked.append(True)


def _hook(
    event: str,
    arguments: tuple[Any, ...],
    # Held here, for the hook outlives the names of this module: Python takes those away at its end.
    events: frozenset[str] = _EVENTS,
    watches: list[NetworkWatch] = _watches,
    judges: dict[int, _Judge] = _judges,
    thread: Callable[[], int] = threading.get_ident,
) -> None:
    if event not in events:
        return
    if watches:
        watches[-1].judge(event, arguments)
    if (judge := judges.get(thread())) is not None:
        judge(event, arguments)


def _asked(
    event: str,
    arguments: tuple[Any, ...],
    allowed: Allowed,
    refused: Collection[tuple[str, int]] = (),
) -> str:
    """Return the attempted network access; empty if there is none or it is allowed."""
    address = arguments[1] if event in _TO_ADDRESS else arguments
    is_path = not isinstance(address, tuple)  # of a local socket
    host, port = (*map(_decoded, (address,) if is_path else address[:2]), "")[:2]
    is_near = is_path or _is_loopback(host)
    is_allowed = allowed == "any" or (allowed == "loopback" and is_near)
    if not host or (is_allowed and (host, port) not in {(h, str(p)) for h, p in refused}):
        return ""
    return f"network access to {host}:{port}" if port else f"network access to {host}"


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _decoded(part: Any) -> str:
    if part is None:
        return ""
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)


def _is_logged() -> bool:
    """Return whether a handler of `logging` is the caller: its messages are not part of a run."""
    for frame, _ in walk_stack(sys._getframe(1)):  # noqa: SLF001 - the callers are what is asked for
        if frame.f_code in OUTERMOST:
            break
        if frame.f_code.co_filename.startswith(_LOGGING):
            return True
    return False


def _asking_line() -> tuple[str, int]:
    """Return the file and line that asked: the nearest that is neither Python's nor installed.

    Of a program that is installed itself, the nearest that is not Python's.
    """
    installed = ("(unknown)", 0)
    for frame, line in walk_stack(sys._getframe(1)):  # noqa: SLF001 - the call site is asked for
        file = frame.f_code.co_filename
        if "site-packages" in file:
            installed = installed if installed[1] else (file, line)
        elif file != __file__ and not file.startswith((_STDLIB, "<")):
            return installed if frame.f_code in OUTERMOST else (file, line)
    return installed
