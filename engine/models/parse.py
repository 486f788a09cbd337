"""Models as the command line and configuration name them: `openai:gpt-4o`, `scripted:replies.yaml`.

A log never names classes to construct; the caller of a run does. Rules: CONTRACT.md §11.
"""

from importlib.util import find_spec
from typing import Final

from refold.engine.errors import ExtraMissing, ModelNotFound
from refold.engine.models.anthropic_messages import AnthropicModel
from refold.engine.models.openai_compatible import OpenAICompatibleModel
from refold.engine.models.scripted import ScriptedModel
from refold.engine.ports.ports import Model

_FORMS: Final = "openai:NAME, anthropic:NAME, pydantic:PROVIDER:NAME, or scripted:FILE"


def model_from(spec: str, base_url: str | None = None) -> Model:
    """Return the model that `spec` names: one of the forms above.

    `pydantic:PROVIDER:NAME` is any that Pydantic AI has (`engine.models.pydantic_ai`).  NAME may
    hold colons of its own (`openai:llama3:8b`).  `base_url` is the server to ask, for `openai` with
    the protocol's version in it (`http://localhost:8000/v1`).

    Raises:
        ModelNotFound: no such form, provider or name, or a `base_url` for a script, or without
            a scheme.
        ExtraMissing: the SDK that it needs is not installed.
        ScriptRefused: the file is not a script.
    """
    provider, _, name = spec.partition(":")
    if not name:
        raise ModelNotFound(spec, f"expected {_FORMS}")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise ModelNotFound(spec, f"base URL {base_url!r}: expected http://… or https://…")
    match provider:
        case "openai":
            _require("openai")
            return OpenAICompatibleModel(name, base_url=base_url)
        case "anthropic":
            _require("anthropic")
            return AnthropicModel(name, base_url=base_url)
        case "pydantic":
            _require("pydantic_ai", "pydantic-ai")
            # Not above: it imports the framework, which takes a second.
            from refold.engine.models.pydantic_ai import PydanticAIModel  # noqa: PLC0415

            model = PydanticAIModel(name, base_url=base_url)
            model.check()
            return model
        case "scripted" if base_url is None:
            return ScriptedModel.from_file(name)
        case "scripted":
            raise ModelNotFound(spec, "a script has no base URL")
        case _:
            raise ModelNotFound(spec, f"no provider {provider!r}: expected {_FORMS}")


def _require(sdk: str, extra: str = "") -> None:
    """Refuse early, on the command line; the adapter itself needs the SDK only when asked."""
    if find_spec(sdk) is None:
        raise ExtraMissing(sdk, extra or sdk)
