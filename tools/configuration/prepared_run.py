"""A run from an agent file and a configuration: its input, tools, limits and models.

This module makes the tools that a file may name without registering them. By default an agent has
those that only read or delegate; `write_file` and `run_command` must be named.
`tools.agents.agent_files` and `tools.configuration.config` read the files.  Rules: CONTRACT.md
§10.6, §10.18.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import InvalidDefError, UsageError
from refold.engine.events.limits import Limits
from refold.engine.models import model_from
from refold.engine.ports.ports import Model, Program, Tool
from refold.engine.session import Session
from refold.tools.agents.agent_files import (
    DELEGATION_TOOLS,
    NAMEABLE_TOOLS,
    PLANNING_TOOLS,
    SHIPPED_TOOLS,
    AgentDef,
    AgentLoader,
    agent_input,
    agent_prompts,
    folder_for,
    load_agent,
)
from refold.tools.agents.plans import planning_tools, register_plans
from refold.tools.agents.profiles import SPAWN_TOOLS, SpawnSettings, with_profiles
from refold.tools.configuration.config import Config
from refold.tools.contract.policy import with_companions
from refold.tools.contract.tool_types import with_approval
from refold.tools.delegation.shipped import MAKERS
from refold.tools.files.commands import run_command_tool, write_file_tool
from refold.tools.files.file_tools import NAMES, file_tools


@attrs.frozen(kw_only=True)
class Prepared:
    """Everything needed to run an agent file."""

    input: dict[str, Json]
    tools: tuple[Tool, ...]
    limits: Limits
    agents: tuple[AgentDef, ...]
    """The agent itself, and those that `subagent_dispatch` gives tasks to, by which run ever."""
    notes: tuple[str, ...] = ()
    """The folder in which other agents were looked for, files that define none, and named tools
    that the agent does not get."""

    def __iter__(self) -> Iterator[Any]:
        """Yield the input, tools and limits: `given, tools, limits = prepare_run(…)`."""
        return iter((self.input, self.tools, self.limits))


def prepare_run(
    agent_path: str | os.PathLike[str],
    *,
    task: str,
    root: str | os.PathLike[str],
    config: Config | None = None,
    own: Iterable[Tool] = (),
) -> Prepared:
    """Return the input, tools and limits with which `record("agent", …)` runs an agent file.

    Args:
        agent_path: The file or its folder.
        task: The agent's task.
        root: The folder that its file tools read.
        config: The project's configuration; empty by default.
        own: Additional tools that files may name like shipped ones. An agent that names no tools
            has all of them. One replaces the shipped tool of the same name.

    Raises:
        InvalidDefError: the file does not define an agent, or names an unavailable tool.
        ToolRefused: `root` is not a folder.
    """
    added = {tool.name: tool for tool in own}
    agent = load_agent(agent_path, known_tools=(*NAMEABLE_TOOLS, *added))
    shelf = _Shelf(agent, Path(agent_path), root, config or Config(), added)
    tools = shelf.tools()
    names = [tool.name for tool in tools]
    told = agent
    if SPAWN_TOOLS[0] in names:
        prompt = with_profiles(agent.system_prompt, shelf.spawn.profiles)
        told = attrs.evolve(agent, system_prompt=prompt)
    given = agent_input(attrs.evolve(told, tools=None), task, known_tools=names)
    limits = agent.caps.narrowed(shelf.config.limits)
    others = shelf.others if "subagent_dispatch" in names else []
    return Prepared(
        input=given, tools=tools, limits=limits, agents=(agent, *others), notes=(*shelf.notes,)
    )


def delegation_run(
    kinds: Sequence[str],
    *,
    root: str | os.PathLike[str],
    config: Config | None = None,
    own: Iterable[Tool] = (),
    program: Program | str = "agent",
) -> Prepared:
    """Return the tools and limits of a run that offers kinds of delegation to a client.

    The subagents run `program`. They have the tools that the configuration enables, else those that
    read files, and `own`. The input is that of the program `client_calls`.

    Raises:
        UsageError: the configuration disables a kind, or there is no agent that it could offer.
        InvalidDefError: as for `prepare_run`.
        ToolRefused: as for `prepare_run`.
    """
    config = config or Config()
    added = {tool.name: tool for tool in own}
    starters = with_companions(kinds)
    lent = [*(name for name in config.enabled or NAMES if name not in DELEGATION_TOOLS), *added]
    client = AgentDef(id="client", name="client", description="", tools=(*starters, *lent))
    children = {"program": program, "tools": tuple(lent)}
    place = (config.agents or Path(root) / "agents") / "client.md"
    shelf = _Shelf(client, place, root, attrs.evolve(config, enabled=None), added, children)
    tools = shelf.tools()
    if missing := sorted({*starters} - {tool.name for tool in tools}):
        why = "it is disabled, or no agent file is there"
        raise UsageError(f"{missing[0]} cannot be offered: {why} ({place.parent})")
    return Prepared(
        input={"tools": [*starters]}, tools=tools, limits=config.limits,
        agents=(client, *shelf.others), notes=(*shelf.notes,),
    )  # fmt: skip


def models_for(
    agents: Sequence[AgentDef],
    config: Config,
    *,
    said: Mapping[str, str],
) -> dict[str, Model]:
    """Return a run's models by name; the first agent's has the empty name.

    Args:
        agents: As `Prepared.agents`.
        config: Its pools are models of the run; a file may name one.
        said: Specs of `engine.models.model_from` by model name; "" replaces the first agent's
            model, "*" stands for all names in files.

    Raises:
        UsageError: a file names an unmapped model, or `said` has a name that no file uses.
        ModelNotFound: a model spec has an unknown form.
    """
    models = pool_models(config)
    lead, *others = agents
    named = [agent.model_spec for agent in agents if agent.model_spec]
    if unknown := sorted(said.keys() - {*named, "", "*"}):
        known = ", ".join(sorted(set(named))) or "none"
        raise UsageError(
            f"--model {unknown[0]}=…: no agent uses that model name; the names in use are {known}"
        )
    if "" in said:
        models[""] = model_from(said[""])
    elif lead.model_spec:
        models[""] = _model_of(lead, said, models)
    elif config.default_pool:
        models[""] = models[config.default_pool]
    for other in others:
        if other.model_spec:
            models[other.model_spec] = _model_of(other, said, models)
    if others and lead.model_spec:  # they may give it a task, too
        models.setdefault(lead.model_spec, models[""])
    return models


def _model_of(agent: AgentDef, said: Mapping[str, str], pools: Mapping[str, Model]) -> Model:
    """Return the model that an agent's file names."""
    name = agent.model_spec
    spec = said.get(name) or said.get("*")
    if spec is None and name in pools:
        return pools[name]
    if spec is None and ":" not in name:
        raise UsageError(
            f"agent {agent.id!r} uses the model {name!r}, which is not defined: pass --model "
            f"{name}=openai:NAME, or add a pool of that name to refold.yaml"
        )
    spec = spec or name
    return model_from(spec)


def pool_models(config: Config) -> dict[str, Model]:
    """Return the models of the pools, by the names that profiles use.

    Raises:
        ModelNotFound: a pool names one in a form that does not exist.
    """
    return {name: model_from(pool.model, pool.base_url) for name, pool in config.pools.items()}


def tools_offered(
    offers: Iterable[Mapping[str, Any]], root: str | os.PathLike[str]
) -> tuple[Tool, ...]:
    """Return the non-delegating tools in the offers of a `run.started` that need only a folder.

    Raises:
        ToolRefused: `root` is not a folder.
    """
    made: list[Tool] = [*file_tools(root), *planning_tools(), write_file_tool(root)]
    asks = {offer["name"]: bool(offer.get("approval")) for offer in offers}
    known = [tool for tool in made if tool.name in asks]
    return tuple(with_approval(tool) if asks[tool.name] else tool for tool in known)


def session_for(tools: Iterable[Tool]) -> Session | None:
    """Return an empty session with plans for a run whose tools keep one; `None` for any other."""
    return planned() if any(tool.name in PLANNING_TOOLS for tool in tools) else None


def planned() -> Session:
    """Return an empty session with plans, for runs with planning tools."""
    session = Session()
    register_plans(session)
    return session


@attrs.frozen
class _Shelf:
    """Makes the tools of one agent."""

    agent: AgentDef
    path: Path
    root: str | os.PathLike[str]
    config: Config
    own: dict[str, Tool]
    """Tools that are not shipped, by name."""
    children: Mapping[str, Any] = {}
    """Options of all delegation tools."""
    others: list[AgentDef] = attrs.field(factory=list, init=False)
    """Those that `subagent_dispatch` gives tasks to, once the tools are made."""
    notes: dict[str, None] = attrs.field(factory=dict, init=False)
    """As `Prepared.notes`, once the tools are made; in this order."""

    @property
    def spawn(self) -> SpawnSettings:
        """The configured settings; without them, `spawn` is enabled for agents that name it."""
        named = self.config.spawn
        return SpawnSettings(enabled=self._names(*SPAWN_TOOLS)) if named is None else named

    def tools(self) -> tuple[Tool, ...]:
        """Return the tools that the agent has, sorted by name."""
        shipped: list[Tool] = [*file_tools(self.root), write_file_tool(self.root)]
        for name, make in MAKERS.items():
            options = self._options(name)
            shipped += () if options is None else make(**options, **self.children)
        if self._names("run_command"):
            shipped.append(self._command())
        has = {tool.name: tool for tool in (*shipped, *self.own.values()) if self._may(tool.name)}
        for name in self.agent.tools or ():
            if name not in has and name not in self.agent.disallowed_tools:
                self.notes[f"{self.agent.id} has no {name}: {self._why_missing(name)}"] = None
        asked = self.config.approval
        return tuple(
            with_approval(has[name]) if name in asked else has[name] for name in sorted(has)
        )

    def _names(self, *names: str) -> bool:
        """Return whether the agent names one of them."""
        return any(name in (self.agent.tools or ()) for name in names)

    def _may(self, name: str) -> bool:
        """Return whether the agent has a tool: it lacks disabled ones, except `subagent`.

        It has `subagent_dispatch` if there are agents, as its children do (CONTRACT.md §10.16),
        unless its file or the configuration forbids it.
        """
        if name == "subagent_dispatch":
            return name not in self.agent.disallowed_tools and self.config.allows(name)
        if name not in self.agent.tools_among([name]):
            return False
        if self.agent.tools is None and name not in (*SHIPPED_TOOLS, *SPAWN_TOOLS, *self.own):
            return False
        return name == "subagent" or self.config.allows(name)

    def _why_missing(self, name: str) -> str:
        if not self.config.allows(name):
            return "the configuration does not enable it"
        if name in SPAWN_TOOLS:
            return "set tools.spawn.enabled in refold.yaml"
        return "there is no other agent"

    def _options(self, name: str) -> dict[str, Any] | None:
        """Return the options of a kind of delegation in this project; `None` without the kind."""
        config = self.config
        match name:
            case "subagent":
                return {"enabled": config.allows(name)}
            case "spawn":
                workspace = "" if config.folder == Path() else os.fspath(config.folder)
                pool = config.default_pool
                return {"settings": self.spawn, "workspace": workspace, "default_pool": pool}
            case "dispatch_subagent":
                agents = self._discovered()[0] if self._names(name) else ()
                return {"prompts": agent_prompts(self._without_own(agents))}
            case "subagent_dispatch":
                if config.agents is None and not self._names(name):
                    return None
                agents, skipped = self._discovered()
                self.others[:] = self._without_own(agents)
                own = {"caller": self.agent.id, "agents": agents, "skipped": skipped}
                return own if self.others else None
            case _:
                return {}

    def _loader(self) -> AgentLoader:
        """Return the other agents: of the configured folder, else of the nearest one."""
        folder = self.config.agents or folder_for(self.path)
        return AgentLoader(folder, known_tools=(*NAMEABLE_TOOLS, *self.own))

    def _discovered(self) -> tuple[tuple[AgentDef, ...], tuple[InvalidDefError, ...]]:
        """Return the agents of the folder, and its files that define none; both are noted."""
        loader = self._loader()
        found = loader.discover_agents()
        names = ", ".join(one.id for one in self._without_own(found)) or "none"
        self.notes[f"other agents in {loader.folder}: {names}"] = None
        self.notes.update(dict.fromkeys(f"skipped: {error}" for error in loader.skipped))
        return found, loader.skipped

    def _without_own(self, agents: Iterable[AgentDef]) -> list[AgentDef]:
        return [one for one in agents if one.id != self.agent.id]

    def _command(self) -> Tool:
        if not self.config.commands:
            why = (
                "run_command needs a list of allowed commands: set "
                "tools.run_command.allow in refold.yaml"
            )
            raise InvalidDefError(self.agent.id, why, os.fspath(self.path))
        variables = self.config.environment
        return run_command_tool(self.root, allow=self.config.commands, environment=variables)
