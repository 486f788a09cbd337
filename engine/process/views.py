"""What the system shows of its processes, and on Linux: the files under `/proc`.

Reads and kills single processes; which of them are ours is said in `tree`.  Other systems are in
`psutil_view`; on Linux a walk of `/proc` costs a third of it, and needs no import.  To add a
system: a class with the methods of `View`, and a line in `tree.system_view`.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

TAGS: Final = "REFOLD_PROCESS_TAGS"
"""The environment variable with the tags of a process and of all above it, joined by `:`."""


_READ_BYTES: Final = 65536


class Member(NamedTuple):
    """One living process.  Pid and birth together name it: pids come round again."""

    pid: int
    born: float
    parent: int
    group: int
    session: int


class View(Protocol):
    """How a system shows its processes.  Nothing here raises: what cannot be seen is absent."""

    def pids(self) -> Iterable[int]:
        """Return all processes there are."""
        ...

    def children(self, pid: int) -> Iterable[int]:
        """Return the direct children of a process."""
        ...

    def member(self, pid: int) -> Member | None:
        """Return a process that lives; a zombie does not."""
        ...

    def tags(self, pid: int) -> str | None:
        """Return the value of `TAGS` in the environment that the process started with.

        `None` where no environment can be seen, as for a process in the middle of an exec.
        """
        ...

    def resident_bytes(self, pid: int) -> int:
        """Return the memory that a process holds."""
        ...

    def cpu_seconds(self, pid: int) -> float:
        """Return the time that a process has had a processor."""
        ...

    def is_at_work(self, pid: int) -> bool:
        """Return whether a thread of a process runs, or waits for a processor or a disk.

        `False` where the system does not say.
        """
        ...

    def kill(self, member: Member) -> None:
        """Send KILL to that very process, and to no later owner of its pid."""
        ...


class ProcView:
    """Linux: the files under `/proc`."""

    @staticmethod
    def is_there() -> bool:
        """Return whether this system has all that is read here."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError), _pinned(os.getpid()):
                os.close(os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY))
                return True
        return False

    def pids(self) -> list[int]:
        """Return the numbers in `/proc`."""
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]

    def children(self, pid: int) -> list[int]:
        """Return the children of all threads of the process."""
        found: list[int] = []
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
            for task in tasks:
                found += map(int, _read(f"{task.path}/children").split())
        return found

    def member(self, pid: int) -> Member | None:
        """Return what `/proc/<pid>/stat` says, unless it says zombie or dead."""
        # The name, in brackets, may hold spaces and brackets itself: fields count from the last.
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        if not fields or fields[0] in b"ZX":
            return None
        parent, group, session = map(int, fields[1:4])
        return Member(pid, int(fields[19]), parent, group, session)

    def tags(self, pid: int) -> str | None:
        """Return it from the environment as it was at the last exec."""
        key = f"{TAGS}=".encode()
        environment = _read(f"/proc/{pid}/environ")
        for line in environment.split(b"\0"):
            if line.startswith(key):
                return line.removeprefix(key).decode(errors="replace")
        return "" if environment else None

    def resident_bytes(self, pid: int) -> int:
        """Return the resident pages, in bytes."""
        fields = _read(f"/proc/{pid}/statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def cpu_seconds(self, pid: int) -> float:
        """Return its user and system time."""
        fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def is_at_work(self, pid: int) -> bool:
        """Return whether a thread is in the state R or D."""
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
            for task in tasks:
                fields = _read(f"{task.path}/stat").rpartition(b")")[2].split()
                if fields and fields[0] in b"RD":
                    return True
        return False

    def kill(self, member: Member) -> None:
        """Pin the process by a descriptor, look whether it is the right one, kill it."""
        with contextlib.suppress(OSError), _pinned(member.pid) as handle:
            now = self.member(member.pid)
            if now and now.born == member.born:
                signal.pidfd_send_signal(handle, signal.SIGKILL)


@contextlib.contextmanager
def _pinned(pid: int) -> Iterator[int]:
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def _read(path: str) -> bytes:
    parts: list[bytes] = []
    with contextlib.suppress(OSError):  # It ended, or is another user's: either way not ours.
        fd = os.open(path, os.O_RDONLY)
        try:
            while part := os.read(fd, _READ_BYTES):
                parts.append(part)
        finally:
            os.close(fd)
    return b"".join(parts)
