"""Agents of other frameworks as programs: `adapters.pydantic_ai` and `adapters.openai_agents`.

A framework's agent flows in; requests to models and calls of tools flow out as effects.  Both
frameworks are plain asyncio and run on the kernel's loop as they are.  Imports `refold.engine`;
nothing of `refold` imports an adapter.  Each needs the extra of its name.  To add one: its
module, and its name below.  Rules: CONTRACT.md §17.

    foreign                      what the adapters share
    pydantic_ai, openai_agents   the adapters, with messages, results and streams in neutral form
    openai_agents_items          the items of OpenAI's responses, likewise
"""

from refold.engine.loop.frameworks import ADAPTERS

ADAPTERS.update(pydantic_ai=f"{__name__}.pydantic_ai", agents=f"{__name__}.openai_agents")
