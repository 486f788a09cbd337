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
        self._said: dict[str, tuple[str, Any]] = {}
        """By chain digest: the digest before its last message, and this message."""
        self._whole: dict[str, tuple[Any, ...]] = {"": ()}

    def after(self, at: str, messages: Sequence[Any]) -> str:
        """Take messages that follow the digest `at`; return the digest after them."""
        for message in messages:
            before, at = at, digest.chained(at, message)
            self._said[at] = before, message
        return at

    def messages(self, end: str) -> tuple[Any, ...]:
        """Return all messages up to a digest; those of an earlier request are traversed once.

        Raises:
            KeyError: the log has no such messages.
        """
        added, at = [], end
        while at not in self._whole:
            at, message = self._said[at]
            added.append(message)
        found = self._whole[end] = self._whole[at] + tuple(reversed(added))
        return found
