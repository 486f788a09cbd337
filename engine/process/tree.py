"""The processes that belong to a child, their memory, and their end (CONTRACT.md §7.3).

A descendant that forked twice and made its own session is not in the child's group. It is found by
the tag in its environment, by its session, or because it was seen below the child while that ran.
One that removes its environment and leaves between two checks is not found: that requires intent,
and this only limits accidents.

It does not use a subreaper, which applies to the whole host process and would give it orphans from
elsewhere. Imports nothing heavy: the child's side uses this module before anything else.
"""

import os
import time
from typing import Final

from refold.engine.process.views import Member, View

_PAUSE_SECONDS: Final = 0.005


def system_view() -> View:
    """Return the view for this system."""
    if View.is_there():
        return View()
    # Not at the top: only a system that needs psutil pays for its import.
    from refold.engine.process.psutil_view import PsutilView  # noqa: PLC0415

    return PsutilView()


def work_of(leader: int, view: View) -> float | None:
    """Return the processor seconds of a process and all processes below it (CONTRACT.md §16.14).

    `None` while all of them are idle, or if the system does not report their activity.
    """
    seconds, is_at_work, waiting = 0.0, False, [leader]
    while waiting:
        pid = waiting.pop()
        seconds += view.cpu_seconds(pid)
        is_at_work = is_at_work or view.is_at_work(pid)
        waiting += view.children(pid)
    return seconds if is_at_work else None


def group_below(leader: int, view: View) -> list[int]:
    """Return the processes below one that are in its group: those that keys would reach with it."""
    first = view.member(leader)
    found, waiting = [], [leader] if first else []
    while waiting:
        members = filter(None, map(view.member, view.children(waiting.pop())))
        near = [each.pid for each in members if first and each.group == first.group]
        found += near
        waiting += near
    return found


class Tree:
    """The descendants of one child.  The child itself is its leader."""

    def __init__(self, leader: int, tag: str, view: View | None = None) -> None:
        self._leader = leader
        self._tag = tag
        self._view = view or system_view()
        self._known: dict[int, Member] = {}
        first = self._view.member(leader)
        self._born = first.born if first else 0.0
        self._unclear = False

    def find_descendants(self) -> None:
        """Note the descendants that hang below the child now; they stay known when cut loose."""
        waiting = [self._leader, *self._known]
        while waiting:
            waiting += self._below(waiting.pop())

    def resident_bytes(self) -> int:
        """Return the memory of the child and all known descendants; shared pages count again."""
        return sum(self._view.resident_bytes(pid) for pid in (self._leader, *self._known))

    def leader_ended(self) -> bool:
        """Return whether the child itself is a zombie, or gone."""
        return self._view.member(self._leader) is None

    def sweep(self, until: float) -> int:
        """Kill all descendants; return how many were outside the child's group.

        Ends when none is left, or at `until` on the monotonic clock. Only valid before the leader
        is reaped, because it relies on its session's number.
        """
        killed: set[Member] = set()
        calm = 0
        while True:
            found = self._survivors()
            # The oldest first: a run ends before what it started, and writes down no end of it.
            for member in sorted(found, key=lambda each: (each.born, each.pid)):
                self._view.kill(member)
            killed |= found
            calm = 0 if found else calm + 1
            # Who forks while it is hunted, or is in the middle of an exec, slips through one scan.
            if calm == (2 if killed or self._unclear else 1) or time.monotonic() >= until:
                break
            time.sleep(_PAUSE_SECONDS)
        return sum(member.group != self._leader for member in killed)

    def _below(self, pid: int) -> list[int]:
        """Note the children of a process that is ours; return those that are new."""
        children = list(self._view.children(pid))
        known = self._known.get(pid)
        if known and not self._lives(known):
            del self._known[
                pid
            ]  # It ended, or changed hands: then these are a stranger's children.
            return []
        seen = map(self._view.member, children)
        new = [m for m in seen if m and m.parent == pid and m.pid not in self._known]
        self._known |= {member.pid: member for member in new}
        return [member.pid for member in new]

    def _lives(self, member: Member) -> bool:
        now = self._view.member(member.pid)
        return now is not None and now.born == member.born

    def _survivors(self) -> set[Member]:
        self.find_descendants()
        strangers = {os.getpid(), self._leader}
        found = {m for pid in self._view.pids() if pid not in strangers and (m := self._ours(pid))}
        self._known |= {member.pid: member for member in found}
        return found

    def _ours(self, pid: int) -> Member | None:
        member = self._view.member(pid)
        if member is None or member.born < self._born:
            return None
        known = self._known.get(pid)
        if known and known.born == member.born:
            return member
        tags = self._view.tags(pid)
        self._unclear |= tags is None
        of_ours = member.session == self._leader or self._tag in (tags or "").split(":")
        return member if of_ours else None
