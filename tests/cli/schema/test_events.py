"""The schema of a line follows from the event classes, and allows what a log may hold."""

from typing import Any

import jsonschema

from refold.cli.schema.events import entry_schema
from refold.engine.events.codec import unstructure
from refold.engine.events.events import KINDS, ChildFinished, NoteAdded, RunFinished, ToolReturned
from refold.engine.events.outcome import Fault, Outcome
from tests.support.loops import for_each

FAILED = Outcome(status="failed", error=Fault(code="c", message="m"))
VALIDATOR = jsonschema.Draft202012Validator(entry_schema())


def _entry(kind: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"seq": 1, "kind": kind, "data": data, "meta": {}, "hash": "0" * 64, **more}


@for_each(
    "kind, event",
    [
        ("note.added", NoteAdded("text", {"a": [1]})),
        ("tool.returned", ToolReturned("error", None, {"code": "raised"})),
        ("child.finished", ChildFinished(FAILED)),
        ("run.finished", RunFinished("completed", "done")),
    ],
)  # fmt: skip
def test_what_the_codec_writes_is_valid(kind: str, event: Any) -> None:
    assert VALIDATOR.is_valid(_entry(kind, unstructure(event), call="0#1", cause=0))


@for_each(
    "entry",
    [
        _entry("note.added", {}),
        _entry("note.added", {"text": 1}),
        _entry("note.added", {"text": "a", "other": 1}),
        _entry("nobody.knows", {}),
        _entry("note.added", {"text": "a"}, seq=-1),
        _entry("note.added", {"text": "a"}, hash="short"),
        _entry("note.added", {"text": "a"}, more=1),
        _entry("tool.returned", {"status": "perhaps"}),
    ],
)
def test_what_no_log_holds_is_not(entry: dict[str, Any]) -> None:
    assert not VALIDATOR.is_valid(entry)


def test_a_large_text_may_be_a_reference_and_an_extension_anything() -> None:
    assert VALIDATOR.is_valid(_entry("note.added", {"text": {"$blob": "0" * 64, "bytes": 40_000}}))
    assert VALIDATOR.is_valid(_entry("x-mine.noted", {"any": ["thing"]}))


def test_every_kind_has_its_branch() -> None:
    kinds = [each["properties"]["kind"].get("const") for each in entry_schema()["anyOf"]]

    assert kinds == [*KINDS, None]
