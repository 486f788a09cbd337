"""The proxy's thread: a server on loopback, at a free port, for as long as a block lasts."""

import asyncio
import contextlib
import secrets
import socket
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from refold.proxy.http.app import Application
from refold.proxy.http.turns import Desk
from refold.proxy.http.upstream import Upstream

HOST: Final = "127.0.0.1"
_FLUSH_SECONDS: Final = 0.5
"""Seconds in which a program may still read its answers when all ends."""
_WORD_BYTES: Final = 16
_POLL_SECONDS: Final = 0.002
_IDLE_SECONDS: Final = 3600
"""After which an idle connection is closed: late, so that no client meets a closed one."""


class _Server(uvicorn.Server):
    """A server that leaves the signals to the command, and ends at once on request."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are."""
        yield

    async def main_loop(self) -> None:
        """Return when it is to end; by default, that is looked at ten times a second."""
        await self.ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections that are idle; wait for the others, but not for ever."""
        for each in (*self.servers, *(sockets or ())):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        until = asyncio.get_running_loop().time() + _FLUSH_SECONDS
        while self.server_state.tasks or self.server_state.connections:
            if asyncio.get_running_loop().time() > until:
                await self._break_off()
                break
            await asyncio.sleep(_POLL_SECONDS)
        for task in self.server_state.tasks:
            task.cancel()

    async def _break_off(self) -> None:
        """Break the connections of programs that read no more."""
        for connection in list(self.server_state.connections):
            transport: asyncio.Transport | None = getattr(connection, "transport", None)
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)


class _Requests(H11Protocol):
    """Reads requests; what it cannot read never reaches the application, which is told."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of TCP
        """Tell the application of a connection."""
        super().connection_made(transport)
        assert isinstance(self.config.app, Application)
        self.config.app.connections[self.client] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that a connection has ended."""
        assert isinstance(self.config.app, Application)
        self.config.app.connections.pop(self.client, None)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request."""
        assert isinstance(self.config.app, Application)
        self.config.app.unread()
        super().send_400_response(msg)


@contextlib.contextmanager
def served(
    desk: Desk,
    routes: Collection[str],
    *,
    port: int = 0,
    host: str = HOST,
    passes_on: bool = True,
    word: str = "",
    unserved: dict[str, str] | None = None,
    given: socket.socket | None = None,
) -> Iterator[str]:
    """Serve until the block ends; give the base URL, `http://127.0.0.1:PORT/WORD`.

    With `given`, a socket that listens already, it is served in place of `host` and `port`; it is
    closed at the end.

    `host` is where it listens.  Of another one than the loopback, a container names it as it knows
    it: by an address, or by the name that its engine gives the host.
    `unserved` gets notes of what reaches no desk: of WebSockets by path, and of what is not HTTP.

    `word` is drawn, unless it is given: who does not know it is refused (CONTRACT.md §16.1).

    Routes that are added meanwhile are served, too.  Without `passes_on`, what asks real servers
    is made ready only if it is needed.

    Requests in flight at the end of the block are cancelled, and reported to the desk.

    Raises:
        OSError: the port is taken.
        UsageError: the proxy that this environment names cannot be used.
        Exception: at the end of the block, what went wrong while it served.
    """
    with given or socket.create_server((host, port), backlog=2048) as listening:
        # Each connection has it, too: else a chunk waits 40 ms for the client to confirm the last.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        word = word or secrets.token_hex(_WORD_BYTES)
        number = listening.getsockname()[1]
        upstream = Upstream(at_once=passes_on)
        names = ("127.0.0.1", "localhost") if host == HOST else ()
        application = Application(
            desk, routes, upstream, names=names, port=number, word=word, unserved=unserved
        )
        server = _Server(
            uvicorn.Config(
                application, http=_Requests, ws="none", lifespan="off", interface="asgi3",
                log_config=None, log_level="critical", access_log=False, proxy_headers=False,
                server_header=False, date_header=False, timeout_keep_alive=_IDLE_SECONDS,
            )
        )  # fmt: skip
        loop = asyncio.new_event_loop()
        loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="refold-names"))
        # A connection that breaks is nobody's fault, and no text of it belongs on a terminal.
        loop.set_exception_handler(lambda _loop, _context: None)

        async def serve() -> None:
            try:
                await server.serve(sockets=[listening])
            finally:
                await upstream.close()

        def run() -> None:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(serve())

        def end() -> None:
            application.close()
            server.ending.set()

        with ThreadPoolExecutor(1, "refold-proxy") as thread:
            running = thread.submit(run)
            try:
                yield f"http://{host}:{number}/{word}"
            finally:
                with contextlib.suppress(RuntimeError):  # it has ended already: by a fault
                    loop.call_soon_threadsafe(end)
        if application.fault is not None:
            raise application.fault
        running.result()
