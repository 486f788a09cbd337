"""Schemas of questions are checked in bounded time, and nothing is fetched (CONTRACT.md §9.9)."""

import socket
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.engine.encoding.schemas import misfit, problem_of
from refold.engine.errors import UsageError
from refold.engine.ports.people import check_answer
from refold.engine.ports.ports import Question
from tests.support.loops import for_each

DOUBLED: dict[str, Any] = {
    "$ref": "#/$defs/d0",
    "$defs": {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} if n < 15 else {} for n in range(16)
    },
}
NESTED: dict[str, Any] = {}
for _ in range(70):
    NESTED = {"not": NESTED}
TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "below": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
}
TWICE = {"allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}], "type": "array"}


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"$ref": "#"}, "refers to itself"),
        ({"allOf": [{"not": {"$ref": "#"}}]}, "refers to itself"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}, "to itself"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "within the schema"),
        ({"items": {"$ref": "file:///etc/passwd"}}, "within the schema"),
        ({"$ref": "other.json"}, "within the schema"),
        ({"$ref": "#anchor"}, "within the schema"),
        ({"$ref": 3}, "3 is not of type"),
        ({"$ref": "#/$defs/none"}, "refers to nothing"),
        ({"$dynamicRef": "#x"}, "supported"),
        ({"properties": {"a": {"$id": "http://x/", "$ref": "y"}}}, "supported"),
        ({"pattern": "(a+)+$"}, "is itself repeated"),
        ({"patternProperties": {"^a": {}}}, "supported"),
        ({"items": {"unevaluatedItems": False}}, "not supported"),
        ({"items": {"pattern": "("}}, "not a regular expression"),
        ({"$ref": "#/hidden", "hidden": {"items": {"pattern": "(a+)+$"}}}, "is itself repeated"),
        ({"contains": {"pattern": "a*a*a*a*a*a*a*a*a*$"}}, "too many repeats"),
        (DOUBLED, "more than 20000 references"),
        (NESTED, "nested"),
        ({"type": "numeral"}, "numeral"),
        ({"enum": 3}, "3"),
        ({"allOf": 3}, "3"),
    ],
)
def test_a_schema_that_is_none_says_why(
    schema: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the program that asks, and to whoever answers a question that a log holds."""
    monkeypatch.setattr(socket, "create_connection", None)

    assert said in problem_of(schema)
    with pytest.raises(UsageError, match="the schema of the question 'why'"):
        check_answer(Question(key="0#1", question="why", schema=schema), "a" * 60)


@for_each(
    "schema, good, bad",
    [
        (TREE, {"name": "a", "below": [{"name": "b", "below": []}]}, {"below": [{}]}),
        ({"pattern": "^[a-z]+$"}, "abc", "a" * 5000),
        ({"pattern": r"^\d{4}-\d\d$"}, "2024-01", "2024-1"),
        ({"$id": "http://x/y", "$ref": "#/$defs/n", "$defs": {"n": {"minimum": 2}}}, 2, 1),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "const": 1}, 1, 2),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"pattern": "x"}}]}, None, [""]),
        ({"properties": {"a": True, "b": False}}, {"a": 1}, {"b": 1}),
        (TWICE, [[[]]], 1),
    ],
)
def test_a_good_schema_tells_values_apart(schema: dict[str, Any], good: Any, bad: Any) -> None:
    """Recursive ones that go deeper into a value, too."""
    assert problem_of(schema) == ""
    assert misfit(schema, good) == ""
    assert misfit(schema, bad) != ""


def test_a_deep_value_ends_the_check() -> None:
    """Each level of this one doubles the work."""
    value: Any = []
    for _ in range(24):
        value = [value]

    assert "references" in misfit(TWICE, value)


def test_a_program_cannot_ask_with_a_bad_one(tmp_path: Path) -> None:
    """No line of it stands in the log."""

    async def asks(run: refold.Run, _input: Any) -> Any:
        return await run.ask("why", {"$ref": "#"})

    recording = refold.record(asks, log=tmp_path / "a.jsonl")

    assert recording.error is not None
    assert "refers to itself" in recording.error.message
    assert recording.entries == 2
