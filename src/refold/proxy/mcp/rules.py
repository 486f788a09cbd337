"""Applies the volatile rules of tools to requests to MCP servers.

`tool:NAME/arguments/POINTER` names a place of a tool call, `tool:mcp.*/arguments/…` one of all
other requests; texts that are taken for the same are so here, too.  Pure.
Rules: CONTRACT.md §16.7, §16.11.
"""

from refold.engine.observed.mcp_messages import McpRequest
from refold.engine.observed.volatile import VolatileRules


def applied(request: McpRequest, rules: VolatileRules) -> McpRequest:
    """Return a request with all that is not compared taken out of it."""
    if not rules:
        return request
    value = {"arguments": request.arguments, "more": request.more}
    kept = rules.applied_to(value, f"tool:{request.name}")
    return McpRequest(request.name, kept["arguments"], kept["more"])


def compared_key(request: McpRequest, rules: VolatileRules) -> str:
    """Return what two requests share exactly if they ask the same, as far as it is compared."""
    return applied(request, rules).key()
