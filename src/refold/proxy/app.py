"""The proxy as one application: reads a request whole, asks the desk, passes on or serves.

The first segment of a path names the route; the rest is the server's.  A program that leaves is
noticed at once, and what it had asked for is given up.  Rules: CONTRACT.md §16.1.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable

import httpx
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from refold.engine.errors import RefoldError
from refold.proxy.turns import Desk, Forward, Incoming, Serve
from refold.proxy.upstream import Upstream, passed_back


class Passage:
    """Everything that comes by one route."""

    def __init__(self, route: str, desk: Desk, upstream: Upstream) -> None:
        self._route = route
        self._desk = desk
        self._upstream = upstream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        incoming = _incoming(self._route, request, body)
        try:
            decided = self._desk.begin(incoming)
        except RefoldError as error:
            await PlainTextResponse(f"refold: {error}", 500)(scope, receive, send)
            return
        work = (
            self._forward(decided, incoming, send)
            if isinstance(decided, Forward)
            else _serve(decided, send)
        )
        gone = decided.passing.gone if isinstance(decided, Forward) else None
        await _until_gone(work, request, gone)

    async def _forward(self, decided: Forward, incoming: Incoming, send: Send) -> None:
        passing = decided.passing
        has_begun = False
        try:
            async with self._upstream.asked(
                incoming.method, decided.url, incoming.headers, incoming.body
            ) as answer:
                headers = passed_back(answer.headers)
                passing.head(answer.status_code, headers)
                await _head(send, answer.status_code, headers)
                has_begun = True
                async for chunk in answer.aiter_bytes():
                    passing.chunk(chunk)
                    await _body(send, chunk)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            served = passing.failed(_code(error), str(error) or type(error).__name__)
            if has_begun:
                raise Broken from None
            await _serve(served, send)
            return
        passing.end()
        await _body(send, b"", more=False)


class Broken(Exception):
    """The connection to the program is broken, as the server's was."""


def application(desk: Desk, routes: Iterable[str], upstream: Upstream) -> Starlette:
    """Return the application that the proxy serves."""
    return Starlette(
        routes=[Mount(f"/{name}", app=Passage(name, desk, upstream)) for name in routes]
    )


def _incoming(route: str, request: Request, body: bytes) -> Incoming:
    # The path as it came: what was escaped in it stays so.
    raw = request.scope.get("raw_path") or request.scope["path"].encode()
    target = raw.decode("latin-1").removeprefix(f"/{route}") or "/"
    query = request.scope["query_string"].decode("latin-1")
    return Incoming(
        route=route,
        method=request.method,
        target=f"{target}?{query}" if query else target,
        headers=tuple(request.headers.items()),
        body=body,
    )


async def _until_gone(work, request: Request, gone) -> None:  # type: ignore[no-untyped-def]
    """Do the work until it is done or the program leaves."""
    doing = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait((doing, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not doing.done():
            doing.cancel()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await doing
        if gone is not None:
            gone()


async def _left(request: Request) -> None:
    while not await request.is_disconnected():
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return


async def _serve(decided: Serve, send: Send) -> None:
    if decided.ending == "hold" and not decided.headers:
        await asyncio.Event().wait()
    await _head(send, decided.status, decided.headers.items())
    started = time.monotonic()
    for due_ms, chunk in decided.pieces:
        wait = due_ms / 1000 - (time.monotonic() - started)
        if due_ms and wait > 0:
            await asyncio.sleep(wait)
        await _body(send, chunk)
    if decided.ending == "cut":
        raise Broken
    if decided.ending == "hold":
        await asyncio.Event().wait()
    await _body(send, b"", more=False)


async def _head(send: Send, status: int, headers: Iterable[tuple[str, str]]) -> None:
    raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _body(send: Send, content: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": content, "more_body": more})


def _code(error: Exception) -> str:
    return "timed_out" if isinstance(error, httpx.TimeoutException) else "connection"
