"""Runs before `bwrap`, to lay scratch space over folders, and in it, to become the command.

The source is given to a bare interpreter with `-c`, since nothing of Refold need be visible in the
sandbox; so it uses the standard library alone.  `sandbox` starts it and speaks with it.
"""

import array
import contextlib
import errno
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, Final

_NEWUSER: Final = 0x10000000
_NEWNS: Final = 0x00020000
_OVERLAYS_MAX: Final = 2000
_UNREAD: Final = (PermissionError, FileNotFoundError)
"""The command cannot read it, either; or it was removed meanwhile."""
_COPIED_MAX: Final = 64 * 1024**2
"""Bytes of a file beside a mount: it is copied into memory."""
_RDONLY_FD: Final = os.O_RDONLY | os.O_DIRECTORY


def before(spec: dict[str, Any]) -> None:
    """Lay a scratch layer over each folder of `spec["layers"]`, and become `bwrap`.

    Files written there stay in memory, and are gone with the last process of the sandbox. Signals
    are the command's: until it runs, and in `bwrap`, they are ignored.
    """
    for number in spec["signals"]:
        signal.signal(number, signal.SIG_IGN)
    if spec["layers"]:
        _layered(spec["scratch"], spec["layers"], spec["mounts"])
    os.execvp(spec["bwrap"][0], spec["bwrap"])  # noqa: S606 - no shell


def _layered(scratch: str, layers: list[str], mounts: list[str]) -> None:
    space = _Scratch(scratch, mounts)
    for number, folder in enumerate(layers):
        layer = f"{scratch}/layer{number}"
        os.mkdir(layer)  # noqa: PTH102 - without pathlib
        space.lay(folder, layer)


class _Scratch:
    """Scratch space in memory, in a namespace of its own."""

    def __init__(self, at: str, mounts: list[str]) -> None:
        import ctypes  # noqa: PLC0415 - only where there are layers

        self._at = at
        self._mounts = mounts
        self._count = 0
        self._c = ctypes.CDLL(None, use_errno=True)
        self._error = ctypes.get_errno
        user, group = os.geteuid(), os.getegid()
        self._done(self._c.unshare(_NEWUSER | _NEWNS))
        for what, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{what}", "w") as file:  # noqa: PTH123 - without pathlib
                file.write(text)
        self._mount(at, b"tmpfs", b"mode=0700")

    def lay(self, folder: str, layer: str) -> None:
        """Show a folder at `layer`, below scratch space.

        The kernel refuses that for a folder with mounts in it: then each folder beside them has
        scratch space of its own, and files beside them are copied.
        """
        if not any(each.startswith(f"{folder}/") for each in self._mounts):
            self._overlay(folder, layer)
            return
        from shutil import copy2, copystat  # noqa: PLC0415 - it loads compressors

        for entry in os.scandir(folder):
            to = f"{layer}/{entry.name}"
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), to)  # noqa: PTH115, PTH211 - without pathlib
            elif entry.is_dir():
                os.mkdir(to)  # noqa: PTH102 - the same
                if entry.path not in (*self._mounts, self._at):
                    with contextlib.suppress(*_UNREAD):
                        self.lay(entry.path, to)
            elif entry.is_file():
                with contextlib.suppress(*_UNREAD):
                    if entry.path in self._mounts:
                        os.close(os.open(to, os.O_CREAT | os.O_WRONLY))
                    elif entry.stat().st_size > _COPIED_MAX:
                        why = "a file next to a mount is too large"
                        raise OSError(errno.EFBIG, why, entry.path)
                    else:
                        copy2(entry.path, to)
        copystat(folder, layer)

    def _overlay(self, folder: str, layer: str) -> None:
        number, self._count = self._count, self._count + 1
        if number >= _OVERLAYS_MAX:
            raise OSError(errno.ENOSPC, "too many folders next to mounts", folder)
        below = os.open(folder, _RDONLY_FD)  # a path with a comma or a colon cannot be an option
        upper, work = (f"{self._at}/{name}{number}" for name in ("upper", "work"))
        os.mkdir(upper)  # noqa: PTH102 - without pathlib
        os.mkdir(work)  # noqa: PTH102 - the same
        told = f"lowerdir=/proc/self/fd/{below},upperdir={upper},workdir={work},userxattr"
        self._mount(layer, b"overlay", os.fsencode(told))
        os.close(below)

    def _mount(self, at: str, kind: bytes, told: bytes) -> None:
        self._done(self._c.mount(b"refold", os.fsencode(at), kind, 0, told))

    def _done(self, result: int) -> None:
        if result:
            raise OSError(self._error(), os.strerror(self._error()))


def inside(number: int, *, listens: bool) -> None:
    """Offer a port of this namespace to the proxy, and become the command that it names."""
    control = socket.socket(fileno=number)
    control.set_inheritable(False)
    offered = []
    if listens:
        server = socket.create_server(("127.0.0.1", 0), backlog=2048)
        offered = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [server.fileno()]))]
    control.sendmsg([b"."], offered)
    size, rights, _, _ = control.recvmsg(8, socket.CMSG_SPACE(12))
    if len(size) < 8:  # noqa: PLR2004 - the proxy has left
        os._exit(1)
    received = array.array("i", rights[0][2])
    for each in received:
        os.set_inheritable(each, False)  # noqa: FBT003 - they close when the command runs
    *streams, report = received
    with control.makefile("rb") as file:
        told = json.loads(file.read(struct.unpack("Q", size)[0]))
    try:
        for to, stream in enumerate(streams, 1):
            os.dup2(stream, to)
        os.chdir(told["folder"])
        for each in told["signals"]:
            signal.signal(each, signal.SIG_DFL)
        os.execvpe(told["command"][0], told["command"], told["variables"])  # noqa: S606
    except (OSError, ValueError) as error:
        os.write(report, json.dumps([getattr(error, "errno", 0) or 0, str(error)]).encode())
        os._exit(127)


if __name__ == "__main__":  # with -c, too
    if sys.argv[1] == "before":
        before(json.loads(sys.argv[2]))
    else:
        inside(int(sys.argv[2]), listens=sys.argv[3] == "listens")
