"""Bodies of earlier requests, so that repeated parts of a conversation are parsed once.

If the text of a body begins like an earlier one's, the items of its list of messages are the same
up to there, because JSON is read from left to right. The same holds for the text after that list,
if all of it is equal. The remembered text is bounded in size.

With `series`, a request of 1,000 messages (378 kB) that goes on from an earlier one takes 0.4 ms
instead of 3.5, or of 5 if its JSON has spaces. Pure. Rules: CONTRACT.md §16.9.
"""

import re
from bisect import bisect_left
from typing import Any, Final

import attrs

from refold.engine.wire.parts.notation import (
    LEVELS_READ,
    JsonMember,
    is_deep,
    object_in,
    once,
    value_at,
)
from refold.engine.wire.parts.series import Lists, Series

CHARACTERS_MAX: Final = 32 * 1024 * 1024
"""Of all bodies that are remembered."""

_BODIES_MAX: Final = 256
_MOVED_ON: Final = 4
"""A body that continues from this near the end of an earlier one replaces it."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")


@attrs.frozen(eq=False)
class _Part:
    """Adjacent members of a body, and their text."""

    text: str
    members: list[JsonMember]
    lists: Lists


@attrs.frozen(eq=False)
class _Body:
    """A body that was read: an object with a list of messages."""

    text: str
    """Up to the end of the last item."""
    head: _Part
    """Up to the bracket that begins the list."""
    name: str
    items: Series
    ends: list[int]
    """The end of each item."""
    tail: _Part
    """From the end of the last item on."""

    @property
    def size(self) -> int:
        """How many characters it has."""
        return len(self.text) + len(self.tail.text)

    def shared(self, text: str, least: int) -> int:
        """Return with how many of the items `text` begins; at most `least` if not with more."""
        at = self.ends[least - 1] if least else 0
        # Of many bodies with the same beginning, one look at the next item rules out most.
        if not text.startswith(self.text[at : self.ends[least]], at):
            return 0
        if text.startswith(self.text):
            return len(self.ends)
        longer = range(least + 1, len(self.ends) + 1)
        return least + bisect_left(longer, 1, key=lambda count: not self._begins(text, count))

    def _begins(self, text: str, count: int) -> bool:
        return text.startswith(self.text[: self.ends[count - 1]])


class Remembered:
    """The bodies that one reader has seen."""

    def __init__(self, characters_max: int = CHARACTERS_MAX) -> None:
        self._characters_max = characters_max
        self._bodies: list[_Body] = []
        """The newest last."""
        self._characters = 0

    def object_in(self, body: bytes, name: str) -> tuple[dict[str, Any] | None, Lists]:
        """Return the JSON object that a body is, as `notation.object_in` does, and lists in it.

        `name` is the member that holds the conversation; empty for none.
        """
        if not name or len(body) * 2 > self._characters_max:
            return object_in(body), {}
        try:
            text = body.decode()
            like, count = self._like(text, name)
            found = _read(text, name, like, count)
            items = (found.name, found.items.values)
            members = once([*found.head.members, items, *found.tail.members])
        except (ValueError, RecursionError):
            return object_in(body), {}
        self._keep(found, like)
        return members, {**found.head.lists, **found.tail.lists, found.name: found.items}

    def _like(self, text: str, name: str) -> tuple[_Body | None, int]:
        """Return the body with which a text shares the most items, and how many."""
        best, most = None, 0
        for body in reversed(self._bodies):
            is_longer = body.name == name and len(body.ends) > most
            if is_longer and (count := body.shared(text, most)) > most:
                best, most = body, count
        return best, most

    def _keep(self, body: _Body, like: _Body | None) -> None:
        if like is not None and body.items.shared + _MOVED_ON >= len(like.ends):
            self._bodies.remove(like)
            self._characters -= like.size
        self._bodies.append(body)
        self._characters += body.size
        while self._characters > self._characters_max or len(self._bodies) > _BODIES_MAX:
            self._characters -= self._bodies.pop(0).size


# --- reading ---------------------------------------------------------------------------------


def _read(text: str, name: str, like: _Body | None, count: int) -> _Body:
    """Parse a text, whose first `count` items are taken from `like`.

    Raises:
        ValueError: it is not a JSON object with a list of messages.
        RecursionError: its nesting is too deep.
    """
    scan = _Scan(text)
    if like is not None:
        head = like.head
        items, ends = like.items.values[:count], like.ends[:count]
        scan.at = ends[-1]
    else:
        before = scan.members_before(name)
        head = _part(text[: scan.at], before)
        items, ends = [], []
    scan.items(items, ends)
    end = ends[-1] if ends else len(head.text)
    tail = text[end:]
    series = Series(items, like.items if like is not None else None, count)
    if like is not None and tail == like.tail.text:
        return _Body(text[:end], head, name, series, ends, like.tail)
    return _Body(text[:end], head, name, series, ends, _part(tail, scan.members_after_list()))


def _part(text: str, members: list[JsonMember]) -> _Part:
    lists = {name: Series(value) for name, value in members if isinstance(value, list)}
    return _Part(text, members, lists)


class _Scan:
    """Reads a text from left to right; invalid JSON raises a `ValueError`."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.at = 0

    def _next(self) -> str:
        """Return the next character that is not a space; empty at the end."""
        found = _SPACE.match(self._text, self.at)
        assert found is not None
        self.at = found.end()
        return self._text[self.at : self.at + 1]

    def _has(self, character: str) -> bool:
        """Go on behind a character, if it comes next."""
        is_next = self._next() == character
        self.at += is_next
        return is_next

    def _need(self, character: str) -> None:
        if not self._has(character):
            raise ValueError(f"expected {character}")

    def _value(self, levels: int) -> Any:
        self._next()
        begin = self.at
        value, self.at = value_at(self._text, begin)
        brackets = sum(self._text.count(each, begin, self.at) for each in "[{")
        if brackets >= levels and is_deep(value, levels):
            raise ValueError("nested too deeply")
        return value

    def _name(self) -> str:
        if self._next() != '"':
            raise ValueError("expected a name")
        name: str = self._value(LEVELS_READ)
        self._need(":")
        return name

    def members_before(self, listed: str) -> list[JsonMember]:
        """Read on into the list of that name; return what comes before it."""
        before: list[JsonMember] = []
        self._need("{")
        while True:
            name = self._name()
            if name == listed and self._has("["):
                return before
            before.append((name, self._value(LEVELS_READ - 1)))
            self._need(",")

    def items(self, items: list[Any], ends: list[int]) -> None:
        """Read the items that are left."""
        while self._has(",") if items else self._next() != "]":
            items.append(self._value(LEVELS_READ - 2))
            ends.append(self.at)

    def members_after_list(self) -> list[JsonMember]:
        """Read on to the end; return what comes after the list."""
        after: list[JsonMember] = []
        self._need("]")
        while self._has(","):
            after.append((self._name(), self._value(LEVELS_READ - 1)))
        self._need("}")
        if self._next():
            raise ValueError("more than one value")
        return after
