"""The proxy's thread: a server on loopback, at a free port, for as long as a block lasts."""

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import Final

import uvicorn

from refold.proxy.app import application
from refold.proxy.turns import Desk
from refold.proxy.upstream import Upstream

HOST: Final = "127.0.0.1"
_GRACE_SECONDS: Final = 5


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
    """
    with socket.create_server((HOST, port), backlog=2048) as listening:
        upstream = Upstream()
        config = uvicorn.Config(
            application(desk, routes, upstream),
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        server = _Server(config)
        thread = threading.Thread(
            target=server.run, args=([listening],), name="refold-proxy", daemon=True
        )
        thread.start()
        try:
            yield f"http://{HOST}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
