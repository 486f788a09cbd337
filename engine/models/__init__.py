"""The models that our own programs ask: scripted, OpenAI-compatible, Anthropic, Pydantic AI's.

A request in neutral messages flows in; a reply flows out, or a ModelError. Imports `wire`, `ports`
and the folders below them; the port itself is `engine.ports.ports.Model`. Names are imported when
first used, and the SDKs only at the first request, so that a run without a model pays for none of
it. Rules: CONTRACT.md §11.

    scripted              models without a network: a script of replies, or a function
    openai_compatible     OpenAI's, and any server that speaks chat completions
    anthropic_messages    Anthropic's
    pydantic_ai           those of every provider that Pydantic AI has; made by `parse`
    messages              the neutral shape of messages, checked before a request
    endpoint              what they share: client, request, failures, keys
    connections           closes one whose server has sent more than its answer
    prices                what an answer cost, by the offline table of `genai-prices`
    parse                 models as the command line and configuration name them

To add one: a module here that translates the neutral messages both ways, a line below, a prefix in
`parse`.  No kernel file changes.
"""

from refold.engine.lazy import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from refold.engine.models.anthropic_messages import AnthropicModel as AnthropicModel
    from refold.engine.models.openai_compatible import (
        OpenAICompatibleModel as OpenAICompatibleModel,
    )
    from refold.engine.models.parse import model_from as model_from
    from refold.engine.models.scripted import (
        FunctionModel as FunctionModel,
        ScriptedModel as ScriptedModel,
    )
    from refold.engine.ports.ports import (
        Model as Model,
        ModelReply as ModelReply,
        ModelRequest as ModelRequest,
    )
else:
    __getattr__, __dir__, __all__ = names(__name__)
