"""The members of a document are the fields and properties that its class names."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import attrs

from refold.engine.encoding.document import Document
from refold.engine.errors import OutcomeMissing


@attrs.frozen
class _Row(Document):
    name: str
    sizes: tuple[int, ...] = ()


@attrs.frozen
class _Plain:
    at: Path


@attrs.frozen(kw_only=True)
class _Table(Document):
    computed = ("count",)
    hidden = ("own",)

    rows: tuple[_Row, ...]
    missing: tuple[OutcomeMissing, ...]
    where: _Plain | None
    pairs: Mapping[str, tuple[str, str]]
    own: str = "mine"

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows)


def test_all_below_it_is_plain() -> None:
    """Other documents, attrs values, errors with data, paths, tuples and mappings."""
    table = _Table(
        rows=(_Row("a", (1, 2)), _Row("b")),
        missing=(OutcomeMissing("call", "near"),),
        where=_Plain(Path("x/y")),
        pairs=MappingProxyType({"p": ("l", "r")}),
    )

    found = table.as_json()

    assert found == {
        "count": 2,
        "rows": [{"name": "a", "sizes": [1, 2]}, {"name": "b", "sizes": []}],
        "missing": [{"call": "call", "nearest": "near", "why": "", "options": "", "key": ""}],
        "where": {"at": "x/y"},
        "pairs": {"p": ["l", "r"]},
    }
    assert json.loads(json.dumps(found)) == found
    assert tuple(found) == _Table.members()


def test_json_is_passed_on_however_deep_it_is() -> None:
    """A program's input and a call's arguments may be nested deeper than Python may recurse."""
    value: object = 1
    for _ in range(100_000):
        value = [value]

    @attrs.frozen
    class Held(Document):
        value: object

    assert Held(value).as_json()["value"] is value
