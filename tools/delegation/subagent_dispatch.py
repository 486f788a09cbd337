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

from refold.engine.encoding.canonical import Json
from refold.engine.errors import DefNotFoundError, InvalidDefError, ToolError
from refold.engine.events.limits import Limits
from refold.engine.ports.delegation import Children, Delegation
from refold.engine.ports.ports import Program, Reference
from refold.engine.program.agent import REFUSED, caller
from refold.engine.program.run import Run
from refold.tools.agents.agent_files import NAMEABLE_TOOLS, AgentDef
from refold.tools.agents.agent_loader import AgentLoader
from refold.tools.contract.memory import memory_of, settings_of
from refold.tools.contract.policy import POLICIES
from refold.tools.contract.tool_types import DelegationTool
from refold.tools.delegation.shared import (
    call_begins,
    call_ends,
    call_failed,
    delegate_one,
    may_delegate,
    offered_to_child,
    outcome_in,
    remaking,
    text_problems,
    texts_schema,
)
from refold.tools.delegation.words import error_of, handed_back, told_of

NAME: Final = "subagent_dispatch"
_ROW: Final = POLICIES[NAME]
_SESSIONS: Final = uuid.UUID("5f0c7a62-8d13-5c1e-9b6e-3d0a4b7c2e91")


@attrs.frozen(kw_only=True)
class SharedContext:
    """What all dispatched agents have in common.  The models that call can change none of it."""

    program: Program | Reference | str = "agent"
    """The child's program."""
    limits: Limits = Limits()
    """Limits for each child, in addition to those in its definition and the caller's."""
    runner: str = ""
    """What children run on; empty for the run's default."""


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

    `None` if there are no others. Files that do not define an agent are skipped with a warning, and
    the log of a run that uses the tool has them with the reasons.
    """
    agents = agent_loader.discover_agents()
    for skipped in agent_loader.skipped:
        warnings.warn(f"agent skipped: {skipped}", RuntimeWarning, stacklevel=2)
    return dispatch_tool(current_agent_id, agents, agent_loader.skipped, context)


def dispatch_tool(
    current_agent_id: str = "",
    agents: Iterable[AgentDef] = (),
    skipped: Iterable[InvalidDefError] = (),
    context: SharedContext | None = None,
) -> DelegationTool | None:
    """Return the tool for already loaded agents; `None` if there are none but the caller."""
    known = {agent.id: agent.as_json() for agent in agents}
    catalog = _Catalog(
        caller=current_agent_id,
        agents=dict(sorted(known.items())),
        skipped={error.agent: error.reason for error in skipped},
    )
    return _made(catalog, context or SharedContext()) if catalog.others else None


def unconfigured() -> DelegationTool:
    """Return the tool without agents: for a replay, which finds in the log how it was set up."""
    return _made(_Catalog(), SharedContext())


def remade(
    catalog: dict[str, Any],
    limits: dict[str, Any],
    runner: str = "",
    program: dict[str, Any] | None = None,
) -> DelegationTool:
    """Return the tool that a reference describes."""
    runs = "agent" if program is None else Reference(**program)
    context = SharedContext(program=runs, limits=Limits.from_json(limits), runner=runner)
    return _made(_Catalog(**catalog), context)


def session_id_of(run_id: str) -> str:
    """Return the session id of a child: a UUID that follows from its run id."""
    return str(uuid.uuid5(_SESSIONS, run_id))


# --- what there is to dispatch to ----------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Catalog:
    """The agents, and who calls: plain data, as a log holds it."""

    caller: str = ""
    agents: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    """Definitions by id, sorted, the caller's among them."""
    skipped: dict[str, str] = attrs.field(factory=dict)
    """Why a file was passed over, by the id that it would have had."""

    @property
    def all(self) -> tuple[AgentDef, ...]:
        return tuple(AgentDef.from_json(plain) for plain in self.agents.values())

    @property
    def others(self) -> tuple[AgentDef, ...]:
        return tuple(agent for agent in self.all if agent.id != self.caller)

    def other(self, agent_id: Json) -> AgentDef:
        for agent in self.others:
            if agent.id == agent_id:
                return agent
        raise DefNotFoundError(str(agent_id))


def _made(catalog: _Catalog, context: SharedContext) -> DelegationTool:
    plain: dict[str, Json] = {
        "catalog": attrs.asdict(catalog),
        "limits": context.limits.as_json(),
    }

    async def handler(run: Run, arguments: dict[str, Json], /) -> Json:
        settings = settings_of(run, NAME, lambda: plain)
        now = attrs.evolve(context, limits=Limits.from_json(settings["limits"]))
        catalog = _Catalog(**settings["catalog"])
        return await _Call(run, catalog, now, arguments).handled()

    # Names that the files of agents may use for tools of Refold's own need not be the run's.
    named = {name for each in catalog.others for name in each.tools or ()}
    return DelegationTool(
        name=NAME,
        description=f"Dispatch a task to a specialized subagent.\n{_listed(catalog.others)}",
        parameters=_schema(catalog.others),
        handler=handler,
        reference=remaking(__name__, {**plain, "runner": context.runner}, context.program),
        children=Children(
            program=context.program,
            named_tools=tuple(sorted(named - {*NAMEABLE_TOOLS})),
            models=tuple(sorted({each.model_spec for each in catalog.others} - {""})),
            runner=context.runner,
        ),
    )


def _listed(agents: Iterable[AgentDef]) -> str:
    lines = (f'  <agent id="{agent.id}">{agent.description}</agent>\n' for agent in agents)
    return f"<available_agents>\n{''.join(lines)}</available_agents>"


def _schema(agents: Iterable[AgentDef]) -> dict[str, Any]:
    texts = {
        "agent_id": "ID of the agent to dispatch to",
        "task": "The task for the subagent to perform",
        "context": "Optional context information for the subagent",
    }
    schema = texts_schema(texts, "agent_id", "task")
    schema["properties"]["agent_id"]["enum"] = [agent.id for agent in agents]
    schema["properties"]["context"]["default"] = ""
    return schema


# --- one call ------------------------------------------------------------------------------------


@attrs.frozen
class _Call:
    """One call, and how the tool is set up in the run that makes it."""

    run: Run
    catalog: _Catalog
    context: SharedContext
    arguments: Mapping[str, Json]

    async def handled(self) -> str:
        """Return the result and the session id; the call is always logged."""
        run, arguments = self.run, self.arguments
        ticket = call_begins(run, NAME, arguments.get("task"), agent=arguments.get("agent_id"))
        memory_of(run, f"{NAME} skipped", self._tell_skipped)
        try:
            self._check_arguments()
            delegation = self._delegation()
        except (DefNotFoundError, ToolError) as error:
            call_failed(run, ticket, str(error))
            if isinstance(error, DefNotFoundError):  # the model gets just its text
                raise ToolError(NAME, str(error), REFUSED, type(error).__name__) from None
            raise
        child = await delegate_one(run, delegation)
        session_id = session_id_of(child.run_id) if child.run_id else None
        outcome = outcome_in(child)
        fault = outcome.error
        said = error_of(outcome, run=run, limits=child.limits)
        call_ends(
            run,
            ticket,
            ids=[session_id] if session_id else (),
            success=outcome.ok,
            timed_out=outcome.status == "timed_out",
            error=said,
            duration_ms=outcome.duration_ms,
            session_id=session_id,
        )
        if fault is not None and said is not None:
            code, _, why = said.partition(": ")
            raise ToolError(NAME, told_of(outcome, why), code)
        return json.dumps({"result": handed_back(outcome), "session_id": session_id})

    def _check_arguments(self) -> None:
        if problems := text_problems(self.arguments, _schema(self.catalog.others)):
            raise ToolError(NAME, "; ".join(problems), "arguments")

    def _delegation(self) -> Delegation:
        """Return the child: another agent, with the tools of its definition and a tool of its own.

        A model that its definition names and the run has not is refused.
        """
        agent = self.catalog.other(self.arguments.get("agent_id"))
        message = _message(self.arguments)
        own = dispatch_tool(agent.id, self.catalog.all, context=self.context)
        if not may_delegate(self.run, _ROW.levels):
            own = None
        names = sorted({tool.name for tool in self.run.tools} - {NAME})
        registered = set(offered_to_child(self.run, names, _ROW.levels))
        offered = set(agent.tools_among(registered))
        if own is not None and NAME not in agent.disallowed_tools:
            offered.add(NAME)
        own_settings = caller().child(
            name=agent.name, system=agent.system_prompt, model=self._model_of(agent),
            parameters=agent.parameters,
        )  # fmt: skip
        given = {**own_settings, "tools": sorted(offered)}
        return Delegation(
            program=self.context.program,
            input={"agent": given, "task": message},
            brief=self.arguments["task"],
            agent=agent.id,
            tool=NAME,
            tools=tuple(sorted(registered)),
            own_tools=(own,) if own is not None else (),
            levels=_ROW.levels,
            limits=self.context.limits.narrowed(agent.caps),
            policy=_ROW.policy,
            runner=self.context.runner,
        )

    def _model_of(self, agent: AgentDef) -> str:
        """Return the child's model by its name in the run: its definition's, else its caller's."""
        named = agent.model_spec
        if named in self.run.models:
            return named
        if named:
            known = ", ".join(filter(None, self.run.models)) or "none"
            why = (
                f"agent {agent.id!r} names the model {named!r}, and the run has none of that name; "
                f"it has {known}. Pass models={{{named!r}: …}} (--model {named}=SPEC on the "
                "command line)"
            )
            raise ToolError(NAME, why, "model")
        return caller().model

    def _tell_skipped(self) -> None:
        """Say which files define no agent."""
        for agent_id, reason in self.catalog.skipped.items():
            self.run.annotate("agent skipped", {"agent": agent_id, "reason": reason})


def _message(arguments: Mapping[str, Json]) -> str:
    """Return the message to the child."""
    task, context = arguments.get("task"), arguments.get("context", "")
    for name, text in (("task", task), ("context", context)):
        if type(text) is not str:
            raise ToolError(NAME, f"/{name}: expected text, found {text!r:.60}", "arguments")
    return f"{task}\n\nContext:\n{context}" if context else str(task)
