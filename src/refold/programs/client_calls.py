"""Makes the calls that a client of `refold mcp --delegate` asks for, as an agent's model would.

    next_call      -> {"id", "name", "arguments"}, {"cancel": id}, or null once the client has left
    answer_call    id, text, is_error: what a model would read

Both are leaf tools of the server, so a log holds what the client asked and got, and a replay needs
no client.  The server is `refold.cli.commands.more.mcp`.  Rules: CONTRACT.md §14.21.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from refold.engine.encoding.canonical import Json
from refold.engine.ports.ports import Tool
from refold.engine.program.agent import Caller, act_as, call_result, offered_tools
from refold.engine.program.run import Run

NEXT: Final = "next_call"
ANSWER: Final = "answer_call"


async def client_calls(run: Run, input: Json) -> int:  # noqa: A002 - the word of the domain
    """Make calls until the client leaves, each at once; return their number.

    `input` is {"tools": names that the client may call}. Calls that are still running at the end
    are cancelled.
    """
    given: Any = input
    names = tuple(tool.name for tool in run.tools if tool.name not in (NEXT, ANSWER))
    act_as(Caller(tools=names))
    offered = offered_tools(run, given["tools"])
    calls: dict[str, asyncio.Task[None]] = {}
    async with asyncio.TaskGroup() as group:
        while (asked := await run.tool(NEXT)) is not None:
            if "cancel" not in asked:
                calls[asked["id"]] = group.create_task(_made(run, offered, asked))
            elif asked["cancel"] in calls:
                calls[asked["cancel"]].cancel()
        for call in calls.values():
            call.cancel()
    return len(calls)


async def _made(run: Run, offered: Mapping[str, Tool], call: Mapping[str, Any]) -> None:
    result = await call_result(run, offered, call, 0)
    text, is_error = result.message["content"], result.message["is_error"]
    await run.tool(ANSWER, id=call["id"], text=text, is_error=is_error)
