"""The models that our own programs ask: scripted, OpenAI-compatible, Anthropic.

A request in neutral messages flows in; a reply flows out, or a ModelError.  Imports `wire`, `ports`
and what stands below; the port itself is `engine.ports.ports.Model`.  Names are imported when first
used, and the SDKs only at the first request, so that a run without a model pays for none of it.
Rules: CONTRACT.md §11.

    scripted              models without a network: a script of replies, or a function
    openai_compatible     OpenAI's, and any server that speaks chat completions
    anthropic_messages    Anthropic's
    endpoint              what the two share: client, request, failures, keys
    parse                 models as the command line and configuration name them

To add one: a module here that translates the neutral messages both ways, a line below, a prefix in
`parse`.  No kernel file changes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from refold.engine.models.anthropic_messages import AnthropicModel
    from refold.engine.models.openai_compatible import OpenAICompatibleModel
    from refold.engine.models.parse import model_from
    from refold.engine.models.scripted import FunctionModel, ScriptedModel

__all__ = [
    "AnthropicModel",
    "FunctionModel",
    "OpenAICompatibleModel",
    "ScriptedModel",
    "model_from",
]

_MODULES: Final = {
    "AnthropicModel": "anthropic_messages",
    "FunctionModel": "scripted",
    "OpenAICompatibleModel": "openai_compatible",
    "ScriptedModel": "scripted",
    "model_from": "parse",
}


def __getattr__(name: str) -> Any:
    """Return a public name from the module that holds it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
