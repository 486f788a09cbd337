"""What is not compared of requests to MCP servers: the volatile rules of tools.

`tool:NAME/arguments/POINTER` names a place of a tool call, `tool:mcp.*/arguments/…` one of all
other requests; texts that are taken for the same are so here, too.  Pure.
Rules: CONTRACT.md §16.7, §16.11.
"""

import fnmatch
import re
from typing import Any

from refold.engine.canonical import Json
from refold.engine.observed.mcp_messages import McpRequest
from refold.engine.observed.volatile import MARK, VolatileRules
from refold.engine.redaction import replaced


def applied(request: McpRequest, rules: VolatileRules) -> McpRequest:
    """Return a request with all that is not compared taken out of it."""
    if not rules:
        return request
    value: Any = {"arguments": request.arguments, "more": request.more}
    for path in rules.paths:
        selector, _, pointer = path.partition("/")
        if fnmatch.fnmatchcase(f"tool:{request.name}", selector):
            value = replaced(value, pointer.split("/"), MARK)
    if rules.texts:
        pattern = re.compile("|".join(f"(?:{text})" for text in rules.texts))
        value = _marked(value, pattern)
    return McpRequest(request.name, value["arguments"], value["more"])


def compared_key(request: McpRequest, rules: VolatileRules) -> str:
    """Return what two requests share exactly if they ask the same, as far as it is compared."""
    return applied(request, rules).key()


def _marked(value: Json, pattern: re.Pattern[str]) -> Json:
    if isinstance(value, str):
        return pattern.sub(MARK, value)
    if isinstance(value, dict):
        return {key: _marked(item, pattern) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item, pattern) for item in value]
    return value
