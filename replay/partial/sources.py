"""Where the outcomes of a run come from: the record, the world, or stubs (CONTRACT.md §12.10).

`Sources` defines this per kind and per tool, and `BookSupply` serves it to a recorder
(`engine.recording.supplied`). A missing recorded outcome is an error, never replaced by a similar
one. `replay.partial.drift` compares the results.

A rehearsal writes no log and has no sources: `replay.what_if.rehearsal`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.encoding.document import Document
from refold.engine.encoding.parameters import names_nearest
from refold.engine.errors import LogError, OutcomeMissing, UsageError
from refold.engine.events import events
from refold.engine.events.events import key_in
from refold.engine.events.outcome import Outcome
from refold.engine.log.names import child_path, children, is_there
from refold.engine.log.reader import Entry, read_entries
from refold.engine.ports.effects import AskModel, CallTool, RunChild
from refold.engine.ports.ports import ChildRequest
from refold.engine.recording.bookends import scripts_in
from refold.replay.difference.excuses import KIND_ASKED, Excuses
from refold.replay.difference.pointer_diff import differences
from refold.replay.index.by_call import AskedCall, Book, asked_of, blank, label_of
from refold.replay.partial.given_values import given
from refold.replay.reexecute.world import LoggedModel, LoggedTool

SourceMode = Literal["recorded", "live", "stub"]

SEEDED: Final = ("uuid", "random")
"""Sources of drawn values that follow from the seed and the call key, and from nothing else."""

MODES: Final[tuple[SourceMode, ...]] = ("recorded", "live", "stub")

_PLACES: Final = {"model": "model", "tool": "tools", "child": "children"}
"""By kind of a request: the member of `Sources`, and the option, for its source."""
_OPENED: Final = ("openai:", "anthropic:", "pydantic:")
"""Prefixes of models that a log names well enough to ask them again."""


def unasked(first: Entry) -> dict[str, str]:
    """Return the models that a log does not name well enough to ask them again.

    By name, with what to call them. A script of the program may have a provider's name.
    """
    models = first.data.get("models", {})
    found = {name: repr(full) for name, full in models.items() if not full.startswith(_OPENED)}
    scripts = sorted(scripts_in(models, first.meta) - found.keys())
    named = {name: f"a script in the program, with the name {models[name]!r}" for name in scripts}
    return found | named


def _a_mode(_instance: object, attribute: Any, value: object) -> None:
    if value not in MODES:
        raise UsageError(f"{attribute.name}: expected {', '.join(MODES)}; found {value!r:.40}")


def _modes(_instance: object, _attribute: Any, value: object) -> None:
    if not isinstance(value, Mapping):
        raise UsageError(f"tool maps tools' names to {', '.join(MODES)}; found {value!r:.40}")
    for name, mode in value.items():
        if mode not in MODES:
            raise UsageError(f"tool {name!r}: expected {', '.join(MODES)}; found {mode!r:.40}")


@names_nearest
@attrs.frozen(kw_only=True)
class Sources(Document):
    """The source of outcomes, per kind; the default is the record."""

    hidden = ("stubs", "may_change")

    model: SourceMode = attrs.field(default="recorded", validator=_a_mode)
    """`recorded`, `live`, or `stub`: of models' answers."""
    tools: SourceMode = attrs.field(default="recorded", validator=_a_mode)
    """The same of tools' results."""
    children: SourceMode = attrs.field(default="recorded", validator=_a_mode)
    """`recorded`: their outcomes; `live`: they run, in this process, under the same sources."""
    tool: Mapping[str, SourceMode] = attrs.field(factory=dict, validator=_modes)
    """By the name of a tool; goes before `tools`."""
    stubs: Mapping[str, Json] = attrs.field(factory=dict)
    """A stub's result: by a tool's name, or `model` (text) or `child` (output, and as text the
    summary); else null."""
    may_change: bool = False
    """Whether tools that change the world may run live; else they come from the record."""

    def mode_of(self, kind: str, name: str) -> SourceMode:
        """Return where the outcome of a request comes from, by its kind and name."""
        of_kind: dict[str, SourceMode] = {"model": self.model, "child": self.children}
        of_kind["tool"] = self.tool.get(name, self.tools)
        return of_kind.get(kind, "recorded")

    def lets_run(self, kind: str, name: str, effect: Json = None) -> bool:
        """Return whether such a request runs live; `effect` is a tool's effect class."""
        may_run = self.may_change or effect != "changes"
        return self.mode_of(kind, name) == "live" and may_run


@attrs.frozen
class Edit:
    """One outcome that is to be another one."""

    log: Path
    """Of the run that has it."""
    entry: Entry
    asked: tuple[str, str]
    """The kind and name of its request; for a drawn value, its source and name."""
    event: events.Event
    """The new outcome."""


class BookSupply:
    """Serves a run from a different run's record, according to its sources; edits first."""

    def __init__(
        self,
        book: Book,
        sources: Sources,
        missing: list[OutcomeMissing] | None = None,
        *,
        volatile: Sequence[str] = (),
        log: Path | None = None,
        edits: Mapping[str, Edit] = MappingProxyType({}),
        run: str = "",
    ) -> None:
        """Take the record; a fork has a log that is kept, whose beginning may be a copy.

        `run` is its path in the tree of the fork, which may differ from the recorded path.
        """
        self.book = book
        self.sources = sources
        self._volatile = volatile
        self._excuses = Excuses(str(book.log), book.rules, volatile)
        self.missing: list[OutcomeMissing] = missing if missing is not None else []
        """Requests without an outcome, in this run and below."""
        self.live: set[str] = set()
        """Requests, in this run and below, whose outcomes came from the world."""
        self.recorded: dict[str, str] = {}
        """By call: the recorded call that asked for the same."""
        self._unused: dict[tuple[str, str], list[str]] = defaultdict(list)
        """By scope and request: the unclaimed calls, in the order asked."""
        for call, asked in book.requests.items():
            self._unused[self._place(asked)].append(call)
        self._looks = iter(book.looks)
        self._log, self._edits, self._run = log, edits, run
        if log is not None and log.exists():
            kept = Book(log, unfinished_ok=True)
            self._pass_over(kept.answers, len(kept.looks))

    def _pass_over(self, calls: Iterable[str], looks: int) -> None:
        """Leave out the finished part of a run: completed calls, and clock reads."""
        for call in calls:
            asked = self.book.requests.get(call)
            if asked is not None and call in self._unused[self._place(asked)]:
                self._unused[self._place(asked)].remove(call)
        self._looks = iter(self.book.looks[looks:])

    def _place(self, asked: AskedCall) -> tuple[str, str]:
        return asked.item.scope, asked.identity_without(self._excuses.paths)

    def refuse(self, call: str, asked: Any, tool: Any) -> None:
        """Refuse a call of a fork that changes the world if it has no outcome and may not run.

        In the log, which is kept, it would count as one that may have taken effect.
        """
        wanted = asked_of(asked, call)
        is_safe = wanted.data.get("effect") != "changes" or self.key(call) in self._edits
        if self._log is None or is_safe or self.sources.mode_of(*wanted.name) == "stub":
            return
        may_run = self.sources.lets_run(*wanted.name, "changes")
        is_lacking = isinstance(tool, LoggedTool) if may_run else not self.find(call, wanted)
        if is_lacking:
            raise self.not_given(wanted, tool)

    def outcome(self, call: str, asked: Any, effect: Any) -> Any:
        """Return the edited, recorded or stubbed outcome of a request; `None`: do it live.

        A child that continues, or that contains an edit, always runs.

        Raises:
            OutcomeMissing: the record has none, and it may not be done live.
        """
        key = self.key(call)
        is_edited = any(each.startswith(key_in(key, "")) for each in self._edits)
        if isinstance(asked, events.ChildStarted) and (is_edited or self._is_begun(asked.number)):
            self.claim(call, asked)
            return None
        edit = self._edits.get(key)
        if edit is None:
            return self._of_source(call, asked, effect)
        self.claim(call, asked)
        wanted = asked_of(asked, call)
        if wanted.name != edit.asked:
            why = f"the edit of {key} is of {' '.join(edit.asked).strip()}"
            raise self._not_there(label_of(wanted.item), self._nearest(wanted), why, call)
        return edit.event.outcome if isinstance(edit.event, events.ChildFinished) else edit.event

    def _is_begun(self, number: int) -> bool:
        """Return whether the fork has the beginning of a child's log."""
        return self._log is not None and number in children(self._log)

    def _of_source(self, call: str, asked: Any, effect: Any) -> Any:
        wanted, recorded = asked_of(asked, call), self.claim(call, asked)
        name = wanted.name
        mode = self.sources.mode_of(*name)
        if mode == "stub":
            return _stub(asked, self.sources.stubs, effect)
        if self.sources.lets_run(*name, wanted.data.get("effect")):
            if _absent(effect)[0]:
                raise self.not_given(wanted, effect)
            if not isinstance(effect, RunChild):
                self.live.add(self.key(call))
            return None
        answer = self.book.answers.get(recorded) if recorded is not None else None
        if answer is None:
            if isinstance(asked, events.InputAsked):
                return None
            if recorded is not None and (self.book.end or recorded in self.book.given_up_after):
                return _given_up(effect)
            raise self.not_given(wanted, effect)
        event = answer.event
        return event.outcome if isinstance(event, events.ChildFinished) else event

    def claim(self, call: str, asked: Any) -> str | None:
        """Return the recorded call of the same request: under its key, or else in its scope.

        What rules declare volatile, or took out, makes no other request of it (§12.7).
        """
        if (found := self.find(call, asked_of(asked, call))) is not None:
            self._unused[self._place(self.book.requests[found])].remove(found)
            self.recorded[call] = found
        return found

    def find(self, call: str, wanted: AskedCall) -> str | None:
        """Return the recorded call that `claim` would."""
        left = self._unused[self._place(wanted)]
        found = call if call in left or not left else left[0]
        recorded = self.book.requests.get(found)
        if recorded is None or found not in self._unused[self._place(recorded)]:
            return None
        is_excused = recorded.identity == wanted.identity or self._is_excused(recorded, wanted)
        return found if left or is_excused else None

    def _is_excused(self, recorded: AskedCall, wanted: AskedCall) -> bool:
        kind, pair = KIND_ASKED[recorded.item.kind], (recorded.comparable, wanted.comparable)
        return self._excuses.excused(kind, wanted.call, recorded.item.seq, pair)

    def key(self, call: str) -> str:
        """Return a call key of this run from the root run down."""
        return key_in(self._run, call)

    def not_given(self, wanted: AskedCall, effect: Any) -> OutcomeMissing:
        """Return that a request has no outcome, with the options that let it run."""
        kind, name = wanted.name
        option, passed = _absent(effect)
        options, members = [option] if option else [], dict[str, Any]()
        if self.sources.mode_of(kind, name) != "live":
            place, members = _PLACES[kind], {_PLACES[kind]: "live"}
            if kind == "tool" and name in self.sources.tool:
                place, members = name, {"tool": {**self.sources.tool, name: "live"}}
            if not (option and kind == "model"):
                options.insert(0, f"--source {place}=live")
        if wanted.data.get("effect") == "changes" and not self.sources.may_change:
            options.append("--yes")
            members["may_change"] = True
        label, near = label_of(wanted.item), self._nearest(wanted)
        why = self._advice(members, options, passed)
        return self._not_there(label, near, why, wanted.call, " ".join(options))

    def _advice(self, members: dict[str, Any], options: list[str], passed: str = "") -> str:
        """Return what to pass, to the Python call and on the command line; empty for nothing."""
        sources, default = attrs.evolve(self.sources, **members), Sources()
        values = {each.name: getattr(sources, each.name) for each in attrs.fields(Sources)}
        said = [
            f"{name}={each!r}" for name, each in values.items() if each != getattr(default, name)
        ]
        wanted = f"sources=refold.Sources({', '.join(said)})" if members else ""
        call = ", ".join(filter(None, (passed, wanted)))
        return f"pass {call}; on the command line: {' '.join(options)}" if options else ""

    def _not_there(
        self, label: str, nearest: str, why: str, call: str, options: str = ""
    ) -> OutcomeMissing:
        error = OutcomeMissing(label, nearest, why, options, self.key(call))
        self.missing.append(error)
        return error

    def _nearest(self, wanted: AskedCall) -> str:
        """Return the recorded request that is most like it: its key first, then its name."""
        at = self.book.requests.get(wanted.call)
        alike = [one for one in self.book.requests.values() if one.name == wanted.name]
        near = next((one for one in alike if one.item.scope == wanted.item.scope), None)
        best = at if at is not None and at in alike else near or at or next(iter(alike), None)
        if best is None:
            return ""
        label, found = label_of(best.item), differences(best.item.arguments, wanted.item.arguments)
        is_alike = found and label == label_of(wanted.item)
        return f"{label}, which differs in {found[0]}" if is_alike else label

    def ended(self, call: str, outcome: Outcome) -> Outcome:
        """Return a live outcome with the recorded duration: durations are not drift."""
        answer = self.book.answers.get(self.recorded.get(call, ""))
        if answer is None or not isinstance(answer.event, events.ChildFinished):
            return outcome
        return attrs.evolve(outcome, duration_ms=answer.event.outcome.duration_ms)

    def child(self, request: ChildRequest, outcome: Outcome) -> Outcome:  # noqa: ARG002 - forks do
        """Return a supplied outcome in the form for this run's log: as it is."""
        return outcome

    def draw(self, source: str, name: str, call: str) -> tuple[Json] | None:
        """Return the edited value, or the one that the record has for a draw; `None`: draw it."""
        key = self.key(call)
        if (edit := self._edits.get(key)) is not None:
            if edit.asked == (source, name) and isinstance(edit.event, events.ValueDrawn):
                return (edit.event.value,)
            label = f"{source} {name} {call}".replace("  ", " ")
            why = f"the edit of {key} is of {' '.join(edit.asked).strip()}"
            raise self._not_there(label, "", why, call)
        at = self.book.values.get(call)
        if at is not None and (at.source, at.name) == (source, name):
            return (at.value,)
        if source in SEEDED or source == "tokens":
            return None  # another one than those that were drawn
        for other in self.book.values.values():
            if (other.source, other.name) == (source, name):
                return (other.value,)
        return None

    def snapshot(self) -> dict[str, Any] | None:
        """Return the session that the run started with; `None` for none of its own."""
        return self.book.snapshot

    def read_clock(self) -> tuple[int, int] | None:
        """Return the times of the record, one after the other; `None` after the last."""
        read = next(self._looks, None)
        return (read.time_us, read.virtual_us) if read is not None else None

    def when(self, key: str) -> int | None:
        """Return the recorded place of a completion."""
        return self.book.position(self.recorded.get(key, key))

    def fired(self, key: str, length_us: int | None, nth: int) -> int | None:
        """Return the recorded place of a timer."""
        answer = self.book.fired(key, length_us, nth)
        return answer.position if answer is not None else None

    def granted(self, call: str, has: int) -> int | None:
        """Return the recorded place of a grant of tokens."""
        return self.book.position(f"tokens {self.recorded.get(call, call)} {has}")

    def outlasts(self, call: str) -> bool:
        """Return whether the record has an end of that child other than a cancellation."""
        answer = self.book.answers.get(self.recorded.get(call, ""))
        event = answer.event if answer is not None else None
        return isinstance(event, events.ChildFinished) and event.outcome.status != "cancelled"

    def below(self, effect: RunChild) -> "BookSupply":
        """Return the supply of a child that runs live: from the record of the same child.

        Raises:
            OutcomeMissing: its record is damaged; or it has none, and children are not live.
        """
        recorded = self.recorded.get(effect.call)
        log = self.book.child_log(recorded) if recorded is not None else None
        options, below = "--source children=live", None
        why = f"no such child was recorded; {self._advice({'children': 'live'}, [options])}"
        try:
            if log is not None and is_there(log) and next(read_entries(log, torn_ok=True), None):
                below = self.of_child(Book(log, unfinished_ok=True), effect)
            elif self.sources.children == "live":
                below = self.of_child(self.book.empty(), effect)
        except (LogError, UsageError) as error:
            options, why = "", str(error)
        if below is None:
            raise self._not_there(f"child {effect.call}", "", why, effect.call, options)
        below.live = self.live
        return below

    def of_child(self, book: Book, effect: RunChild) -> "BookSupply":
        """Return the supply of a child with that record, which may continue from a cut log."""
        return self.__class__(
            book, self.sources, self.missing, volatile=self._volatile, edits=self._edits,
            log=child_path(self._log, effect.number) if self._log is not None else None,
            run=self.key(effect.call) if self._log is not None else "",
        )  # fmt: skip


def _absent(effect: Any) -> tuple[str, str]:
    """Return the option and the argument that pass a tool or model, if nobody passed it."""
    match effect:
        case LoggedTool(name=name) | CallTool(tool=LoggedTool(name=name)):
            return f"--tools FILE.py:{name}", f"tools=[{name}]"
        case AskModel(model=LoggedModel(name=full) as logged, name=name):
            argument = f"models={{{name!r}: …}}" if name else "model=…"
            is_named = full.startswith(_OPENED) and not logged.is_script
            return "--source model=live" if is_named else "--model SPEC", argument
        case _:
            return "", ""


def _given_up(effect: Any) -> Any:
    """Return a substitute for an outcome that the program cancelled in the record."""
    if isinstance(effect, RunChild):
        return Outcome(status="cancelled")
    error = {"code": "cancelled", "message": "it was abandoned in the recording", "type": ""}
    kind = events.ModelAnswered if isinstance(effect, AskModel) else events.ToolReturned
    return kind("error", error=error)


def _stub(asked: Any, stubs: Mapping[str, Json], effect: Any) -> Any:
    """Return the outcome that a stub gives to a request."""
    kind = asked_of(asked, "").item.kind
    name = asked.tool if kind == "tool" else kind
    if name not in stubs:
        event: Any = blank(kind)
    else:
        tool = effect.tool if isinstance(effect, CallTool) else None
        tool = None if isinstance(tool, LoggedTool) else tool
        event = given(blank(kind), name, stubs[name], tool=tool)
    return event.outcome if isinstance(event, events.ChildFinished) else event
