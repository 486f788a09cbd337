"""Offers delegation tools to a coding agent over MCP: `refold mcp --delegate`.

One session of a client is one run, of the program `client_calls`: its calls and their answers are
in the log, its subagents are children of that run.  Rules: CONTRACT.md §14.21.
"""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from refold.engine.ports.ports import Tool
from refold.engine.runners.recorded import Recording
from refold.engine.runners.recording import record_async
from refold.programs.client_calls import ANSWER, NEXT
from refold.tools.contract.tool_types import tool

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

INSTRUCTIONS = """\
Delegate work to subagents. Each works on its own, with tools of its own, and sees only what a \
call tells it. All that they do is recorded."""


@attrs.define
class ClientCalls:
    """The calls of a client, on their way to the run and back."""

    _asked: "asyncio.Queue[dict[str, Any] | None]" = attrs.field(factory=asyncio.Queue)
    _answers: "dict[str, asyncio.Future[tuple[str, bool]]]" = attrs.field(factory=dict)
    _ended: str = ""
    begun: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set once the run waits for the first call."""

    def tools(self) -> tuple[Tool, Tool]:
        """Return the two tools of the program."""

        @tool(name=NEXT, description="Wait for the client's next call.")
        async def next_call() -> Any:
            self.begun.set()
            return await self._asked.get()

        @tool(name=ANSWER, description="Answer a call of the client.")
        async def answer_call(id: str, text: str, *, is_error: bool) -> None:  # noqa: A002 - as in MCP
            answer = self._answers.get(id)
            if answer is not None and not answer.done():
                answer.set_result((text, is_error))

        return next_call, answer_call

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Have the run make a call; return the text for the client, and whether it failed.

        Being cancelled cancels the call.
        """
        if self._ended:
            return self._ended, True
        number = str(uuid.uuid4())
        answer: asyncio.Future[tuple[str, bool]] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        self._asked.put_nowait({"id": number, "name": name, "arguments": {**arguments}})
        try:
            return await answer
        except asyncio.CancelledError:
            self._asked.put_nowait({"cancel": number})
            raise
        finally:
            del self._answers[number]

    def leave(self) -> None:
        """End the run: the client has left."""
        self._asked.put_nowait(None)

    def end(self, why: str) -> None:
        """Answer all calls with `why`: the run has ended."""
        self._ended = why
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result((why, True))


def server(calls: ClientCalls, offered: Iterable[Tool]) -> "Server[Any]":
    """Return the MCP server that offers tools.

    Raises:
        ModuleNotFoundError: the extra `mcp` is not installed.
    """
    from mcp import types  # noqa: PLC0415 - an extra, and slow to import
    from mcp.server.lowlevel import Server  # noqa: PLC0415 - the same

    known = [
        types.Tool(name=each.name, description=each.description, input_schema=each.parameters)
        for each in offered
    ]

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=known)

    async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text, is_error = await calls.call(params.name, params.arguments or {})
        content: list[Any] = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, is_error=is_error)

    return Server("refold", instructions=INSTRUCTIONS, on_list_tools=listed, on_call_tool=called)


@contextlib.asynccontextmanager
async def recorded(
    given: Mapping[str, Any], **options: Any
) -> AsyncIterator[tuple["Server[Any]", "asyncio.Task[Recording]"]]:
    """Record a run and yield the server of its client, and the run, which ends with the block.

    `given` is the input of `client_calls`; `options` are those of `record`.
    """
    calls = ClientCalls()
    made = server(calls, [each for each in options["tools"] if each.name in given["tools"]])
    options["tools"] = [*options["tools"], *calls.tools()]
    run = asyncio.create_task(record_async("client_calls", given, **options))
    run.add_done_callback(lambda _: calls.end("the run of this session has ended"))
    await asyncio.wait(
        [run, asyncio.create_task(calls.begun.wait())], return_when=asyncio.FIRST_COMPLETED
    )
    try:
        if not run.done():
            yield made, run
    finally:
        calls.leave()
        await run


def delegate(given: Mapping[str, Any], **options: Any) -> Recording:
    """Serve one client on standard input until it leaves, and return the run.

    The arguments are those of `recorded`.

    Raises:
        ModuleNotFoundError: the extra `mcp` is not installed.
    """
    from mcp.server.stdio import stdio_server  # noqa: PLC0415 - an extra, and slow to import

    async def serve() -> Recording:
        async with stdio_server() as (read, write), recorded(given, **options) as (made, run):
            await made.run(read, write, made.create_initialization_options())
        return run.result()

    return asyncio.run(serve())
