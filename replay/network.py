"""Refuses the network to a program that is re-executed, and remembers who asked for it.

A replay needs no network: what a program asks of it bypassed the record.  Watched are connections,
datagrams and look-ups of names, on the thread that replays and on those that are started
meanwhile; threads that were there before are left alone.  The watch is an audit hook, which cannot
be taken out again: it is set with the first watch, and does nothing between them.
The rules are CONTRACT.md §13.14.
"""

import asyncio
import contextlib
import ipaddress
import sys
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Final, Literal, Self

from refold.engine.errors import OutsideLoop
from refold.engine.kernel import Kernel
from refold.engine.loop import Loop

Allowed = Literal["none", "loopback", "any"]

_TO_ADDRESS: Final = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
"""Audit events whose second argument is an address: a tuple, or the path of a local socket."""
_OF_NAME: Final = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})
"""Audit events whose arguments begin with a host, and a port if there is one."""
_EVENTS: Final = _TO_ADDRESS | _OF_NAME
_STDLIB: Final = str(Path(asyncio.__file__).parents[1])

_OUTERMOST: Final = (Loop.step.__code__, Kernel.execute.__code__)
"""Where the program ends and Refold begins."""

_watches: "list[NetworkWatch]" = []
_is_hooked: Final[list[bool]] = []


class NetworkWatch:
    """While it is entered, the network is refused with `OutsideLoop`; a context manager."""

    def __init__(self, allowed: Allowed = "none") -> None:
        """Watch for all, or let `loopback`, or `any`, pass."""
        self._allowed = allowed
        self._before: set[int] = set()
        self.seen: list[OutsideLoop] = []
        """What was refused, in order: a program may have swallowed it."""

    def __enter__(self) -> Self:
        self._before = {each for each in sys._current_frames() if each != threading.get_ident()}  # noqa: SLF001 - who is there
        if self._allowed != "any":
            if not _is_hooked:
                sys.addaudithook(_hook)
                _is_hooked.append(True)
            _watches.append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self in _watches:
            _watches.remove(self)

    def judge(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse one use of the network.

        Raises:
            OutsideLoop: it is not allowed.
        """
        if threading.get_ident() in self._before:
            return
        address = arguments[1] if event in _TO_ADDRESS else arguments
        host, port = _parts(address)
        is_near = not isinstance(address, tuple) or _is_loopback(host)
        if not host or (self._allowed == "loopback" and is_near):
            return
        file, line = _place()
        where = f"{host}:{port}" if port else host
        refused = OutsideLoop(f"network access to {where}", file, line)
        self.seen.append(refused)
        raise refused


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _watches and event in _EVENTS:
        _watches[-1].judge(event, arguments)


def _parts(address: Any) -> tuple[str, str]:
    """Return host and port, or the path of a local socket; an empty host for none."""
    if not isinstance(address, tuple):
        return _text(address), ""
    return _text(address[0]), _text(address[1]) if len(address) > 1 else ""


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _text(part: Any) -> str:
    if part is None:
        return ""
    return part.decode(errors="replace") if isinstance(part, bytes) else str(part)


def _place() -> tuple[str, int]:
    """Return the file and line that asked: the nearest that is neither Python's nor installed.

    Of a program that is installed itself, the nearest that is not Python's.
    """
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the call site is what is asked for
    installed = ("(unknown)", 0)
    while frame is not None:
        file = frame.f_code.co_filename
        if "site-packages" in file:
            installed = installed if installed[1] else (file, frame.f_lineno)
        elif file != __file__ and not file.startswith((_STDLIB, "<")):
            return installed if frame.f_code in _OUTERMOST else (file, frame.f_lineno)
        frame = frame.f_back
    return installed
