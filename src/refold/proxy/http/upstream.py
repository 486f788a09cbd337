"""Asks the real servers, by as many connections as there are requests.

Answers come uncompressed and as they are sent; the program decides how long one may take: when it
leaves, so does the request. Redirects and cookies are the program's, too: nothing is kept from one
request to the next but the connection. Rules: CONTRACT.md §16.1.
"""

import asyncio
import base64
import itertools
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import cached_property, lru_cache
from typing import Final
from urllib.request import getproxies, proxy_bypass

import attrs
import h11
import httpx2

from refold.engine.errors import UsageError
from refold.proxy.http.connection import BrokenOff, ServerConnection, why

Headers = tuple[tuple[str, str], ...]
"""Names in lower case; one character of a value is one byte, in any encoding."""

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
_PLAIN: Final = frozenset({"identity", ""})
"""Encodings that change nothing."""
_PACKED: Final = frozenset({"gzip", "deflate", "br", "zstd"})
"""Encodings that are taken off."""

_STATUSES: Final = range(200, 600)
"""Those of answers; an answer with another cannot be forwarded unchanged."""

CONNECT_SECONDS: Final = 30.0
_IDLE_SECONDS: Final = 5.0
"""After which a connection is not used again: its server may be about to close it."""
_IDLE_MAX: Final = 50
_NEXT_SECONDS: Final = 0.25
"""After which the next address of a server is tried, too."""
_PORTS: Final = {"http": 80, "https": 443}
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_SUCCESS: Final = range(200, 300)


@attrs.frozen(kw_only=True)
class UpstreamAnswer:
    """The answer of a server, while it comes."""

    status: int
    headers: Headers
    """As the program gets them."""
    chunks: AsyncIterator[bytes]
    """The body as it comes; raises `Unreachable` where it breaks off."""


@attrs.define(eq=False)
class Unreachable(Exception):
    """A server gives no answer, or not all of it."""

    code: str
    """`connection`, or `timed_out` where no connection came about in `CONNECT_SECONDS`."""
    message: str


def passed_on(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a request as the server gets them."""
    kept = [(name, value) for name, value in headers if name not in _HOP]
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in [*kept, ("accept-encoding", "identity")]
    ]


def passed_back(raw: Iterable[tuple[bytes, bytes]], *, is_unpacked: bool) -> Headers:
    """Return the headers of an answer as the program gets them."""
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    left_out = _HOP | {"content-encoding"} if is_unpacked else _HOP
    return tuple((name, value) for name, value in headers if name not in left_out)


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return the unpacked body of a request (Codex packs with zstd); else unchanged."""
    if not encoding:
        return body
    try:
        return httpx2.Response(200, headers={"content-encoding": encoding}, content=body).content
    except httpx2.DecodingError:
        return body


class Upstream:
    """The servers behind the proxy.

    Raises:
        UsageError: the proxy or the certificates that this environment names cannot be used.
    """

    def __init__(self, *, at_once: bool = True) -> None:
        """Get ready: `at_once`, or when a server is first asked; certificates take their time."""
        self._idle: dict[str, list[tuple[float, ServerConnection]]] = {}
        """By server: since when, the newest last."""
        if at_once:
            _ = self._proxies, self._certificates

    @cached_property
    def _certificates(self) -> ssl.SSLContext:
        try:
            return httpx2.create_ssl_context()
        except OSError as error:
            raise UsageError(f"the certificates of this environment: {error}") from None

    @cached_property
    def _proxies(self) -> dict[str, httpx2.Proxy]:
        """By the scheme of a URL; its own has no other."""
        named, found = getproxies(), {}
        for scheme in _PORTS:
            if url := named.get(scheme) or named.get("all"):
                try:
                    found[scheme] = httpx2.Proxy(url if "://" in url else f"http://{url}")
                    _ = _PORTS[found[scheme].url.scheme]
                except (LookupError, ValueError, httpx2.InvalidURL):
                    told = f"{scheme.upper()}_PROXY or ALL_PROXY: expected http://HOST:PORT"
                    raise UsageError(told) from None
        return found

    @asynccontextmanager
    async def asked(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> AsyncIterator[UpstreamAnswer]:
        """Give the answer while it comes; it is cancelled when the block ends.

        Raises:
            Unreachable: no answer, or only a part.
        """
        server, connection = "", None
        try:
            try:
                there = _url(url)
                server = there.netloc.decode()
                proxy = self._proxy_of(there)
                if (connection := self._kept(there)) is None:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        connection = await self._connected(proxy.url if proxy else there)
                        if proxy is not None and there.scheme == "https":
                            await self._tunnel(connection, there, proxy)
                request = _request(method, there, headers, len(body), proxy)
                answer = await connection.asked(request, body)
                if answer.status_code not in _STATUSES:
                    raise BrokenOff(f"not the status of an answer: {answer.status_code}")
            except TimeoutError:
                told = f"{server}: no connection within {CONNECT_SECONDS:g} s"
                raise Unreachable("timed_out", told) from None
            except (OSError, ValueError, httpx2.InvalidURL, h11.ProtocolError) as error:
                raise BrokenOff(why(error)) from None
            yield _answer(answer, connection.body(method, answer))
        except (BrokenOff, httpx2.DecodingError) as error:
            raise Unreachable("connection", f"{server}: {error}") from None
        finally:
            if connection is not None:
                self._leave(there, connection)

    # --- connections ---------------------------------------------------------------------

    def _proxy_of(self, url: httpx2.URL) -> httpx2.Proxy | None:
        proxy, names = self._proxies.get(url.scheme), (url.host, url.netloc.decode())
        return None if proxy is None or any(map(proxy_bypass, names)) else proxy

    def _kept(self, url: httpx2.URL) -> ServerConnection | None:
        """Return an idle connection, if there is one that can be used."""
        idle = self._idle.get(_server(url), [])
        while idle:
            since, connection = idle.pop()
            if connection.is_idle() and time.monotonic() - since < _IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def _leave(self, url: httpx2.URL, connection: ServerConnection) -> None:
        idle = self._idle.setdefault(_server(url), [])
        if connection.is_reusable and len(idle) < _IDLE_MAX:
            idle.append((time.monotonic(), connection))
        else:
            connection.abort()

    async def _connected(self, url: httpx2.URL) -> ServerConnection:
        reader, writer = await asyncio.open_connection(
            url.raw_host.decode(),
            url.port or _PORTS[url.scheme],
            ssl=self._certificates if url.scheme == "https" else None,
            happy_eyeballs_delay=_NEXT_SECONDS,
        )
        return ServerConnection(reader, writer)

    async def _tunnel(
        self, connection: ServerConnection, url: httpx2.URL, proxy: httpx2.Proxy
    ) -> None:
        """Have a proxy lead a connection to the server."""
        there = url.netloc if url.port else url.netloc + b":443"
        told = [(b"host", there), *_credentials(b"proxy-authorization", proxy.raw_auth)]
        answer = await connection.asked(h11.Request(method="CONNECT", target=there, headers=told))
        if answer.status_code not in _SUCCESS:
            raise BrokenOff(f"the proxy answers with status {answer.status_code}")
        await connection.writer.start_tls(self._certificates, server_hostname=url.raw_host.decode())

    async def close(self) -> None:
        """Close all connections."""
        for _, connection in itertools.chain.from_iterable(self._idle.values()):
            connection.abort()


def _answer(answer: h11.Response, chunks: AsyncIterator[bytes]) -> UpstreamAnswer:
    packed = b",".join(value for name, value in answer.headers if name == b"content-encoding")
    encodings = {each.strip() for each in packed.decode("latin-1").lower().split(",")} - _PLAIN
    is_unpacked = encodings <= _PACKED
    if encodings and is_unpacked:
        told = [(b"content-encoding", packed)]
        chunks = httpx2.Response(200, headers=told, content=chunks).aiter_bytes()
    return UpstreamAnswer(
        status=answer.status_code,
        headers=passed_back(answer.headers, is_unpacked=is_unpacked),
        chunks=chunks,
    )


_url: Final = lru_cache(256)(httpx2.URL)


def _server(url: httpx2.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode()}"


def _request(
    method: str,
    url: httpx2.URL,
    headers: Iterable[tuple[str, str]],
    size: int,
    proxy: httpx2.Proxy | None,
) -> h11.Request:
    told, target = passed_on(headers), url.raw_path
    if url.userinfo:
        own = _credentials(b"authorization", (url.username.encode(), url.password.encode()))
        told = [*own, *(pair for pair in told if pair[0] != b"authorization")]
    told.append((b"host", url.netloc))
    if size or method in _WITH_BODY:
        told.append((b"content-length", b"%d" % size))
    if method == "HEAD":  # some servers send a body, which the next answer would begin with
        told.append((b"connection", b"close"))
    if proxy is not None and url.scheme == "http":
        target = _server(url).encode() + target
        told += _credentials(b"proxy-authorization", proxy.raw_auth)
    return h11.Request(method=method, target=target, headers=told)


def _credentials(name: bytes, auth: tuple[bytes, bytes] | None) -> list[tuple[bytes, bytes]]:
    return [(name, b"Basic " + base64.b64encode(b":".join(auth)))] if auth else []
