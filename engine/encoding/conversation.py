"""Which conversations a log holds already, by chain digest (CONTRACT.md §2.4).

A model request names the longest prefix that the log has and stores only what follows, so each
message is stored once.  It is hashed once, too, as long as it stays in the conversation: a program
passes all of it with each request, and hashing all of it each time would make a long one quadratic.
Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem
from typing import Any, Final

import attrs

from refold.engine.encoding import digest
from refold.engine.encoding.canonical import Json, shown
from refold.engine.encoding.secret import refuse_handles
from refold.engine.errors import NotCanonical, UsageError
from refold.engine.values import Value

_REMEMBERED: Final = 1024
"""The number of messages that are remembered; more for a longer conversation."""
_CONVERSATIONS: Final = 128
"""… in so many conversations at most, for each is looked at for each request."""


@attrs.frozen
class ConversationPrefix(Value):
    """The messages of a conversation that a log has, and the new ones."""

    base: int
    """How many of the messages it has."""
    predecessor: str
    """The chain digest of the messages that it has; empty for none."""
    added: tuple[str, ...]
    """The chain digest after each of the new messages."""
    given: tuple[Json, ...] = attrs.field(default=(), eq=False)
    """The messages, for a model: copies, which neither the program nor the log shares."""
    replies: int = attrs.field(default=0, eq=False)
    """How many of them an assistant said."""

    @property
    def end(self) -> str:
        """The chain digest of the whole conversation."""
        return self.added[-1] if self.added else self.predecessor


class Conversations:
    """The chains of one log, and the conversations used last, by value: a message may be edited.

    What stayed is recognised by one comparison of lists: a loop here would make thousands of turns
    quadratic, copies as well.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._kept: list[_Conversation] = []
        """In the order of their use."""

    def prefix(
        self, messages: tuple[Json, ...], *, may_have_handles: bool = False
    ) -> ConversationPrefix:
        """Return how much of `messages` the log has; `may_have_handles` to secrets, refused ones.

        Raises:
            NotCanonical: a message cannot be held by a log.
            UsageError: a message is not an object, or holds a handle to a secret.
        """
        found = self._of(list(messages), may_have_handles=may_have_handles)
        if len(found.messages) > len(messages):
            found = found.beginning(len(messages))
        return self.held(found.digests, tuple(found.messages), sum(found.replies[-1:]))

    def held(
        self, digests: Sequence[str], given: tuple[Json, ...] = (), replies: int = 0
    ) -> ConversationPrefix:
        """Return how much the log has of the messages with these chain digests."""
        base = len(digests)
        while base and digests[base - 1] not in self._known:
            base -= 1
        predecessor = digests[base - 1] if base else ""
        return ConversationPrefix(base, predecessor, tuple(digests[base:]), given, replies)

    def asked(self, prefix: ConversationPrefix) -> None:
        """Take note that the log has these messages now."""
        self._known.update(prefix.added)

    def answered(self, end: str, message: Json) -> str:
        """Take note of an answer: the log has it, so it is not repeated in the next request.

        Returns the chain digest with it.
        """
        with_it = digest.chained(end, message)
        self._known.add(with_it)
        return with_it

    def _of(self, messages: list[Json], *, may_have_handles: bool) -> "_Conversation":
        """Return a conversation that begins with `messages`.

        Raises:
            NotCanonical: a message cannot be held by a log.
            UsageError: a message is not an object.
        """
        found, same = self._nearest(messages)
        if same < min(len(found.messages), len(messages)):
            found = found.beginning(same)
        else:
            self._kept.remove(found)
        self._kept.append(found)
        for message in messages[len(found.messages) :]:
            if not isinstance(message, Mapping):
                raise no_messages(message)
            check_message(message, f"/messages/{len(found.messages)}")
            if may_have_handles:
                refuse_handles("run.model", message)
            found.add(dict(message))
        self._make_room(len(messages))
        return found

    def _nearest(self, messages: list[Json]) -> tuple["_Conversation", int]:
        """Return the conversation that continues here, or begins alike, and for how long."""
        known = [one for one in self._kept if 0 < len(one.messages) <= len(messages)]
        going_on = [one for one in known if one.messages[-1] == messages[len(one.messages) - 1]]
        for one in sorted(going_on, key=lambda one: len(one.messages), reverse=True):
            if one.is_begun_by(messages):
                return one, len(one.messages)
        begun = [one for one in self._kept if messages and one.messages[:1] == messages[:1]]
        alike = {at: one.alike(messages) for at, one in enumerate(begun)}
        best = max(alike, key=alike.__getitem__, default=None)
        if best is not None:
            return begun[best], alike[best]
        self._kept.append(_Conversation())
        return self._kept[-1], 0

    def _make_room(self, messages: int) -> None:
        """Forget the least recently used messages, beyond twice a conversation of so many."""
        kept, most = self._kept, max(_REMEMBERED, 2 * messages)
        total = sum(len(one.messages) for one in kept)
        while len(kept) > 1 and (total > most or len(kept) > _CONVERSATIONS):
            total -= len(kept.pop(0).messages)


@attrs.define(eq=False)
class _Conversation:
    """Messages as they were when they were hashed."""

    messages: list[Any] = attrs.field(factory=list)
    """Copies, which models are given: if one changes them, the next comparison finds it out."""
    digests: list[str] = attrs.field(factory=list)
    """The chain digest after each of them."""
    replies: list[int] = attrs.field(factory=list)
    """How many an assistant said, up to and with each of them."""
    numbers: list[tuple[tuple[Any, ...], float]] = attrs.field(factory=list)
    """Each number in them, after the path to it.  In Python, 1 is equal to 1.0 and True."""

    def add(self, message: Json) -> None:
        """Add a message.

        Raises:
            NotCanonical: it cannot be held by a log.
        """
        self.digests.append(digest.chained(self.digests[-1] if self.digests else "", message))
        self.replies.append(sum(self.replies[-1:]) + (message.get("role") == "assistant"))
        self.numbers += _numbers(message, (len(self.messages),))
        self.messages.append(_copied(message))

    def is_begun_by(self, messages: list[Json]) -> bool:
        """Return whether `messages` begins with all of these."""
        if self.messages != messages[: len(self.messages)]:
            return False
        return all(_is_at(path, messages, number) for path, number in self.numbers)

    def alike(self, messages: list[Json]) -> int:
        """Return at how many places from the first on `messages` is the same."""
        low, high = 0, min(len(self.messages), len(messages))
        while low < high:
            middle = (low + high + 1) // 2
            if self.messages[low:middle] == messages[low:middle]:
                low = middle
            else:
                high = middle - 1
        numbers = (each for each in self.numbers if each[0][0] < low)
        other = (path[0] for path, number in numbers if not _is_at(path, messages, number))
        return next(other, low)

    def beginning(self, count: int) -> "_Conversation":
        """Return a conversation of its own, of the first messages."""
        numbers = [each for each in self.numbers if each[0][0] < count]
        return _Conversation(
            self.messages[:count], self.digests[:count], self.replies[:count], numbers
        )


def no_messages(found: object) -> UsageError:
    """Return the error for `found`, passed as messages or as one of them."""
    seen = "; pass its .message" if hasattr(found, "message") else f" {found!r:.60}"
    expected = "messages must be a list of {role, content} objects"
    return UsageError(f"{expected}, found {type(found).__name__}{seen}")


def check_messages(added: Iterable[Mapping[str, Any]]) -> None:
    """Raise NotCanonical unless the tool calls of messages, the `added` ones, are objects."""
    for at, message in enumerate(added):
        check_message(message, f"/added/{at}")


def check_message(message: Mapping[str, Any], pointer: str) -> None:
    """Raise NotCanonical unless the tool calls of a message, if it has any, are objects."""
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list | tuple) or not all(isinstance(call, dict) for call in calls):
        raise NotCanonical(f"{pointer}/tool_calls", "an array of objects", shown(calls))


def check_reply(message: Mapping[str, Any], pointer: str) -> None:
    """Raise NotCanonical unless the tool calls of an answer are in the neutral form."""
    check_message(message, pointer)
    for at, call in enumerate(message.get("tool_calls") or ()):
        for name, kind in _CALL if "invalid" not in call else _CALL[:2]:
            if not isinstance(call.get(name), kind):
                where, found = f"{pointer}/tool_calls/{at}/{name}", shown(call.get(name))
                raise NotCanonical(where, "an object" if kind is dict else "a string", found)


_CALL: Final = (("id", str), ("name", str), ("arguments", dict))


def _numbers(value: Json, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], float]]:
    """Yield each number in a JSON value, after the path to it."""
    if isinstance(value, int | float):
        yield path, value
    elif isinstance(value, dict | list | tuple):
        for name, item in value.items() if isinstance(value, dict) else enumerate(value):
            if not isinstance(item, str):
                yield from _numbers(item, (*path, name))


def _is_at(path: tuple[Any, ...], messages: list[Json], number: float) -> bool:
    """Return whether `number` is at its place, of its type: 0.0 is another than -0.0, too."""
    try:
        found: Any = reduce(getitem, path, messages)
    except (LookupError, TypeError):  # a model took it from its copy, and the program from its own
        return False
    return found is number or (type(found), repr(found)) == (type(number), repr(number))


def _copied(value: Json) -> Json:
    """Return a copy of a JSON value, which shares the texts."""
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value
