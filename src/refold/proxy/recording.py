"""The log side that records: each request and each answer passes, and is written down.

Rules: CONTRACT.md §16.3, §16.4.
"""

import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from refold.engine.canonical import Json
from refold.engine.errors import NotCanonical
from refold.engine.observed.apis import read_request, reader_of
from refold.engine.observed.exchange import Answered, Asked
from refold.engine.observed.journal import ObservedLog
from refold.engine.observed.observer import Observer, Turn
from refold.engine.observed.wire import Wire, after_redaction, kept_headers
from refold.engine.vault import Vault
from refold.proxy import keys
from refold.proxy.routes import Route
from refold.proxy.turns import Forward, Incoming, Serve

BAD_GATEWAY: Final = 502


class Recording:
    """Records all that passes, in one log."""

    def __init__(self, log: ObservedLog, routes: Iterable[Route]) -> None:
        self._log = log
        self._routes = {route.name: route for route in routes}
        self._observer = Observer(log)

    def begin(self, incoming: Incoming) -> Forward:
        """Write a request down, and pass it on.

        Raises:
            LogPoisoned: the log cannot be written: nothing passes any more.
        """
        asked = asked_of(incoming, self._log.vault)
        turn = observed(self._observer, asked, incoming)
        self._log.sync()
        url = self._routes[incoming.route].upstream + incoming.target
        return Forward(url=url, passing=Kept(self._log, self._observer, turn))


def asked_of(incoming: Incoming, vault: Vault) -> Asked:
    """Return what a request asks, without secrets."""
    keys.learn_request(vault, incoming)
    asked: Asked = vault.scrubbed(read_request(incoming.method, incoming.target, incoming.body))
    return asked


def observed(observer: Observer, asked: Asked, incoming: Incoming) -> Turn:
    """Write a request down; one that no entry can hold as text."""
    hint = incoming.header("x-refold-conversation")
    try:
        return observer.asked(asked, hint)
    except NotCanonical:
        body = incoming.body.decode(errors="replace")
        parameters = {"method": incoming.method, "path": incoming.target, "body": body}
        return observer.asked(Asked(api="other", model=asked.model, parameters=parameters), hint)


class Kept:
    """Writes down one answer while it passes."""

    def __init__(self, log: ObservedLog, observer: Observer, turn: Turn) -> None:
        self._log = log
        self._observer = observer
        self._turn = turn
        self._wire = Wire(self._keep)
        self._reader = reader_of(turn.asked, 0, "")
        self._has_begun = False
        self._started = time.monotonic()

    def _keep(self, part: dict[str, Json]) -> None:
        kept = after_redaction(part, self._log.vault.scrubbed(part))
        self._observer.wire(self._turn, kept)

    def head(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        """Take note of the beginning of the answer."""
        kept = kept_headers(headers)
        self._has_begun = True
        self._wire.head(status, kept)
        self._reader = reader_of(self._turn.asked, status, kept.get("content-type", ""))

    def chunk(self, content: bytes) -> None:
        """Keep some bytes."""
        self._wire.chunk(content, int((time.monotonic() - self._started) * 1000))
        self._reader.feed(content)

    def end(self) -> None:
        """Write down the whole answer."""
        self._wire.end("whole")
        self._answered(self._reader.answered())

    def failed(self, code: str, message: str) -> Serve:
        """Write down that there was no answer, or not all of it."""
        body = json.dumps({"error": {"message": message, "type": f"refold_{code}"}}).encode()
        headers = {"content-type": "application/json"}
        if self._has_begun:
            self._wire.end("cut")
            self._answered(self._reader.answered())
        else:
            self.head(BAD_GATEWAY, headers.items())
            self.chunk(body)
            self._wire.end("whole")
            self._answered(Answered(status="error", error={"code": code, "message": message}))
        return Serve(status=BAD_GATEWAY, headers=headers, pieces=[(0, body)])

    def gone(self) -> None:
        """Write down that the program left."""
        if self._turn.is_over:
            return
        if self._has_begun:
            self._wire.end("cut")
        self._observer.gone(self._turn)
        self._log.sync()

    def _answered(self, answered: Answered) -> None:
        scrubbed = self._log.vault.scrubbed(answered)
        try:
            self._observer.answered(self._turn, scrubbed)
        except NotCanonical:
            self._observer.answered(self._turn, _as_text(scrubbed))
        self._log.sync()


def _as_text(answered: Answered) -> Answered:
    """Return an answer that no entry can hold as one text, which goes into a blob."""
    text = json.dumps(answered.message)
    message: Mapping[str, Any] = {"role": "assistant", "content": text}
    return Answered(
        status=answered.status,
        message=dict(message),
        usage=answered.usage,
        stop_reason=answered.stop_reason,
        error=answered.error,
        id=answered.id,
    )
