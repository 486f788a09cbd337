"""What became of many logs that were re-executed: a row a log, and the report of them all.

Nothing here reads a log or runs a program: that is `replay.bulk.bulk`'s.  Rules: CONTRACT.md
§14.13.
"""

from typing import Final, Literal, get_args

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import Diverged, UsageError
from refold.replay.difference.causes import DiffCause, causes
from refold.replay.explain.divergence import Divergence
from refold.replay.explain.junit import JUnitCase, JUnitSuite

Result = Literal[
    "identical",
    "diverged",
    "timed out",
    "damaged",
    "program needed",
    "command needed",
    "refused",
    "fault",
    "not run",
]
"""`timed out`: not at its end within the wall time that a log may take.  `command needed`: it is a
watched command's, which `refold replay LOG -- COMMAND` runs again (CONTRACT.md §16.6).
`refused`: a tool or a session has to be passed.  `fault`: Refold itself failed over it."""

BAD: Final = frozenset(get_args(Result)) - {"identical", "command needed", "not run"}
"""Results by which a log is known to be not identical."""


@attrs.frozen(kw_only=True)
class LogResult(Document):
    """What became of one log."""

    log: str
    """As it was given, or found in a folder that was given."""
    result: Result
    program: str = ""
    """As the log names it; empty where that cannot be read."""
    category: str = ""
    """The first divergence's category; empty without one."""
    where: str = ""
    """The same: `root > researcher[2] > search#3`."""
    message: str = ""
    """The problem, in a line for people; empty without one."""
    entries: int = 0
    """The number compared, in the log and its children's logs."""
    children: int = 0
    ignored: int = 0
    """Places that were not as recorded, and are volatile."""
    not_compared: tuple[str, ...] = ()
    """What could have changed unseen: `the length of 2 timers`, and records without an end."""
    ends_early: tuple[str, ...] = ()
    """Logs of it without an end: they are identical up to that point."""
    seconds: float = 0.0
    divergences: tuple[Divergence, ...] = ()

    @property
    def text(self) -> str:
        """A full description of the problem, on several lines."""
        return "\n\n".join(map(str, self.divergences)) or self.message


@attrs.frozen(kw_only=True)
class BulkReport(Document):
    """What became of many logs, in their order."""

    computed = ("identical", "counts", "causes")
    hidden = ("printed",)

    logs: tuple[LogResult, ...]
    seconds: float
    """Of wall time, for all of them together."""
    jobs: int
    """How many were re-executed at a time."""
    printed: str = attrs.field(default="", repr=False)
    """The programs' printed output, if they ran in separate processes; cut if it is long."""

    @property
    def identical(self) -> bool:
        """Whether every log is; not so where one was not looked at."""
        return all(log.result == "identical" for log in self.logs)

    @property
    def counts(self) -> dict[str, int]:
        """How many logs have each result, identical ones first; results without a log left out."""
        found = [log.result for log in self.logs]
        return {name: found.count(name) for name in get_args(Result) if name in found}

    @property
    def summary(self) -> str:
        """The counts in words, and how many runs were compared as far as their logs go."""
        said = ", ".join(f"{count:,} {result}" for result, count in self.counts.items())
        cut = sum(bool(log.ends_early) for log in self.logs)
        return said + f" ({cut:,} without an end: up to that point)" * bool(cut)

    @property
    def causes(self) -> tuple[DiffCause, ...]:
        """The divergences of all logs, equal ones as one."""
        return causes(each for log in self.logs for each in log.divergences)

    def check(self) -> None:
        """Raise for the first log that is not identical.

        Raises:
            Diverged: with the divergence as its data.
            UsageError: it could not be looked at.
        """
        bad = next((log for log in self.logs if log.result != "identical"), None)
        if bad is None:
            return
        if bad.divergences:
            raise Diverged(bad.divergences[0])
        raise UsageError(f"{bad.log}: {bad.result}: {bad.message}")

    def suite(self) -> JUnitSuite:
        """Return the report as a suite of JUnit, a case a log."""
        return JUnitSuite(name="refold replay", cases=[_case(log) for log in self.logs])

    def __str__(self) -> str:
        rest = [f"{log.log}: {log.result}: {log.message}" for log in self.logs if log.message]
        rest += [
            f"{log.log}: not compared: {', '.join(log.not_compared)}"
            for log in self.logs
            if log.not_compared
        ]
        return "\n".join([f"{len(self.logs)} logs: {self.summary}", *rest])


def died(log: str, how: str) -> LogResult:
    """Return the row of a log whose program ended the process that re-executed it."""
    divergence = Divergence(
        category="environment",
        where="root",
        log=log,
        now={"kind": "process", "name": how},
        cause="the program ended its process, unlike in the recorded run",
    )
    return LogResult(
        log=log,
        result="diverged",
        category="environment",
        where="root",
        message=f"the program ended its process: {how}",
        divergences=(divergence,),
    )


def timed_out(log: str, seconds: float) -> LogResult:
    """Return the row of a log whose re-execution was ended for the time that it took."""
    message = f"its re-execution was stopped because it took more than {seconds:g} s"
    return LogResult(log=log, result="timed out", message=message)


def not_run(log: str) -> LogResult:
    """Return the row of a log that was not looked at, or not to its end."""
    return LogResult(
        log=log, result="not run", message="skipped, because an earlier log was not identical"
    )


def _case(log: LogResult) -> JUnitCase:
    told = (log.message, log.text) if log.message else None
    is_failure = log.result in ("diverged", "timed out", "damaged")
    is_error = log.result in ("program needed", "command needed", "refused", "fault")
    return JUnitCase(
        name=log.log,
        seconds=log.seconds,
        failure=told if is_failure else None,
        error=told if is_error else None,
        skipped=log.message if log.result == "not run" else "",
    )
