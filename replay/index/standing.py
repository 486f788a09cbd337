"""How a run without an end stands: running, waiting for a person, or interrupted; and in words.

A log's lock shows whether it is being written (CONTRACT.md §4.3). No other file has these words.
Nothing is written here. Rules: CONTRACT.md §14.10.
"""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, get_args

from refold.engine.errors import LogError, LogMissing
from refold.engine.events.events import COMPLETES
from refold.engine.log.lock import is_locked
from refold.engine.log.names import child_path, is_there
from refold.engine.log.reader import Entry
from refold.replay.index.kept_folds import LogFold, fold_log

OpenStatus = Literal["running", "waits_for_you", "broke_off"]
STANDINGS: Final[tuple[OpenStatus, ...]] = get_args(OpenStatus)
RUNNING: Final[OpenStatus] = "running"
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"running": "running", "waits_for_you": "waits for you", "broke_off": "broke off"}
)

_QUESTION_MAX: Final = 200
"""Characters of a question that are shown."""
ENDS: Final = frozenset({*COMPLETES, "effect.cancelled", "effect.late"})
"""Kinds after which a call or a question is open no more."""


def standing_text(log: Path) -> str:
    """Return the standing of the run of `log` in words, on one line: `waits for you: May I?`."""
    return stood(log, question_of(log))[1]


def question_of(log: Path) -> str | None:
    """Return the first open question of a log, or of its children; `None` without one."""
    return next(_questions(log), None)


def stood(log: Path | None, question: str | None) -> tuple[OpenStatus, str]:
    """Return the standing of a run without an end, and in words, on one line.

    `running`: a writer holds the log.
    `waits_for_you`: no writer, and the `question`, of the run or of one below it, is open.
    `broke_off`: no writer, and no open question.
    """
    status: OpenStatus = "broke_off" if question is None else "waits_for_you"
    status = RUNNING if log is not None and is_locked(log) else status
    plain = " ".join(question.split()) if question and status == "waits_for_you" else ""
    return status, f"{WORDS[status]}: {plain:.{_QUESTION_MAX}}" if plain else WORDS[status]


class _Waiting(LogFold):
    """Finds the open questions of a log, and the children that were not joined."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.has_ended = False
        self.waiting: dict[str | None, int | str] = {}
        """By call: a child's number, or a question."""

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        self.has_ended = self.has_ended or entry.kind == "run.finished"
        if entry.kind == "input.asked":
            self.waiting[entry.call] = str(entry.data.get("question", ""))
        elif entry.kind == "child.started":
            self.waiting[entry.call] = int(entry.data.get("number", 0))
        elif entry.kind in ENDS:
            self.waiting.pop(entry.call, None)


def _questions(log: Path) -> Iterator[str]:
    """Yield the open questions of a log, and of its children that were not joined."""
    found = _Waiting(log)
    with contextlib.suppress(LogError, LogMissing):  # a child may not have begun
        fold_log(found, torn_ok=True)
    if found.has_ended:
        return
    yield from (each for each in found.waiting.values() if isinstance(each, str))
    for number in found.waiting.values():
        if isinstance(number, int) and is_there(child := child_path(log, number)):
            yield from _questions(child)
