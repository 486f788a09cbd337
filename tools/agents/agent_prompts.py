"""Agents from files as prompts, for `dispatch_subagent` without prompts in code.

Each agent is the prompt (`agents`, its id); the tool itself is
`tools.delegation.dispatch_subagent`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from refold.engine.ports.ports import Reference
from refold.tools.agents.agent_files import AgentDef
from refold.tools.agents.prompts import MarkdownSection, Prompt, PromptFactory, PromptRegistry

NAMESPACE: Final = "agents"


def agent_prompts(agents: Iterable[AgentDef]) -> PromptRegistry:
    """Return a registry with a prompt for each agent; a subprocess makes the same one."""
    return remade({agent.id: agent.as_json() for agent in agents})


def remade(agents: Mapping[str, Mapping[str, Any]]) -> PromptRegistry:
    """Return the registry that a reference describes."""
    plain = {agent_id: dict(agents[agent_id]) for agent_id in sorted(agents)}
    registry = PromptRegistry(reference=Reference(__name__, remade.__name__, {"agents": plain}))
    for agent_id, definition in plain.items():
        registry.register(NAMESPACE, agent_id, _factory(AgentDef.from_json(definition)))
    return registry


def _factory(agent: AgentDef) -> PromptFactory:
    text = agent.system_prompt.replace("$", "$$")
    section = MarkdownSection[Any](title=agent.name, key=agent.id, template=text)
    return lambda **_: Prompt[str](ns=NAMESPACE, key=agent.id, sections=(section,))
