"""The system's process data on systems without a `/proc` like Linux's.

Implements the methods of `engine.process.views.View` with psutil, which checks a process's start
time before it signals. Some systems show no environment, not even to its owner: there, descendants
are found by their session, and by having been seen below the child.
"""

import contextlib
import os

import psutil

from refold.engine.process.views import TAGS, Member, View


class PsutilView(View):
    """Any system that psutil knows."""

    def pids(self) -> list[int]:
        """Return all processes there are."""
        return psutil.pids()

    def children(self, pid: int) -> list[int]:
        """Return the direct children."""
        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
        return []

    def member(self, pid: int) -> Member | None:
        """Return a process that lives."""
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(pid)
            if process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                born, parent = process.create_time(), process.ppid()
                return Member(pid, born, parent, os.getpgid(pid), os.getsid(pid))
        return None

    def tags(self, pid: int) -> str | None:
        """Return it where the system shows environments."""
        with contextlib.suppress(psutil.Error, OSError):
            environment = psutil.Process(pid).environ()
            return environment.get(TAGS, "") if environment else None
        return None

    def resident_bytes(self, pid: int) -> int:
        """Return the resident set."""
        with contextlib.suppress(psutil.Error):
            return int(psutil.Process(pid).memory_info().rss)
        return 0

    def cpu_seconds(self, pid: int) -> float:
        """Return its user and system time."""
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            return float(times.user + times.system)
        return 0.0

    def is_at_work(self, pid: int) -> bool:
        """Return `False`, because some systems report every process as runnable."""
        del pid
        return False

    def kill(self, member: Member) -> None:
        """Kill it, unless its start time shows a different process."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(member.pid)
            if process.create_time() == member.born:
                process.kill()
