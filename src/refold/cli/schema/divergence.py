"""The JSON schema of one divergence: `refold schema divergence` (CONTRACT.md §12.5).

Part of the documents of `refold replay`; members are explained, because it is what others build
their own reports from.
"""

from typing import Any, Final, get_args

from refold.cli.schema.events import record
from refold.replay.explain.divergence import HEADLINES, LATER_MAX, Category

Schema = dict[str, Any]


def _said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_SEQ: Final[Schema] = {"anyOf": [_COUNT, {"type": "null"}]}
_PLACE: Final = record(
    {"pointer": _TEXT, "kind": {"enum": ["changed", "added", "removed"]}},
    {"before": {}, "after": {}},
)
_DIFF: Final = {"type": "array", "items": _PLACE}
_TEXTS: Final[Schema] = {"type": "array", "items": _TEXT}


def divergence_schema() -> Schema:
    """Return the schema of a divergence."""
    return record({**_first(), **_around()})


def _first() -> dict[str, Schema]:
    meanings = "; ".join(f"{name}: {said}" for name, said in HEADLINES.items())
    sides = "{kind, name, call, arguments} of a request, or the end of the run; null for nothing"
    return {
        "category": _said({"enum": list(get_args(Category))}, meanings),
        "headline": _said(_TEXT, "The category as a sentence."),
        "where": _said(_TEXT, "Names from the root down: `root > researcher[2] > search#3`."),
        "log": _said(_TEXT, "The log that the run was compared with."),
        "call": _said(_TEXT, "The call key; empty for the run itself."),
        "seq": _said(_SEQ, "Of the recorded entry; null where the record has none."),
        "recorded": {"description": f"What was recorded: {sides}."},
        "now": {"description": f"What the program asks or gives now: {sides}."},
        "diff": _said(_DIFF, "From recorded to now, as JSON pointers."),
        "texts": _said(
            {"type": "array", "items": record({"what": _TEXT, "lines": _TEXTS})},
            "Long texts and messages that changed: lines after ' ', '-' or '+', or words in "
            "[-old-] and {+new+}.",
        ),
    }


def _around() -> dict[str, Schema]:
    pair = {"type": "array", "items": _TEXT, "minItems": 2, "maxItems": 2}
    return {
        "last": _said(_TEXTS, "The last entries that matched, one line each."),
        "file": _said(_TEXT, "The program's file; empty where it is not known."),
        "line": _said(_COUNT, "The line in it; 0 where it is not known."),
        "fingerprints": _said(
            {"type": "object", "additionalProperties": pair},
            "What else is not as it was: name → [recorded, now].",
        ),
        "cause": _said(_TEXT, "The likely cause, and what to do."),
        "later": _said(
            {"type": "array", "items": _later(), "maxItems": LATER_MAX},
            "What differs after it, the program let run on.",
        ),
        "later_count": _said(_COUNT, "How many later differences there are."),
    }


def _later() -> Schema:
    return record(
        {
            "category": {"enum": list(get_args(Category))},
            "where": _TEXT,
            "call": _TEXT,
            "seq": _SEQ,
            "recorded": {},
            "now": {},
            "diff": _DIFF,
            "consequence": _said(
                {"type": "boolean"},
                "Whether it may follow from the first: false in a task beside it.",
            ),
        }
    )
