"""The system's process data, on Linux from the files under `/proc`.

Reads and kills single processes; `tree` decides which are ours. Other systems are in `psutil_view`;
on Linux, psutil reads every process on the machine to find the children of one, does not know the
states of threads, and kills by pid. To add a system: add a class below `View` with all its methods,
and a line in `tree.system_view`.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

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


class View:
    """How a system shows its processes: Linux, by the files under `/proc`.

    Nothing here raises: what cannot be seen is absent.
    """

    @staticmethod
    def is_there() -> bool:
        """Return whether this system has all that is read here."""
        if sys.platform == "linux":
            with contextlib.suppress(OSError), _pinned(os.getpid()):
                os.close(os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY))
                return True
        return False

    def pids(self) -> list[int]:
        """Return all processes there are: the numbers in `/proc`."""
        with os.scandir("/proc") as entries:
            return [int(entry.name) for entry in entries if entry.name.isdecimal()]

    def children(self, pid: int) -> list[int]:
        """Return the direct children of a process, from all its threads."""
        return [int(each) for task in _tasks(pid) for each in _read(f"{task}/children").split()]

    def member(self, pid: int) -> Member | None:
        """Return a process that lives; what `/proc/<pid>/stat` calls zombie or dead does not."""
        fields = _stat(f"/proc/{pid}")
        if not fields or fields[0] in b"ZX":
            return None
        parent, group, session = map(int, fields[1:4])
        return Member(pid, int(fields[19]), parent, group, session)

    def tags(self, pid: int) -> str | None:
        """Return the value of `TAGS` in the environment that the process started with.

        `None` where no environment can be seen, as for a process in the middle of an exec.
        """
        key = f"{TAGS}=".encode()
        environment = _read(f"/proc/{pid}/environ")
        for line in environment.split(b"\0"):
            if line.startswith(key):
                return line.removeprefix(key).decode(errors="replace")
        return "" if environment else None

    def resident_bytes(self, pid: int) -> int:
        """Return the memory that a process holds: its resident pages, in bytes."""
        fields = _read(f"/proc/{pid}/statm").split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if fields else 0

    def cpu_seconds(self, pid: int) -> float:
        """Return the time that a process has had a processor, for itself and in the system."""
        return sum(map(int, _stat(f"/proc/{pid}")[11:13])) / os.sysconf("SC_CLK_TCK")

    def is_at_work(self, pid: int) -> bool:
        """Return whether a thread of a process runs, or waits for a processor or a disk: R or D.

        `False` if the system does not report it.
        """
        return any(fields and fields[0] in b"RD" for fields in map(_stat, _tasks(pid)))

    def kill(self, member: Member) -> None:
        """Send KILL to that very process, which is pinned, and to no later owner of its pid."""
        with contextlib.suppress(OSError), _pinned(member.pid) as handle:
            now = self.member(member.pid)
            if now and now.born == member.born:
                signal.pidfd_send_signal(handle, signal.SIGKILL)


def _tasks(pid: int) -> list[str]:
    """Return the folders of a process's threads; none where it has ended."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        return [task.path for task in tasks]
    return []


def _stat(folder: str) -> list[bytes]:
    """Return the fields behind the name, which may hold spaces and brackets itself."""
    return _read(f"{folder}/stat").rpartition(b")")[2].split()


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
