"""Asks the real servers: one client, as many connections as there are requests.

Answers come uncompressed and as they are sent; the program decides how long one may take: when it
leaves, so does the request. Redirects and cookies are the program's, too: nothing is kept from one
request to the next. Rules: CONTRACT.md §16.1.
"""

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from http.cookiejar import DefaultCookiePolicy
from typing import Final
from urllib.parse import urlsplit

import attrs
import httpx2

from refold.engine.errors import UsageError
from refold.engine.models.connections import close_if_more

Headers = tuple[tuple[str, str], ...]
"""Names in lower case; one character of a value is one byte, in any encoding."""

_HOP: Final = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "keep-alive",
    "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "x-refold-conversation",
})  # fmt: skip
"""Headers that belong to one connection, or to the proxy."""
_PLAIN: Final = frozenset({"identity", ""})
"""Encodings that change nothing."""

_STATUSES: Final = range(200, 600)
"""Those of answers; an answer with another cannot be forwarded unchanged."""

CONNECT_SECONDS: Final = 30.0


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
    return [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in [*_end_to_end([*headers]), ("accept-encoding", "identity")]
    ]


def passed_back(raw: Iterable[tuple[bytes, bytes]], *, is_unpacked: bool) -> Headers:
    """Return the headers of an answer as the program gets them."""
    headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in raw]
    kept = _end_to_end(headers)
    return tuple(each for each in kept if not (is_unpacked and each[0] == "content-encoding"))


def _end_to_end(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return headers without those of one connection; it names some itself (RFC 9110, 7.6.1)."""
    named = (value.lower().split(",") for name, value in headers if name == "connection")
    left_out = _HOP.union(each.strip() for names in named for each in names)
    return [(name, value) for name, value in headers if name not in left_out]


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
        UsageError: the proxy that this environment names cannot be used.
    """

    def __init__(self, *, at_once: bool = True) -> None:
        """Get ready: `at_once`, or when a server is first asked; certificates take their time."""
        self._unpacked = _PLAIN
        if at_once:
            _ = self._client

    @cached_property
    def _client(self) -> httpx2.AsyncClient:
        try:
            client = httpx2.AsyncClient(
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=50),
                timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            )
        except (ImportError, ValueError, OSError, httpx2.InvalidURL) as error:
            raise UsageError(f"the proxy or certificates of this environment: {error}") from None
        # Those that it can take off: more where `brotli` and `backports.zstd` are installed.
        unpacked = client.headers["accept-encoding"].split(",")
        self._unpacked = _PLAIN | {each.strip() for each in unpacked}
        client.headers.clear()  # nothing is sent that the program did not say
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        return client

    @asynccontextmanager
    async def asked(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> AsyncIterator[UpstreamAnswer]:
        """Give the answer while it comes; it is cancelled when the block ends.

        Raises:
            Unreachable: no answer, or only a part.
        """
        answer = await self._begun(method, url, headers, body)
        encodings = answer.headers.get("content-encoding", "").lower().split(",")
        is_unpacked = {each.strip() for each in encodings} <= self._unpacked
        try:
            yield UpstreamAnswer(
                status=answer.status_code,
                headers=passed_back(answer.headers.raw, is_unpacked=is_unpacked),
                chunks=answer.aiter_bytes() if is_unpacked else answer.aiter_raw(),
            )
        except httpx2.HTTPError as error:
            raise _unreachable(url, error) from None
        finally:
            await answer.aclose()

    async def _begun(
        self, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes
    ) -> httpx2.Response:
        try:
            told = passed_on(headers)
            if method == "HEAD":  # some servers send a body, which the next answer would begin with
                told.append((b"connection", b"close"))
            request = self._client.build_request(method, url, headers=told, content=body)
            answer = await self._client.send(request, stream=True)
            close_if_more(answer)
            if answer.status_code not in _STATUSES:
                await answer.aclose()
                raise httpx2.RemoteProtocolError(
                    f"not the status of an answer: {answer.status_code}"
                )
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
            raise _unreachable(url, error) from None
        return answer

    async def close(self) -> None:
        """Close all connections."""
        if "_client" in vars(self):
            await self._client.aclose()


def _unreachable(url: str, error: Exception) -> Unreachable:
    """Say what went wrong with which server; its path is left out, for it may hold a key."""
    code = "timed_out" if isinstance(error, httpx2.TimeoutException) else "connection"
    server = urlsplit(url).netloc.rpartition("@")[2]
    told = f"{server}: {type(error).__name__}: {error}".rstrip(": ")
    why = _why(error)
    return Unreachable(code, f"{told} ({why})" if why and why not in told else told)


def _why(error: BaseException) -> str:
    """Return the system's message, which the errors of clients leave out; empty for nothing."""
    found: BaseException | None = error
    said = ""
    while found is not None:
        if isinstance(found, OSError) and (found.errno or 0) > 0:
            said = os.strerror(found.errno or 0)
        below = found.__cause__ or found.__context__
        found = found.exceptions[0] if isinstance(found, BaseExceptionGroup) else below
    return said
