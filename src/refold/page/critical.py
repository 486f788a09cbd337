"""What led to each entry of a run, and its critical path.

The path goes from the end of the run back over the last delivered outcome, each time. The links are
those of `refold why`; if the run waited for a child's outcome, the path goes through the child.
Rules: CONTRACT.md §14.14, §14.16.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

Link = tuple[str, str, int]
"""How, the id of the log (empty: it is not here), seq."""

LOOK_MAX: Final = 1_000
"""Entries that are looked at to see whether a child was waited for."""


class CauseLinks:
    """What led to each entry of some logs directly: numbers, in 13 bytes for most entries."""

    def __init__(
        self, logs: Iterable[str], direct: Iterable[tuple[str, int, Sequence[Link]]]
    ) -> None:
        """Take the links of each log's entries in order: log, seq, the link of its chain first."""
        self._words: dict[str, int] = {}
        self._logs = {log: at for at, log in enumerate(logs)}
        self._main = {log: (array("b"), array("i"), array("q")) for log in self._logs}
        self._beside: dict[tuple[str, int], Sequence[Link]] = {}
        for log, seq, links in direct:
            how, above, at = links[0] if links else ("", log, -1)
            word = self._words.setdefault(how, len(self._words))
            row = word, self._logs.get(above, -1), at
            for column, value in zip(self._main[log], row, strict=True):
                column.append(value)
            if links[1:]:
                self._beside[log, seq] = links[1:]
        self._how, self._above = [*self._words], [*self._logs, ""]

    def get(self, place: tuple[str, int]) -> Sequence[Link]:
        """Return what led to the entry at (log, seq), the link of its chain first."""
        log, seq = place
        word, above, at = (column[seq] for column in self._main[log])
        if at < 0:
            return ()
        return ((self._how[word], self._above[above], at), *self._beside.get(place, ()))

    def as_json(self) -> dict[str, Any]:
        """Return by log the link of each entry's chain; and by entry, what else led to it.

        The links of a log are three lists, which a browser holds in a tenth of the memory of one
        list of links: `how`, a number of `words`, and for its origin, `log`, a number of `logs`
        (-1: it is not here), and `seq`, which is -1 for an entry without a cause.
        """
        columns = ("how", "log", "seq")
        main = {
            log: {name: each.tolist() for name, each in zip(columns, row, strict=True)}
            for log, row in self._main.items()
        }
        beside = {f"{log}:{seq}": links for (log, seq), links in self._beside.items()}
        return main | {"words": [*self._words], "logs": [*self._logs], "beside": beside}


def critical_path(
    links: CauseLinks | Mapping[tuple[str, int], Sequence[Link]],
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
