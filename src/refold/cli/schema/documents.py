"""JSON schemas of the documents that `--json` prints; `refold schema NAME` shows them.

A document has exactly the members of its schema, so that a program may rely on both. The schemas of
classes are derived from them (`cli.schema.derived`, `cli.schema.events`). To add a document: a
schema in `DOCUMENTS`, and a run of its command in `tests/cli/schema/test_documents.py`. Rules:
CONTRACT.md §14.
"""

from collections.abc import Callable, Mapping
from typing import Final

from refold.cli.output import printed
from refold.cli.output.listed import ListedRun
from refold.cli.schema.derived import (
    ANY,
    COUNT,
    FLAG,
    HASH,
    OBJECT,
    TEXT,
    derived,
    list_of,
    or_null,
)
from refold.cli.schema.divergence import DIFFERENCE, divergence_schema
from refold.cli.schema.envelope import delegation_schema
from refold.cli.schema.events import Schema, entry_schema, plain, record
from refold.engine.events.outcome import Usage
from refold.engine.log.damage import Damage
from refold.engine.runners.recorded import Recording
from refold.replay.audit.verify import LogReport, Verification
from refold.replay.bulk.report import BulkReport
from refold.replay.compare.log_diff import LogDiff
from refold.replay.difference.pointer_diff import Difference
from refold.replay.explain.divergence import Divergence
from refold.replay.observed.effects import OwnCall, OwnCalls
from refold.replay.observed.folder import FileDifference
from refold.replay.observed.report import FailedAnswer, ObservedReport
from refold.replay.partial.drift_report import DriftReport
from refold.replay.reexecute.report import ReplayReport
from refold.replay.run.run_node import RunNode
from refold.replay.run.turns import Step, Turn
from refold.replay.testing.tripwire import Finding
from refold.replay.what_if.order_report import ExploreReport, OrderFinding
from refold.replay.what_if.sensitivity import CallSensitivity, SensitivityReport
from refold.store.push import Moved

_DAMAGE: Final = derived(Damage, line={"type": "integer", "minimum": 1})


_UNVERIFIED: Final = {"verified": {"const": False}}
"""Only where not all entries were verified now."""
_HASHES: Final = {"head": HASH, "tree_digest": HASH}


def _known() -> Mapping[type, Schema]:
    """Return the schemas that many documents share and that are more exact than their classes."""
    known: dict[type, Schema] = {Difference: DIFFERENCE, Divergence: divergence_schema()}
    known |= {OwnCall: derived(OwnCall)}
    return known | {Damage: _DAMAGE, LogReport: derived(LogReport, {Damage: _DAMAGE}, **_HASHES)}


def _of(kind: type, /, **told: Schema) -> Schema:
    return derived(kind, _known(), **told)


def _below_itself(kind: type, name: str, /, **told: Schema) -> Schema:
    """Return the schema of an object that holds more of its kind, as `children`."""
    own = {"$ref": f"#/$defs/{name}"}
    return {**own, "$defs": {name: _of(kind, children=list_of(own), **told)}}


def _replay() -> Schema:
    return _of(ReplayReport, findings=or_null(list_of(_of(Finding))))


def _watched() -> Schema:
    names = ("volatile", "volatile_texts", "unordered", "unordered_lines", "output")
    rules = {name: list_of(TEXT) for name in names}
    return _of(ObservedReport, rules=record({}, rules), guarantee={"const": "matched"})


def _explore() -> Schema:
    texts = dict.fromkeys(("kind", "name", "call", "label"), TEXT)
    asked = record({**texts, "arguments": ANY})
    finding = _of(OrderFinding, digest=HASH, missing=or_null(asked))
    return _of(ExploreReport, findings=list_of(finding))


def _turn() -> Schema:
    who = dict.fromkeys(("agent", "scope", "log"), TEXT)
    interval = list_of(or_null(COUNT))
    known = {**_known(), Step: derived(Step, interval=interval)}
    own = {"messages": list_of(OBJECT), "answer": or_null(OBJECT)}
    return record({**who, "turns": COUNT, "turn": derived(Turn, known, interval=interval, **own)})


def _sensitivity() -> Schema:
    verdicts = ["nothing", "steers", "shows", "steers and shows", "not altered"]
    kinds = ["tool", "model", "child", "input", "value"]
    call = _of(CallSensitivity, kind={"enum": kinds}, verdict={"enum": verdicts})
    return _of(SensitivityReport, calls=list_of(call), unneeded=COUNT)


def _show() -> Schema:
    hows = ["", "handoff", "header", "delegation", "prompt", "continues", "result", "observed"]
    tree = _below_itself(
        RunNode,
        "run",
        artifacts=list_of(record({"kind": TEXT, "name": TEXT})),
        head=HASH,
        guarantee={"enum": ["", "matched"]},
        how={"enum": hows},
    )
    run = tree["$defs"]["run"]
    spent = record(
        {"input_tokens": COUNT, "output_tokens": COUNT, "cost_usd_micros": or_null(COUNT)},
        {"untold": COUNT},
    )
    counts = (
        "runs",
        "subagents",
        "completed",
        "failed",
        "tools",
        "tools_failed",
        "requests",
        "notable",
    )
    told = {
        **dict.fromkeys(counts, COUNT),
        "statuses": OBJECT,
        "unseen": OBJECT,
        "requests_failed": OBJECT,
        "own": spent,
        "all": spent,
    }
    return {
        **run,
        "properties": {
            **run["properties"],
            "totals": record(told),
            "tree_digest": HASH,
            **_UNVERIFIED,
            "priced_now": record({"answers": COUNT, "prices": TEXT}),
        },
        "required": [*run["required"], "totals", "tree_digest"],
        "$defs": tree["$defs"],
    }


_GUARANTEE: Final = {"guarantee": {"const": "matched"}}
"""Only of a watched command's log."""


def _perhaps_matched(schema: Schema, **more: Schema) -> Schema:
    return {**schema, "properties": {**schema["properties"], **_GUARANTEE, **more}}


def _state() -> Schema:
    needed = ["state_version", "status", "entries", "open", "tools", "children"]
    state = {**OBJECT, "required": needed}
    return _perhaps_matched(
        _of(printed.PrintedState, digest=HASH, recorded_digest=or_null(HASH), state=state)
    )


def _states() -> Schema:
    return _perhaps_matched(_of(printed.PrintedStates, before_digest=HASH, after_digest=HASH))


def _why() -> Schema:
    return _perhaps_matched(_of(printed.PrintedCauses), **_UNVERIFIED)


def _diff() -> Schema:
    spent = record({"models": list_of(TEXT), "usage": _of(Usage), "own_usage": _of(Usage)})
    matched: Schema = {"enum": ["", "matched"]}
    files = list_of(_of(FileDifference))
    return _of(LogDiff, guarantee=matched, spent=record({"a": spent, "b": spent}), files=files)


def _ls() -> Schema:
    run = _perhaps_matched(_of(ListedRun))
    forked = record({"head": HASH, "at": COUNT, "edits": list_of(TEXT)})
    run["properties"] = {**run["properties"], "forked": forked}
    return record({"places": list_of(TEXT), "runs": list_of(run), "orphans": list_of(TEXT)})


def _verify() -> Schema:
    """Return the schema of `verify`, with what some of its options add."""
    tree = _of(Verification)
    more = {
        "salvaged": _of(printed.SalvagedLog, head=HASH),
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


def _run() -> Schema:
    return _of(Recording, data_digest=HASH, **_HASHES)


DOCUMENTS: Final[dict[str, tuple[str, Callable[[], Schema]]]] = {
    "verify": ("refold verify --json", _verify),
    "sign": (
        "refold sign --json",
        lambda: record(
            {"key": TEXT, "signed": list_of(record({"log": TEXT, "entries": COUNT, "head": HASH}))}
        ),
    ),
    "divergence": ("one divergence, as refold replay prints it", divergence_schema),
    "replay": ("refold replay LOG --json", _replay),
    "replay-command": ("refold replay LOG --json -- COMMAND", _watched),
    "effects": (
        "refold show LOG --effects --json",
        lambda: _of(OwnCalls, log=TEXT, programs=list_of(TEXT)),
    ),
    "replays": ("refold replay DIR --json: several logs", lambda: _of(BulkReport)),
    "replay-live": ("refold replay --live --json", lambda: _of(DriftReport)),
    "fork": ("refold fork --json", lambda: _of(printed.PrintedFork)),
    "resume-command": (
        "refold resume LOG --json -- COMMAND, refold fork LOG --again AGENT --json -- COMMAND",
        lambda: _of(printed.PrintedResume),
    ),
    "explore": ("refold explore --json", _explore),
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
    "files": ("refold files --json", lambda: _of(printed.PrintedFiles, digest=HASH)),
    "state-diff": ("refold show --at N --to M --json", _states),
    "why": ("refold why --json", _why),
    "ls": ("refold ls --json", _ls),
    "store": (
        "refold push --json, refold pull --json, refold ls URL --json",
        lambda: record({"store": TEXT, "runs": list_of(_of(Moved, head=HASH))}),
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
    "run": (
        "refold run --json, refold resume --json",
        _run,
    ),
    "open-ends": (
        "refold resume --list --json: open questions and doubts",
        lambda: _of(printed.PrintedEnds),
    ),
    "agents": ("refold run DIR --dry-run --json", lambda: _of(printed.CheckedAgents)),
    "delegation": ("the request to a subprocess child, and its reply", delegation_schema),
    "demo": ("refold demo --json", lambda: _of(printed.PrintedDemo)),
}
"""By name: the described document, and the maker of the schema."""


def schema(name: str) -> Schema:
    """Return the schema of that name, complete with its dialect and title.

    Raises:
        KeyError: no schema has that name.
    """
    title, make = DOCUMENTS[name]
    return plain(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **make()}
    )
