"""The turns of an agent, and the steps of each, folded from one log in a single pass.

A turn is one request to a model with its answer, also one that failed and was tried again, and the
steps that followed it. A step is any other request, paired with its result. Steps before the first
request, or without a model, are in a turn with the number 0. Pure but for
large texts, which are read. Rules: CONTRACT.md §13.9.
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from refold.engine.encoding.canonical import text_of_json
from refold.engine.encoding.document import Document
from refold.engine.events.events import COMPLETES, MESSAGES, scope_of, with_above
from refold.engine.log.reader import Entry
from refold.replay.difference.pointer_diff import same, shared_ends
from refold.replay.index.asked_items import is_asked, named
from refold.replay.index.chains import Chains
from refold.replay.index.kept_folds import LogFold
from refold.replay.index.times import LogTimes, origin_of

if TYPE_CHECKING:  # with all that a watched command needs
    from refold.engine.observed.profile import Profile

Interval = tuple[int, int | None]
"""From when to when, in microseconds since the first entry of the run; `None`: open."""
_LATER: Final = (*COMPLETES, "effect.cancelled", "effect.late")
ROOT: Final = "0"
"""The key of the run itself."""
TASKS: Final = ("prompt", "task", "input", "question", "message", "description", "request", "title")
"""Members that describe a task; the first one present is used."""


@attrs.define(kw_only=True, eq=False)
class Step(Document):
    """One action of an agent, and its result."""

    kind: str
    """`tool`, `child`, `input` (a question to a person), `timer`, `clock`, `value`, `note`,
    `patch`, `limit`, `session`, `cancel`; `aside`: a request beside the work of a command."""
    name: str
    """Of the tool, the agent, the source of the value; often empty."""
    about: Any = None
    """The arguments, the task or the question; of other steps, the data of the entry."""
    result: Any = None
    """`None` for an error, and while it is open."""
    error: dict[str, Any] | None = None
    """{code, message}."""
    status: str = "open"
    """`ok`, `error`, `cancelled`, or a child's status; `open`: without a result."""
    interval: Interval
    child: str = ""
    """The key of the agent that it started."""
    call: str = ""
    entries: list[int]
    """The entry that asked, and those that answered."""


@attrs.define(kw_only=True, eq=False)
class Turn(Document):
    """One request to a model, its answer, and the steps that followed."""

    hidden = ("end", "chains", "scope", "answer", "place")

    n: int
    """1-based, by agent; 0: the steps before any request."""
    model: str = ""
    against: int = 0
    """The turn that the next four members compare it with; 0: with an empty prompt."""
    kept: int = 0
    """How many messages the other turn has, too, its answer included: from the first on …"""
    kept_at_end: int = 0
    """… and how many at the end."""
    added: tuple[dict[str, Any], ...] = ()
    dropped: tuple[dict[str, Any], ...] = ()
    """Messages of the other turn that this one lacks."""
    says: str = ""
    """The text of the answer."""
    status: str = "open"
    """`ok` · `error` · `cancelled` · `open`: the log has no answer."""
    error: dict[str, Any] | None = None
    usage: dict[str, Any] = attrs.field(factory=dict)
    interval: Interval
    entries: list[int] = attrs.field(factory=list)
    """The entry that asked, and the one that answered."""
    steps: list[Step] = attrs.field(factory=list)
    chains: Chains = attrs.field(factory=Chains, repr=False)
    end: str = ""
    """The chain digest of the prompt."""
    scope: str = ""
    place: str = ""
    """Of a request without messages: its method and path."""
    answer: dict[str, Any] | None = None
    """The message of the answer, whole."""

    @property
    def messages(self) -> tuple[dict[str, Any], ...]:
        """The whole prompt, as the model saw it."""
        return self.chains.messages(self.end)

    def as_json(self) -> dict[str, Any]:
        """Return it as plain data, its steps included."""
        return super().as_json() | {"steps": [each.as_json() for each in self.steps]}

    def since(self, other: "Turn | None") -> "Turn":
        """Return it compared with another turn of its log; `None`: with an empty prompt."""
        before = "" if other is None else other.end
        if other is not None and other.answer is not None:
            before = self.chains.after(before, [other.answer])
        kept, dropped, added = self.chains.parting(before, self.end)
        _, at_end = shared_ends(dropped, added, lambda one, two: one is two or same(one, two))
        return attrs.evolve(
            self,
            against=0 if other is None else other.n,
            kept=kept,
            kept_at_end=at_end,
            added=added[: len(added) - at_end],
            dropped=dropped[: len(dropped) - at_end],
        )

    def marked(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each message, dropped ones in their place, with ` `, `+` or `-`."""
        end = len(self.messages) - self.kept_at_end
        yield from ((" ", each) for each in self.messages[: self.kept])
        yield from (("-", each) for each in self.dropped)
        yield from (("+", each) for each in self.added)
        yield from ((" ", each) for each in self.messages[end:])


class LogTurns(LogFold):
    """The turns of one log, by agent: of a program one, of a watched command by conversation."""

    def __init__(
        self, path: Path, origin_us: tuple[int, int] | None, profile: "Profile | None"
    ) -> None:
        """Begin; `origin_us` is the time of the root's first entry; `None` in its own log.

        `profile` belongs to a watched command; `None` for a program.
        """
        super().__init__(path)
        self.origin_us = origin_us
        self.turns: dict[str, list[Turn]] = {}
        """By scope of the conversation; `0` for the program, or the command itself."""
        self.spans: dict[str, tuple[int, int]] = {}
        """By the same: the times of the first and the last entry; `0` for the whole log."""
        self.output: Any = None
        """The output of the run."""
        self.has_ended = False
        self.unsure: dict[str, tuple[Step, int]] = {}
        """By call: children of which only their own logs know when they ended."""
        self._profile = profile
        self._chains = Chains()
        self._last: dict[str, Turn] = {}
        """By task: its own last turn."""
        self._around: dict[str, Turn] = {}
        """By task: the last turn in it, or in a task below."""
        self._open: dict[str, Turn | Step] = {}
        self._times: LogTimes

    def take(self, entry: Entry) -> None:
        """Take the next entry."""
        if self.origin_us is None:
            self.origin_us = origin_of(entry)
        if not self.entries:
            self._times = LogTimes(self.origin_us)
        at, call, kind = self._times.at(entry), entry.call or "", entry.kind
        data = self.data(entry)
        agent = (self._profile is not None and scope_of(call)) or ROOT
        for key in {agent, ROOT}:
            self.spans[key] = self.spans.get(key, (at, at))[0], at
        self.has_ended = kind == "run.finished"
        if kind == "run.finished":
            self.output = data.get("output", data.get("summary"))
        elif kind == MESSAGES:
            self._chains.after(data["predecessor"], data["added"])
        elif kind == "model.asked":
            self._asked(agent, entry, data, at)
        elif kind in _LATER and call in self._open:
            self._ended(self._open[call], entry, data, at)
        elif is_asked(kind) or (kind == "child.finished" and "delegation" in data):
            self._step(agent, entry, data, at)
        super().take(entry)

    def _asked(self, agent: str, entry: Entry, data: Mapping[str, Any], at: int) -> None:
        call, known = entry.call or "", self.turns.setdefault(agent, [])
        turn = Turn(
            n=known[-1].n + 1 if known else 1,
            model=str(data["model"]),
            interval=(at, None),
            entries=[entry.seq],
            chains=self._chains,
            end=self._chains.after(data["predecessor"], data["added"]),
            scope=scope_of(call),
            place=self._place(data["parameters"]),
        ).since(self._last.get(scope_of(call)))
        known.append(turn)
        self._last[turn.scope] = self._open[call] = turn
        self._around |= dict.fromkeys(self._tasks(turn.scope), turn)

    def _tasks(self, scope: str) -> Iterable[str]:
        """Return a task and those around it; a conversation of a watched command stands alone."""
        return with_above(scope) if self._profile is None else (scope,)

    def _place(self, parameters: Mapping[str, Any]) -> str:
        """Return the method and path of a watched command's request; only these name a place."""
        if self._profile is None:
            return ""
        from refold.replay.observed.titles import place_in  # noqa: PLC0415 - loads the wire formats

        return place_in(parameters)

    def _step(self, agent: str, entry: Entry, data: Mapping[str, Any], at: int) -> None:
        call, kind = entry.call or "", entry.kind
        short, name = named(kind, dict(data))
        step = Step(kind=short, name=name, interval=(at, at), entries=[entry.seq], call=call)
        match short:
            case "tool":
                step.about = data.get("arguments")
            case "child":
                asked = data.get("delegation") or {}
                step.about = asked.get("brief") or asked.get("input")
            case "input":
                step.about = {name: data[name] for name in ("question", "schema") if name in data}
            case "value":
                step.about, step.result = data.get("name"), data.get("value")
            case _:
                step.about = dict(data)
        self._turn(agent, scope_of(call), at).steps.append(step)
        if kind in COMPLETES.values():
            step.interval = at, None
            self._open[call] = step
        elif kind == "child.finished":
            self._ended(step, entry, data, at)
        else:
            step.status = "ok"

    def _turn(self, agent: str, scope: str, at: int) -> Turn:
        """Return the turn that a step of a task follows: the last one in it, or around it.

        Frameworks ask a model in one task, and call tools in others beside it. A step of no task
        follows the agent's last turn.
        """
        known = self.turns.setdefault(agent, [])
        for each in self._tasks(scope):
            if each in self._around:
                return self._around[each]
        if not scope and known:
            return known[-1]
        if not known or known[0].n:
            known.insert(0, Turn(n=0, interval=(at, at), status="ok"))
        return known[0]

    def _ended(self, one: Turn | Step, entry: Entry, data: Mapping[str, Any], at: int) -> None:
        one.entries = [*dict.fromkeys((*one.entries, entry.seq))]
        if entry.kind == "effect.late":
            return
        one.interval = one.interval[0], at
        told = data.get("outcome") or data
        one.status, one.error = str(told.get("status") or "ok"), told.get("error")
        if entry.kind == "effect.cancelled":
            one.status = "cancelled"
        elif isinstance(one, Turn):
            one.answer, one.usage = data.get("message"), data.get("usage") or {}
            one.says = words_of((one.answer or {}).get("content"))
            if one.answer is not None:
                self._chains.after(one.end, [one.answer])
        else:
            names = ("result", "output", "answer", "summary")
            one.result = next((told[name] for name in names if name in told), None)
            if self._profile is not None and self._profile.is_failure(one.result):
                one.status = "error"
        if entry.kind == "child.finished":
            assert isinstance(one, Step)
            if (ended := self._times.ended(entry)) is None:
                self.unsure[entry.call or ""] = one, at
            else:
                one.interval = one.interval[0], ended
        if entry.kind in COMPLETES:
            self._open.pop(entry.call or "", None)


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


def task_in(given: Any) -> str:
    """Return the task in a run's input: its text, a member that describes one, or the command."""
    if isinstance(given, dict):
        if isinstance(command := given.get("command"), list):
            return shlex.join(map(str, command))
        given = next((given[name] for name in TASKS if isinstance(given.get(name), str)), given)
    return words_of(given) if given not in (None, "", {}, []) else ""


def words_of(content: Any) -> str:
    """Return the text of a message's content, a task or a result: of parts, one after the other."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(words_of, content)))
    if isinstance(content, dict):
        found = (content[name] for name in ("text", "content", "parts") if name in content)
        parts = next((each for each in found if isinstance(each, str | list)), None)
        return words_of(parts) or text_of_json(content)
    return "" if content is None else text_of_json(content)
