"""Agents of other frameworks as programs: `adapters.pydantic_ai` and `adapters.openai_agents`.

Both frameworks are plain asyncio and run on the kernel's loop as they are.  An adapter makes
effects of what would leave it: requests to models and calls of tools.  `adapters.foreign` holds
what the two share; `pydantic_ai_messages` and `openai_agents_items` project a framework's messages
to neutral ones and back, `pydantic_ai_results` what tools gave; `openai_agents_stream` makes a
stream of an answer.  Nothing of `refold` imports an adapter; each needs the extra of its name.
Rules: CONTRACT.md §17.
"""
