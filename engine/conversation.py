"""Which conversations a log holds already, by chain digest (CONTRACT.md §2.4).

A model request names the longest prefix that the log has and stores only what follows, so each
message is stored once.  It is hashed once, too, as long as it stays in the conversation: a program
passes all of it with each request, and hashing all of it each time would make a long one quadratic.
Pure.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from refold.engine import digest
from refold.engine.canonical import DEPTH_MAX, Json

_REMEMBERED: Final = 1024
"""So many links of chains a generation may have; more, where a conversation is longer."""


@attrs.frozen
class Prefix:
    """What a log has of a conversation, and what it is about to get."""

    predecessor: str
    """Chain digest of the messages that it has; empty for none."""
    base: int
    """How many these are."""
    chain: dict[str, int]
    """Of the rest: chain digest → messages up to there, in their order."""
    messages: int
    digests: tuple[str, ...] = ()
    """The chain digest after each of the messages."""

    @property
    def end(self) -> str:
        """The chain digest of the whole conversation."""
        return next(reversed(self.chain), self.predecessor)


class Conversations:
    """The chains of one log."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._links = _Links()

    def prefix(self, messages: tuple[Json, ...]) -> Prefix:
        """Return how much of `messages` the log has.

        Raises:
            NotCanonical: a message cannot be held by a log.
        """
        at = ""
        digests = []
        self._links.make_room(len(messages))
        for message in messages:
            at = self._links.after(at, message)
            digests.append(at)
        return self.held(digests)

    def held(self, digests: Sequence[str]) -> Prefix:
        """Return how much the log has of the messages with these chain digests."""
        base = len(digests)
        while base and digests[base - 1] not in self._known:
            base -= 1
        predecessor = digests[base - 1] if base else ""
        chain = {at: count for count, at in enumerate(digests[base:], base + 1)}
        return Prefix(predecessor, base, chain, len(digests), tuple(digests))

    def asked(self, prefix: Prefix) -> None:
        """Take note that the log has these messages now."""
        self._known.update(prefix.chain)

    def answered(self, end: str, messages: int, message: Json) -> str:
        """Take note of an answer: the log has it, so it is not repeated in the next request.

        Returns the chain digest with it.
        """
        with_it = digest.chained(end, message)
        self._known[with_it] = messages + 1
        return with_it


class _Links:
    """Chain digests by the digest before and the message, by value: messages may be changed.

    What two generations did not use is forgotten, so that what a program has dropped is let go.
    """

    def __init__(self) -> None:
        self._young: dict[object, str] = {}
        self._old: dict[object, str] = {}

    def make_room(self, messages: int) -> None:
        """Begin a new generation where there is no room for a conversation so long."""
        if len(self._young) > max(_REMEMBERED, messages):
            self._old, self._young = self._young, {}

    def after(self, previous: str, message: Json) -> str:
        """Return the digest of the conversation `previous` with `message` added.

        Raises:
            NotCanonical: the message cannot be held by a log.
        """
        try:
            link = (previous, _frozen(message, 0))
        except TypeError:
            return digest.chained(previous, message)
        found = self._young.get(link)
        if found is None:
            found = self._old.get(link) or digest.chained(previous, message)
            self._young[link] = found
        return found


def _frozen(value: Json, depth: int) -> object:
    """Return what is equal for two values only if their canonical bytes are; shares the texts.

    Raises:
        TypeError: the value is none that a log holds.
    """
    kind = type(value)
    if kind is str:
        return value
    if kind is dict and depth < DEPTH_MAX:
        return _frozen_members(value, depth + 1)
    if kind in (list, tuple) and depth < DEPTH_MAX:
        return list, *[_frozen(item, depth + 1) for item in value]
    if kind is int or kind is bool or value is None:
        return kind, value
    if kind is float:
        return kind, repr(value)  # 0.0 and -0.0 are equal, and written otherwise
    raise TypeError(kind)


def _frozen_members(value: dict[str, Json], depth: int) -> object:
    frozen: list[object] = [dict]
    for name, item in value.items():
        if type(name) is not str:
            raise TypeError(name)
        frozen.append(name)
        frozen.append(item if type(item) is str else _frozen(item, depth))
    return tuple(frozen)
