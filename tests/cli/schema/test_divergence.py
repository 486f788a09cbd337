"""`refold schema divergence` describes every divergence there is (CONTRACT.md §12.5, §14.5)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

from click.testing import Result

from refold.cli.schema.documents import schema
from refold.replay.difference.pointer_diff import differences
from refold.replay.difference.text_diff import TextChange
from refold.replay.explain.divergence import Category, Divergence, Later
from refold.replay.reexecute.reexecute import reexecute
from tests.support.loops import for_each
from tests.support.schemas import validate
from tests.support.steps import program_of, recorded


@for_each("category", get_args(Category))
def test_every_category_is_as_the_schema_says(category: Category) -> None:
    """With every member that a divergence can have."""
    request = {"kind": "tool", "name": "search", "call": "0#1", "arguments": {"q": 1}}
    found = Divergence(
        category=category,
        where="root > search#1",
        log="a.jsonl",
        call="0#1",
        seq=3,
        recorded=request,
        now=None,
        diff=differences({"a": 1, "b": 2}, {"b": 3, "c": 4}),
        texts=(TextChange("message 0 (system)", ("-a", "+b")),),
        last=("1 tool.called",),
        fingerprints={"model": ("a", "b")},
        later=(Later(category=category, where="root", consequence=False),),
        later_count=1,
    )

    validate(found.as_json(), "divergence")
    assert Divergence.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_a_divergence_as_it_is_found(tmp_path: Path) -> None:
    log = recorded(tmp_path / "a.jsonl", ("note", "one"), ("note", "two"), ("return", 1)).log
    (found,) = reexecute(log, program_of(("note", "1"), ("return", 2))).divergences

    validate(found.as_json(), "divergence")


def test_every_member_is_explained() -> None:
    """Whoever builds a report of their own needs no other page."""
    members: dict[str, Any] = schema("divergence")["properties"]

    assert all(member["description"] for member in members.values())


def test_later_differences_are_printed_on_demand(
    tmp_path: Path, invoke: Callable[..., Result]
) -> None:
    """By default only their number is."""
    log = recorded(tmp_path / "a.jsonl", ("note", "one"), ("note", "two"), ("return", 1)).log
    (tmp_path / "now.py").write_text(
        "async def stepwise(run, _):\n    run.annotate('1')\n    run.annotate('2')\n    return 2\n"
    )
    words = ("replay", log, "--program", f"{tmp_path / 'now.py'}:stepwise")

    brief, full = invoke(*words), invoke(*words, "--all")

    assert "  then      2 later differences\n\nto list every difference, add --all" in brief.stdout
    assert full.stdout.count("\n  then ") == 2
    assert "may follow from the first" in full.stdout
