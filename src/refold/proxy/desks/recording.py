"""The log side that records: each request and each answer passes, and is written down.

Rules: CONTRACT.md §16.3, §16.4.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, Protocol

import attrs

from refold.engine.encoding.canonical import Json
from refold.engine.errors import NotCanonical
from refold.engine.events.events import Extension, ModelAnswered
from refold.engine.events.outcome import Usage
from refold.engine.models.prices import priced
from refold.engine.observed.binding import ids_in
from refold.engine.observed.observer import Journal, Observer, RequestUnderway
from refold.engine.observed.profile import NO_PROFILE, Profile, Whose
from refold.engine.wire.apis import provider_of, read_request, reader_of, reader_of_part
from refold.engine.wire.parts.exchange import OTHER, Asked
from refold.engine.wire.parts.format import Route
from refold.engine.wire.parts.kept_answers import LEADING, Wire, kept_headers, pieces
from refold.engine.wire.parts.reading import Reader
from refold.engine.wire.parts.remembered import Remembered
from refold.engine.wire.spelling import can_spell, refused, spelled
from refold.engine.workspace.watching import Suspect, WatchedFolder, may_change
from refold.proxy.desks.caps import CapReached, Caps, Spending
from refold.proxy.desks.keys import Secrets
from refold.proxy.http.turns import Forward, Incoming, Serve
from refold.proxy.http.upstream import unpacked

BAD_GATEWAY: Final = 502
REFUSED: Final = 400
"""A status that clients do not retry."""
_SIGNED: Final = (
    "the request is signed for the name of its server (AWS SigV4), so it cannot pass a proxy: "
    "set AWS_BEARER_TOKEN_BEDROCK to an API key of Bedrock, and give the client no AWS keys"
)


class Log(Journal, Protocol):
    """Takes what passes, and can wait until it is on disk."""

    def sync(self) -> None:
        """Return when all entries are on disk, as the durability mode promises."""
        ...

    async def synced(self, run: Callable[[Callable[[], None]], Awaitable[None]], /) -> None:
        """Return when they are, while `run` syncs on another thread."""
        ...


MODEL: Final = "model"
"""The member with the model of a fork, if the command names a different one."""
CAP: Final = "x-refold.cap"
"""A cap refused a request, which is the cause: {cap, allowed, spent, agent?}."""


class RecordingDesk:
    """Records all that passes, in one log."""

    def __init__(
        self,
        log: Log,
        secrets: Secrets,
        routes: Iterable[Route],
        profile: Profile = NO_PROFILE,
        folder: WatchedFolder | None = None,
        caps: Caps | None = None,
    ) -> None:
        """Take the log; `profile` is the client's."""
        self.spending = Spending(caps) if caps is not None else None
        self.log = log
        self._folder = folder
        self.secrets = secrets
        self.observer = Observer(log, profile)
        self._routes = {route.name: route for route in routes}
        self._remembered = Remembered()
        self._profile = profile
        self.refused: dict[str, None] = {}
        """Why requests were not passed on, or got no answer, each once."""
        self.past: dict[str, None] = {}
        """Notes of addresses in answers that lead past the proxy, each once."""

    @property
    def capped(self) -> tuple[str, ...]:
        """What caps refused, and what they did not count, a line each."""
        return self.spending.lines(self.observer.later) if self.spending is not None else ()

    def begin(self, incoming: Incoming) -> Forward | Serve:
        """Write a request down, and pass it on, or refuse it.

        Raises:
            LogPoisoned: the log cannot be written: nothing passes any more.
        """
        turn = self.written(self.read(incoming), incoming)
        self.scan_folder()
        return self.passed_on(turn, incoming)

    async def kept(self, alone: bool) -> None:  # noqa: FBT001 - of `Forward.kept`
        """Return when all that was written down is on disk."""
        if alone:  # nobody else waits, and a thread takes as long as some syncs
            self.log.sync()
        else:
            await self.log.synced(asyncio.to_thread)

    def scan_folder(self) -> None:
        """Begin to look at the folder, if calls have ended that may have changed it.

        If not, for new commits alone: a program may call git itself.
        """
        ended = self.observer.ended
        if self._folder is not None:
            is_whole = any(may_change(call.tool) for call in ended)
            self._folder.begin_scan(self.suspects() if is_whole else [], is_whole=is_whole)
        ended.clear()

    def settle(self) -> None:
        """Write down which files changed before an answer passes, after which others may."""
        if self._folder is not None:
            self._folder.settle(self.suspects)

    def end(self, timed_out: bool) -> None:  # noqa: FBT001 - how it ended
        """Write down how the folder is when the command has ended, and that its time was over."""
        timeout = self.spending.caps.timeout if self.spending is not None else None
        if timed_out and timeout is not None:
            reached = {"cap": "timeout", "allowed": timeout, "spent": timeout}
            self.log.append(Extension(CAP, reached))
        if self._folder is not None:
            self._folder.end(self.suspects())

    def suspects(self) -> list[Suspect]:
        """Return the calls that may have changed files since the last look, and those that may."""
        calls = [call for call in self.observer.ended if not call.opened]
        return [
            Suspect(call.call, call.tool, call.texts)
            for call in (*calls, *self.observer.in_progress())
        ]

    def read(self, incoming: Incoming) -> Asked:
        """Return a request's content, without secrets.

        A message that was read before is not searched again, unless there are more secrets now.
        """
        secrets = self.secrets
        secrets.learn_headers(incoming.headers)
        secrets.learn_url(incoming.target)
        encoding = incoming.header("content-encoding")
        body = unpacked(incoming.body, encoding)
        asked = read_request(incoming.method, incoming.target, body, self._remembered)
        said = asked.text_series().each(secrets.scrubbed, secrets.generation)
        offered = asked.offered_series().each(secrets.scrubbed, secrets.generation)
        model, parameters, follows = secrets.scrubbed(
            (asked.model, asked.parameters, asked.follows)
        )
        return attrs.evolve(
            asked,
            ids=secrets.scrubbed(ids_in(incoming.headers)),
            model=model,
            parameters=parameters,
            follows=follows,
            messages=tuple(said.values),
            tools=tuple(offered.values),
            said=said,
            offered=offered,
        )

    def written(self, asked: Asked, incoming: Incoming) -> RequestUnderway:
        """Write a request down; one that no entry can hold as text."""
        said = incoming.header("x-refold-conversation")
        hint = Whose(said, agent=said) if said else self._profile.whose(incoming.header)
        try:
            return self.observer.asked(asked, hint)
        except NotCanonical:
            body = incoming.body.decode(errors="replace")
            parameters = {"method": incoming.method, "path": incoming.target, "body": body}
            plain = Asked(api=OTHER, model=asked.model, parameters=parameters)
            return self.observer.asked(self.secrets.scrubbed(plain), hint)

    def passed_on(self, turn: RequestUnderway, incoming: Incoming) -> Forward | Serve:
        """Forward a request to the server behind its route, or return why that is impossible."""
        route, passing = self._routes[incoming.route], Kept(self, turn)
        if why := _why_not(route, incoming):
            self.refused[why] = None
            return passing.refused(why)
        if self.spending is not None and (hit := self.spending.refusal(turn)):
            return self._capped(turn, passing, hit)
        url = route.url_of(incoming.target)
        past = self._leads_past if turn.asked.api == OTHER else None
        return Forward(
            url=url, passing=passing, body=incoming.body, kept=self.kept, past=past,
            redirected=partial(route.redirected, url),
        )  # fmt: skip

    def _leads_past(self, note: str) -> None:
        self.past[note] = None

    def _capped(self, turn: RequestUnderway, passing: "Kept", hit: CapReached | str) -> Serve:
        """Refuse a request over a cap, and name the cap in an entry of its own."""
        if isinstance(hit, str):
            self.refused[hit] = None
            return passing.refused(hit)
        named = {name: value for name, value in attrs.asdict(hit).items() if value != ""}
        self.log.append(Extension(CAP, named), None, turn.seq)
        return passing.refused(hit.why)


def _why_not(route: Route, incoming: Incoming) -> str:
    """Return why a request cannot be passed on; empty for one that can."""
    signature = incoming.header("authorization").lower().startswith("aws4-")
    if signature or "x-amz-signature=" in incoming.target.lower():
        return _SIGNED
    if not route.upstream:
        name = route.variables[0]
        known = "set AWS_REGION, or " if route.regions else ""
        return (
            f"the target of {name} is unknown, because no log has the address of a server that is "
            f"not the provider's: {known}pass --upstream {name}=URL"
        )
    return ""


def refusal(asked: Asked, message: str) -> Serve:
    """Return an answer that refuses a request, in its format; not to be retried."""
    return Serve.json(REFUSED, refused(asked, REFUSED, message), may_retry=False)


class Kept:
    """Writes down one answer while it passes."""

    def __init__(self, desk: RecordingDesk, turn: RequestUnderway) -> None:
        self._desk = desk
        self._turn = turn
        self._wire = Wire(self._keep, desk.secrets.scrubbed_bytes)
        self._only: dict[str, Json] | None = None
        """The only part of an answer, until its whole content is known."""
        self._reader = reader_of(turn.asked, 0, "")
        self._has_begun = False
        self._size = 0
        self._started = time.monotonic()

    def _keep(self, part: dict[str, Json]) -> None:
        if "status" in part and "end" in part:
            self._only = part
        else:
            self._desk.observer.wire(self._turn, part)

    def _keep_only(self, answered: ModelAnswered | None = None) -> None:
        """Write the only part, if `answered` has no secret beyond it.

        A stream can hold a secret in pieces, none of which is one; then its answer is encoded anew.
        """
        if (part := self._only) is None:
            return
        self._only = None
        if answered is not None and can_spell(self._turn.asked):
            found = reader_of_part(self._turn.asked, part)
            for _, chunk in pieces([part]):
                found.feed(chunk)
            if found.answered().message != answered.message:
                anew = spelled(self._turn.asked, attrs.evolve(answered, status="ok"))
                part = {**anew, **{name: part[name] for name in ("status", "headers", "end")}}
        self._desk.observer.wire(self._turn, part)

    def head(self, status: int, headers: Sequence[tuple[str, str]]) -> None:
        """Take note of the beginning of the answer."""
        self._desk.settle()
        for name, value in headers:
            if name in LEADING:
                self._desk.secrets.learn_url(value)
            elif name == "set-cookie":
                self._desk.secrets.learn_cookie(value)
        kept = kept_headers(headers)
        self._has_begun = True
        self._wire.head(status, kept)
        self._reader = reader_of(self._turn.asked, status, kept.get("content-type", ""))

    def chunk(self, content: bytes) -> None:
        """Keep some bytes."""
        self._size += len(content)
        self._wire.chunk(content, int((time.monotonic() - self._started) * 1000))
        self._reader.feed(content)

    def end(self) -> None:
        """Write down the whole answer."""
        self._wire.end("whole")
        self._answered(self._reader.answered())

    def failed(self, code: str, message: str) -> Serve:
        """Record that an answer is missing or incomplete."""
        error = {"message": message, "type": f"refold_{code}"}
        said = Serve.json(BAD_GATEWAY, {"error": error})
        if not self._has_begun:
            self._desk.refused[f"no answer from {message}"] = None
            return self._record_reply(said, code, message)
        self._wire.end("cut")
        self._answered(self._reader.broken())
        self._desk.log.sync()
        return said

    def refused(self, why: str) -> Serve:
        """Record that a request was refused; return the answer for it."""
        return self._record_reply(refusal(self._turn.asked, f"refold: {why}"), "refused", why)

    def _record_reply(self, said: Serve, code: str, message: str) -> Serve:
        self.head(said.status, tuple(said.headers.items()))
        for _, content in said.pieces:
            self.chunk(content)
        self._wire.end("whole")
        self._answered(ModelAnswered("error", error={"code": code, "message": message}))
        self._desk.log.sync()
        return said

    def gone(self) -> None:
        """Record that the program left; many leave after the last text, before the end."""
        if self._turn.is_over:
            return
        if self._is_whole_but_open():
            self.end()
            self._desk.log.sync()
            return
        if self._has_begun:
            self._wire.end("cut")
        self._keep_only()
        self._desk.observer.gone(self._turn, self._desk.secrets.scrubbed(self._reader.answer_id))
        if self._desk.spending is not None:
            self._desk.spending.answered(self._turn, None, self._size)
        self._desk.log.sync()

    def _is_whole_but_open(self) -> bool:
        """Return whether the answer is whole, but for the end of the connection or its stream."""
        if not self._has_begun or self._turn.asked.api == OTHER:
            return False
        return self._reader.answered().status == "ok"

    def _counted(self, answered: ModelAnswered) -> Usage:
        """Return the usage that counts: each answer once, however often it is fetched."""
        given, usage = self._turn.given, answered.usage
        is_cut = (answered.error or {}).get("code") == "cut" and self._reader.answer_id
        is_later = is_cut and self._turn.asked.parameters.get("background") is True
        if self._turn.is_repeated or is_later:
            return Usage()
        return attrs.evolve(usage, requests=0) if given and given.is_counted else usage

    def _answered(self, answered: ModelAnswered) -> None:
        scrubbed = self._desk.secrets.scrubbed(answered)
        asked = self._turn.asked
        name = f"{provider_of(asked)}:{self._turn.model}"
        scrubbed = attrs.evolve(scrubbed, usage=priced(self._counted(scrubbed), name))
        if self._desk.spending is not None:
            self._desk.spending.answered(self._turn, scrubbed, self._size)
        self._keep_only(scrubbed if scrubbed.message != answered.message else None)
        answer_id = self._desk.secrets.scrubbed(self._reader.answer_id)
        try:
            self._desk.observer.answered(self._turn, scrubbed, answer_id)
        except NotCanonical:
            self._desk.observer.answered(self._turn, _as_text(scrubbed), answer_id)
        self._reader = Reader()  # whoever still holds this needs none of its text


def _as_text(answered: ModelAnswered) -> ModelAnswered:
    """Return an answer that no entry can hold as one text, which goes into a blob."""
    message = {"role": "assistant", "content": json.dumps(answered.message)}
    return attrs.evolve(answered, message=message)
