"""The page in other forms: Chrome trace events, and a summary in Markdown.

Neither makes the page's document, which takes many times the memory. Text of a log is text in both:
markup in it is escaped. Rules: CONTRACT.md §14.16.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final

from refold.engine.events.outcome import Usage
from refold.page.document import Page
from refold.page.one_run import OneRun
from refold.page.turns import left_out, spent, without_content
from refold.replay.run.amounts import tokens
from refold.replay.run.opened_run import Agent
from refold.replay.run.tree_text import printable
from refold.replay.run.turns import Step, Turn

_TIMED: Final = ("model", "tool", "child", "input", "timer", "aside")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>()#|!~&@])")
_TOKENS: Final = ("input_tokens", "output_tokens", "untold")
_TEXT_MAX: Final = 300
"""Characters of a text in a summary."""
_ROWS_MAX: Final = 50
"""Runs that did not complete, in a summary."""


def trace_text(one: OneRun) -> Iterator[bytes]:
    """Yield the parts of a file of Chrome trace events, which Perfetto and Chrome show."""
    made_by = json.dumps({"generator": "Refold"})  # first: a file of ours is known by how it begins
    yield f'{{"otherData": {made_by}, "traceEvents": ['.encode()
    for number, event in enumerate(trace_events(one)):
        yield (", " * (number > 0) + json.dumps(event)).encode()
    yield b'], "displayTimeUnit": "ms"}\n'


def trace_events(one: OneRun) -> Iterator[dict[str, Any]]:
    """Yield the agents of a run as Chrome trace events."""
    last = max((each.interval[1] or 0 for each in one.run.agents if each.interval), default=0)
    for pid, agent in enumerate(one.run.agents):
        facts = one.agent(agent)
        start, ended = facts["interval"]
        if start is None:
            continue
        name = f"{facts['name']} {facts['number'] or ''}".rstrip()
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        told = facts["told"] if one.content else left_out(facts["told"])
        args = {"told": told, "spent": facts["spent"]}
        how = facts["standing"] or facts["status"]
        whole = [facts["seq"], "run", name, start, ended, how, args]
        ends: list[int] = []  # of the last bar of each row: bars of one row may not overlap
        for entry, kind, label, began, end, status, more in chain([whole], _bars(agent)):
            over = max(began, last if end is None else end)
            row = next((at for at, free in enumerate(ends) if free <= began), len(ends))
            ends[row:] = [over, *ends[row + 1 :]]
            event = {"ph": "X", "name": label, "cat": kind, "pid": pid, "tid": row, "ts": began}
            told = {"entry": entry, "status": status} | more
            yield event | {"dur": over - began, "args": told}


def _bars(agent: Agent) -> Iterator[list[Any]]:
    """Yield what took time: entry, kind, name, start, end, status, and what else is known."""
    found: list[Turn | Step] = [turn for turn in agent.turns if turn.n]
    found += (step for turn in agent.turns for step in turn.steps if step.kind in _TIMED)
    for one in sorted(found, key=lambda one: one.entries[0]):
        if isinstance(one, Turn):
            kind, name, more = "model", one.model, {"spent": spent(one)}
        else:
            kind, name, more = one.kind, one.name or one.kind, {}
        yield [one.entries[0], kind, name, *one.interval, one.status, more]


def summary(page: Page) -> str:
    """Return a summary in Markdown, for a pull request or a CI step."""
    return "\n".join(_lines(page)) + "\n"


def _lines(page: Page) -> Iterator[str]:
    one = page.sides[0]
    verdict, totals = one.verdict(), one.run.totals
    agents = [one.facts(each.node) for each in one.run.agents]
    agents = agents if one.content else without_content(agents)
    tree = agents[0]
    yield f"### {_cell(page.title)}: {_cell(tree['standing'] or tree['status'])}"
    yield ""
    answers = {name: "yes" if verdict[name] else "**no**" for name in ("intact", "complete")}
    checked = f"intact: {answers['intact']}, complete: {answers['complete']}, not signed."
    yield f"Log {_cell(one.log.name)} {checked}"
    for each in verdict["problems"][:_ROWS_MAX]:
        yield f"- {_cell(each['name'])}:{each['line']}: {_cell(each['what'])}"
    yield from _more(len(verdict["problems"]))
    yield ""
    if page.diff:
        yield from _differences(page.diff)
    else:
        yield "| runs | completed below | failed | tool calls | requests | tokens | cost | time |"
        yield "|---|---|---|---|---|---|---|---|"
        used, cost = totals["all"], totals["all"]["cost_usd_micros"]
        told = Usage(**{name: used[name] for name in _TOKENS if name in used})
        price = "-" if cost is None else f"${cost / 1_000_000:,.4f}"
        took = "-" if tree["duration_ms"] is None else f"{tree['duration_ms'] / 1000:,.1f} s"
        counts = [totals[name] for name in ("runs", "completed", "failed", "tools", "requests")]
        cells = [*(f"{count:,}" for count in counts), tokens(told) or "0", price, took]
        yield f"| {' | '.join(cells)} |"
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
