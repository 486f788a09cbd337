"""What an agent may call: the tool contract, the registry, file tools, delegation, agent files.

Stands on `refold.engine` alone.  Names load on first use, so that importing the package costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.tools.agents import AgentDef, agent_input, load_agent, prepare_run
    from refold.tools.contract import DelegationTool, FunctionTool, as_tool, tool
    from refold.tools.files import file_tools
    from refold.tools.registry import Registry
    from refold.tools.subagent import SubagentOptions, subagent_tool

__all__ = [
    "AgentDef",
    "DelegationTool",
    "FunctionTool",
    "Registry",
    "SubagentOptions",
    "agent_input",
    "as_tool",
    "file_tools",
    "load_agent",
    "prepare_run",
    "subagent_tool",
    "tool",
]

_HOMES = {
    "AgentDef": "agents",
    "agent_input": "agents",
    "load_agent": "agents",
    "prepare_run": "agents",
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
