"""Values that the HTTP side of the proxy and its log side exchange.

The HTTP side (`proxy.http.app`) shows each request to a `Desk` and carries out its decision:
forward it, reporting every part of the answer, or serve a recorded answer. All calls come from the
one thread of the server's loop, and none of them blocks but for the disk.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Literal, Protocol

import attrs

OF_HOSTS: Final = (
    r"localhost|host\.(?:docker|containers|lima)\.internal|(?:[0-9]{1,3}\.){3}[0-9]{1,3}"
)
"""How programs name the host that they run on, in containers, too."""

Ending = Literal["whole", "cut", "hold"]
"""`whole`: the body is complete · `cut`: the connection breaks after it · `hold`: nothing more
comes until the program leaves."""
OnMiss = Literal["fail", "live", "recorded"]
"""The treatment of a request without a recorded answer in a replay; `recorded`: a changed one
gets the answer to the same turn."""
Pace = Literal["full", "recorded"]
"""Whether a replay answers at once, or in the time that the record took."""


@attrs.frozen(kw_only=True)
class Incoming:
    """One request of the program."""

    route: str
    """The name of the route that it came by."""
    method: str
    target: str
    """Path and query below the route, as they came: `/chat/completions?a=1`."""
    headers: tuple[tuple[str, str], ...]
    """Names in lower case."""
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of a header; empty if there is none."""
        return next(iter(self.all_of(name)), "")

    def all_of(self, name: str) -> list[str]:
        """Return the values of all headers of that name."""
        return [value for key, value in self.headers if key == name]


class Passing(Protocol):
    """Follows one request that is passed on; one of `end`, `failed`, `gone` comes last."""

    def head(self, status: int, headers: Sequence[tuple[str, str]], /) -> None:
        """Take note of the beginning of the answer."""
        ...

    def chunk(self, content: bytes, /) -> None:
        """Take note of some bytes, before the program gets them."""
        ...

    def end(self) -> None:
        """Take note that the answer is whole, before the program learns it."""
        ...

    def failed(self, code: str, message: str, /) -> "Serve":
        """Record that the server cannot be reached, or broke off; return the answer for it.

        If the answer has begun already, the connection to the program is broken instead.
        """
        ...

    def gone(self) -> None:
        """Take note that the program left before the answer was whole."""
        ...


async def _at_once(_alone: bool, /) -> None:  # noqa: FBT001 - of `Forward.kept`
    """Wait for nothing."""


@attrs.frozen(kw_only=True)
class Forward:
    """Pass it on."""

    url: str
    passing: Passing
    body: bytes | None = None
    """The forwarded body in place of the request's; `None` for that."""
    kept: Callable[[bool], Awaitable[None]] = _at_once
    """Returns when all that was noted is on disk; unless told that no other request is passed on,
    others go on meanwhile."""
    redirected: Callable[[str], str] = str
    """Says where a `location` of the answer leads from the program's point of view."""
    past: Callable[[str], None] | None = None
    """Gets a note of addresses in the answer that lead past the proxy; `None`: bodies stay as they
    are."""


@attrs.frozen(kw_only=True)
class Serve:
    """Answer it from here."""

    status: int
    headers: dict[str, str]
    pieces: Iterable[tuple[int, bytes]]
    """Chunks, each with the milliseconds after the request at which it is due; 0 for at once."""
    ending: Ending = "whole"
    later: AsyncIterator[bytes] | None = None
    """What comes after the pieces, whenever it does."""
    is_begun: bool = True
    """Whether anything comes at all, with the ending `hold`."""
    ready: Callable[[], Awaitable[None]] | None = None
    """Returns when it is its turn; nothing is sent before."""
    last: Callable[[], Awaitable[None]] | None = None
    """Returns when its end may be sent: the last piece, and that there is no more."""
    done: Callable[[], None] | None = None
    """Is called when it was sent, or the program has left."""
    instead: Callable[[], Awaitable["Serve"]] | None = None
    """Returns the answer, when it is known; then nothing else is looked at but `done`."""

    @classmethod
    def json(cls, status: int, body: Any, *, may_retry: bool = True) -> "Serve":
        """Return an answer with that JSON value as body."""
        headers = {"content-type": "application/json"}
        headers |= {} if may_retry else {"x-should-retry": "false"}
        return cls(status=status, headers=headers, pieces=[(0, json.dumps(body).encode())])


class Desk(Protocol):
    """Decides what becomes of each request."""

    def begin(self, incoming: Incoming, /) -> Forward | Serve:
        """Return what to do with a request that has come whole."""
        ...
