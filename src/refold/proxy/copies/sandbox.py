"""A command in a sandbox of `bwrap`: a copy is at the recorded path, and nothing else changes.

The rest of the file system is read-only; writes to HOME and to the folders for temporary files go
to a scratch layer over them, if the system has such layers, and are thrown away. The command has
this user's id, processes of its own, and a loopback that leads to the proxy alone: its listening
socket is made inside and passed out. Linux only. Rules: CONTRACT.md §16.20.
"""

import array
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import attrs

from refold.engine.workspace.left_out import home_folder

_SIGNALS: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)
"""Ignored by each interpreter, and by no other program."""
_MADE: Final = ("proc", "dev")
"""Folders of the root that are made anew."""
_SOCKETS: Final = "/run"
"""Sockets of services of this machine that would have effects outside."""
_KEPT: Final = "/run/current-system"
"""The programs of NixOS."""
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - they are looked at, and layered
_STDERR: Final = 2
_CREDENTIALS: Final = struct.Struct("3i")


class SandboxRefused(Exception):
    """No sandbox is available here; its text gives the reason."""


@attrs.frozen(kw_only=True)
class SandboxView:
    """Folders in a sandbox, in addition to the current file system."""

    scratch: Path
    """An empty folder, for the sandbox alone."""
    hidden: Path
    """A folder that is hidden except for the folders shown in it."""
    places: tuple[tuple[Path, str], ...] = ()
    """Folders that may be written to, and where they are seen."""
    layered: tuple[tuple[Path, str], ...] = ()
    """Folders that are seen elsewhere under a scratch layer; left out without layers."""
    shown: tuple[tuple[Path, str], ...] = ()
    """Folders that are seen elsewhere, read-only."""
    has_network: bool = False


class Boxed(subprocess.Popen[bytes]):
    """The process of a sandbox: it ends as the command does, and signals are the command's."""

    command: int = -1
    """A descriptor of the process of the command."""
    leader: int = -1
    """Its number outside of the sandbox."""

    def send_signal(self, sig: int) -> None:
        """Send a signal to the command; to the sandbox before the command exists."""
        if self.command < 0:
            super().send_signal(sig)
        elif self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.command, sig)


@attrs.frozen(kw_only=True)
class Sandbox:
    """One that is open: it waits for a command."""

    listening: socket.socket | None
    """The proxy's address for the command; `None` if it has the network of this machine."""
    _process: Boxed
    _control: socket.socket
    _folder: str

    def start(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        output: int,
        errors: int | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start the command in its folder, with these descriptors as output and error.

        Raises:
            OSError: it cannot be started; with the reason of the system.
        """
        told = {
            "command": list(command),
            "variables": {**variables, "PWD": self._folder},
            "folder": self._folder,
            "signals": [*_passed(), *_BY_PYTHON],
        }
        content = json.dumps(told).encode()
        report, its = os.pipe()
        try:
            rights = array.array("i", [output, _STDERR if errors is None else errors, its])
            size = struct.pack("Q", len(content))
            self._control.sendmsg([size], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            self._control.sendall(content)
        finally:
            os.close(its)
        with open(report, "rb") as file:  # noqa: PTH123 - a descriptor
            answer = file.read()  # its end comes when the command runs, or nothing does any more
        if answer:
            number, why = json.loads(answer)
            raise OSError(number, os.strerror(number) if number else why)
        return self._process


@functools.cache
def no_layers() -> str:
    """Look whether there are sandboxes here; return why they have no layers, empty if they have.

    Raises:
        SandboxRefused: this system has none; with the reason that it gives.
    """
    if sys.platform != "linux":
        raise SandboxRefused("bwrap needs Linux")
    if shutil.which("bwrap") is None:
        raise SandboxRefused("bwrap is not installed")
    with tempfile.TemporaryDirectory(prefix="refold-") as scratch:
        view = SandboxView(scratch=Path(scratch), hidden=Path(scratch))
        try:
            with opened(view, "/", has_layers=True):
                return ""
        except SandboxRefused as error:
            why = str(error)
        with opened(view, "/", has_layers=False):  # systems may allow namespaces to bwrap alone
            return why


@contextlib.contextmanager
def opened(view: SandboxView, folder: str, has_layers: bool) -> Iterator[Sandbox]:  # noqa: FBT001
    """Open a sandbox for one command that starts in `folder`; end all of it with the block.

    Raises:
        SandboxRefused: this system has none like that.
    """
    with contextlib.ExitStack() as left:
        try:
            box = left.enter_context(_opened(view, folder, has_layers))
        except SandboxRefused:  # perhaps of a socket or a mount that went meanwhile
            box = left.enter_context(_opened(view, folder, has_layers))
        yield box


@contextlib.contextmanager
def _opened(view: SandboxView, folder: str, has_layers: bool) -> Iterator[Sandbox]:  # noqa: FBT001
    layers = _layers() if has_layers else None
    ours, its = socket.socketpair()
    with ours, its, tempfile.TemporaryFile() as errors:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        says = "shares" if view.has_network else "listens"
        bare = [getattr(sys, "_base_executable", sys.executable), "-I", "-S", "-c", _source()]
        spec = {
            "signals": _passed(),
            "scratch": str(view.scratch),
            "layers": [*(layers or ()), *(str(source) for source, _ in view.layered)],
            "mounts": _mounts(),
            "bwrap": [
                *_arguments(view, layers), "--", *bare, "inside", str(its.fileno()), says
            ],
        }  # fmt: skip
        process = Boxed([*bare, "before", json.dumps(spec)], stderr=errors, pass_fds=[its.fileno()])
        its.close()
        try:
            try:
                listening = _offered(ours, process)
            except EOFError:
                process.wait()
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().splitlines()
                why = said[-1] if said else f"it exited with status {process.returncode}"
                raise SandboxRefused(why) from None
            with listening or contextlib.nullcontext():
                yield Sandbox(
                    listening=listening, process=process, control=ours, folder=folder
                )  # fmt: skip
        finally:
            if process.poll() is None:
                subprocess.Popen.send_signal(process, signal.SIGKILL)
            process.wait()
            if process.command >= 0:
                os.close(process.command)


def _offered(control: socket.socket, process: Boxed) -> socket.socket | None:
    """Take the offer of the inside: a listening socket, if it has one, and its process.

    Raises:
        EOFError: it has ended.
    """
    room = socket.CMSG_SPACE(4) + socket.CMSG_SPACE(_CREDENTIALS.size)
    said, offered, _, _ = control.recvmsg(1, room)
    if not said:
        raise EOFError
    listening = None
    for _, kind, content in offered:
        if kind == socket.SCM_RIGHTS:
            (number,) = array.array("i", content)
            listening = socket.socket(fileno=number)
        elif kind == socket.SCM_CREDENTIALS:
            process.leader = _CREDENTIALS.unpack(content)[0]
            process.command = os.pidfd_open(process.leader)
    return listening


@functools.cache
def _source() -> str:
    return (resources.files("refold.proxy.copies") / "inside.py").read_text(encoding="utf-8")


def _passed() -> list[int]:
    """Return the signals that the command is to obey: those that nobody has it ignore."""
    return [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]


def _layers() -> list[str]:
    """Return the folders that get a scratch layer: HOME and those for temporary files."""
    named = (os.environ.get("HOME", ""), os.environ.get("TMPDIR", ""), *_TEMPORARY)
    real = {os.path.realpath(name) for name in named if name.startswith("/")}
    whole = sorted(path for path in real if path != "/" and Path(path).is_dir())
    return [path for path in whole if not any(_is_in(path, other) for other in real - {"/"})]


def _is_in(path: str, folder: str) -> bool:
    """Return whether a path lies below a folder."""
    return path.startswith(f"{folder.rstrip('/')}/")


def _arguments(view: SandboxView, layers: Sequence[str] | None) -> list[str]:
    """Return the command of `bwrap`; later mounts lie over earlier ones."""
    told = ["bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent"]
    told += ["--cap-drop", "ALL"]
    told += [] if view.has_network else ["--unshare-net"]
    told += [word for name in sorted(os.listdir("/")) for word in _shown(f"/{name}")]  # noqa: PTH208
    told += ["--proc", "/proc", "--dev", "/dev"]
    if not view.has_network and Path(_SOCKETS).is_dir():
        told += ["--tmpfs", _SOCKETS, "--ro-bind-try", _KEPT, _KEPT]
    for number, folder in enumerate(layers or ()):
        told += ["--bind", f"{view.scratch}/layer{number}", folder]
        told += [word for below in _mounts() if _is_in(below, folder) for word in _shown(below)]
    clear: list[str] = []
    if layers is None:
        home = home_folder()
        clear = [path for path in _TEMPORARY if home != path and not _is_in(home, path)]
        told += [word for path in clear for word in ("--tmpfs", path)]
    if not view.has_network:
        services = _services(layers or (), [_SOCKETS, *clear])
        told += [word for path in services for word in ("--ro-bind", "/dev/null", path)]
    seen = [at for _, at in (*view.shown, *view.places)]
    told += [word for above in _without_room(seen, layers or ()) for word in _room_in(above)]
    told += ["--tmpfs", str(view.hidden)]
    told += [word for source, at in view.shown for word in ("--ro-bind", str(source), at)]
    told += [word for source, at in view.places for word in ("--bind", str(source), at)]
    for number, (_, at) in enumerate(view.layered, len(layers or ())):
        told += ["--bind", f"{view.scratch}/layer{number}", at]
    return [*told, "--remount-ro", "/"]


def _services(layers: Sequence[str], hidden: Sequence[str]) -> Iterator[str]:
    """Yield the sockets of services that would be seen: who may not write may still ask them.

    Below a layer nobody is reached, except on a mount there.
    """
    lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()
    for path in sorted({os.path.realpath(f"/{line.partition(' /')[2]}") for line in lines}):
        above = max((each for each in ("/", *layers, *_mounts()) if _is_in(path, each)), key=len)
        if not (above in layers or any(_is_in(path, each) for each in hidden)):
            with contextlib.suppress(OSError):  # the user cannot reach it, either
                if Path(path).is_socket():
                    yield path


def _shown(path: str) -> list[str]:
    """Return what shows a path as it is, read-only."""
    if os.path.islink(path):  # noqa: PTH114 - a text
        return ["--symlink", os.readlink(path), path]  # noqa: PTH115 - the same
    return [] if path.strip("/") in _MADE else ["--ro-bind-try", path, path]


def _without_room(paths: Iterable[str], layers: Sequence[str]) -> list[str]:
    """Return the folders, outer ones first, in which nobody could create a missing path."""
    missing = (path for path in paths if not Path(path).is_dir())
    found = {next(str(one) for one in Path(path).parents if one.is_dir()) for path in missing}
    return sorted(
        above for above in found - {"/"} if not any(_is_in(f"{above}/", each) for each in layers)
    )


def _room_in(above: str) -> list[str]:
    """Return the mounts that make a folder writable, with what is in it."""
    names = sorted(os.listdir(above))  # noqa: PTH208 - texts
    return ["--tmpfs", above, *(word for name in names for word in _shown(f"{above}/{name}"))]


def _mounts() -> list[str]:
    """Return where something is mounted, outer ones first."""
    lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    found = (line.split(" ")[4] for line in lines)
    return sorted({path.encode("latin-1", "replace").decode("unicode_escape") for path in found})
