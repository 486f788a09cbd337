"""JSON that arrives in pieces, put together in bounded memory.

An answer's texts come in deltas; an answer that is not streamed is one delta. The `Budget` of an
answer limits the kept size: beyond it texts are cut, and the answer is marked. A long text waits in
a temporary file, so that many answers at once take little memory. The readers interpret members.
Rules: CONTRACT.md §16.10.
"""

import contextlib
import io
import tempfile
from collections.abc import Callable, Mapping
from typing import IO, Any, Final

from refold.engine.wire.parts.notation import LEVELS_MAX, json_text

KEPT_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the texts of one answer."""

PARTS_MAX: Final = 20_000
"""Members, items and texts of one answer."""

IN_MEMORY_MAX: Final = 256 * 1024
"""Characters of one text that are held in memory while it grows."""
_WHOLE: Final = frozenset({"id", "index", "role", "type"})
"""Members that come whole, whether once or in every delta."""
_ITEM: Final = "item"


class Budget:
    """Bounds how much of one answer is kept."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX, parts_max: int = PARTS_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts = parts_max
        self.asked = 0
        """How often something was to be kept."""
        self.grown: tuple[Text, str] | None = None
        """The text that grew with the last of them, and its new piece."""
        self.kept_bytes = 0
        self.seen_bytes = 0
        self.is_spent = False
        """Whether something was not kept; nothing is, from there on."""

    def text(self, piece: str) -> str:
        """Return as much of `piece` as may be kept."""
        self.asked, self.grown = self.asked + 1, None
        content = piece if piece.isascii() else piece.encode("utf-8", "surrogatepass")
        self.seen_bytes += len(content)
        room = 0 if self.is_spent else self._bytes_max - self.kept_bytes
        if len(content) > room:
            self.is_spent = True
            piece = piece.encode("utf-8", "surrogatepass")[:room].decode("utf-8", "ignore")
            content = piece.encode()
        self.kept_bytes += len(content)
        return piece

    def part(self) -> bool:
        """Return whether one more member or item may be kept."""
        self.asked, self.grown = self.asked + 1, None
        self._parts -= 1
        self.is_spent = self.is_spent or self._parts < 0
        return not self.is_spent

    def truncated(self) -> dict[str, int] | None:
        """Return {kept_bytes, seen_bytes} if something was cut, else `None`."""
        if not self.is_spent:
            return None
        return {"kept_bytes": self.kept_bytes, "seen_bytes": self.seen_bytes}


class Text:
    """A text that grows."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces = io.StringIO()
        self._file: IO[bytes] | None = None
        """What came before the pieces."""

    def add(self, piece: str) -> None:
        """Put a piece at its end."""
        if piece:
            self._pieces.write(self._budget.text(piece))
            self._budget.grown = self, piece
            if self._pieces.tell() > IN_MEMORY_MAX:
                self._spill()

    def _spill(self) -> None:
        """Move the pieces to the file; they stay if the disk is full."""
        content = self._pieces.getvalue().encode("utf-8", "surrogatepass")
        with contextlib.suppress(OSError):
            self._file = self._file or tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - below
            at = self._file.seek(0, io.SEEK_END)
            if self._file.write(content) < len(content):
                self._file.truncate(at)
                return
            self._pieces = io.StringIO()

    def __del__(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def value(self) -> str:
        """Return it as it is now; halves of one character that came apart are put together."""
        text = self._pieces.getvalue()
        if self._file is not None:
            self._file.seek(0)
            text = self._file.read().decode("utf-8", "surrogatepass") + text
        if text.isascii():
            return text
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Gathered:
    """An object that grows: texts are extended, objects and lists filled, other values replaced."""

    def __init__(self, budget: Budget, *, by_index: bool = False, levels: int = LEVELS_MAX) -> None:
        """With `by_index`, items of lists that have the same `index` are pieces of one."""
        self._budget = budget
        self._by_index = by_index
        self._levels = levels
        self._members: dict[str, Any] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take the members of a delta."""
        for name, value in delta.items():
            if name in self._members or self._budget.part():
                self._put(name, value)

    def _put(self, name: str, value: Any) -> None:
        old = self._members.get(name)
        if value is None or (name in _WHOLE and value == "" and old is not None):
            self._members.setdefault(name, value)
        elif name in _WHOLE and isinstance(value, str):
            self._members[name] = self._budget.text(value) if value != old else old
        else:
            self._members[name] = self._grown(old, value)

    def _grown(self, old: Any, value: Any) -> Any:
        grown: Text | Gathered | GatheredList
        match value:
            case dict() | list() if not self._levels:
                return self._budget.text(json_text(value))
            case str():
                grown = old if isinstance(old, Text) else Text(self._budget)
                grown.add(value)
            case dict():
                grown = old if isinstance(old, Gathered) else self._below()
                grown.add(value)
            case list():
                grown = old if isinstance(old, GatheredList) else GatheredList(self._below)
                grown.add(value, self._budget, by_index=self._by_index)
            case _:
                return value
        return grown

    def _below(self) -> "Gathered":
        return Gathered(self._budget, by_index=self._by_index, levels=self._levels - 1)

    def value(self) -> dict[str, Any]:
        """Return it as it is now."""
        return {name: _value(member) for name, member in self._members.items()}


class GatheredList:
    """A list that grows: each item is the one member of an object of its own."""

    def __init__(self, below: Callable[[], Gathered]) -> None:
        self._below = below
        self._items: list[Gathered] = []
        self._places: dict[int, Gathered] = {}

    def add(self, items: list[Any], budget: Budget, *, by_index: bool) -> None:
        """Take the items of a delta."""
        for item in items:
            index = item.get("index") if by_index and isinstance(item, dict) else None
            place = self._places.get(index) if type(index) is int else None
            if place is None:
                if not budget.part():
                    return
                place = self._below()
                self._items.append(place)
                if type(index) is int:
                    self._places[index] = place
            place.add({_ITEM: item})

    def value(self) -> list[Any]:
        """Return it as it is now."""
        found = [item.value() for item in self._items]
        return [item[_ITEM] for item in found if _ITEM in item]


def _value(member: Any) -> Any:
    return member.value() if isinstance(member, Text | Gathered | GatheredList) else member
