"""`subagent_dispatch`: give a task to another agent that a file defines, and wait for it.

    in   agent_id, task, and perhaps context
    out  '{"result": "…", "session_id": "…"}', the text of one JSON object

The tool is made for one agent and offers all others by id; the child gets the tool made for *it*,
so that agents dispatch in any depth that the limits allow.  The child is a run of its own with a
log of its own; `tools.load_session` reads its conversation back by the id.  A child that does not
complete is a failed call, with its words; its log is there all the same.

How the tool is set up (who calls, which agents there are) is in the log from its first use in a
run on, so a replay reads no agent file.  Rules: CONTRACT.md §10.16.
"""

import json
import uuid
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from refold.engine.errors import DefNotFoundError, InvalidDefError, ToolError
from refold.engine.events.limits import Limits
from refold.engine.kernel.pending import Child
from refold.engine.ports.ports import Children
from refold.engine.program.agent import REFUSED
from refold.engine.program.run import Run, memory_of
from refold.tools.agents.agent_files import NAMEABLE_TOOLS, AgentDef, AgentLoader
from refold.tools.contract.options import ChildOptions, may_delegate
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    ChildEnd,
    ToolAnswer,
    ToolCall,
    checked,
    failing,
    frame,
    texts_schema,
)

NAME: Final = "subagent_dispatch"
_SESSIONS: Final = uuid.UUID("5f0c7a62-8d13-5c1e-9b6e-3d0a4b7c2e91")


@attrs.frozen(kw_only=True)
class SharedContext(ChildOptions):
    """What all dispatched agents have in common.

    Limits of an agent's definition hold in addition. An agent whose definition names no tools,
    model or parameters has these.
    """


@attrs.frozen(kw_only=True)
class DispatchOptions(SharedContext):
    """How the tool is set up: who calls, and the agents that there are."""

    caller: str = ""
    agents: Mapping[str, Mapping[str, Any]] = {}
    """Definitions by id, sorted, the caller's among them."""
    skipped: Mapping[str, str] = {}
    """Why a file was passed over, by the id that it would have had."""

    @classmethod
    def over(
        cls,
        agents: Iterable[AgentDef] = (),
        skipped: Iterable[InvalidDefError] = (),
        **options: Any,
    ) -> "DispatchOptions":
        """Return options with these agents, and the errors of files that define none."""
        known = {agent.id: agent.as_json() for agent in agents}
        reasons = {error.agent: error.reason for error in skipped}
        return cls(agents=dict(sorted(known.items())), skipped=reasons, **options)

    @property
    def others(self) -> tuple[AgentDef, ...]:
        """All agents but the caller."""
        return tuple(self.other(agent_id) for agent_id in self.agents if agent_id != self.caller)

    def other(self, agent_id: str) -> AgentDef:
        """Return one of the others.

        Raises:
            DefNotFoundError: none has this id.
        """
        if agent_id == self.caller or agent_id not in self.agents:
            raise DefNotFoundError(agent_id[:60])
        return AgentDef.from_json(self.agents[agent_id])

    @property
    def children(self) -> Children:
        """What all children need."""
        usual = super().children
        models = {each.model_spec for each in self.others} | {*usual.models}
        # Names that the files of agents may use for tools of Refold's own need not be the run's.
        named = {name for each in self.others for name in each.tools or ()} - {*NAMEABLE_TOOLS}
        return attrs.evolve(
            usual, models=tuple(sorted(models - {""})), named_tools=tuple(sorted(named))
        )


class SilentFrontend:
    """A frontend that shows nothing, for callers that need one.

    Children of a run have no frontend; their output is in their own logs.
    """

    async def show_message(self, _content: str, /) -> None:
        """Show nothing."""

    async def show_status(self, _content: str, /) -> None:
        """Show nothing."""


def create_subagent_dispatch_tool(
    agent_loader: AgentLoader, current_agent_id: str, context: SharedContext | None = None
) -> DelegationTool | None:
    """Return the tool with which the agent `current_agent_id` dispatches to all others.

    `None` if no other exists. Files that do not define an agent are skipped with a warning, and
    the log of a run that uses the tool has them with the reasons.
    """
    agents, shared = discovered(agent_loader), context or SharedContext()
    usual = {each.name: getattr(shared, each.name) for each in attrs.fields(SharedContext)}
    options = DispatchOptions.over(agents, agent_loader.skipped, caller=current_agent_id, **usual)
    return made_of(options) if options.others else None


def discovered(loader: AgentLoader) -> tuple[AgentDef, ...]:
    """Return the agents of a folder, with a warning for each file that defines none."""
    agents = loader.discover_agents()
    for skipped in loader.skipped:
        warnings.warn(f"agent skipped: {skipped}", RuntimeWarning, stacklevel=3)
    return agents


def made_of(options: DispatchOptions) -> DelegationTool:
    """Return the tool; without agents for a replay, which finds them in its log."""
    agents = "".join(
        f'  <agent id="{agent.id}">{agent.description}</agent>\n' for agent in options.others
    )
    listed = f"<available_agents>\n{agents}</available_agents>"
    return DelegationTool(
        **frame(options, name=NAME, make=made_of, ask=_asked),
        description=f"Dispatch a task to a specialized subagent.\n{listed}",
        parameters=_schema(options),
    )


def session_id_of(run_id: str) -> str:
    """Return the session id of a child: a UUID that follows from its run id."""
    return str(uuid.uuid5(_SESSIONS, run_id))


def _schema(options: DispatchOptions) -> dict[str, Any]:
    texts = {
        "agent_id": "ID of the agent to dispatch to",
        "task": "The task for the subagent to perform",
        "context": "Optional context information for the subagent",
    }
    schema = texts_schema(texts, "agent_id", "task", most=options.request_bytes)
    schema["properties"]["agent_id"]["enum"] = [agent.id for agent in options.others]
    schema["properties"]["context"]["default"] = ""
    return schema


def _tell_skipped(run: Run, options: DispatchOptions) -> None:
    """Say which files define no agent."""
    for agent_id, reason in options.skipped.items():
        run.annotate("agent skipped", {"agent": agent_id, "reason": reason})


# --- one call ------------------------------------------------------------------------------------


def _asked(run: Run, options: DispatchOptions, arguments: Mapping[str, Any]) -> ToolCall[str]:
    memory_of(run, f"{NAME} skipped", lambda: _tell_skipped(run, options))
    details = {"agent": arguments.get("agent_id")}
    try:
        checked(NAME, arguments, _schema(options), options)
        agent = options.other(arguments["agent_id"])
        delegation = _delegation(run, options, agent, arguments)
    except (DefNotFoundError, ToolError) as error:
        said = str(error)
        if isinstance(error, DefNotFoundError):  # the model gets just its text
            error = ToolError(NAME, said, REFUSED, type(error).__name__)
        return failing(NAME, arguments.get("task"), error, said, **details)
    return ToolCall(
        tool=NAME,
        task=arguments["task"],
        details=details,
        delegations=[delegation],
        render=lambda children: _answer(run, children[0]),
    )


def _delegation(
    run: Run, options: DispatchOptions, agent: AgentDef, arguments: Mapping[str, Any]
) -> Any:
    """Return the child: another agent, with the tools of its definition and a tool of its own.

    A model that its definition names and the run has not is refused.
    """
    task, context = arguments["task"], arguments.get("context")
    own = attrs.evolve(options, caller=agent.id, skipped={})
    known = {tool.name for tool in run.tools} - {NAME}
    registered = {*(options.offered(run, sorted(known)) or ())} & known
    offered = {*agent.tools_among(registered)}
    own_tools = (made_of(own),) if may_delegate(run, options.levels) and own.others else ()
    if own_tools and NAME not in agent.disallowed_tools:
        offered.add(NAME)
    return options.delegation(
        NAME,
        agent.id,
        task,
        name=agent.name,
        system=agent.system_prompt,
        model=_model_of(run, agent) or options.model,
        parameters=agent.parameters,
        tools=tuple(sorted(registered)),
        own_tools=own_tools,
        limits=(options.limits or Limits()).narrowed(agent.caps),
        agent_tools=sorted(offered),
        given={"task": f"{task}\n\nContext:\n{context}"} if context else {},
    )


def _model_of(run: Run, agent: AgentDef) -> str:
    """Return the model that an agent's definition names; empty where it names none."""
    named = agent.model_spec
    if not named or named in run.models:
        return named
    known = ", ".join(filter(None, run.models)) or "none"
    why = (
        f"agent {agent.id!r} needs the model {named!r}, and this run has none of that name (there "
        f"are: {known}). Choose another agent, or do the work yourself."
    )
    raise ToolError(NAME, why, "model")


def _answer(run: Run, child: Child) -> ToolAnswer[str]:
    ended = ChildEnd.of(run, child)
    session_id = session_id_of(child.run_id) if child.run_id else None
    note = {**ended.note, "session_id": session_id}
    ids = (session_id,) if session_id else ()
    if ended.error is None:
        said = {"result": ended.answer, "session_id": session_id}
        return ToolAnswer(json.dumps(said), note, ids)
    code = ended.error.partition(": ")[0]
    message = ended.failure.removeprefix(f"{code}: ")
    return ToolAnswer(ToolError(NAME, message, code), note, ids)
