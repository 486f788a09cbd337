"""`refold run`: run an agent that a file defines, and record it."""

import contextlib
import sys
from pathlib import Path

import attrs
import click

from refold.cli.arguments.options import LOG, argument, declared, label_option, log_option, option
from refold.cli.arguments.running import AgentOptions, known_tools
from refold.cli.output import output, people, words
from refold.cli.output.exit_codes import DIFFERS, FINE
from refold.cli.output.printed import CheckedAgents, PrintedAgent
from refold.cli.output.recorded import answer
from refold.engine.errors import InvalidDefError
from refold.engine.runners.recording import record
from refold.tools.agents.agent_files import FILE_NAME, AgentDef, AgentLoader, load_agent
from refold.tools.configuration.prepared_run import prepare_run, session_for


def _an_agent(_context: click.Context, _parameter: click.Parameter, agent: Path) -> Path:
    """Refuse a program: many take this command for the one that runs them."""
    file = agent.name.partition(":")[0]
    if file.endswith(".py"):
        raise click.UsageError(
            f"{agent} is not an agent file (AGENT.md). To run a script that calls "
            f"refold.record, use `python {file}`; for any other script, `refold "
            f"record -- python {file}`"
        )
    return agent


@declared("run")
def command(
    *,
    agent: Path = argument(LOG, "AGENT.md", callback=_an_agent),
    task: str | None = option("Task of the agent; use - for standard input."),
    agents: AgentOptions,
    log: Path | None = log_option,
    labels: dict[str, str] = label_option,
    ask: bool = option("Answer the run's questions at this terminal, instead of suspending it."),
    dry_run: bool = option("Only report the agent of a file, or those of a folder, and problems."),
) -> int:
    """Run the agent in AGENT.md, with the tools that it names, and record it.

    API keys are read from the environment (OPENAI_API_KEY, ANTHROPIC_API_KEY, …) and are not
    written to the log.

    Examples:
      refold run reviewer/AGENT.md --task "review src/" --model openai:gpt-4o
      refold run AGENT.md --task - --model openai:llama3:8b < task.txt
      refold run AGENT.md --task "try it" --model scripted:replies.yaml
      refold run AGENT.md --task "find it" --tools mytools.py:TOOLS
      refold run .claude/agents --dry-run      reports problems of agent files

    Exit code: 0 completed · 1 --dry-run found a problem, or no agent · 5 not
    completed, but recorded.  To continue a run that waits for a person, use
    `refold resume`.
    """
    if not agent.exists():
        raise click.UsageError(f"{output.shown_path(agent)}: no such file or folder")
    if dry_run:
        document = checked(agent, known_tools(agents.own))
        code = FINE if document.ok else DIFFERS
        return output.answer(document, lambda: _describe(document), code)
    if task is None:
        raise click.UsageError("pass --task, or --dry-run to check the agent's file")
    given, options = agents.prepared(prepare_run, agent_path=agent, task=_task(task))
    progress = contextlib.nullcontext() if ask else output.progress(f"{agent} is working")
    with output.stdout_kept(), progress:
        recording = record(
            "agent",
            given,
            log=log,
            session=session_for(options["tools"]),
            labels=labels,
            ask=people.ask if ask else None,
            **options,
        )
    again = ""
    if recording.questions:
        from refold.cli.arguments.hints import Given, next_line  # noqa: PLC0415 - few runs ask
        from refold.cli.commands.record.resume import until_answered  # noqa: PLC0415 - the same

        names = ("tools", "model", "root", "config")
        more = Given(agent=agent, **{name: getattr(agents, name) for name in names})
        if ask:
            recording = until_answered(recording, attrs.evolve(more, ask=True))
        again = next_line("resume", recording.log, more)
    return answer(recording, again=again)


def _task(task: str) -> str:
    if task != "-":
        return task
    text = sys.stdin.read().strip()
    if not text:
        raise click.UsageError("--task -: standard input is empty")
    return text


def checked(place: Path, known_tools: tuple[str, ...]) -> CheckedAgents:
    """Return the contents of a file or of a folder.

    Raises:
        InvalidDefError: not a folder.
    """
    found: tuple[AgentDef, ...] = ()
    problems: list[InvalidDefError] = []
    if not place.is_file():
        loader = AgentLoader(place, known_tools=known_tools)
        found, problems = loader.discover_agents(), [*loader.skipped]
    if not found and (place.is_file() or (place / FILE_NAME).is_file()):
        try:  # other texts beside it are not agents
            found = (load_agent(place, known_tools=known_tools),)
            problems = [each for each in problems if Path(each.path).parent != place]
        except InvalidDefError as error:
            problems = [error, *problems]
    agents = tuple(
        PrintedAgent(
            id=agent.id,
            name=agent.name,
            description=agent.description,
            model=agent.model_spec,
            tools=agent.tools,
        )
        for agent in found
    )
    ok, shown = bool(agents) and not problems, output.shown_path(place)
    return CheckedAgents(folder=shown, ok=ok, agents=agents, problems=tuple(problems))


def _describe(found: CheckedAgents) -> None:
    for agent in found.agents:
        output.line((agent.id, "green"), f"  {agent.description}")
    for problem in found.problems:
        output.line((problem.agent, "bold red"), f"  {problem.reason}")
        output.line((f"  {output.shown_path(problem.path)}", "dim"))
    if not found.agents and not found.problems:
        output.line(f"no agents in {found.folder}: expected NAME/AGENT.md or NAME.md")
        return
    said = words.counted(len(found.agents), "agent")
    output.line((f"{said}, {words.counted(len(found.problems), 'problem')}", "dim"))
