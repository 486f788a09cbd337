"""A proxy between an MCP client and a server on standard input and output.

Each line passes as it came, byte for byte, when it has been written down. Both directions have a
thread, so that a blocked one does not hold up the other. A replay has no server: the recorded
messages are written instead. Rules: CONTRACT.md §16.11.
"""

import contextlib
import os
import select
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from refold.engine.errors import RefoldError, UsageError
from refold.engine.log.descriptors import write_all
from refold.engine.process.bounds import BY_SIGNAL
from refold.engine.recording.interrupts import at_a_stretch
from refold.proxy.mcp.hub import RECORDING
from refold.proxy.mcp.parties import Party, Reply
from refold.proxy.signals import Signals, waited

_READ_BYTES: Final = 256 * 1024

Descriptors = tuple[int, int]
"""The streams from and to a client."""
STANDARD: Final[Descriptors] = (0, 1)


@attrs.frozen
class EndedServer:
    """The end of a connection."""

    left: str
    """`client` or `server`: who left first."""
    exit_code: int
    """Of the server, as in a shell."""


def lines(descriptor: int) -> Iterator[bytes]:
    """Yield lines as they come, with their ends; the last may have none."""
    begun: list[bytes] = []
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while content := _read(descriptor, poll):
        *whole, rest = content.split(b"\n")
        for piece in whole:
            yield b"".join((*begun, piece, b"\n"))
            begun.clear()
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


def _read(descriptor: int, poll: "select.poll") -> bytes:
    """Return what comes next; meanwhile Python may run the handler of a signal."""
    seconds = at_a_stretch(None)
    while seconds is not None and not poll.poll(seconds * 1000):
        pass
    return os.read(descriptor, _READ_BYTES)


def serve(party: Party, client: Descriptors = STANDARD) -> EndedServer:
    """Answer the client from the record, until one of them leaves."""
    ends = _written(party.begin(), client)
    if ends is None:
        for line in lines(client[0]):
            ends = _written(party.client(line), client)
            if ends is not None:
                break
    ended = EndedServer("client", 0) if ends is None else EndedServer("server", ends)
    party.ended(ended.left, ended.exit_code)
    return ended


def _written(reply: Reply, client: Descriptors) -> int | None:
    for each in reply.sent:
        with contextlib.suppress(BrokenPipeError):  # whoever left has nothing to be told
            write_all(client[1], each.content + b"\n")
    return reply.ends


def start(
    command: Sequence[str], before: Mapping[str, str | None] | None = None
) -> "subprocess.Popen[bytes]":
    """Start a server; its standard error passes.

    It does not see the recording: its requests are its own affair, for in a replay it does not run.
    `before` has variables as they are without a recording; `None` for not there.

    Raises:
        UsageError: it cannot be started.
    """
    changed = {**os.environ, **(before or {}), RECORDING: None}
    environment = {name: value for name, value in changed.items() if value is not None}
    try:
        return subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"{command[0]}: {getattr(error, 'strerror', None) or error}") from None


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server that nothing has passed to."""
    process.kill()
    with process:  # closes its pipes
        pass


@attrs.define(eq=False)
class Passage:
    """One connection: everything passes between a client and a server."""

    _party: Party
    _process: "subprocess.Popen[bytes]"
    _client: Descriptors
    _lock: threading.Lock = attrs.field(factory=threading.Lock, init=False)
    _has_client_left: bool = attrs.field(default=False, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    _fault: RefoldError | None = attrs.field(default=None, init=False)

    def ended(self) -> EndedServer:
        """Let everything pass until the server has ended; no pipe is left.

        Raises:
            LogPoisoned: nothing can be written down any more; the server is stopped.
            RecordingGone: the same, if another process has the log.
        """
        threading.Thread(target=self._from_client, daemon=True).start()
        assert self._process.stdout is not None
        with Signals() as signals, signals.going_to(lambda: self._process), self._process.stdout:
            self._from_server()
            code, _ = waited(self._process)
        with self._lock:
            self._is_over = True
            if self._fault is not None:
                raise self._fault
            ended = EndedServer(
                "client" if self._has_client_left or signals.came else "server",
                code if code >= 0 else BY_SIGNAL - code,
            )
            self._party.ended(ended.left, ended.exit_code)
        return ended

    def _from_client(self) -> None:
        assert self._process.stdin is not None
        server = self._process.stdin.fileno()
        try:
            for line in lines(self._client[0]):
                with self._lock:
                    if self._is_over or self._fault is not None:
                        return
                    self._party.client(line)
                write_all(server, line)
            self._has_client_left = True
        except RefoldError as error:
            self._failed(error)
        except BrokenPipeError:  # the server has gone; what it still said is on its way
            pass
        finally:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def _from_server(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in lines(self._process.stdout.fileno()):
                with self._lock:
                    if self._fault is not None:
                        return
                    self._party.server(line)
                try:
                    write_all(self._client[1], line)
                except BrokenPipeError:
                    self._has_client_left = True
        except RefoldError as error:
            self._failed(error)

    def _failed(self, error: RefoldError) -> None:
        """Stop: what cannot be written down does not pass."""
        with self._lock:
            self._fault = self._fault or error
        self._process.kill()
