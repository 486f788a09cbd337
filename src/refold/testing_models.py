"""What the fixture `refold_models` gives a test: a proxy between its clients and their models.

Whatever client the test makes finds the proxy by the usual variables; what it asks is recorded, or
answered from the recording and judged when the test has passed.  Modes and places are those of
`refold.testing`; what stands between the proxy and a test's log is `refold.testing_desk`'s, what
passes and what is served `refold.proxy`'s, what differs `refold.replay.observed`'s.
`refold.pytest_plugin` starts and ends it.  The rules are CONTRACT.md §16.10.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs
import pytest

from refold.engine.errors import LogDamaged, OutsideLoop, RefoldError, UsageError
from refold.engine.observed.volatile import VolatileRules
from refold.proxy.routes import Route, environment_of, routes_of
from refold.proxy.server import served
from refold.proxy.sessions import PLACEHOLDERS
from refold.replay.network import Allowed, NetworkWatch
from refold.replay.observed.report import ObservedReport
from refold.replay.recordings import Place, failed_beside, move_over, remove
from refold.replay.tree import RunNode, delegation_tree
from refold.replay.verify import verify
from refold.reproduce import shown
from refold.testing import LIVE, Mode
from refold.testing_desk import Live, Recorded, TestDesk, Unrecorded

PART: Final = ".models"
"""What the recording of a test's models has behind the test's name."""
WATCHED: Final = "watched"
"""The status of a tree's root: its test goes on, so it has no end yet."""

_GUARANTEE: Final = (
    "guarantee: matched (the test's requests were matched with the recording; "
    "what it does between them is its own)"
)
_BASE_URL: Final = re.compile(r"([A-Z_][A-Z0-9_]*)_(?:BASE_URL|API_BASE|URL)")


@attrs.frozen(kw_only=True)
class Settings:
    """What is known of a test before it begins."""

    place: Place
    """Of its recording."""
    mode: Mode
    name: str
    """The test as it is called in its log and in reports."""
    command: str
    """Which runs the test alone, typed in `base`, without the mode."""
    base: Path
    """The folder from which paths are shown."""
    upstreams: Sequence[str] = ()
    """As `refold record --upstream` takes them."""
    network: Allowed = "none"
    """What the test may use while it is replayed; the loopback in any case."""


class RefoldModels:
    """Records what a test asks of models, or answers it from the recording."""

    def __init__(
        self, settings: Settings, *, setenv: Callable[[str, str], None], folder: Callable[[], Path]
    ) -> None:
        """Say how; `setenv` sets a variable for the test, `folder` makes one for what is not kept.

        Raises:
            UsageError: an upstream, or a base URL of the environment, is none.
        """
        self._settings = settings
        self._setenv = setenv
        self._log = settings.place.log(1)
        self._routes = {route.name: route for route in routes_of(settings.upstreams)}
        self._names = list(self._routes)
        self._rules = VolatileRules()
        self._desk: TestDesk = self._desk_for(folder)
        self._ends = contextlib.ExitStack()
        self._watch: NetworkWatch | None = None
        self._base = ""
        self._is_over = False
        self.recorded: list[Path] = []
        """The recording, if one was made."""

    def _desk_for(self, folder: Callable[[], Path]) -> TestDesk:
        mode = self._settings.mode
        if mode in LIVE or (mode in ("once", "new") and not self._log.exists()):
            return Live(self._log, self._settings.name)
        if self._log.exists():
            return Recorded(self._log, self._settings.name, folder)
        return Unrecorded(self._no_recording())

    def start(self) -> None:
        """Serve from now on, and lead clients there: by variables, with keys where none is needed.

        Raises:
            UsageError: the proxy that this environment names cannot be used.
        """
        self._base = self._ends.enter_context(served(self._desk, self._names))
        self._desk.prepare(self._base)
        for name, value in environment_of(self._routes.values(), self._base).items():
            self._setenv(name, value)
        if not self._desk.is_live:
            for name, value in PLACEHOLDERS.items():
                self._default(name, value)
            allowed = self._settings.network
            self._watch = NetworkWatch("any" if allowed == "any" else "loopback")
            self._ends.enter_context(self._watch)
