"""Values that tools and notes declare to vary between recordings of the same program.

A log declares them itself, in lines of the kind `MEASURED`, each before the entry that it is about.
They name places in this entry that hold a measured time or an id of the run, and texts made from
such an id. Diffs and snapshots omit the places, wherever that result occurs (in a model's request,
in a program's return value), and identify the texts by their position in the tree. Both are listed.
Nothing undeclared is omitted. The rules are CONTRACT.md §13.2.
"""

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import attrs

from refold.engine.encoding.canonical import Json, encode, encode_sorted, loads, unescaped
from refold.engine.errors import RefoldError
from refold.engine.events.codec import members
from refold.engine.events.events import MEASURED, Measured, in_order
from refold.engine.log.blobs import BlobBroken, BlobStore, is_marked, resolved
from refold.engine.log.damage import lines
from refold.engine.log.line import LINE_MAX
from refold.engine.log.names import blobs_of, tree
from refold.engine.log.reader import open_log

_WORD: Final = re.compile(r"[\w-]+")
_BEGINNING: Final = re.compile(
    rb'\{"seq":\d+,"kind":"(?:(%b)"|tool\.returned","call":"([^"]*)")'
    % re.escape(MEASURED.encode())
)
"""Of the two kinds of lines that are looked at; all others are passed over unread."""

_Places = tuple[str, ...]
_Steps = tuple[list[str], ...]


@attrs.frozen
class _Made:
    """A text that is made of a run's id, and where."""

    path: str
    call: str
    text: str


class Declared:
    """The declarations of the log at `path` and of the runs below it; empty without a path."""

    def __init__(self, path: Path | None = None) -> None:
        """Look for declarations; unreadable logs have none, and their reader reports them."""
        self._places: dict[tuple[Path, str], _Places] = {}
        self._results: dict[bytes, _Steps] = {}
        """By the digest of a result, as a value and as the text that models are sent."""
        self._shapes: set[frozenset[str]] = set()
        """Of these results: the names of their members, to look at no other object twice."""
        self._listed: Counter[tuple[str, _Places]] = Counter()
        made = {one for log in (tree(path) if path else ()) for one in self._read(log)}
        by_call = sorted(made, key=lambda one: (*map(in_order, (one.path, one.call)), one.text))
        self._names = {one.text: f"[id {number}]" for number, one in enumerate(by_call, 1)}

    @property
    def is_any(self) -> bool:
        """Whether anything is declared at all."""
        return bool(self._places or self._names)

    def listed(self) -> Iterator[str]:
        """Yield the omitted values: name, place, number of entries; then the number of ids."""
        for (what, places), count in sorted(self._listed.items()):
            yield f"{what} ×{count}: {', '.join(places)}"
        if self._names:
            yield f"identified by position: {len(self._names)} texts that contain run ids"

    def places(self, log: Path, call: str | None, kind: str = "tool.returned") -> _Places:
        """Return the places that are left out of the entry of this kind at a call key."""
        if kind not in ("tool.returned", "note.added"):
            return ()
        return self._places.get((log, call or ""), ())

    def without(
        self, log: Path, kind: str, call: str | None, data: dict[str, Any]
    ) -> dict[str, Any]:
        """Return an entry's data without declared values; `data` itself if none are declared."""
        if not self.is_any:
            return data
        for place in self.places(log, call, kind):
            data = _without(data, place[1:].split("/"))
        return self.value(data)  # type: ignore[no-any-return]  # an object stays one

    def value(self, value: Json) -> Any:
        """Return a value without the declared parts of the results and texts in it."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if frozenset(value) in self._shapes:
            for place in self._results.get(_digest(encode_sorted(value)), ()):
                value = _without(value, place)
        return {self._named(key): self.value(item) for key, item in value.items()}

    def _text(self, text: str) -> str:
        if self._results and text.startswith(("{", "[")):
            places = self._results.get(_digest(text.encode(errors="surrogatepass")), ())
            if places:
                found = loads(text.encode())
                for place in places:
                    found = _without(found, place)
                text = encode(found).decode()
        return self._named(text)

    def _named(self, text: str) -> str:
        if not self._names:
            return text
        return _WORD.sub(lambda word: self._names.get(word[0], word[0]), text)

    # --- reading -------------------------------------------------------------------------

    def _read(self, log: Path) -> Iterator[_Made]:
        try:
            with open_log(log) as file:
                first = file.readline(LINE_MAX)
                path = ""
                for line in lines(file):
                    if len(line) > LINE_MAX:
                        return  # no log from here on, and perhaps a hole of gigabytes
                    found = _BEGINNING.match(line)
                    if found is None:
                        continue
                    if found[1] is None:
                        self._keep_result(log, found[2].decode(), line)
                        continue
                    path = path or str(loads(first)["data"].get("path", ""))
                    measured = members(Measured, loads(line)["data"], MEASURED)
                    yield from self._declared(log, path, measured)
        except (RefoldError, OSError, ValueError, LookupError, TypeError, AttributeError):
            return

    def _declared(self, log: Path, path: str, measured: Measured) -> Iterator[_Made]:
        call, places = measured.call, tuple(measured.places)
        if places:
            self._places[log, call] = places
            self._listed[measured.what, places] += 1
        for text in measured.ids:
            yield _Made(path, call, text)

    def _keep_result(self, log: Path, call: str, line: bytes) -> None:
        inside = [p[1:].split("/")[1:] for p in self.places(log, call) if p.startswith("/result/")]
        if not inside:
            return
        data = loads(line)["data"]
        if is_marked(line):
            try:
                data = resolved(data, BlobStore(blobs_of(log)).get)
            except BlobBroken:
                return
        result = data.get("result")
        if isinstance(result, dict):
            self._shapes.add(frozenset(result))
        for content in (encode_sorted(result), encode(result)):
            self._results[_digest(content)] = tuple(inside)


def _digest(content: bytes) -> bytes:
    return sha256(content).digest()[:16]


def _without(value: Any, steps: list[str]) -> Any:
    """Return `value` without the member at the steps of a pointer, if there is such a place."""
    step, rest = unescaped(steps[0]), steps[1:]
    if isinstance(value, dict) and step in value:
        if not rest:
            return {name: item for name, item in value.items() if name != step}
        return {**value, step: _without(value[step], rest)}
    if isinstance(value, list) and rest and step.isdigit() and int(step) < len(value):
        return [_without(item, rest) if at == int(step) else item for at, item in enumerate(value)]
    return value
