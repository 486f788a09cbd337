"""JSON schemas of the documents that `--json` prints; `refold schema NAME` shows them.

A document has exactly the members of its schema, so that a program may rely on both. The schemas of
classes are derived from them (`cli.schema.derived`, `cli.schema.events`). To add a document: a
schema in `DOCUMENTS`, and a run of its command in `tests/cli/schema/test_documents.py`. Rules:
CONTRACT.md §14.
"""

from collections.abc import Callable
from typing import Final, get_args

import attrs

from refold.cli.output import printed
from refold.cli.output.listed import ListedRun
from refold.cli.schema.derived import (
    ANY,
    COUNT,
    FLAG,
    HASH,
    OBJECT,
    TEXT,
    by_name,
    derived,
    list_of,
    or_null,
)
from refold.cli.schema.events import Schema, entry_schema, plain, record
from refold.engine.children.envelope import VERSION
from refold.engine.events.limits import Limits
from refold.engine.events.outcome import STATUSES, ArtifactKind, Fault, Usage
from refold.engine.ports.ports import Durability, Identity, Policy, Reference
from refold.engine.runners.recorded import Recording
from refold.replay.audit.verify import Verification
from refold.replay.audit.why import Causes
from refold.replay.bulk.report import BulkReport
from refold.replay.compare.log_diff import LogDiff
from refold.replay.difference.pointer_diff import Difference, DifferenceKind
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.effects import OwnCalls
from refold.replay.observed.folder import FileDifference
from refold.replay.observed.report import FailedAnswer, ObservedReport
from refold.replay.partial.drift_report import DriftReport
from refold.replay.reexecute.report import ReplayReport
from refold.replay.resume.open_ends import OpenEnds
from refold.replay.run.run_node import RunNode
from refold.replay.run.turns import Turn
from refold.replay.testing.tripwire import Finding
from refold.replay.what_if.order_report import ExploreReport
from refold.replay.what_if.sensitivity import SensitivityReport
from refold.store.push import Moved

_UNVERIFIED: Final = {"verified": {"const": False}}
"""Only where not all entries were verified now."""
_DIFFERENCE: Final = record(
    {"pointer": TEXT, "kind": {"enum": list(get_args(DifferenceKind))}},
    {"before": ANY, "after": ANY},
)
"""It lacks the side that has nothing there."""


def _of(kind: type, /, **told: Schema) -> Schema:
    return derived(kind, {Difference: _DIFFERENCE}, **told)


def _sensitivity() -> Schema:
    return _of(SensitivityReport, unneeded=COUNT)  # how many, instead of each


def _turn() -> Schema:
    who = dict.fromkeys(("agent", "scope", "log"), TEXT)
    own = {"messages": list_of(OBJECT), "answer": or_null(OBJECT)}
    return record({**who, "turns": COUNT, "turn": _of(Turn, **own)})


def _show() -> Schema:
    own = {"$ref": "#/$defs/run"}
    artifact = record({"kind": TEXT, "name": TEXT})
    run = _of(RunNode, artifacts=list_of(artifact), children=list_of(own))
    spent = record(
        {"input_tokens": COUNT, "output_tokens": COUNT, "cost_usd_micros": or_null(COUNT)},
        {"untold": COUNT},
    )
    counts = (
        "runs", "subagents", "completed", "failed", "tools", "tools_failed", "requests", "notable",
    )  # fmt: skip
    told = {
        **dict.fromkeys(counts, COUNT),
        **dict.fromkeys(("statuses", "unseen", "requests_failed"), OBJECT),
        **dict.fromkeys(("own", "all"), spent),
    }
    priced = {"priced_now": record({"answers": COUNT, "prices": TEXT})}
    whole = {**run["properties"], "totals": record(told), "tree_digest": HASH}
    return record(whole, _UNVERIFIED | priced) | {"$defs": {"run": run}}


_GUARANTEE: Final = {"guarantee": {"const": "matched"}}
"""Only of a watched command's log."""


def _perhaps_matched(schema: Schema, **more: Schema) -> Schema:
    return {**schema, "properties": {**schema["properties"], **_GUARANTEE, **more}}


def _state() -> Schema:
    needed = ["state_version", "status", "entries", "open", "tools", "children"]
    return _perhaps_matched(_of(printed.PrintedState, state={**OBJECT, "required": needed}))


def _states() -> Schema:
    return _perhaps_matched(_of(printed.PrintedStates))


def _why() -> Schema:
    return _perhaps_matched(_of(Causes, log=TEXT, entry=COUNT), **_UNVERIFIED)


def _diff() -> Schema:
    spent = record({"models": list_of(TEXT), "usage": _of(Usage), "own_usage": _of(Usage)})
    files = list_of(_of(FileDifference))
    return _of(LogDiff, spent=record({"a": spent, "b": spent}), files=files)


def _ls() -> Schema:
    run = _perhaps_matched(_of(ListedRun))
    forked = record({"head": HASH, "at": COUNT, "edits": list_of(TEXT)})
    run["properties"] = {**run["properties"], "forked": forked}
    return record({"places": list_of(TEXT), "runs": list_of(run), "orphans": list_of(TEXT)})


def _verify() -> Schema:
    """Return the schema of `verify`, with what some of its options add."""
    tree = _of(Verification)
    more = {
        "salvaged": _of(printed.SalvagedLog),
        "expected_heads": list_of(record({"log": TEXT, "expected": TEXT})),
    }
    return {**tree, "properties": {**tree["properties"], **more}}


def _events() -> Schema:
    entry = entry_schema()
    definitions = entry.pop("$defs")
    events = record({"log": TEXT, "entries": list_of(entry)}, _GUARANTEE | _UNVERIFIED)
    return {**events, "$defs": definitions}


def _export() -> Schema:
    """Return the schema of one export; of several, with a row for each."""
    counts = {**dict.fromkeys(("bytes", "logs", "spans", "lost"), COUNT), "left_out": OBJECT}
    place = {"exported": TEXT, "to": TEXT}
    runs = list_of(record({"log": TEXT}, {**place, **counts, "problem": TEXT}))
    return record(place, {**counts, "runs": runs})


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
    people = dict.fromkeys(("answers", "results"), OBJECT) | {"by": TEXT}
    people |= dict.fromkeys(("retry", "fail"), list_of(TEXT))
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
    artifacts = list_of(record({"kind": kinds, "value": TEXT}, {"name": TEXT}))
    return record(
        {"status": {"enum": list(STATUSES)}, "summary": TEXT},
        {
            "output": ANY,
            "artifacts": artifacts,
            "own": artifacts,
            "cut": FLAG,
            "error": or_null(derived(Fault)),
            "tools_used": list_of(TEXT),
            "usage": record({}, usage),
        },
    )


def _described_text(description: str) -> Schema:
    return {**TEXT, "description": description}


DOCUMENTS: Final[dict[str, tuple[str, type | Callable[[], Schema]]]] = {
    "verify": ("refold verify --json", _verify),
    "sign": (
        "refold sign --json",
        lambda: record(
            {"key": TEXT, "signed": list_of(record({"log": TEXT, "entries": COUNT, "head": HASH}))}
        ),
    ),
    "divergence": ("one divergence, as refold replay prints it", Divergence),
    "replay": (
        "refold replay LOG --json",
        lambda: _of(ReplayReport, findings=or_null(list_of(_of(Finding)))),
    ),
    "replay-command": ("refold replay LOG --json -- COMMAND", ObservedReport),
    "effects": (
        "refold show LOG --effects --json",
        lambda: _of(OwnCalls, log=TEXT, programs=list_of(TEXT)),
    ),
    "replays": ("refold replay DIR --json: several logs", BulkReport),
    "replay-live": ("refold replay --live --json", DriftReport),
    "fork": ("refold fork --json", printed.PrintedFork),
    "resume-command": (
        "refold resume LOG --json -- COMMAND, refold fork LOG --again AGENT --json -- COMMAND",
        printed.PrintedResume,
    ),
    "explore": ("refold explore --json", ExploreReport),
    "explore-results": ("refold explore --results --json", _sensitivity),
    "explore-command": (
        "refold explore LOG --json -- COMMAND",
        lambda: record({"log": TEXT, "fault": TEXT, "answers": list_of(_of(FailedAnswer))}),
    ),
    "show": ("refold show --json: the delegation tree", _show),
    "turn": ("refold show --turn N --json", _turn),
    "events": ("refold show --events --json", _events),
    "event": ("one line of a log; refold show --entry N", entry_schema),
    "diff": ("refold diff --json", _diff),
    "state": ("refold show --at N --json", _state),
    "files": ("refold files --json", printed.PrintedFiles),
    "state-diff": ("refold show --at N --to M --json", _states),
    "why": ("refold why --json", _why),
    "ls": ("refold ls --json", _ls),
    "store": (
        "refold push --json, refold pull --json, refold ls URL --json",
        lambda: record({"store": TEXT, "runs": list_of(_of(Moved))}),
    ),
    "rm": (
        "refold rm --json",
        lambda: record({"removed": list_of(TEXT), "bytes": COUNT, "dry_run": FLAG}),
    ),
    "ls-diff": (
        "refold ls --diff LOG --json",
        lambda: record({"runs": list_of(_of(printed.ComparedRun))}),
    ),
    "export": ("refold export --json", _export),
    "run": ("refold run --json, refold resume --json", Recording),
    "open-ends": (
        "refold resume --list --json: open questions and doubts",
        lambda: _of(OpenEnds, log=TEXT),
    ),
    "agents": ("refold run DIR --dry-run --json", printed.CheckedAgents),
    "delegation": ("the request to a subprocess child, and its reply", delegation_schema),
}
"""By name: the described document, and its class or the maker of its schema."""


def schema(name: str) -> Schema:
    """Return the schema of that name, complete with its dialect and title.

    Raises:
        KeyError: no schema has that name.
    """
    title, made = DOCUMENTS[name]
    whole = _of(made) if isinstance(made, type) else made()
    return plain(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **whole}
    )
