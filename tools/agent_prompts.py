"""Agents of files as prompts: what `dispatch_subagent` offers where there is no code with prompts.

Each agent is the prompt (`agents`, its id).  The definitions are in the log from the first use in
a run on, so a replay needs no files.  The tool itself is `tools.dispatch_subagent`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from refold.engine.canonical import Json
from refold.engine.ports import Reference
from refold.engine.run import Run
from refold.tools.agents import AgentDef
from refold.tools.contract import DelegationTool
from refold.tools.delegation import settings_of
from refold.tools.dispatch_subagent import NAME, dispatch_subagent_tool
from refold.tools.prompts import MarkdownSection, Prompt, PromptFactory, PromptRegistry

NAMESPACE: Final = "agents"


def agent_prompts_tool(agents: Iterable[AgentDef] = ()) -> DelegationTool:
    """Return `dispatch_subagent` over agents; without any, for a replay."""
    return made({agent.id: agent.as_json() for agent in agents})


def made(agents: Mapping[str, Mapping[str, Any]]) -> DelegationTool:
    """Return the tool that a reference describes."""
    plain: dict[str, Json] = {"agents": {name: dict(agents[name]) for name in sorted(agents)}}

    async def handler(run: Run, arguments: dict[str, Json], /) -> Json:
        settings = settings_of(run, NAME, lambda: plain)
        tool = dispatch_subagent_tool(prompts=registry_of(settings["agents"]))
        return await tool.delegate(run, arguments)

    inner = dispatch_subagent_tool()
    names = ", ".join(plain["agents"]) or "none"
    return DelegationTool(
        name=NAME,
        description=f"{inner.description} Prompts of the namespace {NAMESPACE!r}: {names}.",
        parameters=inner.parameters,
        handler=handler,
        reference=Reference(__name__, made.__name__, plain),
    )


def registry_of(agents: Mapping[str, Mapping[str, Any]]) -> PromptRegistry:
    """Return a registry with a prompt for each definition."""
    registry = PromptRegistry()
    for agent_id, plain in agents.items():
        registry.register(NAMESPACE, agent_id, _factory(AgentDef.from_json(plain)))
    return registry


def _factory(agent: AgentDef) -> PromptFactory:
    text = agent.system_prompt.replace("$", "$$")
    section = MarkdownSection[Any](title=agent.name, key=agent.id, template=text)
    return lambda **_: Prompt[str](ns=NAMESPACE, key=agent.id, sections=(section,))
