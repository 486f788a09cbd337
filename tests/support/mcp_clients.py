"""An MCP client of a few lines, with a proxy between it and its server, in this process.

What tests of MCP share.  A whole client, with the `mcp` package, is
`fixtures/foreign/mcp_agent.py`.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from refold.engine.log.reader import Entry, read_entries
from refold.proxy.mcp.sessions import Passed, proxy_command
from tests.support.foreign import FOREIGN

TINY: Final = (sys.executable, "-S", "-E", str(FOREIGN / "mcp_tiny.py"))
DEADLINE_SECONDS: Final = 60.0
"""When a client that still waits has failed."""
OTHERS_SECONDS: Final = 0.3
"""For a thread that may be another client's."""


class Client:
    """Writes lines, and reads them."""

    open_count = 0

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._ids = 0
        self._lines: Any = None
        self._to = -1
        self.passed: Passed | None = None
        self.error: Exception | None = None

    def write(self, content: bytes) -> None:
        """Write bytes as they are."""
        os.write(self._to, content)

    def say(self, **message: Any) -> None:
        """Write a message."""
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, params: Any = None, **more: Any) -> Any:
        """Write a request, and return its id."""
        self._ids += 1
        told = {} if params is None else {"params": params}
        self.say(id=self._ids, method=method, **told, **more)
        return self._ids

    def tool(self, tool: str, meta: Any = None, /, **arguments: Any) -> Any:
        """Ask for a tool, and return the id."""
        given: dict[str, Any] = {"name": tool, "arguments": arguments}
        return self.ask("tools/call", {**given, "_meta": meta} if meta else given)

    def line(self) -> bytes:
        """Return the next line; nothing at the end."""
        found: bytes = self._lines.readline()
        return found

    def read(self) -> Any:
        """Return the next message."""
        return json.loads(self.line())

    def called(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return what comes next: {result} or {error}."""
        number = self.tool(tool, **arguments)
        found = self.read()
        assert found.pop("id") == number
        assert found.pop("jsonrpc") == "2.0"
        return found

    @contextlib.contextmanager
    def running(self, command: tuple[str, ...]) -> Generator["Client"]:
        """Connect, and leave when the block ends."""
        ours, theirs = os.pipe(), os.pipe()
        self._to = ours[1]
        Client.open_count += 1

        def proxy() -> None:
            try:
                self.passed = proxy_command(command, client=(ours[0], theirs[1]), **self._options)
            except Exception as error:  # noqa: BLE001  # told to the test
                self.error = error
            finally:
                os.close(theirs[1])

        others = {*threading.enumerate()}
        thread = threading.Thread(target=proxy)
        thread.start()
        with os.fdopen(theirs[0], "rb") as self._lines:
            try:
                yield self
            finally:
                self.leave()
                thread.join(DEADLINE_SECONDS)
                assert not thread.is_alive()
                Client.open_count -= 1
                # A thread of each reads the end of what it was sent; that of an open one goes on.
                patience = OTHERS_SECONDS if Client.open_count else DEADLINE_SECONDS
                for each in {*threading.enumerate()} - others:
                    if "_from_client" in each.name:
                        each.join(patience)
                os.close(ours[0])

    def leave(self) -> None:
        """Say no more."""
        if self._to >= 0:
            os.close(self._to)
            self._to = -1


@contextlib.contextmanager
def client(command: tuple[str, ...] = TINY, **options: Any) -> Generator[Client]:
    """Give a client that is connected to a server through the proxy."""
    with Client(**options).running(command) as found:
        yield found


@contextlib.contextmanager
def recording(log: Path, **options: Any) -> Generator[Client]:
    """Give a client whose calls are recorded."""
    with client(log=log, name="tiny", **options) as found:
        yield found


@contextlib.contextmanager
def replaying(log: Path, **options: Any) -> Generator[Client]:
    """Give a client that is served from a record; there is no server."""
    with client(("no-such-server",), replay=log, **options) as found:
        yield found


def entries(log: Path) -> list[Entry]:
    """Return the entries of a log."""
    return list(read_entries(log))


def told(log: Path) -> list[Mapping[str, Any]]:
    """Return what stands beside requests and responses."""
    return [entry.data for entry in entries(log) if entry.kind == "x-refold.mcp"]


def kinds(log: Path) -> list[str]:
    """Return the kinds of all entries but the first and last of log and connection."""
    found = [
        f"{entry.data['from']} {entry.data['kind']}" if entry.kind == "x-refold.mcp" else entry.kind
        for entry in entries(log)
    ]
    edges = ("run.started", "run.finished", "client started", "server ended")
    return [each for each in found if each not in edges]
