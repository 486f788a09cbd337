"""`refold agents check`: report the problems in a folder of agent files.

`tools.agents.agent_files` judges the contents; here every file is read, and all problems are
reported at once.
"""

from pathlib import Path
from typing import Final

import click

from refold.cli.arguments.logs import LOG, json_option
from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE, USAGE
from refold.cli.output.pages import page
from refold.cli.output.printed import AgentProblem, CheckedAgents, PrintedAgent
from refold.engine.errors import InvalidDefError
from refold.tools.agents.agent_files import FILE_NAME, NAMEABLE_TOOLS, AgentDef, load_agent
from refold.tools.agents.agent_loader import AgentLoader

_PAGE: Final = """
Examples:
  refold agents check agents
  refold agents check .
  refold agents check .claude/agents --tool web_search --json
"""


@click.group("agents", epilog=page(_PAGE), invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> int:
    """Check agent files: agents/NAME/AGENT.md, agents/NAME.md, or a single one."""
    if context.invoked_subcommand is not None:
        return FINE
    click.echo(context.get_help(), err=True)
    return USAGE


@command.command("check", epilog=page(_PAGE))
@click.argument("folder", metavar="[DIR]", type=LOG, default=Path("agents"))
@click.option(
    "--tool", "tools", metavar="NAME", multiple=True,
    help="Your own tool that agents may name; can be repeated.",
)  # fmt: skip
@json_option
def check(*, folder: Path, tools: tuple[str, ...]) -> int:
    """Report errors in the agent files of DIR (by default agents/).

    DIR can also be the folder of one agent, with its AGENT.md.

    Exit code: 0 all files define an agent · 1 one does not, or no file exists.
    """
    if not folder.is_dir():
        raise click.UsageError(f"{output.shown_path(folder)}: no such folder")
    document = checked(folder, (*NAMEABLE_TOOLS, *tools))
    return output.answer(document, lambda: _describe(document), FINE if document.ok else DIFFERS)


def checked(folder: Path, known_tools: tuple[str, ...]) -> CheckedAgents:
    """Return the contents of a folder.

    Raises:
        InvalidDefError: not a folder.
    """
    loader = AgentLoader(folder, known_tools=known_tools)
    found = loader.discover_agents()
    problems = list(loader.skipped)
    if not found and (folder / FILE_NAME).is_file():
        found, problems = _its_own(folder, known_tools, problems)
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
    told = tuple(
        AgentProblem(id=error.agent, path=output.shown_path(error.path), reason=error.reason)
        for error in problems
    )
    ok = bool(agents) and not told
    return CheckedAgents(folder=output.shown_path(folder), ok=ok, agents=agents, problems=told)


def _its_own(
    folder: Path, known_tools: tuple[str, ...], problems: list[InvalidDefError]
) -> tuple[tuple[AgentDef, ...], list[InvalidDefError]]:
    """Return the agent of this folder, and its problems, or those of the agents below.

    Other texts beside it are not agents.
    """
    try:
        agent = load_agent(folder, known_tools=known_tools)
    except InvalidDefError as error:
        return (), [error, *problems]
    return (agent,), [each for each in problems if Path(each.path).parent != folder]


def _describe(found: CheckedAgents) -> None:
    for agent in found.agents:
        output.line((agent.id, "green"), f"  {agent.description}")
    for problem in found.problems:
        output.line((problem.id, "bold red"), f"  {problem.reason}")
        output.line((f"  {problem.path}", "dim"))
    if not found.agents and not found.problems:
        output.line(f"no agents in {found.folder}: expected NAME/AGENT.md or NAME.md")
        return
    said = words.counted(len(found.agents), "agent")
    output.line((f"{said}, {words.counted(len(found.problems), 'problem')}", "dim"))
