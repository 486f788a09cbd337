"""The proxy's thread: a server on loopback, at a free port, for as long as a block lasts."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

import uvicorn

from refold.proxy.app import Application
from refold.proxy.turns import Desk
from refold.proxy.upstream import Upstream

HOST: Final = "127.0.0.1"
_GRACE_SECONDS: Final = 2
"""For connections that are still open when all ends."""
_IDLE_SECONDS: Final = 3600
"""After which an idle connection is closed: late, so that no client meets a closed one."""


class _Server(uvicorn.Server):
    """A server that leaves the signals to the command."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals as they are."""
        yield


@contextlib.contextmanager
def served(desk: Desk, routes: Iterable[str], *, port: int = 0) -> Iterator[str]:
    """Serve until the block ends; give the base URL, `http://127.0.0.1:PORT`.

    What is on its way when the block ends is given up, and told to the desk as such.

    Raises:
        OSError: the port is taken.
        UsageError: the proxy that this environment names cannot be used.
        Exception: at the end of the block, what went wrong while it served.
    """
    with socket.create_server((HOST, port), backlog=2048) as listening:
        proxy = _Proxy(desk, routes, listening)
        proxy.start()
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            proxy.stop()
        if proxy.fault is not None:
            raise proxy.fault


class _Proxy:
    """A server in a thread of its own."""

    def __init__(self, desk: Desk, routes: Iterable[str], listening: socket.socket) -> None:
        self.fault: BaseException | None = None
        self._upstream = Upstream()
        self._application = Application(desk, routes, self._upstream)
        self._server = _Server(_config(self._application))
        self._listening = listening
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refold-proxy", daemon=True)

    def start(self) -> None:
        """Start it; requests may come at once."""
        self._thread.start()
        self._is_up.wait()

    def stop(self) -> None:
        """Give up what is on its way, and end."""
        with contextlib.suppress(RuntimeError):  # it has ended already: by a fault
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._end)
        self._thread.join()

    def _end(self) -> None:
        self._application.close()
        self._server.should_exit = True

    def _run(self) -> None:
        try:
            asyncio.run(self._served())
        except BaseException as error:  # noqa: BLE001  # it is raised again where the block ends
            self.fault = error
        finally:
            self._is_up.set()
        self.fault = self._application.fault or self.fault

    async def _served(self) -> None:
        self._loop = asyncio.get_running_loop()
        # A connection that breaks is nobody's fault, and no text of it belongs on a terminal.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._is_up.set()
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            await self._upstream.close()


def _config(application: Any) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http="h11",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_IDLE_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
