"""An agent of a run: the facts of its node, and its turns, which are read on demand.

`replay.run.run_node` has the facts that need no text of a call. Rules: CONTRACT.md §13.9.
"""

import shlex
from typing import Any, Final, Protocol

import attrs

from refold.engine.events.call_key import key_in
from refold.engine.events.outcome import Usage
from refold.replay.run.run_node import FileUse, RunNode
from refold.replay.run.turns import Interval, Step, Turn, words_of

ROOT: Final = "0"
"""The key of the run itself."""
TASKS: Final = ("prompt", "task", "input", "question", "message", "description", "request")
"""Members that describe a task; the first one present is used."""


class Doings(Protocol):
    """Reads the logs of agents: `replay.run.opened_run`."""

    def turns_of(self, agent: "Agent") -> list[Turn]:
        """Return the turns of an agent."""

    def answer_of(self, agent: "Agent") -> str:
        """Return the output of an agent, else the text of its last answer."""

    def interval_of(self, agent: "Agent") -> Interval | None:
        """Return from when to when an agent ran."""


@attrs.frozen(kw_only=True, eq=False)
class Agent:
    """One run, one conversation of a watched command, or one start that was rejected."""

    key: str
    """`0` for the run itself; for a run below it the path of call keys that started it; for a
    conversation its scope; for a delegation that was not seen, its call."""
    parent: str | None
    """The key of the agent above; `None` for the run itself."""
    node: RunNode
    run: Doings = attrs.field(repr=False)

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

    @property
    def answered(self) -> str:
        """Its output, else the text of its last answer; empty for none."""
        return self.run.answer_of(self)

    @property
    def interval(self) -> Interval | None:
        """From when to when it ran, in microseconds since the first entry; `None`: not known."""
        return self.run.interval_of(self)

    @property
    def turns(self) -> list[Turn]:
        """Its requests and steps, in order."""
        return self.run.turns_of(self)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data: the members of its node, without those below, and its own."""
        facts = self.node.as_json()
        del facts["children"]
        own = {name: getattr(self, name) for name in ("key", "parent", "answered")}
        turns = [each.as_json() for each in self.turns]
        return facts | own | {"told": self.task_text, "interval": self.interval, "turns": turns}


def task_in(given: Any) -> str:
    """Return the task in a run's input: its text, a member that describes one, or the command."""
    if isinstance(given, dict):
        if isinstance(command := given.get("command"), list):
            return shlex.join(map(str, command))
        given = next((given[name] for name in TASKS if isinstance(given.get(name), str)), given)
    return words_of(given) if given not in (None, "", {}, []) else ""


def agents_of(tree: RunNode, run: Doings) -> list[Agent]:
    """Return the agents of a tree, parents first."""
    found = [Agent(key=ROOT, parent=None, node=tree, run=run)]
    for above in found:
        for node in above.node.children:
            path = "" if above.key == ROOT else above.key
            key = node.scope or (node.call if tree.guarantee else key_in(path, node.call))
            found.append(Agent(key=key, parent=above.key, node=node, run=run))
    return found


def with_asides(turns: list[Turn], asides: list[Turn]) -> list[Turn]:
    """Return turns with requests beside the work as steps, each after the turn that it followed."""
    found = [attrs.evolve(each, steps=[*each.steps]) for each in turns]
    for aside in asides:
        before = [each for each in found if not each.n or each.entries < aside.entries]
        if not before:
            before = [Turn(n=0, interval=(aside.interval[0],) * 2, status="ok")]
            found.insert(0, before[0])
        asked = aside.added[-1].get("content") if aside.added else None
        before[-1].steps += [_as_step(aside, asked), *aside.steps]
    for each in found if asides else ():
        each.steps.sort(key=lambda step: step.entries)
    return found


def _as_step(turn: Turn, asked: Any) -> Step:
    names = ("status", "error", "interval", "entries")
    told = {name: getattr(turn, name) for name in names}
    result = None if turn.answer is None else turn.says
    name = turn.place or turn.model
    return Step(kind="aside", name=name, about=words_of(asked), result=result, **told)
