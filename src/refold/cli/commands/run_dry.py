"""Reports the problems of agent files, and runs nothing: `refold run --dry-run`.

`tools.agents.agent_files` judges the contents; here every file is read, and all problems are
reported at once.
"""

from pathlib import Path

from refold.cli.output import output, words
from refold.cli.output.exit_codes import DIFFERS, FINE
from refold.cli.output.printed import AgentProblem, CheckedAgents, PrintedAgent
from refold.engine.errors import InvalidDefError
from refold.tools.agents.agent_files import FILE_NAME, AgentDef, load_agent
from refold.tools.agents.agent_loader import AgentLoader


def run_dry(place: Path, known_tools: tuple[str, ...]) -> int:
    """Print the agent of a file, or those of a folder, and their problems."""
    document = checked(place, known_tools)
    return output.answer(document, lambda: _describe(document), FINE if document.ok else DIFFERS)


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
        found, problems = _its_own(place, known_tools, problems)
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
    return CheckedAgents(folder=output.shown_path(place), ok=ok, agents=agents, problems=told)


def _its_own(
    place: Path, known_tools: tuple[str, ...], problems: list[InvalidDefError]
) -> tuple[tuple[AgentDef, ...], list[InvalidDefError]]:
    """Return the agent of this file or folder, and its problems, or those of the agents below.

    Other texts beside it are not agents.
    """
    try:
        agent = load_agent(place, known_tools=known_tools)
    except InvalidDefError as error:
        return (), [error, *problems]
    return (agent,), [each for each in problems if Path(each.path).parent != place]


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
