"""Finds the conversation that a request belongs to.

A program that Refold does not run does not report it. A request continues the conversation whose
answer it names, or whose messages it begins with, or that has the same system prompt and first
message. Otherwise it begins one, and `observed.openers` finds the call above. The place of a
request never affects its answer. Pure. Rules: CONTRACT.md §16.5.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from heapq import nlargest
from operator import attrgetter
from typing import Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import text_of_json
from refold.engine.events.events import scope_above
from refold.engine.observed.profile import Whose
from refold.engine.wire.parts.exchange import OTHER, Asked

NOBODY: Final = Whose()
_SHORTER: Final = re.compile(
    r"(?i)continued from a previous conversation|another language model (?:has )?started"
    r"|summary of (?:the|our) (?:previous|earlier|prior) conversation"
)
"""The beginning of summaries that replace earlier messages (Claude Code, Codex, others)."""


_WAITING_MAX: Final = 64
"""Calls that a conversation may turn out to be below."""


@attrs.define
class UnansweredCall:
    """A tool call that a model asked for, and whose result no request has shown yet."""

    call: str
    """The call key."""
    id: str
    tool: str
    seq: int
    texts: tuple[str, ...]
    """Texts among its arguments."""
    delegated: str | None
    """Whom it hands work to, if it does."""
    is_written: bool = False
    """Whether the model wrote it as text; it has no id, and its result is text, too."""
    waits: bool = True
    """Whether a conversation may be below it: not if the request wanted this tool and no other, for
    then it is the answer itself, nor if its conversation has continued without the result."""
    is_sole: bool = False
    """Whether the request offered this tool alone, and its name does not hand work over: it may be
    the form of an answer, such as a plan that the next agent is given."""
    below: list["Thread"] = attrs.field(factory=list)
    """The conversations below it."""
    beside: list["Thread"] = attrs.field(factory=list)
    """Conversations that began while it waited, of which nothing says who opened them."""

    @property
    def opened(self) -> int:
        """The number of conversations below it."""
        return len(self.below)


@attrs.define
class Thread:
    """One conversation."""

    scope: str
    identity: str
    whose: Whose = NOBODY
    """Its caller, if requests identify it."""
    system: str = ""
    """The digest of its system prompt."""
    tools: str = ""
    """The digest of the tools that its first request offered."""
    agent: str = ""
    """Who it is, as far as that is known."""
    ordinal: int = 0
    children: int = 0
    last: int = 0
    """The entry that what comes next follows from."""
    asking: int = 0
    """Requests that wait for an answer."""
    brief: str = ""
    """Its task, if it follows examples that other conversations of the program also have."""
    said: str = ""
    """The chain digest of its last request."""
    stands: tuple[str, ...] = ()
    """That, and the one with its answer, which clients repeat otherwise; empty while it asks."""
    has_failed: bool = False
    """Whether its last request has no answer, or not all of it: the same is asked again then."""
    open: dict[str, UnansweredCall] = attrs.field(factory=dict)
    """By call key."""
    away: list[UnansweredCall] = attrs.field(factory=list)
    """Calls that handed work over and were answered at once, with no conversation seen yet: of
    agents that run in the background."""
    is_opened: bool = False
    """Whether the call that started it is known."""
    is_counted: bool = False
    """Whether caps count it as a subagent: the evidence is strong, or the result was shown."""
    is_past: bool = False
    """Whether a different conversation continues it: none of its calls is waiting."""
    is_beside: bool = False
    """Whether calls of others waited when it began."""
    told: tuple[str, ...] = ()
    """The texts of its last whole answer, if it `is_beside`; none if its own request has them."""

    def next_key(self) -> str:
        """Return the next call key of this conversation's scope."""
        self.ordinal += 1
        return f"{self.scope}#{self.ordinal}"


@attrs.define
class AnswerId:
    """An id that an answer gave, and the request that got it."""

    thread: Thread
    call: str
    """The call key of that request."""
    model: str
    end: str
    """The chain digest of its messages."""
    base: int
    """How many those are."""
    is_counted: bool
    """Whether its answer counts as a request."""
    is_later: bool
    """Whether the provider goes on with the answer if nobody waits for it."""
    is_open: bool
    """Whether the end of the answer has not come yet."""


class Threads:
    """All conversations of one log."""

    def __init__(self, plain: Callable[[str], str] = str) -> None:
        """Take the function that removes meaningless text from a brief."""
        self._plain = plain
        self._all: list[Thread] = []
        self._ends: dict[tuple[str, str], Thread] = {}
        """By the chain digest of all that was asked, or asked and answered, and whose it is."""
        self.given: dict[str, AnswerId] = {}
        """By the id of an answer."""
        self._identities: dict[str, list[Thread]] = {}
        self._roots = 0

    def __iter__(self) -> Iterator[Thread]:
        return iter(self._all)

    def found(self, asked: Asked, chain: Sequence[str], whose: Whose = NOBODY) -> Thread | None:
        """Return the conversation that a request continues; `None`: it begins one.

        `chain` are the chain digests of its messages, `whose` is its own information on the caller.
        """
        if asked.follows in self.given:
            return self.given[asked.follows].thread
        if asked.api == OTHER:
            same = self._identities.get(_identity(asked, whose), ())
            return same[-1] if same else None
        ends = (self._ends.get((at, whose.thread)) for at in reversed(chain))
        thread = next(filter(None, ends), None)
        is_again = thread is not None and (chain[-1], whose.thread) in self._ends
        if thread is not None and is_again and not thread.has_failed and asked.messages[-1:]:
            if asked.messages[-1].get("role") == "assistant":
                return thread if not thread.asking else None
            return self._standing(chain[:-1], whose)
        if thread is not None and not (thread.asking and is_again):
            # One of the same words may have gone on from there, with equal ids of calls (Gemini).
            is_gone_on = not any(each in reversed(chain) for each in thread.stands)
            twin = self._standing(chain[:-1], whose) if is_gone_on else None
            return twin or thread  # else its twin is being answered: another that asks the same
        alike = self._identities.get(_identity(asked, whose), ())
        idle = [one for one in alike if not one.asking and _holds(asked, one.brief)]
        return idle[-1] if idle and thread is None else None

    def _standing(self, chain: Sequence[str], whose: Whose) -> Thread | None:
        """Return the first conversation that was answered so far, and has not gone on."""
        same = [one for one in self._all if one.whose.thread == whose.thread]
        standing = {at: one for one in reversed(same) for at in one.stands}
        return next((standing[at] for at in reversed(chain) if at in standing), None)

    def continued(self, asked: Asked, whose: Whose) -> Thread | None:
        """Return the shortened conversation that the new one continues."""
        system = system_of(asked)
        same = [
            one
            for one in self._all
            if one.system == system
            and (one.whose.thread, one.whose.session) == (whose.thread, whose.session)
            and not one.asking
        ]
        return same[-1] if same and _SHORTER.search(opening(asked)) else None

    def of(self, thread: str) -> list[Thread]:
        """Return the conversations whose requests name this thread.

        There may be several: opencode requests a title in the conversation's name.
        """
        return [one for one in self._all if thread and one.whose.thread == thread]

    def in_session(self, session: str) -> list[Thread]:
        """Return the conversations that may be of a run of the program; all, if it has no name."""
        return [one for one in self._all if not session or one.whose.session in ("", session)]

    def early(self, above: Thread, agent: str) -> Thread | None:
        """Return the conversation of that agent that began before the call that started it came.

        Codex makes a call while the answer with it is still on its way.
        """
        below = (one for one in self._all if scope_above(one.scope) == above.scope)
        names = ((one.whose.agent.rpartition("/")[2], one) for one in below if not one.is_opened)
        return next((one for name, one in names if agent and name == agent), None)

    def begin(self, asked: Asked, above: Thread | None, whose: Whose = NOBODY) -> Thread:
        """Return a new conversation, in a scope below `above`."""
        if above is None:
            self._roots += 1
            scope = f"0/{self._roots}"
        else:
            above.children += 1
            scope = f"{above.scope}/{above.children}"
        thread = Thread(
            scope, _identity(asked, whose), whose, system_of(asked), asked.tools_digest()
        )
        if any(each.get("role") == "assistant" for each in asked.messages):
            thread.brief = self._plain(text_of_json(asked.messages[-1].get("content", "")))
        self._all.append(thread)
        self._identities.setdefault(thread.identity, []).append(thread)
        return thread

    def note_beside(self, thread: Thread) -> None:
        """Note that a conversation began beside the newest calls that wait."""
        waiting = (
            call
            for one in self._all
            if not one.is_past and one is not thread
            for call in one.open.values()
            if call.waits
        )
        for call in nlargest(_WAITING_MAX, waiting, key=attrgetter("seq")):
            call.beside.append(thread)
            thread.is_beside = True

    def asked(self, thread: Thread, chain: Sequence[str]) -> None:
        """Take note of how far a conversation is."""
        thread.asking += 1
        thread.stands, thread.said = (), chain[-1] if chain else ""
        if chain:
            self._ends.setdefault((chain[-1], thread.whose.thread), thread)

    def answered(self, thread: Thread, end: str, *, is_whole: bool) -> None:
        """Take note of an answer: `end` is the chain digest with it, empty for none."""
        thread.asking -= 1
        thread.has_failed = not is_whole
        if end:
            self._ends[end, thread.whose.thread] = thread
        if thread.said and not thread.asking:
            thread.stands = (thread.said, end) if end else (thread.said,)

    def owner(
        self, call_id: str, mine: Thread, *, is_mine: bool
    ) -> tuple[Thread, UnansweredCall] | None:
        """Return the call of that id that waits for its result.

        It is one of `mine`, for ids may be equal in several (Gemini); else, unless it `is_mine` for
        sure, one of the latest conversation.
        """
        for thread in (mine, *(() if is_mine else reversed(self._all))):
            for call in thread.open.values():
                if call.id == call_id and not call.is_written:
                    return thread, call
        return None


def _identity(asked: Asked, whose: Whose) -> str:
    if asked.api == OTHER:  # a row for each method and path
        path = str(asked.parameters.get("path", "")).partition("?")[0]
        return digest.of_key([asked.parameters.get("method"), path])
    return digest.of_key([whose.thread, system_of(asked), first_text(asked)])


def _holds(asked: Asked, text: str) -> bool:
    return not text or any(text in text_of_json(m.get("content", "")) for m in asked.messages)


def system_of(asked: Asked) -> str:
    """Return the digest of the system prompt, empty for none; later ones are messages."""
    leading = itertools.takewhile(lambda each: each.get("role") == "system", asked.messages)
    said = [each.get("content", "") for each in leading]
    return digest.of_key(said) if said else ""


def opening(asked: Asked, plain: Callable[[str], str] = str) -> str:
    """Return all text before the first answer, without system prompts, each message `plain`."""
    before = itertools.takewhile(lambda each: each.get("role") != "assistant", asked.messages)
    said = (each.get("content", "") for each in before if each.get("role") != "system")
    return "\n".join(filter(None, (plain(text_of_json(each)) for each in said)))


def first_text(asked: Asked) -> str:
    """Return the text of the first message that is not a system prompt."""
    for message in asked.messages:
        if message.get("role") != "system":
            return text_of_json(message.get("content", ""))
    return ""
