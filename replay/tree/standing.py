"""The status of a run without an end: running, waiting for a person, or interrupted.

This module defines these words for `ls`, `show`, the page and its start page. A log's lock shows
whether it is being written (CONTRACT.md §4.3). Nothing is written here. Rules: CONTRACT.md §14.10.
"""

import contextlib
from pathlib import Path
from typing import Final, Literal, get_args

import attrs

from refold.engine.errors import LogError
from refold.engine.events.events import COMPLETES
from refold.engine.log.lock import is_locked
from refold.engine.log.names import child_path
from refold.engine.log.reader import Entry
from refold.replay.index.kept_folds import LogFold, fold_log
from refold.replay.tree.run_node import UNFINISHED, RunNode

OpenStatus = Literal["running", "waits_for_you", "broke_off"]
STANDINGS: Final[tuple[OpenStatus, ...]] = get_args(OpenStatus)
RUNNING: Final = "running"

_ENDS: Final = {*COMPLETES, "effect.cancelled", "effect.late"}
_UNKNOWN: Final = frozenset({"missing", "damaged", "foreign"})
"""States of a log that may have an end which cannot be read."""


def standing(log: Path) -> OpenStatus:
    """Return the status of the run of `log`, which has no end.

    `running`: a writer holds the log.
    `waits_for_you`: no writer, and a question of the run or of one below it is open.
    `broke_off`: no writer, and no open question.
    """
    if is_locked(log):
        return "running"
    return "waits_for_you" if _asks(log) else "broke_off"


def with_standing(tree: RunNode) -> RunNode:
    """Return a tree in which runs without an end have their standing as status.

    A run of which the log is missing, damaged or another run's stays `unfinished`.  A line that is
    just being written is not a torn tail.
    """
    return _stood(tree, tree, "")


def _stood(node: RunNode, root: RunNode, above: str) -> RunNode:
    status, log_state = node.status, node.log_state
    if status == UNFINISHED and log_state not in _UNKNOWN:
        if above == RUNNING or (node.scope and root.status == RUNNING):
            status = RUNNING
        else:
            status = standing(Path(node.log)) if node.log else "broke_off"
            if status == "waits_for_you" and above not in ("", *STANDINGS):
                status = "broke_off"  # the run that started it has ended: nobody takes an answer
    if status == RUNNING and log_state == "torn":
        log_state = "read"
    stood = attrs.evolve(node, status=status, log_state=log_state)
    above, root = status, stood if node is root else root
    children = tuple(_stood(child, root, above) for child in node.children)
    return attrs.evolve(stood, children=children)


class _Waiting(LogFold):
    """Finds the open questions of a log, and the children that were not joined."""

    def __init__(self) -> None:
        super().__init__()
        self.has_ended = False
        self.waiting: dict[str | None, int | None] = {}
        """By call: a child's number, or `None` for a question."""

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        self.has_ended = self.has_ended or entry.kind == "run.finished"
        if entry.kind == "input.asked":
            self.waiting[entry.call] = None
        elif entry.kind == "child.started":
            self.waiting[entry.call] = int(entry.data.get("number", 0))
        elif entry.kind in _ENDS:
            self.waiting.pop(entry.call, None)


def _asks(log: Path) -> bool:
    """Return whether a question is open in a log, or in one of a child that was not joined."""
    found = _Waiting()
    with contextlib.suppress(LogError):
        fold_log(log, found, torn_ok=True)
    if found.has_ended:
        return False
    numbers = [number for number in found.waiting.values() if number is not None]
    below = [child for each in numbers if not (child := child_path(log, each)).is_symlink()]
    return None in found.waiting.values() or any(map(_asks, below))
