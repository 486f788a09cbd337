"""A command recorded, a command replayed: from its start to the report.

What `refold record -- COMMAND` and `refold replay LOG -- COMMAND` do, for Python too.
Rules: CONTRACT.md §16.
"""

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.engine.events.events import LEFT, Extension
from refold.engine.log.beside import add_pack, packs_of
from refold.engine.log.names import files_of, fresh_path
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.profile import EXACT, Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.secrets.redaction import Redaction
from refold.engine.wire.apis import known_routes
from refold.engine.wire.parts.format import Route
from refold.engine.wire.spelling import can_spell
from refold.engine.workspace.left_out import folder_of
from refold.engine.workspace.made import NewObjects
from refold.engine.workspace.watching import WatchedFolder
from refold.proxy import bookends
from refold.proxy.command import (
    CommandEnd,
    Size,
    may_have_input,
    run_command,
    terminal_here,
    unheard,
)
from refold.proxy.copies.applying import FolderPatch, patch_of
from refold.proxy.copies.ended import EndedFolder
from refold.proxy.copies.placing import Copying, Placement, placed
from refold.proxy.desks.caps import Caps
from refold.proxy.desks.examining import Examining
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import RecordingDesk
from refold.proxy.desks.replaying import LookAtMade, Replaying
from refold.proxy.desks.resuming import Resuming
from refold.proxy.http.routes import (
    base_urls,
    environment_of,
    moved_of,
    routes_of,
    why_nothing_came,
    with_recorded,
)
from refold.proxy.http.server import HOST, served
from refold.proxy.http.turns import Desk, OnMiss, Pace
from refold.proxy.mcp.hub import ROUTE, Hub
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.serving import McpServing
from refold.proxy.mcp.sessions import notes_on, serving_of, with_mcp
from refold.proxy.profiles import profile_of, redirected, shipped_as, works_on_folder
from refold.proxy.recorded_here import is_trusted, remember
from refold.proxy.signals import Signals
from refold.replay.difference.pointer_diff import few
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.explaining import asked_otherwise
from refold.replay.observed.folder import folder_at
from refold.replay.observed.ignoring import without_effect
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import (
    FailedAnswer,
    ObservedReport,
    failed_answer,
    report_of,
    without_network,
)
from refold.replay.observed.titles import place_of
from refold.replay.resume.observed_fork import kept_record
from refold.replay.resume.observed_resume import ResumableRecord, resumable_record

_NOTHING: Final = (
    "the recording does not contain any requests: if the command uses a "
    "model, its requests bypass Refold, now as then"
)

_TYPED: Final = (
    "the command was recorded at a terminal, and its keyboard input is not "
    "in the log, so its requests only get the recorded answers if you type "
    "the same again"
)

_INTERRUPTED: Final = "a signal interrupted the command, which may be the cause of differences"

_FIRST_AND_LAST: Final = 2
_KEPT_MAX: Final = 50_000_000
"""Bytes of git's objects that are kept beside a log in its own folder: it may be committed there,
and found in a clone that lacks the recorded commit."""
_SCREEN: Final = (
    "the command's terminal output was not compared, because it depends on "
    "timing; to compare it, use --volatile output:exact"
)

_PORT_MAX: Final = 65535
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - who listens there said so
_OF_DOCKER: Final = "host.docker.internal"
"""How containers name a host that listens anywhere."""

_NO_KEYS: Final[Mapping[str, str]] = MappingProxyType({})

Write = Callable[[bytes], None]
Review = Callable[[ObservedRecord, str], None]
"""Gets the record that answers a command, and the head of its log; raises to run nothing."""


@attrs.frozen
class RecordedCommand:
    """A command that was recorded."""

    log: Path
    head: str
    entries: int
    ended: CommandEnd
    profile: str = ""
    """The name of the command; empty for nothing."""
    refused: tuple[str, ...] = ()
    """Why requests were not passed on, or got no answer."""
    past: tuple[str, ...] = ()
    """Notes of addresses in answers that lead past Refold."""
    unserved: tuple[str, ...] = ()
    """Notes of WebSockets and unreadable requests (`server.served`)."""
    folder: str = ""
    """The recorded part of the folder, on one line; empty if none was to be."""
    is_empty: bool = False
    """Whether nothing is recorded but how it began and ended."""
    capped: tuple[str, ...] = ()
    """What caps refused, and what they did not count, a line each."""


@attrs.frozen(kw_only=True)
class _ContinuedCommand:
    """A recorded command that ran again, in a log of its own, and asked live, too."""

    log: Path
    ended: CommandEnd
    served: int
    """Requests that were answered from the record."""
    live: int
    notes: tuple[str, ...] = ()
    """Its place, in words."""


@attrs.frozen(kw_only=True)
class ForkedCommand(_ContinuedCommand):
    """A command that left its record at an entry, and continued live."""

    origin: Path
    at: int
    """The last entry of the origin that was kept."""
    otherwise: tuple[Divergence, ...]
    """The differences before `at`: the command has changed."""


@attrs.frozen(kw_only=True)
class ResumedCommand(_ContinuedCommand):
    """A command that broke off, and ran again."""

    unasked: int
    """Recorded answers that were not asked for again."""
    different: tuple[Divergence, ...]
    """Questions that were not asked, for they are neither on record nor follow from a new answer:
    the command has changed."""
    capped: tuple[str, ...] = ()
    """What caps refused, and what they did not count, a line each."""
    patch: FolderPatch | None = None
    """The copy's differences from the user's folder; `None` without a copy."""
    kept: str = ""
    """Why the patch may not be applied; empty if it may."""
    is_applied: bool = False


@attrs.frozen
class Listening:
    """The address of a proxy that is held open for other machines, until a signal comes.

    Raises:
        UsageError: the address has another form.
    """

    ready: Callable[[Mapping[str, str]], None]
    """Gets the variables that lead clients there."""
    address: str = attrs.field(default="")
    """HOST, HOST:PORT or :PORT; by default a free port of the loopback."""

    @address.validator
    def _check_address(self, _field: object, address: str) -> None:
        port = address.partition(":")[2]
        if not re.fullmatch(r"[0-9]{0,5}", port) or int(port or 0) > _PORT_MAX:
            expected = f"HOST, HOST:PORT or :PORT, with a port up to {_PORT_MAX}"
            raise UsageError(f"--listen {address}: expected {expected}")


def record_command(
    command: Sequence[str],
    *,
    listening: Listening | None = None,
    log: str | os.PathLike[str] | None = None,
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
    profile: str = "",
    output: str = "",
    workspace: str = "",
    keeps_all: bool = False,
    caps: Caps | None = None,
    labels: Mapping[str, str] | None = None,
    write: Write | None = None,
) -> RecordedCommand:
    """Run a command, and record its requests to models with their answers.

    With `listening` there is no command, and all requests are recorded. `profile` is the value of
    `--profile`: a name, `none`, FILE.py:NAME; by default, the command's. `output` is the comparison
    of its output in a replay: `exact`, `lines`, `ignore`. `workspace` is the folder that is
    recorded, `none` for none; by default, the git work tree that the command is started in, or the
    current folder. With `keeps_all`, git's files are kept, too. `caps` limits its spending
    (§16.19). `labels` are those of the run (§14.10).

    Raises:
        LogExists: a log is never overwritten.
        UsageError: it cannot be started, nobody can listen there, or an option has no such form.
    """
    known = profile_of(command, profile)
    terminal = terminal_here() if write is None and listening is None else None
    routes = routes_of(upstreams, usual=known.upstreams)
    timeout = caps.timeout if caps is not None else None
    session = _Session(command, known, routes, write=write, terminal=terminal, timeout=timeout)
    how = output or known.printing(command)
    if terminal and not how and known.output == EXACT:
        how = bookends.SCREEN
    told = bookends.first_rules(rules or VolatileRules(), known, how)
    path = Path(log) if log is not None else fresh_path(bookends.program_of(command))
    top, why = folder_of(Path.cwd(), workspace) if listening is None else (None, "")
    with ExitStack() as stack:
        stack.enter_context(session.signals)
        journal = stack.enter_context(session.log(path, told, labels=labels))
        folder = None
        if top is not None:
            folder = bookends.watched_folder(journal, session.secrets, top)
            stack.enter_context(folder).begin()
        desk = RecordingDesk(journal, session.secrets, routes, known, folder=folder, caps=caps)
        if listening is not None:
            session.held_open(desk, listening, journal)
            ended = CommandEnd(exit_code=0, printed=b"", printed_bytes=0)
        else:
            mcp = McpRecording(journal, session.secrets)
            ended = session.run(desk, mcp, journal, at_end=desk.end)
        if folder is not None and top is not None:
            _keep(folder, session.secrets, path, top, keeps_all=keeps_all)
        beside = folder.entries if folder is not None else 0
        return RecordedCommand(
            path, journal.head, journal.entries, ended, known.name, tuple(desk.refused),
            tuple(desk.past), tuple(session.unserved.values()),
            why if folder is None else folder.summary,
            is_empty=journal.entries - beside <= _FIRST_AND_LAST,
            capped=desk.capped,
        )  # fmt: skip


def _keep(
    folder: WatchedFolder, secrets: Secrets, log: Path, top: Path, *, keeps_all: bool
) -> None:
    """Keep git's files beside a log that has to hold all, or that is in the folder itself."""
    if keeps_all or Path(os.path.realpath(log)).is_relative_to(top):
        most = None if keeps_all else _KEPT_MAX
        folder.keep(lambda content: secrets.scrubbed_bytes(content) == content, most)


def replay_command(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    on_miss: OnMiss = "fail",
    pace: Pace = "full",
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
    into: str | os.PathLike[str] | None = None,
    profile: str = "",
    output: str = "",
    copying: Copying | None = None,
    write: Write | None = None,
    review: Review = lambda _record, _head: None,
    edits: Mapping[str, Json] | None = None,
) -> ObservedReport:
    """Run a command again, answered from the record; report its differences.

    `edits` replace answers, as for `fork_command`.

    `on_miss` decides about a request without an answer: it is refused (`fail`) or forwarded
    (`live`), or a changed one gets the answer to the same turn (`recorded`; not with `into`, nor
    with the user's own files in the place of a recorded folder).

    The command carries out the tool calls of the record itself: in a copy of the recorded folder,
    unless the log holds none or `copying` differs. `review` gets the record before. With `into`,
    what happens is recorded in a new log.

    Raises:
        FolderIncomplete: the folder cannot be restored.
        LogObserved: the log is a program's, and no command's.
        UsageError: the command cannot be started, or an option has no such form.
    """
    said = profile_of(command, profile) if profile else None
    edited = kept_record(log, -1, edits, rules).record if edits else None
    record = edited or read_record(log, rules, profile=said)
    is_painted = (
        not output
        and record.output == bookends.SCREEN
        and bookends.output_in(record) == bookends.IGNORED
    )
    record.output = output or bookends.output_in(record)
    copying = copying or Copying()
    if on_miss == "recorded" and (into is not None or copying.leaves_copy(record.folder)):
        option = "--into" if into is not None else "--copy none"
        raise UsageError(f"--on-miss recorded cannot be used with {option}")
    review(record, record.head)
    session = _Session.of_record(
        record, command, said, upstreams, is_live=on_miss == "live", write=write,
        terminal=bookends.terminal_in(record), follows=False,
    )  # fmt: skip
    known, keys = session.profile, session.keys
    only_own, has_input = works_on_folder(command, known), may_have_input()
    unkept: list[str] = []
    with ExitStack() as stack:
        session.enter(record, copying, stack, only_own=only_own, unkept=unkept)
        journal = None
        if into is not None:
            journal = stack.enter_context(session.log(Path(into), bookends.again_rules(record)))
        desk = Replaying(
            record, session.secrets, on_miss=on_miss, pace=pace, log=journal,
            **session.served(record),
        )  # fmt: skip
        mcp = serving_of(record.path, record.rules, journal, session.secrets, desk.bindings)
        variables = {**bookends.pinned(record), **keys}
        ended = session.run(desk, mcp, journal, variables, folds_errors=True)
        desk.scan_folder()
        printed = bookends.output_of(ended, session.secrets)
        left = EndedFolder()
        if session.place.comparison is not None:
            left = session.place.comparison.end(record.folder, desk.bindings, record.volatile_files)
        files = left.recorded, left.now
        report = report_of(record, desk.matcher, live=desk.live, output=printed, files=files)
        report = with_mcp(report, mcp)
        report = without_network(report) if session.place.is_offline else report
        notes = [] if report.requests else [_NOTHING]
        notes += without_effect(record, rules.paths if rules is not None else ())
        notes += [_TYPED] if bookends.typed_at_in(record) else []
        notes += [_SCREEN] if is_painted else []
        notes += [_INTERRUPTED] if ended.interrupted else []
        notes += [*desk.order.notes(), *notes_on(mcp, on_miss, pace)]
        notes += session.unserved.values()
        notes += [*session.place.notes, *desk.refused, *filter(None, [left.note])]
        report = attrs.evolve(
            report, notes=(*report.notes, *notes), profile=known.name,
            files=session.place.line, unused=session.place.edits.unused,
            uncompared=session.place.edits.problem, unfit=session.place.unfit,
        )  # fmt: skip
    report = attrs.evolve(report, unkept="; ".join(unkept))
    used = session.place.edits.used
    if report.identical or not used or edits or _runs_an_edit(command, record, used):
        return report
    on_recorded = attrs.evolve(copying, files="recorded", keep=None)
    again = None
    if on_miss != "live" and not (session.signals.came or ended.timed_out):
        with unheard():
            again = replay_command(
                log, command, on_miss=on_miss, pace=pace, upstreams=upstreams, rules=rules,
                profile=profile, output=output, copying=on_recorded, write=lambda _content: None,
            )  # fmt: skip
    return attrs.evolve(report, notes=(_why(again, has_input=has_input), *report.notes))


def _runs_an_edit(command: Sequence[str], record: ObservedRecord, used: Iterable[str]) -> bool:
    """Return whether another command than the recorded one names an edit: it needs this file."""
    names = {Path(path).name for path in used}
    is_named = any(Path(word).name in names for word in command)
    return is_named and list(command) != bookends.command_in(record)


def _why(again: ObservedReport | None, *, has_input: bool) -> str:
    """Return whether edits caused a difference; `again` is a replay on the recorded files.

    It got no input.
    """
    if again is not None and again.identical and not again.is_nothing:
        return "your edits are the cause: on the recorded files, the replay is identical"
    if again is None or has_input:
        return "to see whether your edits are the cause, replay with --copy recorded"
    return "on the recorded files, the replay differs as well: your edits may not be the only cause"


def failed_answers(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    fault: str = "http_500",
    only: str = "",
    review: Callable[[ObservedRecord, str, int], None],
    **options: Any,
) -> Iterator[FailedAnswer]:
    """Run a command once for each recorded answer, which fails; yield the command's reaction.

    `only` is a text in the request's place. `review` gets the record, its head and how many runs
    follow; raises to run none. `options` are those of `replay_command`.

    Raises:
        UsageError: `fault` is invalid, or as for `replay_command`.
    """
    record = read_record(log, options.get("rules"))
    turns = [
        turn
        for turn in record.turns
        if turn.answer is not None and turn.answer.status == "ok" and can_spell(turn.asked)
        if only in place_of(record, turn)
    ]
    if only and not turns:
        places = few(sorted({place_of(record, turn) for turn in record.turns}), 3)
        raise UsageError(f"--only {only}: no answered request is there; requests are at {places}")
    value = {"error": {"code": fault}}
    for turn in turns[:1]:
        kept_record(log, -1, {turn.call: value})
    review(record, record.head, len(turns))
    for turn in turns:
        report = replay_command(log, command, edits={turn.call: value}, **options)
        yield failed_answer(record, turn, report)


def fork_command(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    into: str | os.PathLike[str] | None = None,
    at: int | None = None,
    edits: Mapping[str, Json] | None = None,
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
    profile: str = "",
    model: str = "",
    copying: Copying | None = None,
    write: Write | None = None,
    review: Review = lambda _record, _head: None,
) -> ForkedCommand:
    """Run a command again: answered from the record up to an entry, with edits, and then live.

    Args:
        log: The record; it is only read.
        command: The command and its arguments.
        into: The new log; by default a new file in runs/.
        at: The last entry that is kept, negative from the end; by default that of the first edited
            answer.
        edits: New answers by call key: a text or message for a request, arguments for a tool call.
        upstreams: As for `record_command`.
        rules: Volatile rules, in addition to those of the record.
        profile: As for `record_command`; by default, that of the record.
        model: The model from there on, by the same API; by default the command's.
        copying: The place, as for `replay_command`.
        write: As for `record_command`.
        review: As for `replay_command`.

    Raises:
        LogObserved: the log is a program's, not a command's.
        LogExists: a log is never overwritten.
        EntryMissing: the log has no such entry.
        ForkRefused: no place is given, or an edit does not name an answer.
        UsageError: an edit has a value of the wrong kind, or the command cannot be started.
    """
    kept = kept_record(log, at, edits or {}, rules)
    record = kept.record
    review(record, kept.head)
    said = profile_of(command, profile) if profile else None
    session = _Session.of_record(record, command, said, upstreams, write=write)
    path = Path(into) if into is not None else fresh_path(f"{bookends.program_of(command)}-fork")
    with ExitStack() as left:
        session.enter(record, copying, left, head=kept.head)
        told = bookends.again_rules(record, model)
        journal = left.enter_context(session.log(path, told, kept.origin, record.started.labels))
        folder = session.watched(record, journal, left)
        desk = Replaying(
            record, session.secrets, on_miss="live", log=journal, model=model, reads_again=False,
            folder=folder, **session.served(record),
        )  # fmt: skip
        mcp = McpRecording(journal, session.secrets)
        ended = session.run(desk, mcp, journal, session.keys, desk.end)
        session.keep(record, folder, path)
        return ForkedCommand(
            origin=Path(log),
            at=kept.at,
            otherwise=asked_otherwise(record, desk.matcher),
            **session.continued(path, ended, desk),
        )


def resume_command(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    retry: str = "",
    on_miss: OnMiss = "fail",
    into: str | os.PathLike[str] | None = None,
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
    profile: str = "",
    output: str = "",
    copying: Copying | None = None,
    keeps_all: bool = False,
    applies: bool = False,
    caps: Caps | None = None,
    write: Write | None = None,
    review: Callable[[ResumableRecord, str], None] = lambda _resumed, _head: None,
) -> ResumedCommand:
    """Run an interrupted command again: successful answers are served, the rest is asked.

    `retry` names the only agent whose requests are asked again. `review` gets the split record
    before anything runs. With `applies`, the copy's final content goes into the user's folder, if
    that is as the record left it and the command ended well. Other arguments are as for
    `record_command` and `replay_command`.

    Raises:
        FolderIncomplete: the folder cannot be restored.
        LogExists: a log is never overwritten.
        LogObserved: the log is a program's, not a command's.
        NothingToResume: the command ended well, and all its requests were answered.
        UsageError: the command cannot be started, no one agent has the name `retry`, or an option
            has no such form.
    """
    said = profile_of(command, profile) if profile else None
    resumed = resumable_record(log, rules, profile=said, retry=retry)
    record = resumed.served
    record.output = output or record.output
    review(resumed, record.head)
    timeout = caps.timeout if caps is not None else None
    session = _Session.of_record(record, command, said, upstreams, write=write, timeout=timeout)
    path = Path(into) if into is not None else fresh_path(f"{bookends.program_of(command)}-resume")
    with ExitStack() as stack:
        session.enter(record, copying, stack)
        told = bookends.resumed_rules(record, session.place.folders)
        labels = record.started.labels
        journal = stack.enter_context(session.log(path, told, resumed.origin, labels))
        folder = session.watched(record, journal, stack)
        desk = Resuming(
            resumed, session.secrets, on_miss=on_miss, log=journal, folder=folder, caps=caps,
            **session.served(record),
        )  # fmt: skip
        mcp = McpRecording(journal, session.secrets)
        ended = session.run(desk, mcp, journal, bookends.pinned(record), desk.end)
        session.keep(record, folder, path, keeps_all=keeps_all)
        patch = None
        if session.place.top is not None and folder is not None and not folder.lost:
            left = record.left or record.folder.left
            patch = patch_of(path, folder_at(path), left, session.place.edits.today)
        is_fine = not (ended.code or desk.different)
        kept = ""
        if patch is not None and patch.files:
            kept = patch.why_not(is_trusted=is_trusted(Path(log), record.head))
        is_applied = applies and is_fine and patch is not None and not kept
        if patch is not None and is_applied:
            patch.apply()
        return ResumedCommand(
            patch=patch,
            kept=kept,
            is_applied=is_applied,
            unasked=len(desk.matcher.left()),
            different=tuple(desk.different),
            capped=desk.capped,
            **session.continued(path, ended, desk),
        )


@attrs.frozen(kw_only=True)
class ExaminedCommand:
    """The requests of a command to an upstream that answers one short text."""

    ended: CommandEnd
    profile: str
    variables: tuple[str, ...]
    """Those that led it here."""
    seen: dict[tuple[str, str, str, str], int]
    """Route, method, path and format of each request, and how often."""
    models: int
    """Requests to a model that were read."""
    unserved: tuple[str, ...]
    """As in `RecordedCommand`."""
    advice: tuple[str, ...]
    """The likely reason why nothing could be parsed."""


def examine_command(
    command: Sequence[str], *, upstreams: Iterable[str], profile: str
) -> ExaminedCommand:
    """Run a command with all answers made here; return its requests.

    Raises:
        UsageError: it cannot be started, or an option has no such form.
    """
    known = profile_of(command, profile)
    session = _Session(command, known, routes_of(upstreams, usual=known.upstreams))
    wanted = (route.key for route in known_routes() if route.key)
    keys = {
        name: f"sk-{bookends.PLACEHOLDER}-{name}" for name in wanted if not os.environ.get(name)
    }
    desk = Examining()
    with session.signals:
        ended = session.through(desk, keys, keeps_errors=True)
    told = tuple(session.unserved.values())
    return ExaminedCommand(
        ended=ended,
        profile=known.name,
        variables=tuple(variable for route in session.routes for variable in route.variables),
        seen=dict(desk.seen),
        models=desk.models(),
        unserved=told,
        advice=tuple(why_nothing_came(upstreams, told, failure=ended.failure())),
    )


@attrs.define
class _Session:
    """One command behind the proxy, and what all that watch it need."""

    command: Sequence[str]
    profile: Profile
    """How it is led."""
    routes: tuple[Route, ...]
    redaction: Redaction | None = None
    write: Write | None = None
    terminal: Size | None = None
    follows: bool = True
    """Whether the terminal of the command has the size of ours, now."""
    timeout: float | None = None
    """Seconds after which the command is asked to end."""
    keys: Mapping[str, str] = _NO_KEYS
    """Those that take the place of real ones."""
    listed: Sequence[str] = ()
    """Names of the variables that the record lists: a placeholder for another is not listed."""
    secrets: Secrets = attrs.field(init=False)
    signals: Signals = attrs.field(init=False, factory=Signals)
    unserved: dict[str, str] = attrs.field(init=False, factory=dict)
    """Notes of what reached no desk, by path."""
    place: Placement = attrs.field(init=False, factory=Placement)
    """Its place."""

    @secrets.default
    def _learnt(self) -> Secrets:
        secrets = Secrets(self.redaction)
        secrets.learn_environment()
        secrets.learn_environment(self.keys, self.listed)
        secrets.learn_command(self.command)
        for route in self.routes:
            secrets.learn_url(route.upstream, route.name)
        return secrets

    @classmethod
    def of_record(
        cls,
        record: ObservedRecord,
        command: Sequence[str],
        profile: Profile | None,
        upstreams: Iterable[str],
        *,
        write: Write | None,
        is_live: bool = True,
        **options: Any,
    ) -> Self:
        """Return the session of a recorded command; without a `profile`, that of the record.

        None of its routes leads to a provider in place of the command's own server.
        """
        known = profile or shipped_as(record.profile)
        routes = routes_of(upstreams, usual=known.upstreams, moved=record.moved)
        routes = with_recorded(routes, bookends.others_in(record), is_live=is_live)
        keys = bookends.placeholders(record.started.rules, routes, is_live=is_live)
        terminal = terminal_here() if write is None else None
        listed = record.started.rules.get("redaction", {}).get("environment", ())
        given = {"write": write, "terminal": terminal, "keys": keys, "listed": listed, **options}
        return cls(command, known, routes, bookends.redaction_in(record), **given)

    def enter(
        self,
        record: ObservedRecord,
        copying: Copying | None,
        stack: ExitStack,
        *,
        head: str = "",
        only_own: bool = True,
        unkept: list[str] | None = None,
    ) -> None:
        """Take signals, and the place where the command of a record runs again; see `placed`.

        `head` is that of the whole log, if the record is a part of it.
        """
        stack.enter_context(self.signals)
        place = placed(
            record.path, record.folder, self.command, copying or Copying(),
            head=head or record.head, only_own=only_own, unkept=unkept,
        )  # fmt: skip
        self.place = stack.enter_context(place)

    def served(self, record: ObservedRecord) -> dict[str, Any]:
        """Return what a desk that serves a record knows of the command and of here."""
        return {
            "routes": self.routes, "profile": self.profile, "work": self.signals.work,
            "here": bookends.here(**self.place.folders), "made": self._commits(record),
        }  # fmt: skip

    def watched(
        self, record: ObservedRecord, journal: ObservedLog, stack: ExitStack
    ) -> WatchedFolder | None:
        """Record the folder in which a record continues: its copy, or the current one.

        Of a copy, the log also has what the record left in the user's folder.
        """
        if record.folder.started is None:
            return None
        copy = self.place.top
        top = copy if copy is not None else folder_of(Path.cwd(), "")[0]
        if top is None:
            return None
        copied = record.folder.started if copy is not None else None
        folder = bookends.watched_folder(journal, self.secrets, top, copied, self.place.seen)
        stack.enter_context(folder).begin()
        if copied is not None:
            journal.append(Extension(LEFT, {"files": record.left or record.folder.left}))
        return folder

    def keep(
        self,
        record: ObservedRecord,
        folder: WatchedFolder | None,
        log: Path,
        *,
        keeps_all: bool = False,
    ) -> None:
        """Keep git's files beside a log that continues a record, as that has them."""
        is_copy = self.place.top is not None and record.folder.started is not None
        packs = packs_of(record.path) if is_copy else []
        for pack in packs:  # of the commits with which the copy began
            add_pack(files_of(log), pack)
        if folder is not None and not packs:
            _keep(folder, self.secrets, log, Path(folder.seen_at), keeps_all=keeps_all)

    def continued(self, log: Path, ended: CommandEnd, desk: Replaying) -> dict[str, Any]:
        """Return the members of a `_ContinuedCommand`."""
        notes = (*filter(None, [self.place.line]), *self.place.notes, *desk.refused)
        known = {"log": log, "ended": ended, "notes": notes}
        return {**known, "served": desk.served, "live": desk.live}

    def log(
        self,
        path: Path,
        rules: dict[str, Json],
        origin: dict[str, Any] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> ObservedLog:
        """Begin the log of the command."""
        given = bookends.input_of(self.command, self.terminal, self.routes)
        moved = moved_of(self.routes)
        return bookends.new_log(path, given, self.secrets, rules, origin, labels, moved=moved)

    def run(
        self,
        desk: Desk,
        mcp: McpRecording | McpServing,
        journal: ObservedLog | None,
        keys: Mapping[str, str] = _NO_KEYS,
        at_end: Callable[[bool], None] = lambda _timed_out: None,
        *,
        folds_errors: bool = False,
    ) -> CommandEnd:
        """Run the command, and write its end after `at_end`; if it cannot start, remove the log."""
        hub = Hub(desk, mcp.connect)
        try:
            ended = self.through(hub, keys, hub.variables, folds_errors=folds_errors)
        except UsageError:
            if journal is not None:
                journal.discard()
            raise
        at_end(ended.timed_out)
        if journal is not None:
            bookends.seal(journal, ended, self.secrets)
            remember(journal.head)
        return ended

    def through(
        self,
        desk: Desk,
        keys: Mapping[str, str],
        variables: Callable[[str], Mapping[str, str]] = lambda _base: _NO_KEYS,
        *,
        keeps_errors: bool = False,
        folds_errors: bool = False,
    ) -> CommandEnd:
        """Run the command to its end, with its requests led to a desk.

        `variables` gives its other variables, for the base URL of the proxy.
        """
        self.secrets.learn_key_files(self.place.edits.today or Path.cwd())
        names = [ROUTE, *(route.name for route in self.routes)]
        known = {name: os.environ.get(name, v) for name, v in self.profile.variables.items()}
        for name, more in self.profile.appended.items():
            known[name] = f"{os.environ.get(name, '')} {more}".strip()
        at = self.place.listening
        with served(desk, names, unserved=self.unserved, given=at) as base:
            self.secrets.hide_address(base)
            return run_command(
                redirected(self.command, self.profile, base),
                {**known, **keys, **environment_of(self.routes, base), **variables(base)},
                self.signals,
                write=self.write,
                terminal=self.terminal,
                follows=self.follows,
                keeps_errors=keeps_errors,
                folds_errors=folds_errors,
                start=self.place.start,
                timeout=self.timeout,
            )

    def _commits(self, record: ObservedRecord) -> LookAtMade:
        """Return what finds the commits that are new from now on, if the record has any."""
        top = self.place.top or folder_of(Path.cwd(), "")[0]
        if top is None or not record.folder.made:
            return lambda _: ()
        look = functools.partial(NewObjects(top, self.place.seen).find_new, record.folder.places)
        look()
        return look

    def held_open(self, desk: Desk, listening: Listening, journal: ObservedLog) -> None:
        """Serve what comes by, until a signal does; where nobody can listen, leave no log."""
        host, _, port = listening.address.partition(":")
        names = [route.name for route in self.routes]
        at: dict[str, Any] = {"host": host or HOST, "port": int(port or 0)}
        try:
            with served(desk, names, unserved=self.unserved, **at) as base:
                self.secrets.hide_address(base)
                there = base.replace(f"//{_ANYWHERE}:", f"//{_OF_DOCKER}:")
                listening.ready(base_urls(self.routes, there))
                self.signals.wait()
        except OSError as error:
            journal.discard()
            advice = "use another HOST:PORT, or omit the port for a free one"
            raise UsageError(f"--listen {listening.address}: {error.strerror}: {advice}") from None
        journal.seal("completed", "done")
        remember(journal.head)
