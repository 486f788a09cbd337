"""The calls of `refold` that join the folders: `record`, `record_async`, `reexecute`.

The engine knows no tool and replay knows none either; here the tools that Refold ships are added to
those that are given, and plain functions become tools.
"""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from refold.engine.canonical import Json
from refold.engine.log import read_entries
from refold.engine.ports import Program, Reference, SessionPort, Tool
from refold.engine.recording import Recording
from refold.engine.recording import record as _record
from refold.engine.recording import record_async as _record_async
from refold.tools.contract import as_tool

if TYPE_CHECKING:
    import refold
    from refold.replay.reexecute import ReplayReport

Tools = Sequence[Tool | Callable[..., Any]]


def record(
    program: "Program | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    tools: Tools = (),
    **options: Any,
) -> Recording:
    """Run `program(run, input)` and record it; return how it ended, whatever that was.

    Options are those of `refold.engine.recording.record`: `log`, `model`, `models`, `runner`,
    `runners`, `limits`, `seed`, `clock`, `session`, `durability`.
    A plain function among `tools` becomes a tool that is taken to change the world.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
    """
    return _record(program, input, tools=[as_tool(tool) for tool in tools], **options)


async def record_async(
    program: "Program | Reference | str",
    input: Json = None,  # noqa: A002 - the word of the domain
    /,
    *,
    tools: Tools = (),
    **options: Any,
) -> Recording:
    """Record as `record` does, from a coroutine; asynchronous tools run on the caller's loop.

    Raises:
        LogExists: a log is never overwritten.
        UsageError: the call is wrong in another way; nothing was recorded.
    """
    ready = [as_tool(tool) for tool in tools]
    return await _record_async(program, input, tools=ready, **options)


def reexecute(
    log: "str | os.PathLike[str] | refold.Recording",
    program: "Program | Reference | str | None" = None,
    *,
    tools: Tools = (),
    session: "SessionPort | None" = None,
) -> "ReplayReport":
    """Run the program of `log` again with recorded outcomes, and compare; execute nothing else.

    The delegation tools that Refold ships are known; own ones, and own tools with typed results
    that the program calls by name, are passed as `tools`; for a run that had a session, a fresh
    one with the same reducers is passed as `session`.

    Raises:
        LogError: there is no such log.
        ProgramNotFound: no program was given and the log's is none that Refold ships.
        ToolNeeded: a tool has to be passed.
    """
    from refold.replay import reexecute as replay  # noqa: PLC0415 - who only records needs none

    path = log.log if isinstance(log, Recording) else log
    given = [as_tool(tool) for tool in tools]
    shipped = _shipped(path, {tool.name for tool in given})
    return replay.reexecute(path, program, tools=[*shipped, *given], session=session)


def _shipped(log: str | os.PathLike[str], given: set[str]) -> list[Tool]:
    """Return the shipped delegation tools that the run was offered and that nobody passed."""
    first = next(iter(read_entries(log, torn_ok=True)), None)
    offers = first.data.get("tools", []) if first is not None else []
    names = {offer["name"] for offer in offers if offer.get("delegates")} - given
    if not names:
        return []
    from refold.tools.shipped import offered_tools  # noqa: PLC0415 - most runs delegate nothing

    return [tool for tool in offered_tools(offers) if tool.name in names]
