"""Reads the log of a watched command: its requests and their answers.

A log is read once. Only references to the transmitted bytes are kept, so memory grows with the
number of requests and not with their answers. Rules: CONTRACT.md §16.3, §16.6.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from refold.engine.encoding.canonical import encode
from refold.engine.encoding.patterns import GLOB_MAX
from refold.engine.errors import EventMalformed, LogUnsupported, UsageError
from refold.engine.events import events
from refold.engine.events.codec import structure
from refold.engine.events.events import number_of, scope_of
from refold.engine.log.blobs import BlobStore, resolved
from refold.engine.log.names import blobs_of
from refold.engine.log.reader import Entry, nonsense, read_entries, whole_data
from refold.engine.observed.binding import FOLDERS, NOTED, Bindings, ValuePlace, places_of
from refold.engine.observed.links import RESULT, Links
from refold.engine.observed.observer import parameters_asked
from refold.engine.observed.profile import EXACT, NAMED, NO_PROFILE, Profile
from refold.engine.observed.volatile import VolatileRules, match_key
from refold.engine.wire.parts.exchange import OTHER, Asked
from refold.engine.wire.parts.kept_answers import IDS, checked, pieces, why_unserved
from refold.engine.workspace import linked
from refold.engine.workspace.entries import FolderState, read_entry
from refold.engine.workspace.left_out import OF_AIDER
from refold.replay.index.chains import Chains
from refold.replay.index.guarantee import refuse_other_rules, refuse_program

_MARKER: Final = b"[redacted"
INTERRUPTED: Final = "interrupted"
"""The reason of a command's end if a signal reached it."""
MOVED: Final = "moved"
"""The member of `run.started`'s meta with the routes to other servers, joined by `_`."""
OUTPUT: Final = "output"
"""The member of `run.started.rules` with the comparison mode of the output."""

_SUCCESS: Final = range(200, 300)
_FAILED: Final = 400
"""The lowest HTTP status of a failed request."""

_RULES: Final = (
    "volatile", "volatile_texts", "unordered", "unordered_lines", "left_out", "asides", "places",
)  # fmt: skip
"""What rules, or a profile in them, list."""
_SELECTORS_MAX: Final = 1000
_SIZE_MAX: Final = 0xFFFF
"""Columns and rows that a terminal can have."""

How = Literal["answered", "gone", "open"]
"""`gone`: the program gave up on it · `open`: the record ends before its answer."""


@attrs.define
class RecordedTurn:
    """One recorded request, and its answer."""

    call: str
    seq: int
    asked: Asked
    key: str
    """`match_key` of the request, volatile rules applied."""
    is_marked: bool = False
    """Whether something was taken out of the request before it was written."""
    how: How = "open"
    answer: events.ModelAnswered | None = None
    parts: list[dict[str, Any]] = attrs.field(factory=list)
    """Of the wire, long texts still as references."""
    over: int | None = None
    """The seq of the entry that records that the program cancelled it."""
    is_served: bool = False
    late_seconds: float = 0.0
    """How much later its answer is to come, on purpose."""

    @property
    def why_unserved(self) -> str:
        """Why its answer cannot be served; empty if it can, or if it has no answer."""
        if not self.parts:
            return ""
        status, said = self.parts[0]["status"], self.answer
        if said is not None and not _are_of_one_answer(self.asked.api, status, said):
            entry = f"{said.status} {(said.error or {}).get('code', '')}".strip()
            return f"its wire has status {status}, its entry has {entry!r}: one of them is forged"
        return why_unserved(self.parts)

    @property
    def failure(self) -> str:
        """Why it has no whole answer: `http_429`, `cut`, `gave up`; empty if it has one."""
        if self.answer is None:
            return "gave up" if self.how == "gone" else ""
        is_failed = self.answer.status == "error"
        return str((self.answer.error or {}).get("code") or "error") if is_failed else ""

    @property
    def scope(self) -> str:
        """The conversation."""
        return scope_of(self.call)

    @property
    def ordinal(self) -> int:
        """Its place in the conversation."""
        return number_of(self.call)


@attrs.define
class RecordedTool:
    """A tool call that an answer asked for."""

    tool: str
    arguments: dict[str, Any]
    end: dict[str, Any] | None = None
    """{status, result or error} as `tool.returned` has it; `None` where no request showed it."""


@attrs.define
class ObservedRecord:
    """A recorded command."""

    path: Path
    started: events.RunStarted
    rules: VolatileRules
    notes: tuple[str, ...] = ()
    """Rules of its own that are left out, and why."""
    profile: Profile = NO_PROFILE
    places: tuple[ValuePlace, ...] = ()
    """Places of values that differ in every run, from the profile."""
    output: str = EXACT
    """How the command's output is compared: `exact`, `lines` in any order, or `ignore`."""
    finished: events.RunFinished | None = None
    turns: list[RecordedTurn] = attrs.field(factory=list)
    """In the order of asking."""
    agents: dict[str, str] = attrs.field(factory=dict)
    """By scope, as far as it is known who it is."""
    started_by: dict[str, str] = attrs.field(factory=dict)
    """By scope: the call that delegated to it, if known."""
    tools: dict[str, RecordedTool] = attrs.field(factory=dict)
    """By call key, in the order of asking."""
    seqs: dict[str, int] = attrs.field(factory=dict)
    """By call key: the entry that asked."""
    folder: FolderState = attrs.field(factory=FolderState)
    """The folder that the command worked in, as it was last; without a start, if none is kept."""
    left: str = ""
    """Of a record that resumes another: what that one left of the folder."""
    entries: int = 0
    head: str = ""
    moved: tuple[str, ...] = ()
    """The routes of the command that led to other servers than the providers'."""

    @property
    def exit_code(self) -> int:
        """The command's exit code as in a shell; 0 if the record has no end."""
        output = self.finished.output if self.finished is not None else None
        code = output.get("exit_code") if isinstance(output, dict) else None
        return code if isinstance(code, int) else 0

    @property
    def here(self) -> dict[str, str]:
        """The recorded place and time of the recording."""
        rules, folder = self.started.rules, self.folder.started
        beside = linked.noted(folder) if folder is not None else {}
        return {**rules.get(NOTED, {}), **rules.get(FOLDERS, {}), **beside}

    @property
    def volatile_files(self) -> tuple[str, ...]:
        """Patterns of files that are not compared; the default is the list for aider."""
        says = any(where.startswith("file:") for place in self.places for where in place.where)
        return () if says else OF_AIDER

    def bindings(self, now: Mapping[str, str] | None = None) -> Bindings:
        """Return the bindings of recorded values to a run's; `now` is that run's place."""
        made = self.folder.made
        return Bindings(self.places, self.here, now or self.here, made=made)

    def retries(self) -> dict[str, list[RecordedTurn]]:
        """Return the requests that failed and were tried again next, by the call of the last."""
        found: dict[str, list[RecordedTurn]] = {}
        last: dict[str, RecordedTurn] = {}
        for turn in self.turns:
            before = last.get(turn.scope)
            if before is not None and before.failure and before.asked == turn.asked:
                found[turn.call] = [*found.pop(before.call, []), before]
            last[turn.scope] = turn
        return found

    def pieces(self, turn: RecordedTurn) -> Iterator[tuple[int, bytes]]:
        """Yield the chunks of a recorded answer, each with its milliseconds after the request."""
        yield from pieces(self.parts(turn))

    def parts(self, turn: RecordedTurn) -> Iterator[dict[str, Any]]:
        """Yield how a recorded answer came over the wire, part by part."""
        blobs = BlobStore(blobs_of(self.path))
        for part in turn.parts:
            yield resolved(part, blobs.get)


def read_record(
    log: str | PathLike[str],
    rules: VolatileRules | None = None,
    *,
    until: int | None = None,
    profile: Profile | None = None,
) -> ObservedRecord:
    """Return the log of a watched command; `rules` are added to its own.

    `until` excludes the entries from that one on. `profile` replaces the log's own.

    Raises:
        LogDamaged: the log does not verify, a blob has changed, or an entry with a valid hash has
            data that is invalid in a watched command's log; a torn tail is ignored.
        FolderRefused: an entry has a forbidden file name.
        LogMissing: the log does not exist.
        LogObserved: it is the log of a program, not of a command.
    """
    return _Reading(Path(fspath(log)), rules or VolatileRules(), profile).read(until)


class _Reading:
    def __init__(self, path: Path, rules: VolatileRules, profile: Profile | None) -> None:
        self._path = path
        self._profile = profile
        self._rules = rules
        self._blobs = BlobStore(blobs_of(path))
        self._open: dict[str, RecordedTurn] = {}
        self._chains = Chains()
        self._marked: set[str] = set()
        """The chain digests of conversations of which something was taken out."""
        self._end: dict[str, str] = {}
        """By call: the chain digest of all that was asked."""
        self._tools: dict[str, Sequence[Any]] = {"": ()}
        self._links = Links()

    def read(self, until: int | None) -> ObservedRecord:
        record: ObservedRecord | None = None
        for entry in read_entries(self._path, torn_ok=True):
            if until is not None and entry.seq >= max(until, 1):
                break
            with self._sensible(entry):
                event = self._event(entry) if record is None else None
            if isinstance(event, events.RunStarted):
                refuse_other_rules(self._path, refuse_program(self._path, event))
            with self._sensible(entry):
                if record is None:
                    record = self._begun(event)
                    record.moved = tuple(filter(None, str(entry.meta.get(MOVED, "")).split("_")))
                else:
                    self._follow(record, entry)
                    told = entry.kind, entry.call or "", entry.seq, entry.data, entry.cause
                    self._links.take(*told)
            assert record is not None
            record.entries, record.head = entry.seq + 1, entry.hash
        if record is None:
            list(read_entries(self._path))  # raises: not even its first line is whole
        assert record is not None
        for scope in [each for each in record.agents if self._links.standing(each) == "dropped"]:
            record.agents[scope] = record.started_by[scope] = ""
        return record

    @contextlib.contextmanager
    def _sensible(self, entry: Entry) -> Iterator[None]:
        """Take one entry in this block.

        Raises:
            LogDamaged: the entry's hash is valid, but its data is invalid in a watched command's
                log.
        """
        try:
            yield
        except (EventMalformed, LogUnsupported, UsageError) as error:
            raise nonsense(entry, self._path, "the data of its kind", str(error)) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            found = f"{type(error).__name__}: {error}"
            expected = "what belongs to entries before"
            raise nonsense(entry, self._path, expected, found) from None

    def _follow(self, record: ObservedRecord, entry: Entry) -> None:
        if entry.kind == events.WIRE:
            turn = self._open[entry.call or ""]
            checked(whole_data(entry, self._path, self._blobs), is_first=not turn.parts)
            if IDS in entry.data:
                turn.asked = attrs.evolve(turn.asked, ids=entry.data[IDS])
            turn.parts.append(entry.data)
        else:
            self._take(record, entry.seq, entry.call or "", self._event(entry))

    def _event(self, entry: Entry) -> Any:
        return structure(entry.kind, whole_data(entry, self._path, self._blobs))

    def _begun(self, started: Any) -> ObservedRecord:
        own = started.rules
        _check_start(own, started.input)
        recorded, notes = VolatileRules.recorded(own)
        profile = Profile.in_rules(own) if self._profile is None else self._profile
        known, more = VolatileRules.recorded(profile.as_json())
        self._rules = recorded.plus(known).plus(self._rules)
        places, left_out = places_of(profile.places)
        return ObservedRecord(
            self._path, started, self._rules, (*notes, *more, *left_out), profile, places,
            str(own.get(OUTPUT) or profile.output),
        )  # fmt: skip

    def _take(self, record: ObservedRecord, seq: int, call: str, event: Any) -> None:
        match event:
            case events.ModelAsked():
                turn = self._asked(seq, call, event)
                record.turns.append(turn)
                record.seqs[call] = seq
                self._open[call] = turn
            case events.ModelAnswered():
                turn = self._open[call]
                if not turn.parts:
                    raise LookupError("an answer without its wire")
                turn.how, turn.answer, turn.over = "answered", event, seq
                if event.message is not None:
                    self._chain(self._end[call], [event.message])
            case events.ToolCalled(tool=tool, arguments=arguments):
                record.tools[call] = RecordedTool(tool, arguments)
                record.seqs[call] = seq
            case events.ToolReturned(status=status, result=result, error=error):
                told = {"result": result} if error is None else {"error": error}
                record.tools[call].end = {"status": status, **told}
            case events.EffectCancelled(kind="model"):
                turn = self._open[call]
                turn.how, turn.over = "gone", seq
            case events.Extension():
                self._extended(record, event.kind, event.data)
            case events.RunFinished():
                record.finished = event
            case _:
                pass

    def _extended(self, record: ObservedRecord, kind: str, data: dict[str, Any]) -> None:
        if kind == events.TOOLS:
            self._tools[data["digest"]] = data["tools"]
        elif kind == events.MESSAGES:
            self._chain(data["predecessor"], data["added"])
        elif kind == events.CONVERSATION and data.get("how") != RESULT:
            record.agents[data["scope"]] = data["agent"]
            record.started_by[data["scope"]] = data.get("call", "")
        elif kind == events.LEFT:
            record.left = record.folder.before = str(data["files"])
        elif kind == events.FOLDER:
            record.folder.apply(read_entry(data))

    # --- requests ------------------------------------------------------------------------

    def _asked(self, seq: int, call: str, event: events.ModelAsked) -> RecordedTurn:
        end = self._end[call] = self._chain(event.predecessor, event.added)
        api, parameters = parameters_asked(event.parameters)
        asked = Asked(
            api=api,
            model=event.model,
            messages=self._chains.messages(end),
            parameters=parameters,
            tools=tuple(self._tools[event.tools]),
        )
        if asked.is_fetch:  # it says no more than its path; the log adds whose answer it is
            asked, end = attrs.evolve(asked, model="", messages=()), ""
        plain = self._rules.applied(asked)
        key = match_key(plain, end if plain is asked else None)
        is_marked = end in self._marked or _has_marker([parameters, list(asked.tools)])
        return RecordedTurn(call, seq, asked, key, is_marked)

    def _chain(self, at: str, messages: Sequence[Any]) -> str:
        for message in messages:
            before, at = at, self._chains.after(at, [message])
            if before in self._marked or _has_marker(message):
                self._marked.add(at)
        return at


def _are_of_one_answer(api: str, status: int, said: events.ModelAnswered) -> bool:
    """Return whether a recorder can have read this answer with that status.

    Of an error, only what leads elsewhere is looked at: some have a status of Refold's own.
    """
    if said.status == "ok":
        return status < _FAILED if api == OTHER else status in _SUCCESS
    code = str((said.error or {}).get("code"))
    return not code.startswith("http_") or status >= _FAILED or code == f"http_{status}"


def _has_marker(value: Any) -> bool:
    return _MARKER in encode(value)


def _check_start(rules: dict[str, Any], given: Any) -> None:
    """Look whether the first entry has the shapes on which a replay rests."""
    given = given if isinstance(given, dict) else {}
    told, profile = rules.get("redaction", {}), rules.get(NAMED) or {}
    named = [rules.get(name, {}) for name in ("keys", FOLDERS, NOTED)]
    named.append(profile.get("variables", {}))
    listed = [given.get("variables", []), told.get("environment", []), told.get("tools", [])]
    listed += [rules.get(name, []) for name in _RULES] + [profile.get(name, []) for name in _RULES]
    listed += [[profile.get("name", "")], *map(list, map(dict.values, named))]
    listed += [*told.get("paths", {}).values(), *profile.get("hands_over", {}).values()]
    if not all(isinstance(each, list) and set(map(type, each)) <= {str} for each in listed):
        raise TypeError("rules that are not lists of strings")
    selectors = [*told.get("paths", {}), *told.get("tools", [])]
    selectors += [
        path.partition("/")[0] for each in (rules, profile) for path in each.get("volatile", [])
    ]
    if len(selectors) > _SELECTORS_MAX or max(map(len, selectors), default=0) > GLOB_MAX:
        raise ValueError(
            f"more than {_SELECTORS_MAX} places, or one of more than {GLOB_MAX} characters"
        )
    if not all(type(each) is int and 0 < each <= _SIZE_MAX for each in given.get("terminal", ())):
        raise ValueError(f"a terminal of the size {given['terminal']!r:.80}")
