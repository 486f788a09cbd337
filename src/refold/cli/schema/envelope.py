"""The JSON schema of a delegated run: the request to a subprocess child, and its reply.

Both cross pipes and are in no log. They are made in `engine.children.envelope` and read in
`engine.children.reply`; a test holds each of them to this schema. Rules: CONTRACT.md §7.2, §7.5.
"""

from typing import Final, get_args

import attrs

from refold.cli.schema.derived import ANY, COUNT, OBJECT, TEXT, by_name, derived, list_of, or_null
from refold.cli.schema.events import Schema, record
from refold.engine.children.envelope import VERSION
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import STATUSES, ArtifactKind, Fault, Usage
from refold.engine.ports.ports import Durability, Identity, Policy, Reference

_NUMBER: Final[Schema] = {"type": "number"}


def delegation_schema() -> Schema:
    """Return the schema of an object of `request` and `reply`."""
    return {
        "description": f"Version {VERSION}. The request is one JSON line on the descriptor "
        "REFOLD_REQUEST_FD, the reply one on REFOLD_REPLY_FD.",
        **record({"request": _request(), "reply": _reply()}),
    }


def _request() -> Schema:
    reference = derived(
        Reference,
        source=_described_text("a module, or the absolute path of a .py file"),
        arguments=or_null(OBJECT),
    )
    identity = derived(Identity, depth={"type": "integer", "minimum": 1})
    people = {
        "answers": OBJECT,
        "by": TEXT,
        "retry": list_of(TEXT),
        "fail": list_of(TEXT),
        "results": OBJECT,
    }
    return record(
        {
            "version": {"const": VERSION},
            "entry": _described_text("the callable in the child's process that gets this line"),
            "program": reference,
            "program_name": TEXT,
            "brief": _described_text("the task in words"),
            "input": ANY,
            "identity": identity,
            "limits": record({}, {field.name: _NUMBER for field in attrs.fields(Limits)}),
            "policy": derived(Policy),
            "log": or_null(_described_text("where the child writes its own log")),
            "durability": {"enum": list(get_args(Durability))},
            "tools": list_of(reference),
            "models": by_name(reference),
            "runner": _described_text("the runner of the child's own children"),
            "session": or_null(
                record({"factory": reference, "snapshot": OBJECT, "events": list_of(TEXT)})
            ),
            "people": record(people),
            "resume": or_null(reference),
            "vault": or_null(_vault()),
            "tokens_fd": or_null({"type": "integer"}),
            "clock_us": or_null({"type": "integer"}),
            "sys_path": list_of(TEXT),
            "cwd": TEXT,
        }
    )


def _vault() -> Schema:
    """Return the schema of redaction and secrets: the one part of an envelope that holds values."""
    lists = ("tools", "environment", "secrets", "named", "keys", "volatile")
    texts = list_of(TEXT)
    return record({**dict.fromkeys(lists, texts), "paths": by_name(texts), "given": by_name(TEXT)})


def _reply() -> Schema:
    usage = {each.name: TEXT if each.name == "prices" else COUNT for each in attrs.fields(Usage)}
    kinds = {"enum": list(get_args(ArtifactKind))}
    return record(
        {"status": {"enum": list(STATUSES)}, "summary": TEXT},
        {
            "output": ANY,
            "artifacts": list_of(record({"kind": kinds, "value": TEXT}, {"name": TEXT})),
            "error": or_null(derived(Fault)),
            "tools_used": list_of(TEXT),
            "usage": record({}, usage),
        },
    )


def _described_text(description: str) -> Schema:
    return {**TEXT, "description": description}
