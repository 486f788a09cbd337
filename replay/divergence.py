"""The first place where a re-execution differs from its record, for people and for machines.

`replay.world` finds it, `replay.naming` finds its category; this file says what it is and how it
reads.  The categories are CONTRACT.md §12.4.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

import attrs

from refold.engine.canonical import Json, encode
from refold.engine.log import Entry
from refold.replay.items import item_of
from refold.replay.pointer_diff import Difference, differences, shown

Category = Literal[
    "missing_call",
    "extra_call",
    "reordered",
    "kind_changed",
    "name_changed",
    "args_changed",
    "result_changed",
    "output_changed",
    "unconsumed",
    "unrecorded_await",
    "log_damaged",
    "environment",
]

HEADLINES: Final[dict[Category, str]] = {
    "missing_call": "a recorded call is not made any more",
    "extra_call": "a call is made that was not recorded",
    "reordered": "calls are made in another order",
    "kind_changed": "something else is asked for than was recorded",
    "name_changed": "another name is called than was recorded",
    "args_changed": "a call is made with other arguments",
    "result_changed": "an effect that ran live gave another result",
    "output_changed": "the run ends otherwise than recorded",
    "unconsumed": "the program ends before the record does",
    "unrecorded_await": "the program waits where the record went on",
    "log_damaged": "the log cannot be trusted",
    "environment": "the program behaves otherwise in this environment",
}


@attrs.frozen(kw_only=True)
class Divergence:
    """Where, what was recorded, what is asked now, and what probably happened."""

    category: Category
    where: str
    """`root > researcher[2] > search#3`: names from the root down."""
    log: str
    """The log that the run was compared with."""
    call: str = ""
    """The call key; empty for the run itself."""
    seq: int | None = None
    """Of the recorded entry; `None` where the record has none."""
    recorded: Json = None
    """{kind, name, call, arguments} of the recorded request, or the recorded end of the run."""
    now: Json = None
    """The same, of what the program asks or gives now."""
    diff: tuple[Difference, ...] = ()
    """From `recorded` to `now`."""
    last: tuple[str, ...] = ()
    """The last entries that matched, one line each."""
    file: str = ""
    """The program's file; empty where it is not known."""
    line: int = 0
    fingerprints: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    """What else is not as it was: name → (recorded, now)."""
    cause: str = ""
    """The likely cause, and what to do."""

    def as_json(self) -> dict[str, Json]:
        """Return the divergence as `refold replay --json` prints it."""
        return {
            "category": self.category,
            "headline": HEADLINES[self.category],
            "where": self.where,
            "log": self.log,
            "call": self.call,
            "seq": self.seq,
            "recorded": self.recorded,
            "now": self.now,
            "diff": [difference.as_json() for difference in self.diff],
            "last": list(self.last),
            "file": self.file,
            "line": self.line,
            "fingerprints": {name: list(pair) for name, pair in self.fingerprints.items()},
            "cause": self.cause,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Return a divergence from what `as_json` gave."""
        fields = {field.name: document[field.name] for field in attrs.fields(cls)}
        fields["diff"] = tuple(
            Difference(one["pointer"], one["kind"], one.get("before"), one.get("after"))
            for one in document["diff"]
        )
        fields["last"] = tuple(document["last"])
        fields["fingerprints"] = {
            name: (pair[0], pair[1]) for name, pair in document["fingerprints"].items()
        }
        return cls(**fields)

    def __str__(self) -> str:
        lines = [f"{self.category}: {HEADLINES[self.category]}", f"  where     {self.where}"]
        if self.file:
            lines.append(f"  program   {self.file}:{self.line}")
        at = f"  (entry {self.seq} of {self.log})" if self.seq is not None else ""
        if self.recorded is not None or self.seq is not None:
            lines.append(f"  recorded  {_request(self.recorded)}{at}")
        if self.now is not None or self.recorded is not None:
            lines.append(f"  now       {_request(self.now)}")
        lines += [f"  differs   {difference}" for difference in self.diff[:_DIFFS_SHOWN]]
        if len(self.diff) > _DIFFS_SHOWN:
            lines.append(f"            … and in {len(self.diff) - _DIFFS_SHOWN} more places")
        lines += [f"  matched   {line}" for line in self.last[-_LAST_SHOWN:]]
        lines += [
            f"  changed   {name}: {before[:16]} → {now[:16]}"
            for name, (before, now) in self.fingerprints.items()
        ]
        if self.cause:
            lines.append(f"  likely    {self.cause}")
        return "\n".join(lines)


_DIFFS_SHOWN: Final = 8
_LAST_SHOWN: Final = 3


def _request(value: Json) -> str:
    """Return a request on one line: `search(query="x")  0#1`, or any other value as JSON."""
    if value is None:
        return "nothing"
    if not isinstance(value, Mapping) or "kind" not in value:
        return shown(value, 400)
    kind, arguments = value["kind"], value.get("arguments")
    if kind == "run.finished":
        if isinstance(arguments, Mapping) and isinstance(arguments.get("error"), Mapping):
            return f"the program ends: {arguments['status']}: {arguments['error'].get('message')}"
        return f"the program ends: {shown(arguments, 120)}"
    name = value.get("name") or ""
    text = f"{name if kind == 'tool' else f'{kind} {name}'.strip()}{_inside(kind, arguments)}"
    return f"{text}  {value['call']}" if value.get("call") else text


def _inside(kind: str, arguments: Json) -> str:
    """Return what tells one request from another, in parentheses; the whole is in the JSON."""
    if not isinstance(arguments, Mapping):
        return ""
    match kind:
        case "tool":
            return f"({', '.join(f'{key}={shown(item, 40)}' for key, item in arguments.items())})"
        case "child":
            return f"({shown(arguments.get('brief') or arguments.get('input'), 80)})"
        case "model":
            return f"({shown(arguments.get('added'), 80)})"
        case "note":
            return f"({shown(arguments.get('text'), 80)})"
        case _:
            return f"({shown(arguments, 80)})"


def line_of(entry: Entry, data: Json) -> str:
    """Return an entry on one line, for the list of what still matched."""
    item = item_of(entry.kind, entry.call, data)
    if item is not None and item.kind not in ("timer", "clock"):
        return f"{entry.seq} {entry.kind} {_request(item.as_json())}"
    result = data.get("result", data.get("message", data.get("outcome"))) if data else None
    tail = f" {shown(result, 60)}" if result is not None else ""
    return f"{entry.seq} {entry.kind} {entry.call or ''}{tail}".rstrip()


_CLOCK: Final = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b1[5-9]\d{8}(\.\d+)?\b|\b1[5-9]\d{11}\b")
_UUID: Final = re.compile(
    r"\b(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32})\b",
    re.IGNORECASE,
)
_ADDRESS: Final = re.compile(r"0x[0-9a-f]{6,}")


_BY_KIND: Final = {
    "reordered": "the order of a set or of a directory listing decides: sort it before it is used",
    "unrecorded_await": (
        "an await was added or moved; what it waits for came later, or never, in the record"
    ),
    "log_damaged": "`refold verify` says what is intact; restore the log from a copy",
}
_ANYTHING: Final = (
    "something outside run decides: a clock, randomness, the environment, a file, a global, "
    "or code that the program calls and that has changed"
)


def likely_cause(
    kind: str, diff: tuple[Difference, ...], fingerprints: Mapping[str, tuple[str, str]]
) -> str:
    """Return the likely cause of a divergence, and what to do; by what differs and what changed."""
    if "program" in fingerprints:
        recorded, now = fingerprints["program"]
        return f"the log was recorded from {recorded!r}, and {now!r} was run: name the other one"
    texts = [(_text(one.before), _text(one.after)) for one in diff if one.kind == "changed"]
    if texts and all(_UUID.search(a) and _UUID.search(b) for a, b in texts):
        return "a uuid that was drawn outside run: use run.uuid()"
    if texts and all(_CLOCK.search(a) and _CLOCK.search(b) for a, b in texts):
        return "a clock that was read outside run: use run.now()"
    if texts and all(_ADDRESS.search(a) and _ADDRESS.search(b) for a, b in texts):
        return "a memory address in a text: give the object a repr of its own"
    if _is_shuffled(diff):
        return "the order of a set or of a directory listing: sort it before it is used"
    if "source" in fingerprints:
        return "the program has changed since it was recorded; if that was meant, record it again"
    if "python" in fingerprints:
        return "another version of Python: record again under this one"
    tools = sorted(name for name in fingerprints if name.startswith("tool "))
    if tools:
        return f"the definition of {', '.join(tools)} has changed"
    return _BY_KIND.get(kind, _ANYTHING)


def _is_shuffled(diff: tuple[Difference, ...]) -> bool:
    before = sorted(encode(one.before) for one in diff if one.kind != "added")
    after = sorted(encode(one.after) for one in diff if one.kind != "removed")
    in_arrays = all(one.pointer.rpartition("/")[2].isdecimal() for one in diff)
    return len(diff) > 1 and in_arrays and before == after


def _text(value: Json) -> str:
    return value if isinstance(value, str) else encode(value).decode()


def between(recorded: Json, now: Json) -> tuple[Difference, ...]:
    """Return where two requests, or two ends of a run, differ: where another kind, only that."""
    if recorded is None or now is None:
        return ()
    found = differences(recorded, now)
    if recorded.get("kind") != now.get("kind"):
        return tuple(one for one in found if one.pointer == "/kind")
    return found
