"""The delegation tree of a log: who delegated what to whom, in which bounds, and how it ended.

Read from the starts and outcomes of each run's log, and from the logs of its children, which are
found by the naming rule (CONTRACT.md §4).  A log is streamed; what is kept of it is one node and
its counts.  Nothing is judged here: whether the logs belong together is `replay.audit.verify`'s to
say.  What a node holds is in `replay.tree.run_node`; how it reads as text is
`replay.tree.tree_text`'s.
"""

from collections.abc import Mapping
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

import attrs

from refold.engine.errors import EventMalformed, LogDamaged, LogMissing
from refold.engine.events import events
from refold.engine.events.call_key import scope_of
from refold.engine.events.limits import ceilings_of
from refold.engine.events.outcome import Outcome, Usage
from refold.engine.log import Entry, read_entries
from refold.engine.log.names import child_path, log_path
from refold.replay.index.guarantee import is_observed
from refold.replay.index.run_end import raised_at, refused_in
from refold.replay.tree.log_walk import Walk
from refold.replay.tree.run_node import UNFINISHED, LogState, RunNode, ToolUse
from refold.replay.tree.tree_text import render_text

__all__ = ["LogState", "RunNode", "ToolUse", "delegation_tree", "render_text"]


def delegation_tree(log: str | PathLike[str]) -> RunNode:
    """Return the tree of the run at `log`: a root's, or that of any run below one.

    A child's log that is missing, damaged or another run's is said in its node.  Of a watched
    command, what stands below it are its conversations (CONTRACT.md §16.5).

    Raises:
        LogMissing: there is no log at `log`.
        LogDamaged: its first entry does not verify.
        LogUnsupported: it was written by a newer version.
    """
    path = log_path("delegation_tree", log)
    if is_observed(path):
        from refold.replay.tree.observed_tree import observed_tree  # noqa: PLC0415 - see below

        return observed_tree(path)  # with all wire formats: a third of the start of `show`
    reading = _Reading(path)
    reading.read()
    if reading.started is None and reading.walk.wrong is not None:
        raise reading.walk.wrong
    return reading.node(_Start())


@attrs.define
class _Start:
    """A child as its parent's log tells of it; without a `call`, a root."""

    call: str = ""
    started: events.ChildStarted | None = None
    outcome: Outcome | None = None
    late: str = ""
    """The status of an outcome that came too late to be delivered."""
    tool: str = ""
    depth: int = 0
    parent_limits: dict[str, Any] = attrs.field(factory=dict)
    is_parent_finished: bool = True


class _Reading:
    """Reads one log, and then those of its children, one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.walk = Walk(path)
        self.started: events.RunStarted | None = None
        self._finished: events.RunFinished | None = None
        self._meta: Mapping[str, Any] = {}
        self._starts: dict[str, _Start] = {}
        self._uses: dict[str, ToolUse] = {}
        self._open: dict[str, str] = {}
        self._delegating: dict[str, str] = {}
        self._models: dict[str, None] = {}
        self._requests = 0
        self._own_usage = Usage()

    def read(self) -> None:
        """Take the log's entries, to its end or to where it does not verify.

        Raises:
            LogMissing: there is no such file.
            LogUnsupported: it was written by a newer version.
        """
        try:
            for entry in read_entries(self._path):
                self._take(entry)
                self.walk.passed(entry)
        except (LogDamaged, EventMalformed) as error:
            self.walk.wrong = error

    def _take(self, entry: Entry) -> None:
        data, call = entry.data, entry.call or ""
        match entry.kind:
            case "tool.called":
                self._open[call] = tool = str(data.get("tool"))
                self._uses.setdefault(tool, ToolUse(tool)).called += 1
                if data.get("delegates"):
                    self._delegating[call] = tool
            case "tool.returned":
                self._tool_ended(call, failed=data.get("status") == "error")
            case "model.asked":
                self._requests += 1
                self._models[str(data.get("model"))] = None
            case "effect.cancelled":
                self._tool_ended(call, cancelled=True)
            case "effect.late" if call in self._starts:
                self._starts[call].late = str(data.get("status"))
            case (
                "run.started" | "child.started" | "child.finished"
                | "model.answered" | "run.finished"
            ):  # fmt: skip
                self._take_event(self.walk.event(entry), call)
                self._meta = entry.meta
            case _:
                pass

    def _take_event(self, event: events.Recorded, call: str) -> None:
        match event:
            case events.RunStarted():
                self.started = event
            case events.ModelAnswered():
                self._own_usage = self._own_usage.plus(event.usage)
            case events.ChildStarted():
                self._starts[call] = _Start(call, event)
            case events.ChildFinished():
                rejected = _Start(call, _rejected(event), tool=self._dialect(call))
                start = self._starts.setdefault(call, rejected)
                start.outcome = event.outcome
            case events.RunFinished():
                self._finished = event
            case _:
                pass

    # --- tools ---------------------------------------------------------------------------

    def _tool_ended(self, call: str, *, failed: bool = False, cancelled: bool = False) -> None:
        tool = self._open.pop(call, None)
        self._delegating.pop(call, None)
        if tool is not None:
            self._uses[tool].failed += failed
            self._uses[tool].cancelled += cancelled

    def _dialect(self, call: str) -> str:
        """Return the delegation tool that a rejected start came from; empty if that is not sure.

        A delegation tool runs in a scope of its own, right below the one that called it.
        """
        above = scope_of(call).rpartition("/")[0]
        tools = [tool for key, tool in self._delegating.items() if scope_of(key) == above]
        return tools[0] if len(tools) == 1 else ""

    # --- nodes ---------------------------------------------------------------------------

    def node(self, start: _Start) -> RunNode:
        """Return the node of the run that was read; `start` is what its parent tells."""
        told = _told_of(start)
        own, ended = self.started, self._finished
        children = tuple(self._child(each) for each in self._starts.values())
        if start.outcome is None or self.walk.log_state == "read":
            # A child that was killed, or never joined, told its parent of nothing that it spent.
            told["usage"] = reduce(Usage.plus, (each.usage for each in children), self._own_usage)
        if own is not None and not start.call:
            told |= {
                "name": own.program,
                "program": own.program,
                "input": own.input,
                "depth": own.depth,
                "limits": own.limits,
                "narrowed": _other(own.limits, ceilings_of(own.limits).as_json()),
                "run_id": own.run_id,
                "duration_ms": self.walk.duration_ms() if ended else None,
            }
        if ended is not None and start.outcome is None:
            artifacts = tuple(
                (each["kind"], each.get("name", "")) for each in ended.artifacts or ()
            )
            told |= {"status": ended.status, "error": ended.error, "artifacts": artifacts}
        return RunNode(
            **told,
            reason=ended.reason if ended else "",
            where=raised_at(self._meta) if ended else "",
            refused=refused_in(self._meta) if ended else {},
            tools=tuple(self._uses.values()),
            models=tuple(self._models),
            requests=self._requests,
            own_usage=self._own_usage,
            children=children,
            log_state=self.walk.log_state,
            log=str(self._path),
            entries=self.walk.entries,
            head=self.walk.head,
        )

    def _child(self, start: _Start) -> RunNode:
        own = self.started
        if own is not None:
            start.depth, start.parent_limits = own.depth + 1, own.limits
        start.is_parent_finished = self._finished is not None
        if start.started is None:
            return RunNode(**_told_of(start), log_state="none")
        path = child_path(self._path, start.started.number)
        reading = _Reading(path)
        if path.is_symlink():  # what it points at is nobody's child
            return _without_log(start, path)
        try:
            reading.read()
        except LogMissing:
            return _without_log(start, path)
        if reading.started is not None and reading.started.run_id != start.started.run_id:
            return RunNode(**_told_of(start), log_state="foreign", log=str(path))
        return reading.node(start)


def _without_log(start: _Start, path: Path) -> RunNode:
    """Return the node of a child whose log is not there: missing, or never written."""
    child = start.outcome.child if start.outcome is not None else None
    is_missing = child is not None and child.events > 0
    if is_missing or (start.outcome is None and start.is_parent_finished):
        return RunNode(**_told_of(start), log_state="missing", log=str(path))
    return RunNode(**_told_of(start), log_state="none")  # after a crash, it may not have begun


def _rejected(event: events.ChildFinished) -> events.ChildStarted | None:
    """Return the start that a rejected child never had: what was asked for stands in its end."""
    return events.ChildStarted(event.delegation, 0, "") if event.delegation else None


def _told_of(start: _Start) -> dict[str, Any]:
    """Return the fields of a node that the parent's log tells."""
    told: dict[str, Any] = {
        "name": "",
        "call": start.call,
        "depth": start.depth,
        "tool": start.tool,
    }
    if not start.call:
        return told
    if start.started is not None:
        told |= _asked(start.started, start.parent_limits)
    told["is_joined"] = start.outcome is not None
    told["status"] = start.late or UNFINISHED
    if start.outcome is not None:
        told |= _ended(start.outcome)
    return told


def _asked(started: events.ChildStarted, parent_limits: dict[str, Any]) -> dict[str, Any]:
    asked = started.delegation
    limits = asked.get("limits", {})
    tools = asked.get("tools")
    agent, program = asked.get("agent", ""), asked.get("program", "")
    return {
        "name": agent or program,
        "agent": agent,
        "program": program,
        "brief": asked.get("brief", ""),
        "input": asked.get("input"),
        "tool": asked.get("tool", ""),
        "number": started.number,
        "limits": limits,
        "narrowed": _other(limits, _inherited(parent_limits)),
        "tools_granted": None if tools is None else tuple(tools),
        "run_id": started.run_id,
    }


def _inherited(limits: dict[str, Any]) -> dict[str, Any]:
    """Return the caps of a child that asked for none: a joining parent's patience is a timeout."""
    times = [limits[name] for name in ("timeout_seconds", "join_seconds") if limits.get(name)]
    return limits | ({"timeout_seconds": min(times)} if times else {})


def _other(limits: dict[str, Any], than: dict[str, Any]) -> dict[str, Any]:
    return {name: cap for name, cap in limits.items() if than.get(name) != cap}


def _ended(outcome: Outcome) -> dict[str, Any]:
    return {
        "status": outcome.status,
        "error": outcome.error,
        "truncated": outcome.truncated,
        "usage": outcome.usage,
        "artifacts": tuple((each.kind, each.name) for each in outcome.artifacts),
        "duration_ms": outcome.duration_ms,
    }
