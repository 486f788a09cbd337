"""Asks the real servers: one client, as many connections as there are requests.

Answers come uncompressed and as they are sent; how long one may take is the program's to say: when
it leaves, so does the request.  Redirects are the program's, too.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final

import httpx

_HOP: Final = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-refold-conversation",
    }
)
"""Headers that belong to one connection, or to the proxy."""
_ANSWERED: Final = frozenset({*_HOP, "content-encoding"})

CONNECT_SECONDS: Final = 30.0


def passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the headers of a request as the server gets them."""
    kept = [(name, value) for name, value in headers if name not in _HOP]
    return [*kept, ("accept-encoding", "identity")]


def passed_back(headers: httpx.Headers) -> list[tuple[str, str]]:
    """Return the headers of an answer as the program gets them."""
    return [(name, value) for name, value in headers.multi_items() if name not in _ANSWERED]


class Upstream:
    """The servers behind the proxy."""

    def __init__(self) -> None:
        self._client = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=50),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        )

    @asynccontextmanager
    async def asked(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> AsyncIterator[httpx.Response]:
        """Give the answer while it comes.

        Raises:
            httpx.HTTPError: there is none.
            httpx.InvalidURL: the URL is none.
        """
        async with self._client.stream(
            method, url, headers=passed_on(headers), content=body
        ) as answer:
            yield answer

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()
