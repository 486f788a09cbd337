"""The delegation tools that Refold ships: `subagents` makes one kind of them.

`shipped_tools` makes them without configuration. `as_offered` makes them as a recorded run had
them: their definitions and settings come from its log.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, get_args

from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.parameters import names_nearest
from refold.engine.encoding.strict import nearest
from refold.engine.errors import InvalidDefError, OptionRefused, ToolUnknown
from refold.engine.events.limits import Limits
from refold.engine.ports.ports import Policy, Program, Reference, Tool
from refold.tools.agents.agent_files import AgentDef, AgentLoader, agent_prompts
from refold.tools.agents.plans import planning_tools
from refold.tools.agents.profiles import SpawnProfile
from refold.tools.agents.prompts import PromptRegistry
from refold.tools.contract.policy import POLICIES, with_companions
from refold.tools.contract.tool_types import DelegationTool, with_approval
from refold.tools.delegation.dispatch_subagent import dispatch_subagent_tool
from refold.tools.delegation.dispatch_subagents import subagents_tool
from refold.tools.delegation.spawn import spawn_tools
from refold.tools.delegation.subagent import subagent_tool
from refold.tools.delegation.subagent_dispatch import DispatchOptions, discovered, made_of

Kind = Literal["subagent", "dispatch_subagent", "dispatch_subagents", "subagent_dispatch", "spawn"]
"""The five kinds, by the name of the tool that starts a child."""
Agents = str | os.PathLike[str] | AgentLoader | Iterable[AgentDef]
"""A folder of agent files, its loader, or the agents themselves."""


@names_nearest
def subagents(
    kind: Kind,
    /,
    *,
    agents: Agents | None = None,
    caller: str = "",
    prompts: PromptRegistry | None = None,
    profiles: Mapping[str, SpawnProfile] | None = None,
    program: Program | Reference | str = "agent",
    model: str = "",
    parameters: Mapping[str, Json] | None = None,
    tools: Iterable[str] | None = None,
    limits: Limits | None = None,
    policy: Policy | None = None,
    runner: str = "",
) -> list[Tool]:
    """Return the tools with which a model delegates work in one of five ways.

    Args:
        kind: `subagent`: one fresh agent for one task · `dispatch_subagents`: many at once, each
            with a plan · `spawn`: start agents, continue, and collect their results later ·
            `subagent_dispatch`: an agent that a file defines · `dispatch_subagent`: an agent that
            starts with a copy of the caller's session.
        agents: For `subagent_dispatch`, and as prompts for `dispatch_subagent`: a folder of agent
            files, an `AgentLoader`, or a list of `AgentDef`.
        caller: For `subagent_dispatch`: the id of the calling agent, which is not offered.
        prompts: For `dispatch_subagent`: the prompts that a call may name.
        profiles: For `spawn`: each a `SpawnProfile`, by name.
        program: What children run, instead of the agent loop.
        model: Their model, by a name given to `record(models=…)`; the caller's by default.
        parameters: Parameters of their model, such as `max_tokens`.
        tools: Names of their tools, among the run's; all of the caller's by default.
        limits: Limits of each child, in addition to the caller's.
        policy: Caps on their results.
        runner: Their runner, such as `subprocess`; the run's default if empty.

    Raises:
        OptionRefused: this kind does not have an option, or lacks one that it needs.
        UsageError: an option has the wrong type.
    """
    given: dict[str, Any] = {name: value for name, value in locals().items() if name != "kind"}
    if kind not in [*POLICIES]:
        known = get_args(Kind)
        found = f"{shown(kind)}{nearest(str(kind), known)}"
        raise OptionRefused("subagents", "kind", f"one of {', '.join(known)}", found)
    for name, kinds in _OWN.items():
        value = given[name] if kind in kinds else given.pop(name)
        if value not in (None, "") and kind not in kinds:
            expected = f"nothing for {kind}: it is an option of {' and '.join(kinds)}"
            raise OptionRefused("subagents", name, expected, shown(value))
    options = {name: value for name, value in given.items() if value is not None}
    if kind == "dispatch_subagent":
        options["prompts"] = _prompts(prompts, options.pop("agents", None))
    if kind == "subagent_dispatch":
        options["agents"], options["skipped"] = _known(agents, caller)
    made, names = MAKERS[kind](**options), with_companions([kind])
    return [tool for tool in made if tool.name in names]


def _prompts(prompts: PromptRegistry | None, agents: Agents | None) -> PromptRegistry:
    if prompts is None and agents is not None:
        return agent_prompts(_known(agents)[0])
    if not isinstance(prompts, PromptRegistry):
        expected = "a refold.tools.PromptRegistry, or agents=, for dispatch_subagent"
        raise OptionRefused("subagents", "prompts", expected, shown(prompts))
    return prompts


def _known(
    agents: Agents | None, caller: str = ""
) -> tuple[tuple[AgentDef, ...], tuple[InvalidDefError, ...]]:
    """Return the agents, and the errors of files that define none, which are warned of.

    Raises:
        OptionRefused: they are not agents, or no agent but the caller is among them.
    """
    given: Any = agents
    if isinstance(agents, str | os.PathLike):  # the run is refused if it lacks a tool of theirs
        given = AgentLoader(agents, known_tools=None)
    found: tuple[Any, ...] = ()
    if isinstance(given, AgentLoader):
        found = discovered(given)
    elif isinstance(given, Iterable):
        found = tuple(given)
    skipped: tuple[InvalidDefError, ...] = getattr(given, "skipped", ())
    are_agents = all(isinstance(each, AgentDef) for each in found)
    if not are_agents or not [each for each in found if each.id != caller]:
        expected = "a folder of agent files, or AgentDefs, with an agent that is not the caller"
        why = "; ".join(map(str, skipped)) or shown(agents)
        raise OptionRefused("subagents", "agents", expected, why)
    return found, skipped


_OWN: Final[Mapping[str, tuple[Kind, ...]]] = {
    "agents": ("subagent_dispatch", "dispatch_subagent"),
    "caller": ("subagent_dispatch",),
    "prompts": ("dispatch_subagent",),
    "profiles": ("spawn",),
}
"""The kinds that have an option."""


MAKERS: Final[Mapping[str, Callable[..., tuple[Tool, ...]]]] = {
    "subagent": lambda **options: (subagent_tool(**options),),
    "subagent_dispatch": lambda **options: (made_of(DispatchOptions.over(**options)),),
    "dispatch_subagent": lambda **options: (dispatch_subagent_tool(**options),),
    "dispatch_subagents": lambda **options: (subagents_tool(**options), *planning_tools()),
    "spawn": spawn_tools,
}
"""What makes the tools of a row, by the row's name; without options, as shipped."""


def shipped_tools() -> tuple[Tool, ...]:
    """Return the tools of all rows, in the order of the rows."""
    return tuple(tool for name in POLICIES for tool in MAKERS[name]())


def offered_tools(offers: Iterable[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Return the shipped delegation tools among the offers of a `run.started`, as offered."""
    found = []
    for offer in offers:
        if offer.get("delegates") and offer["name"] in _shipped():
            tool = as_offered(offer["name"], offer["description"], offer["schema"])
            found.append(with_approval(tool) if offer.get("approval") else tool)
    return tuple(found)


@functools.cache
def _shipped() -> dict[str, Tool]:
    return {tool.name: tool for tool in shipped_tools()}


def as_offered(name: str, description: str, schema: dict[str, Any]) -> DelegationTool:
    """Return the shipped tool of that name with the definition that a run was offered.

    Raises:
        ToolUnknown: none has that name.
    """
    tool = _shipped().get(name)
    if tool is None:
        raise ToolUnknown(name, tuple(_shipped()))
    definition = {"name": name, "description": description, "schema": schema}
    return DelegationTool(
        name=tool.name,
        description=description,
        parameters=schema,
        handler=tool.delegate,
        effect=tool.effect,
        tell=getattr(tool, "tell", None),
        measured=getattr(tool, "measured", ()),
        companions=POLICIES.get(name, ()),
        reference=Reference(__name__, "as_offered", definition),
        stands_in=True,
    )
