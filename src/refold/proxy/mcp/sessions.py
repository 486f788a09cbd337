"""An MCP server recorded, or served from a record: from its start to the report.

The place of the log: at the recording or replay that this process belongs to (`REFOLD_RECORDING`),
else in a log of its own. What `refold mcp-proxy` does, for Python too. Rules: CONTRACT.md §16.11.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import RefoldError, UsageError
from refold.engine.events.outcome import Fault
from refold.engine.log.names import fresh_path
from refold.engine.observed.binding import Bindings
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.mcp_messages import plain_name
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import Log
from refold.proxy.desks.replaying import Nowhere
from refold.proxy.http.turns import OnMiss, Pace
from refold.proxy.mcp import stdio
from refold.proxy.mcp.misses import first_of_each, unconsumed
from refold.proxy.mcp.parties import Hello
from refold.proxy.mcp.record import read_mcp
from refold.proxy.mcp.recording import McpRecording, learn_of
from refold.proxy.mcp.remote import Remote, recording_here
from refold.proxy.mcp.serving import McpServing
from refold.proxy.mcp.stdio import STANDARD, Descriptors, EndedServer
from refold.replay.explain.divergence import Divergence
from refold.replay.observed import reads
from refold.replay.observed.record import read_record
from refold.replay.observed.report import ObservedReport, joined

_RUNNERS: Final = re.compile(
    r"(?:python|pypy|node|bun|bunx|deno|npx|pnpx|pnpm|uv|uvx|pipx|ruby|bash|sh|env|docker)[0-9.]*"
)
_VERBS: Final = frozenset({"run", "tool", "exec", "dlx", "x"})
_SUFFIXES: Final = re.compile(r"\.(?:py|js|mjs|cjs|ts|mts|rb|sh)$")


@attrs.frozen(kw_only=True)
class McpReport:
    """One replay of MCP servers."""

    log: str
    requests: int
    """Recorded; pings do not count."""
    served: int
    divergences: tuple[Divergence, ...]
    notes: tuple[str, ...] = ()
    """What else is to be known of this replay, in words."""

    @property
    def identical(self) -> bool:
        """Whether all was asked again, and nothing else was."""
        return not self.divergences


@attrs.frozen(kw_only=True)
class Passed:
    """The outcome of one `refold mcp-proxy`."""

    exit_code: int
    """Of the server."""
    log: Path | None = None
    """The place of the log; `None` if another process has it."""
    entries: int = 0
    report: McpReport | None = None
    """Of a replay without one around it."""


def serving_of(
    log: Path,
    rules: VolatileRules,
    into: Log | None,
    secrets: Secrets,
    bindings: Bindings | None = None,
) -> McpServing:
    """Return what serves the MCP servers of a record; `into` takes what happens."""
    return McpServing(read_mcp(log, rules), rules, into or Nowhere(), secrets, bindings)


def report_of(serving: McpServing) -> McpReport:
    """Return the result of a replay of MCP servers."""
    found = [*serving.divergences, *unconsumed(serving.record)]
    return McpReport(
        log=str(serving.record.path),
        requests=len(serving.record.counted()),
        served=serving.served,
        divergences=first_of_each(found),
        notes=reads.notes_on(serving.reads()),
    )


def with_mcp(report: ObservedReport, serving: McpServing) -> ObservedReport:
    """Return the report of a command with what its MCP servers were asked."""
    mcp = report_of(serving)
    return attrs.evolve(
        report,
        requests=report.requests + mcp.requests,
        served=report.served + mcp.served,
        conversations=report.conversations + len(serving.record.connections),
        divergences=joined(report.divergences, mcp.divergences),
        notes=(*report.notes, *mcp.notes),
    )


def notes_on(serving: McpServing, on_miss: OnMiss, pace: Pace) -> list[str]:
    """Return what options of a replay do not do for MCP servers, if the record has any."""
    if not serving.record.counted():
        return []
    notes = []
    if on_miss == "live":
        notes.append(
            "--on-miss live applies only to models: a replay does not start MCP "
            "servers, and refuses requests to them that were not recorded; to "
            "continue live with both, use `refold fork LOG -- COMMAND`"
        )
    if pace == "recorded":
        notes.append(
            "--pace recorded applies only to models: calls of MCP servers were answered immediately"
        )
    return notes


def server_of(command: Sequence[str]) -> str:
    """Return a server's default name: its script or package, else the command."""
    words = [command[0]]
    if _RUNNERS.fullmatch(Path(command[0]).name):
        given = [each for each in command[1:] if not each.startswith("-")]
        while given and given[0] in _VERBS:
            given.pop(0)
        words = given or words
    last = words[0].rpartition("/")[2]
    name = last.partition("@")[0] or last
    return plain_name(_SUFFIXES.sub("", name))


# --- standard input and output ---------------------------------------------------------------


def proxy_command(
    command: Sequence[str],
    *,
    name: str = "",
    log: str | os.PathLike[str] | None = None,
    replay: str | os.PathLike[str] | None = None,
    rules: VolatileRules | None = None,
    client: Descriptors = STANDARD,
) -> Passed:
    """Stand between a client and a server, and record; the client is at standard input and output.

    With `replay`, or in a replay, the server is not started.

    Raises:
        LogExists: a log is never overwritten.
        LogObserved: the log to replay is a program's.
        RecordingGone: `REFOLD_RECORDING` leads nowhere.
        UsageError: the server cannot be started.
    """
    server = plain_name(name) if name else server_of(command)
    how: dict[str, Json] = {"transport": "stdio", "command": list(command)}
    hello = Hello(server=server, how=how, environment=dict(os.environ))
    where = recording_here()
    if where is not None:
        party = Remote(where, hello)
        if party.is_replay:
            return Passed(exit_code=stdio.serve(party, client).exit_code)
        try:
            process = stdio.start(command, party.before)
        except UsageError:
            party.ended("server")
            raise
        return Passed(exit_code=stdio.Passage(party, process, client).ended().exit_code)
    if replay is not None:
        serving = alone(replay, rules)
        ended = stdio.serve(serving.connect(known(hello, serving, name)), client)
        return Passed(exit_code=ended.exit_code, report=report_of(serving))
    process = stdio.start(command)
    try:
        journal, recording = own_log(log, hello, rules)
    except (RefoldError, OSError):
        stdio.stop(process)
        raise
    with journal:
        ended = stdio.Passage(recording.connect(hello), process, client).ended()
        seal(journal, ended)
        return Passed(exit_code=ended.exit_code, log=journal.path, entries=journal.entries)


def alone(log: str | os.PathLike[str], rules: VolatileRules | None) -> McpServing:
    """Return what serves the servers of a log without a replay of a command around it.

    Raises:
        LogObserved: the log is a program's.
    """
    record = read_record(log, rules)
    secrets = Secrets()
    secrets.learn_environment()
    return serving_of(record.path, record.rules, None, secrets)


def known(hello: Hello, serving: McpServing, name: str) -> Hello:
    """Return the client and the server: by default, the only server that was recorded."""
    servers = serving.record.servers()
    return attrs.evolve(hello, server=servers[0]) if not name and len(servers) == 1 else hello


def own_log(
    log: str | os.PathLike[str] | None, hello: Hello, rules: VolatileRules | None
) -> tuple[ObservedLog, McpRecording]:
    """Return a new log for a server alone, and what records in it; without a path, in `runs/`."""
    secrets = Secrets()
    secrets.learn_environment()
    learn_of(hello, secrets)
    path = Path(log) if log is not None else fresh_path(f"mcp-{hello.server}")
    given = {"server": hello.server, **hello.how}
    told = (rules or VolatileRules()).as_json()
    journal = ObservedLog(path, program=hello.server, input=given, vault=secrets, rules=told)
    return journal, McpRecording(journal, secrets)


def seal(journal: ObservedLog, ended: EndedServer) -> None:
    """Write the end: a server's is a failure if it left before its client."""
    output: dict[str, Any] = {"exit_code": ended.exit_code}
    if ended.exit_code == 0 or ended.left == "client":
        journal.seal("completed", "done", output)
    else:
        message = f"the server exited with status {ended.exit_code}"
        journal.seal("failed", "error", output, Fault(code="exit", message=message))
