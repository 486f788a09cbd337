"""The log side of MCP if another process has the log: it gets each message over loopback.

A shell file: it reads the environment.  MCP clients pass few variables on to servers, so one that
is not here is looked for in the processes above.  The other end is `mcp.hub`.
Rules: CONTRACT.md §16.11.
"""

import contextlib
import http.client
import json
import os
import threading
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import psutil

from refold.engine.encoding.canonical import Json
from refold.engine.errors import RecordingGone
from refold.proxy.mcp.hub import RECORDING, unpacked
from refold.proxy.mcp.parties import Hello, Reply

_TIMEOUT_SECONDS: Final = 120.0
"""For one report; the log is on a disk, and a disk can be slow."""
_OK: Final = 200


def recording_here() -> str | None:
    """Return where the recording or replay is that this process belongs to; `None` for nowhere."""
    if found := os.environ.get(RECORDING):
        return found
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process().parents():
            with contextlib.suppress(psutil.Error, OSError):  # another user's, or gone
                if found := process.environ().get(RECORDING):
                    return found
    return None


class Remote:
    """One connection, reported to the process that has the log; from any thread."""

    def __init__(self, url: str, hello: Hello) -> None:
        """Say hello.

        Raises:
            RecordingGone: nobody takes reports there.
        """
        parts = urlsplit(url)
        self._url = url
        self._path = parts.path
        self._lock = threading.Lock()
        self._http = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT_SECONDS
        )
        told = self._asked("open", json.dumps(attrs.asdict(hello)).encode())
        self.is_replay: bool = told["is_replay"]
        self._number = told["number"]
        self.before: dict[str, str | None] = told["before"]
        """Variables that lead to the recording, as they were without it."""
        self._first = unpacked(told)

    def learn(self, headers: Sequence[tuple[str, str]]) -> None:
        """Report headers."""
        self._send("learn", json.dumps(list(headers)).encode(), "")

    def begin(self) -> Reply:
        """Return the server's first messages."""
        return self._first

    def client(self, content: bytes, channel: str = "") -> Reply:
        """Report a message of the client."""
        return unpacked(self._send("client", content, channel))

    def server(self, content: bytes, channel: str = "") -> None:
        """Report a message of the server."""
        self._send("server", content, channel)

    def failed(self, channel: str, code: str, message: str, result: Json = None) -> None:
        """Report that the response is missing."""
        said = {"code": code, "message": message, "result": result}
        self._send("failed", json.dumps(said).encode(), channel)

    def gone(self, channel: str) -> None:
        """Report that the client gave up."""
        self._send("gone", b"", channel)

    def ended(self, left: str, exit_code: int | None = None) -> None:
        """Report the end."""
        self._send("ended", json.dumps({"left": left, "exit_code": exit_code}).encode(), "")
        self._http.close()

    def _send(self, verb: str, body: bytes, channel: str) -> dict[str, Any]:
        return self._asked(f"{self._number}/{verb}", body, channel)

    def _asked(self, path: str, body: bytes, channel: str = "") -> dict[str, Any]:
        headers = {"x-refold-channel": channel} if channel else {}
        with self._lock:
            try:
                self._http.request("POST", f"{self._path}/{path}", body, headers)
                answer = self._http.getresponse()
                content = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self._http.close()
                raise RecordingGone(self._shown(), str(error) or type(error).__name__) from None
        if answer.status != _OK:
            self._http.close()
            raise RecordingGone(self._shown(), _why(content) or f"status {answer.status}")
        told: dict[str, Any] = json.loads(content)
        return told

    def _shown(self) -> str:
        """Return the address without its token."""
        return self._url.rpartition("/")[0]


def _why(content: bytes) -> str:
    try:
        told: str = json.loads(content)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return ""
    return told
