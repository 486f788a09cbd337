"""A schema says what the class says, and each member is explained by the text below it."""

from pathlib import Path
from typing import Any, Literal

import attrs
import jsonschema
import pytest

from refold.cli.schema.derived import HASH, derived
from refold.engine.encoding.document import Document
from refold.engine.errors import OutcomeMissing
from tests.support.loops import for_each


@attrs.frozen
class _Part:
    pair: tuple[str, str]


@attrs.frozen(kw_only=True)
class _Whole(Document):
    computed = ("is_odd",)
    hidden = ("own",)

    head: str
    """Of the last
    entry."""
    count: int = 1
    kind: Literal["a", "b"] = "a"
    at: Path | None = None
    parts: tuple[_Part, ...] = ()
    tallies: dict[str, int] = attrs.field(factory=dict)
    anything: Any = None
    own: str = ""

    @property
    def is_odd(self) -> bool:
        """Whether the count is odd."""
        return self.count % 2 == 1


def test_what_a_value_prints_is_as_its_schema_says() -> None:
    whole = _Whole(
        head="0" * 64, at=Path("x"), parts=(_Part(("l", "r")),), tallies={"n": 1}, anything=[{}]
    )

    schema = derived(_Whole, head=HASH)

    jsonschema.validate(whole.as_json(), schema)
    jsonschema.validate(_Whole(head="").as_json(), schema)
    assert schema["required"] == list(whole.as_json())


@for_each(
    "wrong",
    [
        {"head": "abc"},
        {"count": -1},
        {"kind": "c"},
        {"at": 1},
        {"parts": [{"pair": ["one"]}]},
        {"parts": [{"pair": ["l", "r"], "more": 1}]},
        {"tallies": {"n": "1"}},
        {"is_odd": 1},
        {"own": ""},
    ],
)
def test_what_it_cannot_print_is_refused(wrong: dict[str, Any]) -> None:
    document = _Whole(head="").as_json() | wrong

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, derived(_Whole, head=HASH))


def test_members_are_explained_by_their_class() -> None:
    members = derived(_Whole, head=HASH)["properties"]

    assert members["head"] == {**HASH, "description": "Of the last entry."}
    assert members["is_odd"]["description"] == "Whether the count is odd."
    assert "description" not in members["count"]


def test_an_error_has_its_attributes_as_members() -> None:
    schema = derived(OutcomeMissing)

    jsonschema.validate(OutcomeMissing("call", "near").as_json(), schema)
    assert schema["properties"]["call"]["description"] == "The call that was made."


def test_a_class_or_a_member_can_be_told() -> None:
    told = derived(_Whole, {_Part: {"const": 1}}, count={"const": 2}, more={"const": 3})

    members = told["properties"]
    assert members["parts"]["items"] == {"const": 1}
    assert members["count"] == {"const": 2}
    assert "more" in told["required"]
