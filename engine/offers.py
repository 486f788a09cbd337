"""How a log names the tools that a run was given."""

from typing import Any

from refold.engine import digest
from refold.engine.canonical import Json
from refold.engine.ports import Tool


def offer_of(tool: Tool) -> dict[str, Any]:
    """Return a tool as `run.started` holds it: {name, effect, schema, digest, typed}.

    The digest also covers the description, which a model reads and a person edits.
    """
    whole: Json = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "effect": tool.effect,
    }
    return {
        "name": tool.name,
        "effect": tool.effect,
        "schema": tool.parameters,
        "digest": digest.of_value(digest.VALUE, whole),
        "typed": tool.typed,
    }
