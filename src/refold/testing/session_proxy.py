"""Leads clients that were made before their test to it: one proxy for a whole session of pytest.

The base-URL variables lead here from before the first test file is imported. Requests are forwarded
to the proxy of the running test (`refold.testing.refold_models`); without one, to the earlier
targets of the variables. `refold.pytest_plugin` starts and ends it. Rules: CONTRACT.md §16.12.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import pytest

from refold.engine.wire.apis import known_routes
from refold.proxy.bookends import PLACEHOLDER, placeholder
from refold.proxy.desks.recording import BAD_GATEWAY, REFUSED
from refold.proxy.http.routes import environment_of, routes_of
from refold.proxy.http.server import served
from refold.proxy.http.turns import Forward, Incoming, Serve

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
        ours = [name for name, value in self._led.items() if os.environ.get(name) == value]
        before = {name: self._before[name] for name in ours}
        return {name: v for name, v in {**os.environ, **before}.items() if v is not None}

    @contextlib.contextmanager
    def started(self) -> Iterator[None]:
        """Serve and lead clients here until the block ends.

        Raises:
            UsageError: the proxy that this environment names cannot be used.
        """
        with contextlib.ExitStack() as ends:
            base = ends.enter_context(served(self, [*self._routes], passes_on=False))
            self._led = environment_of(self._routes.values(), base)
            self._before = {name: os.environ.get(name) for name in self._led}
            ends.enter_context(variables(self._led))
            yield

    @contextlib.contextmanager
    def keys_given(self) -> Iterator[None]:
        """Give placeholders for keys that clients want and that are missing, in a block."""
        wanted = (route.key for route in known_routes() if route.key)
        self._keys = {name: placeholder(name) for name in wanted if not os.environ.get(name)}
        with variables(self._keys):
            yield

    def keys_taken(self) -> AbstractContextManager[None]:
        """Take them away, in a block."""
        left = [name for name, value in self._keys.items() if os.environ.get(name) == value]
        return variables(dict.fromkeys(left))

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
