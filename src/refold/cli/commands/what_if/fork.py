"""`refold fork`: what if a result had been different?"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from refold.api import fork, is_checked
from refold.cli.arguments.foreign import Foreign, OfCommands, OfPrograms, WithCommand, command_given
from refold.cli.arguments.hints import Given, next_line
from refold.cli.arguments.live import Live, edits_of, live_of
from refold.cli.arguments.logs import OpenedLog, opened_log, started
from refold.cli.arguments.options import argument, chosen, declared, option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output
from refold.cli.output.exit_codes import MISSING, NOT_COMPLETED
from refold.cli.output.printed import PrintedFork
from refold.cli.output.recorded import code_of
from refold.engine.errors import OutcomeMissing
from refold.engine.log.names import fresh_path
from refold.replay.compare.diff import diff
from refold.replay.compare.log_diff import FORK_LINES, LogDiff
from refold.replay.resume.fork import Fork, edits_in
from refold.replay.resume.open_ends import open_ends
from refold.replay.run.tree_text import advice


@declared("fork", cls=WithCommand)
def command(
    *,
    log: Path = argument(RUN),
    at: int | None = option(
        "Last entry to keep; by default the entry of the first --set.  Negative numbers count "
        "from the end."
    ),
    edits: dict[str, str] = option(
        "New result of a call: a JSON value, a JSON file (KEY=@FILE), or otherwise text.  Can be "
        "repeated.",
        "--set KEY=JSON",
    ),
    redone: str = option(
        "Run subagents again, and keep the other results: failed, for all that failed; with "
        "-- COMMAND, a name or scope from `refold show`.",
        "--again AGENT",
    ),
    given: Given = chosen(OfPrograms, "program"),
    live: Live = chosen(OfPrograms, models=click.Option, may_change=click.Option),
    into: Path | None = option("New log; by default a new file in runs/."),
    foreign: Foreign = chosen(OfCommands),
) -> int:
    r"""Copy LOG up to an entry, change results, and continue from there.

    LOG itself is not changed.  The new log contains its origin, which `refold ls --tree` shows.

    With -- COMMAND, LOG is a log of `refold record`: the command runs again,
    gets recorded answers up to the entry, and continues live.  It runs in a
    copy of the recorded folder, and executes the recorded tool calls, as in
    `refold replay`.

    Examples:
      refold fork audit.jsonl --program app.py:audit --set "0#3=42"
      refold fork audit.jsonl --program app.py:audit --set "0#3=@result.json"
      refold fork audit.jsonl --program app.py:audit --set "0#3=4" --live
      refold fork audit.jsonl --program app.py:audit --at 17 \
             --model openai:gpt-4.1 --source tools=live --tools app:TOOLS
      refold fork audit.1.jsonl --program app.py:audit --at 4 --into other.jsonl
      refold fork team.jsonl --again failed --program team.py:team \
             --model openai:gpt-4.1 --source tools=live --tools app:TOOLS
      refold fork agent.jsonl --set "0/1#1=No idea." -- python agent.py
      refold fork agent.jsonl --set '0/1#2={"city":"Bergen"}' -- python agent.py
      refold fork agent.jsonl --at 12 --model gpt-5-mini -- python agent.py
      refold fork agent.jsonl --again reviewer -- python agent.py

    KEY is a call key, as `refold show LOG --events` lists them; for a call of a
    child, with the calls that lead there: "0#1 > 0#2".  The value replaces a
    tool's result, a model's text or message, or a child's output;
    {"error": {"message": "…"}} makes the call fail.  With -- COMMAND, the value
    replaces a model's text or message, or the arguments of a tool call, or is a
    fault: {"error": {"code": "http_429"}} or another status, {"error": {"code":
    "cut"}}, {"refusal": "…"}, {"late_seconds": 30}.  --model names the model, of
    the same API, for all later requests.

    After the fork, requests that match the log get their recorded results; any
    other request stops the fork.  With --live, every request after the fork runs
    live, including unchanged ones.  To keep the rest recorded, make one kind live
    with --model SPEC, or --source NAME=live for tools, children or a tool.  A
    live subagent takes the results of each kind from the same source as the root
    run.  A fork that stops before its first live request leaves no log.

    Exit code: 0 completed · 5 not completed · 4 a request was not recorded and
    may not run · 1 an edit changes the part before it, or a replay of the new log
    in a new process differs.
    """
    again = command_given()
    if again is not None:
        from refold.cli.commands import foreign_runs  # noqa: PLC0415 - wire formats

        model = live.models[-1] if live.models else ""
        way: dict[str, Any] = {"into": into, "copying": foreign.copying(), **foreign.passed()}
        if redone and (at is not None or edits or model):
            raise click.UsageError("--again cannot be used with --at, --set or --model")
        if redone:
            way |= {"retry": redone, "verb": "forked"}
            return foreign_runs.resume_foreign(log, again, is_sure=live.may_change, **way)
        way |= {"at": at, "edits": edits_of(edits), "model": model}
        return foreign_runs.fork_foreign(log, again, is_sure=live.may_change, **way)
    if redone not in ("", "failed"):
        raise click.UsageError(f"--again {redone}: expected failed; a name needs -- COMMAND")
    with opened_log(log) as opened:
        how = live_of(opened, given.program, live)
        run = started(opened.path)
        target = into or fresh_path(f"{run.program}-fork")
        with output.stdout_kept(), output.progress(f"forking {log}"):
            known = {tool.name: tool for tool in how["tools"]}
            fits = lambda key, value: edits_in(opened.path, {key: value}, known)  # noqa: E731
            how |= {
                "into": target,
                "edits": edits_of(edits, fits),
                "again": redone or None,
                "check": is_checked(default="1"),
            }
            forked = fork(opened.path, at, given.program, **how)
        found = diff(forked.origin, forked.log) if forked.log.exists() else None
        document = _document(forked, found, opened)
        origin = forked.origin if opened.path == log else log
    remedies = [
        f"to let it run, add {each.options}; to let every request run, add --live"
        for each in forked.missing
        if each.options
    ]
    suspended = forked.recording is not None and forked.recording.questions
    if found and (forked.missing or suspended):
        remedies = [_resume_line(forked, given.program, live)]
    if forked.recording is not None and (error := forked.recording.error) is not None:
        output.complain(f"{error.code}: {error.message}{advice(error.message)}")
    code = NOT_COMPLETED if forked.recording is None else code_of(forked.recording)
    code = MISSING if forked.missing else code
    return output.answer(
        document,
        lambda: _describe(document, forked.unreached, found, log, origin, remedies[:1]),
        code,
    )


def _resume_line(forked: Fork, program: str | None, live: Live) -> str:
    """Return the command that continues a fork that stopped after a live request, or waits."""
    doubts = {doubt.key for doubt in open_ends(forked.log).doubts}
    never_ran = [one.key for one in forked.missing if one.key in doubts]
    given = Given(program=program, tools=live.tools, model=live.models[-1:])
    settled = (word for key in never_ran for word in ("--settle", f"{key}=retry"))
    return next_line("resume", forked.log, given, *settled)


def _document(forked: Fork, found: LogDiff | None, log: OpenedLog) -> PrintedFork:
    """Return a fork as one document; `found` is how it differs from its origin."""
    origin = log.shown(forked.origin)
    unfinished = "open" if found else "refused"
    return PrintedFork(
        origin=origin,
        at=forked.at,
        log=output.shown_path(forked.log) if found else None,
        status=forked.recording.status if forked.recording is not None else unfinished,
        output=forked.recording.output_json if forked.recording is not None else None,
        replays=forked.recording.replays if forked.recording is not None else None,
        missing=tuple(forked.missing),
        diff={**found.as_json(), "a": origin} if found else None,
    )


def _describe(
    forked: PrintedFork,
    unreached: Iterable[str],
    found: LogDiff | None,
    log: Path,
    origin: Path,
    remedies: Iterable[str],
) -> None:
    status = forked.status
    output.line((status, output.status_style(status)), f"  forked from {log} at entry {forked.at}")
    for one in forked.missing:
        # The same command with more options is refused if the log is kept: it has to be resumed.
        is_resumed = forked.log is not None and one.options
        output.complain(str(OutcomeMissing(one.call, one.nearest) if is_resumed else one))
    if forked.log is None:
        output.hint("\n".join(["nothing ran live, so no log was kept", *remedies]))
        return
    for key in unreached:
        output.complain(f"the edit of {key} has no effect: the fork never reaches it")
    if found is not None:
        command = output.command("diff", origin, forked.log, "--all")
        output.lines("\n".join(found.lines(FORK_LINES, command)))
    output.hint(f"\n1 log: {forked.log}; {output.command('show', forked.log)}")
    refused = ", ".join(one.call for one in forked.missing if "--yes" in one.options.split())
    runs = f", which runs {refused}" if refused else ""
    for each in remedies:
        output.hint(f"the log can be resumed{runs}: {each}")
