"""The critical path of a run: from its end back over the last delivered outcome, each time.

The links are those of `refold why`; if the run waited for a child's outcome, the path goes through
the child. Rules: CONTRACT.md §14.14, §14.16.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Link = tuple[str, str, int]
"""How, the id of the log (empty: it is not here), seq."""


LOOK_MAX: Final = 1_000
"""Entries that are looked at to see whether a child was waited for."""


def critical_path(
    links: Mapping[tuple[str, int], Sequence[Link]],
    times: Mapping[str, Sequence[int]],
    scopes: Mapping[str, Sequence[str]],
    root: str,
) -> list[list[Any]]:
    """Return the segments `[log, from seq, to seq, start, end]` of the path, in order of time.

    A segment between two logs belongs to the one that it leads to, from that entry to itself.
    Neighbours in one log are one segment if each entry of it is on the path.
    """
    if not times.get(root):
        return []
    found: list[list[Any]] = []
    is_dense = False
    log, seq = root, len(times[root]) - 1
    while direct := links.get((log, seq)):
        waited = [each for each in direct if each[0] != "raises"]  # its error may be an older one
        _, above, before = next((each for each in waited if each[0] == "ends with"), waited[0])
        if above not in ("", log) and seq:
            busy = _busy(times[log], scopes[log], seq, times[above][before])
            above, before = (above, before) if busy is None else (log, busy)
        if not above:  # the parent of the root that was asked for, which is not here
            break
        end = times[log][seq]
        start = min(times[above][before], end)
        since = before if above == log else seq
        is_next = seq - since <= 1
        if is_dense and is_next and found[-1][:2] == [log, seq]:
            found[-1][1], found[-1][3] = since, start
        else:
            found.append([log, since, seq, start, end])
        is_dense = is_next
        log, seq = above, before
    return found[::-1]


def _busy(times: Sequence[int], scopes: Sequence[str], seq: int, ended: int) -> int | None:
    """Return the last entry, after the child's end, of the task that gets its outcome.

    `None`: nothing, so it waited for the child. Entries of other tasks in between do not count.
    """
    for at in range(seq - 1, max(0, seq - LOOK_MAX), -1):
        if times[at] <= ended:
            break
        if scopes[at] == scopes[seq]:
            return at
    return None
