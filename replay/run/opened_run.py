"""One recorded run, opened once: its agents, the standing of each, and their sums.

A log of a program and one of a watched command are read alike. Of a log that grows, only new
entries are read. `replay.run.run_node` defines an agent. Nothing is written here. Rules:
CONTRACT.md §13.9, §14.10, §16.5.
"""

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from refold.engine.errors import UsageError
from refold.engine.log.names import log_path
from refold.engine.models.prices import Prices
from refold.replay.index.guarantee import is_observed
from refold.replay.run.program import ProgramLog
from refold.replay.run.reading import Reading
from refold.replay.run.run_node import RunNode
from refold.replay.run.standing import with_standing
from refold.replay.run.totals import below, totals
from refold.replay.run.turns import AgentTurn, turns


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

    @property
    def main(self) -> RunNode:
        """The agent with most below it; of a program, the first that asked a model."""
        asked = [node for node in self.agents if node.requests - node.beside] or [self.tree]
        return max(asked, key=_weight)

    def agent(self, name: str, option: str) -> RunNode:
        """Return the agent of a name (`reader`, `reader 2`) or scope, which an option gave.

        Raises:
            UsageError: none has the name, or several have.
        """
        known = {_label(node): node for node in self.agents if _is_agent(node)}
        found = {key: node for key, node in known.items() if name in (key, node.name)}
        if len(found) == 1:
            return next(iter(found.values()))
        shown = ", ".join(f"{key} ({node.name})" for key, node in (found or known).items())
        what = "several agents have this name: pass one of their scopes or numbers"
        what = what if found else "no agent has this name"
        raise UsageError(f"{option} {name}: {what}: {shown}")

    def turns(self, agent: RunNode) -> list[AgentTurn]:
        """Return the turns of an agent."""
        return turns(Path(agent.log) if agent.log else self.log, agent.scope)


def _is_agent(node: RunNode) -> bool:
    return bool(node.scope or (node.log and not node.guarantee))


def _label(node: RunNode) -> str:
    return node.scope or f"{node.name} {node.number or ''}".rstrip()


def _weight(node: RunNode) -> tuple[int, int]:
    """Return what the main conversation has most of; of a program, the first agent is the main."""
    used = node.usage.input_tokens + node.usage.output_tokens
    return (len(below(node)), used) if node.scope else (0, 0)


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
