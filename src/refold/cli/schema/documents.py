"""JSON schemas of the documents that `--json` prints; `refold schema NAME` shows them.

A document has exactly the members that its schema says, so that a program may rely on both.  The
schemas of events follow from their classes and are made in `cli.schema.events`.  To add a document:
a schema in `DOCUMENTS`, and a run of its command in `tests/cli/schema/test_documents.py`.
Rules: CONTRACT.md §14.
"""

from collections.abc import Callable
from typing import Any, Final, get_args

from refold.cli.schema.divergence import divergence_schema
from refold.cli.schema.envelope import delegation_schema
from refold.cli.schema.events import entry_schema, plain, record
from refold.replay.audit.why import How
from refold.replay.bulk.report import Result
from refold.replay.partial.sources import MODES

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
_QUESTION: Final = record(
    {"key": _TEXT, "question": _TEXT, "schema": _or_null(_OBJECT), "problem": _TEXT}
)
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


_IGNORED: Final = record(
    {
        "log": _TEXT,
        "seq": _COUNT,
        "what": _TEXT,
        "call": _TEXT,
        "pointer": _TEXT,
        "recorded": _ANY,
        "now": _ANY,
        "rule": _TEXT,
    }
)


def _replay() -> Schema:
    finding = record(
        {"what": _TEXT, "file": _TEXT, "line": _COUNT, "remedy": _TEXT, "is_advice": _FLAG}
    )
    return record(
        {
            "log": _TEXT,
            "identical": _FLAG,
            "divergences": _list(divergence_schema()),
            "tools_executed": _COUNT,
            "entries": _COUNT,
            "children": _COUNT,
            "ends_early": _list(_TEXT),
            "ignored": _list(_IGNORED),
            "ignored_count": _COUNT,
            "timers": _COUNT,
            "unread": _list(_TEXT),
            "not_compared": _list(_TEXT),
            "findings": _or_null(_list(finding)),
        }
    )


def _watched() -> Schema:
    rules = {"volatile": _list(_TEXT), "volatile_texts": _list(_TEXT)}
    return record(
        {
            "identical": _FLAG,
            "guarantee": {"const": "matched"},
            "log": _TEXT,
            "program": _TEXT,
            "requests": _COUNT,
            "served": _COUNT,
            "live": _COUNT,
            "conversations": _COUNT,
            "entries": _COUNT,
            "divergences": _list(divergence_schema()),
            "rules": record({}, rules),
            "exit_code": _or_null(_COUNT),
            "ignored": _list(_IGNORED),
            "ignored_count": _COUNT,
            "notes": _list(_TEXT),
        }
    )


def _replays() -> Schema:
    log = record(
        {
            "log": _TEXT,
            "result": {"enum": list(get_args(Result))},
            "program": _TEXT,
            "category": _TEXT,
            "where": _TEXT,
            "message": _TEXT,
            "entries": _COUNT,
            "children": _COUNT,
            "ignored": _COUNT,
            "not_compared": _list(_TEXT),
            "seconds": {"type": "number", "minimum": 0},
            "divergences": _list(divergence_schema()),
        }
    )
    return record(
        {
            "identical": _FLAG,
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "logs": _list(log),
            "seconds": {"type": "number", "minimum": 0},
            "jobs": _COUNT,
        }
    )


_MISSING: Final = record({"call": _TEXT, "nearest": _TEXT, "why": _TEXT})


def _drift() -> Schema:
    modes = {"enum": list(MODES)}
    verdicts = {"enum": ["same", "result_changed", "arguments_changed", "new", "missing"]}
    call = record(
        {
            "where": _TEXT,
            "call": _TEXT,
            "kind": _TEXT,
            "name": _TEXT,
            "verdict": verdicts,
            "consequent": _FLAG,
            "noise": _FLAG,
            "recorded": _ANY,
            "now": _ANY,
            "diff": _list(_DIFFERENCE),
        }
    )
    tool = {"type": "object", "additionalProperties": modes}
    return record(
        {
            "log": _TEXT,
            "into": _or_null(_TEXT),
            "identical": _FLAG,
            "counts": {"type": "object", "additionalProperties": _COUNT},
            "calls": _list(call),
            "missing": _list(_MISSING),
            "sources": record({"model": modes, "tools": modes, "children": modes, "tool": tool}),
            "ignored": _list(_IGNORED),
            "ignored_count": _COUNT,
            "served": _list(_TEXT),
        }
    )


def _fork() -> Schema:
    return record(
        {
            "origin": _TEXT,
            "at": _COUNT,
            "log": _TEXT,
            "status": _TEXT,
            "output": _ANY,
            "missing": _list(_MISSING),
            "diff": _OBJECT,
        }
    )


def _explore() -> Schema:
    move = record(
        {
            "deliver": _TEXT,
            "relation": {"enum": ["before", "after"]},
            "other": _TEXT,
            "call": _TEXT,
            "other_call": _TEXT,
        }
    )
    asked = record({"kind": _TEXT, "name": _TEXT, "call": _TEXT, "arguments": _ANY, "label": _TEXT})
    finding = record(
        {
            "kind": {"enum": ["output", "error", "missing", "endless"]},
            "headline": _TEXT,
            "moves": _list(move),
            "orders": _COUNT,
            "digest": _HASH,
            "end": _OBJECT,
            "diff": _list(_DIFFERENCE),
            "missing": _or_null(asked),
            "is_given_up": _FLAG,
            "file": _TEXT,
            "line": _COUNT,
            "order": _list(_TEXT),
        }
    )
    report = record(
        {
            "log": _TEXT,
            "where": _TEXT,
            "identical": _FLAG,
            "orders": _COUNT,
            "as_recorded": _COUNT,
            "is_exhaustive": _FLAG,
            "outstanding": _COUNT,
            "given_up": _list(_TEXT),
            "untried": _list(_TEXT),
            "timers": _FLAG,
            "timers_armed": _COUNT,
            "children_left": _COUNT,
            "seed": {"type": "integer"},
            "findings": _list(finding),
            "children": _list({"$ref": "#/$defs/report"}),
            "skipped": _list(_TEXT),
        }
    )
    return {"$ref": "#/$defs/report", "$defs": {"report": report}}


def _sensitivity() -> Schema:
    effect = record(
        {
            "steers": _FLAG,
            "shows": _FLAG,
            "changed": _TEXT,
            "changed_call": _TEXT,
            "is_gone": _FLAG,
            "diff": _list(_DIFFERENCE),
            "stopped": _TEXT,
        }
    )
    call = record(
        {
            "call": _TEXT,
            "kind": {"enum": ["tool", "model", "child", "input", "value"]},
            "label": _TEXT,
            "verdict": {"enum": ["nothing", "steers", "shows", "steers and shows", "not altered"]},
            "altered": _or_null(effect),
            "failed": _or_null(effect),
            "tokens": _COUNT,
            "duration_ms": _COUNT,
        }
    )
    return record(
        {
            "log": _TEXT,
            "program": _TEXT,
            "calls": _list(call),
            "unneeded": _COUNT,
            "tokens_unneeded": _COUNT,
            "duration_unneeded_ms": _COUNT,
            "unnamed": _COUNT,
            "given_up": _list(_TEXT),
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
            "models": _list(_TEXT),
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
            "guarantee": {"enum": ["", "matched"]},
            "scope": _TEXT,
            "how": {"enum": ["", "handoff", "delegation", "prompt", "open", "observed"]},
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


def _state_diff() -> Schema:
    return record(
        {
            "log": _TEXT,
            "before": _COUNT,
            "after": _COUNT,
            "before_digest": _HASH,
            "after_digest": _HASH,
            "differences": _list(_DIFFERENCE),
        }
    )


def _why() -> Schema:
    cause = record(
        {
            "log": _TEXT,
            "seq": _COUNT,
            "kind": _TEXT,
            "call": _TEXT,
            "how": {"enum": list(get_args(How))},
            "of": _or_null(_COUNT),
            "is_main": _FLAG,
            "line": _TEXT,
        }
    )
    return record({"log": _TEXT, "entry": _COUNT, "causes": _list(cause), "count": _COUNT})


def _recover() -> Schema:
    tail = record({"bytes": _COUNT, "sha256": _HASH, "kind": _TEXT, "begins": _TEXT})
    log = record(
        {
            "path": _TEXT,
            "state": {"enum": ["sealed", "joined", "open", "torn", "damaged", "missing"]},
            "entries": _COUNT,
            "head": _HASH,
            "bytes": _COUNT,
            "kept_bytes": _COUNT,
            "damage": _or_null(_DAMAGE),
            "tail": _or_null(tail),
        }
    )
    salvaged = record(
        {
            "log": _TEXT,
            "entries": _COUNT,
            "head": _HASH,
            "children": _COUNT,
            "blobs": _COUNT,
            "is_sealed": _FLAG,
        }
    )
    return record({"logs": _list(log), "salvaged": _or_null(salvaged)})


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
        },
        {
            "forked": record({"head": _HASH, "at": _COUNT, "edits": _list(_TEXT)}),
            "guarantee": {"const": "matched"},
        },
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
            "warnings": _list(_TEXT),
            "questions": _list(_QUESTION),
        }
    )


def _open_ends() -> Schema:
    doubt = record({"key": _TEXT, "tool": _TEXT, "arguments": _OBJECT})
    return record({"log": _TEXT, "questions": _list(_QUESTION), "doubts": _list(doubt)})


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
    "divergence": ("one divergence, as refold replay prints it", divergence_schema),
    "replay": ("refold replay LOG --json", _replay),
    "replay-command": ("refold replay LOG --json -- COMMAND", _watched),
    "replays": ("refold replay DIR --json: several logs", _replays),
    "drift": ("refold drift --json", _drift),
    "fork": ("refold fork --json", _fork),
    "explore": ("refold explore --json", _explore),
    "sensitivity": ("refold sensitivity --json", _sensitivity),
    "show": ("refold show --json: the delegation tree", _show),
    "events": ("refold show --events --json, refold tail --json", _events),
    "event": ("one line of a log; refold show --entry N", entry_schema),
    "diff": ("refold diff --json", _diff),
    "state": ("refold state --json", _state),
    "state-diff": ("refold state --diff N M --json", _state_diff),
    "why": ("refold why --json", _why),
    "ls": ("refold ls --json", _ls),
    "recover": ("refold recover --json", _recover),
    "pack": (
        "refold pack --json",
        lambda: record({"packed": _TEXT, "logs": _COUNT, "bytes": _COUNT}),
    ),
    "export": (
        "refold export --json",
        lambda: record({"exported": _TEXT, "to": _TEXT, "bytes": _COUNT}),
    ),
    "run": ("refold run --json, refold resume --json", _run),
    "open-ends": ("refold resume --list --json: what people have to say", _open_ends),
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
