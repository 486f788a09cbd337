"""Implements the fixture `refold_models`: a proxy between a test's clients and their models.

Every client of the test finds the proxy by the usual variables; its requests are recorded, or
answered from the recording and judged when the test has passed. Modes are those of
`refold.testing`; the proxy's desks are in `refold.testing.desks`; `refold.replay.observed` finds
the differences. `refold.pytest_plugin` starts and ends all this, and imports the file when a test
first asks for the fixture. The rules are CONTRACT.md §16.12.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.errors import RefoldError, UsageError
from refold.engine.log.reader import read_entries
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.apis import read_request
from refold.engine.wire.parts.format import Route
from refold.proxy.bookends import folders_here, placeholder, placeholders
from refold.proxy.http.routes import environment_of, key_of, routes_of
from refold.proxy.http.server import served
from refold.proxy.http.turns import Desk, Incoming
from refold.proxy.profiles import profile_asking
from refold.replay.audit.verify import verify
from refold.replay.observed.report import ObservedReport
from refold.replay.observed.titles import text_of
from refold.replay.reexecute.network import NetworkWatch
from refold.replay.run.opened_run import delegation_tree
from refold.replay.run.run_node import RunNode
from refold.replay.testing.recordings import remove
from refold.testing.desks import Front, LiveDesk, Opening, RecordedDesk, Unrecorded
from refold.testing.refold_run import LIVE, RecordedRuns, Settings, fail
from refold.testing.reproduce import explained
from refold.testing.session_proxy import SessionProxy, clients_past, server_of

PART: Final = ".models"
"""The suffix of the recording of a test's models."""
WATCHED: Final = "watched"
"""The status of a tree's root: its test is still running."""

_PASSED_BY: Final = (
    "A client that sets its own base_url bypasses the proxy: remove it, or "
    "set it to refold_models.openai_url."
)
_NOTHING: Final = (
    "the test takes refold_models, but did not send any model requests "
    f"through it\n{_PASSED_BY} If the requests are optional, use "
    "@pytest.mark.usefixtures('refold_models')"
)
_MADE_BEFORE: Final = (
    "\nMade before its test, by a file that does not name refold_models: make it in a "
    "fixture or in the test file"
)
_WAIT_SECONDS: Final = 1.0
"""For answers whose last bytes the test has, and the proxy's log not yet."""


class RefoldModels(RecordedRuns):
    """Records a test's requests to models, or answers them from the recording."""

    called = "refold_models"
    unkept_for = "the test did not pass"

    def __init__(
        self,
        settings: Settings,
        setenv: Callable[[str, str], None],
        folder: Callable[[], Path],
        session: SessionProxy | None = None,
    ) -> None:
        """Set it up; `setenv` sets a variable for the test, `folder` makes a temporary folder.

        `session` leads clients here that were made before.

        Raises:
            UsageError: an upstream, or a base URL of the environment, is not a URL.
        """
        super().__init__(settings)
        self._setenv = setenv
        self._log = self._claim(None)
        self._session = session
        before = session.environment if session is not None else os.environ
        self._routes = {route.name: route for route in routes_of(settings.upstreams, before)}
        self._names = list(self._routes)
        self._rules = VolatileRules()
        self._side = self._side_for(folder)
        self._front = Front(self._opened)
        self._ends = contextlib.ExitStack()
        self._servers = {server_of(each.upstream) for each in self._routes.values()}
        self._watch = self._watch_for(settings.network)
        self._base = ""
        self._is_over = False
        self._is_settled = False
        self._is_judged = False
        self._fault = ""

    def _watch_for(self, network: str) -> NetworkWatch:
        """Return what watches the test: live, it may ask anyone but models past the proxy."""
        if isinstance(self._side, LiveDesk):
            return NetworkWatch("any", refused=self._servers)
        return NetworkWatch("any" if network == "any" else "loopback")

    def _side_for(self, folder: Callable[[], Path]) -> LiveDesk | RecordedDesk | Unrecorded:
        if self._mode not in LIVE and self._log.exists():
            return RecordedDesk(self._log, folder, self._settings.on_miss)
        return Unrecorded(self._unrecorded()) if self._mode == "none" else LiveDesk(self._log)

    def _opened(self, first: Incoming) -> Desk:
        asked = read_request(first.method, first.target, first.body)
        system = (text_of(each) for each in asked.messages[:1] if each["role"] == "system")
        return self._side.opened(
            Opening(
                name=self._settings.name,
                test=self._settings.test,
                base=self._base,
                routes=tuple(self._routes.values()),
                rules=self._rules,
                profile=profile_asking(first.header("user-agent"), next(system, "")),
                folders={**folders_here(), **self._settings.folders},
            )
        )

    # --- what a test asks for ------------------------------------------------------------

    @property
    def openai_url(self) -> str:
        """The base URL for a client of OpenAI's protocols; `OPENAI_BASE_URL` is the same."""
        return self.url("openai")

    @property
    def anthropic_url(self) -> str:
        """The base URL for a client of Anthropic's; `ANTHROPIC_BASE_URL` is the same."""
        return self.url("anthropic")

    def url(self, name: str, upstream: str | None = None) -> str:
        """Return the base URL that takes the place of a provider's.

        `name` is `openai`, `anthropic`, or of any other provider the variable that its client reads
        (`GROQ_BASE_URL`), which is set; `upstream` is the provider's own base URL, and needed once.

        Raises:
            UsageError: no such name, no such URL, or a request was made already.
        """
        route = self._routes.get(name.lower())
        if upstream is not None:
            self._must_be_first("url")
            routes = routes_of([f"{name}={upstream}"], {})
            route = next(each for each in routes if each.name == name.lower())
            self._routes[route.name] = route
            self._names.append(route.name)
            self._lead(route)
        if route is None:
            known = ", ".join(repr(each) for each in self._routes)
            raise UsageError(
                f"refold_models.url({name!r}): expected {known}, or the provider's base "
                "URL as a second argument"
            )
        return f"{self._base}/{route.name}"

    def volatile(self, *paths: str) -> None:
        """Do not compare these places of requests: `model:*/parameters/user` (CONTRACT.md §16.7).

        Raises:
            UsageError: not a place, or a request was made already.
        """
        self._must_be_first("volatile")
        self._rules = self._rules.plus(VolatileRules(paths))

    def volatile_text(self, *patterns: str) -> None:
        """Take what these regular expressions match for the same, in any text of a request.

        Raises:
            UsageError: not a regular expression, or a request was made already.
        """
        self._must_be_first("volatile_text")
        self._rules = self._rules.plus(VolatileRules((), patterns))

    @property
    def log(self) -> Path:
        """The log of the requests so far, of this time; it moves when the test has ended.

        Raises:
            UsageError: nothing was asked.
        """
        self._front.wait(_WAIT_SECONDS)
        if self._side.made is None:
            raise UsageError("refold_models.log: there is no log before the first model request")
        return self._side.made

    def tree(self) -> RunNode:
        """Return who asked what so far, in which conversations: `== delegation_snapshot`.

        Raises:
            UsageError: nothing was asked.
        """
        return attrs.evolve(delegation_tree(self.log), status=WATCHED)

    @property
    def report(self) -> ObservedReport | None:
        """The differences so far; `None` unless a recording is replayed."""
        if not isinstance(self._side, RecordedDesk):
            return None
        return self._side.report(is_over=self._is_over)

    def _must_be_first(self, method: str) -> None:
        if self._front.is_open:
            raise UsageError(f"refold_models.{method}: call it before the first request")

    # --- the beginning -------------------------------------------------------------------

    def start(self) -> None:
        """Serve from now on, and lead clients there.

        Raises:
            UsageError: the proxy that this environment names cannot be used.
        """
        is_live = isinstance(self._side, LiveDesk)
        self._base = self._ends.enter_context(served(self._front, self._names, passes_on=is_live))
        if self._session is not None:
            self._session.test_base = self._base
            self._ends.callback(setattr, self._session, "test_base", "")
        for name, value in environment_of((), self._base).items():
            self._setenv(name, value)
        for route in self._routes.values():
            self._lead(route)
        if not is_live:
            for name, value in placeholders(self._recorded_rules(), self._routes.values()).items():
                self._setenv(name, value)
        self._ends.enter_context(self._watch)

    def _recorded_rules(self) -> Mapping[str, Any]:
        """Return the rules of the recording; without one, or where it cannot be read, none."""
        if not isinstance(self._side, RecordedDesk):
            return {}
        with contextlib.suppress(RefoldError):  # which the first request meets, too
            return dict(next(read_entries(self._log)).data.get("rules") or {})
        return {}

    def _lead(self, route: Route) -> None:
        """Set the variables of a route; in a replay, keys in place of real and of missing ones."""
        for name in route.variables:
            self._setenv(name, f"{self._base}/{route.name}")
        if isinstance(self._side, LiveDesk):
            return
        for key in filter(None, map(key_of, route.variables)):
            self._setenv(key, placeholder(key))

    # --- the end -------------------------------------------------------------------------

    def settle(self) -> None:
        """End a test that has passed: seal its recording, or judge its requests.

        Raises:
            Failed: as `pytest.fail` does; it asked otherwise than recorded.
            LogDamaged: the recording does not verify.
        """
        __tracebackhide__ = True
        if self._is_settled:
            return
        self._is_judged = True
        self._front.wait(_WAIT_SECONDS)
        self._stop()
        if self._watch.seen:
            fail(self._network_text())
        if isinstance(self._side, LiveDesk):
            self._seal(self._side)  # where this fails, `give_up` puts the log away
        elif isinstance(self._side, RecordedDesk):
            self._judge(self._side)
        elif self._front.is_open:
            fail(self._unrecorded())
        if self._settings.asks and not self._front.is_open:
            fail(_NOTHING + self._past())

    def give_up(self, *, is_kept: bool) -> None:
        """End a test that did not pass; with `is_kept`, its live requests are kept beside.

        The test has a failure of its own: errors here are reported beside it.
        """
        if self._is_settled:
            return
        self._is_settled = True
        try:
            self._stop()
        except (RefoldError, OSError) as error:
            self._fault = str(error)
        if not isinstance(self._side, LiveDesk) or self._side.made is None:
            return
        with contextlib.suppress(RefoldError, OSError):
            self._side.seal(is_passed=False)
        self._side.close()
        if is_kept:
            self._put(self._side.made, self._log, is_good=False)
        else:
            remove(self._side.made)

    def _stop(self) -> None:
        self._is_over = True
        try:
            self._ends.close()
        finally:
            if not isinstance(self._side, LiveDesk):
                self._side.close()

    def _seal(self, side: LiveDesk) -> None:
        if side.made is not None:
            side.seal(is_passed=True)
            self._put(side.made, self._log, is_good=False)  # until its tear-down has passed, too
            self._is_settled = True

    def keep(self) -> None:
        """Put the recording in place; remove that of a test that asked nothing."""
        if self._mode in LIVE and self._side.made is None:
            remove(self._log)
        super().keep()

    def _judge(self, side: RecordedDesk) -> None:
        __tracebackhide__ = True
        report = side.report(is_over=True)
        if not report.identical:
            is_nothing = self._settings.asks and not self._front.is_open
            nothing = f"\n{_NOTHING}{self._past()}" if is_nothing else ""
            fail(self._differs(report) + nothing)
        found = verify(self._log)
        if not found.intact:
            raise next(each for log in found.logs for each in log.damage).as_error()
        if not found.complete:
            fail(f"{self._shown(self._log)}: the recording stops in the middle")

    # --- texts ---------------------------------------------------------------------------

    def what_differs(self) -> str:
        """Return the differences of a test that failed by itself; empty for none."""
        if self._is_judged:
            return ""
        if self._fault or self._watch.seen:
            return self._fault or self._network_text()
        if isinstance(self._side, Unrecorded):
            return self._unrecorded() if self._front.is_open else ""
        if isinstance(self._side, LiveDesk) or not self._front.is_open:
            return ""
        report = self._side.report(is_over=False)
        return "" if report.identical else self._differs(report)

    def _may_replay(self) -> bool:
        return not isinstance(self._side, LiveDesk)

    def _differs(self, report: ObservedReport) -> str:
        log = self._shown(self._log)
        found = tuple(attrs.evolve(each, log=log) for each in report.divergences)
        report = attrs.evolve(report, log=log, divergences=found)
        below = [  # the root is named after the test: a change that stops several is one
            attrs.evolve(each, agent=each.agent.partition(" > ")[2]) for each in report.causes
        ]
        self.explained = explained(below, str(report)) if found else None
        return f"{report}\n{self._settings.if_meant()}"

    def _unrecorded(self) -> str:
        return self._settings.unrecorded(self._log, "what this test asks of models")

    def _network_text(self) -> str:
        places = "\n  ".join(f"{each.file}:{each.line}: {each.method}" for each in self._watch.seen)
        if isinstance(self._side, LiveDesk):
            text = "refused: the test sent model requests past the proxy, unrecorded"
            return f"{text}\n  {places}\n{_PASSED_BY}{self._past()}"
        return (
            f"the test used the network during a replay\n  {places}\n{_PASSED_BY} If "
            "this is intended, allow it with @pytest.mark.refold(network='any')"
            f"{self._past()}"
        )

    def _past(self) -> str:
        """Return the clients that were made before their test, and the remedy; empty for none."""
        found = "".join(f"\n  {each}" for each in clients_past(self._base, self._servers))
        return found and f"{_MADE_BEFORE}{found}"
