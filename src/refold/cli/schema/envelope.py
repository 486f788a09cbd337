"""The JSON schema of a delegated run: what a subprocess child is told, and what it hands back.

Both cross pipes and stand in no log.  They are made in `engine.children.envelope` and read in
`engine.children.reply`; a test holds each of them to this schema.  Rules: CONTRACT.md §7.2, §7.5.
"""

from typing import Any, Final, get_args

import attrs

from refold.cli.schema.events import Schema, record
from refold.engine.children.envelope import VERSION
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import STATUSES, ArtifactKind, Usage
from refold.engine.ports.ports import Durability, Policy

_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_ANY: Final[Schema] = {}


def delegation_schema() -> Schema:
    """Return the schema of an object of `request` and `reply`."""
    return {
        "description": f"Version {VERSION}. The request is one JSON line on the descriptor "
        "REFOLD_REQUEST_FD, the reply one on REFOLD_REPLY_FD.",
        **record({"request": _request(), "reply": _reply()}),
    }


def _request() -> Schema:
    reference = record(
        {"source": _said("a module, or the absolute path of a .py file"), "name": _TEXT,
         "arguments": _or_null({"type": "object"})}
    )  # fmt: skip
    parent = record({"run": _TEXT, "call": _TEXT, "hash": _TEXT})
    texts = ("run_id", "root_id", "path", "seed")
    identity = record(
        dict.fromkeys(texts, _TEXT)
        | {"depth": {"type": "integer", "minimum": 1}, "parent": _or_null(parent)}
    )
    kinds = {"type": "array", "items": {"enum": list(get_args(ArtifactKind))}}
    policy = {field.name: _count() for field in attrs.fields(Policy)} | {"artifact_kinds": kinds}
    session = record({"factory": reference, "snapshot": {"type": "object"}})
    return record(
        {
            "version": {"const": VERSION},
            "entry": _said("what the child's process calls with this line"),
            "program": reference,
            "program_name": _TEXT,
            "brief": _said("the task in words"),
            "input": _ANY,
            "identity": identity,
            "limits": record({}, {field.name: _NUMBER for field in attrs.fields(Limits)}),
            "policy": record(policy),
            "log": _or_null(_said("where the child writes its own log")),
            "durability": {"enum": list(get_args(Durability))},
            "tools": {"type": "array", "items": reference},
            "models": {"type": "object", "additionalProperties": reference},
            "runner": _said("what the child's own children run on"),
            "session": _or_null(session),
            "people": record(
                {
                    "answers": {"type": "object"},
                    "by": _TEXT,
                    "retry": {"type": "array", "items": _TEXT},
                    "fail": {"type": "array", "items": _TEXT},
                    "results": {"type": "object"},
                }
            ),
            "resume": _or_null(reference),
            "vault": _or_null(_vault()),
            "tokens_fd": _or_null({"type": "integer"}),
            "clock_us": _or_null({"type": "integer"}),
            "sys_path": {"type": "array", "items": _TEXT},
            "cwd": _TEXT,
        }
    )


def _vault() -> Schema:
    """Return the schema of redaction and secrets: the one part of an envelope that holds values."""
    texts = {"type": "array", "items": _TEXT}
    return record(
        {
            "paths": {"type": "object", "additionalProperties": texts},
            "tools": texts,
            "environment": texts,
            "secrets": texts,
            "given": {"type": "object", "additionalProperties": _TEXT},
            "named": texts,
            "keys": texts,
            "volatile": texts,
        }
    )


def _reply() -> Schema:
    kinds = {"enum": list(get_args(ArtifactKind))}
    artifact = record({"kind": kinds, "value": _TEXT}, {"name": _TEXT})
    fault = record({"code": _TEXT, "message": _TEXT})
    return record(
        {"status": {"enum": list(STATUSES)}, "summary": _TEXT},
        {
            "output": _ANY,
            "artifacts": {"type": "array", "items": artifact},
            "error": _or_null(fault),
            "tools_used": {"type": "array", "items": _TEXT},
            "usage": record(
                {},
                {
                    field.name: _TEXT if field.name == "prices" else _count()
                    for field in attrs.fields(Usage)
                },
            ),
        },
    )


def _said(description: str) -> Schema:
    return {**_TEXT, "description": description}


def _count() -> dict[str, Any]:
    return {"type": "integer", "minimum": 0}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}
