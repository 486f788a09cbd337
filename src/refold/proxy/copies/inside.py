"""Runs before `bwrap`, to lay scratch space over folders, and in it, to become the command.

The source is given to a bare interpreter with `-c`, since nothing of Refold need be visible in the
sandbox; so it uses the standard library alone.  `sandbox` starts it and speaks with it.
"""

import array
import json
import os
import signal
import socket
import struct
import sys
from typing import Any, Final

_NEWUSER: Final = 0x10000000
_NEWNS: Final = 0x00020000
_RDONLY_FD: Final = os.O_RDONLY | os.O_DIRECTORY


def before(spec: dict[str, Any]) -> None:
    """Lay a scratch layer over each folder of `spec["layers"]`, and become `bwrap`.

    Files written there stay in memory, and are gone with the last process of the sandbox. Signals
    are the command's: until it runs, and in `bwrap`, they are ignored.
    """
    for number in spec["signals"]:
        signal.signal(number, signal.SIG_IGN)
    if spec["layers"]:
        _layered(spec["scratch"], spec["layers"])
    os.execvp(spec["bwrap"][0], spec["bwrap"])  # noqa: S606 - no shell


def _layered(scratch: str, layers: list[str]) -> None:
    import ctypes  # noqa: PLC0415 - only where there are layers

    libc = ctypes.CDLL(None, use_errno=True)

    def done(result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

    user, group = os.geteuid(), os.getegid()
    done(libc.unshare(_NEWUSER | _NEWNS))
    for what, text in (
        ("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1"),
    ):  # fmt: skip
        with open(f"/proc/self/{what}", "w") as file:  # noqa: PTH123 - without pathlib
            file.write(text)
    at = os.fsencode(scratch)
    done(libc.mount(b"refold", at, b"tmpfs", 0, b"mode=0700"))
    for number, folder in enumerate(layers):
        below = os.open(folder, _RDONLY_FD)  # a path with a comma or a colon cannot be an option
        names = [b"%s/%s%d" % (at, name, number) for name in (b"upper", b"work", b"layer")]
        for name in names:
            os.mkdir(name)  # noqa: PTH102 - bytes, as `mount` takes them
        upper, work, layer = names
        told = b"lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s,userxattr" % (below, upper, work)
        done(libc.mount(b"refold", layer, b"overlay", 0, told))
        os.close(below)


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
