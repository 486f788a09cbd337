"""The log side that replays: each request is served what was recorded for it, or is told that
nothing was.

Fails closed: with nothing recorded, a request is refused in the provider's own form and not
retried, unless it is said that it may go on live.  Rules: CONTRACT.md §16.6.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

from refold.engine.events import Recorded
from refold.engine.observed.exchange import Answered, Asked
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer, Turn
from refold.engine.vault import Vault
from refold.proxy.recording import Kept, asked_of, observed
from refold.proxy.routes import Route
from refold.proxy.turns import Ending, Forward, Incoming, Serve
from refold.replay.divergence import Divergence
from refold.replay.observed.matching import Matcher, Miss, divergence_of
from refold.replay.observed.record import ObservedRecord, RecordedTurn

OnMiss = Literal["fail", "live"]
Pace = Literal["full", "recorded"]

REFUSED: Final = 400
"""A status that clients do not retry."""


class Nowhere:
    """A journal that keeps nothing."""

    def __init__(self) -> None:
        self._entries = 0

    def append(self, event: Recorded, call: str | None = None, cause: int | None = None) -> int:
        """Count an entry."""
        del event, call, cause
        self._entries += 1
        return self._entries


class Replaying:
    """Serves one record."""

    def __init__(
        self,
        record: ObservedRecord,
        vault: Vault,
        *,
        routes: Iterable[Route] = (),
        on_miss: OnMiss = "fail",
        pace: Pace = "full",
        log: ObservedLog | None = None,
        until: int | None = None,
    ) -> None:
        self._record = record
        self._vault = vault
        self._routes = {route.name: route for route in routes}
        self._on_miss = on_miss
        self._pace = pace
        self._log = log
        self._observer = Observer(log or Nowhere())
        self._matcher = Matcher(record, until=until)
        self.divergences: list[Divergence] = []
        self.served = 0
        self.live = 0

    def left(self) -> list[RecordedTurn]:
        """Return the recorded requests that were not asked again."""
        return self._matcher.left()

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Return the recorded answer; without one, refuse the request or pass it on."""
        asked = asked_of(incoming, self._vault)
        turn = observed(self._observer, asked, incoming)
        found = self._matcher.take(asked, turn.thread.scope)
        if isinstance(found, Miss):
            return self._missed(found, turn, incoming)
        self.served += 1
        return self._served(found, turn)

    def _served(self, found: RecordedTurn, turn: Turn) -> Serve:
        self._again(found, turn)
        first = found.parts[0] if found.parts else {}
        if not found.parts:  # the program left, or was killed, before a byte came
            return Serve(status=200, headers={}, pieces=(), ending="hold")
        return Serve(
            status=first["status"],
            headers=first["headers"],
            pieces=self._pieces(found),
            ending=_ending(found),
        )

    def _pieces(self, found: RecordedTurn) -> Iterator[tuple[int, bytes]]:
        for at_ms, chunk in self._record.pieces(found):
            yield (at_ms if self._pace == "recorded" else 0), chunk

    def _again(self, found: RecordedTurn, turn: Turn) -> None:
        """Tell the observer what the record says came of the request."""
        for part in found.parts if self._log else ():
            self._observer.wire(turn, part)
        if found.answer is None:
            self._observer.gone(turn)
            return
        said = found.answer
        self._observer.answered(
            turn,
            Answered(
                status=said.status,
                message=said.message,
                usage=said.usage,
                stop_reason=said.stop_reason,
                error=said.error,
            ),
        )

    def _missed(self, miss: Miss, turn: Turn, incoming: Incoming) -> Forward | Serve:
        divergence = divergence_of(self._record, miss, turn.thread.scope)
        self.divergences.append(divergence)
        if self._on_miss == "live":
            self.live += 1
            url = self._routes[incoming.route].upstream + incoming.target
            kept = Kept(self._log or _Unkept(self._vault), self._observer, turn)
            return Forward(url=url, passing=kept)
        body = json.dumps(_refusal(miss.asked, divergence)).encode()
        error = {"code": "not_recorded", "message": f"{divergence.where}: {divergence.cause}"}
        self._observer.answered(turn, Answered(status="error", error=error))
        headers = {"content-type": "application/json", "x-should-retry": "false"}
        return Serve(status=REFUSED, headers=headers, pieces=[(0, body)])


class _Unkept(Nowhere):
    """What stands for a log where none is written."""

    def __init__(self, vault: Vault) -> None:
        super().__init__()
        self.vault = vault

    def sync(self) -> None:
        """Do nothing."""


def _ending(found: RecordedTurn) -> Ending:
    last: Mapping[str, object] = found.parts[-1]
    return "whole" if last.get("end") == "whole" else "cut"


def _refusal(asked: Asked, divergence: Divergence) -> dict[str, object]:
    message = (
        f"refold replay: no recorded answer to this request ({divergence.where}; "
        f"{divergence.cause}). `refold replay` says what differs when the command has ended"
    )
    if asked.api == "messages":
        error = {"type": "invalid_request_error", "message": message}
        return {"type": "error", "error": error}
    return {"error": {"message": message, "type": "refold_not_recorded", "code": "not_recorded"}}
