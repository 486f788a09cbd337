"""A command recorded, a command replayed: from its start to the report.

What `refold record -- COMMAND` and `refold replay LOG -- COMMAND` do, for Python too.
Rules: CONTRACT.md §16.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.canonical import Json
from refold.engine.errors import UsageError
from refold.engine.log.names import blobs_of, default_path
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.volatile import VolatileRules
from refold.engine.outcome import Fault
from refold.engine.redaction import Redaction
from refold.proxy.command import KEPT_BYTES, Ended, Size, run_command, terminal_here
from refold.proxy.keys import Secrets
from refold.proxy.mcp.hub import ROUTE, Hub
from refold.proxy.mcp.recording import McpRecording
from refold.proxy.mcp.sessions import serving_of, with_mcp
from refold.proxy.recording import Recording
from refold.proxy.replaying import OnMiss, Pace, Replaying
from refold.proxy.routes import Route, environment_of, others_of, routes_of, with_recorded
from refold.proxy.server import served
from refold.proxy.signals import Signals
from refold.replay.divergence import Divergence
from refold.replay.observed.explaining import asked_otherwise
from refold.replay.observed.forking import kept_record
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import ObservedReport, report_of

PLACEHOLDER: Final = "refold-replay"
"""How the keys begin that a replay gives where one is missing."""
_WANTED: Final = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
"""Keys that clients want where none is needed."""

Write = Callable[[bytes], None]


@attrs.frozen
class RecordedCommand:
    """A command that was recorded."""

    log: Path
    head: str
    entries: int
    ended: Ended


@attrs.frozen(kw_only=True)
class ForkedCommand:
    """A command that left its record at an entry, and went on live."""

    origin: Path
    at: int
    """The last entry of the origin that was kept."""
    log: Path
    ended: Ended
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
    write: Write | None = None,
) -> RecordedCommand:
    """Run a command, and record what it asks of models and is answered.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: it cannot be started, or an option has no such form.
    """
    routes = routes_of(upstreams)
    secrets = _secrets(redaction, command, routes)
    terminal = terminal_here() if write is None else None
    given = _input(command, terminal, routes)
    told = (rules or VolatileRules()).as_json()
    path = Path(log) if log is not None else _fresh(command)
    with (
        Signals() as signals,
        _log(path, given, secrets, told) as journal,
    ):
        mcp = McpRecording(journal, secrets)
        desk = Hub(Recording(journal, secrets, routes), mcp.connect)
        run = _Run(command, routes, secrets, signals, write, terminal)
        ended = run.through(desk, journal)
        _seal(journal, ended, secrets)
        return RecordedCommand(path, journal.head, journal.entries, ended)


def replay_command(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    on_miss: OnMiss = "fail",
    pace: Pace = "full",
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
    into: str | os.PathLike[str] | None = None,
    write: Write | None = None,
) -> ObservedReport:
    """Run a command again, answered from the record; say what it asks otherwise.

    With `into`, what happens is recorded in a new log.

    Raises:
        LogObserved: the log is a program's, and no command's.
        UsageError: the command cannot be started, or an option has no such form.
    """
    record = read_record(log, rules)
    others = _others_of(record)
    routes = with_recorded(routes_of(upstreams), others, is_live=on_miss == "live")
    secrets = _secrets(_redaction(record), command, routes)
    keys = _placeholders(record)
    secrets.learn_environment(keys)
    with (
        Signals() as signals,
        contextlib.ExitStack() as stack,
    ):
        journal: ObservedLog | None = None
        if into is not None:
            given = _input(command, _terminal_of(record), routes)
            made = _log(Path(into), given, secrets, record.rules.as_json())
            journal = stack.enter_context(made)
        desk = Replaying(record, secrets, routes=routes, on_miss=on_miss, pace=pace, log=journal)
        mcp = serving_of(record.path, record.rules, journal, secrets)
        run = _Run(command, routes, secrets, signals, write, _terminal_of(record))
        ended = run.through(Hub(desk, mcp.connect), journal, keys)
        if journal is not None:
            _seal(journal, ended, secrets)
        return with_mcp(_report(record, desk, ended, secrets), mcp)


def fork_command(
    log: str | os.PathLike[str],
    command: Sequence[str],
    *,
    into: str | os.PathLike[str] | None = None,
    at: int | None = None,
    edits: Mapping[str, Json] | None = None,
    upstreams: Iterable[str] = (),
    rules: VolatileRules | None = None,
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
    routes = with_recorded(routes_of(upstreams), _others_of(record), is_live=True)
    secrets = _secrets(_redaction(record), command, routes)
    path = Path(into) if into is not None else _fresh([f"{program_of(command)}-fork"])
    terminal = terminal_here() if write is None else None
    given = _input(command, terminal, routes)
    with (
        Signals() as signals,
        _log(path, given, secrets, record.rules.as_json(), kept.origin) as journal,
    ):
        desk = Replaying(record, secrets, routes=routes, on_miss="live", log=journal)
        mcp = McpRecording(journal, secrets)
        run = _Run(command, routes, secrets, signals, write, terminal)
        ended = run.through(Hub(desk, mcp.connect), journal)
        _seal(journal, ended, secrets)
        return ForkedCommand(
            origin=Path(log),
            at=kept.at,
            log=path,
            ended=ended,
            served=desk.served,
            live=desk.live,
            otherwise=asked_otherwise(record, desk.matcher),
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

    def through(
        self, desk: Hub, journal: ObservedLog | None, keys: Mapping[str, str] | None = None
    ) -> Ended:
        """Run it to its end; one that cannot be started leaves no log."""
        with served(desk, [ROUTE, *(route.name for route in self.routes)]) as base:
            self.secrets.hide_address(base)
            variables = {
                **(keys or {}),
                **environment_of(self.routes, base),
                **desk.variables(base),
            }
            try:
                return run_command(
                    self.command,
                    variables,
                    self.signals,
                    write=self.write,
                    terminal=self.terminal,
                )
            except UsageError:
                if journal is not None:
                    _removed(journal)
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


def _input(
    command: Sequence[str], terminal: Size | None, routes: Iterable[Route]
) -> dict[str, Json]:
    """Return what `run.started` has as input: {command, terminal?: [columns, rows], variables?}."""
    given: dict[str, Json] = {"command": list(command)}
    if terminal:
        given["terminal"] = list(terminal)
    if others := others_of(routes):
        given["variables"] = others
    return given


def _others_of(record: ObservedRecord) -> list[str]:
    """Return the variables that `--upstream` added when a command was recorded."""
    given = record.started.input
    return [str(name) for name in given.get("variables", ())] if isinstance(given, dict) else []


def _terminal_of(record: ObservedRecord) -> Size | None:
    """Return the size of the terminal that a command had as standard output, if it had one."""
    given = record.started.input
    size = given.get("terminal") if isinstance(given, dict) else None
    return (int(size[0]), int(size[1])) if size else None


def _placeholders(record: ObservedRecord) -> dict[str, str]:
    """Return keys for the variables that held one when it was recorded, and do not now."""
    held = record.started.rules.get("redaction", {}).get("environment", ())
    return {name: f"{PLACEHOLDER}-{name}" for name in (*_WANTED, *held) if not os.environ.get(name)}


def _log(
    path: Path,
    given: dict[str, Any],
    secrets: Secrets,
    rules: dict[str, Json],
    origin: dict[str, Any] | None = None,
) -> ObservedLog:
    program = program_of(given["command"])
    return ObservedLog(
        path, program=program, input=given, vault=secrets, rules=rules, origin=origin
    )


def _removed(journal: ObservedLog) -> None:
    """Take a log away that holds nothing but its first line."""
    journal.close()
    journal.path.unlink()
    shutil.rmtree(blobs_of(journal.path), ignore_errors=True)


def _report(
    record: ObservedRecord, desk: Replaying, ended: Ended, secrets: Secrets
) -> ObservedReport:
    output = output_of(ended, secrets)
    return report_of(record, desk.matcher, live=desk.live, output=output)


def program_of(command: Sequence[str]) -> str:
    """Return what a command is called: its script, else the command itself."""
    interpreters = ("python", "node", "bun", "deno", "ruby", "uv", "npx", "bash", "sh")
    name = Path(command[0]).name
    if name.startswith(interpreters):
        script = next((each for each in command[1:] if Path(each).suffix), None)
        return Path(script).name if script else name
    return name


def output_of(ended: Ended, secrets: Secrets) -> dict[str, Json]:
    """Return how a command ended as `run.finished` has it, without secrets.

    Where something was taken out of what it printed, its bytes are counted without that.
    """
    printed = secrets.scrubbed_bytes(ended.printed)
    beyond = ended.printed_bytes - len(ended.printed)
    return {
        "exit_code": ended.exit_code,
        "stdout": printed[:KEPT_BYTES].decode(errors="replace"),
        "stdout_bytes": len(printed) + beyond,
    }


def _seal(journal: ObservedLog, ended: Ended, secrets: Secrets) -> None:
    output = output_of(ended, secrets)
    if ended.exit_code == 0:
        journal.seal("completed", "done", output)
    else:
        fault = Fault(code="exit", message=f"the command ended with exit code {ended.exit_code}")
        journal.seal("failed", "error", output, fault)


def _redaction(record: ObservedRecord) -> Redaction:
    told = record.started.rules.get("redaction", {})
    return Redaction(
        paths=told.get("paths", {}),
        tools=told.get("tools", ()),
    )


def _fresh(command: Sequence[str]) -> Path:
    return default_path(
        Path("runs"), program_of(command), time=datetime.now(UTC), short_id=os.urandom(3).hex()
    )
