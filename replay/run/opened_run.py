"""One recorded run, opened once: its agents, the standing of each, and their sums.

A log of a program and one of a watched command are read alike. Of a log that grows, only new
entries are read. `replay.run.run_node` defines an agent. Nothing is written here. Rules:
CONTRACT.md §13.9, §14.10, §16.5.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.encoding.canonical import text_of_json
from refold.engine.errors import UsageError
from refold.engine.events.events import key_in
from refold.engine.events.outcome import Usage
from refold.engine.log.names import log_path
from refold.engine.models.prices import Prices
from refold.replay.index.guarantee import is_observed
from refold.replay.index.malformed import explains_malformed
from refold.replay.index.standing import STANDINGS
from refold.replay.run.program import ProgramLog
from refold.replay.run.reading import Reading, fold_sensibly
from refold.replay.run.run_node import FileUse, RunNode, below, totals
from refold.replay.run.turns import (
    ROOT,
    Interval,
    LogTurns,
    Step,
    Turn,
    task_in,
    with_asides,
    words_of,
)

if TYPE_CHECKING:  # with all that a watched command needs
    from refold.replay.run.steady import Steady
from refold.replay.index.standing import RUNNING, WORDS, stood
from refold.replay.run.run_node import UNFINISHED


@attrs.frozen(kw_only=True, eq=False)
class Agent:
    """One run, one conversation of a watched command, or one start that was rejected.

    Its turns are read on demand; `replay.run.run_node` has the facts that need no text of a call.
    """

    key: str
    """`0` for the run itself; for a run below it the path of call keys that started it; for a
    conversation its scope; for a delegation that was not seen, its call."""
    parent: str | None
    """The key of the agent above; `None` for the run itself."""
    node: RunNode
    run: "OpenedRun" = attrs.field(repr=False)

    @property
    def name(self) -> str:
        """Its name for people; several agents may have the same."""
        return self.node.name

    @property
    def status(self) -> str:
        """How it ended; without an end, its standing."""
        return self.node.status

    @property
    def usage(self) -> Usage:
        """Tokens and cost, all agents below included."""
        return self.node.usage

    @property
    def files(self) -> tuple[FileUse, ...]:
        """The files that it changed."""
        return self.node.files

    @property
    def task_text(self) -> str:
        """Its task in words; empty if it was given none."""
        return self.node.brief or task_in(self.node.input)

    @cached_property
    def turns(self) -> list[Turn]:
        """Its requests and steps, in order, with the keys of the agents that its steps started."""
        if (log := self.run.log_of(self)) is None:
            return []
        turns = log.turns.get(self._scope, [])
        scopes = self.run.asides.get(self._scope, ())
        if beside := [turn for each in scopes for turn in log.turns.get(each, ())]:
            turns = with_asides(turns, beside)
        below = self.run.below.get(self.key, {})
        for step in (step for turn in turns for step in turn.steps):
            child = below.get(step.call) if step.kind in ("child", "tool") else None
            step.child = "" if child is None else child.key
            if child is not None and step.call in log.unsure:
                start, came = step.interval[0], log.unsure[step.call][1]
                ran = child._span  # noqa: SLF001 - another of this class
                step.interval = start, max(start, came if ran is None else min(came, ran[1]))
        return turns

    @property
    def answered(self) -> str:
        """Its output, else the text of its last answer; empty for none."""
        log = self.run.log_of(self)
        if log is None:
            return words_of(step.result) if (step := self._start) is not None else ""
        said = log.output if not self.node.scope else None
        said = said.get("stdout") if isinstance(said, dict) and "stdout" in said else said
        parts = said if isinstance(said, list) else [said]
        if isinstance(said, list | dict) and not all(map(_is_message, parts)):
            return text_of_json(said)
        texts = (turn.says for turn in reversed(self.turns) if turn.says)
        return words_of(said) if said is not None else next(texts, "")

    @property
    def interval(self) -> Interval | None:
        """From when to when it ran, in microseconds since the first entry; `None`: not known."""
        ran = self._span
        step = self._start if ran is None else None
        return step.interval if step is not None else ran

    @property
    def _scope(self) -> str:
        return self.node.scope or ROOT

    @property
    def _span(self) -> tuple[int, int] | None:
        """The times of its first and last entry, by its own log."""
        log, own = self.run.log_of(self), self._scope
        if log is None or own not in log.spans:
            return None
        start, end = log.spans[own]
        took = (self.node.duration_ms or 0) * 1000
        if own == ROOT and not log.has_ended and self.node.ended_us is not None and log.origin_us:
            end = max(end, self.node.ended_us - log.origin_us[0])  # its parent knows when it ended
            return min(start, end - took), end
        return start, end if own == ROOT and log.has_ended else max(end, start + took)

    @property
    def _start(self) -> Step | None:
        """The step that started it."""
        above = self.run.by_key.get(self.parent or "")
        steps = (step for turn in (above.turns if above else ()) for step in turn.steps)
        return next((step for step in steps if step.call == self.node.call), None)


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
        for name in ("tree", "totals", "agents", "by_key", "below"):
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
        """Sums over all agents (`replay.run.run_node`)."""
        return totals(self.tree)

    @cached_property
    def agents(self) -> list[Agent]:
        """All agents, each with those below it right behind it."""
        found, waiting = list[Agent](), [Agent(key=ROOT, parent=None, node=self.tree, run=self)]
        while waiting:
            found.append(above := waiting.pop())
            path = "" if above.key == ROOT else above.key
            for node in above.node.children[::-1]:
                key = node.scope or (node.call if self.is_watched else key_in(path, node.call))
                waiting.append(Agent(key=key, parent=above.key, node=node, run=self))
        return found

    @cached_property
    def by_key(self) -> dict[str, Agent]:
        """The same, by key."""
        return {each.key: each for each in self.agents}

    @cached_property
    def below(self) -> dict[str, dict[str, Agent]]:
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
        """Its first task, on one line; of a program that got one word, after the program's name."""
        told = self.main.task_text if self.is_watched else ""
        words = " ".join((told or self.agents[0].task_text).split())
        if not words or not (self.is_watched or " " in words):  # a bare value says little
            words = f"{self.tree.name} {words}".rstrip()
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
    def asides(self) -> Mapping[str, list[str]]:
        """By the conversation above: the scopes of requests beside the work."""
        return self._reading.asides

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
        waiting = [each for each in self.agents if each.node.question is not None]
        waiting.sort(key=lambda each: each.node.depth)
        steps = ((each, step) for each in waiting for turn in each.turns for step in turn.steps)
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
        named = [
            (_label(each), each)
            for each in self.agents
            if each.node.scope or (each.node.log and not each.node.guarantee)
        ]
        counts = Counter(label for label, _ in named)  # two may be the first child of that name
        known = {label if counts[label] == 1 else each.key: each for label, each in named}
        found = {
            label: each
            for label, each in known.items()
            if name in (label, _label(each), each.name, each.key)
        }
        if len(found) == 1:
            return next(iter(found.values()))
        shown = ", ".join(f"{label} ({each.name})" for label, each in (found or known).items())
        what = "several agents have this name: pass one of their scopes or numbers"
        what = what if found else "no agent has this name"
        raise UsageError(f"{option} {name}: {what}: {shown}")

    def log_of(self, agent: Agent) -> LogTurns | None:
        """Return the turns in the log of an agent, up to the entry that its node includes."""
        node = agent.node
        watched = self.agents[0].node if node.scope else node
        if not watched.entries or watched.log_state not in _READ:
            return None
        path = Path(watched.log)
        if path not in self._logs:
            root = None if path == self.log else self.log_of(self.agents[0])
            origin = None if root is None else root.origin_us
            self._logs[path] = LogTurns(path, origin, self._reading.profile)
        log = self._logs[path]
        if log.entries < watched.entries:
            fold_sensibly(log, last=watched.entries - 1, keeps=False)
        return log


TITLE_MAX: Final = 200
"""Characters of a run's title."""
_READ: Final = ("read", "torn", "damaged")
"""States of a log of which some entries verify."""


def _is_message(value: Any) -> bool:
    """Return whether a value is a message, or a part of one."""
    return isinstance(value, dict) and not value.keys().isdisjoint({"text", "content"})


def _label(agent: Agent) -> str:
    return agent.node.scope or f"{agent.name} {agent.node.number or ''}".rstrip()


def _weight(agent: Agent) -> tuple[int, int, int]:
    """Return what the main conversation has most of; of a program, it is the topmost agent."""
    node, usage = agent.node, agent.usage
    used = usage.input_tokens + usage.output_tokens
    return (len(below(node)), used, -node.depth) if node.scope else (0, 0, -node.depth)


@explains_malformed
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


_UNKNOWN: Final = frozenset({"missing", "damaged", "foreign"})
"""States of a log that may have an end which cannot be read."""


def with_standing(tree: RunNode) -> RunNode:
    """Return a tree in which runs without an end have their standing as status.

    A run of which the log is missing, damaged or another run's stays `unfinished`.  A line that is
    just being written is not a torn tail.  A question that nobody above waits for is none.
    """
    return _stood(tree, tree, "", takes_answers=True)


def _stood(node: RunNode, root: RunNode, above: str, *, takes_answers: bool) -> RunNode:
    status, log_state, told = node.status, node.log_state, ""
    question = node.question if takes_answers else None
    if status == UNFINISHED and log_state not in _UNKNOWN:
        status, told = stood(Path(node.log) if node.log else None, question)
        if above == RUNNING or (node.scope and root.status == RUNNING):
            status, told = RUNNING, WORDS[RUNNING]
    if status == RUNNING and log_state == "torn":
        log_state = "read"
    found = attrs.evolve(node, status=status, standing=told, log_state=log_state, question=question)
    root, takes_answers = found if node is root else root, question is not None
    children = tuple(
        _stood(child, root, status, takes_answers=takes_answers) for child in node.children
    )
    return attrs.evolve(found, children=children)
