"""One recorded run, opened once: its agents, the standing of each, and their sums.

A log of a program and one of a watched command are read alike. Of a log that grows, only new
entries are read. `replay.run.run_node` defines an agent. Nothing is written here. Rules:
CONTRACT.md §13.9, §14.10, §16.5.
"""

from functools import cached_property
from os import PathLike
from typing import Any

from refold.engine.log.names import log_path
from refold.engine.models.prices import Prices
from refold.replay.index.guarantee import is_observed
from refold.replay.run.program import ProgramLog
from refold.replay.run.reading import Reading
from refold.replay.run.run_node import RunNode
from refold.replay.run.standing import with_standing
from refold.replay.run.totals import below, totals


class OpenedRun:
    """The run at `log`, a root's or one below it, and all runs below that."""

    def __init__(self, log: str | PathLike[str], *, prices: Prices | None = None) -> None:
        """Read the logs of the run; `prices` are for answers that were recorded without a cost.

        Raises:
            LogMissing: the log does not exist.
            LogDamaged: its first entry does not verify.
            LogUnsupported: it was written by a newer version.
        """
        self.log, self._prices = log_path("delegation_tree", log), prices
        self._begin()

    def _begin(self) -> None:
        self._reading: Reading
        if is_observed(self.log):  # with all wire formats: a third of the start of `show`
            from refold.replay.run.watched import WatchedLog  # noqa: PLC0415 - see above

            self._reading = WatchedLog(self.log, self._prices)
        else:
            self._reading = ProgramLog(self.log, self._prices)
        self._go_on()

    def _go_on(self) -> None:
        self._reading.read()
        self.unsettled = self._reading.root()
        """The agents by their logs alone: `unfinished` without an end."""
        for name in ("tree", "totals"):
            vars(self).pop(name, None)

    def read(self) -> None:
        """Read what was written since; everything if a log is another one now, or shorter.

        Raises:
            LogError: nothing can be read any more.
        """
        self._go_on()
        if any(map(_is_other, self._reading.logs())):
            self._begin()

    @cached_property
    def tree(self) -> RunNode:
        """The agents; those without an end have their standing as status."""
        return with_standing(self.unsettled)

    @cached_property
    def totals(self) -> dict[str, Any]:
        """Sums over all agents (`replay.run.totals`)."""
        return totals(self.tree)

    @property
    def agents(self) -> list[RunNode]:
        """All agents, parents first."""
        return below(self.tree)


def delegation_tree(log: str | PathLike[str], *, prices: Prices | None = None) -> RunNode:
    """Return the tree of the run at `log`: a root's, or a run's below one.

    With `prices`, they are used for answers that were recorded without a cost.

    A node marks its log as missing, damaged or belonging to a different run. For a watched command,
    the nodes below it are its conversations (CONTRACT.md §16.5).

    Raises:
        LogMissing: the log does not exist.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    return OpenedRun(log, prices=prices).unsettled


def _is_other(log: Reading) -> bool:
    """Return whether a log may no longer be the one that was read."""
    return log.log_state == "damaged" or not log.path.exists() or log.path.stat().st_size < log.end
