"""Tools that an agent can call: the tool contract, file tools, agents and prompts, delegation.

Input: functions and configuration. Output: tools that a program can be offered. Imports only
`refold.engine`. Each folder may import the folders above it in this list.  Names load on first use,
so that importing the package costs nothing.  Rules: CONTRACT.md §10.

    contract/         the definition of a tool: a function with a name, a schema, types that a log
    keeps
    files/            tools that read and write files, and run commands
    agents/           agents defined in files, prompts, plans, profiles
    delegation/       the delegation tools, one file and one row each
    configuration/    `refold.yaml`, and runs configured by it
"""

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.engine.errors import (
        DefNotFoundError as DefNotFoundError,
        DispatchSubagentError as DispatchSubagentError,
        InvalidDefError as InvalidDefError,
        ToolValidationError as ToolValidationError,
    )
    from refold.engine.ports.ports import (
        CallContext as CallContext,
        Policy as Policy,
        Reference as Reference,
        Tool as Tool,
    )
    from refold.engine.session import Session as Session
    from refold.tools.agents.agent_files import (
        AgentDef as AgentDef,
        agent_input as agent_input,
        load_agent as load_agent,
    )
    from refold.tools.agents.agent_files import AgentLoader as AgentLoader
    from refold.tools.agents.plans import (
        Plan as Plan,
        PlanningToolsSection as PlanningToolsSection,
        PlanStep as PlanStep,
        planning_tools as planning_tools,
        register_plans as register_plans,
    )
    from refold.tools.agents.profiles import (
        SpawnProfile as SpawnProfile,
        SpawnSettings as SpawnSettings,
        SubAgentFactory as SubAgentFactory,
        profiles_block as profiles_block,
        with_profiles as with_profiles,
    )
    from refold.tools.agents.prompts import (
        MarkdownSection as MarkdownSection,
        Prompt as Prompt,
        PromptRegistry as PromptRegistry,
        PromptTool as PromptTool,
        RenderedPrompt as RenderedPrompt,
        ToolContext as ToolContext,
        ToolResult as ToolResult,
        context_of as context_of,
        use_prompt as use_prompt,
    )
    from refold.tools.configuration.config import (
        Config as Config,
        load_config as load_config,
        spawn_settings as spawn_settings,
    )
    from refold.tools.configuration.prepared_run import prepare_run as prepare_run
    from refold.tools.contract.options import settings_of as settings_of
    from refold.tools.contract.registry import Registry as Registry
    from refold.tools.contract.tool_types import (
        DelegationTool as DelegationTool,
        FunctionTool as FunctionTool,
        as_tool as as_tool,
        tool as tool,
    )
    from refold.tools.delegation.dispatch_subagent import (
        DispatchSubagent as DispatchSubagent,
        DispatchSubagentResult as DispatchSubagentResult,
        PromptSubagentToolsSection as PromptSubagentToolsSection,
        SubagentMode as SubagentMode,
        dispatch_subagent_tool as dispatch_subagent_tool,
    )
    from refold.tools.delegation.dispatch_subagents import (
        DispatchSubagentsParams as DispatchSubagentsParams,
        SubagentIsolationLevel as SubagentIsolationLevel,
        SubagentResult as SubagentResult,
        SubagentsSection as SubagentsSection,
        SubagentTask as SubagentTask,
        build_dispatch_subagents_tool as build_dispatch_subagents_tool,
        dispatch_subagents as dispatch_subagents,
        subagents_tool as subagents_tool,
    )
    from refold.tools.contract.policy import POLICIES as POLICIES
    from refold.tools.delegation.saved_sessions import (
        SavedSession as SavedSession,
        load_session as load_session,
    )
    from refold.tools.delegation.shared import (
        call_begins as call_begins,
        call_ends as call_ends,
        delegate_all as delegate_all,
    )
    from refold.tools.delegation.words import answer_of as answer_of, error_of as error_of
    from refold.tools.delegation.shipped import shipped_tools as shipped_tools
    from refold.tools.delegation.spawn import (
        CollectingChannel as CollectingChannel,
        JobStore as JobStore,
        SpawnAwaitTool as SpawnAwaitTool,
        SpawnTool as SpawnTool,
        spawn_tools as spawn_tools,
    )
    from refold.tools.delegation.subagent import (
        SubagentOptions as SubagentOptions,
        subagent_tool as subagent_tool,
    )
    from refold.tools.delegation.subagent_dispatch import (
        SharedContext as SharedContext,
        SilentFrontend as SilentFrontend,
        create_subagent_dispatch_tool as create_subagent_dispatch_tool,
    )
    from refold.tools.files.commands import (
        run_command_tool as run_command_tool,
        write_file_tool as write_file_tool,
    )
    from refold.tools.files.file_tools import file_tools as file_tools
else:
    __getattr__, __dir__, __all__ = names(__name__)
