"""Makes events of a watched program's model requests and their answers.

It gets requests and answers in their order of arrival, finds the conversation of each
(`observed.threads`), and appends: the request with the messages that are not yet logged, its
answer, the tool calls in the answer, and their results as soon as a request has them. Pure except
for the journal. Rules: CONTRACT.md §16.3 to §16.5.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, encode, text_of_json
from refold.engine.encoding.conversation import ConversationPrefix, Conversations
from refold.engine.events import events
from refold.engine.events.events import scope_above
from refold.engine.log.blobs import externalised
from refold.engine.observed import openers
from refold.engine.observed.links import RESULT, delegated, observation_in, written
from refold.engine.observed.profile import NO_PROFILE, Profile, Whose
from refold.engine.observed.threads import NOBODY, AnswerId, Thread, Threads, UnansweredCall
from refold.engine.wire.parts.exchange import LATER, Asked
from refold.engine.wire.parts.kept_answers import IDS

_ENTRY_BYTES: Final = 256 * 1024
"""The size limit of messages in one entry, if there are several."""


class Journal(Protocol):
    """Takes events: the log of a watched command."""

    def append(
        self, event: events.Recorded, call: str | None = None, cause: int | None = None
    ) -> int:
        """Write one entry; return its seq."""
        ...


@attrs.define
class RequestUnderway:
    """A request on its way."""

    call: str
    """The call key."""
    seq: int
    """Of the `model.asked`."""
    thread: Thread
    asked: Asked
    prefix: ConversationPrefix
    given: AnswerId | None = None
    """Of a request that fetches an answer: the id, and the request that got it."""
    is_over: bool = False
    answer: events.ModelAnswered | None = None

    @property
    def model(self) -> str:
        """The model that it asks, or that the request asked whose answer it fetches."""
        return self.given.model if self.given is not None else self.asked.model

    @property
    def is_repeated(self) -> bool:
        """Whether it fetches an answer that the log has already: nothing of it counts again."""
        return self.given is not None and not self.given.is_open


class Observer:
    """Watches one program."""

    def __init__(self, journal: Journal, profile: Profile = NO_PROFILE) -> None:
        self._profile = profile
        self._journal = journal
        self._threads = Threads(profile.plain)
        self._conversations = Conversations()
        self._offered: set[str] = set()
        self.ended: list[UnansweredCall] = []
        """Calls whose results were shown since somebody emptied this."""

    def asked(self, asked: Asked, whose: Whose = NOBODY) -> RequestUnderway:
        """Record a request; `whose` is its own information on the caller.

        Raises:
            NotCanonical: it is too large for one entry of a log.
            LogPoisoned: the log cannot be written.
        """
        given = self._threads.given.get(asked.follows) if asked.is_fetch else None
        if given is not None:
            return self._fetched(asked, given)
        digests = asked.text_series().running(digest.chained).values
        prefix = self._conversations.held(digests)
        thread = self._threads.found(asked, digests, whose) or self._begun(asked, whose)
        self._results(thread, asked.messages, prefix.base)
        self._observations(thread, asked.messages[prefix.base :])
        for left in thread.open.values():
            left.waits = False
        self._tools(asked)
        base, predecessor = self._write_ahead(asked, prefix)
        call = thread.next_key()
        event = events.ModelAsked(
            asked.model,
            predecessor,
            base,
            list(asked.messages[base:]),
            logged_parameters(asked),
            asked.tools_digest(),
        )
        seq = self._journal.append(event, call, thread.last)
        self._conversations.asked(prefix)
        self._threads.asked(thread, digests)
        thread.last = seq
        return RequestUnderway(call, seq, thread, asked, prefix)

    def _fetched(self, asked: Asked, given: AnswerId) -> RequestUnderway:
        """Record a request that fetches the answer to an earlier one, whose messages it has."""
        thread, key = given.thread, given.thread.next_key()
        event = events.ModelAsked(
            given.model, given.end, given.base, [], logged_parameters(asked), ""
        )
        seq = self._journal.append(event, key, thread.last)
        self._threads.asked(thread, [given.end] if given.end else [])
        thread.last = seq
        prefix = ConversationPrefix(given.base, given.end, ())
        return RequestUnderway(key, seq, thread, asked, prefix, given)

    def _write_ahead(self, asked: Asked, prefix: ConversationPrefix) -> tuple[int, str]:
        """Write down messages that are too many for one entry; return how far the log is then."""
        base, at, held = prefix.base, prefix.base, 0
        predecessor = prefix.predecessor
        for message in asked.messages[prefix.base :]:
            size = len(encode(externalised(message)))
            if held and held + size > _ENTRY_BYTES:
                data = {"predecessor": predecessor, "added": list(asked.messages[base:at])}
                self._journal.append(events.Extension(events.MESSAGES, data))
                base, predecessor, held = at, prefix.added[at - 1 - prefix.base], 0
            at, held = at + 1, held + size
        return base, predecessor

    def wire(self, turn: RequestUnderway, data: dict[str, Json]) -> None:
        """Record how a part of an answer came, the first with who asked; before it is over."""
        told = {name: value for name, value in data.items() if name != IDS}
        told |= {IDS: dict(turn.asked.ids)} if "status" in data and turn.asked.ids else {}
        self._journal.append(events.Extension(events.WIRE, told), turn.call, turn.seq)

    def answered(
        self, turn: RequestUnderway, answered: events.ModelAnswered, answer_id: str = ""
    ) -> None:
        """Record an answer, and its tool calls, unless the log has them.

        `answer_id` is the id that a later request may continue (`Asked.follows`); empty for none.
        """
        seq = self._journal.append(answered, turn.call, turn.seq)
        turn.answer, end = answered, ""
        if turn.thread.is_beside and answered.status == "ok" and answered.message is not None:
            turn.thread.told = openers.answer_texts(turn.asked, answered.message)
        if answered.message is not None:
            end = self._conversations.answered(turn.prefix.end, answered.message)
        is_repeated = turn.is_repeated
        self._over(turn, seq, end, answer_id, answered)
        # What was cut off or refused may hold calls that the program never made.
        message = answered.message if answered.status == "ok" and answered.message else {}
        if is_repeated:
            return
        self._served(turn, message, seq)
        for call in message.get("tool_calls", ()):
            opened = self._called(turn.thread, call, seq)
            opened.is_sole = opened.delegated is None and openers.offers_one(turn.asked)
            opened.waits = opened.delegated is not None or not openers.is_answer(
                turn.asked, opened.tool
            )
        if "tool_calls" not in message and (found := written(message.get("content"))):
            call = {"id": "", "name": found[0], "arguments": found[1]}
            self._called(turn.thread, call, seq, is_written=True)

    def gone(self, turn: RequestUnderway, answer_id: str = "") -> None:
        """Record that the program gave up on a request before its answer was whole."""
        seq = self._journal.append(events.EffectCancelled("model"), turn.call, turn.seq)
        self._over(turn, seq, "", answer_id, None)

    @property
    def later(self) -> int:
        """The number of answers that the program can fetch yet."""
        given = self._threads.given.values()
        return len({each.call for each in given if each.is_open and each.is_later})

    def in_progress(self) -> list[UnansweredCall]:
        """Return the calls without a result, but for those that other conversations carry out."""
        calls = (call for thread in self._threads for call in thread.open.values())
        return [call for call in calls if not call.opened]

    def _over(
        self, turn: RequestUnderway, seq: int, end: str, answer_id: str,
        answered: events.ModelAnswered | None,
    ) -> None:  # fmt: skip
        turn.is_over = True
        turn.thread.last = seq
        is_whole = answered is not None and answered.status == "ok"
        self._threads.answered(turn.thread, end, is_whole=is_whole)
        is_last = answered is not None and is_end(answered)
        given = turn.given
        if given is None:
            is_later = answered is not None and answered.stop_reason in LATER
            given = AnswerId(
                turn.thread, turn.call, turn.asked.model,
                end=turn.prefix.end, base=len(turn.asked.messages),
                is_counted=answered is not None and answered.usage.requests > 0,
                is_later=is_later or turn.asked.parameters.get("background") is True,
                is_open=True,
            )  # fmt: skip
        given.is_open = given.is_open and not is_last
        if answer_id:
            self._threads.given[answer_id] = given

    # --- conversations -------------------------------------------------------------------

    def _begun(self, asked: Asked, whose: Whose) -> Thread:
        before = self._threads.continued(asked, whose)
        if before is not None:
            return self._continued(asked, whose, before)
        # A run of a program beside another one is not opened by what that has open.
        beside = self._threads.in_session(whose.session)
        above, plain = self._threads.of(whose.above), self._profile.plain
        opened = openers.opener_of(asked, beside, above, whose.agent, plain)
        # A request that is not read (a count of tokens) has no messages.
        if opened and asked.messages and self._profile.is_aside(asked.messages[0].get("content")):
            opened = openers.Opened(opened.thread, None, "header")
        thread = self._threads.begin(asked, opened.thread if opened else None, whose)
        thread.agent = _agent(opened, whose)
        more: dict[str, Json] = {}
        if opened is not None and opened.call is not None:
            opened.call.below.append(thread)
            thread.is_opened, thread.is_counted = True, opened.is_strong
            opened.thread.away = [call for call in opened.thread.away if not call.opened]
            thread.last = opened.call.seq
            more = {"call": opened.call.call, "tool": opened.call.tool, "how": opened.how}
        elif opened is not None:
            thread.last = opened.thread.last
            more = {"how": opened.how}
        elif asked.messages:
            self._threads.note_beside(thread)
        self._note_conversation(thread, thread.last, more)
        return thread

    def _note_conversation(self, thread: Thread, cause: int, more: dict[str, Json]) -> None:
        data = {"scope": thread.scope, "agent": thread.agent, **more}
        self._journal.append(events.Extension(events.CONVERSATION, data), None, cause)

    def _continued(self, asked: Asked, whose: Whose, before: Thread) -> Thread:
        """Begin the conversation that continues an earlier one.

        The earlier one's requests and delegations may continue in the background; the rest is done.
        """
        before.is_past = True
        before.away += [call for call in before.open.values() if call.delegated and not call.opened]
        above = scope_above(before.scope)
        beside = next((one for one in self._threads if one.scope == above), None)
        thread = self._threads.begin(asked, beside, whose)
        thread.agent, thread.last = before.agent, before.last
        self._note_conversation(thread, thread.last, {"how": "continues"})
        return thread

    def _tools(self, asked: Asked) -> None:
        at = asked.tools_digest()
        if at and at not in self._offered:
            data: dict[str, Any] = {"digest": at, "tools": list(asked.tools)}
            self._journal.append(events.Extension(events.TOOLS, data))
            self._offered.add(at)

    # --- tools ---------------------------------------------------------------------------

    def _called(
        self, thread: Thread, call: dict[str, Any], cause: int, *, is_written: bool = False
    ) -> UnansweredCall:
        """Record a tool call that a model asked for: the program makes it, unseen."""
        arguments = {"invalid": call["invalid"]} if "invalid" in call else call["arguments"]
        key = thread.next_key()
        event = events.ToolCalled(call["name"], dict(sorted(arguments.items())), "changes")
        seq = self._journal.append(event, key, cause)
        whom = delegated(call["name"], arguments, self._profile)
        texts = openers.texts_in(arguments)
        opened = UnansweredCall(key, call["id"], call["name"], seq, texts, whom, is_written)
        thread.open[key] = opened
        thread.last = seq
        early = self._threads.early(thread, whom) if whom is not None else None
        if whom is not None and early is not None:
            early.agent, early.is_opened, early.is_counted = whom, True, True
            opened.below.append(early)
            more: dict[str, Json] = {"call": key, "tool": opened.tool, "how": "header"}
            self._note_conversation(early, seq, more)
        return opened

    def _served(self, turn: RequestUnderway, message: dict[str, Any], cause: int) -> None:
        """Record the tool calls that a server made itself: the answer shows their results, too."""
        from refold.engine.wire.apis import FORMATS  # noqa: PLC0415 - readers of logs need none

        row = FORMATS.get(turn.asked.api)
        original = (message.get("provider") or {}).get(turn.asked.api)
        for call in row.served(original) if row is not None else ():
            key = turn.thread.next_key()
            event = events.ToolCalled(call.name, dict(sorted(call.arguments.items())), "changes")
            seq = self._journal.append(event, key, cause)
            error = {"code": "raised", "message": call.error, "type": ""} if call.error else None
            result = None if error else call.result
            end = events.ToolReturned("error" if error else "ok", result, error)
            turn.thread.last = self._journal.append(end, key, seq)

    def _observations(self, thread: Thread, messages: Sequence[dict[str, Any]]) -> None:
        """Record the result of a call that a model wrote as text: the conversation continues."""
        for key, opened in list(thread.open.items()):
            if not opened.is_written:
                continue
            self.ended.append(thread.open.pop(key))
            said = [observation_in(message.get("content")) for message in messages]
            found = next((each for each in reversed(said) if each is not None), None)
            if found is not None:
                thread.last = self._journal.append(
                    events.ToolReturned("ok", found), key, opened.seq
                )

    def _results(self, mine: Thread, messages: Sequence[dict[str, Any]], base: int) -> None:
        """Record the results that a request has for the first time.

        Those before `base` are already logged, in this conversation or in one with the same text.
        """
        ends = range(len(messages), 0, -1)
        turn = next((at for at in ends if messages[at - 1].get("role") == "assistant"), 0)
        for at, message in enumerate(messages[min(base, turn) :], start=min(base, turn)):
            if message.get("role") != "tool":
                continue
            found = self._threads.owner(message.get("tool_call_id", ""), mine, is_mine=at < base)
            if found is None:
                continue
            thread, opened = found
            self.ended.append(thread.open.pop(opened.call))
            for below in opened.below:
                below.is_counted = True
            if opened.delegated is not None and not opened.opened:
                thread.away.append(opened)
            thread.last = self._journal.append(_returned(message), opened.call, opened.seq)
            if opened.beside and not opened.opened:
                self._link_late(opened, message, messages[: turn - 1], thread.last)

    def _link_late(
        self, opened: UnansweredCall, message: dict[str, Any], before: Sequence[dict[str, Any]],
        cause: int,
    ) -> None:  # fmt: skip
        """Record that a result shows which conversation its call opened; nothing acts on it."""
        found = openers.opened_by_result(opened, text_of_json(message.get("content") or ""), before)
        if found is not None:
            found.told = ()
            more: dict[str, Json] = {"call": opened.call, "tool": opened.tool, "how": RESULT}
            self._note_conversation(found, cause, more)


def is_end(answered: events.ModelAnswered) -> bool:
    """Return whether an answer is the last one that its id leads to."""
    if answered.status == "ok":
        return answered.stop_reason not in LATER
    return (answered.error or {}).get("code") == "failed"


def logged_parameters(asked: Asked) -> dict[str, Json]:
    """Return the parameters of a request as a log has them: with the interface as `api`."""
    told = {
        f"${name}" if name == "api" else name: value for name, value in asked.parameters.items()
    }
    return {"api": asked.api, **told}


def parameters_asked(told: dict[str, Json]) -> tuple[Any, dict[str, Json]]:
    """Return the interface and the parameters of a request from its logged form."""
    if type(told["api"]) is not str:
        raise TypeError("an interface that is not a string")
    asked = {("api" if name == "$api" else name): told[name] for name in told if name != "api"}
    return told["api"], asked


def _returned(message: dict[str, Any]) -> events.ToolReturned:
    content = message.get("content")
    if message.get("is_error"):
        said = content if isinstance(content, str) else ""
        return events.ToolReturned("error", None, {"code": "raised", "message": said, "type": ""})
    return events.ToolReturned("ok", content)


def _agent(opened: openers.Opened | None, whose: Whose) -> str:
    if opened is None or opened.call is None:
        return whose.agent
    return opened.call.delegated or opened.call.tool
