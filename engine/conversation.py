"""Which conversations a log holds already, by chain digest (CONTRACT.md §2.4).

A model request names the longest prefix that the log has and stores only what follows, so each
message is stored once.  Pure.
"""

import attrs

from refold.engine import digest
from refold.engine.canonical import Json


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

    def prefix(self, messages: tuple[Json, ...]) -> Prefix:
        """Return how much of `messages` the log has."""
        at, chain = "", {}
        predecessor, base = "", 0
        digests = []
        for count, message in enumerate(messages, 1):
            at = digest.chained(at, message)
            digests.append(at)
            if at in self._known:
                predecessor, base = at, count
            else:
                chain[at] = count
        return Prefix(predecessor, base, chain, len(messages), tuple(digests))

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
