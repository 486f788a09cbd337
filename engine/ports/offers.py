"""How a log names the tools that a run was given."""

from collections.abc import Iterable, Mapping
from typing import Any

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json
from refold.engine.ports.people import needs_approval
from refold.engine.ports.ports import Tool
from refold.engine.ports.programs import SHIPPED, program_name


def is_ours(tool: Tool | None) -> bool:
    """Return whether Refold ships the tool: its definition may change from release to release."""
    code = getattr(tool, "handler", None) or getattr(tool, "__wrapped__", None)
    return str(getattr(code, "__module__", "")).startswith("refold.tools.")


def chosen_tools(names: Iterable[str], tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Return the tools with these names, each with its `companions`; unknown names are left out."""
    chosen: dict[str, Tool] = {}
    for tool in (tools[name] for name in names if name in tools):
        comes_with = (one for one in getattr(tool, "companions", ()) if one in tools)
        chosen |= {tool.name: tool} | {one: tools[one] for one in comes_with}
    return chosen


def offer_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as `run.started` holds it: {name, description, effect, schema, digest, typed}.

    It has all that a model sees, so that a replay can make the same request without the tool. It
    also has `delegates` and `approval` for tools with these properties, and `runs`, the name of the
    children's program, if Refold does not ship it.
    """
    whole: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "effect": tool.effect,
    }
    offer = {
        "name": tool.name,
        "description": tool.description,
        "effect": tool.effect,
        "schema": tool.parameters,
        "digest": digest.of_value(digest.VALUE, whole),
        "typed": tool.typed,
    }
    if tool.delegates:
        offer["delegates"] = True
    if needs_approval(tool):
        offer["approval"] = True
    children = getattr(tool, "children", None)
    if children is not None and str(children.program) not in SHIPPED:
        offer["runs"] = program_name(children.program)
    return offer
