"""The page's document in other forms: Chrome trace events, and a summary in Markdown.

Text of a log is text in both: markup in it is escaped. Rules: CONTRACT.md §14.16.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from refold.engine.events.outcome import Usage
from refold.replay.run.amounts import tokens
from refold.replay.run.tree_text import printable

_TIMED: Final = ("model", "tool", "child", "input", "timer", "aside")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|!~&@])")
_TOKENS: Final = ("input_tokens", "output_tokens", "untold")
_TEXT_MAX: Final = 300
"""Characters of a text in a summary."""
_ROWS_MAX: Final = 50
"""Runs that did not complete, in a summary."""


def trace_events(document: dict[str, Any]) -> dict[str, Any]:
    """Return the agents as Chrome trace events, which Perfetto and Chrome show."""
    events: list[dict[str, Any]] = []
    last = max((each["interval"][1] or 0 for each in document["agents"]), default=0)
    for pid, agent in enumerate(document["agents"]):
        start, ended = agent["interval"]
        if start is None:
            continue
        name = f"{agent['name']} {agent['number'] or ''}".rstrip()
        events.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}})
        args = {"told": agent["told"], "spent": agent["spent"]}
        how = agent["standing"] or agent["status"]
        whole = [agent["seq"], "run", name, start, ended, how, args]
        ends: list[int] = []  # of the last bar of each row: bars of one row may not overlap
        for entry, kind, label, began, end, status, more in [whole, *sorted(_bars(agent))]:
            over = max(began, last if end is None else end)
            row = next((at for at, free in enumerate(ends) if free <= began), len(ends))
            ends[row:] = [over, *ends[row + 1 :]]
            event = {"ph": "X", "name": label, "cat": kind, "pid": pid, "tid": row, "ts": began}
            told = {"entry": entry, "status": status} | more
            events.append(event | {"dur": over - began, "args": told})
    made_by = {"generator": "Refold"}  # first: a file of ours is known by how it begins
    return {"otherData": made_by, "traceEvents": events, "displayTimeUnit": "ms"}


def _bars(agent: dict[str, Any]) -> Iterator[list[Any]]:
    """Yield what took time: entry, kind, name, start, end, status, and what else is known."""
    for turn in agent["turns"]:
        own = [("model", turn["model"], turn, {"spent": turn["spent"]})] if turn["n"] else []
        steps = [(each["kind"], each["name"], each, dict[str, Any]()) for each in turn["steps"]]
        for kind, name, one, more in (*own, *steps):
            if kind in _TIMED:
                yield [one["entries"][0], kind, name, *one["interval"], one["status"], more]


def summary(document: dict[str, Any]) -> str:
    """Return a summary in Markdown, for a pull request or a CI step."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: dict[str, Any]) -> Iterator[str]:
    agents, verdict, totals = document["agents"], document["verdict"], document["totals"]
    tree = agents[0]
    yield f"### {_cell(document['title'])}: {_cell(tree['standing'] or tree['status'])}"
    yield ""
    answers = {name: "yes" if verdict[name] else "**no**" for name in ("intact", "complete")}
    checked = f"intact: {answers['intact']}, complete: {answers['complete']}, not signed."
    yield f"Log {_cell(document['name'])} {checked}"
    for each in verdict["problems"][:_ROWS_MAX]:
        yield f"- {_cell(each['name'])}:{each['line']}: {_cell(each['what'])}"
    yield from _more(len(verdict["problems"]))
    yield ""
    if document["diff"] is None:
        yield "| runs | completed below | failed | tool calls | requests | tokens | cost | time |"
        yield "|---|---|---|---|---|---|---|---|"
        spent, cost = totals["all"], totals["all"]["cost_usd_micros"]
        told = Usage(**{name: spent[name] for name in _TOKENS if name in spent})
        price = "-" if cost is None else f"${cost / 1_000_000:,.4f}"
        took = "-" if tree["duration_ms"] is None else f"{tree['duration_ms'] / 1000:,.1f} s"
        counts = [totals[name] for name in ("runs", "completed", "failed", "tools", "requests")]
        cells = [*(f"{count:,}" for count in counts), tokens(told) or "0", price, took]
        yield f"| {' | '.join(cells)} |"
    else:
        yield from _differences(document["diff"])
    bad = [node for node in agents if node["status"] not in ("completed", "running")]
    if bad:
        yield ""
        yield "**Did not complete:**"
    for node in bad[:_ROWS_MAX]:
        error = node["error"] or {}
        why = ": ".join(_cell(error[name]) for name in ("code", "message") if error.get(name))
        number = f" {node['number']}" if node["number"] else ""
        how = _cell(node["standing"] or node["status"])
        yield f"- {_cell(node['name'])}{number}: {how}{why and f' ({why})'}"
    yield from _more(len(bad))


def _more(count: int) -> Iterator[str]:
    if count > _ROWS_MAX:
        yield f"- and {count - _ROWS_MAX:,} more"


def _differences(diff: dict[str, Any]) -> Iterator[str]:
    if diff.get("error"):
        yield f"Not compared: {_cell(diff['error'])}"
    elif diff["identical"]:
        yield "No difference."
    else:
        yield f"{diff['count']:,} differences. Their causes, the first in time first:"
        yield ""
        for cause in diff["causes"][:_ROWS_MAX]:
            later = f" ({cause['follows']:,} later)" if cause["follows"] else ""
            yield f"- {_cell(cause['title'])}{later}"
        yield from _more(len(diff["causes"]))
        yield ""
    for note in diff["notes"][:_ROWS_MAX]:  # of what was not compared
        yield f"- {_cell(note)}"
    yield from _more(len(diff["notes"]))
    yield ""
    yield "| | this run | the other |"
    yield "|---|---|---|"
    for name, pair in diff["table"].items():
        yield f"| {name} | {' | '.join('-' if each is None else f'{each:,}' for each in pair)} |"


def _cell(value: Any) -> str:
    """Return a text on one line, cut, with nothing in it that Markdown or HTML reads."""
    line = " ".join(printable(str(value)).split())
    cut = line if len(line) <= _TEXT_MAX else f"{line[:_TEXT_MAX]}…"
    return _MARKUP.sub(r"\\\1", cut).replace("\\<", "&lt;").replace("\\@", "&#64;")
