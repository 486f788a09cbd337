"""A command recorded, a command replayed: from its start to the report.

What `refold record -- COMMAND` and `refold replay LOG -- COMMAND` do, for Python too.
Rules: CONTRACT.md §16.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs

from refold.engine.canonical import Json
from refold.engine.log.names import default_path
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.volatile import VolatileRules
from refold.engine.outcome import Fault
from refold.engine.redaction import Redaction
from refold.engine.vault import Vault
from refold.proxy import keys
from refold.proxy.command import Ended, run_command
from refold.proxy.recording import Recording
from refold.proxy.replaying import OnMiss, Pace, Replaying
from refold.proxy.routes import environment_of, routes_of
from refold.proxy.server import served
from refold.replay.observed.matching import unconsumed
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import (
    ObservedReport,
    conversations_of,
    ended_otherwise,
    in_order,
)

PLACEHOLDERS: Final = {"OPENAI_API_KEY": "refold-replay", "ANTHROPIC_API_KEY": "refold-replay"}
"""Keys for clients that want one where none is needed: in a replay."""

Write = Callable[[bytes], None]


@attrs.frozen
class RecordedCommand:
    """A command that was recorded."""

    log: Path
    head: str
    entries: int
    ended: Ended


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
    vault = Vault(redaction)
    keys.learn_environment(vault)
    path = Path(log) if log is not None else _fresh(command)
    given = {"command": list(command)}
    told = (rules or VolatileRules()).as_json()
    with ObservedLog(
        path, program=program_of(command), input=given, vault=vault, rules=told
    ) as journal:
        with served(Recording(journal, routes), [route.name for route in routes]) as base:
            ended = run_command(command, environment_of(routes, base), write)
        _seal(journal, ended)
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
    routes = routes_of(upstreams)
    vault = Vault(_redaction(record))
    keys.learn_environment(vault)
    journal = _journal(into, command, vault, record)
    desk = Replaying(record, vault, routes=routes, on_miss=on_miss, pace=pace, log=journal)
    missing = {name: key for name, key in PLACEHOLDERS.items() if not os.environ.get(name)}
    with served(desk, [route.name for route in routes]) as base:
        ended = run_command(command, {**missing, **environment_of(routes, base)}, write)
    if journal is not None:
        _seal(journal, ended)
    return _report(record, desk, ended, vault)


def _report(record: ObservedRecord, desk: Replaying, ended: Ended, vault: Vault) -> ObservedReport:
    found = [
        *desk.divergences,
        *unconsumed(record, desk.left()),
        *ended_otherwise(record, vault.scrubbed(output_of(ended))),
    ]
    return ObservedReport(
        log=str(record.path),
        program=record.started.program,
        requests=len(record.turns),
        served=desk.served,
        live=desk.live,
        conversations=conversations_of(record),
        entries=record.entries,
        divergences=in_order(found),
        rules=record.rules.as_json(),
        exit_code=ended.exit_code,
    )


def program_of(command: Sequence[str]) -> str:
    """Return what a command is called: its script, else the command itself."""
    interpreters = ("python", "node", "bun", "deno", "ruby", "uv", "npx", "bash", "sh")
    name = Path(command[0]).name
    if name.startswith(interpreters):
        script = next((each for each in command[1:] if Path(each).suffix), None)
        return Path(script).name if script else name
    return name


def output_of(ended: Ended) -> dict[str, Json]:
    """Return how a command ended as `run.finished` has it."""
    return {
        "exit_code": ended.exit_code,
        "stdout": ended.stdout,
        "stdout_bytes": ended.stdout_bytes,
    }


def _seal(journal: ObservedLog, ended: Ended) -> None:
    output = output_of(ended)
    if ended.exit_code == 0:
        journal.seal("completed", "done", output)
    else:
        fault = Fault(code="exit", message=f"the command ended with exit code {ended.exit_code}")
        journal.seal("failed", "error", output, fault)


def _journal(
    into: str | os.PathLike[str] | None,
    command: Sequence[str],
    vault: Vault,
    record: ObservedRecord,
) -> ObservedLog | None:
    if into is None:
        return None
    return ObservedLog(
        Path(into),
        program=program_of(command),
        input={"command": list(command)},
        vault=vault,
        rules=record.rules.as_json(),
    )


def _redaction(record: ObservedRecord) -> Redaction:
    told = record.started.rules.get("redaction", {})
    return Redaction(
        environment=told.get("environment", ()),
        paths=told.get("paths", {}),
        tools=told.get("tools", ()),
    )


def _fresh(command: Sequence[str]) -> Path:
    return default_path(
        Path("runs"), program_of(command), time=datetime.now(UTC), short_id=os.urandom(3).hex()
    )
