"""Leads clients that were made before their test to it: one proxy for a whole session of pytest.

The base-URL variables lead here while a file that names the fixture is imported, and while its
tests run: other tests see their own. Requests are forwarded to the proxy of the running test
(`refold.testing.refold_models`); without one, to the earlier targets of the variables.
`refold.pytest_plugin` starts and ends it. Rules: CONTRACT.md §16.12.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Final
from urllib.parse import urlsplit

import pytest

from refold.engine.wire.apis import known_routes
from refold.proxy.bookends import PLACEHOLDER, placeholder
from refold.proxy.desks.recording import BAD_GATEWAY, REFUSED
from refold.proxy.http.routes import environment_of, routes_of
from refold.proxy.http.server import served
from refold.proxy.http.turns import Forward, Incoming, Serve

_STDLIB: Final = str(Path(asyncio.__file__).parents[1])
_NO_KEY: Final = (
    "refold: this client has the placeholder key of a replay, but no test "
    "with refold_models is running: set a real key, or use refold_models in "
    "the test"
)


class SessionProxy:
    """Passes requests on: to the test that runs, else to where they went without it."""

    def __init__(self) -> None:
        """Take where the variables lead.

        Raises:
            UsageError: not a base URL.
        """
        self._routes = {route.name: route for route in routes_of()}
        self._before: dict[str, str | None] = {}
        self._led: dict[str, str] = {}
        self._keys: dict[str, str | None] = {}
        self.test_base = ""
        """The base URL of the proxy of the running test; empty without one."""

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of now, with those that lead here as they were before."""
        ours = [name for name in self._before if os.environ.get(name) == self._led[name]]
        before = {name: self._before[name] for name in ours}
        return {name: v for name, v in {**os.environ, **before}.items() if v is not None}

    @contextlib.contextmanager
    def started(self, *, has_keys: bool) -> Iterator[None]:
        """Serve until the block ends; with `has_keys`, have placeholders for missing keys.

        Raises:
            UsageError: the proxy that this environment names cannot be used.
        """
        with served(self, [*self._routes], passes_on=False) as base:
            self._led = environment_of(self._routes.values(), base)
            wanted = (route.key for route in known_routes() if route.key)
            if has_keys:
                self._keys = {n: placeholder(n) for n in wanted if not os.environ.get(n)}
            yield

    def leading(self, *, is_named: bool) -> AbstractContextManager[None]:
        """Lead clients here, with `is_named`, and give the placeholders for keys, in a block."""
        self._before = {name: os.environ.get(name) for name in self._led} if is_named else {}
        missing = {n: v for n, v in self._keys.items() if not os.environ.get(n)}
        return variables({**(self._led if is_named else {}), **missing})

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Return the target of a request; one without a real key goes to no server."""
        if self.test_base:
            url = f"{self.test_base}/{incoming.route}{incoming.target}"
        elif any(PLACEHOLDER in value for _, value in incoming.headers):
            error = {"type": "invalid_request_error", "message": _NO_KEY}
            return Serve.json(REFUSED, {"type": "error", "error": error}, may_retry=False)
        else:
            url = self._routes[incoming.route].url_of(incoming.target)
        return Forward(url=url, passing=_Unwatched())


class _Unwatched:
    """Takes note of nothing."""

    def head(self, _status: int, _headers: Sequence[tuple[str, str]]) -> None: ...

    def chunk(self, _content: bytes) -> None: ...

    def end(self) -> None: ...

    def gone(self) -> None: ...

    def failed(self, code: str, message: str) -> Serve:
        return Serve.json(BAD_GATEWAY, {"error": {"message": message, "type": f"refold_{code}"}})


def clients_past(base: str, hosts: Container[tuple[str, int]]) -> list[str]:
    """Return the names of clients in modules of the project that lead to a host, not to `base`.

    They were made before their test, by a file that does not name the fixture.
    """
    found = []
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None) or "site-packages"
        if "site-packages" in file or file.startswith(_STDLIB):
            continue
        for name, value in [*vars(module).items()]:
            url = next((u for u in _urls(value) if server_of(u) in hosts), None)
            if url and not url.startswith(base):
                found.append(f"{name} in {os.path.relpath(file)}, for {url}")
    return found


def server_of(url: str) -> tuple[str, int]:
    """Return host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (80 if parts.scheme == "http" else 443)


def _urls(value: object) -> Iterator[str]:
    """Yield the base URLs that a client holds, or one within it, as its attributes."""
    own = getattr(value, "__dict__", {})
    if isinstance(value, type | ModuleType) or not isinstance(own, dict):
        return
    for held in (own, *(getattr(each, "__dict__", {}) for each in [*own.values()])):
        if isinstance(held, dict):
            yield from (str(u) for u in map(held.get, ("_base_url", "base_url")) if u is not None)


@contextlib.contextmanager
def variables(values: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables in a block, and restore them after it; `None` unsets one."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            if value is None:
                patch.delenv(name, raising=False)
            else:
                patch.setenv(name, value)
        yield
