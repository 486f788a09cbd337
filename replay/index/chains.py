"""The conversations of a log: what a chain digest of its messages stands for. Pure.

A request stores only the messages that follow the longest prefix that its log has. Rules:
CONTRACT.md §2.4.
"""

from collections.abc import Sequence
from typing import Any

from refold.engine.encoding import digest


class Chains:
    """The messages of one log, as its entries come."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[str, Any, int]] = {}
        """By chain digest: the one before its last message, this message, and how many all are."""
        self._whole: dict[str, tuple[Any, ...]] = {"": ()}

    def after(self, at: str, messages: Sequence[Any]) -> str:
        """Take messages that follow the digest `at`; return the digest after them.

        Raises:
            KeyError: the log has no messages with the digest `at`.
        """
        count = self.count(at)
        for number, message in enumerate(messages, count + 1):
            before, at = at, digest.chained(at, message)
            self._said[at] = before, message, number
        return at

    def count(self, end: str) -> int:
        """Return the number of messages up to a digest.

        Raises:
            KeyError: the log has no such messages.
        """
        return self._said[end][2] if end else 0

    def messages(self, end: str) -> tuple[Any, ...]:
        """Return all messages up to a digest; those of an earlier request are traversed once.

        Raises:
            KeyError: the log has no such messages.
        """
        added, at = [], end
        while at not in self._whole:
            at, message, _ = self._said[at]
            added.append(message)
        found = self._whole[end] = self._whole[at] + tuple(reversed(added))
        return found

    def parting(self, before: str, after: str) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
        """Return how many messages two digests share from the first on, and the rest of each.

        Raises:
            KeyError: the log has no such messages.
        """
        rest: tuple[list[Any], list[Any]] = [], []
        while before != after:
            if self.count(before) > self.count(after):
                before = self._back(before, rest[0])
            else:
                after = self._back(after, rest[1])
        own, other = (tuple(reversed(each)) for each in rest)
        return self.count(before), own, other

    def _back(self, at: str, rest: list[Any]) -> str:
        before, message, _ = self._said[at]
        rest.append(message)
        return before
