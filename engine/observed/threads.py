"""Which conversation a request belongs to.

A program that Refold does not run does not say so.  A request goes on with the conversation whose
answer it names, or whose messages it begins with, or that has the same system prompt and first
message; else it begins one, and `observed.openers` says below which call.  Where a request stands
never decides what it is answered.  Pure.  Rules: CONTRACT.md §16.5.
"""

from collections.abc import Iterator, Sequence

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import encode
from refold.engine.observed.delegations import Delegated
from refold.engine.wire.parts.exchange import Asked


@attrs.define
class OpenCall:
    """A tool call that a model asked for, and whose result no request has shown yet."""

    call: str
    """The call key."""
    id: str
    tool: str
    seq: int
    texts: tuple[str, ...]
    """Texts among its arguments."""
    delegated: Delegated | None
    is_written: bool = False
    """Whether the model wrote it as text; it has no id, and its result is text, too."""
    opened: int = 0
    """Conversations that were found to stand below it."""


@attrs.define
class Thread:
    """One conversation."""

    scope: str
    identity: str
    agent: str = ""
    """Who it is, as far as that is known."""
    ordinal: int = 0
    children: int = 0
    last: int = 0
    """The entry that what comes next follows from."""
    asking: int = 0
    """Requests that wait for an answer."""
    open: dict[str, OpenCall] = attrs.field(factory=dict)
    """By call key."""

    def next_key(self) -> str:
        """Return the next call key of this conversation's scope."""
        self.ordinal += 1
        return f"{self.scope}#{self.ordinal}"


class Threads:
    """All conversations of one log."""

    def __init__(self) -> None:
        self._all: list[Thread] = []
        self._ends: dict[str, Thread] = {}
        """By the chain digest of all that was asked, or asked and answered."""
        self._answers: dict[str, Thread] = {}
        self._identities: dict[str, list[Thread]] = {}
        self._roots = 0

    def __iter__(self) -> Iterator[Thread]:
        return iter(self._all)

    def found(self, asked: Asked, chain: Sequence[str], hint: str = "") -> Thread | None:
        """Return the conversation that a request goes on with; `None`: it begins one.

        `chain` are the chain digests of its messages, `hint` what the program says itself.
        """
        if asked.follows in self._answers and asked.follows:
            return self._answers[asked.follows]
        thread = next((self._ends[at] for at in reversed(chain) if at in self._ends), None)
        if thread is not None and not (thread.asking and chain[-1] in self._ends):
            return thread  # else its twin is being answered: another that asks the same
        idle = [one for one in self._identities.get(_identity(asked, hint), ()) if not one.asking]
        return idle[-1] if idle and thread is None else None

    def begin(self, asked: Asked, above: Thread | None, hint: str = "") -> Thread:
        """Return a new conversation, in a scope below that of `above`."""
        if above is None:
            self._roots += 1
            scope = f"0/{self._roots}"
        else:
            above.children += 1
            scope = f"{above.scope}/{above.children}"
        thread = Thread(scope, _identity(asked, hint))
        self._all.append(thread)
        self._identities.setdefault(thread.identity, []).append(thread)
        return thread

    def asked(self, thread: Thread, chain: Sequence[str]) -> None:
        """Take note of how far a conversation is."""
        thread.asking += 1
        if chain:
            self._ends.setdefault(chain[-1], thread)

    def answered(self, thread: Thread, end: str, answer_id: str) -> None:
        """Take note of an answer: `end` is the chain digest with it, empty for none."""
        thread.asking -= 1
        if end:
            self._ends[end] = thread
        if answer_id:
            self._answers[answer_id] = thread

    def owner(self, call_id: str) -> tuple[Thread, OpenCall] | None:
        """Return the call of that id that waits for its result: of the latest conversation."""
        for thread in reversed(self._all):
            for call in thread.open.values():
                if call.id == call_id and not call.is_written:
                    return thread, call
        return None


def _identity(asked: Asked, hint: str) -> str:
    system = [message for message in asked.messages if message.get("role") == "system"]
    said = [message.get("content", "") for message in system]
    return digest.of_value(digest.VALUE, [hint, *said, first_text(asked)])


def first_text(asked: Asked) -> str:
    """Return the text of the first message that is no system prompt."""
    for message in asked.messages:
        if message.get("role") != "system":
            content = message.get("content", "")
            return content if isinstance(content, str) else encode(content).decode()
    return ""
