"""Agents of other frameworks as programs: `adapters.pydantic_ai` and `adapters.openai_agents`.

A framework's agent flows in; requests to models and calls of tools flow out as effects.  Both
frameworks are plain asyncio and run on the kernel's loop as they are.  Imports `refold.engine`;
nothing of `refold` imports an adapter.  Each needs the extra of its name.  To add one: its
module, and its name below.  Rules: CONTRACT.md §17.

    foreign                                 what the adapters share
    pydantic_ai, openai_agents              the adapters
    pydantic_ai_messages,                   a framework's messages to neutral ones and back
      openai_agents_items
    pydantic_ai_results                     what tools gave
    openai_agents_stream                    a stream made of an answer
"""

from refold.engine.loop.frameworks import ADAPTERS

ADAPTERS.update(pydantic_ai=f"{__name__}.pydantic_ai", agents=f"{__name__}.openai_agents")
