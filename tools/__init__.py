"""What an agent may call: the tool contract, the registry, file tools, prompts, plans, delegation.

Stands on `refold.engine` alone.  Names load on first use, so that importing the package costs
nothing.
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
    from refold.tools.agent_loader import AgentLoader
    from refold.tools.agents import AgentDef, agent_input, load_agent
    from refold.tools.commands import run_command_tool, write_file_tool
    from refold.tools.config import Config, load_config, spawn_settings
    from refold.tools.configured import prepare_run
    from refold.tools.contract import DelegationTool, FunctionTool, as_tool, tool
    from refold.tools.delegation import (
        call_begins,
        call_ends,
        delegate_all,
        delegate_one,
        error_of,
        text_of,
    )
    from refold.tools.dispatch_subagent import (
        DispatchSubagent,
        DispatchSubagentResult,
        PromptSubagentToolsSection,
        SubagentMode,
        dispatch_subagent_tool,
    )
    from refold.tools.dispatch_subagents import (
        DispatchSubagentsParams,
        SubagentIsolationLevel,
        SubagentResult,
        SubagentsSection,
        SubagentTask,
        build_dispatch_subagents_tool,
        subagents_tool,
    )
    from refold.tools.files import file_tools
    from refold.tools.memory import settings_of
    from refold.tools.plans import (
        Plan,
        PlanningToolsSection,
        PlanStep,
        planning_tools,
        register_plans,
    )
    from refold.tools.policy import POLICIES, DelegationPolicy
    from refold.tools.profiles import (
        SpawnProfile,
        SpawnSettings,
        SubAgentFactory,
        profiles_block,
        with_profiles,
    )
    from refold.tools.prompts import (
        MarkdownSection,
        Prompt,
        PromptRegistry,
        RenderedPrompt,
        ToolContext,
        ToolResult,
        context_of,
        use_prompt,
    )
    from refold.tools.registry import Registry
    from refold.tools.saved_sessions import SavedSession, load_session
    from refold.tools.shipped import shipped_tools
    from refold.tools.spawn import (
        CollectingChannel,
        JobStore,
        SpawnAwaitTool,
        SpawnTool,
        spawn_tools,
    )
    from refold.tools.subagent import SubagentOptions, subagent_tool
    from refold.tools.subagent_dispatch import (
        SharedContext,
        SilentFrontend,
        create_subagent_dispatch_tool,
    )

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
    "SubagentMode": "dispatch_subagent",
    "AgentLoader": "agent_loader",
    "run_command_tool": "commands",
    "write_file_tool": "commands",
    **dict.fromkeys(("call_begins", "call_ends", "delegate_all", "delegate_one"), "delegation"),
    **dict.fromkeys(("error_of", "text_of"), "delegation"),
    "settings_of": "memory",
    "Config": "config",
    "load_config": "config",
    "spawn_settings": "config",
    "POLICIES": "policy",
    "DelegationPolicy": "policy",
    "SpawnProfile": "profiles",
    "SpawnSettings": "profiles",
    "SubAgentFactory": "profiles",
    "profiles_block": "profiles",
    "with_profiles": "profiles",
    "SavedSession": "saved_sessions",
    "load_session": "saved_sessions",
    "shipped_tools": "shipped",
    "CollectingChannel": "spawn",
    "JobStore": "spawn",
    "SpawnAwaitTool": "spawn",
    "SpawnTool": "spawn",
    "spawn_tools": "spawn",
    "SharedContext": "subagent_dispatch",
    "SilentFrontend": "subagent_dispatch",
    "create_subagent_dispatch_tool": "subagent_dispatch",
    "DispatchSubagent": "dispatch_subagent",
    "DispatchSubagentResult": "dispatch_subagent",
    "PromptSubagentToolsSection": "dispatch_subagent",
    "dispatch_subagent_tool": "dispatch_subagent",
    "DispatchSubagentsParams": "dispatch_subagents",
    "SubagentIsolationLevel": "dispatch_subagents",
    "SubagentResult": "dispatch_subagents",
    "SubagentTask": "dispatch_subagents",
    "SubagentsSection": "dispatch_subagents",
    "build_dispatch_subagents_tool": "dispatch_subagents",
    "subagents_tool": "dispatch_subagents",
    "Plan": "plans",
    "PlanStep": "plans",
    "PlanningToolsSection": "plans",
    "planning_tools": "plans",
    "register_plans": "plans",
    "MarkdownSection": "prompts",
    "Prompt": "prompts",
    "PromptRegistry": "prompts",
    "RenderedPrompt": "prompts",
    "ToolContext": "prompts",
    "ToolResult": "prompts",
    "context_of": "prompts",
    "use_prompt": "prompts",
    "AgentDef": "agents",
    "agent_input": "agents",
    "load_agent": "agents",
    "prepare_run": "configured",
    "SubagentOptions": "subagent",
    "subagent_tool": "subagent",
    "DelegationTool": "contract",
    "FunctionTool": "contract",
    "as_tool": "contract",
    "tool": "contract",
    "file_tools": "files",
    "Registry": "registry",
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
