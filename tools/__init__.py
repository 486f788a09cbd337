"""What an agent may call: the tool contract, the registry, file tools, prompts, plans, delegation.

Stands on `refold.engine` alone.  Names load on first use, so that importing the package costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.tools.agents import AgentDef, agent_input, load_agent
    from refold.tools.configured import prepare_run
    from refold.tools.contract import DelegationTool, FunctionTool, as_tool, tool
    from refold.tools.dispatch_subagent import (
        DispatchSubagent,
        DispatchSubagentResult,
        PromptSubagentToolsSection,
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
    from refold.tools.plans import (
        Plan,
        PlanningToolsSection,
        PlanStep,
        planning_tools,
        register_plans,
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
    from refold.tools.subagent import SubagentOptions, subagent_tool

__all__ = [
    "AgentDef",
    "DelegationTool",
    "DispatchSubagent",
    "DispatchSubagentResult",
    "DispatchSubagentsParams",
    "FunctionTool",
    "MarkdownSection",
    "Plan",
    "PlanStep",
    "PlanningToolsSection",
    "Prompt",
    "PromptRegistry",
    "PromptSubagentToolsSection",
    "Registry",
    "RenderedPrompt",
    "SubagentIsolationLevel",
    "SubagentOptions",
    "SubagentResult",
    "SubagentTask",
    "SubagentsSection",
    "ToolContext",
    "ToolResult",
    "agent_input",
    "as_tool",
    "build_dispatch_subagents_tool",
    "context_of",
    "dispatch_subagent_tool",
    "file_tools",
    "load_agent",
    "planning_tools",
    "prepare_run",
    "register_plans",
    "subagent_tool",
    "subagents_tool",
    "tool",
    "use_prompt",
]

_HOMES = {
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
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
