"""JSON schemas of the documents that `--json` prints; `refold schema NAME` shows them.

A document has exactly the members that its schema says, so that a program may rely on both.  The
schemas of events follow from their classes and are made in `cli.event_schema`.  To add a document:
a schema in `DOCUMENTS`, and a run of its command in `tests/cli/test_schemas.py`.
Rules: CONTRACT.md §14.
"""

from collections.abc import Callable
from typing import Any, Final

from refold.cli.envelope_schema import delegation_schema
from refold.cli.event_schema import entry_schema, plain, record

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string"}
_FLAG: Final[Schema] = {"type": "boolean"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_HASH: Final[Schema] = {"type": "string", "pattern": "^([0-9a-f]{64})?$"}
_ANY: Final[Schema] = {}
_OBJECT: Final[Schema] = {"type": "object"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


_FAULT: Final = record({"code": _TEXT, "message": _TEXT})
_USAGE: Final = record({"input_tokens": _COUNT, "output_tokens": _COUNT, "requests": _COUNT})
_TRUNCATED: Final = record({"kept_bytes": _COUNT, "seen_bytes": _COUNT, "sha256": _TEXT})
_DIFFERENCE: Final = record(
    {"pointer": _TEXT, "kind": {"enum": ["changed", "added", "removed"]}},
    {"before": _ANY, "after": _ANY},
)
_DAMAGE: Final = record(
    {
        "path": _TEXT,
        "line": {"type": "integer", "minimum": 1},
        "byte": _COUNT,
        "expected": _TEXT,
        "found": _TEXT,
        "what": _TEXT,
    }
)


def _verify() -> Schema:
    answers = {"intact": _FLAG, "complete": _FLAG, "authentic": _or_null(_FLAG)}
    log = record(
        {"path": _TEXT, **answers, "entries": _COUNT, "head": _HASH, "damage": _list(_DAMAGE)}
    )
    return record({"logs": _list(log), **answers})


def _replay() -> Schema:
    divergence = record(
        {
            "category": _TEXT,
            "headline": _TEXT,
            "where": _TEXT,
            "log": _TEXT,
            "call": _TEXT,
            "seq": _or_null(_COUNT),
            "recorded": _ANY,
            "now": _ANY,
            "diff": _list(_DIFFERENCE),
            "last": _list(_TEXT),
            "file": _TEXT,
            "line": _COUNT,
            "fingerprints": {"type": "object", "additionalProperties": _list(_TEXT)},
            "cause": _TEXT,
        }
    )
    return record(
        {
            "log": _TEXT,
            "identical": _FLAG,
            "divergences": _list(divergence),
            "tools_executed": _COUNT,
            "entries": _COUNT,
            "children": _COUNT,
            "ends_early": _list(_TEXT),
        }
    )


def _show() -> Schema:
    tool = record({"tool": _TEXT, "called": _COUNT, "failed": _COUNT, "cancelled": _COUNT})
    run = record(
        {
            "name": _TEXT,
            "agent": _TEXT,
            "program": _TEXT,
            "brief": _TEXT,
            "input": _ANY,
            "tool": _TEXT,
            "call": _TEXT,
            "number": _COUNT,
            "depth": _COUNT,
            "status": _TEXT,
            "is_joined": _FLAG,
            "reason": _TEXT,
            "error": _or_null(_FAULT),
            "limits": _OBJECT,
            "narrowed": _OBJECT,
            "tools_granted": _or_null(_list(_TEXT)),
            "truncated": _or_null(_TRUNCATED),
            "tools": _list(tool),
            "requests": _COUNT,
            "usage": _USAGE,
            "artifacts": _list(record({"kind": _TEXT, "name": _TEXT})),
            "children": _list({"$ref": "#/$defs/run"}),
            "log_state": {"enum": ["read", "torn", "none", "missing", "damaged", "foreign"]},
            "log": _TEXT,
            "run_id": _TEXT,
            "entries": _COUNT,
            "head": _HASH,
            "duration_ms": _or_null(_COUNT),
        }
    )
    return {"$ref": "#/$defs/run", "$defs": {"run": run}}


def _diff() -> Schema:
    place = {"run": _TEXT, "differences": _list(_DIFFERENCE)}
    difference = record(
        {
            "where": _TEXT,
            "category": _TEXT,
            **place,
            "what": _TEXT,
            "scope": _TEXT,
            "call_a": _or_null(_TEXT),
            "call_b": _or_null(_TEXT),
            "seq_a": _or_null(_COUNT),
            "seq_b": _or_null(_COUNT),
        }
    )
    return record(
        {
            "identical": _FLAG,
            "a": _TEXT,
            "b": _TEXT,
            "match": _TEXT,
            "arguments": _TEXT,
            "differences": _list(difference),
            "count": _COUNT,
            "context": _list(record(place)),
            "notes": _list(_TEXT),
            "entries": _COUNT,
            "runs": _COUNT,
        }
    )


def _state() -> Schema:
    return record(
        {
            "log": _TEXT,
            "at": _COUNT,
            "digest": _HASH,
            "recorded_digest": _or_null(_HASH),
            "agrees": _or_null(_FLAG),
            "state": {
                "type": "object",
                "required": ["state_version", "status", "entries", "open", "tools", "children"],
            },
        }
    )


def _ls() -> Schema:
    run = record(
        {
            "log": _TEXT,
            "started": _or_null(_TEXT),
            "program": _TEXT,
            "status": _TEXT,
            "entries": _COUNT,
            "runs": _COUNT,
            "duration_ms": _or_null(_COUNT),
            "bytes": _COUNT,
        }
    )
    return record({"folder": _TEXT, "runs": _list(run)})


def _events() -> Schema:
    entry = entry_schema()
    definitions = entry.pop("$defs")
    return {**record({"log": _TEXT, "entries": _list(entry)}), "$defs": definitions}


def _run() -> Schema:
    artifact = record({"kind": _TEXT, "value": _TEXT, "name": _TEXT})
    return record(
        {
            "status": _TEXT,
            "reason": _TEXT,
            "output": _ANY,
            "error": _or_null(_FAULT),
            "log": _TEXT,
            "head": _HASH,
            "entries": _COUNT,
            "summary": _TEXT,
            "artifacts": _list(artifact),
            "usage": _USAGE,
            "duration_ms": _COUNT,
            "data_digest": _HASH,
            "where": _TEXT,
        }
    )


def _agents() -> Schema:
    agent = record(
        {
            "id": _TEXT,
            "name": _TEXT,
            "description": _TEXT,
            "model": _TEXT,
            "tools": _or_null(_list(_TEXT)),
        }
    )
    problem = record({"id": _TEXT, "path": _TEXT, "reason": _TEXT})
    return record(
        {"folder": _TEXT, "ok": _FLAG, "agents": _list(agent), "problems": _list(problem)}
    )


def _demo() -> Schema:
    return record(
        {
            "log": _TEXT,
            "status": _TEXT,
            "reason": _TEXT,
            "error": _or_null(_FAULT),
            "summary": _TEXT,
            "children": {"type": "object", "additionalProperties": _COUNT},
            "intact": _or_null(_FLAG),
            "complete": _or_null(_FLAG),
            "identical": _or_null(_FLAG),
            "tools_executed": _or_null(_COUNT),
            "entries": _or_null(_COUNT),
            "differences": _or_null(_COUNT),
            "duration_ms": _COUNT,
        }
    )


DOCUMENTS: Final[dict[str, tuple[str, Callable[[], Schema]]]] = {
    "verify": ("refold verify --json", _verify),
    "replay": ("refold replay --json", _replay),
    "show": ("refold show --json: the delegation tree", _show),
    "events": ("refold show --events --json, refold tail --json", _events),
    "event": ("one line of a log; refold show --entry N", entry_schema),
    "diff": ("refold diff --json", _diff),
    "state": ("refold state --json", _state),
    "ls": ("refold ls --json", _ls),
    "pack": (
        "refold pack --json",
        lambda: record({"packed": _TEXT, "logs": _COUNT, "bytes": _COUNT}),
    ),
    "run": ("refold run --json", _run),
    "agents": ("refold agents check --json", _agents),
    "delegation": ("what a subprocess child is told, and what it hands back", delegation_schema),
    "demo": ("refold demo --json", _demo),
}
"""By name: what it describes, and how the schema is made."""


def schema(name: str) -> Schema:
    """Return the schema of that name, complete with its dialect and title.

    Raises:
        KeyError: there is none.
    """
    title, make = DOCUMENTS[name]
    return plain(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **make()}
    )
