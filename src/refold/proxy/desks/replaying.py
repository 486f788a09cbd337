"""The log side that replays: each request gets its recorded answer, or is refused.

Fails closed: without a recorded answer, a request is refused in the provider's own form and not
retried, unless it may continue live, or a changed one gets the answer to the same turn. Rules:
CONTRACT.md §16.6.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final

import attrs

from refold.engine.events.codec import unstructure
from refold.engine.events.events import ModelAnswered, Recorded
from refold.engine.log.blobs import encode_data
from refold.engine.observed.observer import RequestUnderway
from refold.engine.observed.profile import Profile
from refold.engine.process.bounds import BY_SIGNAL
from refold.engine.wire.apis import reader_of_part, with_model
from refold.engine.wire.parts.exchange import Asked
from refold.engine.wire.parts.format import Route
from refold.engine.wire.parts.kept_answers import pieces, served_headers
from refold.engine.wire.spelling import can_spell, spelled
from refold.engine.workspace.entries import MadeObject
from refold.engine.workspace.watching import WatchedFolder
from refold.proxy.desks.caps import Caps
from refold.proxy.desks.keys import Secrets
from refold.proxy.desks.ordering import Order, Work
from refold.proxy.desks.recording import MODEL, Log, RecordingDesk, refusal
from refold.proxy.http.turns import Ending, Forward, Incoming, OnMiss, Pace, Serve
from refold.replay.observed.explaining import REFUSAL, divergence_of
from refold.replay.observed.matching import Matcher, Miss
from refold.replay.observed.reads import only_reads
from refold.replay.observed.record import INTERRUPTED, ObservedRecord, RecordedTurn

ADVICE: Final = "`refold replay` reports the difference when the command has ended"
"""The place for more information, for a refused program and for people who read its error."""
GATEWAY_TIMEOUT: Final = 504
_HELD_BYTES: Final = 2**20
"""Systems may hold about so much for a program that does not read: it is sent, and not read."""
LookAtMade = Callable[[Callable[[str], str]], Iterable[MadeObject]]
"""Returns the commits and tags that are new; it gets what puts recorded values into a text."""


class Nowhere:
    """A log that keeps nothing."""

    def __init__(self) -> None:
        self._entries = 0

    def sync(self) -> None:
        """Do nothing."""

    async def synced(self, _run: Callable[..., object], /) -> None:
        """Do nothing."""

    def append(self, event: Recorded, call: str | None = None, cause: int | None = None) -> int:
        """Count an entry.

        Raises:
            NotCanonical: no log could hold it; what recording refused is to be refused again.
        """
        del call, cause
        encode_data(unstructure(event))
        self._entries += 1
        return self._entries


class Replaying:
    """Serves one record."""

    def __init__(
        self,
        record: ObservedRecord,
        secrets: Secrets,
        *,
        routes: Iterable[Route] = (),
        on_miss: OnMiss = "fail",
        pace: Pace = "full",
        log: Log | None = None,
        reads_again: bool = True,
        advice: str = ADVICE,
        profile: Profile | None = None,
        here: Mapping[str, str] | None = None,
        model: str = "",
        work: Work = lambda: None,
        folder: WatchedFolder | None = None,
        caps: Caps | None = None,
        made: LookAtMade = lambda _: (),
    ) -> None:
        """Take the record; `here` are the current notes, `profile` is the client's.

        Requests without a recorded answer ask `model`, if given, else that of the record. `work`
        shows what the client does meanwhile; without it, only time can. `made` returns the commits
        that are new.

        Without `reads_again`, read-only requests are also served only as often as recorded.
        """
        self._record = record
        self._secrets = secrets
        self._on_miss = on_miss
        self._pace = pace
        self._advice = advice
        self._is_kept = log is not None
        rules = record.started.rules
        self._passing = RecordingDesk(
            log or Nowhere(), secrets, routes, profile or record.profile,
            folder, caps,
        )  # fmt: skip
        self.refused = self._passing.refused
        """Why requests were not passed on, each once."""
        self._observer = self._passing.observer
        self._model = model or str(rules.get(MODEL, ""))
        # How often something is only read hangs on timing: no other answer waits for it.
        kept = [turn for turn in record.turns if not only_reads(turn.asked)]
        in_order = kept if pace == "full" else ()
        self.order = Order(in_order, record.tools, record.started_by, work)
        self.bindings = record.bindings(here)
        self.matcher = Matcher(record, reads_again=reads_again, bindings=self.bindings)
        self._made = made
        self._unpaired: list[Miss] = []
        """Changed requests that begin conversations, until it is known which was recorded."""
        self.served = 0
        self.live = 0

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Return the recorded answer; without one, refuse the request or pass it on."""
        self.scan_folder()
        asked = self._passing.read(incoming)
        if self._model and not self.matcher.has(asked):
            told = incoming.method, incoming.target, incoming.body
            target, body = with_model(*told, self._model)
            incoming = attrs.evolve(incoming, target=target, body=body)
            asked = self._passing.read(incoming)
        plain = self._for_log(asked)
        turn = self._passing.written(plain, incoming)
        thread = turn.thread
        asked = asked if turn.asked is plain else turn.asked
        found = self.matcher.take(asked, thread.scope, thread.agent)
        if isinstance(found, Miss):
            return self._missed(found, turn, incoming)
        self.served += 1
        return self._served(found, turn)

    def end(self, timed_out: bool) -> None:  # noqa: FBT001 - as of what records
        """Write down how the folder is when the command has ended."""
        self._passing.end(timed_out)

    def scan_folder(self) -> None:
        """Bind the commits that the client made since the last look."""
        self.bindings.see(self._made(self.bindings.as_recorded_file))

    def _for_log(self, asked: Asked) -> Asked:
        """Return a request for the log: with recorded values."""
        return self.matcher.bound(asked)

    def _served(self, found: RecordedTurn, turn: RequestUnderway) -> Serve:
        self._passing.scan_folder()
        self._passing.settle()
        if not found.late_seconds:
            self._again(found, turn)
        ending = _ending(self._record, found)
        parts: Iterable[tuple[int, bytes]] = ()
        if found.parts:
            parts = iter(self._parted(found, self._moved(found) or self._pieces(found)))
        done = partial(self._done, found, turn, parts)
        self.order.came(found)
        if found.parts:
            is_cut = ending == "cut"
            return Serve(
                status=found.parts[0]["status"],
                headers=self._secrets.shown_in(served_headers(found.parts[0]["headers"])),
                pieces=itertools.chain(parts, [(0, b"")]) if is_cut else parts,
                ending=ending,
                ready=partial(self._ready, found, turn),
                last=self.order.broken if is_cut else partial(self.order.last, found),
                done=done,
            )
        if ending == "hold":
            return Serve(
                status=200, headers={}, pieces=(), ending=ending, is_begun=False, done=done
            )
        why = "refold replay: the recording ends before the answer to this request"
        error = {"message": why, "type": "refold"}
        return Serve.json(GATEWAY_TIMEOUT, {"error": error}, may_retry=False)

    def _parted(
        self, found: RecordedTurn, pieces: Iterable[tuple[int, bytes]]
    ) -> Iterable[tuple[int, bytes]]:
        """Return an answer, its last event apart where that may have to wait."""
        if not self.order.ends_late(found):
            return pieces
        body = b"".join(chunk for _, chunk in pieces)
        events = body.rstrip()
        ends = [events.rfind(end) + len(end) for end in (b"\n\n", b"\n\r\n") if end in events]
        at = max(ends, default=0)
        return [(0, body[:at]), (0, body[at:])]

    def _pieces(self, found: RecordedTurn) -> Iterator[tuple[int, bytes]]:
        for at_ms, chunk in self._record.pieces(found):
            yield (at_ms if self._pace == "recorded" else 0), self._secrets.shown(chunk)

    def _moved(self, found: RecordedTurn) -> list[tuple[int, bytes]]:
        """Return an answer with recorded folders replaced by current ones; nothing for any other.

        In a stream, a path may lie across events; then the answer is spelled anew.
        """
        said = found.answer
        message = self.bindings.as_now(said.message) if said is not None else None
        if said is None or message == said.message:
            return []
        body = b"".join(chunk for _, chunk in self._record.pieces(found))
        body = self.bindings.as_now(body.decode(errors="surrogateescape")).encode(
            errors="surrogateescape"
        )
        reader = reader_of_part(found.asked, found.parts[0])
        reader.feed(body)
        if reader.answered().message != message and can_spell(found.asked):
            anew = spelled(found.asked, attrs.evolve(said, message=message))
            return [(0, self._secrets.shown(chunk)) for _, chunk in pieces([anew])]
        return [(0, self._secrets.shown(body))]

    def _again(self, found: RecordedTurn, turn: RequestUnderway) -> None:
        """Report the recorded outcome of the request to the observer."""
        for part in self._record.parts(found) if self._is_kept else ():
            self._observer.wire(turn, part)
        if found.answer is None:
            self._observer.gone(turn)
            return
        answer_id = answer_id_in(found, self._record.pieces(found)) if self._is_kept else ""
        self._observer.answered(turn, found.answer, answer_id)

    async def _ready(self, found: RecordedTurn, turn: RequestUnderway) -> None:
        """Return when it is the answer's turn, and one that is late has come."""
        if found.late_seconds:
            await asyncio.sleep(found.late_seconds)
            self._again(found, turn)
        await self.order.ready(found)

    def _done(
        self, found: RecordedTurn, turn: RequestUnderway, unsent: Iterable[tuple[int, bytes]]
    ) -> None:
        """Take note that an answer is out, or that the program left before the rest was sent."""
        self._gone(turn)
        left = itertools.accumulate(len(chunk) for _, chunk in unsent)
        if found.how == "answered" and any(size > _HELD_BYTES for size in left):
            self.matcher.unread.append(found)
        self.order.done(found)

    def _gone(self, turn: RequestUnderway) -> None:
        if not turn.is_over:
            self._observer.gone(turn)

    def _missed(self, miss: Miss, turn: RequestUnderway, incoming: Incoming) -> Forward | Serve:
        if self._on_miss == "recorded":
            if miss.is_known:
                return self._nearest_answer(miss, turn)
            self._unpaired.append(miss)
            later, gone = partial(self._paired, miss, turn), partial(self._left, miss, turn)
            return Serve(status=0, headers={}, pieces=(), instead=later, done=gone)
        if self._on_miss == "live":
            self.order.stop()
            self._passing.scan_folder()
            self.live += 1
            return self._passing.passed_on(turn, incoming)
        return self._refused(miss, turn)

    async def _paired(self, miss: Miss, turn: RequestUnderway) -> Serve:
        """Answer what begins a conversation, when all that is asked beside it has come."""
        await self.order.calm()
        return self._nearest_answer(miss, turn)

    def _left(self, miss: Miss, turn: RequestUnderway) -> None:
        """Take note that an answer is out, or that the program left before it was found."""
        if miss in self._unpaired:
            self._unpaired.remove(miss)
            self._gone(turn)

    def _nearest_answer(self, miss: Miss, turn: RequestUnderway) -> Serve:
        """Answer a changed request as the same turn was answered; refuse it without such a turn."""
        found = self.matcher.lend(miss, self._unpaired)
        if miss in self._unpaired:
            self._unpaired.remove(miss)
        if found is None or found.answer is None:
            return self._refused(miss, turn)
        asked = turn.asked
        if _form(found.asked) != _form(asked):
            found = attrs.evolve(found, asked=asked, parts=[spelled(asked, found.answer)])
        return self._served(found, turn)

    def _refused(self, miss: Miss, turn: RequestUnderway) -> Serve:
        divergence = divergence_of(self._record, self.matcher, miss)
        message = f"{REFUSAL} ({divergence.where}; {divergence.cause}). {self._advice}"
        error = {"code": "not_recorded", "message": f"{divergence.where}: {divergence.cause}"}
        self.order.stop()
        self._observer.answered(turn, ModelAnswered("error", error=error))
        return refusal(miss.asked, message)


def answer_id_in(found: RecordedTurn, pieces: Iterable[tuple[int, bytes]]) -> str:
    """Return the id that these pieces of an answer give; empty for none."""
    reader = reader_of_part(found.asked, found.parts[0])
    for _, chunk in pieces:
        reader.feed(chunk)
    reader.answered()
    return reader.answer_id


def _form(asked: Asked) -> tuple[bool, str]:
    """Return in which form an answer is wanted."""
    return asked.streamed, asked.place.partition("?")[2]


def _ending(record: ObservedRecord, found: RecordedTurn) -> Ending:
    """Return how an answer ends, so that the program meets the end that it met.

    An answer that a program cancelled is held until it cancels again, if it continued after that;
    else its own end was the reason, which does not come again, so the connection breaks.
    """
    if found.how == "answered":
        return "whole" if found.parts[-1].get("end") == "whole" else "cut"
    over = found.over
    goes_on = over is not None and any(turn.seq > over for turn in record.turns)
    return "hold" if goes_on or _ended_itself(record) else "cut"


def _ended_itself(record: ObservedRecord) -> bool:
    if record.finished is None or not isinstance(record.finished.output, dict):
        return False
    code = record.finished.output.get("exit_code")
    is_own = isinstance(code, int) and code <= BY_SIGNAL
    return is_own and record.finished.reason != INTERRUPTED
