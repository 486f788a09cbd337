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
    WithCommand,
    caps_of,
    command_given,
    limits_option,
    refuse_with_command,
    resume_options,
)
from refold.cli.arguments.live import again as this_command
from refold.cli.arguments.loading import (
    base_url_option,
    import_from_here,
    joined,
    load_model,
    load_session,
    load_tools,
    models_said,
    session_option,
    tools_beside,
)
from refold.cli.arguments.logs import (
    LOG,
    as_one,
    first_entry,
    json_option,
    opened_log,
    place_of,
    started,
    unnamed,
)
from refold.cli.arguments.paths import UserPath
from refold.cli.arguments.rehearsals import program_option
from refold.cli.arguments.run_names import RUN
from refold.cli.output import output, people, words
from refold.cli.output.exit_codes import USAGE
from refold.cli.output.pages import page
from refold.cli.output.printed import PrintedEnds
from refold.cli.output.recorded import answer
from refold.engine.encoding.canonical import Json
from refold.engine.errors import Diverged, InDoubt, LogError, LogSealed, ToolNeeded, UsageError
from refold.engine.events.events import RunStarted
from refold.engine.log.names import PACKED_SUFFIX
from refold.engine.log.reader import read_entries, scan
from refold.engine.ports.people import check_result
from refold.engine.ports.ports import Model, Tool
from refold.engine.ports.programs import names_shipped
from refold.engine.recording.bookends import scripts_in
from refold.engine.runners.recorded import Recording
from refold.engine.runners.shipped import RUNNERS
from refold.programs.shipped import tools_of
from refold.replay.index.guarantee import refuse_observed
from refold.replay.partial.sources import unasked
from refold.replay.resume.open_ends import OpenEnds, open_ends
from refold.replay.resume.resume import ATTEMPTS_MAX

_PAGE: Final = """
Examples:
  refold resume runs/audit.jsonl --program audit.py:audit \\
         --tools audit.py:TOOLS
  refold resume runs/audit.jsonl --list
  refold resume runs/agent.jsonl --agent reviewer/AGENT.md \\
         --answer '0#4=true' --by ada
  refold resume runs/audit.jsonl --program audit.py:audit \\
         --tools audit.py:TOOLS --retry '0#9' --fail '0#2 > 0#1'
  refold resume runs/agent.jsonl -- claude -p "…"

KEY is a call key, as --list prints it; in a child, the path of call keys from
the root run.  A value is JSON, @FILE, or otherwise text.

Exit code: 0 completed · 5 not completed, or waits for a person · 2 a person
must decide first, or the run cannot be resumed · 1 the program or COMMAND
differs from its log, or a replay of the log in a new process differs · 3 the
log is damaged or has ended, or nothing is left to resume.
"""


@attrs.frozen(kw_only=True)
class Given:
    """The options of the command."""

    log: Path
    program: str | None = None
    tools: str = ""
    session: str | None = None
    agent: Path | None = None
    model: tuple[str, ...] = ()
    base_url: str | None = None
    runner: str | None = None
    root: Path = Path()
    config: Path | None = None
    ask: bool = False
    answers: tuple[str, ...] = ()
    by: str = ""
    retry: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    max_attempts: int = ATTEMPTS_MAX

    def again(self, *decisions: str) -> str:
        """Return the command that continues again: the run's arguments, and these decisions."""
        line = list[str]()
        for name in _KEPT:
            value = getattr(self, name)
            for each in value if isinstance(value, tuple) else (value,):
                if each and each != Path():
                    line.append(f"--{name.replace('_', '-')}")
                    line += [] if each is True else [output.shown_path(each)]
        return output.command("resume", self.log, *line, *decisions)


_KEPT: Final = (
    "program", "tools", "session", "agent", "model", "base_url", "runner", "root", "config", "ask",
)  # fmt: skip
"""Options that a run takes each time that it continues."""


_INTERRUPTED: Final = "effect.cancelled"
"""The kind of the entry, without a call, that ends a run from outside."""


@click.command("resume", cls=WithCommand, epilog=page(_PAGE))
@click.argument("log", type=RUN)
@program_option
@click.option(
    "--tools", metavar="MODULE:NAME,…", multiple=True, callback=joined,
    help="Tools of the run, or lists of tools, besides those in the module of the program.  They "
    "are executed.",
)  # fmt: skip
@session_option
@click.option("--agent", type=LOG, metavar="AGENT.md", help="Agent file of a `refold run`.")
@click.option(
    "--model", metavar="[NAME=]SPEC", multiple=True,
    help="openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, scripted:FILE or FILE.py:NAME; by "
    "default the one in the log.  NAME= selects a model of the run.",
)  # fmt: skip
@base_url_option
@click.option(
    "--runner", type=click.Choice(list(RUNNERS)),
    help="Runner for subagents; by default the recorded one.",
)  # fmt: skip
@click.option(
    "--root", type=UserPath(path_type=Path), default=Path(), metavar="DIR",
    help="Folder for the built-in file tools; by default this one.",
)  # fmt: skip
@click.option(
    "--config",
    type=LOG,
    metavar="FILE",
    help="Configuration file, as for `refold run`; by default refold.yaml here.",
)
@click.option(
    "--answer", "answers", metavar="KEY=JSON", multiple=True, help="Answer to a question."
)
@click.option(
    "--by", default="", metavar="NAME", help="Name of the person who answers, for the log."
)
@click.option("--ask", is_flag=True, help="Answer further questions at this terminal.")
@click.option(
    "--retry", metavar="KEY", multiple=True,
    help="Run an effect in doubt again, with the same idempotency key.",
)  # fmt: skip
@click.option(
    "--fail", metavar="KEY", multiple=True,
    help="Treat an effect in doubt, or an unfinished child, as failed.",
)  # fmt: skip
@click.option(
    "--result", "results", metavar="KEY=JSON", multiple=True,
    help="Result of an effect in doubt that has happened.",
)  # fmt: skip
@click.option(
    "--max-attempts", type=click.IntRange(min=1), default=ATTEMPTS_MAX, show_default=True,
    metavar="N", help="Maximum number of attempts, including the first.",
)  # fmt: skip
@click.option(
    "--list", "is_list", is_flag=True,
    help="List open questions and effects in doubt, and execute nothing.",
)  # fmt: skip
@resume_options
@limits_option(OfCommands)
@json_option
@as_one("given", Given)
def command(
    *, given: Given, is_list: bool, foreign: Foreign, limits: dict[str, float], **more: Any
) -> int:
    """Continue a run that broke off or is waiting for a person.

    The program runs again with the recorded results, and continues live at the end of the log.
    Finished effects are not repeated; unfinished ones are started again.  If such an effect may
    already have changed something, pass --retry, --fail or --result.

    With -- COMMAND, LOG is a log of `refold record` that broke off.  The command runs again in a
    copy of the recorded folder, and a new log is written.  Successful answers are taken from LOG;
    all other requests are sent again.
    """
    log, shown = given.log, output.shown_path(given.log)
    again = command_given()
    if again is not None:
        refuse_with_command()
        if more["on_miss"] == "recorded":
            raise click.UsageError("--on-miss recorded is for `refold replay`")
        from refold.cli.commands.foreign_runs import resume_foreign  # noqa: PLC0415 - wire formats

        asked = {"caps": caps_of(limits), "copying": foreign.copying(), **foreign.passed(), **more}
        asked["keeps_all"], is_sure = asked.pop("keep_content"), asked.pop("yes")
        asked["applies"] = asked.pop("apply")
        return resume_foreign(log, again, is_sure=is_sure, **asked)
    if log.suffix == PACKED_SUFFIX:
        raise click.UsageError(f"{shown} is packed and cannot be resumed: unzip it first")
    with opened_log(log):
        return _listed(given) if is_list else _gone_on(given)


def resume_line(log: Path) -> str:
    """Return the `refold resume` command of a log of which no more is known: what to fill in."""
    run = started(log)
    if names_shipped(run):
        return Given(log=log).again()
    return _unnamed(Given(log=log, tools="FILE.py:TOOLS" if run.tools else ""), run)


def _unnamed(given: Given, run: RunStarted) -> str:
    """Return the command with placeholders for the program, and for models that no log can name."""
    model = given.model or ("SPEC",) * bool(unasked(first_entry(given.log)))
    return attrs.evolve(given, program=place_of(run.program), model=model).again()


def _ended(given: Given, run: RunStarted) -> LogSealed:
    """Return that the run has ended; if it was interrupted, with the command that continues it."""
    shown, at = output.shown_path(given.log), 0
    with contextlib.suppress(LogError):
        entries = read_entries(given.log, torn_ok=True)
        at = next((one.seq for one in entries if one.kind == _INTERRUPTED and not one.call), 0)
    error = LogSealed(shown)
    if at:
        program = given.program or ("" if names_shipped(run) else place_of(run.program))
        model = [*given.model] or ["SPEC"] * bool(unasked(first_entry(given.log)))
        options = {"--program": program, "--tools": given.tools, "--model": "".join(model[:1])}
        said = [word for name, value in options.items() if value for word in (name, value)]
        line = output.command("fork", given.log, "--at", str(at - 1), "--live", *said)
        error.add_note(
            "the run was interrupted; to continue before that in a new log, and ask live what had "
            f"no answer:\n{line}"
        )
    return error


def _gone_on(given: Given) -> int:
    """Continue the run, and report its end."""
    log = given.log
    run = refuse_observed(log, started(log))
    if scan(log).ended:  # then to name the program or a model would be of no use
        raise _ended(given, run)
    if given.program is None and not names_shipped(run):
        raise unnamed(run.program, _unnamed(given, run))
    import_from_here(given.program)
    progress = contextlib.nullcontext() if given.ask else output.progress(f"resuming {log}")
    try:
        with output.stdout_kept(), progress:
            recording = _once(given, people.answers(given.answers, log))
            recording = until_answered(recording, given) if given.ask else recording
    except InDoubt:
        ends = open_ends(log)
        return output.answer(_printed(given, ends), lambda: _in_doubt(given, ends), USAGE)
    return answer(recording, again=given.again())


_OTHER_PROGRAM: Final = (
    "resume continues the program that was recorded: restore it, or guard "
    "the change with run.patched"
)


def until_answered(recording: Recording, given: Given) -> Recording:
    """Ask the questions of children in other processes, and continue, until nobody answers."""
    once = attrs.evolve(given, retry=(), fail=(), results=())
    while answers := people.asked(recording.questions):
        recording = _once(once, answers)
    return recording


def _once(given: Given, answers: dict[str, Any]) -> Recording:
    start = started(given.log)
    tools = _tools(given, start)
    known = {tool.name: tool for tool in tools}
    called = {each.key: each.tool for each in open_ends(given.log).doubts} if given.results else {}

    def fits(key: str, result: Json) -> None:
        check_result(key, known.get(called.get(key, "")), result)

    try:
        return resume(
            given.log,
            given.program,
            tools=tools,
            models=_models(given, start),
            runner=given.runner,
            session=load_session(given.session, given.log),
            answers=answers,
            by=given.by,
            ask=people.ask if given.ask else None,
            retry=given.retry,
            fail=given.fail,
            results=people.said("--result", given.results, fits),
            max_attempts=given.max_attempts,
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
    own, shipped = load_tools(given.tools), tuple[Tool, ...]()
    if given.program is None and start.program != "agent":
        shipped = tools_of(start.program, given.root)
    elif given.program is None:
        from refold.tools.configuration import prepared_run as configured  # noqa: PLC0415 - imports the tools

        if given.agent is None:
            shipped = configured.tools_offered(start.tools, given.root)
        else:
            task = start.input.get("task", "") if isinstance(start.input, dict) else ""
            how: dict[str, Any] = {"root": given.root, "config": _project(given), "own": own}
            _, shipped, _ = configured.prepare_run(given.agent, task=str(task), **how)
    beside = tools_beside(given.program, start, {tool.name for tool in own}).values()
    return tuple({tool.name: tool for tool in (*shipped, *beside, *own)}.values())


def _project(given: Given) -> Any:
    from refold.tools.agents.agent_files import NAMEABLE_TOOLS  # noqa: PLC0415 - imports the tools
    from refold.tools.configuration.config import load_config  # noqa: PLC0415 - the same

    own = (tool.name for tool in load_tools(given.tools))
    return load_config(given.config or Path(), known_tools=(*NAMEABLE_TOOLS, *own))


def _models(given: Given, start: RunStarted) -> dict[str, Model]:
    """Return the models of the run, by name: from options, else the pools, else as recorded.

    An option without a name sets the default; if the run had none, and for scripts, all.
    """
    names, said = start.models, models_said(given.model)
    made = {spec: load_model(spec, given.base_url) for spec in said.values()}
    if unknown := sorted(said.keys() - {*names, "", "*"}):
        known = ", ".join(filter(None, names)) or "none"
        raise UsageError(
            f"--model {unknown[0]}=…: the run does not have such a model; its models are {known}"
        )
    if not names:
        return {"": made[said[""]]} if "" in said else {}
    from refold.tools.configuration.prepared_run import pool_models  # noqa: PLC0415 - imports the tools

    pools = pool_models(_project(given))
    first = first_entry(given.log)
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
            found[name] = load_model(full, given.base_url)
        else:
            wanted.append(name)
    if wanted:
        which = f"the model {wanted[0]!r}" if wanted[0] else "the model"
        error = UsageError(
            f"{which} of this run was {lacking[wanted[0]]}: pass a model with --model SPEC, such "
            "as FILE.py:NAME for one in a file, or openai:NAME"
        )
        specs = [*given.model, *(f"{name}=SPEC" if name else "SPEC" for name in wanted)]
        error.add_note(this_command(*(word for spec in specs for word in ("--model", spec))))
        raise error
    return found


# --- what people have to say -------------------------------------------------------------------


def _listed(given: Given) -> int:
    found = scan(given.log)
    if found.damage is not None:
        raise found.damage.as_error()
    if found.ended:
        raise _ended(given, started(given.log))
    ends = open_ends(given.log)
    again = given.again() if given.program else resume_line(given.log)
    return output.answer(_printed(given, ends), lambda: describe_ends(ends, again))


def _in_doubt(given: Given, ends: OpenEnds) -> None:
    """Say which effects nobody has decided on, and how to."""
    decided = {*given.retry, *given.fail, *people.said("--result", given.results)}
    left = tuple(doubt for doubt in ends.doubts if doubt.key not in decided)
    effects = words.counted(len(left), "effect")
    output.complain(
        f"nothing was executed: {effects} may or may not have taken effect when "
        "the run broke off. Find out, and pass one of these options for each"
    )
    output.hint("\n".join([*people.lines_of_doubts(left), f"{given.again()} …"]))


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


def _printed(given: Given, ends: OpenEnds) -> PrintedEnds:
    log = output.shown_path(given.log)
    return PrintedEnds(log=log, questions=ends.questions, doubts=ends.doubts)
