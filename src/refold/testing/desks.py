"""The desks of a test's proxy: one that records, one that replays, one that has no recording.

Each is opened by the first request, so that a test which asks nothing has no log, and may set
volatile rules until then. `refold.testing.refold_models` decides when a test records or replays,
and keeps the logs. Requests come on the proxy's thread, all else on the test's. The rules are
CONTRACT.md §16.12.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.events.outcome import Fault
from refold.engine.log.names import SUFFIX
from refold.engine.observed.binding import FOLDERS
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.profile import NO_PROFILE, Profile
from refold.engine.observed.volatile import VolatileRules
from refold.engine.wire.parts.format import Route
from refold.proxy.bookends import again_rules, first_rules, noted_here
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import REFUSED, RecordingDesk
from refold.proxy.desks.replaying import Replaying
from refold.proxy.http.turns import Desk, Forward, Incoming, OnMiss, Passing, Serve
from refold.proxy.profiles import shipped_as
from refold.proxy.recorded_here import remember
from refold.replay.observed.matching import Matcher
from refold.replay.observed.record import ObservedRecord, read_record
from refold.replay.observed.report import ObservedReport, report_of
from refold.replay.testing.recordings import fresh_beside

ADVICE: Final = "For the difference, see the report of the test"
"""Where a client that is refused an answer finds more."""


@attrs.frozen(kw_only=True)
class Opening:
    """Facts that are known when the first request comes."""

    name: str
    """The test, as the log calls it."""
    test: str
    """Which test it is: `test_agent.py::test_ask`."""
    base: str
    """Of the proxy."""
    routes: Sequence[Route]
    rules: VolatileRules
    profile: Profile = NO_PROFILE
    """Of the program that asks."""
    folders: Mapping[str, str] = attrs.field(factory=dict)
    """Those that the test has, by their kinds."""


class LoggedDesk:
    """The results of a test's requests, and their log."""

    def __init__(self) -> None:
        self._journal: ObservedLog | None = None
        self.made: Path | None = None
        """The log of this time; `None` while nothing was asked."""

    def begun(
        self, path: Path, opening: Opening, rules: Mapping[str, Json]
    ) -> tuple[ObservedLog, Secrets]:
        """Begin a log of the test's requests; return it, and the secrets."""
        secrets = Secrets()
        secrets.learn_environment()
        secrets.learn_key_files(Path.cwd())
        secrets.hide_address(opening.base)
        asked = {"test": opening.test}
        journal = ObservedLog(path, program=opening.name, input=asked, vault=secrets, rules=rules)
        self._journal, self.made = journal, path
        return journal, secrets

    def close(self) -> None:
        """Let go of the log."""
        if self._journal is not None:
            self._journal.close()


class Front:
    """The proxy's desk: opened by the first request; knows the requests in flight."""

    def __init__(self, opened: Callable[[Incoming], Desk]) -> None:
        self._opened = opened
        self._desk: Desk | None = None
        self._on_its_way = 0
        self._changed = threading.Condition()

    @property
    def is_open(self) -> bool:
        """Whether anything was asked."""
        return self._desk is not None

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Return what to do with a request."""
        if self._desk is None:
            self._desk = self._opened(incoming)
        decided = self._desk.begin(incoming)
        if isinstance(decided, Serve):
            return decided
        self._count(1)
        return attrs.evolve(decided, passing=_Followed(decided.passing, lambda: self._count(-1)))

    def wait(self, seconds: float) -> None:
        """Return when nothing is on its way any more, or that time has passed."""
        with self._changed:
            self._changed.wait_for(lambda: self._on_its_way == 0, seconds)

    def _count(self, change: int) -> None:
        with self._changed:
            self._on_its_way += change
            self._changed.notify_all()


class _Followed:
    """Passes on the parts of an answer; `gone` comes last, in every case."""

    def __init__(self, passing: Passing, over: Callable[[], None]) -> None:
        self._over = over
        self._passing = passing
        self.head, self.chunk = passing.head, passing.chunk
        self.end, self.failed = passing.end, passing.failed

    def gone(self) -> None:
        """Take note that it is over."""
        try:
            self._passing.gone()
        finally:
            self._over()


class LiveDesk(LoggedDesk):
    """Records in a new log under a hidden name, which is nobody's recording yet."""

    def __init__(self, log: Path) -> None:
        super().__init__()
        self._log = log

    def opened(self, opening: Opening) -> RecordingDesk:
        """Begin to record."""
        rules = first_rules(opening.rules, opening.profile) | {FOLDERS: dict(opening.folders)}
        journal, secrets = self.begun(fresh_beside(self._log), opening, rules)
        return RecordingDesk(journal, secrets, opening.routes, opening.profile)

    def seal(self, *, is_passed: bool) -> None:
        """End the log, with the exit code that pytest ends with for this test alone."""
        if self._journal is None:
            return
        if is_passed:
            self._journal.seal("completed", "done", {"exit_code": 0})
        else:
            fault = Fault(code="test", message="the test did not pass")
            self._journal.seal("failed", "error", {"exit_code": 1}, fault)
        remember(self._journal.head)


class RecordedDesk(LoggedDesk):
    """Answers from a recording, and keeps a log of this time for as long as the test lasts."""

    def __init__(self, log: Path, folder: Callable[[], Path], on_miss: OnMiss) -> None:
        super().__init__()
        self.log = log
        self._folder = folder
        self._on_miss = on_miss
        self._record: ObservedRecord | None = None
        self._replaying: Replaying | None = None

    def opened(self, opening: Opening) -> Replaying:
        """Begin to replay.

        Raises:
            LogDamaged: the recording does not verify.
            LogObserved: it is a program's log.
        """
        self._record = record = read_record(self.log, opening.rules)
        now = self._folder() / f"now{SUFFIX}"
        journal, secrets = self.begun(now, opening, again_rules(record))
        self._replaying = Replaying(
            record, secrets, routes=opening.routes, log=journal, advice=ADVICE,
            on_miss=self._on_miss,
            profile=shipped_as(record.profile), here={**noted_here(), **opening.folders},
        )  # fmt: skip
        return self._replaying

    def report(self, *, is_over: bool) -> ObservedReport:
        """Return the different requests; at the end, also the missing ones."""
        record = self._record or read_record(self.log)
        matcher = self._replaying.matcher if self._replaying else Matcher(record)
        report = report_of(record, matcher, live=0, output=None)
        report = attrs.evolve(report, profile=record.profile.name)
        if is_over:
            return report
        asked = [each for each in report.divergences if each.category != "unconsumed"]
        return attrs.evolve(report, divergences=tuple(asked))


class Unrecorded(LoggedDesk):
    """Refuses all requests: there is no recording, and none is to be made."""

    def __init__(self, why: str) -> None:
        super().__init__()
        self._why = why

    def opened(self, _opening: Opening) -> "Unrecorded":
        """Be the desk."""
        return self

    def begin(self, _incoming: Incoming) -> Serve:
        """Refuse a request, so that clients of any provider can report the reason."""
        error = {"type": "invalid_request_error", "code": "not_recorded", "message": self._why}
        return Serve.json(REFUSED, {"type": "error", "error": error}, may_retry=False)
