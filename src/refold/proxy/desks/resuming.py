"""The log side that resumes: a request is served its recorded answer, or is asked again.

The new log is like a complete run's: with current values, and an entry for each answer that came
from the record, at no cost this time.  Rules: CONTRACT.md §16.21.
"""

from functools import partial
from typing import Any, Final

import attrs

from refold.engine.events.events import Extension
from refold.engine.events.outcome import Usage
from refold.engine.observed.observer import RequestUnderway
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.kept_answers import Wire, pieces
from refold.proxy.desks.caps import Spending
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.recording import Kept, Log
from refold.proxy.desks.replaying import Replaying, answer_id_in
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.explaining import REFUSAL, divergence_of
from refold.replay.observed.matching import Miss
from refold.replay.observed.record import RecordedTurn
from refold.replay.resume.observed_resume import Continuation, ResumableRecord

SERVED: Final = "x-refold.served"
"""The next answer to the request that is the cause is from the origin: {call}, its key there."""
_FREE: Final = Usage(cost_usd_micros=0)


class Resuming(Replaying):
    """Serves successful answers, and passes on requests to be asked again."""

    def __init__(
        self, resumed: ResumableRecord, secrets: Secrets, *, log: Log, **options: Any
    ) -> None:
        """Take the record, and the options of `Replaying`.

        With `on_miss` `live`, any question may be asked.
        """
        super().__init__(resumed.served, secrets, log=log, **options)
        self._continuation = Continuation(resumed, self.matcher)
        self._log = log
        self.different: list[Divergence] = []
        """Questions that are neither on record nor follow from one that is asked again."""

    @property
    def spending(self) -> Spending | None:
        """The spending of this run, if it has caps."""
        return self._passing.spending

    @property
    def capped(self) -> tuple[str, ...]:
        """What caps refused, and what they did not count, a line each."""
        return self._passing.capped

    def _for_log(self, asked: Asked) -> Asked:
        """Return a request for the log: unchanged, as if it were the first run."""
        self.matcher.bound(asked)
        return asked

    def _served(self, found: RecordedTurn, turn: RequestUnderway) -> Serve:
        self._continuation.served(turn, found)
        serve = super()._served(found, turn)

        async def ready() -> None:
            if serve.ready is not None:
                await serve.ready()
            self._write(found, turn)

        return attrs.evolve(serve, ready=ready, done=serve.done or partial(self._gone, turn))

    def _again(self, found: RecordedTurn, turn: RequestUnderway) -> None:
        """Write nothing yet: the order of the log is that in which answers go out."""

    def _write(self, found: RecordedTurn, turn: RequestUnderway) -> None:
        """Record a served answer with its origin, and that it was free."""
        self._log.append(Extension(SERVED, {"call": found.call}), None, turn.seq)
        parts, moved = list(self._record.parts(found)), self._moved(found)
        if moved:
            anew = Wire(partial(self._observer.wire, turn), self._secrets.scrubbed_bytes)
            anew.head(parts[0]["status"], parts[0]["headers"])
            for _, chunk in moved:
                anew.chunk(chunk, 0)
            anew.end("whole")
        for part in () if moved else parts:
            self._observer.wire(turn, part)
        if found.answer is None:
            self._observer.gone(turn)
            return
        message = self.bindings.as_now(found.answer.message)
        said = attrs.evolve(found.answer, message=message, usage=_FREE)
        self._observer.answered(turn, said, answer_id_in(found, moved or pieces(parts)))

    def _missed(self, miss: Miss, turn: RequestUnderway, incoming: Incoming) -> Forward | Serve:
        self.order.stop()
        self._passing.scan_folder()
        may_ask = not self.different and self._continuation.may_ask(miss, turn)
        if self._on_miss == "live" or may_ask:
            self.live += 1
            self._continuation.asked(turn)
            return self._passing.passed_on(turn, incoming)
        divergence = divergence_of(self._record, self.matcher, miss)
        self.different.append(divergence)
        why = f"{REFUSAL}, and it does not follow from a request that was sent again"
        return Kept(self._passing, turn).refused(f"{why} ({divergence.where}; {divergence.cause})")
