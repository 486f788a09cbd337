"""`refold mcp-proxy`: run between an MCP client and its server; record, or serve a record.

Standard output belongs to the protocol: all messages go to standard error. Rules: CONTRACT.md
§16.11.
"""

import contextlib
import re
from pathlib import Path
from typing import Any

import click

from refold.cli.arguments.foreign import WithCommand, command_given, proxy_module, rules_of
from refold.cli.arguments.logs import opened_log
from refold.cli.arguments.options import PORT, declared, log_option, option
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE
from refold.cli.output.recorded import hint_recorded


def _word(_context: click.Context, _parameter: click.Parameter, word: str) -> str:
    if word and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", word):
        raise click.BadParameter("expected at least 16 random characters from A-Z a-z 0-9 _ -")
    return word


@declared("mcp-proxy", has_json=False, cls=WithCommand, options_metavar="[OPTIONS]")
def command(
    *,
    name: str = option("Name of the server in logs; by default its script or package.", "NAME"),
    log: Path | None = log_option,
    replay: Path | None = option("Serve this recording; the server is not started."),
    url: str | None = option("Server on HTTP; its local URL is printed.", "URL"),
    port: int = option("With --url: local port; by default a free one.", type=PORT, default=0),
    word: str = option(
        "With --url: secret part of the printed URL; by default random at each start.",
        "WORD",
        callback=_word,
    ),
    volatile: tuple[str, ...] = option(
        "Do not compare a part of calls, tool:NAME/arguments/when, or text that matches, "
        "text:REGEX.",
        "RULE",
    ),
) -> int:
    """Record an MCP server, or replay a recording of it.

    An MCP client starts this command instead of SERVER, and it forwards all messages in both
    directions.  Within `refold record -- COMMAND`, calls are written to the command's log; within
    `refold replay`, they are answered from that log, without starting SERVER. Otherwise, use
    --log or --replay.

    Examples:
      refold mcp-proxy --log tools.jsonl -- python server.py
      refold mcp-proxy --replay tools.jsonl -- python server.py
      refold mcp-proxy --url https://host/mcp --port 8900 --log tools.jsonl

    In the configuration of an MCP client, before the server's command:
      {"command": "refold", "args": ["mcp-proxy", "--", "python", "server.py"]}

    To record models and MCP servers in one log, and replay them:
      refold record --log run.jsonl -- python agent.py
      refold replay run.jsonl -- python agent.py

    Exit code: the exit code of SERVER; with --replay, 1 if the requests differ
    from the record.
    """
    given = command_given()
    if (given is None) is (url is None):
        raise click.UsageError("expected -- SERVER ARGS…, or --url URL")
    if url is None and (port or word):
        raise click.UsageError("--port and --word need --url: omit them for -- SERVER")
    if log is not None and replay is not None:
        raise click.UsageError("use either --log, to record, or --replay, to serve a recording")
    options: dict[str, Any] = {"name": name, "log": log}
    options["rules"] = rules_of(volatile)
    with opened_log(replay) if replay is not None else contextlib.nullcontext() as opened:
        options["replay"] = opened and opened.path
        if given is not None:
            passed = proxy_module("mcp.sessions").proxy_command(given, **options)
        else:
            options |= {"port": port, "word": word, "announce": click.echo}
            passed = proxy_module("mcp.http").proxy_url(url, **options)
    if passed.report is not None:
        return _report(passed.report)
    if passed.log is not None:
        hint_recorded(passed.log, passed.entries)
    code: int = passed.exit_code
    return code


def _report(report: Any) -> int:
    """Say on standard error how a replay went."""
    served = f"{report.served} of {words.counted(report.requests, 'recorded request')} served"
    if report.identical:
        output.note(("identical", "green"), f": {served}; the server was not started")
    else:
        count = words.counted(len(report.divergences), "difference")
        output.note((count, "bold red"), f": {served}")
    for divergence in report.divergences:
        output.note()
        output.note_lines(str(divergence))
    for note in report.notes:
        output.note(f"note: {note}")
    return FINE if report.identical else DIFFERS
