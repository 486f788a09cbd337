"""What an agent may call: the tool contract, file tools, agents and prompts, delegation.

Functions and configuration flow in; tools that can be offered to a program flow out.  Stands on
`refold.engine` alone.  Each room may import those above it in this list.  Names load on first use,
so that importing the package costs nothing.  Rules: CONTRACT.md §10.

    contract/         what a tool is: a function with a name, a schema, types that survive a log
    files/            tools that read and write files, and run commands
    agents/           who does the work: agents of files, prompts, plans, profiles
    delegation/       one file a delegation tool, one row each
    configuration/    `refold.yaml`, and a run made of it
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.engine.errors import (
        DefNotFoundError,
        DispatchSubagentError,
        InvalidDefError,
        ToolValidationError,
    )
    from refold.engine.session import Session
    from refold.tools.agents.agent_files import AgentDef, agent_input, load_agent
    from refold.tools.agents.agent_loader import AgentLoader
    from refold.tools.agents.plans import (
        Plan,
        PlanningToolsSection,
        PlanStep,
        planning_tools,
        register_plans,
    )
    from refold.tools.agents.profiles import (
        SpawnProfile,
        SpawnSettings,
        SubAgentFactory,
        profiles_block,
        with_profiles,
    )
    from refold.tools.agents.prompts import (
        MarkdownSection,
        Prompt,
        PromptRegistry,
        RenderedPrompt,
        ToolContext,
        ToolResult,
        context_of,
        use_prompt,
    )
    from refold.tools.configuration.config import Config, load_config, spawn_settings
    from refold.tools.configuration.prepared_run import prepare_run
    from refold.tools.contract.memory import settings_of
    from refold.tools.contract.registry import Registry
    from refold.tools.contract.tool_types import DelegationTool, FunctionTool, as_tool, tool
    from refold.tools.delegation.dispatch_subagent import (
        DispatchSubagent,
        DispatchSubagentResult,
        PromptSubagentToolsSection,
        SubagentMode,
        dispatch_subagent_tool,
    )
    from refold.tools.delegation.dispatch_subagents import (
        DispatchSubagentsParams,
        SubagentIsolationLevel,
        SubagentResult,
        SubagentsSection,
        SubagentTask,
        build_dispatch_subagents_tool,
        subagents_tool,
    )
    from refold.tools.delegation.policy import POLICIES, DelegationPolicy
    from refold.tools.delegation.saved_sessions import SavedSession, load_session
    from refold.tools.delegation.shared import (
        call_begins,
        call_ends,
        delegate_all,
        delegate_one,
        error_of,
        text_of,
    )
    from refold.tools.delegation.shipped import shipped_tools
    from refold.tools.delegation.spawn import (
        CollectingChannel,
        JobStore,
        SpawnAwaitTool,
        SpawnTool,
        spawn_tools,
    )
    from refold.tools.delegation.subagent import SubagentOptions, subagent_tool
    from refold.tools.delegation.subagent_dispatch import (
        SharedContext,
        SilentFrontend,
        create_subagent_dispatch_tool,
    )
    from refold.tools.files.commands import run_command_tool, write_file_tool
    from refold.tools.files.file_tools import file_tools

__all__ = [
    "POLICIES",
    "AgentDef",
    "AgentLoader",
    "CollectingChannel",
    "Config",
    "DefNotFoundError",
    "DelegationPolicy",
    "DelegationTool",
    "DispatchSubagent",
    "DispatchSubagentError",
    "DispatchSubagentResult",
    "DispatchSubagentsParams",
    "FunctionTool",
    "InvalidDefError",
    "JobStore",
    "MarkdownSection",
    "Plan",
    "PlanStep",
    "PlanningToolsSection",
    "Prompt",
    "PromptRegistry",
    "PromptSubagentToolsSection",
    "Registry",
    "RenderedPrompt",
    "SavedSession",
    "Session",
    "SharedContext",
    "SilentFrontend",
    "SpawnAwaitTool",
    "SpawnProfile",
    "SpawnSettings",
    "SpawnTool",
    "SubAgentFactory",
    "SubagentIsolationLevel",
    "SubagentMode",
    "SubagentOptions",
    "SubagentResult",
    "SubagentTask",
    "SubagentsSection",
    "ToolContext",
    "ToolResult",
    "ToolValidationError",
    "agent_input",
    "as_tool",
    "build_dispatch_subagents_tool",
    "call_begins",
    "call_ends",
    "context_of",
    "create_subagent_dispatch_tool",
    "delegate_all",
    "delegate_one",
    "dispatch_subagent_tool",
    "error_of",
    "file_tools",
    "load_agent",
    "load_config",
    "load_session",
    "planning_tools",
    "prepare_run",
    "profiles_block",
    "register_plans",
    "run_command_tool",
    "settings_of",
    "shipped_tools",
    "spawn_settings",
    "spawn_tools",
    "subagent_tool",
    "subagents_tool",
    "text_of",
    "tool",
    "use_prompt",
    "with_profiles",
    "write_file_tool",
]

_HOMES = {
    "DefNotFoundError": "refold.engine.errors",
    "DispatchSubagentError": "refold.engine.errors",
    "InvalidDefError": "refold.engine.errors",
    "ToolValidationError": "refold.engine.errors",
    "Session": "refold.engine.session",
    "SubagentMode": "delegation.dispatch_subagent",
    "AgentLoader": "agents.agent_loader",
    "run_command_tool": "files.commands",
    "write_file_tool": "files.commands",
    **dict.fromkeys(
        ("call_begins", "call_ends", "delegate_all", "delegate_one"), "delegation.shared"
    ),
    **dict.fromkeys(("error_of", "text_of"), "delegation.shared"),
    "settings_of": "contract.memory",
    "Config": "configuration.config",
    "load_config": "configuration.config",
    "spawn_settings": "configuration.config",
    "POLICIES": "delegation.policy",
    "DelegationPolicy": "delegation.policy",
    "SpawnProfile": "agents.profiles",
    "SpawnSettings": "agents.profiles",
    "SubAgentFactory": "agents.profiles",
    "profiles_block": "agents.profiles",
    "with_profiles": "agents.profiles",
    "SavedSession": "delegation.saved_sessions",
    "load_session": "delegation.saved_sessions",
    "shipped_tools": "delegation.shipped",
    "CollectingChannel": "delegation.spawn",
    "JobStore": "delegation.spawn",
    "SpawnAwaitTool": "delegation.spawn",
    "SpawnTool": "delegation.spawn",
    "spawn_tools": "delegation.spawn",
    "SharedContext": "delegation.subagent_dispatch",
    "SilentFrontend": "delegation.subagent_dispatch",
    "create_subagent_dispatch_tool": "delegation.subagent_dispatch",
    "DispatchSubagent": "delegation.dispatch_subagent",
    "DispatchSubagentResult": "delegation.dispatch_subagent",
    "PromptSubagentToolsSection": "delegation.dispatch_subagent",
    "dispatch_subagent_tool": "delegation.dispatch_subagent",
    "DispatchSubagentsParams": "delegation.dispatch_subagents",
    "SubagentIsolationLevel": "delegation.dispatch_subagents",
    "SubagentResult": "delegation.dispatch_subagents",
    "SubagentTask": "delegation.dispatch_subagents",
    "SubagentsSection": "delegation.dispatch_subagents",
    "build_dispatch_subagents_tool": "delegation.dispatch_subagents",
    "subagents_tool": "delegation.dispatch_subagents",
    "Plan": "agents.plans",
    "PlanStep": "agents.plans",
    "PlanningToolsSection": "agents.plans",
    "planning_tools": "agents.plans",
    "register_plans": "agents.plans",
    "MarkdownSection": "agents.prompts",
    "Prompt": "agents.prompts",
    "PromptRegistry": "agents.prompts",
    "RenderedPrompt": "agents.prompts",
    "ToolContext": "agents.prompts",
    "ToolResult": "agents.prompts",
    "context_of": "agents.prompts",
    "use_prompt": "agents.prompts",
    "AgentDef": "agents.agent_files",
    "agent_input": "agents.agent_files",
    "load_agent": "agents.agent_files",
    "prepare_run": "configuration.prepared_run",
    "SubagentOptions": "delegation.subagent",
    "subagent_tool": "delegation.subagent",
    "DelegationTool": "contract.tool_types",
    "FunctionTool": "contract.tool_types",
    "as_tool": "contract.tool_types",
    "tool": "contract.tool_types",
    "file_tools": "files.file_tools",
    "Registry": "contract.registry",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES[name]  # the documents of the tools have errors and sessions beside them
    return getattr(
        import_module(home if home.startswith("refold.") else f"{__name__}.{home}"), name
    )


def __dir__() -> list[str]:
    return sorted(__all__)
