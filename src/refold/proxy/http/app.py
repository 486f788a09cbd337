"""The proxy as one application: reads a request whole, asks the desk, passes on or serves.

The first segment of a path is a word that only those know who were given the base URL, the second
names the route; the rest is the server's. Requests by another name, from a web page or without that
word are refused: any page in a browser and any user of this machine can connect to a port of
loopback, and requests are sent with the keys of this user. A program that leaves is noticed at
once, and its requests are cancelled. Errors on this side reach the program as status 500, or as a
broken connection if an answer has begun, and are kept in `fault` for the starter of the proxy.
Speaks ASGI 3.

Answers name places at their server: of uploads, results, operations, next pages. The program gets
these as places at the proxy, else its next request would bypass the proxy. In its requests they
are the server's again. Rules: CONTRACT.md §16.1.
"""

import asyncio
import re
import secrets
import socket
import struct
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    MutableMapping,
)
from typing import Any, Final
from urllib.parse import unquote

import attrs

from refold.engine.errors import RefoldError
from refold.proxy.http.turns import OF_HOSTS, Desk, Forward, Incoming, Passing, Serve
from refold.proxy.http.upstream import Unreachable, Upstream, UpstreamAnswer

Headers = tuple[tuple[str, str], ...]

BODY_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of an answer that is searched for addresses."""
_MEMBER: Final = rb'(?i:"[\w.-]{0,64}(?:url|uri|href|link|next|location|endpoint)"\s{0,8}:\s{0,8}")'
"""The name of a member that holds an address; texts of models stay as they are."""
_END: Final = rb"(?=[/\\?#\"]|\Z)"
_BY_REDIRECT: Final = "location"
"""The header that each route leads by itself."""


class Addresses:
    """The addresses of one server, as it says them and as the program is told them."""

    def __init__(self, url: str, target: str, here: str) -> None:
        """Take a request's URL at the server, its path below the route, and the route's URL here.

        `target` is the end of `url`; if the proxy changed it, nothing is led.
        """
        path = target.partition("?")[0]
        whole = url.partition("?")[0]
        base = whole.removesuffix(path) if path and whole.endswith(path) else ""
        self._theirs, self._here = _spelled(base), _spelled(here)
        server = re.match(r"https?://[^/?#]+", url)
        self._server = server[0].encode() if server is not None else b""
        ways = b"|".join(re.escape(each) for each in dict.fromkeys(self._theirs))
        self._found = re.compile(rb"(%b)(%b)%b" % (_MEMBER, ways, _END)) if base else None

    def asked(self, content: bytes) -> bytes:
        """Return a JSON body of a request with the server's addresses, where a text begins so."""
        if self._found is not None:
            for here, theirs in zip(self._here, self._theirs, strict=True):
                content = content.replace(b'"' + here, b'"' + theirs)
        return content

    def answered(self, content: bytes) -> bytes:
        """Return a JSON body with the proxy's addresses, in members that hold addresses."""
        if self._found is None:
            return content
        by_spelling = dict(zip(self._theirs, self._here, strict=True))
        return self._found.sub(lambda found: found[1] + by_spelling[found[2]], content)

    def headers(
        self, given: Iterable[tuple[str, str]], redirected: Callable[[str], str]
    ) -> Headers:
        """Return an answer's headers with the proxy's addresses."""
        theirs, here = (each[0].decode("latin-1") for each in (self._theirs, self._here))

        def value_of(name: str, value: str) -> str:
            if name == _BY_REDIRECT:
                return redirected(value)
            is_below = self._found is not None and value.startswith(theirs)
            rest = value.removeprefix(theirs)
            return here + rest if is_below and rest[:1] in ("", "/", "?", "#") else value

        return tuple((name, value_of(name, value)) for name, value in given)

    def past(self, content: bytes) -> str:
        """Return an address in a JSON body that leads past the proxy; empty for none."""
        if not self._server:
            return ""
        ways = b"|".join(map(re.escape, _spelled(self._server.decode("latin-1"))))
        found = re.search(rb"%b((?:%b)[/?#\\][^\"?#]{0,200})" % (_MEMBER, ways), content)
        return found[1].decode("latin-1").replace("\\/", "/") if found is not None else ""


def _spelled(url: str) -> tuple[bytes, bytes]:
    """Return the spellings of an address in JSON."""
    return url.encode("latin-1"), url.replace("/", "\\/").encode("latin-1")


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Any], Awaitable[None]]

_FORBIDDEN: Final = 403
_NOT_FOUND: Final = 404
_FAULT: Final = 500
_UPGRADE_REQUIRED: Final = 426
"""To a WebSocket: clients that can ask over HTTP do so at once (Codex tries five times at 501)."""
_READ_SECONDS: Final = 0.25
"""Wait before a connection breaks as the server's did: clients drop unread data (Bun), and the
replayed program should see the same."""
_UNSEEN: Final = (
    f"an answer has more than {BODY_BYTES_MAX // 2**20} MiB: if it names addresses of its server, "
    "requests there are not recorded"
)
_DECODED_MAX: Final = 4
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""Of a socket: unsent data is dropped when it is closed, and the other side sees an error."""
_NO_WEBSOCKETS: Final = "WebSockets cannot be recorded: make the client use HTTP"
_UNREAD: Final = (
    "a request was refused that is not HTTP as expected: its first line or a header has characters "
    "beyond ASCII, or it is longer than 64 kB"
)


class Application:
    """Answers each request that comes to the server of the proxy (ASGI)."""

    def __init__(
        self,
        desk: Desk,
        routes: Collection[str],
        upstream: Upstream,
        *,
        names: Collection[str],
        port: int,
        word: str,
        unserved: dict[str, str] | None = None,
    ) -> None:
        """Take what decides, the names of routes, and by which name, port and word programs come.

        Without `names`, they come by any address, or by a name that containers have for their host:
        no page can have another site's name lead to one of these.
        `unserved` gets a note for each path at which a WebSocket was refused, until HTTP is used
        there, and one for requests that could not be read.
        """
        self._unserved = {} if unserved is None else unserved
        self.fault: Exception | None = None
        """The first thing that went wrong on this side."""
        self._desk = desk
        self._routes = routes  # as it is: whoever started the proxy may add some
        self._upstream = upstream
        self._places = re.compile(
            rf"(?:{'|'.join(map(re.escape, names)) or OF_HOSTS}):{port}", re.IGNORECASE
        )
        self._word = word
        self._is_closing = False
        self.connections: dict[Any, asyncio.Transport] = {}
        """By address of the program."""
        self._doing: set[asyncio.Task[None]] = set()
        """The requests in flight."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer = _Answer(send, self._word)
        word, incoming = _incoming(scope)
        if why := self._foreign(word, incoming):
            await answer.refused(_FORBIDDEN, why)
            return
        body = await _body_of(receive)
        if body is None:
            return
        try:
            await self._answered(attrs.evolve(incoming, body=body), answer, receive)
        except Exception as error:  # noqa: BLE001  # no text of it may reach the terminal from here
            self.fault = self.fault or error
            await answer.refused(_FAULT, _fault_text(error))
        if answer.is_open and scope["http_version"] == "1.0":
            self._reset(scope["client"])

    def unread(self) -> None:
        """Note that a request could not be read, and was refused."""
        self._unserved[""] = _UNREAD

    def close(self) -> None:
        """Cancel all requests in flight, and all later ones; from the loop's thread."""
        self._is_closing = True
        for task in self._doing:
            task.cancel()

    def _reset(self, client: Any) -> None:
        """Break a connection so that its end does not end the answer, as it does in HTTP/1.0."""
        if (connection := self.connections.get(client)) is not None:
            socket_of: socket.socket = connection.get_extra_info("socket")
            socket_of.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            connection.abort()

    def _foreign(self, word: str, incoming: Incoming) -> str:
        """Return why a request is not the program's; empty for one that is."""
        hosts, origins = incoming.all_of("host"), incoming.all_of("origin")
        if len(hosts) != 1 or not self._places.fullmatch(hosts[0]):
            return "expected the address of this proxy as Host"
        if not all(self._places.fullmatch(each.removeprefix("http://")) for each in origins):
            return "requests from web pages are refused: the Origin is not this proxy"
        if not secrets.compare_digest(word.encode(), self._word.encode()):
            return "expected the complete base URL that the command was given, including its path"
        if _climbs(f"/{incoming.route}{incoming.target}"):
            return "the path leads above the base URL"
        return ""

    async def _answered(self, incoming: Incoming, answer: "_Answer", receive: Receive) -> None:
        if incoming.route not in self._routes:
            known = ", ".join(f"/{name}/…" for name in sorted(self._routes))
            await answer.refused(_NOT_FOUND, f"unknown route /{incoming.route}: expected {known}")
            return
        path = incoming.target.partition("?")[0]
        if incoming.header("upgrade").lower() == "websocket":
            self._unserved[path] = f"a WebSocket was refused at {path}: {_NO_WEBSOCKETS}"
            await answer.refused(_UPGRADE_REQUIRED, _NO_WEBSOCKETS)
            return
        self._unserved.pop(path, None)
        decided = self._desk.begin(incoming)
        if isinstance(decided, Serve):
            await self._until_left(_serve(decided, answer), receive)
            return
        try:
            await self._until_left(self._forward(decided, incoming, answer), receive)
        finally:
            decided.passing.gone()

    async def _forward(self, decided: Forward, incoming: Incoming, answer: "_Answer") -> None:
        passing = decided.passing
        here = f"http://{incoming.header('host')}/{self._word}/{incoming.route}"
        addresses = Addresses(decided.url, incoming.target, here)
        await decided.kept(len(self._doing) == 1)
        try:
            async with self._upstream.asked(
                incoming.method,
                decided.url,
                incoming.headers,
                addresses.asked(incoming.body if decided.body is None else decided.body),
            ) as found:
                headers = addresses.headers(found.headers, decided.redirected)
                if decided.past is not None and _is_json(headers):
                    found = attrs.evolve(  # noqa: PLW2901 - the same, with other addresses
                        found, chunks=_redirected(found.chunks, addresses, decided.past)
                    )
                passing.head(found.status, headers)
                await answer.head(found.status, headers)
                await _pass(found, passing, answer)
        except Unreachable as error:
            served = passing.failed(error.code, error.message)
            if not answer.has_begun:
                await _serve(served, answer)
                return
            await asyncio.sleep(_READ_SECONDS)
            return  # without an end: the connection breaks as the server's did
        passing.end()
        await decided.kept(len(self._doing) == 1)
        await answer.end()

    async def _until_left(self, work: Coroutine[Any, Any, None], receive: Receive) -> None:
        """Work until it is done, the program leaves, or all ends; raise its exception."""
        doing, leaving = asyncio.create_task(work), asyncio.create_task(_left(receive))
        leaving.add_done_callback(lambda _left: doing.cancel())
        self._doing.add(doing)
        if self._is_closing:
            doing.cancel()
        try:
            await asyncio.wait((doing,))
        finally:
            leaving.cancel()
            if not doing.done():
                doing.cancel()
                await asyncio.wait((doing,))
            self._doing.discard(doing)
        if not doing.cancelled() and (error := doing.exception()) is not None:
            raise error


class _Answer:
    """The answer that a program gets; one without an end breaks its connection."""

    def __init__(self, send: Send, word: str) -> None:
        self._send = send
        self._word = word
        self.has_begun = False
        self.is_open = False
        """Whether it has begun and not ended."""

    async def head(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Begin; a `location` on this proxy, `/ROUTE/…`, is led by the word of this one."""
        raw = [
            (name.encode("latin-1"), self._redirected(name, value).encode("latin-1"))
            for name, value in headers
        ]
        self.has_begun = self.is_open = True
        await self._send({"type": "http.response.start", "status": status, "headers": raw})

    def _redirected(self, name: str, value: str) -> str:
        is_here = name.lower() == "location" and value.startswith("/")
        return f"/{self._word}{value}" if is_here and not value.startswith("//") else value

    async def body(self, content: bytes) -> None:
        """Send a chunk; an empty one is not sent."""
        if content:
            await self._send({"type": "http.response.body", "body": content, "more_body": True})
            await asyncio.sleep(0)  # others go on, and a program that has left is noticed

    async def end(self) -> None:
        """End."""
        self.is_open = False
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def refused(self, status: int, message: str) -> None:
        """Report why the answer is missing, unless one has begun."""
        if self.has_begun:
            return
        error = {"message": f"refold: {message}", "type": "refold"}
        await _send(Serve.json(status, {"error": error}, may_retry=False), self)


def _incoming(scope: Any) -> tuple[str, Incoming]:
    """Return the word that leads here, and a request as it is below it, without its body."""
    # The path as it came: what was escaped in it stays so.
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1")
    if not path.startswith("/"):  # a whole URL, as clients of HTTP proxies send it
        path = "/" + path.partition("://")[2].partition("/")[2]
    word, _, below = path.removeprefix("/").partition("/")
    route, slash, rest = below.partition("/")
    query = scope["query_string"].decode("latin-1")
    incoming = Incoming(
        route=route,
        method=scope["method"],
        target=f"{slash}{rest}?{query}" if query else f"{slash}{rest}",
        headers=tuple(
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope["headers"]
        ),
        body=b"",
    )
    return word, incoming


def _climbs(target: str) -> bool:
    """Return whether a server could take a path for one above where it begins.

    Some decode twice, take a backslash for a slash, or leave out what follows a semicolon.
    """
    path = target.partition("?")[0]
    for _ in range(_DECODED_MAX):
        if any(part.partition(";")[0] in (".", "..") for part in re.split(r"[/\\]", path)):
            return True
        if "%" not in path:
            break
        path = unquote(path, "latin-1")
    return False


async def _body_of(receive: Receive) -> bytes | None:
    """Return the body of a request when it is there; `None` if the program left before."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _is_json(headers: Iterable[tuple[str, str]]) -> bool:
    kinds = (value.partition(";")[0] for name, value in headers if name == "content-type")
    return any(kind.strip().lower().endswith("json") for kind in kinds)


async def _redirected(
    chunks: AsyncIterator[bytes], addresses: Addresses, past: Callable[[str], None]
) -> AsyncIterator[bytes]:
    """Yield a JSON body with the proxy's addresses; a large one as it comes, which is noted."""
    held = bytearray()
    async for chunk in chunks:
        held += chunk
        if len(held) > BODY_BYTES_MAX:
            past(_UNSEEN)
            yield bytes(held)
            break
    else:
        content = addresses.answered(bytes(held))
        if found := addresses.past(content):
            past(f"an answer names {found}, past Refold: requests there are not recorded")
        yield content
        return
    async for chunk in chunks:
        yield chunk


async def _pass(found: UpstreamAnswer, passing: Passing, answer: _Answer) -> None:
    """Pass on the body of an answer; chunks that come at once, as one."""
    held: list[bytes] = []
    reading: Any = asyncio.current_task()

    async def send() -> None:  # begins when `reading` waits for a chunk
        content = b"".join(held)
        held.clear()
        try:
            passing.chunk(content)
            await answer.body(content)
        except Exception:
            reading.cancel()  # the server may send nothing more for a long time
            raise

    sending = asyncio.create_task(asyncio.sleep(0))
    try:
        async for chunk in found.chunks:
            held.append(chunk)
            if len(held) == 1:
                await sending
                sending = asyncio.create_task(send())
    finally:
        await sending


async def _serve(decided: Serve, answer: _Answer) -> None:
    """Serve an answer, and report when it is out or the program has left."""
    try:
        if decided.instead is not None:
            await _serve(await decided.instead(), answer)
        else:
            await _send(decided, answer)
    finally:
        if decided.done is not None:
            decided.done()


async def _send(decided: Serve, answer: _Answer) -> None:
    """Send an answer; one that is cut is left without an end."""
    if decided.ending == "hold" and not decided.is_begun:
        await asyncio.Event().wait()
    if decided.ready is not None:
        await decided.ready()
    await answer.head(decided.status, decided.headers.items())
    loop = asyncio.get_running_loop()
    started = loop.time()
    chunk = b""
    for due_ms, following in decided.pieces:
        await answer.body(chunk)
        chunk = following
        if (wait := due_ms / 1000 - (loop.time() - started)) > 0:
            await asyncio.sleep(wait)
    if decided.last is not None:
        await decided.last()
    await answer.body(chunk)
    if decided.later is not None:
        async for chunk in decided.later:
            await answer.body(chunk)
    if decided.ending == "hold":
        await asyncio.Event().wait()
    if decided.ending == "whole":
        await answer.end()


def _fault_text(error: Exception) -> str:
    if isinstance(error, RefoldError):
        return str(error)
    return f"an internal error in Refold: {type(error).__name__}"
