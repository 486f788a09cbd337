"""A command recorded, a command replayed: from its start to the report.

What `refold record -- COMMAND` and `refold replay LOG -- COMMAND` do, for Python too.
Rules: CONTRACT.md §16.
"""

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import UsageError
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.secrets.redaction import Redaction
from refold.engine.wire.apis import known_routes
from refold.engine.wire.parts.format import Route
from refold.proxy.bookends import (
    PLACEHOLDER,
    again_rules,
    first_rules,
    folders_here,
    fresh_path,
    input_of,
    new_log,
    others_in,
    output_of,
    placeholders,
    program_of,
    redaction_in,
    remove,
    seal,
    terminal_in,
    typed_at_in,
)
from refold.proxy.command import CommandEnd, Size, run_command, terminal_here
from refold.proxy.desks.examining import Examining
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import RecordingDesk
from refold.proxy.desks.replaying import Replaying
from refold.proxy.http.routes import (
    environment_of,
    led_to,
    routes_of,
    why_nothing_came,
    with_recorded,
)
from refold.proxy.http.server import HOST, served
from refold.proxy.http.turns import OnMiss, Pace
from refold.proxy.mcp.hub import ROUTE, Hub
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.sessions import notes_on, serving_of, with_mcp
from refold.proxy.profiles import led, profile_of, shipped
from refold.proxy.signals import Signals
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.explaining import asked_otherwise
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import ObservedReport, report_of
from refold.replay.resume.observed_fork import kept_record

_NOTHING: Final = (
    "the record has no request: if the command asks a model, it does so past Refold, now too"
)

_TYPED: Final = (
    "the command was recorded at a terminal: what was typed, and when, is not in the record; its "
    "requests are answered as recorded only where the same is typed again"
)

_PORT_MAX: Final = 65535
_ANYWHERE: Final = "0.0.0.0"  # noqa: S104 - who listens there said so
_OF_DOCKER: Final = "host.docker.internal"
"""How containers name a host that listens anywhere."""

Write = Callable[[bytes], None]


@attrs.frozen
class RecordedCommand:
    """A command that was recorded."""

    log: Path
    head: str
    entries: int
    ended: CommandEnd
    profile: str = ""
    """What the command is known as; empty for nothing."""
    refused: tuple[str, ...] = ()
    """Why requests were not passed on."""
    websockets: tuple[str, ...] = ()
    """Paths at which a WebSocket was refused."""


@attrs.frozen(kw_only=True)
class ForkedCommand:
    """A command that left its record at an entry, and went on live."""

    origin: Path
    at: int
    """The last entry of the origin that was kept."""
    log: Path
    ended: CommandEnd
    served: int
    """Requests that were answered from the record."""
    live: int
    otherwise: tuple[Divergence, ...]
    """What was recorded up to `at`, and was asked otherwise: the command has changed."""


def record_command(
    command: Sequence[str],
    *,
    log: str | os.PathLike[str] | None = None,
    upstreams: Iterable[str] = (),
    redaction: Redaction | None = None,
    rules: VolatileRules | None = None,
    profile: str = "",
    output: str = "",
    write: Write | None = None,
) -> RecordedCommand:
    """Run a command, and record what it asks of models and is answered.

    `profile` is what `--profile` says: a name, `none`, FILE.py:NAME; by default, the command says.
    `output` is how a replay compares what it prints: `exact`, `lines`, `ignore`.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: it cannot be started, or an option has no such form.
    """
    known = profile_of(command, profile)
    routes = routes_of([*known.upstreams, *upstreams])
    secrets = _secrets(redaction, command, routes)
    terminal = terminal_here() if write is None else None
    given = input_of(command, terminal, routes)
    told = first_rules(rules or VolatileRules(), known, output or known.printing(command))
    path = Path(log) if log is not None else fresh_path(command)
    with (
        Signals() as signals,
        new_log(path, given, secrets, told) as journal,
    ):
        mcp = McpRecording(journal, secrets)
        desk = RecordingDesk(journal, secrets, routes, known)
        run = _Run(command, routes, secrets, signals, write, terminal, known)
        ended = run.through(Hub(desk, mcp.connect), journal)
        seal(journal, ended, secrets)
        return RecordedCommand(
            path, journal.head, journal.entries, ended, known.name, tuple(desk.refused),
            tuple(run.upgrades),
        )  # fmt: skip


def record_listening(
    ready: Callable[[Mapping[str, str]], None],
    *,
    address: str = "",
    log: str | os.PathLike[str] | None = None,
    upstreams: Iterable[str] = (),
    redaction: Redaction | None = None,
    rules: VolatileRules | None = None,
    profile: str = "",
    output: str = "",
) -> RecordedCommand:
    """Hold a proxy open until a signal comes, and record what comes by.

    `address` is HOST, HOST:PORT or :PORT, by default a free port of the loopback.  `ready` is told
    the variables that lead clients there.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: nobody can listen there, or an option has no such form.
    """
    known = profile_of((), profile)
    host, _, port = address.partition(":")
    if not re.fullmatch(r"[0-9]{0,5}", port) or int(port or 0) > _PORT_MAX:
        expected = f"HOST, HOST:PORT or :PORT, with a port up to {_PORT_MAX}"
        raise UsageError(f"--listen {address}: expected {expected}")
    routes = routes_of([*known.upstreams, *upstreams])
    secrets = _secrets(redaction, (), routes)
    path = Path(log) if log is not None else fresh_path(())
    told = first_rules(rules or VolatileRules(), known, output)
    with (
        Signals() as signals,
        new_log(path, input_of((), None, routes), secrets, told) as journal,
    ):
        desk = RecordingDesk(journal, secrets, routes, known)
        names = [route.name for route in routes]
        upgrades: list[str] = []
        at: dict[str, Any] = {"host": host or HOST, "port": int(port or 0)}
        try:
            with served(desk, names, upgrades=upgrades, **at) as base:
                secrets.hide_address(base)
                ready(led_to(routes, base.replace(f"//{_ANYWHERE}:", f"//{_OF_DOCKER}:")))
                signals.wait()
        except OSError as error:
            remove(journal)
            raise UsageError(f"--listen {address}: {error}") from None
        journal.seal("completed", "done")
        nothing = CommandEnd(exit_code=0, printed=b"", printed_bytes=0)
        return RecordedCommand(
            path, journal.head, journal.entries, nothing, known.name, tuple(desk.refused),
            tuple(upgrades),
        )  # fmt: skip


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
    write: Write | None = None,
) -> ObservedReport:
    """Run a command again, answered from the record; say what it asks otherwise.

    With `into`, what happens is recorded in a new log.

    Raises:
        LogObserved: the log is a program's, and no command's.
        UsageError: the command cannot be started, or an option has no such form.
    """
    record, known = _known(log, rules, command, profile)
    record.output = output or record.output
    others = others_in(record)
    routes = with_recorded(routes_of(upstreams), others, is_live=on_miss == "live")
    secrets = _secrets(redaction_in(record), command, routes)
    keys = placeholders(record)
    secrets.learn_environment(keys)
    with (
        Signals() as signals,
        contextlib.ExitStack() as stack,
    ):
        journal: ObservedLog | None = None
        if into is not None:
            given = input_of(command, terminal_in(record), routes)
            made = new_log(Path(into), given, secrets, again_rules(record))
            journal = stack.enter_context(made)
        desk = Replaying(
            record, secrets, routes=routes, on_miss=on_miss, pace=pace, log=journal,
            profile=known, folders=folders_here(), work=signals.work,
        )  # fmt: skip
        mcp = serving_of(record.path, record.rules, journal, secrets)
        run = _Run(
            command, routes, secrets, signals, write, terminal_in(record), known, follows=False
        )
        ended = run.through(Hub(desk, mcp.connect), journal, keys)
        if journal is not None:
            seal(journal, ended, secrets)
        report = with_mcp(_report(record, desk, ended, secrets), mcp)
        notes = [] if report.requests else [_NOTHING]
        notes += [_TYPED] if typed_at_in(record) else []
        notes += [*desk.folders.notes(), *desk.order.notes(), *notes_on(mcp, on_miss, pace)]
        return attrs.evolve(report, notes=(*report.notes, *notes), profile=known.name)


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
    write: Write | None = None,
) -> ForkedCommand:
    """Run a command again: answered from the record up to an entry, with edits, and then live.

    Args:
        log: The record; it is only read.
        command: The command and its arguments.
        into: The new log; by default a new file in runs/.
        at: The last entry that is kept, negative from the end; by default that of the first
            edited answer.
        edits: What answers are to be, by call key: of a request its text or message, of a tool
            call its arguments.
        upstreams: As for `record_command`.
        rules: What is not compared, besides what the record lists.
        profile: As for `record_command`; by default, that of the record.
        model: What is asked of from there on, by the same API; by default the command says.
        write: As for `record_command`.

    Raises:
        LogObserved: the log is a program's, and no command's.
        LogExists: a log is never overwritten.
        EntryMissing: the log has no such entry.
        ForkRefused: nothing says where, or an edit names no answer.
        UsageError: an edit has a value of another kind, or the command cannot be started.
    """
    kept = kept_record(log, at, edits or {}, rules)
    record = kept.record
    known = _asking(record, command, profile)
    routes = with_recorded(routes_of(upstreams), others_in(record), is_live=True)
    secrets = _secrets(redaction_in(record), command, routes)
    path = Path(into) if into is not None else fresh_path([f"{program_of(command)}-fork"])
    terminal = terminal_here() if write is None else None
    given = input_of(command, terminal, routes)
    with (
        Signals() as signals,
        new_log(path, given, secrets, again_rules(record, model), kept.origin) as journal,
    ):
        desk = Replaying(
            record, secrets, routes=routes, on_miss="live", log=journal,
            profile=known, folders=folders_here(), model=model, reads_again=False,
            work=signals.work,
        )  # fmt: skip
        mcp = McpRecording(journal, secrets)
        run = _Run(command, routes, secrets, signals, write, terminal, known)
        ended = run.through(Hub(desk, mcp.connect), journal)
        seal(journal, ended, secrets)
        return ForkedCommand(
            origin=Path(log),
            at=kept.at,
            log=path,
            ended=ended,
            served=desk.served,
            live=desk.live,
            otherwise=asked_otherwise(record, desk.matcher),
        )


@attrs.frozen(kw_only=True)
class ExaminedCommand:
    """What a command asked of an upstream that answers one short text."""

    ended: CommandEnd
    profile: str
    variables: tuple[str, ...]
    """Those that led it here."""
    seen: dict[tuple[str, str, str, str], int]
    """Route, method, path and format of what it asked, and how often."""
    models: int
    """Requests to a model that were read."""
    websockets: tuple[str, ...]
    advice: tuple[str, ...]
    """What is likely to be why nothing was read."""


def examine_command(
    command: Sequence[str],
    *,
    upstreams: Iterable[str],
    profile: str,
) -> ExaminedCommand:
    """Run a command with the answer to all that it asks made here; say what it asked.

    Raises:
        UsageError: it cannot be started, or an option has no such form.
    """
    known = profile_of(command, profile)
    routes = routes_of([*known.upstreams, *upstreams])
    wanted = (route.key for route in known_routes() if route.key)
    keys = {name: f"sk-{PLACEHOLDER}-{name}" for name in wanted if not os.environ.get(name)}
    desk = Examining()
    secrets = _secrets(None, command, routes)
    with Signals() as signals:
        run = _Run(command, routes, secrets, signals, None, None, known)
        ended = run.through(desk, None, keys)
    return ExaminedCommand(
        ended=ended,
        profile=known.name,
        variables=tuple(variable for route in routes for variable in route.variables),
        seen=dict(desk.seen),
        models=desk.models(),
        websockets=tuple(run.upgrades),
        advice=tuple(why_nothing_came(upstreams, run.upgrades)),
    )


@attrs.frozen
class _Run:
    """One run of a command behind the proxy."""

    command: Sequence[str]
    routes: tuple[Route, ...]
    secrets: Secrets
    signals: Signals
    write: Write | None
    terminal: Size | None
    profile: Profile = NO_PROFILE
    follows: bool = True
    """Whether the terminal of the command has the size of ours, now."""
    upgrades: list[str] = attrs.field(factory=list)
    """Paths at which a WebSocket was refused."""

    def through(
        self,
        desk: Hub | Examining,
        journal: ObservedLog | None,
        keys: Mapping[str, str] | None = None,
    ) -> CommandEnd:
        """Run it to its end; one that cannot be started leaves no log."""
        names = [ROUTE, *(route.name for route in self.routes)]
        with served(desk, names, upgrades=self.upgrades) as base:
            self.secrets.hide_address(base)
            variables = {
                **(keys or {}),
                **environment_of(self.routes, base),
                **desk.variables(base),
            }
            try:
                return run_command(
                    led(self.command, self.profile, base),
                    variables,
                    self.signals,
                    write=self.write,
                    terminal=self.terminal,
                    follows=self.follows and self.write is None,
                )
            except UsageError:
                if journal is not None:
                    remove(journal)
                raise


def _secrets(
    redaction: Redaction | None, command: Sequence[str], routes: Iterable[Route]
) -> Secrets:
    secrets = Secrets(redaction)
    secrets.learn_environment()
    secrets.learn_command(command)
    for route in routes:
        secrets.learn_url(route.upstream, route.name)
    return secrets


def _known(
    log: str | os.PathLike[str],
    rules: VolatileRules | None,
    command: Sequence[str],
    profile: str,
) -> tuple[ObservedRecord, Profile]:
    """Return a record, compared by the rules of the profile that is said, else by its own."""
    said = profile_of(command, profile) if profile else None
    record = read_record(log, rules, profile=said)
    return record, said or _asking(record, command, profile)


def _asking(record: ObservedRecord, command: Sequence[str], profile: str) -> Profile:
    """Return how the command of a record is led, and who asks; what is compared, the log says."""
    if profile:
        return profile_of(command, profile)
    named = (each for each in shipped() if each.name == record.profile.name)
    return next(named, record.profile)


def _report(
    record: ObservedRecord, desk: Replaying, ended: CommandEnd, secrets: Secrets
) -> ObservedReport:
    output = output_of(ended, secrets)
    output["stdout"] = desk.folders.as_recorded_text(str(output["stdout"]))
    return report_of(record, desk.matcher, live=desk.live, output=output)
