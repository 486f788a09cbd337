"""The page from a small server on loopback: a list of runs, live follow, logs by range.

The token is required for reading. A page of another site in this browser can reach loopback, so the
host is checked (DNS rebinding) and the token is in every address. Nothing is written, and only
listed runs are read.

A document that changes is sent as a patch: `{"=": value}`, or of an object or a list
`{"~": {member: patch}}`, for an object with `-`, the members that are gone, for a list with `n`,
its length. Rules: CONTRACT.md §14.16.
"""

import hmac
import json
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl, urlsplit

import attrs

from refold.engine.errors import LogMissing, RefoldError
from refold.engine.log.blobs import BlobBroken
from refold.engine.log.lock import is_locked
from refold.engine.log.names import tree
from refold.page.document import Page, page
from refold.page.html import policy, shell

RAW_MAX: Final = 4 * 1024 * 1024
"""Bytes of a log that one answer holds."""
_LOOK_SECONDS: Final = 0.5
"""The interval between reads of a growing log; longer if making its page is slow."""
_REST: Final = 1
"""Times as long as making a page took is waited before the next; but not at the end of a run."""
_PING_SECONDS: Final = 15.0
CONNECTIONS_MAX: Final = 64
"""Connections that are served at once; further ones are closed, for each costs a thread."""
PAGES_MAX: Final = 8
"""Pages that are kept, those that were asked for last."""

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Runs(Protocol):
    """The runs that may be seen."""

    def rows(self) -> list[dict[str, Any]]:
        """Return them as the start page lists them; `id` names each."""
        ...

    def log(self, run: str) -> Path:
        """Return the log of the run `run`.

        Raises:
            KeyError: no run has that name.
        """
        ...


@attrs.define
class _Kept:
    """The last page that was made of a run."""

    seen: tuple[int, ...]
    page: Page
    seconds: float

    def is_left(self) -> bool:
        """Return whether a log that was being written has no writer any more."""
        return not all(map(is_locked, self.page.written))


class Server(ThreadingHTTPServer):
    """Serves on a free port of loopback; `url` is where, the token included."""

    daemon_threads = True
    request_queue_size = 2 * CONNECTIONS_MAX  # with 5, a burst waits seconds to be sent again

    def __init__(
        self,
        runs: Runs,
        token: str,
        *,
        first: str | None = None,
        port: int = 0,
        idle_seconds: float = 10,
    ) -> None:
        """Bind to loopback; with `first`, the address is that run's.

        A connection that neither sends nor takes anything for `idle_seconds` is closed.

        Raises:
            OSError: the port is taken.
        """
        super().__init__(("127.0.0.1", port), _Handler)
        self.runs, self.token, self.idle_seconds = runs, token, idle_seconds
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}
        self.url = f"http://127.0.0.1:{self.server_port}/?token={token}"
        if first is not None:
            self.url += f"&log={first}"
        self._kept: dict[tuple[Path, Path | None], _Kept] = {}
        self._making = threading.Lock()
        self._made = 0
        self._places = threading.Semaphore(CONNECTIONS_MAX)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own, or close it where there are too many."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make place for another."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: requests of strangers do not belong on the terminal."""

    def page(self, log: Path, other: Path | None = None) -> _Kept:
        """Return the page of a run, made anew if a log of it has grown, or lost its writer."""
        with self._making:
            seen, place = _sizes(log), (log, other)
            kept = self._kept.get(place)
            if kept is None or kept.seen != seen or kept.is_left():
                began = time.monotonic()
                made = page(log, other, before=None if kept is None else kept.page)
                self._made += 1
                made.document["made"] = self._made
                kept = _Kept(seen, made, time.monotonic() - began)
            self._kept.pop(place, None)
            self._kept[place] = kept
            if len(self._kept) > PAGES_MAX:
                del self._kept[next(iter(self._kept))]
            return kept

    def path(self, log: Path, other: Path | None, name: str) -> Path:
        """Return a log of a run, or of the one beside it, by its id.

        Raises:
            KeyError: no log has this id.
        """
        kept = self._kept.get((log, other))
        known = kept.page.logs if kept else {}
        return known[name] if name in known else self.page(log, other).page.logs[name]


def _sizes(log: Path) -> tuple[int, ...]:
    return tuple(path.stat().st_size for path in tree(log) if path.exists())


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "refold"
    sys_version = ""

    def setup(self) -> None:
        """Close a connection that rests for too long."""
        super().setup()
        self.connection.settimeout(self.server.idle_seconds)

    def do_GET(self) -> None:
        """Answer, if the request comes from the page itself."""
        try:
            address = urlsplit(self.path)
        except ValueError as error:
            self._text(HTTPStatus.BAD_REQUEST, f"not an address: {error}")
            return
        given = dict(parse_qsl(address.query))
        route = _ROUTES.get(address.path)
        if self.headers.get("Host") not in self.server.hosts:
            self._text(HTTPStatus.FORBIDDEN, "this server only answers on loopback")
        elif not hmac.compare_digest(given.get("token", "").encode(), self.server.token.encode()):
            self._text(HTTPStatus.FORBIDDEN, "open the address printed by `refold view`")
        elif route is None:
            self._text(HTTPStatus.NOT_FOUND, "no such page")
        else:
            self._answer(route, given)

    def _answer(self, route: Callable[[Any, Mapping[str, str]], None], given: Any) -> None:
        try:
            route(self, given)
        except (KeyError, ValueError, LogMissing, FileNotFoundError, BlobBroken) as error:
            self._text(HTTPStatus.NOT_FOUND, f"not there: {error}")
        except RefoldError as error:
            self._text(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except (BrokenPipeError, ConnectionResetError, TimeoutError):  # the tab was closed
            self.close_connection = True
        except OSError as error:
            self._text(HTTPStatus.INTERNAL_SERVER_ERROR, f"cannot be read: {error.strerror}")

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
        """Say nothing: addresses hold the token."""

    # --- what is asked for ---------------------------------------------------------------

    def index(self, given: Mapping[str, str]) -> None:
        """Send the page; it asks for its data."""
        for name in ("log", "other"):
            try:
                self.server.runs.log(given[name])
            except KeyError:
                if name in given:
                    all_runs = f"/?token={self.server.token}"
                    what = f"Run {given[name]!a} was not found. All runs: {all_runs}"
                    self._text(HTTPStatus.NOT_FOUND, what)
                    return
        start = {"live": True, "token": self.server.token}
        start |= {name: given.get(name) for name in ("log", "other")}
        text = json.dumps(start).replace("<", "\\u003c")
        data = f'<script type="application/json" id="page">{text}</script>'
        body = shell(data, title="Runs", connect="'self'").encode()
        more = {"Content-Security-Policy": policy("'self'") + "; frame-ancestors 'none'"}
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", body, more)

    def listed(self, _given: Mapping[str, str]) -> None:
        """Send the list of runs."""
        self._json({"runs": self.server.runs.rows()})

    def page(self, given: Mapping[str, str]) -> None:
        """Send the document of a run."""
        self._json(self._kept(given).page.document)

    def part(self, given: Mapping[str, str]) -> None:
        """Send a part of a document that is read on request."""
        self._json(self._kept(given).page.part(given["name"]))

    def raw(self, given: Mapping[str, str]) -> None:
        """Send bytes of a log, as they are on disk."""
        path = self._log(given)
        start, end = int(given.get("from", 0)), int(given.get("to", RAW_MAX))
        if start > path.stat().st_size:
            self._text(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "the log is shorter")
            return
        with path.open("rb") as file:
            file.seek(max(0, start))
            body = file.read(max(0, min(end - start, RAW_MAX)))
        self._send(HTTPStatus.OK, "application/octet-stream", body)

    def blob(self, given: Mapping[str, str]) -> None:
        """Send a large text that an entry of the run names."""
        kept = self._kept(given).page
        self._send(HTTPStatus.OK, "application/octet-stream", kept.blobs[given["digest"]])

    def events(self, given: Mapping[str, str]) -> None:
        """Send what changed each time a log of the run has grown, until the tab is closed.

        `made` is the number of the document that the tab has: another may have been made since,
        which is sent whole.
        """
        log, other = self._runs(given)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self._more({})
        self.close_connection = True
        kept = self.server.page(log, other)
        made = kept.page.document["made"]
        told = kept.page.document if given.get("made", str(made)) == str(made) else None
        pinged, due = float("-inf"), 0.0
        while True:
            is_due = time.monotonic() >= due
            if told is None or kept.is_left() or (is_due and _sizes(log) != kept.seen):
                kept = self.server.page(log, other)
                due = time.monotonic() + _REST * kept.seconds
                document = kept.page.document
                change = {"=": document} if told is None else patch(told, document)
                told, said = document, f"data: {json.dumps(change)}\n\n" if change else ""
            elif time.monotonic() - pinged > _PING_SECONDS:  # else a closed tab goes unnoticed
                said = ": still there\n\n"
            else:
                said = ""
            if said:
                pinged = time.monotonic()
                self.wfile.write(said.encode())
                self.wfile.flush()
            time.sleep(_LOOK_SECONDS)

    # --- how it is answered --------------------------------------------------------------

    def _kept(self, given: Mapping[str, str]) -> _Kept:
        return self.server.page(*self._runs(given))

    def _runs(self, given: Mapping[str, str]) -> tuple[Path, Path | None]:
        """Return the log of the run that was asked for, and of the one beside it."""
        find = self.server.runs.log
        return find(given["log"]), find(given["other"]) if given.get("other") else None

    def _log(self, given: Mapping[str, str]) -> Path:
        log, other = self._runs(given)
        return self.server.path(log, other, given["run"]) if "run" in given else log

    def _json(self, document: Any) -> None:
        self._send(HTTPStatus.OK, "application/json", json.dumps(document).encode())

    def _text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", text.encode(errors="backslashreplace"))

    def _send(
        self, status: HTTPStatus, kind: str, body: bytes, more: Mapping[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self._more(more or {})
        self.wfile.write(body)

    def _more(self, more: Mapping[str, str]) -> None:
        for name, value in {**_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()


_ROUTES: Final[dict[str, Callable[[_Handler, Mapping[str, str]], None]]] = {
    "/": _Handler.index,
    "/runs": _Handler.listed,
    "/page": _Handler.page,
    "/part": _Handler.part,
    "/raw": _Handler.raw,
    "/blob": _Handler.blob,
    "/events": _Handler.events,
}


_NOTHING: Final = object()


def patch(before: Any, after: Any) -> dict[str, Any] | None:
    """Return what makes `after` of `before`; `None` if they are equal."""
    if before is after:
        return None
    if isinstance(before, dict) and isinstance(after, dict):
        pairs = [(name, before.get(name, _NOTHING), value) for name, value in after.items()]
        gone = [name for name in before if name not in after]
        changed = _changed(pairs)
        return {"~": changed, "-": gone} if changed or gone else None
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        rest = [_NOTHING] * (len(after) - len(before))
        changed = _changed(zip(range(len(after)), [*before, *rest], after, strict=False))
        return {"~": changed, "n": len(after)} if changed or len(before) != len(after) else None
    if type(before) is type(after) and before == after:
        return None
    return {"=": after}


def _changed(pairs: Any) -> dict[str, Any]:
    found = ((name, patch(old, new)) for name, old, new in pairs if old is not new)
    return {str(name): change for name, change in found if change is not None}
