"""One readable line an entry, for `refold show --events`.

An entry is described in a few words by its kind; the rest of it is in `--entry N`. Data is shown as
in the log, and nothing here fails on data that does not fit its kind: `verify` reports that.
"""

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from refold.cli.output import output, words
from refold.cli.output.output import Part
from refold.engine.encoding.canonical import Json, text_of_json
from refold.engine.errors import NotCanonical
from refold.engine.events.events import FOLDER, WIRE
from refold.replay.index.guarantee import is_observed

_CHARACTERS: Final = 600
"""Characters of an entry's description; a terminal cuts it further."""
_LEVELS: Final = 16
"""Of a value, in which texts that are kept beside the log are looked for."""

STYLES: Final = {
    "run.started": "bold",
    "run.finished": "bold",
    "child.started": "cyan",
    "child.finished": "cyan",
    "limit.hit": "yellow",
    "effect.cancelled": "yellow",
    "effect.late": "yellow",
    "run.resumed": "yellow",
}
"""By kind."""


KIND_WIDTH: Final = 14
"""Of the column of kinds, in the log of a program."""
KIND_WIDTH_OBSERVED: Final = 21
"""The width for a watched command: `x-refold.conversation`."""


EDITED: Final[Part] = ("edited ", "yellow")
"""The mark of an outcome that comes from the edit of a fork."""


def heading(width: int = KIND_WIDTH) -> None:
    """Print the headings of the columns of `print_entry`; `width` is that of the kinds."""
    output.line((f"{'entry':>5} {'ms':>8}  {'call':<8} {'kind':<{width}} what", "dim"))


def print_entry(
    row: Any,
    origin_us: int,
    width: int = KIND_WIDTH,
    edited: frozenset[tuple[str, str]] = frozenset(),
) -> None:
    """Print the line of one entry; `origin_us` is the monotonic time of the log's first.

    `edited` is kind and call of the entries that an edit of a fork made.
    """
    kind, data = str(row.kind), row.data
    output.line(
        (f"{row.seq:>5} {_elapsed_ms(row.meta, origin_us):>8}  ", "dim"),
        f"{row.call or ''!s:<8} ",
        (f"{kind:<{width}} ", STYLES.get(kind, "")),
        EDITED if (kind, row.call) in edited else "",
        *gist(kind, data),
        cut=True,
    )


def kind_width(log: Path) -> int:
    """Return the width of the column of kinds for a log."""
    return KIND_WIDTH_OBSERVED if is_observed(log) else KIND_WIDTH


def origin_of(meta: Any) -> int:
    """Return the monotonic time of an entry, in microseconds; 0 if it has none."""
    found = meta.get("mono_us") if isinstance(meta, dict) else None
    return found if isinstance(found, int) else 0


def compact(value: Json, most: int = _CHARACTERS) -> str:
    """Return a value in one line, cut at `most` characters."""
    told = _sizes_for_blobs(value)
    try:
        text = text_of_json(told)
    except NotCanonical:
        text = repr(told)
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _sizes_for_blobs(value: Json, levels: int = _LEVELS) -> Json:
    """Return a value with the size in the place of each text that is kept beside the log."""
    if not levels or not isinstance(value, list | dict):
        return value
    if isinstance(value, list):
        return [_sizes_for_blobs(item, levels - 1) for item in value]
    if value.keys() == {"$blob", "bytes"} and isinstance(value["bytes"], int):
        return f"({words.size(value['bytes'])} of text)"
    return {name: _sizes_for_blobs(item, levels - 1) for name, item in value.items()}


def _elapsed_ms(meta: Any, origin_us: int) -> str:
    at_us = origin_of(meta)
    return f"{(at_us - origin_us) / 1000:.1f}" if at_us >= origin_us else ""


def gist(kind: str, data: Any) -> list[Part]:
    """Describe an entry in a few words."""
    tell = _TELL.get(kind)
    try:
        return [compact(data)] if tell is None else tell(data)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        return [compact(data)]


def _arguments(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{name}={compact(value, 120)}" for name, value in arguments.items())


def _status(status: str) -> Part:
    return status, "green" if status == "ok" else output.status_style(status)


def error_text(error: Any) -> str:
    """Return an error's code and its message in one line, after a space; empty for none."""
    if not isinstance(error, dict):
        return ""
    return f" {error.get('code', '')}: {compact(error.get('message', ''))}"


def _run_started(data: Any) -> list[Part]:
    return [(data["program"], "bold"), f" depth {data['depth']}  input {compact(data['input'])}"]


def _run_finished(data: Any) -> list[Part]:
    reason = "" if data["reason"] == "done" else f" ({data['reason']})"
    said = data.get("summary") or compact(data.get("output"))
    return [_status(data["status"]), reason, error_text(data.get("error")) or f" {compact(said)}"]


def _tool_called(data: Any) -> list[Part]:
    return [(data["tool"], "bold"), f"({_arguments(data['arguments'])})"]


def _returned(data: Any) -> list[Part]:
    return [
        _status(data["status"]),
        error_text(data.get("error")) or f" {compact(data.get('result'))}",
    ]


def _asked(data: Any) -> list[Part]:
    count = words.counted(len(data["added"]), "message")
    said = [each.get("content") for each in data["added"] if each.get("role") == "user"]
    user = f"  user: {compact(said[-1])}" if said else ""
    return [(data["model"], "bold"), f" {count} added to {data['base']}{user}"]


def _answered(data: Any) -> list[Part]:
    if data["status"] != "ok":
        return [_status(data["status"]), error_text(data.get("error"))]
    message = data["message"]
    calls = [
        f"{each['name']}({_arguments(each['arguments'])})" for each in message.get("tool_calls", ())
    ]
    return [_status("ok"), f" {' '.join([*calls, compact(message.get('content') or '')]).strip()}"]


def _child_started(data: Any) -> list[Part]:
    asked = data["delegation"]
    brief = asked.get("brief") or compact(asked.get("input"))
    return [
        (f"{asked.get('agent') or asked['program']}", "bold"),
        f" #{data['number']}: {compact(brief)}",
    ]


def _child_finished(data: Any) -> list[Part]:
    outcome = data["outcome"]
    said = error_text(outcome.get("error")) or f" {compact(outcome.get('summary', ''))}"
    return [_status(outcome["status"]), said]


def _clock(data: Any) -> list[Part]:
    time = dt.datetime.fromtimestamp(data["time_us"] / 1_000_000, dt.UTC)
    return [time.isoformat(timespec="milliseconds")]


def _limit(data: Any) -> list[Part]:
    return [
        (data["limit"], "bold"),
        f": {data['allowed']:g} allowed, {data['observed']:g} {data['scope']}",
    ]


def _conversation(data: Any) -> list[Part]:
    call = f"{data['call']} {data['tool']}" if "call" in data else "one of several open calls"
    below = f"  below {call} ({data['how']})" if "how" in data else ""
    return [data["scope"], (f" {data['agent']}", "bold"), below]


def _wire(data: Any) -> list[Part]:
    status = (
        f"{data['status']} {data['headers'].get('content-type', '')} " if "status" in data else ""
    )
    size = words.size(sum(data["sizes"]))
    return [f"{status}{words.counted(len(data['sizes']), 'chunk')}, {size} {data.get('end', '…')}"]


def _tools(data: Any) -> list[Part]:
    names = [
        each.get("name") or each.get("function", {}).get("name", "?") for each in data["tools"]
    ]
    return [f"{words.counted(len(names), 'tool')}: {', '.join(map(str, names))}"]


def _folder(data: Any) -> list[Part]:
    """Describe a list only if it is in the line, not apart."""
    listed = data.get("changes", data.get("tree", ""))
    count = listed.count("\n") if isinstance(listed, str) else 0
    what = "file that differs from git" if data["when"] == "start" else "change"
    told = data.get("why") or (words.counted(count, what) if isinstance(listed, str) else "many")
    return [(data["when"], "bold"), f" {told}  {' '.join(data.get('calls', ()))}".rstrip()]


_TELL: Final[dict[str, Callable[[Any], list[Part]]]] = {
    "run.started": _run_started,
    "run.finished": _run_finished,
    "tool.called": _tool_called,
    "tool.returned": _returned,
    "model.asked": _asked,
    "model.answered": _answered,
    "child.started": _child_started,
    "child.finished": _child_finished,
    "timer.fired": lambda data: [
        f"after {data['virtual_us'] / 1_000_000:g} s",
        f", {data['length_us'] / 1_000_000:g} s long" if "length_us" in data else "",
    ],
    "clock.read": _clock,
    "value.drawn": lambda data: [f"{data['source']} {data['name']} {compact(data['value'])}"],
    "input.asked": lambda data: [compact(data["question"])],
    "input.given": lambda data: [compact(data["answer"])],
    "effect.cancelled": lambda data: [data["kind"]],
    "effect.late": lambda data: [f"{data['kind']}: {data['status']}"],
    "limit.hit": _limit,
    "note.added": lambda data: [
        data["text"],
        f" {compact(data['data'])}" if "data" in data else "",
    ],
    "session.changed": lambda data: [(data["event"], "bold"), f" {compact(data['data'])}"],
    "tokens.granted": lambda data: [f"{data['tokens']} to {data['to'] or 'this run'}"],
    "patch.marked": lambda data: [data["id"]],
    "run.resumed": lambda data: [f"attempt {data['attempt']}"],
    "x-refold.conversation": _conversation,
    "x-refold.messages": lambda data: [words.counted(len(data["added"]), "message")],
    "x-refold.tools": _tools,
    FOLDER: _folder,
    WIRE: _wire,
}
