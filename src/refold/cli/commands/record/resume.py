"""`refold resume`: continue a run that broke off or waits for a person (CONTRACT.md §4.7, §9.9).

It takes the arguments of the run's start again: its program, tools and models; those that Refold
ships are found by their names in the log. `cli.output.people` asks people and reads their answers.
"""

import contextlib
from pathlib import Path
from typing import Any, Final

import attrs
import click

from refold.api import is_checked, resume
from refold.cli.arguments.foreign import (
    Foreign,
    OfCommands,
    OfPrograms,
    WithCommand,
    caps_of,
    command_given,
    command_option,
    limits_option,
    program_option,
)
from refold.cli.arguments.hints import Given, next_line
from refold.cli.arguments.loading import (
    import_from_here,
    load_model,
    load_session,
    load_tools,
    models_by_name,
    run_tools,
)
from refold.cli.arguments.logs import first_entry, opened_log, started
from refold.cli.arguments.options import argument, chosen, declared, option, with_options
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, people, words
from refold.cli.output.exit_codes import USAGE
from refold.cli.output.recorded import answer
from refold.engine.encoding.canonical import Json
from refold.engine.errors import Diverged, InDoubt, LogError, LogSealed, ToolNeeded, UsageError
from refold.engine.events.events import RunStarted
from refold.engine.log.names import PACKED_SUFFIX
from refold.engine.log.reader import read_entries, scan
from refold.engine.ports.people import check_result
from refold.engine.ports.ports import Model, Tool
from refold.engine.ports.programs import names_shipped, program_needed
from refold.engine.recording.bookends import scripts_in
from refold.engine.runners.recorded import Recording
from refold.proxy.http.turns import OnMiss
from refold.replay.index.guarantee import refuse_observed
from refold.replay.partial.sources import unasked
from refold.replay.resume.open_ends import OpenEnds, open_ends


@attrs.frozen(kw_only=True, field_transformer=with_options)
class Decisions:
    """What people decide about a run."""

    answers: dict[str, str] = option("Answer to a question.", "--answer", "KEY=JSON")
    by: str = option("Name of the person who answers, for the log.", "NAME")
    settled: dict[str, str] = option(
        "What became of a call that may have been interrupted: retry it, with the same idempotency "
        "key; fail, for an unfinished child too; or result:JSON, if it has finished.",
        "--settle KEY=HOW",
    )

    def of(self, kind: str) -> tuple[str, ...]:
        """Return the keys that are settled so: `retry` or `fail`."""
        return tuple(key for key, how in self.settled.items() if how == kind)

    def results(self) -> dict[str, str]:
        """Return the results of effects that have happened, as JSON by key.

        Raises:
            UsageError: an effect is settled in another way.
        """
        for key, how in self.settled.items():
            if how not in ("retry", "fail") and not how.startswith("result:"):
                expected = "expected KEY=retry, KEY=fail or KEY=result:JSON"
                raise UsageError(f"--settle {f'{key}={how}'!r:.60}: {expected}")
        given = ((key, how.partition("result:")) for key, how in self.settled.items())
        return {key: text for key, (_, mark, text) in given if mark}


_INTERRUPTED: Final = "effect.cancelled"
"""The kind of the entry, without a call, that ends a run from outside."""


@declared("resume", cls=WithCommand)
def command(
    *,
    log: Path = argument(RUN),
    given: Given = chosen(OfPrograms),
    decisions: Decisions = chosen(OfPrograms),
    is_list: bool = program_option(
        "List open questions and interrupted calls, and execute nothing."
    ),
    on_miss: OnMiss = command_option(
        "Refuse requests that differ from the recorded ones, or send them.",
        type=click.Choice(["fail", "live"]),
        default="fail",
    ),
    into: Path | None = command_option("New log; by default in runs/."),
    foreign: Foreign = chosen(OfCommands),
    yes: bool = command_option("Do not ask before running a log of unknown origin."),
    limits: dict[str, float] = limits_option(cls=OfCommands),
) -> int:
    r"""Continue a run that broke off or is waiting for a person.

    The program runs again with the recorded results, and continues live at the end of the log.
    Finished effects are not repeated; unfinished ones are started again.  If such an effect may
    already have changed something, pass --settle.

    With -- COMMAND, LOG is a log of `refold record` that broke off.  The command runs again in a
    copy of the recorded folder, and a new log is written.  Successful answers are taken from LOG;
    all other requests are sent again.

    Examples:
      refold resume runs/audit.jsonl --program audit.py:audit
      refold resume runs/audit.jsonl --list
      refold resume runs/agent.jsonl --agent reviewer/AGENT.md \
             --answer '0#4=true' --by ada
      refold resume runs/audit.jsonl --program audit.py:audit \
             --settle '0#9=retry' --settle '0#2 > 0#1=fail'
      refold resume runs/agent.jsonl -- claude -p "…"

    KEY is a call key, as --list prints it; in a child, the path of call keys from
    the root run.  A value is JSON, @FILE, or otherwise text.

    Exit code: 0 completed · 5 not completed, or waits for a person · 2 a person
    must decide first, or the run cannot be resumed · 1 the program or COMMAND
    differs from its log, or a replay of the log in a new process differs · 3 the
    log is damaged or has ended, or nothing is left to resume.
    """
    again = command_given()
    if again is not None:
        from refold.cli.commands.foreign_runs import resume_foreign  # noqa: PLC0415 - wire formats

        asked = {"caps": caps_of(limits), "copying": foreign.copying(may_apply=True)}
        asked |= {"on_miss": on_miss, "into": into, "applies": foreign.applies, **foreign.passed()}
        return resume_foreign(log, again, is_sure=yes, **asked)
    if log.suffix == PACKED_SUFFIX:
        shown = output.shown_path(log)
        raise click.UsageError(f"{shown} is packed and cannot be resumed: unzip it first")
    with opened_log(log):
        found, run = scan(log), started(log)
        run = run if is_list else refuse_observed(log, run)
        if found.damage is not None:
            raise found.damage.as_error()
        if found.ended:  # then to name the program or a model would be of no use
            raise _ended(log, given)
        import_from_here(given.program)
        if not is_list:
            return _continued(log, run, given, decisions)
        ends, line = open_ends(log), next_line("resume", log, given)
        return output.answer(_document(log, ends), lambda: describe_ends(ends, line))


def _ended(log: Path, given: Given) -> LogSealed:
    """Return that the run has ended; if it was interrupted, with the command that continues it."""
    at = 0
    with contextlib.suppress(LogError):
        entries = read_entries(log, torn_ok=True)
        at = next((one.seq for one in entries if one.kind == _INTERRUPTED and not one.call), 0)
    error = LogSealed(output.shown_path(log))
    if at:
        kept = Given(program=given.program, tools=given.tools, model=given.model[:1])
        line = next_line("fork", log, kept, "--at", str(at - 1), "--live")
        error.add_note(
            "the run was interrupted; to continue before that in a new log, and ask live what had "
            f"no answer:\n{line}"
        )
    return error


def _continued(log: Path, run: RunStarted, given: Given, decisions: Decisions) -> int:
    """Continue the run, and report its end."""
    if given.program is None and not names_shipped(run):
        error = program_needed(run.program)
        error.add_note(next_line("resume", log, given))
        raise error
    progress = contextlib.nullcontext() if given.ask else output.progress(f"resuming {log}")
    try:
        with output.stdout_kept(), progress:
            recording = _once(log, given, decisions, people.answers(decisions.answers, log))
            recording = until_answered(recording, given) if given.ask else recording
    except InDoubt:
        ends = open_ends(log)
        return output.answer(
            _document(log, ends), lambda: _in_doubt(log, given, decisions, ends), USAGE
        )
    again = next_line("resume", log, given) if recording.questions else ""
    return answer(recording, again=again)


_OTHER_PROGRAM: Final = (
    "resume continues the program that was recorded: restore it, or guard "
    "the change with run.patched"
)


def until_answered(recording: Recording, given: Given) -> Recording:
    """Ask the questions of children in other processes, and continue, until nobody answers."""
    while answers := people.asked(recording.questions):
        recording = _once(recording.log, given, Decisions(), answers)
    return recording


def _once(log: Path, given: Given, decisions: Decisions, answers: dict[str, Any]) -> Recording:
    start = started(log)
    tools = _tools(given, start)
    known = {tool.name: tool for tool in tools}
    results = decisions.results()
    asked = {each.key for each in open_ends(log).questions} if decisions.settled else set()
    for key in decisions.settled:
        if key in asked:
            raise UsageError(f"--settle {key}: this is a question; pass --answer '{key}=JSON'")
    called = {each.key: each.tool for each in open_ends(log).doubts} if results else {}

    def fits(key: str, result: Json) -> None:
        check_result(key, known.get(called.get(key, "")), result)

    try:
        return resume(
            log,
            given.program,
            tools=tools,
            models=_models(log, given, start),
            session=load_session(given.tools, given.program, log),
            answers=answers,
            by=decisions.by,
            ask=people.ask if given.ask else None,
            retry=decisions.of("retry"),
            fail=decisions.of("fail"),
            results=people.parse_decisions("--settle", results, fits),
            check=is_checked(default="1"),
        )
    except Diverged as error:
        error.add_note(_OTHER_PROGRAM)
        raise
    except ToolNeeded as error:
        if start.program == "agent" and given.agent is None:
            raise UsageError(f"{error}; or pass --agent AGENT.md, as for `refold run`") from None
        raise


# --- what the run takes ------------------------------------------------------------------------


def _tools(given: Given, start: RunStarted) -> tuple[Tool, ...]:
    """Return the tools of a run: a shipped program's or the agent file's, and others."""
    if given.program is not None or start.program != "agent":
        return run_tools(given.program, start, given.tools, root=given.root)
    from refold.tools.configuration import prepared_run as configured  # noqa: PLC0415 - imports the tools

    own = load_tools(given.tools)
    if given.agent is None:
        shipped = configured.tools_offered(start.tools, given.root)
    else:
        task = start.input.get("task", "") if isinstance(start.input, dict) else ""
        how: dict[str, Any] = {"root": given.root, "config": _project(given), "own": own}
        _, shipped, _ = configured.prepare_run(given.agent, task=str(task), **how)
    return tuple({tool.name: tool for tool in (*shipped, *own)}.values())


def _project(given: Given) -> Any:
    from refold.cli.arguments.running import known_tools  # noqa: PLC0415 - imports the tools
    from refold.tools.configuration.config import load_config  # noqa: PLC0415 - the same

    own = load_tools(given.tools)
    return load_config(given.config or Path(), known_tools=known_tools(own))


def _models(log: Path, given: Given, start: RunStarted) -> dict[str, Model]:
    """Return the models of the run, by name: from options, else the pools, else as recorded.

    An option without a name sets the default; if the run had none, and for scripts, all.
    """
    names, said = start.models, models_by_name(given.model)
    made = {spec: load_model(spec) for spec in said.values()}
    if unknown := sorted(said.keys() - {*names, "", "*"}):
        known = ", ".join(filter(None, names)) or "none"
        raise UsageError(
            f"--model {unknown[0]}=…: the run does not have such a model; its models are {known}"
        )
    if not names:
        return {"": made[said[""]]} if "" in said else {}
    from refold.tools.configuration.prepared_run import pool_models  # noqa: PLC0415 - imports the tools

    pools = pool_models(_project(given))
    first = first_entry(log)
    scripts, lacking = scripts_in(names, first.meta), unasked(first)
    found, wanted = dict[str, Model](), list[str]()
    for name, full in names.items():
        is_script = full.startswith("scripted") or name in scripts
        is_plain = not name or "" not in names or is_script
        spec = said.get(name) or said.get("*") or (said.get("") if is_plain else None)
        if spec is not None:
            found[name] = made[spec]
        elif name in pools:
            found[name] = pools[name]
        elif name not in lacking:
            found[name] = load_model(full)
        else:
            wanted.append(name)
    if wanted:
        which = f"the model {wanted[0]!r}" if wanted[0] else "the model"
        error = UsageError(
            f"{which} of this run was {lacking[wanted[0]]}: pass a model with --model SPEC, such "
            "as scripted:FILE for a script, FILE.py:NAME for a model in a file, or openai:NAME"
        )
        error.add_note(next_line("resume", log, given))
        raise error
    return found


# --- what people have to say -------------------------------------------------------------------


def _in_doubt(log: Path, given: Given, decisions: Decisions, ends: OpenEnds) -> None:
    """Say which effects nobody has decided on, and how to."""
    left = tuple(doubt for doubt in ends.doubts if doubt.key not in decisions.settled)
    effects = words.counted(len(left), "effect")
    output.complain(
        f"nothing was executed: {effects} may or may not have taken effect when "
        "the run broke off. Find out, and pass one of these options for each"
    )
    again = next_line("resume", log, given)
    output.hint("\n".join([*people.lines_of_doubts(left), f"{again} …"]))


def describe_ends(ends: OpenEnds, command: str) -> None:
    """Print the open questions, and the command that answers them."""
    if ends.questions:
        output.line(f"{words.counted(len(ends.questions), 'question')} without an answer:")
        people.describe_questions(ends.questions)
    if ends.doubts:
        effects = words.counted(len(ends.doubts), "effect")
        output.line(f"{effects} in doubt, which may or may not have taken effect:")
        output.lines("\n".join(people.lines_of_doubts(ends.doubts)))
    if not ends.questions and not ends.doubts:
        output.line("the run has no end and no open questions: it can be resumed")
    if command:
        output.hint(command)


def _document(log: Path, ends: OpenEnds) -> dict[str, Any]:
    return {"log": output.shown_path(log), **ends.as_json()}
