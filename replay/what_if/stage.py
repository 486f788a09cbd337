"""Rehearses one recorded run many times, each with a wall-clock limit.

`replay.what_if.explore` and `replay.what_if.sensitivity` draw conclusions from many rehearsals;
`replay.what_if.rehearsal` defines one. A program that never yields its thread cannot be ended and
is abandoned. Rules: CONTRACT.md §12.8.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import wait
from pathlib import Path
from typing import Final

from refold.engine.errors import Diverged, SessionNeeded, UsageError
from refold.engine.ports.ports import Program, Reference, SessionPort, Tool
from refold.engine.recording.workers import on_thread
from refold.replay.difference.excuses import Excuses
from refold.replay.index.by_call import Book
from refold.replay.reexecute.reexecute import reexecute
from refold.replay.reexecute.world import known_tools, program_of
from refold.replay.what_if.matcher import Looks
from refold.replay.what_if.rehearsal import Rehearsal, RehearsalPlan, Rehearsed

WALL_SECONDS: Final = 10.0
_WALL_PER_ENTRY: Final = 0.002
"""Wall time that one rehearsal may take, and more for each entry of its record."""
_WALL_TIMES: Final = 10
"""… or this many times the recorded run's duration: on a busy machine, everything is slow."""


class Stage:
    """One record, with everything needed to run its program again."""

    def __init__(
        self,
        log: str | os.PathLike[str],
        program: Program | Reference | str | None = None,
        *,
        tools: Sequence[Tool] = (),
        session: SessionPort | None = None,
        wall_seconds: float = WALL_SECONDS,
    ) -> None:
        """Read the record of a root run or of a child, and keep the other arguments.

        Raises:
            LogError: the log is missing or damaged, or has no end.
            ProgramNotFound: no program was given, and Refold does not ship the log's.
            SessionNeeded: the run had a session, and none was passed.
        """
        self.book = book = Book(Path(log))
        self.program = program_of(program, book.started)
        if book.snapshot is not None and session is None:
            raise SessionNeeded(str(book.log), "of its own")
        self.tools = tools
        self._tools = known_tools(book.started, {tool.name: tool for tool in tools})
        self._session = session
        self._looks: Looks = {}
        self._wall_seconds = wall_seconds + _WALL_PER_ENTRY * book.entries

    def rehearse(self, plan: RehearsalPlan) -> Rehearsed:
        """Run the program once; left behind where it takes longer than the wall limit.

        Raises:
            RefoldError: the program cannot be run: a tool has to be passed.
        """
        rehearsal = Rehearsal(
            self.book, plan, tools=self._tools, session=self._session, looks=self._looks
        )
        found = on_thread(lambda: rehearsal.run(self.program), "refold-rehearsal")
        wait([found], self._wall_seconds)  # a program that comes to no end is left behind
        return found.result() if found.done() else Rehearsed(how="hung")

    def baseline(self) -> Rehearsed:
        """Rehearse twice as recorded; all other rehearsals are compared with the result.

        Raises:
            Diverged: the program does not match its log.
            UsageError: the second time differs, or it does not end.
        """
        began = time.monotonic()
        first = self.rehearse(RehearsalPlan())
        if first.how == "hung":
            raise UsageError(
                "even with the recorded results, the program does not end within the time limit"
            )
        took = time.monotonic() - began
        self._wall_seconds = max(self._wall_seconds, _WALL_TIMES * took)
        if not self._is_recorded(first):
            raise self._difference(first)
        self.check_again(first)
        return first

    def check_again(self, first: Rehearsed) -> None:
        """Rehearse as recorded once more, because conclusions from many rehearsals need that.

        Raises:
            UsageError: the run ends differently.
        """
        again = self.rehearse(RehearsalPlan())
        if again.delivered != first.delivered or not again.is_end(first.end):
            raise UsageError(
                "the program ends differently when it is run again in the same process "
                "and in the recorded order: it reads something that Refold does not "
                "record, or keeps state between runs in a global or a cache. The effect "
                "of an order or a result can therefore not be detected"
            )

    def _is_recorded(self, found: Rehearsed) -> bool:
        book = self.book
        asked = {one.call: one.identity for one in found.asked}
        recorded = {one.call: one.identity for one in book.requests.values()}
        if found.how != "ended" or found.delivered != book.delivered or asked != recorded:
            return False
        if found.is_end(book.end):
            return True
        excuses = Excuses(str(book.log), book.rules)
        return excuses.excused("run.finished", None, 0, (book.end, found.end))

    def _difference(self, found: Rehearsed) -> Diverged | UsageError:
        """Return the error for a program that does not match its record."""
        log, program = self.book.log, self.program
        report = reexecute(log, program, tools=self.tools, session=self._session)
        if report.divergences:
            return Diverged(report.divergences[0])
        return UsageError(
            f"{self.book.log}: the program matches its log, but ends differently "
            f"({found.how}) when only its results are replayed, so it cannot be "
            "rehearsed"
        )
