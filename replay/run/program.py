"""The log of a run on the kernel: its starts of children, and what came of them.

The logs of children are found by the naming rule (CONTRACT.md §4). A log is streamed; only counts
are kept. `replay.audit.verify` checks whether the logs belong together.
"""

from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.errors import LogMissing
from refold.engine.events import events
from refold.engine.events.codec import members
from refold.engine.events.events import scope_above, scope_of
from refold.engine.events.limits import CEILINGS, Limits
from refold.engine.events.outcome import Usage
from refold.engine.log.names import child_path, is_there
from refold.engine.log.reader import Entry
from refold.engine.models.prices import Prices
from refold.engine.values import Value
from refold.replay.index.run_end import raised_at, refused_in
from refold.replay.index.standing import ENDS
from refold.replay.index.times import is_time
from refold.replay.run.reading import AgentWork, Reading
from refold.replay.run.run_node import CANCELLED, REFUSED, UNFINISHED, RunNode

_NEVER_RAN: Final = frozenset({"arguments", "denied", REFUSED, "unknown_tool"})
"""Codes of errors of calls that did nothing."""


@attrs.frozen
class _Asked(Value):
    """The part of a child's start that a tree shows."""

    agent: str = ""
    program: str = ""
    brief: str = ""
    input: Any = None
    tool: str = ""
    tools: list[str] | None = None
    limits: dict[str, Any] = attrs.field(factory=dict)


@attrs.define
class _Start:
    """A child as described in its parent's log."""

    told: dict[str, Any]
    """The fields of its node that this log has."""
    has_log: bool = False
    """Whether its outcome has a log with entries."""
    is_cancelled: bool = False
    is_dropped: bool = False
    """Whether the program cancelled it on purpose, such as the loser of a race."""


_MAIN: Final = "0"
"""The scope of the program itself, whose calls its own end cannot cancel."""
_AT_THE_END: Final = ("effect.cancelled", "effect.late", "child.finished", "run.finished")
"""Kinds of entries that may follow the end of a program; any other shows that it went on."""
_EVENTS: Final = (
    "run.started", "child.started", "child.finished", "model.answered", "run.finished"
)  # fmt: skip
"""Kinds of entries of which most members are looked at."""


class ProgramLog(Reading):
    """Reads one log, and for its nodes those of its children."""

    UNKEPT = Reading.UNKEPT | {"_children"}

    def __init__(self, path: Path, prices: Prices | None = None) -> None:
        super().__init__(path, prices)
        self._children: dict[str, ProgramLog] = {}
        """By the call that started it."""
        self._left: dict[str, Any] = {}
        """Fields of a node that only its own last entry has."""
        self._starts: dict[str, _Start] = {}
        self._own = AgentWork()
        self._delegating: dict[str, str] = {}
        self._questions: dict[str, str] = {}
        """Open ones, by call."""
        self._offers = False
        """Whether any request offered tools."""
        self._has_cancelled = False
        """Whether a child was cancelled, and the run has done nothing since."""

    def note(self, entry: Entry) -> None:
        """Count it, and keep starts, outcomes and the ends of the run."""
        data, call = entry.data, entry.call or ""
        if entry.kind not in _AT_THE_END:
            for start in self._starts.values() if self._has_cancelled else ():
                start.is_dropped = start.is_dropped or start.is_cancelled
            self._has_cancelled = False
        self._note_question(entry.kind, call, data)
        match entry.kind:
            case "tool.called":
                self._own.called(call, str(data.get("tool")))
                if data.get("delegates"):
                    self._delegating[call] = str(data.get("tool"))
            case "tool.returned":
                refused = (data.get("error") or {}).get("code") in _NEVER_RAN
                self._delegating.pop(call, None)
                self._own.ended(call, failed=data.get("status") == "error", refused=refused)
            case "model.asked":
                self._own.requests += 1
                self._offers = self._offers or bool(data.get("tools"))
                self._own.models[str(data.get("model"))] = None
            case "effect.cancelled" if call in self._starts:
                start, self._has_cancelled = self._starts[call], True
                start.is_cancelled = True
                start.is_dropped = scope_of(call) == _MAIN
            case "effect.cancelled":
                self._delegating.pop(call, None)
                self._own.ended(call, cancelled=True)
            case "effect.late" if call in self._starts:
                if not (told := self._starts[call].told)["is_joined"]:  # else it came before
                    told["status"] = str(data.get("status"))
            case kind if kind in _EVENTS:
                self._take_event(self.event(entry), call, entry.meta)

    def _note_question(self, kind: str, call: str, data: Mapping[str, Any]) -> None:
        if kind == "input.asked":
            self._questions[call] = str(data.get("question", ""))
        elif kind in ENDS:
            self._questions.pop(call, None)

    def _take_event(self, event: events.Recorded, call: str, meta: Mapping[str, Any]) -> None:
        match event:
            case events.RunStarted():
                Limits.from_json(event.limits)
                self.started = event
            case events.ModelAnswered():
                self._own.usage = self._own.usage.plus(event.usage)
                if event.status == "error":
                    self._own.failed[str((event.error or {}).get("code", ""))] += 1
            case events.ChildStarted():
                self._begin(call, event.delegation, number=event.number, run_id=event.run_id)
            case events.ChildFinished():
                if call not in self._starts:  # rejected: what was asked for stands in its end
                    more = {} if event.delegation else {"tool": self._dialect(call)}
                    self._begin(call, event.delegation or {}, **more)
                start, outcome = self._starts[call], event.outcome
                start.has_log = outcome.child is not None and outcome.child.events > 0
                start.told |= {"is_joined": True, "ended_us": _time_in(meta)}
                start.told |= {name: getattr(outcome, name) for name in _OF_OUTCOME}
                if not is_time(outcome.duration_ms * 1000):
                    start.told["duration_ms"] = None
                made = tuple((each.kind, each.name) for each in outcome.artifacts)
                start.told["artifacts"] = made
            case events.RunFinished():
                artifacts = event.artifacts or ()
                self._left = {
                    "where": raised_at(meta),
                    "ended_us": _time_in(meta),
                    "refused": refused_in(meta),
                    "artifacts": tuple((each["kind"], each.get("name", "")) for each in artifacts),
                    "is_empty": event.output == "" and not (event.summary or artifacts),
                }
                self.finished = event

    def _begin(self, call: str, delegation: dict[str, Any], **more: Any) -> None:
        """Keep a start, with checked limits; one that was rejected has the number 0.

        Raises:
            EventMalformed: a member has the wrong type.
            LimitRefused: a limit is invalid.
        """
        asked, own = members(_Asked, delegation, "child.started"), self.started
        Limits.from_json(asked.limits)
        told = {name: getattr(asked, name) for name in attrs.fields_dict(_Asked) if name != "tools"}
        told |= {
            "name": asked.agent or asked.program,
            "call": call,
            "depth": own.depth + 1 if own is not None else 0,
            "narrowed": _other(asked.limits, _inherited(own.limits if own is not None else {})),
            "tools_granted": None if asked.tools is None else tuple(asked.tools),
            "is_joined": False,
        }
        self._starts[call] = _Start({"number": 0, "run_id": "", "status": UNFINISHED} | told | more)

    def _dialect(self, call: str) -> str:
        """Return the delegation tool that a rejected start came from; empty if that is not sure.

        A delegation tool runs in a scope of its own, right below the one that called it.
        """
        above = scope_above(scope_of(call))
        tools = [tool for key, tool in self._delegating.items() if scope_of(key) == above]
        return tools[0] if len(tools) == 1 else ""

    # --- nodes ---------------------------------------------------------------------------

    def logs(self) -> Iterator[Reading]:
        """Yield this log and those below it."""
        yield self
        for child in self._children.values():
            yield from child.logs()

    def root(self) -> RunNode:
        """Return the node of the run that was asked for, with all below it.

        Raises:
            LogError: nothing could be read.
        """
        return self.node(self.root_facts() | self._bounds())

    def node(self, told: dict[str, Any]) -> RunNode:
        """Return the node of the run that was read, with the fields that its log lacks.

        A joined child's end is taken from its parent.
        """
        children = tuple(self._child(each) for each in self._starts.values())
        is_joined = told.get("is_joined", False)
        if not is_joined or self.log_state == "read":
            # A child that was killed, or never joined, told its parent of nothing that it spent.
            usage = reduce(Usage.plus, (each.usage for each in children), self._own.usage)
            told = told | {"usage": usage}
        own = self.facts() | self._left
        merged = own | told if is_joined else told | own
        return RunNode(
            **(merged | {"ended_us": (told | own).get("ended_us")}),
            **self._own.facts(),
            offered=self._offered(),
            outlived_by=sum(  # what still ran was cancelled
                (child.status == CANCELLED or not child.is_joined)
                and not self._starts[child.call].is_dropped
                for child in children
            ),
            children=children,
            question=self._question(children),
        )

    def _question(self, children: tuple[RunNode, ...]) -> str | None:
        """Return the first question that is open, also of a child that is waited for."""
        below = (child.question for child in children)
        found = [each for each in (*self._questions.values(), *below) if each is not None]
        return found[0] if found and self.finished is None else None

    def _offered(self) -> tuple[str, ...]:
        tools = self.started.tools if self.started is not None and self._offers else ()
        return tuple(str(each.get("name")) for each in tools)

    def _bounds(self) -> dict[str, Any]:
        """Return the depth and the limits of a run, from its own log."""
        if self.started is None:
            return {}
        limits = self.started.limits
        narrowed = _other(limits, CEILINGS.as_json())
        return {"depth": self.started.depth, "limits": limits, "narrowed": narrowed}

    def _child(self, start: _Start) -> RunNode:
        told, call = start.told, start.told["call"]
        path = child_path(self.path, told["number"])
        reading = self._children.get(call) or ProgramLog(path, self._prices)
        try:
            if not told["number"] or not is_there(path):  # what it points at is nobody's child
                return self._without_log(start, path)
            reading.read()
        except LogMissing:
            return self._without_log(start, path)
        self._children[call] = reading
        if reading.started is not None and reading.started.run_id != told["run_id"]:
            return RunNode(**told, log_state="foreign", log=str(path))
        node, is_open = reading.node(told), told["status"] == UNFINISHED and not start.is_cancelled
        return node if is_open else attrs.evolve(node, question=None)

    def _without_log(self, start: _Start, path: Path) -> RunNode:
        """Return the node of a child whose log is not there: missing, or never written."""
        if start.has_log or (not start.told["is_joined"] and self.finished is not None):
            return RunNode(**start.told, log_state="missing", log=str(path))
        return RunNode(**start.told, log_state="none")  # after a crash, it may not have begun


_OF_OUTCOME: Final = ("status", "error", "truncated", "usage", "duration_ms")
"""Fields of an outcome that a node has, too."""


def _time_in(meta: Mapping[str, Any]) -> int | None:
    return at if is_time(at := meta.get("wall_us")) else None


def _inherited(limits: dict[str, Any]) -> dict[str, Any]:
    """Return the caps of a child that asked for none: a joining parent's patience is a timeout."""
    times = [limits[name] for name in ("timeout_seconds", "join_seconds") if limits.get(name)]
    return limits | ({"timeout_seconds": min(times)} if times else {})


def _other(limits: dict[str, Any], than: dict[str, Any]) -> dict[str, Any]:
    return {name: cap for name, cap in limits.items() if than.get(name) != cap}
