"""Runs that people look at: a desk with many subagents, of which two fail, and a hostile one."""

import asyncio
import base64
import struct
import threading
import zlib
from typing import Any, Final

from refold.engine.errors import ToolError
from refold.engine.events.limits import Limits
from refold.engine.models.scripted import FunctionModel, Reply
from refold.engine.ports.ports import Delegation, ModelRequest
from refold.engine.program.run import Run
from refold.tools.contract.tool_types import tool

HOSTILE: Final = (
    "</script><script>window.hit=1</script><img src=x onerror='window.hit=1'>"
    "\x1b[2J\u202egnp.exe\u2066 \U000e0041\u200b\x07 javascript:window.hit=1"
)


def _chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def picture(size: int = 192) -> bytes:
    """Return a PNG of more bytes than a line holds: grey noise that does not compress."""
    rows = b"".join(
        b"\0" + bytes((x * x * 31 + y * y * 17 + x * y) % 251 for x in range(size))
        for y in range(size)
    )
    header = struct.pack(">IIBBBBB", size, size, 8, 0, 0, 0, 0)
    compressed = zlib.compress(rows, 0)  # stored: so large that it becomes a blob
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", compressed * 1)
        + _chunk(b"IEND", b"")
    )


@tool(effect="reads")
async def order_status(order: int) -> dict[str, Any]:
    """Look an order up."""
    await asyncio.sleep(0.002)
    if order in (23, 58):
        raise ToolError("no_order", f"order {order} is in no warehouse")
    return {"order": order, "state": "shipped", "lines": [{"item": order * 7, "count": 2}]}


def _reply(request: ModelRequest) -> Reply:
    said = request.messages[-1]["content"]
    read = said[:60] if isinstance(said, str) else "a picture"
    usage = {"input_tokens": 213, "output_tokens": 77, "cost_usd_micros": 1_794}
    return {"text": f"I have read: {read}. " + "Fine. " * 60, "usage": usage}


def late_for_5(request: ModelRequest) -> Reply:
    """Answer as `MODEL` does, but for one order."""
    said = str(request.messages[-1]["content"])
    return "It is late." if "Order 5 is" in said else _reply(request)


MODEL: Final = FunctionModel(_reply, "clerk")


async def clerk(run: Run, order: int) -> Any:
    """Answer for one order."""
    status = await run.tool("order_status", order=order)
    answer = await run.model([{"role": "user", "content": f"Order {order} is {status}."}])
    return answer.message["content"]


async def desk(run: Run, orders: int) -> Any:
    """Ask a clerk about each order, eight at once."""
    image = base64.b64encode(picture()).decode()
    part = {"type": "image", "source": {"media_type": "image/png", "data": image}}
    asked = [{"type": "text", "text": "What is this?"}, part]
    system = {"role": "system", "content": "You run a desk."}
    await run.model([system, {"role": "user", "content": asked}])
    gate = asyncio.Semaphore(8)

    async def one(order: int) -> str:
        async with gate:
            outcome = await run.delegate(
                Delegation(
                    program=clerk,
                    input=order,
                    brief=f"say where order {order} is",
                    agent="clerk",
                    tool="Task",
                    limits=Limits(timeout_seconds=60),
                )
            )
        return outcome.status

    found = await asyncio.gather(*(one(order) for order in range(1, orders + 1)))
    await run.sleep(0.02)
    return {"completed": found.count("completed"), "of": orders}


async def nothing(_run: Run, _input: Any) -> None:
    """Do nothing."""


@tool(effect="reads")
def see_children_end() -> None:
    """Return when no thread runs a child; one that has ended its child may wait for another."""
    for each in threading.enumerate():
        while each.is_alive() and each.name.startswith("refold-child-"):
            each.join(0.01)


async def hostile(run: Run, text: str) -> Any:
    """Say what is hostile wherever a program can."""

    async def inner(run: Run, value: Any) -> Any:
        run.annotate(text, {text: [value]})
        return value

    deep: Any = text
    for _ in range(100):
        deep = {text[:40]: deep}
    run.annotate("deep", deep)
    parts = [{"type": "text", "text": text}]
    await run.model([{"role": "user", "content": text}, {"role": "system", "content": parts}])
    task = Delegation(program=inner, input=text, brief=text, agent=text[:30], tool="Task")
    await run.delegate(task)
    try:
        await run.tool("refuses", say=text)
    except ToolError:
        run.annotate("x" * 10_000_000)
    return {"__proto__": {"polluted": text}, text: text}


@tool(effect="reads")
def refuses(say: str) -> str:
    """Fail with what it was told."""
    raise ToolError("refused", say)
