"""One recorded run, opened once: its agents, the standing of each, and their sums.

A log of a program and one of a watched command are read alike. Of a log that grows, only new
entries are read. `replay.run.run_node` defines an agent. Nothing is written here. Rules:
CONTRACT.md §13.9, §14.10, §16.5.
"""

from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from refold.engine.errors import UsageError
from refold.engine.log.names import log_path
from refold.engine.models.prices import Prices
from refold.replay.index.guarantee import is_observed
from refold.replay.index.standing import STANDINGS
from refold.replay.run.agents import ROOT, Agent, agents_of, with_asides
from refold.replay.run.program import ProgramLog
from refold.replay.run.reading import Reading, fold_sensibly
from refold.replay.run.run_node import RunNode
from refold.replay.run.standing import with_standing
from refold.replay.run.totals import below, totals
from refold.replay.run.turns import Interval, LogTurns, Step, Turn, words_of

if TYPE_CHECKING:  # with all that a watched command needs
    from refold.replay.run.steady import Steady


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
        self._logs: dict[Path, LogTurns] = {}
        self._go_on()

    def _go_on(self) -> None:
        self._reading.read()
        self.unsettled = self._reading.root()
        """The agents by their logs alone: `unfinished` without an end."""
        self._turns: dict[str, list[Turn]] = {}
        for name in ("tree", "totals", "agents", "by_key", "_below"):
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

    @cached_property
    def agents(self) -> list[Agent]:
        """All agents, parents first."""
        return agents_of(self.tree, self)

    @cached_property
    def by_key(self) -> dict[str, Agent]:
        """The same, by key."""
        return {each.key: each for each in self.agents}

    @cached_property
    def _below(self) -> dict[str, dict[str, Agent]]:
        """By key of an agent: those that it started, by call."""
        found: dict[str, dict[str, Agent]] = {}
        for each in self.agents:
            found.setdefault(each.parent or "", {})[each.node.call] = each
        return found

    @property
    def main(self) -> Agent:
        """The conversation with most below it; of a program, the first run that asked a model."""
        asked = [each for each in self.agents if each.node.requests - each.node.beside]
        return max(asked or self.agents[:1], key=_weight)

    @property
    def title(self) -> str:
        """Its first task, on one line; without one, its name."""
        words = " ".join(
            (self.main.task_text or self.agents[0].task_text or self.tree.name).split()
        )
        return words if len(words) <= TITLE_MAX else f"{words[: TITLE_MAX - 1].rstrip()}…"

    @property
    def standing(self) -> str:
        """How it ended, in words; without an end, its standing."""
        return self.tree.standing or self.tree.status

    @property
    def steady(self) -> "Steady | None":
        """Knows what changes on every run of a watched command; `None` for a program."""
        return self._reading.steady

    @property
    def folder(self) -> str:
        """The folder that a watched command worked in; empty for a program."""
        return self._reading.folder

    @property
    def forked(self) -> dict[str, Any]:
        """Of a fork: {head, at, edits} of its origin; empty for others."""
        origin = (self._reading.started and self._reading.started.origin) or {}
        return {name: origin[name] for name in ("head", "at", "edits") if name in origin}

    @property
    def question(self) -> dict[str, Any] | None:
        """The first question that waits for an answer: {agent, call, question, schema}."""
        if self.tree.status not in STANDINGS:
            return None
        steps = ((each, step) for each in self.agents for turn in each.turns for step in turn.steps)
        asked = [(a.key, s) for a, s in steps if (s.kind, s.status) == ("input", "open")]
        return next(({"agent": key, "call": s.call, **s.about} for key, s in asked), None)

    @property
    def is_watched(self) -> bool:
        """Whether it is the run of a watched command."""
        return bool(self.tree.guarantee)

    def agent(self, name: str, option: str) -> Agent:
        """Return the agent of a name (`reader`, `reader 2`) or key, which an option gave.

        Raises:
            UsageError: none has the name, or several have.
        """
        known = {_label(each): each for each in self.agents if _is_agent(each.node)}
        found = {
            label: each for label, each in known.items() if name in (label, each.name, each.key)
        }
        if len(found) == 1:
            return next(iter(found.values()))
        shown = ", ".join(f"{label} ({each.name})" for label, each in (found or known).items())
        what = "several agents have this name: pass one of their scopes or numbers"
        what = what if found else "no agent has this name"
        raise UsageError(f"{option} {name}: {what}: {shown}")

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data: the least that shows a run, its agents and their turns."""
        names = ("title", "standing", "question", "folder", "forked", "totals")
        told = {name: getattr(self, name) for name in names}
        agents = [each.as_json() for each in self.agents]
        return {"status": self.tree.status, "main": self.main.key, **told, "agents": agents}

    # --- read on demand ---------------------------------------------------

    def turns_of(self, agent: Agent) -> list[Turn]:
        """Return the turns of an agent, with the keys of the agents that its steps started."""
        if agent.key not in self._turns:
            self._turns[agent.key] = self._whole(agent)
        return self._turns[agent.key]

    def _whole(self, agent: Agent) -> list[Turn]:
        if (log := self._log_of(agent)) is None:
            return []
        own = agent.node.scope or ROOT
        turns = log.turns.get(own, [])
        scopes = self._reading.asides.get(own, ()) if self.is_watched else ()
        if beside := [turn for each in scopes for turn in log.turns.get(each, ())]:
            turns = with_asides(turns, beside)
        below = self._below.get(agent.key, {})
        for step in (step for turn in turns for step in turn.steps):
            child = below.get(step.call) if step.kind in ("child", "tool") else None
            step.child = "" if child is None else child.key
            if child is not None and step.call in log.unsure:
                start, came = step.interval[0], log.unsure[step.call][1]
                ran = self._span_of(child)
                step.interval = start, max(start, came if ran is None else min(came, ran[1]))
        return turns

    def answer_of(self, agent: Agent) -> str:
        """Return the output of an agent, else the text of its last answer."""
        log = self._log_of(agent)
        if log is None:
            return words_of(step.result) if (step := self._start_of(agent)) is not None else ""
        said = log.output if not agent.node.scope else None
        said = said.get("stdout") if isinstance(said, dict) and "stdout" in said else said
        texts = (turn.says for turn in reversed(agent.turns) if turn.says)
        return words_of(said) if said is not None else next(texts, "")

    def interval_of(self, agent: Agent) -> Interval | None:
        """Return from when to when an agent ran; without an end, as far as it is known."""
        ran = self._span_of(agent)
        step = self._start_of(agent) if ran is None else None
        return step.interval if step is not None else ran

    def _span_of(self, agent: Agent) -> tuple[int, int] | None:
        """Return the times of the first and the last entry of an agent, by its own log."""
        log, own = self._log_of(agent), agent.node.scope or ROOT
        if log is None or own not in log.spans:
            return None
        start, end = log.spans[own]
        took = (agent.node.duration_ms or 0) * 1000
        return start, end if own == ROOT and log.has_ended else max(end, start + took)

    def _start_of(self, agent: Agent) -> Step | None:
        """Return the step that started an agent."""
        above = self.by_key.get(agent.parent or "")
        steps = (step for turn in (above.turns if above else ()) for step in turn.steps)
        return next((step for step in steps if step.call == agent.node.call), None)

    def _log_of(self, agent: Agent) -> LogTurns | None:
        """Return the turns in the log of an agent, up to the entry that its node includes."""
        node = agent.node
        watched = self.agents[0].node if node.scope else node
        if not watched.entries or watched.log_state not in _READ:
            return None
        path = Path(watched.log)
        if path not in self._logs:
            root = None if path == self.log else self._log_of(self.agents[0])
            origin = None if root is None else root.origin_us
            self._logs[path] = LogTurns(path, origin, self._reading.profile)
        log = self._logs[path]
        if log.entries < watched.entries:
            fold_sensibly(path, log, last=watched.entries - 1, keeps=False)
        return log


TITLE_MAX: Final = 200
"""Characters of a run's title."""
_READ: Final = ("read", "torn", "damaged")
"""States of a log of which some entries verify."""


def _is_agent(node: RunNode) -> bool:
    return bool(node.scope or (node.log and not node.guarantee))


def _label(agent: Agent) -> str:
    return agent.node.scope or f"{agent.name} {agent.node.number or ''}".rstrip()


def _weight(agent: Agent) -> tuple[int, int]:
    """Return what the main conversation has most of; of a program, the first agent is the main."""
    usage = agent.usage
    used = usage.input_tokens + usage.output_tokens
    return (len(below(agent.node)), used) if agent.node.scope else (0, 0)


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
